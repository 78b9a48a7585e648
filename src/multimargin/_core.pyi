"""Types of the native module."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Report = Callable[[int, float, float | None, float | None], bool]
Cells = tuple[NDArray[np.int64], NDArray[np.int32]]

def rehearse(seconds: float, threads: int, fail_at: int, report: Report | None, time_limit: float) -> int: ...

class Rows: ...

def dense_rows(x: NDArray[Any]) -> Rows: ...
def csr_rows(values: NDArray[Any], columns: NDArray[np.int32], offsets: NDArray[np.int64], cols: int) -> Rows: ...
def fit_linear_m3l(
    rows: Rows,
    n_labels: int,
    positives: Cells,
    missing: Cells | None,
    costs: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any] | None],
    prior: tuple[Any, ...] | None,
    weigh: Callable[[NDArray[Any]], NDArray[Any]] | None,
    bias: float,
    prior_margins: bool,
    start: NDArray[Any] | None,
    certifier: tuple[Any, Any, Any] | None,
    keep_beta: bool,
    passes: int,
    patience: float,
    tol: float,
    max_iter: int,
    threads: int,
    seed: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...
def certify_linear_m3l(
    rows: Rows,
    n_labels: int,
    positives: Cells,
    missing: Cells | None,
    certifier: tuple[Any, Any, Any],
    bias: float,
    weights: NDArray[np.float64],
    beta: NDArray[np.float64] | None,
    threads: int,
) -> tuple[float, float]: ...
def fit_rank_svm(
    rows: Rows,
    n_labels: int,
    positive: Cells,
    negative: Cells,
    cost: NDArray[np.float64],
    bias: float,
    tol: float,
    max_iter: int,
    seed: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...
def fit_separation(
    rows: Rows,
    sets: NDArray[np.uint64],
    n_labels: int,
    features: tuple[Any, ...] | NDArray[np.float64] | None,
    positive: NDArray[np.uint64],
    negative: NDArray[np.uint64],
    cost: NDArray[np.float64],
    bias: float,
    start: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]] | None,
    tol: float,
    max_iter: int,
    threads: int,
    seed: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...

class SubmodularData:
    def __init__(
        self,
        rows: Rows,
        n_labels: int,
        positives: Cells,
        missing: Cells | None,
        left_out: NDArray[np.uint8],
        cost: NDArray[np.float64],
        pairs: NDArray[np.int32],
        factor: NDArray[np.float64],
        bias: float,
        hamming: bool,
        paper: bool,
        node_limit: int,
    ) -> None: ...

def fit_submodular(
    data: SubmodularData,
    bundle_stride: float | None,
    start: tuple[Any, ...] | None,
    keep_planes: bool,
    certify: bool,
    tol: float,
    max_iter: int,
    threads: int,
    seed: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...
def certify_submodular(
    data: SubmodularData,
    model: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    planes: tuple[Any, ...] | None,
    threads: int,
) -> dict[str, Any]: ...
def gram_stride(rows: int) -> int: ...
def gram_matrix_float32(n: int) -> NDArray[np.float32]: ...
def gram_matrix_float64(n: int) -> NDArray[np.float64]: ...
def mirror_gram(matrix: NDArray[Any], threads: int) -> None: ...
def sparse_products(x: Rows, columns: Rows, first: int, last: int, start: int, out: NDArray[Any]) -> None: ...
def manhattan(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None: ...
def chi2(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None: ...
def additive_chi2(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None: ...
def fit_kernel_m3l_float32(
    gram: NDArray[Any] | None,
    compute: Callable[[NDArray[np.int32]], NDArray[Any]] | None,
    n_rows: int,
    capacity: int,
    n_labels: int,
    positives: Cells,
    missing: Cells | None,
    costs: tuple[NDArray[Any] | None, ...],
    factor: NDArray[Any] | None,
    targets: NDArray[Any] | None,
    bias: float,
    start: NDArray[Any] | None,
    tol: float,
    max_iter: int,
    threads: int,
    seed: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...
def project_signed(values: NDArray[np.float64], signs: NDArray[np.int8], cost: NDArray[np.float64]) -> None: ...
def predict_cut(
    u: NDArray[np.float64],
    pairs: NDArray[np.int32],
    w: NDArray[np.float64],
    largest: bool,
    y: NDArray[np.uint8],
) -> None: ...
def cut_marginals(
    u: NDArray[np.float64], pairs: NDArray[np.int32], w: NDArray[np.float64], worth: NDArray[np.float64]
) -> None: ...
def f_score_oracle(
    u: NDArray[np.float64],
    pairs: NDArray[np.int32],
    w: NDArray[np.float64],
    truth: NDArray[np.uint8],
    tol: float,
    node_limit: int,
    group_limit: int,
    y: NDArray[np.uint8],
) -> dict[str, Any]: ...
def paper_oracle(
    u: NDArray[np.float64],
    pairs: NDArray[np.int32],
    w: NDArray[np.float64],
    truth: NDArray[np.uint8],
    upwards: bool,
    certify: bool,
    y: NDArray[np.uint8],
) -> dict[str, Any]: ...
def exhaustive_oracle(
    u: NDArray[np.float64],
    pairs: NDArray[np.int32],
    w: NDArray[np.float64],
    truth: NDArray[np.uint8],
    loss: str,
    tie: float,
    smallest: NDArray[np.uint8],
    largest: NDArray[np.uint8],
) -> NDArray[np.float64]: ...
def f_score_path(
    u: NDArray[np.float64],
    pairs: NDArray[np.int32],
    w: NDArray[np.float64],
    truth: NDArray[np.uint8],
    firm: NDArray[np.uint8],
    low: float,
    high: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]: ...
def fit_kernel_m3l_float64(
    gram: NDArray[Any] | None,
    compute: Callable[[NDArray[np.int32]], NDArray[Any]] | None,
    n_rows: int,
    capacity: int,
    n_labels: int,
    positives: Cells,
    missing: Cells | None,
    costs: tuple[NDArray[Any] | None, ...],
    factor: NDArray[Any] | None,
    targets: NDArray[Any] | None,
    bias: float,
    start: NDArray[Any] | None,
    tol: float,
    max_iter: int,
    threads: int,
    seed: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...
def stratify(
    offsets: NDArray[np.int64],
    columns: NDArray[np.int32],
    labels: int,
    sizes: NDArray[np.int64],
    shares: NDArray[np.int64],
    seed: int,
    shuffle: bool,
    fold_of_row: NDArray[np.int32],
) -> None: ...
def roof_duality(
    unary: NDArray[np.float64], pairs: NDArray[np.int32], coupling: NDArray[np.float64]
) -> tuple[NDArray[np.int8], NDArray[np.float64]]: ...

class CliqueInference:
    def __init__(
        self,
        n_labels: int,
        starts: NDArray[np.int64],
        members: NDArray[np.int32],
        method: str,
        treewidth_limit: int,
        node_limit: int,
        iteration_limit: int,
    ) -> None: ...
    def maximize(
        self, scores: NDArray[np.float64], threads: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]: ...
    def max_marginals(self, scores: NDArray[np.float64], threads: int) -> NDArray[np.float64]: ...
    def log_partition(
        self, scores: NDArray[np.float64], threads: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    @property
    def has_sums(self) -> bool: ...
    @property
    def treewidth(self) -> int: ...
    @property
    def components(self) -> list[tuple[list[int], int, str]]: ...

Floats = NDArray[np.float64]
Csr = tuple[Floats, NDArray[np.int32], NDArray[np.int64]]
LabelRows = tuple[NDArray[np.int32], NDArray[np.int64]]
# The smallest index seen and its line, the largest and its line.
Extent = tuple[int, int, int, int]

class TextError(ValueError): ...

class Kind(Enum):
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

MOST_FEATURES: int
MOST_LABELS: int

def arff_header(text: bytes, max_bytes: int) -> Header: ...
def csv_header(text: bytes, delimiter: str, max_bytes: int) -> Header: ...
def arff_rows(
    text: bytes,
    header: Header,
    label_of: NDArray[np.int32],
    column_of: NDArray[np.int32],
    columns: int,
    dense: bool,
    missing_as_nan: bool,
    max_bytes: int,
) -> tuple[Floats | Csr, LabelRows]: ...
def csv_rows(
    text: bytes,
    header: Header,
    label_of: NDArray[np.int32],
    column_of: NDArray[np.int32],
    columns: int,
    dense: bool,
    missing_as_nan: bool,
    max_bytes: int,
) -> tuple[Floats | Csr, LabelRows]: ...
def libsvm_rows(text: bytes, max_bytes: int) -> tuple[Csr, LabelRows, Extent, Extent, int, int]: ...
def xmc_rows(text: bytes, max_bytes: int) -> tuple[Csr, LabelRows, Extent, Extent, int, int]: ...
def refine_linear_m3l(
    rows: Rows,
    n_labels: int,
    positives: Cells,
    missing: Cells | None,
    costs: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any] | None],
    factor: tuple[Any, ...] | None,
    basis: tuple[Any, ...],
    bias: float,
    start: NDArray[Any],
    weights: NDArray[Any] | None,
    certifier: tuple[Any, Any, Any] | None,
    weigh: Callable[[NDArray[Any]], NDArray[Any]] | None,
    passes: int,
    tol: float,
    max_iter: int,
    threads: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...

class CliqueLabels:
    def __init__(
        self, positives: Cells, missing: Cells | None, left_out: NDArray[np.uint8], cost: NDArray[np.float64]
    ) -> None: ...

def k_support(a: NDArray[np.float64], budget: int) -> tuple[float, NDArray[np.float64]]: ...
def fit_cliques(
    rows: Rows,
    labels: CliqueLabels,
    bias: float,
    subsets: tuple[NDArray[np.int64], NDArray[np.int32]],
    cliques: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]],
    budget: int,
    eta: NDArray[np.float64],
    inference: CliqueInference,
    start: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.uint64]] | None,
    centre: NDArray[np.float64] | None,
    enough: float,
    oracle_calls: int,
    pairwise: bool,
    fixed_eta: bool,
    tol: float,
    max_iter: int,
    threads: int,
    seed: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...
def clique_residuals(
    labels: CliqueLabels,
    subsets: tuple[NDArray[np.int64], NDArray[np.int32]],
    row: NDArray[np.int64],
    first: NDArray[np.int64],
    weight: NDArray[np.float64],
    bits: NDArray[np.uint64],
    threads: int,
    out: NDArray[Any],
) -> None: ...

Marks = tuple[NDArray[np.int64], NDArray[np.int64]]

def cuts(scores: Any, positives: Marks, unknown: Marks | None, weights: NDArray[np.float64]) -> dict[str, Any]: ...
def best_offset(
    cells: tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64] | None],
    positives: Marks,
    unknown: Marks | None,
    group_weights: NDArray[np.float64],
    member_weights: NDArray[np.float64],
    beta_squared: float,
    at_least_one: bool,
) -> tuple[float, float]: ...
def lines(
    scores: Any,
    positives: Marks,
    unknown: Marks | None,
    weights: NDArray[np.float64],
    scale: float,
    targets: NDArray[np.float64],
    centre: NDArray[np.float64],
    precision: NDArray[np.float64],
    fixed_slope: NDArray[np.uint8],
    start: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def best_expected_f(
    probabilities: NDArray[np.float64], starts: NDArray[np.int64], beta_squared: float
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]: ...
def label_counts(
    scores: NDArray[np.float64],
    starts: NDArray[np.int64],
    members: NDArray[np.int64],
    order: NDArray[np.int64],
    most_neighbours: int,
) -> NDArray[np.float64]: ...
def label_partition(
    scores: NDArray[np.float64],
    starts: NDArray[np.int64],
    members: NDArray[np.int64],
    order: NDArray[np.int64],
    most_neighbours: int,
) -> NDArray[np.float64]: ...
