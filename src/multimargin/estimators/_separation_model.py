"""What the two separation estimators share: everything but their parameters' texts and their atoms."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from multimargin.errors import InputError
from multimargin.estimators._base import (
    LARGEST,
    Interval,
    MultilabelClassifier,
    Problem,
    Solution,
    StrOptions,
    row_blocks,
)
from multimargin.estimators._certificate import Bounds
from multimargin.estimators._monitor import Monitor
from multimargin.estimators._separation import second_solver, solve_separation
from multimargin.estimators._separation_certifier import Functions, ModelPoint, SeparationCertifier
from multimargin.estimators._separation_problem import (
    Limits,
    Proposal,
    SeparationProblem,
    Start,
    check_finite_kernel,
    known_labels,
)
from multimargin.kernels import KERNELS, POSITIVE_DATA, Kernel, check_kernel, gram_matrix, make_kernel, resolve_gamma
from multimargin.label_kernels import LabelAtoms, single_labels

__all__ = ["SeparationModel"]

MOST_ROWS = 20_000  # for kernels of the inputs
ATTEMPTS = 3  # to reach a gap which the solver sees and the certifier does not
MANY_PASSES = 5000  # fewer are a limit of their own, whatever the scale
SET_ATTRIBUTES = ("set_coef_", "set_intercept_", "set_dual_coef_")
SHORTER = 0.01  # what a shorter model must gain
MOST_SCALE = {"rows": 1e5, "admm": 1e6, "interior": 1e17}  # measured: docs/label_set_kernels.md


@dataclass(frozen=True)
class _Task:
    """The rows and labels with a part in training, by number, and their problem."""

    rows: NDArray[np.intp]
    varies: NDArray[np.intp]
    problem: SeparationProblem

    @classmethod
    def nothing(cls, problem: Problem) -> _Task:
        none, sets = np.zeros(0, dtype=np.intp), sp.csr_array((0, 0))
        empty = SeparationProblem(problem.X[:0], None, 0.0, sets, sets, np.zeros(0), single_labels(0))
        return cls(none, none, empty)


class SeparationModel(MultilabelClassifier):
    """Base of the separation estimators: kernel of the inputs, fit, scores and threshold."""

    kernel: Any
    gamma: Any
    kernel_degree: float
    coef0: float
    fit_intercept: bool
    intercept_scaling: float
    fallback: str
    solver: str

    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultilabelClassifier._parameter_constraints,
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "kernel_degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "fallback": [StrOptions({"none", "top1"})],
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

    def _atoms(self, positives: sp.csr_array, negatives: sp.csr_array, weight: NDArray[np.float64]) -> LabelAtoms:
        raise AssertionError

    def _decision_scale(self, atoms: LabelAtoms) -> NDArray[np.float64]:
        """Return what label scores are divided by before they are compared with the reference score."""
        return atoms.a[: atoms.n_labels]

    def _check_problem(self, problem: Problem) -> None:
        n_rows = problem.X.shape[0]
        used = problem.costs.row > 0
        self._gamma = resolve_gamma(self.gamma, problem.X if used.all() else problem.X[used], self.kernel)
        check_kernel(self.kernel, problem.X, self._gamma, self.kernel_degree, self.coef0, problem.seed)
        if self.kernel != "linear" and n_rows > MOST_ROWS:
            msg = (
                f"kernel={self.kernel!r} needs the matrix of kernel values between all {n_rows} training rows "
                f"({n_rows**2 * 8 / 2**30:.1f} GiB); at most {MOST_ROWS} rows are allowed. Use kernel='linear', "
                "approximate the kernel (sklearn.kernel_approximation), or train on fewer rows."
            )
            raise InputError(msg)
        if self.fallback == "top1" and problem.labels.n_labels == 1:
            msg = "fallback='top1' would predict the only label everywhere. Use fallback='none' for a single label."
            raise InputError(msg)
        last = getattr(self, "_dual", None)
        if self.warm_start and last is not None and last[1] != problem.labels.positives.shape:
            msg = (
                f"warm_start=True continues on the same rows and labels: the last fit had shape {last[1]}, this one "
                f"has {problem.labels.positives.shape}. Set warm_start=False, or fit a clone."
            )
            raise InputError(msg)

    def _solve(self, problem: Problem, monitor: Monitor) -> Solution:
        self.gamma_ = self._gamma
        del self._gamma
        task = self._task(problem)
        if task is None:
            none = sp.csr_array((0, 0))
            found = Proposal(none, none, None, 0.0, 0.0, 1, "converged")
            self._set_model(problem, _Task.nothing(problem), found, 1.0, problem.dtype)
            self.n_atoms_ = 0
            monitor(1, 0.0, 0.0, 0.0)
            return Solution(0.0, 0.0, 1, "converged")
        self._check_scale(task.problem)
        self.n_atoms_ = len(task.problem.atoms)
        start = self._start((len(task.rows), self.n_atoms_))
        tol, passes = self.tol, 0
        for _ in range(ATTEMPTS):
            found = self._propose(problem, task, tol, passes, monitor, start)
            passes += found.passes
            primal, dual, D = self._certified(problem, task, found)
            if Bounds(primal, dual).within(self.tol) or found.status != "converged" or passes >= self.max_iter:
                break
            tol, start = 0.1 * tol, Start(D, found.coef)
        if task.problem.K is not None and dual - primal > self.tol * abs(primal):
            msg = (
                f"The kernel matrix must be positive semidefinite: its rounding, or the kernel, leaves a lower bound "
                f"{dual:.6g} of the optimum above the objective {primal:.6g} of a model. Give a precomputed matrix in "
                "double precision, scale the features, or lower C."
            )
            raise InputError(msg)
        self.__dict__.pop("_dual", None)
        if self.warm_start:
            self._dual = (Start(D, found.coef), problem.labels.positives.shape, self.C)
        return Solution(primal, dual, passes, found.status)

    def _bounds(self, problem: Problem) -> Bounds:
        task = self._task(problem)
        if task is None:
            return Bounds(0.0, 0.0)
        certifier = SeparationCertifier(task.problem)
        primal = certifier.objective(self._point(problem, task)).of_multiple(1.0)
        D = self._dual[0].D if hasattr(self, "_dual") else None
        kept = D is not None and D.shape == (len(task.rows), len(task.problem.atoms))
        return Bounds(primal, certifier.dual(D) if kept else None)

    def _task(self, problem: Problem) -> _Task | None:
        """Rows and labels with a part in training, and their problem; None if there are none."""
        varies = np.flatnonzero(~problem.constant)
        positives, negatives = known_labels(problem, varies)
        cost = problem.exact_costs.row
        informative = np.diff(positives.indptr) + np.diff(negatives.indptr) > 0
        rows = np.flatnonzero((cost > 0) & informative)
        if not len(rows):
            return None
        positives, negatives, cost = positives[rows], negatives[rows], cost[rows]
        atoms = self._atoms(positives, negatives, cost / self.C)
        X, K = self._inputs(problem, rows)
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        task = SeparationProblem(X, K, bias, positives, negatives, cost, atoms)
        largest = float(cost.max()) * float(task.squares().max())
        if not largest <= LARGEST:
            msg = (
                f"The largest C K(x, x) must not be above {LARGEST:g}; it is {largest:.3g} with C={self.C!r} and "
                f"intercept_scaling={self.intercept_scaling!r}. Scale the features, or lower C or intercept_scaling."
            )
            raise InputError(msg)
        return _Task(rows, varies, task)

    def _check_scale(self, task: SeparationProblem) -> None:
        """Say before a long run that it will not end well."""
        solver = second_solver(task, max(self.max_iter, MANY_PASSES))[0] if self.solver == "auto" else self.solver
        mean = float(task.squares().mean())
        scale = float(np.average(task.cost)) * mean
        clashes = task.K is None and task.rank < task.n_rows  # else labels can be separated, and training converges
        if clashes and scale > MOST_SCALE[solver]:
            msg = (
                f"C K(x, x) is {scale:.3g} on average: with solver={solver!r} training is not expected to converge "
                f"above {MOST_SCALE[solver]:g}. Scale the features (sklearn.preprocessing.StandardScaler or "
                f"Normalizer), or choose C around {1 / mean:.2g}."
            )
            warnings.warn(msg, stacklevel=4)

    def _propose(
        self, problem: Problem, task: _Task, tol: float, done: int, monitor: Monitor, start: Start | None
    ) -> Proposal:
        def report(pass_: int, seconds: float, primal: float | None, dual: float | None) -> bool:
            return monitor(done + pass_, seconds, primal, dual)

        left = None if self.time_limit is None else max(self.time_limit - monitor.elapsed, 0.0)
        limits = Limits(tol, self.max_iter - done, left, problem.n_jobs, problem.seed)
        return solve_separation(task.problem, self.solver, limits, report, start)

    def _certified(self, problem: Problem, task: _Task, found: Proposal) -> tuple[float, float, sp.csr_array]:
        """Keep the proposed model; return its objective as it is kept, a dual value and feasible dual variables.

        It is kept in the precision of X, if that is fine enough. A model that falls short is made shorter, if that is
        better: where training did not get far, its weights are often far too long.
        """
        certifier = SeparationCertifier(task.problem)
        D = certifier.best_multiple(found.D)
        dual = certifier.dual(D)
        for dtype in dict.fromkeys((np.dtype(problem.dtype), np.dtype(np.float64))):
            self._set_model(problem, task, found, 1.0, dtype)
            objective = certifier.objective(self._point(problem, task))
            primal = objective.of_multiple(1.0)
            if Bounds(primal, dual).within(self.tol):
                return primal, dual, D
        factor = objective.best_multiple()
        if objective.of_multiple(factor) < (1 - SHORTER) * primal:
            self._set_model(problem, task, found, factor, np.float64)
            primal = certifier.objective(self._point(problem, task)).of_multiple(1.0)
        return primal, dual, D

    def _point(self, problem: Problem, task: _Task) -> ModelPoint:
        """Build the certifier's view of the fitted attributes."""
        atoms = task.problem.atoms
        if self.kernel == "linear":
            reference = self.threshold_coef_.astype(np.float64)[:, None]
            decisions = self.coef_[task.varies].T.astype(np.float64)
        else:
            at = np.searchsorted(task.rows, self.support_)
            if not np.array_equal(task.rows[np.minimum(at, len(task.rows) - 1)], self.support_):
                msg = "certify needs the rows the model was trained on; these lack some of its support. Give them all."
                raise InputError(msg)
            reference = np.zeros((len(task.rows), 1))
            reference[at, 0] = self.threshold_coef_
            decisions = np.zeros((len(task.rows), len(task.varies)))
            decisions[at] = self.dual_coef_[:, task.varies]
        constant = np.array([self.threshold_intercept_])
        ratio = self._decision_scale(atoms) / atoms.a[: atoms.n_labels]
        labels = Functions(ratio * (decisions + reference), ratio * (self.intercept_[task.varies] + constant))
        return ModelPoint(labels, Functions(reference, constant), self._set_functions(problem, task))

    def _set_functions(self, problem: Problem, task: _Task) -> Functions | sp.csr_array:
        n_sets = len(task.problem.atoms) - task.problem.atoms.n_labels
        if hasattr(self, "set_coef_"):
            kept, expected = self.set_coef_.shape, (n_sets, problem.X.shape[1])
        else:
            expected = (problem.X.shape[0], n_sets)
            sets = getattr(self, "set_dual_coef_", sp.csr_array(expected))
            kept = sets.shape
        if kept != expected:
            msg = (
                f"certify needs the data the model was trained on: its coefficients of label sets have shape {kept}, "
                f"with these data it would be {expected}."
            )
            raise InputError(msg)
        return Functions(self.set_coef_.T, self.set_intercept_) if hasattr(self, "set_coef_") else sets[task.rows]

    def _kernel(self, Z: Any) -> Kernel:
        """Input kernel with fixed rows Z."""
        return make_kernel(self.kernel, Z, np.float64, self.gamma_, self.kernel_degree, self.coef0)

    def _inputs(self, problem: Problem, rows: NDArray[np.intp]) -> tuple[Any, NDArray[np.float64] | None]:
        X = problem.X[rows]
        if self.kernel == "linear":
            return X, None
        if self.kernel == "precomputed":
            X = X[:, rows]
        with np.errstate(over="ignore", invalid="ignore"):
            K = gram_matrix(self._kernel(X), X, problem.n_jobs)[:, : len(rows)]
        check_finite_kernel(K, self.kernel, rows)
        return None, K

    def _start(self, shape: tuple[int, int]) -> Start | None:
        """Where the last fit ended; dual variables at their bound move with it when C changes."""
        last = getattr(self, "_dual", None)
        if not self.warm_start or last is None or last[0].D.shape != shape:
            return None
        factor = self.C / last[2]
        return Start(sp.csr_array(last[0].D * factor), last[0].coef * factor)

    def _set_model(self, problem: Problem, task: _Task, found: Proposal, factor: float, dtype: Any) -> None:
        """Keep the decisions and the reference score of a proposed model, times a factor."""
        for name in ("coef_", "support_", "support_vectors_", "dual_coef_", *SET_ATTRIBUTES):
            self.__dict__.pop(name, None)  # of an earlier fit with another kernel
        atoms, bias, rows = task.problem.atoms, task.problem.bias, task.rows
        coef = factor * (found.coef if found.weights is None else found.weights)
        threshold = -np.asarray(coef.sum(axis=1)).ravel()
        scores = coef @ (atoms.label_scores() @ sp.diags_array(1.0 / self._decision_scale(atoms)))
        decision = np.zeros((coef.shape[0], problem.labels.n_labels))
        decision[:, task.varies] = (scores.toarray() if sp.issparse(scores) else scores) - threshold[:, None]
        sets = coef[:, atoms.n_labels :]
        if found.weights is not None:
            self.coef_ = np.ascontiguousarray(decision[:-1].T, dtype=dtype)
            self.intercept_ = (bias * decision[-1]).astype(dtype)
            self.threshold_coef_ = threshold[:-1].astype(dtype)
            self.threshold_intercept_ = float(bias * threshold[-1])
            if not atoms.unit:
                self.set_coef_, self.set_intercept_ = np.ascontiguousarray(sets[:-1].T), bias * sets[-1]
            return
        self.intercept_ = (bias**2 * decision.sum(axis=0)).astype(dtype)
        self.threshold_intercept_ = float(bias**2 * threshold.sum())
        if not atoms.unit:
            part, shape = sp.coo_array(sets), (problem.X.shape[0], sets.shape[1])
            self.set_dual_coef_ = sp.csr_array((part.data, (rows[part.row], part.col)), shape=shape)
        if self.kernel == "linear":
            X = problem.X[rows].astype(np.float64, copy=False)
            self.coef_ = np.ascontiguousarray(safe_sparse_dot(X.T, decision, dense_output=True).T, dtype=dtype)
            self.threshold_coef_ = np.asarray(X.T @ threshold, dtype=dtype)
            return
        used = (decision != 0).any(axis=1) | (threshold != 0)
        self.support_ = rows[used]
        self.dual_coef_ = decision[used].astype(dtype)
        self.threshold_coef_ = threshold[used].astype(dtype)
        if self.kernel != "precomputed":
            self.support_vectors_ = problem.X[self.support_]

    def _linear_part(self, X: Any, coefficients: NDArray[Any], intercept: Any) -> NDArray[Any]:
        if self.kernel == "linear":
            return np.asarray(safe_sparse_dot(X, coefficients, dense_output=True) + intercept)
        if self.kernel == "precomputed":
            return np.asarray(safe_sparse_dot(X[:, self.support_], coefficients, dense_output=True) + intercept)
        scores = np.zeros((X.shape[0], coefficients.shape[1]))
        if len(self.support_):
            kernel = self._kernel(self.support_vectors_)
            for rows in row_blocks(X.shape[0], len(self.support_)):
                scores[rows] = kernel.values(kernel.prepare(X[rows])) @ coefficients
        return np.asarray(scores + intercept)

    def _scores(self, X: Any) -> NDArray[Any]:
        coefficients = self.coef_.T if self.kernel == "linear" else self.dual_coef_
        return self._linear_part(X, coefficients, self.intercept_)

    def _set_constant(self, constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        if self.kernel == "linear":
            self.coef_[constant] = 0.0
        else:
            self.dual_coef_[:, constant] = 0.0
        self.intercept_[constant] = value[constant]

    def _positives(self, X: Any) -> sp.csr_array:
        if self.fallback == "none":
            return super()._positives(X)
        varies = ~np.isin(self.label_names_, self.constant_labels_)
        blocks = []
        for rows in row_blocks(X.shape[0], len(self.label_names_)):
            scores = self._scores(X[rows])
            predicted = scores > 0
            empty = np.flatnonzero(~predicted.any(axis=1))
            if varies.any():
                predicted[empty, np.where(varies, scores[empty], -np.inf).argmax(axis=1)] = True
            blocks.append(sp.csr_array(predicted))
        return sp.csr_array(sp.vstack(blocks, format="csr"))
