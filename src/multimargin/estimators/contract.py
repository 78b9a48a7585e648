"""The contract every estimator keeps: validation before work, certificate after it, label forms in and out.

A fit goes one way: ``Problem`` (checked data) -> ``_prepare`` (rules that need parameters and data, and what the solver
is given) -> ``_solve`` -> ``Model``. Only :meth:`MultilabelClassifier.fit` writes to the estimator, after everything
has succeeded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from multimargin._core import Status
from multimargin._rows import native_rows
from multimargin.errors import FitError, InputError
from multimargin.estimators.certificate import Bounds, Certificate
from multimargin.estimators.inherited_texts import with_inherited_texts
from multimargin.estimators.monitor import History, Monitor, Progress
from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, count, exactly, expect, feature_names, names
from multimargin.labels import LabelForm, LabelMatrix, label_tuples, read_labels, write_labels
from multimargin.weights import CellCosts, LabelFrequencies, cell_costs

__all__ = [
    "Interval",
    "LinearModel",
    "Model",
    "MultilabelClassifier",
    "MultilabelPredictor",
    "Problem",
    "Status",
    "StrOptions",
    "WarmStart",
    "native_rows",
]

BLOCK_BYTES = 64 * 2**20
IMPRECISE = (
    "Rounding keeps the gap above such a tol in double precision, too: raise tol, scale the features, or lower C."
)
SMALLEST = 1 / LARGEST
# Magnitudes whose squares and products are safe in single precision; rows or costs beyond are solved in double.
LARGEST_SINGLE, SMALLEST_SINGLE = 1e12, 1e-12
COLUMNS = ("n_features_in_", "feature_names_in_")


@dataclass(frozen=True)
class Problem:
    """Validated training data, as solvers receive it.

    Attributes
    ----------
    X : array or csr matrix of shape (n_samples, n_features)
    labels : LabelMatrix
    costs : CellCosts
        In double precision.
    constant : ndarray of shape (n_labels,)
        Labels that are left out and predicted constant.
    prior : None, ndarray or LowRankPrior
        The prior of an M3L estimator, checked, in double precision.
    n_jobs, seed : int
    columns : dict
        ``n_features_in_`` and, if X was a DataFrame, ``feature_names_in_``.
    """

    X: Any
    labels: LabelMatrix
    costs: CellCosts
    constant: NDArray[np.bool_]
    prior: Any
    n_jobs: int
    seed: int
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> Any:
        """Precision in which to solve."""
        return self.X.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of labels."""
        return self.labels.n_samples, self.labels.n_labels

    def part(self, rows: NDArray[Any]) -> Problem:
        """Return the problem of some of the rows."""
        some = self.labels.part(rows)
        return replace(self, X=self.X[rows], labels=some, costs=self.costs.part(rows), constant=some.constant)

    def in_double(self) -> Problem:
        """Return the same problem in double precision."""
        return replace(self, X=self.X.astype(np.float64))

    @cached_property
    def rows(self) -> _core.Rows:
        """X for the native core."""
        return native_rows(self.X)

    @cached_property
    def cells(self) -> _core.Labels:
        """Labels and costs for the native core."""
        costs, missing = self.costs, self.labels.missing
        return _core.Labels(
            positives=native_cells(self.labels.positives),
            missing=None if missing is None else native_cells(missing),
            left_out=self.constant.astype(np.uint8),
            row=costs.row,
            positive=costs.positive,
            negative=costs.negative,
            cells=costs.cells,
        )


@dataclass(frozen=True)
class Model:
    """What a fit has found.

    Attributes
    ----------
    fitted : dict
        The attributes that make the model, by name; :meth:`MultilabelClassifier.fit` adds those all estimators share.
    bounds : Bounds
        By the certifier.
    passes : int
    status : Status
    state : object
        Where a warm start begins, and dual variables for :func:`multimargin.certify`; kept after ``warm_start=True``.
    """

    fitted: dict[str, Any]
    bounds: Bounds
    passes: int
    status: Status = Status.converged
    state: Any = None


@dataclass(frozen=True)
class WarmStart:
    """Where the last fit ended: its numbers of rows and labels, its C, and what its solver left."""

    shape: tuple[int, int]
    C: float
    state: Any


class MultilabelPredictor(ClassifierMixin, BaseEstimator):
    """Labels in any form in, the same form out. A subclass provides ``fit`` and ``_scores``."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    _storable: ClassVar[bool] = True
    """Whether model files can hold it: fitted attributes are numbers, names and arrays."""

    _optional_attributes: ClassVar[frozenset[str]] = frozenset({"feature_names_in_"})
    """Fitted attributes that a model may lack."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

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
        return self._in_form(self._finite_scores(self._check_X(X)))

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

    def predict_with_scores(self, X: Any) -> tuple[Any, NDArray[Any]]:
        """Predicted labels and scores, as :meth:`predict` and :meth:`decision_function`, computing each score once.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
        scores : ndarray of shape (n_samples, n_labels) or (n_samples,)
        """
        check_is_fitted(self)
        index = getattr(X, "index", None)
        X = self._check_X(X)
        scores = self._finite_scores(X)
        positives = self._positives(X, scores)
        labels = write_labels(positives, self.label_form_, self.label_names_, self.classes_, index)
        return labels, self._in_form(scores)

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

    def _finite_scores(self, X: Any) -> NDArray[Any]:
        scores = self._scores(X)
        if not np.isfinite(scores).all():
            msg = (
                "X is so far from the training rows that scores leave the range of floating point: its largest entry "
                f"is {_largest(X):.3g}. Scale it as the training rows were."
            )
            raise InputError(msg)
        return scores

    def _in_form(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Scores of a 1-D y as a 1-D array."""
        return scores[:, 0] if self.label_form_.kind == "column" else scores

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        """Predicted cells; unless scores are at hand, in row blocks, so that those of all rows are never held at once.

        A subclass whose prediction is not `_decided` by scores alone ignores them.
        """
        if scores is not None:
            return sp.csr_array(self._decided(scores))
        rows_at_once = row_blocks(X.shape[0], len(self.label_names_))
        blocks = [sp.csr_array(self._decided(self._scores(X[rows]))) for rows in rows_at_once]
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def _decided(self, scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Which cells are predicted, by their scores."""
        return scores > 0

    def _scores(self, X: Any) -> NDArray[Any]:
        """Scores of all labels, positive where a label is predicted."""
        msg = f"{type(self).__name__} has no _scores(X), which returns an array of shape (n_samples, n_labels)."
        raise TypeError(msg)

    def _fitted_rules(self) -> dict[str, Rule]:
        """Rules of the fitted attributes, to which model files are held (multimargin.fitted_rules)."""
        column = getattr(getattr(self, "label_form_", None), "kind", None) == "column"

        def form(value: Any, sizes: Sizes) -> None:
            expect(type(value) is LabelForm, "must be a LabelForm")
            expect(not column or sizes["labels"] == 1, "is that of one label")

        return {
            "n_features_in_": count(1, "features"),
            "feature_names_in_": feature_names,
            "label_names_": names("labels"),
            "label_form_": form,
            "classes_": names("classes", high=2) if column else names("labels"),
        }

    def _read_X(self, X: Any) -> tuple[Any, dict[str, Any]]:
        """Training rows, checked, and the attributes that say what their columns are."""
        reader = copy(self)  # scikit-learn's validate_data writes to it
        X = reader._check_X(X, reset=True)
        return X, {name: vars(reader)[name] for name in COLUMNS if name in vars(reader)}

    def _replace_fitted(self, fitted: dict[str, Any], labels: LabelMatrix) -> None:
        """Replace the attributes of an earlier fit: the only place that writes them."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        self.__dict__.update(fitted, classes_=labels.values, label_names_=labels.names, label_form_=labels.form)


class MultilabelClassifier(MultilabelPredictor):
    """Base of all estimators. A subclass provides ``_solve`` and ``_scores``; ``_bounds`` for others to check it.

    Its docstring need not repeat the entries below: those of its parameters and attributes that it lacks are taken from
    its bases (inherited_texts.py).

    Parameters
    ----------
    fit_intercept : bool
        Whether to add a constant feature. Its weight is regularised like the others.
    intercept_scaling : float
        Value of the constant feature. Larger values regularise the intercept less.
    tol : float
        Relative duality gap at which training stops.
    max_iter : int
        Largest number of passes over the data.
    time_limit : float
        Seconds after which training stops, with what it has.
    n_jobs : int
        Threads; None is 1 and -1 all cores. The result does not depend on it.
    random_state : int, RandomState or None
        Order in which rows are visited.
    verbose : int
        Whether to print progress to standard error.
    warm_start : bool
        Whether ``fit`` continues from the previous solution on the same rows, also after parameters such as C
        changed.
    callback : callable
        Called once per pass with a record of ``pass_``, ``time``, ``primal``, ``dual`` and ``gap`` (the last three
        None on passes where they were not evaluated). Returning True stops training cleanly.

    Attributes
    ----------
    certificate_ : Certificate
        ``primal``, ``dual``, ``gap``, ``relative_gap``, ``converged``, ``oracle_exact``.
    history_ : History
        Arrays ``time``, ``pass_``, ``primal``, ``dual``.
    n_iter_ : int
        Passes over the data.
    classes_ : ndarray
        Label names; for a 1-D y, its two classes.
    label_names_ : ndarray of shape (n_labels,)
        Label names.
    label_form_ : LabelForm
        The form Y had in training, which predictions take.
    constant_labels_ : ndarray
        Labels with a single value in training; they are predicted to be constant and left out of the problem.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Feature names, if X was a DataFrame.
    """

    C: float = 1.0
    class_weight: Any = None
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
    warm_start: bool = False
    callback: Callable[[Progress], object] | None = None

    _weighs_cells: ClassVar[bool] = True
    """Whether single cells of Y can be weighted: 2-D ``sample_weight``, ``class_weight``."""

    _last: WarmStart | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, list, LabelFrequencies, None],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "warm_start": ["boolean"],
        "callback": [callable, None],
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete the docstring from those of the bases."""
        super().__init_subclass__(**options)
        cls.__doc__ = with_inherited_texts(cls)

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
        problem = self._problem(X, y, sample_weight)
        last = self._last_fit(problem)
        task = self._prepare(problem)
        if problem.constant.any():
            _warn_constant(problem.labels, problem.constant)
        monitor = Monitor(self.callback, int(self.verbose), type(self).__name__)
        model = self._solve(task, last, monitor)
        self._write(self._attributes(problem, model, monitor), model, problem)
        self._warn_unless_converged(model)
        return self

    def _problem(self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True) -> Problem:
        """Training data, checked; ``reset`` as in scikit-learn's ``validate_data``."""
        X, columns = self._read_X(X) if reset else (self._check_X(X), {})
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
            costs=costs,
            constant=constant,
            prior=prior,
            n_jobs=threads(self.n_jobs),
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)) if reset else 0,
            columns=columns,
        )

    def _attributes(self, problem: Problem, model: Model, monitor: Monitor) -> dict[str, Any]:
        """All fitted attributes of a model."""
        bounds, labels = model.bounds, problem.labels
        if bounds.dual is None or not (np.isfinite(bounds.primal) and np.isfinite(bounds.dual)):
            msg = (
                f"{type(self).__name__} found no finite solution: its objective came out as {bounds.primal} and the "
                f"lower bound as {bounds.dual}. Scale the features, or change C={self.C!r}."
            )
            raise FitError(msg)
        if problem.constant.any():
            self._set_constant(model.fitted, problem.constant, labels.signs)
        monitor.settle(model.passes, bounds.primal, bounds.dual)
        return {
            **model.fitted,
            **problem.columns,
            "constant_labels_": labels.names[problem.constant],
            "history_": monitor.history(),
            "certificate_": self._certificate(model),
            "n_iter_": model.passes,
        }

    def _write(self, fitted: dict[str, Any], model: Model, problem: Problem) -> None:
        """Keep a model, and where a warm start begins: the only place that writes to an estimator."""
        self._replace_fitted(fitted, problem.labels)
        self._last = WarmStart(problem.shape, self.C, model.state) if self.warm_start else None

    def _last_fit(self, problem: Problem) -> WarmStart | None:
        """Where a warm start begins."""
        if not self.warm_start or self._last is None:
            return None
        if self._last.shape != problem.shape:
            msg = (
                f"warm_start=True continues on the same rows and labels: the last fit had shape {self._last.shape}, "
                f"this one has {problem.shape}. Set warm_start=False, or fit a clone."
            )
            raise InputError(msg)
        return self._last

    def _limits(
        self,
        problem: Problem,
        monitor: Monitor,
        *,
        tol: float | None = None,
        max_iter: int | None = None,
        time_limit: float | None = None,
        passes: int = 0,
    ) -> _core.Limits:
        """When a native solver stops, after ``passes`` of one before it, in what is left of the time."""
        return _core.Limits(
            tol=float(self.tol if tol is None else tol),
            max_iter=int(self.max_iter if max_iter is None else max_iter),
            threads=problem.n_jobs,
            seed=problem.seed,
            time_limit=monitor.time_left(self.time_limit) if time_limit is None else time_limit,
            report=monitor,
            passes=passes,
        )

    def _constant_feature(self) -> float:
        """Value s of the feature that is 1 for every row but for its scale; 0 without an intercept."""
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _checked_prior(self, labels: LabelMatrix) -> Any:
        """Return the prior on label correlations, for estimators that have one."""
        return None

    def _constant_labels(self, labels: LabelMatrix, prior: Any) -> NDArray[np.bool_]:
        """Labels that are left out of training and predicted constant."""
        return labels.constant

    def _prepare(self, problem: Problem) -> Any:
        """Check the rules that need both parameters and data, before any work; return what ``_solve`` is given."""
        return problem

    def _solve(self, task: Any, last: WarmStart | None, monitor: Monitor) -> Model:
        """Train, from where the last fit ended if there was one; ``monitor`` is told of every pass."""
        msg = f"{type(self).__name__} has no _solve(task, last, monitor), which returns a Model."
        raise TypeError(msg)

    def _bounds(self, problem: Problem) -> Bounds:
        """Certify the model as it stands: the objective, and the value of the dual variables it keeps, if any."""
        msg = f"{type(self).__name__} has no certifier of its own: its certificate cannot be computed again."
        raise InputError(msg)

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        """Make these attributes predict labels constant, by the sign of their value."""
        msg = f"{type(self).__name__} has no _set_constant(fitted, constant, value) for labels of one value."
        raise TypeError(msg)

    def _kept_state(self, problem: Problem) -> Any:
        """Return what the solver of these data left, if it is kept."""
        return None if self._last is None or self._last.shape != problem.shape else self._last.state

    def _fitted_rules(self) -> dict[str, Rule]:
        def constant(value: Any, sizes: Sizes) -> None:
            names("constant", low=0)(value, sizes)
            expect(set(value.tolist()) <= set(self.label_names_.tolist()), "must be labels")

        return {
            **super()._fitted_rules(),
            "constant_labels_": constant,
            "certificate_": exactly(Certificate),
            "history_": exactly(History),
            "n_iter_": count(0),
        }

    def _certificate(self, model: Model) -> Certificate:
        bounds = model.bounds
        assert bounds.dual is not None
        return Certificate.of(bounds.primal, bounds.dual, self.tol, bounds.oracle_exact)

    def _warn_unless_converged(self, model: Model) -> None:
        certificate = self.certificate_
        if certificate.converged or model.status == Status.stopped:
            return
        limit = "time_limit" if model.status == Status.time_limit else "max_iter"
        advice = IMPRECISE if model.status == Status.imprecise else self._advice(limit)
        warnings.warn(
            f"{type(self).__name__} stopped after {model.passes} passes with relative duality gap "
            f"{certificate.relative_gap:.2e} > tol {self.tol:.2e} (objective {certificate.primal:.6g}, lower bound "
            f"{certificate.dual:.6g}). {advice}",
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

    def _fitted_rules(self) -> dict[str, Rule]:
        return {**super()._fitted_rules(), "coef_": array_of("labels features"), "intercept_": array_of("labels")}

    def _scores(self, X: Any) -> NDArray[Any]:
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_)

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        fitted["coef_"][constant] = 0.0
        fitted["intercept_"][constant] = value[constant]


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


def native_cells(matrix: sp.csr_array) -> _core.Cells:
    """Cells of a sparse 0/1 matrix for the native core."""
    return _core.Cells(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.shape[1])


def _warn_constant(labels: LabelMatrix, constant: NDArray[np.bool_]) -> None:
    if labels.form == LabelForm("column", dtype=labels.form.dtype):
        subject = f"y has a single class, {labels.values.tolist()}"
    else:
        names = labels.names[constant].tolist()
        shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        subject = f"Constant in training: label {shown}" if len(names) == 1 else f"Constant in training: labels {shown}"
    warnings.warn(f"{subject}. Constant predictions are made; see constant_labels_.", stacklevel=4)
