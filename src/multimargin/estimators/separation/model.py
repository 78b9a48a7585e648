"""What the two separation estimators share: everything but their parameters' texts and their atoms."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import (
    Interval,
    Model,
    MultilabelClassifier,
    Problem,
    Status,
    StrOptions,
    WarmStart,
)
from multimargin.estimators.cost_scale import shown_C
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.predictor import row_blocks
from multimargin.estimators.separation.certifier import Functions, ModelPoint, SeparationCertifier
from multimargin.estimators.separation.problem import (
    Proposal,
    SeparationProblem,
    Start,
    check_finite_kernel,
    known_labels,
    labels_lacked,
    side_costs,
)
from multimargin.estimators.separation.solvers import second_solver, solve_separation
from multimargin.fitted_rules import LARGEST, Rule, array_of, count, number
from multimargin.kernels import KERNELS, POSITIVE_DATA, Kernel, check_kernel, gram_matrix, make_kernel, resolve_gamma
from multimargin.kernels.support import support_rules
from multimargin.label_kernels import LabelAtoms, single_labels

__all__ = ["SeparationModel"]

MOST_ROWS = 20_000  # for kernels of the inputs
ATTEMPTS = 3  # to reach a gap which the solver sees and the certifier does not
MANY_PASSES = 5000  # fewer are a limit of their own, whatever the scale
SHORTER = 0.01  # what a shorter model must gain
MOST_SCALE = {"rows": 1e5, "admm": 1e6, "interior": 1e17}  # measured: docs/label_set_kernels.md


@dataclass(frozen=True)
class SeparationTask:
    """A problem and the gamma of its kernel."""

    problem: Problem
    gamma: float


@dataclass(frozen=True)
class _Part:
    """The rows and labels with a part in training, by number, and their problem."""

    rows: NDArray[np.intp]
    varies: NDArray[np.intp]
    problem: SeparationProblem

    @classmethod
    def nothing(cls, problem: Problem) -> _Part:
        none = np.zeros(0, dtype=np.intp)
        empty = SeparationProblem(
            problem.X[:0], None, 0.0, sp.csr_array((0, 0)), None, np.zeros((0, 2)), single_labels(0)
        )
        return cls(none, none, empty)


class SeparationModel(MultilabelClassifier):
    """Base of the separation estimators: kernel of the inputs, fit, scores and threshold.

    Parameters
    ----------
    class_weight : None, "balanced", dict, list of dicts or LabelFrequencies, default=None
        Weights of the two terms of a row: ``{0: a, 1: b}`` multiplies the term of the labels it lacks by a and that of
        the labels it has by b; the other forms as in :class:`LinearM3L`. Where the weights of labels differ, a term has
        the mean weight of its labels in that row: the row pays for the worst of them alone. Both terms move one
        reference score: where labels overlap, a small change of the weights may turn no label into all of them, which
        thresholds per label (:class:`ThresholdTuner`) do not.
    kernel : str or callable, default="linear"
        Kernel of the inputs, as in :class:`KernelM3L`: ``"linear"``, ``"rbf"``, ``"poly"``, ``"sigmoid"``,
        ``"laplacian"``, ``"chi2"``, ``"additive_chi2"``, ``"precomputed"`` (X is the matrix of values) or a function of
        two blocks of rows. All but ``"linear"`` hold the matrix of values between training rows.
    gamma : "scale", "auto" or float, default="scale"
        ``"scale"`` is ``1 / (n_features * X.var())``, ``"auto"`` is ``1 / n_features``.
    degree : float, default=3
        Degree of the polynomial kernel of the inputs.
    coef0 : float, default=1.0
        Its constant.
    fit_intercept : bool, default=True
        Whether to add a constant feature. Its weight is regularised like the others. Centred inputs need one.
    fallback : {"top1"} or None, default=None
        ``"top1"`` predicts the label with the highest score where no label is above the reference.
    solver : {"auto", "rows", "admm", "interior"}, default="auto"
        ``"rows"`` visits row after row and takes any number of them, but many passes where C K(x, x) is large;
        ``"interior"`` takes some 20 steps at any scale of the inputs, on small data (number of features or rows, times
        number of labels, up to 2500); ``"admm"`` works with whole matrices, for up to about 2000 rows, and minds bad
        scaling less than ``"rows"``. ``"auto"`` begins with ``"rows"`` and goes on with what suits the size if that
        takes long. All reach the same optimum.
    warm_start : bool, default=False
        Whether ``fit`` continues from the previous solution on the same rows, also after parameters such as C changed;
        ``"interior"`` always begins anew.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the decisions, scores above the reference; ``kernel="linear"`` only.
    support_ : ndarray of shape (n_support,)
        Training rows the model uses; other kernels only.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Their inputs; not for ``kernel="precomputed"``.
    dual_coef_ : ndarray of shape (n_support, n_labels)
        Their coefficients in the decisions.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts of the decisions.
    threshold_coef_ : ndarray of shape (n_features,) or (n_support,)
        Weights, or coefficients of the support, of the reference score.
    threshold_intercept_ : float
        Its intercept.
    gamma_ : float
        The gamma of the kernel.
    n_atoms_ : int
        Number of label sets with dual variables.
    """

    kernel: Any
    gamma: Any
    degree: float
    coef0: float
    fallback: str | None
    solver: str

    _weighs_cells: ClassVar[bool] = False
    _optional_attributes: ClassVar[frozenset[str]] = MultilabelClassifier._optional_attributes | {
        "set_coef_",
        "set_intercept_",
        "set_dual_coef_",
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultilabelClassifier._parameter_constraints,
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "fallback": [StrOptions({"top1"}), None],
        "solver": [StrOptions({"auto", "rows", "admm", "interior"})],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = isinstance(self.kernel, str) and self.kernel in POSITIVE_DATA
        return tags

    def threshold_function(self, X: Any) -> NDArray[Any]:
        """Compute the reference score of each row; a label is predicted where its own score is above it.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            The label scores themselves are ``decision_function(X) + threshold_function(X)[:, None]``.
        """
        check_is_fitted(self)
        return self._linear_part(self._check_X(X), self.threshold_coef_[:, None], self.threshold_intercept_)[:, 0]

    def _atoms(self, positives: sp.csr_array, missing: sp.csr_array | None, weight: NDArray[np.float64]) -> LabelAtoms:
        """Return the label sets with dual variables."""
        msg = f"{type(self).__name__} has no _atoms(positives, missing, weight), which returns LabelAtoms."
        raise TypeError(msg)

    def _decision_scale(self, atoms: LabelAtoms) -> NDArray[np.float64]:
        """Return what label scores are divided by before they are compared with the reference score."""
        return atoms.a[: atoms.n_labels]

    def _prepare(self, problem: Problem) -> SeparationTask:
        n_rows = problem.X.shape[0]
        used = problem.costs.row > 0
        gamma = resolve_gamma(self.gamma, problem.X if used.all() else problem.X[used], self.kernel)
        check_kernel(self.kernel, problem.X, gamma, self.degree, self.coef0, problem.seed)
        if self.kernel != "linear" and n_rows > MOST_ROWS:
            msg = (
                f"kernel={self.kernel!r} needs the matrix of kernel values between all {n_rows} training rows "
                f"({n_rows**2 * 8 / 2**30:.1f} GiB); at most {MOST_ROWS} rows are allowed. Use kernel='linear', "
                "approximate the kernel (sklearn.kernel_approximation), or train on fewer rows."
            )
            raise InputError(msg)
        if self.fallback == "top1" and problem.labels.n_labels == 1:
            msg = "fallback='top1' would predict the only label everywhere. Use fallback=None for a single label."
            raise InputError(msg)
        return SeparationTask(problem, gamma)

    def _solve(self, task: SeparationTask, last: WarmStart | None, monitor: Monitor) -> Model:
        problem = task.problem
        part = self._part(problem, task.gamma)
        kept = {"gamma_": task.gamma, "n_atoms_": 0 if part is None else len(part.problem.atoms)}
        if part is None:
            none = sp.csr_array((0, 0))
            found = Proposal(none, none, None, 0.0, 0.0, 1, Status.converged)
            fitted = self._fitted(problem, _Part.nothing(problem), found, 1.0, problem.dtype)
            monitor(1, 0.0, 0.0, 0.0)
            return Model(fitted | kept, Bounds(0.0, 0.0), 1)
        self._check_scale(part.problem)
        start = self._start(last, problem.C, (len(part.rows), len(part.problem.atoms)))
        tol, passes = self.tol, 0
        for _ in range(ATTEMPTS):
            limits = self._limits(problem, monitor, tol=tol, passes=passes)
            found = solve_separation(part.problem, self.solver, limits, start)
            passes = found.passes
            fitted, bounds, D = self._certified(problem, part, found)
            if bounds.within(self.tol) or found.status != Status.converged or passes >= self.max_iter:
                break
            tol, start = 0.1 * tol, Start(D, found.coef)
        primal, dual = bounds.primal, bounds.dual
        if part.problem.K is not None and dual is not None and dual - primal > self.tol * abs(primal):
            msg = (
                f"The kernel matrix must be positive semidefinite: its rounding, or the kernel, leaves a lower bound "
                f"{dual:.6g} of the optimum above the objective {primal:.6g} of a model. Give a precomputed matrix in "
                "double precision, scale the features, or lower C."
            )
            raise InputError(msg)
        return Model(fitted | kept, bounds, passes, found.status, Start(D, found.coef))

    def _bounds(self, problem: Problem) -> Bounds:
        part = self._part(problem, self.gamma_)
        if part is None:
            return Bounds(0.0, 0.0)
        certifier = SeparationCertifier(part.problem)
        primal = certifier.objective(self._point(vars(self), problem, part)).of_multiple(1.0)
        state = self._kept_state(problem)
        kept = state is not None and state.D.shape == (len(part.rows), len(part.problem.atoms))
        return Bounds(primal, certifier.dual(state.D) if kept else None)

    def _part(self, problem: Problem, gamma: float) -> _Part | None:
        """Rows and labels with a part in training, and their problem; None if there are none."""
        varies = np.flatnonzero(~problem.constant)
        positives, missing = known_labels(problem, varies)
        cost = problem.costs.row
        unknown = 0 if missing is None else np.diff(missing.indptr)
        rows = np.flatnonzero((cost > 0) & (unknown < len(varies)))
        if not len(rows):
            return None
        positives, missing = positives[rows], None if missing is None else missing[rows]
        atoms = self._atoms(positives, missing, cost[rows] / problem.C)
        X, K = self._inputs(problem, rows, gamma)
        cost = side_costs(problem.costs.part(rows), varies, positives, labels_lacked(positives, missing))
        part = SeparationProblem(X, K, self._constant_feature(), positives, missing, cost, atoms)
        largest = float(cost.max()) * float(part.squares().max())
        if not largest <= LARGEST:
            msg = (
                f"The largest C K(x, x) must not be above {LARGEST:g}; it is {largest:.3g} with "
                f"{shown_C(self, problem.C)} and "
                f"intercept_scaling={self.intercept_scaling!r}. Scale the features, or lower C or intercept_scaling."
            )
            raise InputError(msg)
        return _Part(rows, varies, part)

    def _check_scale(self, part: SeparationProblem) -> None:
        """Say before a long run that it will not end well."""
        solver = second_solver(part, max(self.max_iter, MANY_PASSES))[0] if self.solver == "auto" else self.solver
        mean = float(part.squares().mean())
        scale = float(part.cost.mean()) * mean
        clashes = part.K is None and part.rank < part.n_rows  # else labels can be separated, and training converges
        if clashes and scale > MOST_SCALE[solver]:
            msg = (
                f"C K(x, x) is {scale:.3g} on average: with solver={solver!r} training is not expected to converge "
                f"above {MOST_SCALE[solver]:g}. Scale the features (sklearn.preprocessing.StandardScaler or "
                f"Normalizer), or choose C around {1 / mean:.2g}."
            )
            warnings.warn(msg, stacklevel=4)

    def _certified(self, problem: Problem, part: _Part, found: Proposal) -> tuple[dict[str, Any], Bounds, sp.csr_array]:
        """Attributes of the proposed model, the bounds they and its dual variables give, and those, made feasible.

        It is kept in the precision of X, if that is fine enough. A model that falls short is made shorter, if that is
        better: where training did not get far, its weights are often far too long.
        """
        certifier = SeparationCertifier(part.problem)
        D = certifier.best_multiple(found.D)
        dual = certifier.dual(D)
        for dtype in dict.fromkeys((np.dtype(problem.dtype), np.dtype(np.float64))):
            fitted = self._fitted(problem, part, found, 1.0, dtype)
            objective = certifier.objective(self._point(fitted, problem, part))
            primal = objective.of_multiple(1.0)
            if Bounds(primal, dual).within(self.tol):
                return fitted, Bounds(primal, dual), D
        factor = objective.best_multiple()
        if objective.of_multiple(factor) < (1 - SHORTER) * primal:
            fitted = self._fitted(problem, part, found, factor, np.float64)
            primal = certifier.objective(self._point(fitted, problem, part)).of_multiple(1.0)
        return fitted, Bounds(primal, dual), D

    def _point(self, fitted: Mapping[str, Any], problem: Problem, part: _Part) -> ModelPoint:
        """Build the certifier's view of fitted attributes."""
        atoms, rows, varies = part.problem.atoms, part.rows, part.varies
        if self.kernel == "linear":
            reference = fitted["threshold_coef_"].astype(np.float64)[:, None]
            decisions = fitted["coef_"][varies].T.astype(np.float64)
        else:
            support = fitted["support_"]
            at = np.searchsorted(rows, support)
            if not np.array_equal(rows[np.minimum(at, len(rows) - 1)], support):
                msg = "certify needs the rows the model was trained on; these lack some of its support. Give them all."
                raise InputError(msg)
            reference = np.zeros((len(rows), 1))
            reference[at, 0] = fitted["threshold_coef_"]
            decisions = np.zeros((len(rows), len(varies)))
            decisions[at] = fitted["dual_coef_"][:, varies]
        constant = np.array([fitted["threshold_intercept_"]])
        ratio = self._decision_scale(atoms) / atoms.a[: atoms.n_labels]
        labels = Functions(ratio * (decisions + reference), ratio * (fitted["intercept_"][varies] + constant))
        return ModelPoint(labels, Functions(reference, constant), self._set_functions(fitted, problem, part))

    def _set_functions(self, fitted: Mapping[str, Any], problem: Problem, part: _Part) -> Functions | sp.csr_array:
        n_sets = len(part.problem.atoms) - part.problem.atoms.n_labels
        coef = fitted.get("set_coef_")
        if coef is not None:
            kept, expected = coef.shape, (n_sets, problem.X.shape[1])
        else:
            expected = (problem.X.shape[0], n_sets)
            sets = fitted.get("set_dual_coef_", sp.csr_array(expected))
            kept = sets.shape
        if kept != expected:
            msg = (
                f"certify needs the data the model was trained on: its coefficients of label sets have shape {kept}, "
                f"with these data it would be {expected}."
            )
            raise InputError(msg)
        return sets[part.rows] if coef is None else Functions(coef.T, fitted["set_intercept_"])

    def _kernel(self, Z: Any, gamma: float) -> Kernel:
        """Input kernel with fixed rows Z."""
        return make_kernel(self.kernel, Z, np.float64, gamma, self.degree, self.coef0)

    def _inputs(self, problem: Problem, rows: NDArray[np.intp], gamma: float) -> tuple[Any, NDArray[np.float64] | None]:
        X = problem.X[rows]
        if self.kernel == "linear":
            return X, None
        if self.kernel == "precomputed":
            X = X[:, rows]
        with np.errstate(over="ignore", invalid="ignore"):
            K = gram_matrix(self._kernel(X, gamma), X, problem.n_jobs)[:, : len(rows)]
        check_finite_kernel(K, self.kernel, rows)
        return None, K

    def _start(self, last: WarmStart | None, C: float, shape: tuple[int, int]) -> Start | None:
        """Where the last fit ended; dual variables at their bound move with it when C changes."""
        if last is None or last.state is None or last.state.D.shape != shape:
            return None
        factor = C / last.C
        return Start(sp.csr_array(last.state.D * factor), last.state.coef * factor)

    def _fitted(self, problem: Problem, part: _Part, found: Proposal, factor: float, dtype: Any) -> dict[str, Any]:
        """Decisions and reference score of a proposed model, times a factor."""
        atoms, bias, rows = part.problem.atoms, part.problem.bias, part.rows
        coef = factor * (found.coef if found.weights is None else found.weights)
        threshold = -np.asarray(coef.sum(axis=1)).ravel()
        scores = coef @ (atoms.label_scores() @ sp.diags_array(1.0 / self._decision_scale(atoms)))
        decision = np.zeros((coef.shape[0], problem.labels.n_labels))
        decision[:, part.varies] = (scores.toarray() if sp.issparse(scores) else scores) - threshold[:, None]
        sets = coef[:, atoms.n_labels :]
        if found.weights is not None:
            fitted = {
                "coef_": np.ascontiguousarray(decision[:-1].T, dtype=dtype),
                "intercept_": (bias * decision[-1]).astype(dtype),
                "threshold_coef_": threshold[:-1].astype(dtype),
                "threshold_intercept_": float(bias * threshold[-1]),
            }
            if not atoms.unit:
                fitted |= {"set_coef_": np.ascontiguousarray(sets[:-1].T), "set_intercept_": bias * sets[-1]}
            return fitted
        fitted = {
            "intercept_": (bias**2 * decision.sum(axis=0)).astype(dtype),
            "threshold_intercept_": float(bias**2 * threshold.sum()),
        }
        if not atoms.unit:
            cells, shape = sp.coo_array(sets), (problem.X.shape[0], sets.shape[1])
            fitted["set_dual_coef_"] = sp.csr_array((cells.data, (rows[cells.row], cells.col)), shape=shape)
        if self.kernel == "linear":
            X = problem.X[rows].astype(np.float64, copy=False)
            fitted["coef_"] = np.ascontiguousarray(safe_sparse_dot(X.T, decision, dense_output=True).T, dtype=dtype)
            fitted["threshold_coef_"] = np.asarray(X.T @ threshold, dtype=dtype)
            return fitted
        used = (decision != 0).any(axis=1) | (threshold != 0)
        fitted |= {
            "support_": rows[used],
            "dual_coef_": decision[used].astype(dtype),
            "threshold_coef_": threshold[used].astype(dtype),
        }
        if self.kernel != "precomputed":
            fitted["support_vectors_"] = problem.X[rows[used]]
        return fitted

    def _linear_part(self, X: Any, coefficients: NDArray[Any], intercept: Any) -> NDArray[Any]:
        if self.kernel == "linear":
            return np.asarray(safe_sparse_dot(X, coefficients, dense_output=True) + intercept)
        if self.kernel == "precomputed":
            return np.asarray(safe_sparse_dot(X[:, self.support_], coefficients, dense_output=True) + intercept)
        scores = np.zeros((X.shape[0], coefficients.shape[1]))
        if len(self.support_):
            kernel = self._kernel(self.support_vectors_, self.gamma_)
            for rows in row_blocks(X.shape[0], len(self.support_)):
                scores[rows] = kernel.values(kernel.prepare(X[rows])) @ coefficients
        return np.asarray(scores + intercept)

    def _scores(self, X: Any) -> NDArray[Any]:
        coefficients = self.coef_.T if self.kernel == "linear" else self.dual_coef_
        return self._linear_part(X, coefficients, self.intercept_)

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        if self.kernel == "linear":
            fitted["coef_"][constant] = 0.0
        else:
            fitted["dual_coef_"][:, constant] = 0.0
        fitted["intercept_"][constant] = value[constant]

    def _fitted_rules(self) -> dict[str, Rule]:
        linear = self.kernel == "linear"
        weights = {"coef_": array_of("labels features"), "gamma_": number(0.0)}
        return {
            **super()._fitted_rules(),
            **(weights if linear else support_rules(self, np.float64)),
            "intercept_": array_of("labels"),
            "threshold_coef_": array_of("features" if linear else "support"),
            "threshold_intercept_": number(),
            "n_atoms_": count(0),
            "set_coef_": array_of("sets features"),
            "set_intercept_": array_of("sets"),
            "set_dual_coef_": array_of("rows sets", sparse=True),
        }

    def _decided(self, scores: NDArray[Any]) -> NDArray[np.bool_]:
        predicted = super()._decided(scores)
        varies = ~np.isin(self.label_names_, self.constant_labels_)
        if self.fallback is not None and varies.any():
            empty = np.flatnonzero(~predicted.any(axis=1))
            predicted[empty, np.where(varies, scores[empty], -np.inf).argmax(axis=1)] = True
        return predicted
