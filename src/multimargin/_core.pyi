"""Native core of multimargin. Not public: use the estimators."""

from collections.abc import Callable, Sequence
import enum
from typing import Annotated, Any, overload

import numpy
import numpy.typing
from numpy.typing import NDArray
from typing_extensions import CapsuleType

testing: Any


class Status(enum.Enum):
    """How a solver ended."""

    converged = 0

    max_iter = 1

    time_limit = 2

    stopped = 3
    """by the callback"""

    hand_over = 4
    """another solver would finish sooner"""

    imprecise = 5
    """rounding keeps the gap above the tolerance"""

class Limits:
    """When a solver stops, and whom it tells."""

    def __init__(self, *, tol: float, max_iter: int, threads: int, seed: int = 0, time_limit: float = float('inf'), report: Callable[[int, float, float | None, float | None], bool] | None = None, passes: int = 0, iterates: bool = False) -> None: ...

    @property
    def tol(self) -> float: ...

    @property
    def max_iter(self) -> int: ...

    @property
    def threads(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def passes(self) -> int: ...

    @property
    def time_limit(self) -> float: ...

    @property
    def report(self, /) -> Callable[[int, float, float | None, float | None], bool] | None: ...

class FitResult:
    """How a fit ended, and the bounds of the optimum it found."""

    @property
    def primal(self) -> float: ...

    @property
    def dual(self) -> float: ...

    @property
    def passes(self) -> int: ...

    @property
    def status(self) -> Status: ...

    @property
    def oracle_exact(self) -> float: ...

class Cells:
    """Cells of a sparse 0/1 matrix, row by row."""

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_labels: int) -> None: ...

class Labels:
    """The training labels and what their cells cost."""

    def __init__(self, *, positives: Cells, missing: Cells | None, left_out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], row: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], positive: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], negative: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], cells: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None) -> None: ...

class Margins:
    """The margins that a loss asks of the cells."""

    def __init__(self, *, positive: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], negative: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], cells: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None) -> None: ...

class Rows:
    pass

@overload
def dense_rows(x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Rows: ...

@overload
def dense_rows(x: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Rows: ...

@overload
def csr_rows(values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cols: int) -> Rows: ...

@overload
def csr_rows(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cols: int) -> Rows: ...

class LinearPrior:
    """A prior R on label correlations: R, or factor @ factor.T + diagonal."""

    def __init__(self, *, R: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, factor: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, diagonal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, root: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, own: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], mild: bool, dsyevd: CapsuleType, weigh: Callable, into_range: Callable, forms: Callable, transposed: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None) -> None: ...

class LinearM3LProblem:
    """A linear M3L problem."""

    def __init__(self, *, rows: Rows, labels: Labels, margins: Margins, bias: float, prior: LinearPrior | None, eigenbasis: Callable[[bool], tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any], numpy.typing.NDArray[numpy.float64]]]) -> None: ...

class LinearM3LFit:
    """What a linear M3L fit leaves."""

    @property
    def result(self) -> FitResult: ...

    @property
    def weights(self) -> NDArray:
        """labels x (features + 1); the last column holds the intercepts"""

    @property
    def beta(self) -> NDArray | None:
        """signed dual variables, where they are kept"""

    @property
    def newton(self) -> bool:
        """whether a Newton finish was made"""

def fit_linear_m3l(problem: LinearM3LProblem, limits: Limits, beta: object | None, weights: object | None, after_newton: bool, keep_beta: bool, patience: float | None, single: bool) -> LinearM3LFit: ...

def newton_may_serve(rows: int, features: int) -> bool: ...

def certify_linear_m3l(problem: LinearM3LProblem, weights: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], beta: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, threads: int) -> tuple[float, float]: ...

class RankSVMFit:
    """What a ranking SVM leaves."""

    @property
    def result(self) -> FitResult: ...

    @property
    def weights(self) -> NDArray:
        """
        labels x (features + 1); the last column belongs to the constant feature
        """

    @property
    def alpha(self) -> NDArray:
        """
        dual variables of the pairs of all rows, negative labels running fastest
        """

def fit_rank_svm(*, rows: Rows, labels: Labels, bias: float, limits: Limits) -> RankSVMFit: ...

class CategoryRankingFit:
    """What a ranking of labels leaves."""

    @property
    def result(self) -> FitResult: ...

    @property
    def weights(self) -> NDArray:
        """
        labels x (features + 1); the last column belongs to the constant feature
        """

    @property
    def dual(self) -> NDArray:
        """
        rows x labels: how often the weights of a label contain a row; none of a perceptron
        """

def fit_category_ranking(*, rows: Rows, labels: Labels, bias: float, limits: Limits) -> CategoryRankingFit: ...

def fit_category_perceptron(*, rows: Rows, labels: Labels, bias: float, worst: bool, limits: Limits) -> CategoryRankingFit: ...

class DualVariables:
    """Dual variables of calibrated separation, rows x atoms, row by row."""

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], atoms: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    @property
    def offsets(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]: ...

    @property
    def atoms(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]: ...

    @property
    def values(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]: ...

class SetFeatures:
    """
    Vectors of label sets under c1 |s & s'| + c2 binom(|s & s'|, 2), in parts.
    """

    def __init__(self, *, members: Cells, complement: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], pair_rows: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, n_pairs: int, c1: float, c2: float) -> None: ...

    @property
    def n_pairs(self) -> int:
        """pairs of labels that lie in some set"""

class SeparationFit:
    """What a fit of calibrated separation leaves."""

    @property
    def result(self) -> FitResult: ...

    @property
    def D(self) -> DualVariables:
        """dual variables"""

def fit_separation(*, rows: Rows, labels: Labels, cost: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], sets: Cells, features: SetFeatures | Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, bias: float, start: DualVariables | None, limits: Limits) -> SeparationFit: ...

def project_signed(values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], signs: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu', writable=False)], cost: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None: ...

class BoostingFit:
    """The rounds of boosting."""

    @property
    def result(self) -> FitResult: ...

    @property
    def features(self) -> NDArray:
        """of the splits, by round"""

    @property
    def thresholds(self) -> NDArray: ...

    @property
    def below(self) -> NDArray:
        """rounds x labels: values where the feature is at most the threshold"""

    @property
    def above(self) -> NDArray:
        """rounds x labels: values elsewhere"""

def fit_boosting(*, rows: Rows, positives: Cells, smoothing: float, presence: bool, limits: Limits) -> BoostingFit: ...

def gram_stride(rows: int) -> int: ...

def gram_matrix_float32(n: int) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

@overload
def mirror_gram(matrix: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], threads: int) -> None: ...

@overload
def mirror_gram(matrix: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], threads: int) -> None: ...

@overload
def sparse_products(x: Rows, columns: Rows, first: int, last: int, start: int, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def sparse_products(x: Rows, columns: Rows, first: int, last: int, start: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def manhattan(a: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def manhattan(a: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def chi2(a: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def chi2(a: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def additive_chi2(a: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def additive_chi2(a: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def gram_matrix_float64(n: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

class M3LVisit:
    """What a visit to a part has found."""

    @property
    def change(self) -> NDArray:
        """U = X' (change of beta), in state columns"""

    @property
    def own(self) -> NDArray:
        """|U_j|^2 of every feature"""

    @property
    def hinge(self) -> NDArray | None:
        """losses at the state given; None unless asked"""

    @property
    def linear(self) -> NDArray:
        """sum of y m beta before the visit"""

    @property
    def change_linear(self) -> NDArray:
        """by which it grew"""

    @property
    def local_gap(self) -> float:
        """
        sum of c max(t, 0) - b t over all cells, each before its own step in the first pass
        """

    @property
    def complete(self) -> bool:
        """False where the time limit came first"""

class M3LSums:
    """Sums over the rows of a part, in double precision."""

    @property
    def V(self) -> NDArray:
        """X' beta, (features + 1) x labels"""

    @property
    def linear(self) -> NDArray:
        """sum of y m beta by label"""

    @property
    def hinge(self) -> NDArray:
        """losses by label at the weights given"""

class M3LPartition:
    """A part of the rows of a linear M3L problem, trained in rounds."""

    def __init__(self, *, rows: object, labels: object, margins: Margins, bias: float, R: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, factor: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, transposed: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, diagonal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, threads: int = 1) -> None: ...

    @property
    def width(self) -> int:
        """columns of the state: labels, or the rank of a prior without diagonal"""

    @property
    def squares(self) -> NDArray:
        """sum of the squares of every feature, the constant one last"""

    def visit(self, state: object, scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], *, passes: int, seed: int, evaluate: bool = True, revocable: bool = True, time_limit: float = float('inf')) -> M3LVisit: ...

    def settle(self, theta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None) -> None: ...

    def sum(self, weights: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], *, time_limit: float = float('inf')) -> M3LSums: ...

    @property
    def beta(self) -> NDArray:
        """signed dual variables, rows x labels"""

    @beta.setter
    def beta(self, arg: object, /) -> None: ...

    def stop(self) -> None:
        """
        Ends the call at work in another thread, and every later one, with InterruptedError.
        """

class M3LNewtonValue:
    """Sums over the rows of a part at a point."""

    @property
    def V(self) -> NDArray:
        """X' beta(z), (features + 1) x labels"""

    @property
    def linear(self) -> NDArray:
        """sum of y m beta(z) by label"""

    @property
    def hinge(self) -> NDArray:
        """losses by label"""

    @property
    def H(self) -> NDArray | None:
        """
        sum of c x x' over free cells, of the labels marked: upper triangles; None unless asked
        """

class M3LNewtonPartition:
    """
    A part of the dense rows of a linear M3L problem, trained in Newton rounds.
    """

    def __init__(self, *, rows: object, labels: object, margins: Margins, bias: float, threads: int = 1) -> None: ...

    def value(self, U: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], tau: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> M3LNewtonValue:
        """Sums at U; the step to beta(z) waits for settle."""

    def system(self, U: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], tau: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], marked: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> M3LNewtonValue: ...

    def search(self, U: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], direction: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], tau: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], lengths: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray:
        """Changes of the smoothed losses, lengths x labels."""

    def settle(self, theta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None) -> None: ...

    def sum(self, weights: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> M3LSums: ...

    @property
    def beta(self) -> NDArray:
        """signed dual variables, rows x labels"""

    @beta.setter
    def beta(self, arg: object, /) -> None: ...

    def stop(self) -> None:
        """
        Ends the call at work in another thread, and every later one, with InterruptedError.
        """

class KernelM3LFit:
    """What a kernel M3L fit leaves."""

    @property
    def result(self) -> FitResult: ...

    @property
    def beta(self) -> NDArray:
        """coefficients of the rows, rows x labels"""

    @property
    def dual_beta(self) -> NDArray:
        """signed dual variables, rows x labels"""

    @property
    def intercept(self) -> NDArray:
        """shifts of the scores, of latent dimensions for a prior"""

def fit_kernel_m3l_float32(*, gram: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, compute: object | None, capacity: int, labels: Labels, margins: Margins, factor: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, bias: float, start: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, limits: Limits) -> KernelM3LFit: ...

def fit_kernel_m3l_float64(*, gram: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, compute: object | None, capacity: int, labels: Labels, margins: Margins, factor: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, bias: float, start: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, limits: Limits) -> KernelM3LFit: ...

class KernelCoefficients:
    def add_to_rows(self, values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], start: int, stop: int, first: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

    def add_to_columns(self, values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], start: int, stop: int, first: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], at: int) -> None: ...

def kernel_coefficients(starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_rows: int) -> KernelCoefficients: ...

def stratify(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: int, sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], shares: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, shuffle: bool, fold_of_row: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class TextError(ValueError):
    pass

class Kind(enum.Enum):
    number = 0

    binary = 1

    nominal = 2

    other = 3

class Header:
    @property
    def relation(self) -> bytes: ...

    @property
    def sparse(self) -> bool: ...

    @property
    def attributes(self) -> list[tuple[bytes, Kind, list[bytes], int]]: ...

MOST_FEATURES: int = 2147483646

MOST_LABELS: int = 16777216

def arff_header(text: bytes, max_bytes: int) -> Header: ...

def csv_header(text: bytes, delimiter: str, max_bytes: int) -> Header: ...

UNNAMED_FIRST_COLUMN: str = 'Unnamed: 0'

def arff_rows(text: bytes, header: Header, label_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], column_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: int, dense: bool, missing_as_nan: bool, max_bytes: int, text_at: int = -1) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))] | tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], list[bytes]]: ...

def csv_rows(text: bytes, header: Header, label_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], column_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: int, dense: bool, missing_as_nan: bool, max_bytes: int, text_at: int = -1) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))] | tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], list[bytes]]: ...

def libsvm_rows(text: bytes, max_bytes: int) -> tuple[tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], tuple[int, int, int, int], tuple[int, int, int, int], int, int]: ...

def xmc_rows(text: bytes, max_bytes: int) -> tuple[tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]], tuple[int, int, int, int], tuple[int, int, int, int], int, int]: ...

def predict_cut(u: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], pairs: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], largest: bool, y: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def cut_marginals(u: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], pairs: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], worth: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def f_score_path(u: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], pairs: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], truth: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], firm: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], low: float, high: float) -> tuple[NDArray, NDArray, NDArray, NDArray]: ...

def most_violating(*, u: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], pairs: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], truth: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], hamming: bool, miss: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], excess: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tol: float, node_limit: int, threads: int, y: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')]) -> tuple[NDArray, NDArray, NDArray]: ...

def published_oracle(*, u: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], pairs: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], truth: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int, y: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')]) -> tuple[NDArray, NDArray, NDArray]: ...

class SubmodularData:
    def __init__(self, *, rows: object, labels: Labels, pairs: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], factor: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], bias: float, hamming: bool, paper: bool, node_limit: int) -> None: ...

class Planes:
    """
    Label sets of the rows and their weights: the dual variables of a submodular fit.
    """

    def __init__(self, row: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def row(self) -> Annotated[NDArray[numpy.int64], dict(writable=False)]: ...

    @property
    def weight(self) -> Annotated[NDArray[numpy.float64], dict(writable=False)]: ...

    @property
    def offsets(self) -> Annotated[NDArray[numpy.int64], dict(writable=False)]: ...

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(writable=False)]: ...

    def __reduce__(self) -> tuple: ...

class SubmodularArrays:
    """The arrays of a submodular model."""

    def __init__(self, coef: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], intercept: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], attraction: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class SubmodularFit:
    """What a submodular fit leaves."""

    @property
    def result(self) -> FitResult: ...

    @property
    def coef(self) -> NDArray: ...

    @property
    def intercept(self) -> NDArray: ...

    @property
    def attraction(self) -> NDArray: ...

    @property
    def planes(self) -> Planes | None: ...

def fit_submodular(data: SubmodularData, planes: Planes | None, model: SubmodularArrays | None, keep_planes: bool, certify: bool, limits: Limits) -> SubmodularFit: ...

def fit_submodular_bundle(data: SubmodularData, stride: float, limits: Limits) -> SubmodularFit: ...

def certify_submodular(data: SubmodularData, model: SubmodularArrays, planes: Planes | None, threads: int) -> tuple[float, float | None, float]: ...

class LabelSubsets:
    """Subsets of the labels, one after the other."""

    def __init__(self, n_labels: int, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Component:
    """A connected component of the label graph."""

    @property
    def labels(self) -> list[int]: ...

    @property
    def treewidth(self) -> int: ...

    @property
    def method(self) -> str: ...

class Labellings:
    """The best labelling of every row."""

    @property
    def y(self) -> NDArray:
        """rows x labels, 0 or 1"""

    @property
    def value(self) -> NDArray: ...

    @property
    def bound(self) -> NDArray:
        """no labelling has more"""

    @property
    def exact(self) -> NDArray:
        """whether the labelling is proved to be the best"""

class Sums:
    """Sums over all labellings of every row."""

    @property
    def log_partition(self) -> NDArray: ...

    @property
    def moments(self) -> NDArray:
        """rows x subsets"""

class CliqueInference:
    """Inference compiled for a list of label subsets."""

    def __init__(self, subsets: LabelSubsets, *, method: str = 'auto', treewidth_limit: int = 12, node_limit: int = 1000, iteration_limit: int = 500) -> None: ...

    def maximize(self, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int) -> Labellings: ...

    def max_marginals(self, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int) -> NDArray: ...

    def sums(self, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int) -> Sums: ...

    @property
    def has_sums(self) -> bool: ...

    @property
    def treewidth(self) -> int: ...

    @property
    def components(self) -> list[Component]: ...

class LabelBits:
    """Truth and cost of every row, labels as bits."""

    def __init__(self, labels: Labels) -> None: ...

class Cliques:
    """
    The cliques of a model: the positions of their subsets, and r of the norm.
    """

    def __init__(self, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], budget: int) -> None: ...

class Atoms:
    """
    Distributions over labellings: each belongs to a row and has a weight; the true labelling of a row has the rest.
    """

    def __init__(self, row: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], bits: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def row(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]: ...

    @property
    def weight(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]: ...

    @property
    def bits(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)]:
        """bit k % 64 of word k / 64 is label k"""

    @property
    def rows(self) -> NDArray:
        """rows with atoms, each once"""

    def __reduce__(self) -> tuple: ...

class ProximalStep:
    """Where a proximal step begins, and the gap at which it ends."""

    def __init__(self, centre: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], enough: float) -> None: ...

class FeatureGroup:
    """Columns that the same cliques see, as a matrix of their own."""

    def __init__(self, *, rows: Rows, columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], nodes: bool, cliques: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class CliqueFit:
    """What the solver of a clique model leaves."""

    @property
    def result(self) -> FitResult: ...

    @property
    def weights(self) -> NDArray:
        """subsets x (features + 1)"""

    @property
    def eta(self) -> NDArray:
        """shares of the cliques"""

    @property
    def atoms(self) -> Atoms:
        """dual variables"""

def fit_cliques(*, rows: Rows, labels: LabelBits, bias: float, inference: CliqueInference, cliques: Cliques, eta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], groups: Sequence[FeatureGroup], start: Atoms | None, step: ProximalStep | None, limits: Limits) -> CliqueFit: ...

class PairSquares:
    """Squared dual weights of single labels and of pairs."""

    @property
    def labels(self) -> NDArray:
        """of each label; 0 of those left out"""

    @property
    def pairs(self) -> NDArray:
        """of each pair"""

    @property
    def expected_loss(self) -> float: ...

def pair_squares(*, rows: Rows, labels: LabelBits, bias: float, atoms: Atoms, pairs: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int) -> PairSquares: ...

def k_support(a: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], budget: int) -> tuple[float, NDArray]: ...

@overload
def clique_residuals(*, labels: LabelBits, subsets: LabelSubsets, atoms: Atoms, threads: int, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def clique_residuals(*, labels: LabelBits, subsets: LabelSubsets, atoms: Atoms, threads: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

class Marks:
    """Marked cells as the rows of each column."""

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_rows: int) -> None: ...

class SparseScores:
    """Scores of some cells, column by column."""

    def __init__(self, values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_rows: int) -> None: ...

class Groups:
    """Scores of the cells of each group, and to which members they belong."""

    def __init__(self, values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, n_members: int) -> None: ...

class LabelElimination:
    """Label subsets, and the order in which labels are eliminated."""

    def __init__(self, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], most_neighbours: int) -> None: ...

class Cuts:
    """
    The cuts of every label; label l has those from offsets[l] to offsets[l + 1].
    """

    @property
    def offsets(self) -> NDArray: ...

    @property
    def thresholds(self) -> NDArray: ...

    @property
    def hits(self) -> NDArray: ...

    @property
    def predicted(self) -> NDArray: ...

    @property
    def positives(self) -> NDArray: ...

    @property
    def squares(self) -> NDArray: ...

    @property
    def known(self) -> NDArray: ...

    @property
    def quota(self) -> NDArray: ...

    @property
    def lowest(self) -> NDArray: ...

def cuts(scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | SparseScores, positives: Marks, unknown: Marks | None, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Cuts: ...

def best_offset(groups: Groups, positives: Marks, unknown: Marks | None, group_weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], member_weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], beta_squared: float, at_least_one: bool) -> tuple[float, float]: ...

def lines(scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | SparseScores, positives: Marks, unknown: Marks | None, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float, targets: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], centre: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], precision: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], fixed_slope: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[NDArray, NDArray]: ...

def best_expected_f(probabilities: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], beta_squared: float) -> tuple[NDArray, NDArray]: ...

def label_counts(elimination: LabelElimination, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> NDArray: ...

def label_partition(elimination: LabelElimination, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> NDArray: ...

class KernelKind(enum.Enum):
    """Kernels with native values."""

    linear = 0

    rbf = 1

    poly = 2

    sigmoid = 3

    laplacian = 4

    chi2 = 5

    additive_chi2 = 6

class ScoredRows:
    """Rows to be scored, dense in any layout or CSR."""

class Scorer:
    """A model that has scores."""

    @property
    def dtype(self) -> str:
        """Precision of the scores."""

    @overload
    def scores(self, rows: ScoredRows, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], threads: int) -> bool: ...

    @overload
    def scores(self, rows: ScoredRows, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], threads: int) -> bool:
        """Fill out; return whether all scores are finite."""

    @overload
    def top(self, rows: ScoredRows, labels: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')], values: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], threads: int) -> bool: ...

    @overload
    def top(self, rows: ScoredRows, labels: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')], values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], threads: int) -> bool:
        """
        Fill labels and values, rows x k; return whether all scores are finite.
        """

    def positives(self, rows: ScoredRows, threads: int) -> tuple[NDArray, NDArray, bool]:
        """
        Offsets and labels with positive scores, and whether all scores are finite.
        """

@overload
def scored_rows(x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)]) -> ScoredRows: ...

@overload
def scored_rows(x: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)]) -> ScoredRows: ...

@overload
def scored_rows(x: Rows) -> ScoredRows: ...

@overload
def linear_scorer(weights: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], intercept: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Scorer: ...

@overload
def linear_scorer(weights: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)], intercept: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Scorer: ...

@overload
def sparse_linear_scorer(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], intercept: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Scorer: ...

@overload
def sparse_linear_scorer(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], intercept: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Scorer: ...

@overload
def kernel_scorer(coef: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], intercept: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], support: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, columns: Rows | None, kind: KernelKind, gamma: float, degree: float, coef0: float) -> Scorer: ...

@overload
def kernel_scorer(coef: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)], intercept: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], support: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, columns: Rows | None, kind: KernelKind, gamma: float, degree: float, coef0: float) -> Scorer: ...
