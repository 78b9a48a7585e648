"""The contract every estimator keeps: validation before work, certificate after it, label forms in and out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import cpu_count, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from multimargin import _core
from multimargin._rows import native_rows
from multimargin.errors import FitError, InputError
from multimargin.estimators._certificate import Bounds, Certificate
from multimargin.estimators._monitor import Monitor, Progress
from multimargin.labels import LabelForm, LabelMatrix, label_tuples, read_labels, write_labels
from multimargin.weights import CellCosts, LabelFrequencies, cell_costs

__all__ = ["Interval", "LinearModel", "MultilabelClassifier", "Problem", "Solution", "StrOptions", "native_rows"]

BLOCK_BYTES = 64 * 2**20
IMPRECISE = (
    "Rounding keeps the gap above such a tol in double precision, too: raise tol, scale the features, or lower C."
)
# Magnitudes whose squares and products stay far from the ends of the range of double precision.
LARGEST, SMALLEST = 1e100, 1e-100
# The same for single precision; rows or costs beyond are solved in double.
LARGEST_SINGLE, SMALLEST_SINGLE = 1e12, 1e-12


@dataclass(frozen=True)
class Problem:
    """Validated training data, as solvers receive it.

    Attributes
    ----------
    X : array or csr matrix of shape (n_samples, n_features)
    labels : LabelMatrix
    costs, exact_costs : CellCosts
        In the precision of X, for solvers, and in double, for the certifier.
    constant : ndarray of shape (n_labels,)
        Labels that are left out and predicted constant.
    prior : None, ndarray or LowRankPrior
        The prior of an M3L estimator, checked, in double precision.
    n_jobs, seed : int
    """

    X: Any
    labels: LabelMatrix
    costs: CellCosts
    exact_costs: CellCosts
    constant: NDArray[np.bool_]
    prior: Any
    n_jobs: int
    seed: int

    @property
    def dtype(self) -> Any:
        """Precision in which to solve."""
        return self.X.dtype

    def part(self, rows: NDArray[Any]) -> Problem:
        """Return the problem of some of the rows."""
        labels = self.labels
        some = replace(
            labels,
            positives=labels.positives[rows],
            missing=None if labels.missing is None else labels.missing[rows],
        )
        return replace(
            self,
            X=self.X[rows],
            labels=some,
            costs=self.costs.part(rows),
            exact_costs=self.exact_costs.part(rows),
            constant=constant_labels(some)[0],
        )

    def in_double(self) -> Problem:
        """Return the same problem in double precision."""
        return replace(self, X=self.X.astype(np.float64), costs=self.exact_costs)

    def rows(self) -> _core.Rows:
        """X for the native core."""
        return native_rows(self.X)

    def positives(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Positive cells for the native core."""
        return _cells(self.labels.positives)

    def missing(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Unknown cells for the native core."""
        return None if self.labels.missing is None else _cells(self.labels.missing)


@dataclass(frozen=True)
class Solution:
    """What a solver leaves behind, besides the model itself; the bounds are those of the certifier."""

    primal: float
    dual: float
    passes: int
    status: str
    oracle_exact: float = 1.0


class MultilabelClassifier(ClassifierMixin, BaseEstimator):
    """Base of all estimators. A subclass provides ``_solve``, ``_bounds`` and ``_scores``."""

    C: float
    class_weight: Any = None
    tol: float
    max_iter: int
    time_limit: float | None
    n_jobs: int | None
    random_state: Any
    verbose: int
    warm_start: bool
    callback: Callable[[Progress], object] | None

    _weighs_cells: ClassVar[bool] = True
    """Whether single cells of Y can be weighted: 2-D ``sample_weight``, ``class_weight``."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, list, LabelFrequencies, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "warm_start": ["boolean"],
        "callback": [callable, None],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on labelled rows.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            float32 is solved in float32 where its range and rounding allow, everything else in float64.
        y : labels Y of the rows, in any form
            A 0/1, boolean or -1/1 array, a sparse matrix or array, a DataFrame with a column per label, a list of label
            sets, or a 1-D array with two classes. NaN marks an unknown label.
        sample_weight : array of shape (n_samples,) or (n_samples, n_labels), optional
            Weight of a row, or of single cells of Y.

        Returns
        -------
        self
        """
        self._validate_params()
        before = dict(vars(self))
        try:
            problem = self._problem(X, y, sample_weight, reset=True)
            self._check_problem(problem)
            if problem.constant.any():
                _warn_constant(problem.labels, problem.constant)
            monitor = Monitor(self.callback, int(self.verbose), type(self).__name__)
            solution = self._solve(problem, monitor)
            self._finish_fit(problem, monitor, solution)
        except BaseException:  # a fit that fails or is interrupted leaves the object as it was
            self.__dict__ = before
            raise
        self._warn_unless_converged(solution)
        return self

    def _problem(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Problem:
        """Training data, checked; ``reset`` as in scikit-learn's ``validate_data``."""
        X = self._check_X(X, reset=reset)
        labels = read_labels(y, n_samples=X.shape[0])
        if labels.missing is not None and labels.missing.nnz == labels.n_samples * labels.n_labels:
            msg = "Y holds no known label at all: every cell is NaN. Give at least one known cell."
            raise InputError(msg)
        prior = self._checked_prior(labels)
        constant = self._constant_labels(labels, prior)
        costs = cell_costs(labels, self.C, self.class_weight, sample_weight, constant)
        if costs.cells is not None and not self._weighs_cells:
            msg = (
                f"sample_weight must have shape ({labels.n_samples},), a weight per row: the loss of "
                f"{type(self).__name__} belongs to a row as a whole, not to its cells; got sample_weight.shape == "
                f"{costs.cells.shape}. Mark cells that must not count as NaN in Y."
            )
            raise InputError(msg)
        smallest, largest = costs.extent()
        if largest > LARGEST or smallest < SMALLEST:
            msg = (
                f"The cost of a cell, C times its weights, must lie between {SMALLEST:g} and {LARGEST:g}; it goes from "
                f"{smallest:.3g} to {largest:.3g} with C={self.C!r}. Change C, sample_weight or class_weight."
            )
            raise InputError(msg)
        if X.dtype == np.float32 and not _suits_single(X, smallest, largest):
            X = X.astype(np.float64)
        return Problem(
            X=X,
            labels=labels,
            costs=costs.astype(X.dtype),
            exact_costs=costs,
            constant=constant,
            prior=prior,
            n_jobs=threads(self.n_jobs),
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)) if reset else 0,
        )

    def _finish_fit(self, problem: Problem, monitor: Monitor, solution: Solution) -> None:
        labels = problem.labels
        if not (np.isfinite(solution.primal) and np.isfinite(solution.dual)):
            msg = (
                f"{type(self).__name__} found no finite solution: its objective came out as {solution.primal} and the "
                f"lower bound as {solution.dual}. Scale the features, or change C={self.C!r}."
            )
            raise FitError(msg)
        self._set_constant(problem.constant, constant_labels(labels)[1])
        self.classes_ = labels.values
        self.label_names_ = labels.names
        self.label_form_ = labels.form
        self.constant_labels_ = labels.names[problem.constant]
        monitor.settle(solution.passes, solution.primal, solution.dual)
        self.history_ = monitor.history()
        self.certificate_ = self._certificate(solution)
        self.n_iter_ = solution.passes

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores of the labels; positive means the label is predicted.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Of shape (n_samples,) if the model was trained on a 1-D y, as scikit-learn's scorers expect.
        """
        check_is_fitted(self)
        scores = self._scores(self._check_X(X))
        if not np.isfinite(scores).all():
            msg = (
                "X is so far from the training rows that scores leave the range of floating point: its largest entry "
                f"is {_largest(X if sp.issparse(X) else np.asarray(X)):.3g}. Scale it as the training rows were."
            )
            raise InputError(msg)
        return scores[:, 0] if self.label_form_.kind == "column" else scores

    def predict(self, X: Any) -> Any:
        """Predicted labels, in the form in which Y was given to :meth:`fit`.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
        """
        check_is_fitted(self)
        index = getattr(X, "index", None)
        positives = self._positives(self._check_X(X))
        return write_labels(positives, self.label_form_, self.label_names_, self.classes_, index)

    def predict_sets(self, X: Any) -> list[tuple[Any, ...]]:
        """Predicted labels as a tuple of label names for every row.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        list of tuples
        """
        check_is_fitted(self)
        return label_tuples(self._positives(self._check_X(X)), self.label_names_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Subset accuracy: share of rows whose labels are all predicted right. Unknown labels are not counted.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : labels of the rows, in any form
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        X = self._check_X(X)
        if self.label_form_.kind == "column":
            right = np.asarray(y) == write_labels(
                self._positives(X), self.label_form_, self.label_names_, self.classes_
            )
        else:
            names = self.label_names_ if self.label_form_.kind == "sets" else None
            truth = read_labels(y, n_samples=X.shape[0], names=names)
            wrong = (truth.positives != self._positives(X)).astype(np.int8)
            if truth.missing is not None:
                wrong = wrong - wrong.multiply(truth.missing)
            right = np.asarray(wrong.sum(axis=1)).ravel() == 0
        return float(np.average(right, weights=sample_weight))

    def _check_X(self, X: Any, *, reset: bool = False) -> Any:
        checked = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset)
        if sp.issparse(checked):
            _check_csr(checked)
        _check_magnitude(checked, getattr(self, "feature_names_in_", None))
        return checked

    def _positives(self, X: Any) -> sp.csr_array:
        """Predicted cells, computed in row blocks so that the scores of all rows are never held at once."""
        blocks = [sp.csr_array(self._scores(X[rows]) > 0) for rows in row_blocks(X.shape[0], len(self.label_names_))]
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def _checked_prior(self, labels: LabelMatrix) -> Any:
        """Return the prior on label correlations, for estimators that have one."""
        return None

    def _constant_labels(self, labels: LabelMatrix, prior: Any) -> NDArray[np.bool_]:
        """Labels that are left out of training and predicted constant."""
        return constant_labels(labels)[0]

    def _check_problem(self, problem: Problem) -> None:
        """Rules that need both parameters and data; raise before any work."""

    def _solve(self, problem: Problem, monitor: Monitor) -> Solution:
        raise AssertionError

    def _bounds(self, problem: Problem) -> Bounds:
        """Certify the model as it stands: the objective, and the value of the dual variables it keeps, if any."""
        raise AssertionError

    def _scores(self, X: Any) -> NDArray[Any]:
        raise AssertionError

    def _set_constant(self, constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        raise AssertionError

    def _certificate(self, solution: Solution) -> Certificate:
        return Certificate.of(solution.primal, solution.dual, self.tol, solution.oracle_exact)

    def _warn_unless_converged(self, solution: Solution) -> None:
        certificate = self.certificate_
        if certificate.converged or solution.status == "stopped":
            return
        limit = "time_limit" if solution.status == "time_limit" else "max_iter"
        warnings.warn(
            f"{type(self).__name__} stopped after {solution.passes} passes with relative duality gap "
            f"{certificate.relative_gap:.2e} > tol {self.tol:.2e} (objective {certificate.primal:.6g}, lower bound "
            f"{certificate.dual:.6g}). {IMPRECISE if solution.status == 'imprecise' else self._advice(limit)}",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _advice(self, limit: str) -> str:
        """Say what to do about a fit that did not converge within this limit."""
        return f"Increase {limit}, scale the features, or lower C."


class LinearModel(MultilabelClassifier):
    """An estimator whose scores are ``X @ coef_.T + intercept_``."""

    coef_: NDArray[Any]
    intercept_: NDArray[Any]

    def _scores(self, X: Any) -> NDArray[Any]:
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_)

    def _set_constant(self, constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        self.coef_[constant] = 0.0
        self.intercept_[constant] = value[constant]


def threads(n_jobs: int | None) -> int:
    """Return the number of threads, at most one per core of the machine."""
    if n_jobs == 0:
        msg = "n_jobs must not be 0; use None or 1 for one thread, -1 for all cores."
        raise InputError(msg)
    return int(min(effective_n_jobs(n_jobs), cpu_count()))


def row_blocks(n_rows: int, n_labels: int) -> Iterator[slice]:
    """Slices of rows whose scores fit in a few dozen megabytes."""
    size = max(1, BLOCK_BYTES // (8 * max(n_labels, 1)))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def _check_csr(X: Any) -> None:
    """Refuse a CSR matrix that would make products read outside its arrays."""
    # SciPy does not look at offsets whose last is 0, nor at differences that overflow.
    sound = X.indptr[0] == 0 and X.indptr[-1] <= len(X.indices) and bool((X.indptr[1:] >= X.indptr[:-1]).all())
    try:
        if not sound:
            msg = "indptr must rise from 0 to the number of entries"
            raise ValueError(msg)
        X.check_format(full_check=True)
    except ValueError as error:
        msg = f"X is not a sound CSR matrix: {error}. Build it anew, for example from its triplets."
        raise InputError(msg) from None


def _check_magnitude(X: Any, names: Any) -> None:
    """Refuse numbers whose squares leave the range of floating point."""
    if _largest(X) <= LARGEST:
        return
    columns = abs(X).max(axis=0)
    columns = columns.toarray().ravel() if sp.issparse(columns) else columns
    worst = int(np.argmax(columns))
    name = worst if names is None else names[worst]
    msg = (
        f"The features must not be larger than {LARGEST:g} in absolute value; column {name!r} of X reaches "
        f"{columns[worst]:.3g}. Rescale or drop it."
    )
    raise InputError(msg)


def _largest(X: Any) -> float:
    values = X.data if sp.issparse(X) else X
    return max(-float(values.min()), float(values.max())) if values.size else 0.0


def _suits_single(X: Any, smallest_cost: float, largest_cost: float) -> bool:
    """Whether squares and products of entries and costs are safe in single precision."""
    largest = _largest(X)
    costs = smallest_cost >= SMALLEST_SINGLE and largest_cost <= LARGEST_SINGLE
    return costs and largest <= LARGEST_SINGLE and (largest == 0.0 or largest >= SMALLEST_SINGLE)


def _cells(matrix: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)


def constant_labels(labels: LabelMatrix) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which labels take one value only, and the sign of that value; a label never observed counts as absent."""
    positive, negative = labels.counts()
    return (positive == 0) | (negative == 0), np.where(positive > 0, 1.0, -1.0)


def _warn_constant(labels: LabelMatrix, constant: NDArray[np.bool_]) -> None:
    if labels.form == LabelForm("column", dtype=labels.form.dtype):
        subject = f"y has a single class, {labels.values.tolist()}"
    else:
        names = labels.names[constant].tolist()
        shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        subject = f"Constant in training: label {shown}" if len(names) == 1 else f"Constant in training: labels {shown}"
    warnings.warn(f"{subject}. Constant predictions are made; see constant_labels_.", stacklevel=4)
