"""The contract every estimator keeps: validation before work, certificate after it, label forms in and out.

A fit goes one way: ``Problem`` (checked data) -> ``_prepare`` (rules that need parameters and data, and what the solver
is given) -> ``_solve`` -> ``Model``. Only :meth:`MultilabelClassifier.fit` writes to the estimator, after everything
has succeeded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from multimargin import _core
from multimargin._core import Status
from multimargin._rows import native_rows
from multimargin.errors import DecisionWarning, FitError, InputError
from multimargin.estimators.certificate import Bounds, Certificate
from multimargin.estimators.cost_scale import C_CONSTRAINTS, cost_of_error, shown_C
from multimargin.estimators.inherited_texts import with_inherited_texts
from multimargin.estimators.label_rates import DECIDED_ELSEWHERE, LabelRates, label_rates
from multimargin.estimators.monitor import History, Monitor, Progress
from multimargin.estimators.native_scores import (
    NativeScores,
    features_in_use,
    linear_scorer,
    only_features,
    scored_rows,
)
from multimargin.estimators.predictor import MultilabelPredictor, largest_entry
from multimargin.estimators.problem import Problem, native_cells
from multimargin.estimators.threads import threads
from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, count, exactly, expect, names, number
from multimargin.labels import LabelForm, LabelMatrix, read_labels
from multimargin.weights import LabelFrequencies, cell_costs, row_weights

__all__ = [
    "Interval",
    "LinearModel",
    "Model",
    "Monitor",
    "MultilabelClassifier",
    "MultilabelPredictor",
    "Problem",
    "Status",
    "StrOptions",
    "WarmStart",
    "native_cells",
    "native_rows",
    "suits_single",
    "threads",
]

IMPRECISE = (
    "Rounding keeps the gap above such a tol in double precision, too: raise tol, scale the features, or lower C."
)
SMALLEST = 1 / LARGEST
NEAR = 0.1
"""Relative gap up to which predictions are looked at: of others, ``ConvergenceWarning`` says enough."""
# Magnitudes whose squares and products are safe in single precision; rows or costs beyond are solved in double.
LARGEST_SINGLE, SMALLEST_SINGLE = 1e12, 1e-12


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


class MultilabelClassifier(MultilabelPredictor):
    r"""Base of all estimators. A subclass provides ``_solve`` and ``_scores``; ``_bounds`` for others to check it.

    Its docstring need not repeat the entries below: those of its parameters and attributes that it lacks are taken from
    its bases (inherited_texts.py).

    Parameters
    ----------
    C : float or "scale"
        Cost of an error. Larger C fits the training labels harder. ``"scale"`` is one over the mean squared length of
        the rows, :math:`C = \sum_i s_i / \sum_i s_i |x_i|^2` with the ``sample_weight`` s, the constant feature not
        counted: the model is then the same for features in any unit, but for its intercept. Rows of length 1 have
        C = 1, and so have rows that are all zero.
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
        Called once per pass with a record (:class:`Progress`) of ``pass_``, ``time``, ``primal``, ``dual`` and ``gap``
        (the last three None on passes where they were not evaluated), and ``model``, the estimator as of this pass,
        from solvers that show it. Returning True stops training cleanly.

    Attributes
    ----------
    C_ : float
        The cost of an error, C or the number that ``"scale"`` stood for.
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

    C: float | str = "scale"
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
    """Whether single cells of Y can be weighted, by a 2-D ``sample_weight``."""

    _rows_to_look_at: ClassVar[int] = 500
    """Training rows, at most, whose predictions are counted after a fit."""

    C_: float

    _last: WarmStart | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": C_CONSTRAINTS,
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
            float32 is solved in float32 where its range and rounding allow, everything else in float64 (by
            ``LinearM3L`` where float32 does not suffice).
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
            warn_constant(problem.labels, problem.constant)
        monitor = Monitor(self.callback, int(self.verbose), type(self).__name__)
        model = self._solve(task, last, monitor)
        fitted = self._attributes(problem, model, monitor)
        rates = self._label_rates(fitted, problem)
        self._write(fitted, model, problem)
        self._warn_unless_converged(model)
        self._warn_of_decisions(rates)
        return self

    def _problem(self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True) -> Problem:
        """Training data, checked; ``reset`` as in scikit-learn's ``validate_data``."""
        X, columns = self._read_X(X) if reset else (self._check_X(X), {})
        labels = read_labels(y, n_samples=X.shape[0])
        if labels.missing is not None and labels.missing.nnz == labels.n_samples * labels.n_labels:
            msg = "Y holds no known label at all: every cell is NaN. Give at least one known cell."
            raise InputError(msg)
        prior = self._checked_prior(labels, y, reset=reset)
        constant = self._constant_labels(labels, prior)
        costs = cell_costs(labels, self.class_weight, sample_weight, constant)
        if costs.cells is not None and not self._weighs_cells:
            msg = (
                f"sample_weight must have shape ({labels.n_samples},), a weight per row: the loss of "
                f"{type(self).__name__} belongs to a row as a whole, not to its cells; got sample_weight.shape == "
                f"{costs.cells.shape}. Mark cells that must not count as NaN in Y."
            )
            raise InputError(msg)
        C = cost_of_error(self, X, row_weights(labels, costs)) if reset else self.C_
        costs = costs.times(C)
        smallest, largest = costs.extent()
        if largest > LARGEST or smallest < SMALLEST:
            msg = (
                f"The cost of a cell, C times its weights, must lie between {SMALLEST:g} and {LARGEST:g}; it goes from "
                f"{smallest:.3g} to {largest:.3g} with {shown_C(self, C)}. Change C, sample_weight or class_weight, or "
                "scale the features."
            )
            raise InputError(msg)
        if X.dtype == np.float32 and not suits_single(X, smallest, largest):
            X = X.astype(np.float64)
        return Problem(
            X=X,
            labels=labels,
            C=C,
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
                f"lower bound as {bounds.dual}. Scale the features, or change "
                f"{shown_C(self, problem.C)}."
            )
            raise FitError(msg)
        if problem.constant.any():
            self._set_constant(model.fitted, problem.constant, labels.signs)
        monitor.settle(model.passes, bounds.primal, bounds.dual)
        return {
            **model.fitted,
            **problem.columns,
            "C_": problem.C,
            "constant_labels_": labels.names[problem.constant],
            "history_": monitor.history(),
            "certificate_": self._certificate(model),
            "n_iter_": model.passes,
        }

    def _write(self, fitted: dict[str, Any], model: Model, problem: Problem) -> None:
        """Keep a model, and where a warm start begins: the only place that writes to an estimator."""
        self._replace_fitted(fitted, problem.labels)
        self._last = WarmStart(problem.shape, problem.C, model.state) if self.warm_start else None

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
            iterates=monitor.wants_iterates,
        )

    def _constant_feature(self) -> float:
        """Value s of the feature that is 1 for every row but for its scale; 0 without an intercept."""
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _checked_prior(self, labels: LabelMatrix, y: Any, *, reset: bool) -> Any:
        """Return the prior on label correlations, for estimators that have one; as it was used, unless ``reset``."""
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
            "C_": number(0.0),
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
        shortfall = self._shortfall(model)
        if shortfall is not None:
            warnings.warn(shortfall, ConvergenceWarning, stacklevel=3)

    def _shortfall(self, model: Model) -> str | None:
        """Say how far a fit is from its optimum, and what to do; None if it converged, or was stopped."""
        certificate = self.certificate_
        if certificate.converged or model.status == Status.stopped:
            return None
        limit = "time_limit" if model.status == Status.time_limit else "max_iter"
        advice = IMPRECISE if model.status == Status.imprecise else self._advice(limit)
        return (
            f"{type(self).__name__} stopped after {model.passes} passes with relative duality gap "
            f"{certificate.relative_gap:.2e} > tol {self.tol:.2e} (objective {certificate.primal:.6g}, lower bound "
            f"{certificate.dual:.6g}). {advice}"
        )

    def _label_rates(self, fitted: dict[str, Any], problem: Problem) -> LabelRates | None:
        """Labels these attributes predict on some training rows; None if the fit is far from its optimum, or not over.

        It is not over where a subclass has a ``fit`` of its own, which may add what its predictions need, and where a
        wrapper decides by the scores.
        """
        certificate = fitted.get("certificate_")
        near = certificate is not None and certificate.relative_gap <= max(self.tol, NEAR)
        if not near or DECIDED_ELSEWHERE.get() or type(self).fit is not MultilabelClassifier.fit:
            return None
        model = copy(self)  # an interrupt leaves the estimator itself as it was
        model._replace_fitted(fitted, problem.labels)
        return label_rates(model, problem, self._rows_to_look_at)

    def _warn_of_decisions(self, rates: LabelRates | None) -> None:
        if rates is None or not (rates.few or rates.many):
            return
        remedies = ["thresholds"]
        if rates.few and self.class_weight is None and self._weighs_cells:  # of other losses, balance moves little
            remedies.append("class_weight")
        if rates.few:
            remedies.append("C")
        warnings.warn(DecisionWarning(rates.told(type(self).__name__), remedies), stacklevel=3)

    def _advice(self, limit: str) -> str:
        """Say what to do about a fit that did not converge within this limit."""
        return f"Increase {limit}, scale the features, or lower C."


class LinearModel(NativeScores, MultilabelClassifier):
    """An estimator whose scores are ``X @ coef_.T + intercept_``."""

    _rows_to_look_at: ClassVar[int] = 1000

    coef_: Any
    intercept_: NDArray[Any]

    def _fitted_rules(self) -> dict[str, Rule]:
        return {**super()._fitted_rules(), "coef_": array_of("labels features"), "intercept_": array_of("labels")}

    def _scorer(self) -> _core.Scorer:
        return linear_scorer(self.coef_, self.intercept_)

    def _scorer_of(self, X: Any) -> tuple[_core.Scorer, _core.ScoredRows]:
        used = None if sp.issparse(self.coef_) else features_in_use(X)
        if used is None:
            return super()._scorer_of(X)
        return linear_scorer(self.coef_[:, used], self.intercept_), scored_rows(only_features(X, used))

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        if isinstance(fitted["coef_"], np.ndarray):  # sparse weights of labels left out of training are 0
            fitted["coef_"][constant] = 0.0
        fitted["intercept_"][constant] = value[constant]


def suits_single(X: Any, smallest_cost: float, largest_cost: float) -> bool:
    """Whether squares and products of entries and costs are safe in single precision."""
    largest = largest_entry(X)
    costs = smallest_cost >= SMALLEST_SINGLE and largest_cost <= LARGEST_SINGLE
    return costs and largest <= LARGEST_SINGLE and (largest == 0.0 or largest >= SMALLEST_SINGLE)


def warn_constant(labels: LabelMatrix, constant: NDArray[np.bool_]) -> None:
    """Warn the caller of ``fit``, through one frame between, of labels that are predicted constant."""
    if labels.form == LabelForm("column", dtype=labels.form.dtype):
        subject = f"y has a single class, {labels.values.tolist()}"
    else:
        names = labels.names[constant].tolist()
        shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        subject = f"Constant in training: label {shown}" if len(names) == 1 else f"Constant in training: labels {shown}"
    warnings.warn(f"{subject}. Constant predictions are made; see constant_labels_.", stacklevel=4)
