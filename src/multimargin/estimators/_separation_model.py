"""What the two separation estimators share: everything but their parameters' texts and their atoms."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from multimargin.errors import InputError
from multimargin.estimators._base import Interval, MultilabelClassifier, Problem, Solution, StrOptions, row_blocks
from multimargin.estimators._monitor import Monitor
from multimargin.estimators._separation import Limits, SeparationProblem, known_labels, solve_separation
from multimargin.grams import gram_matrix
from multimargin.kernels import KERNELS, POSITIVE_DATA, Kernel, check_kernel, make_kernel, resolve_gamma
from multimargin.label_kernels import LabelAtoms

__all__ = ["SeparationModel"]

MOST_ROWS = 20_000  # for kernels of the inputs


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
        "solver": [StrOptions({"auto", "rows", "admm"})],
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
        varies = np.flatnonzero(problem.costs.positive > 0)
        positives, negatives = known_labels(problem, varies)
        cost = problem.costs.row.astype(np.float64)
        informative = np.diff(positives.indptr) + np.diff(negatives.indptr) > 0
        rows = np.flatnonzero((cost > 0) & informative)
        self.gamma_ = self._gamma
        del self._gamma
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        if not len(rows):
            empty = np.zeros((0, problem.labels.n_labels))
            self._set_model(problem, np.zeros(0, dtype=np.intp), empty, np.zeros(0), bias)
            self.n_atoms_ = 0
            monitor(1, 0.0, 0.0, 0.0)
            return Solution(0.0, 0.0, 1, "converged")
        positives, negatives, cost = positives[rows], negatives[rows], cost[rows]
        atoms = self._atoms(positives, negatives, cost / self.C)
        X, K = self._inputs(problem, rows, bias)
        D, solution = solve_separation(
            SeparationProblem(X, K, bias, positives, negatives, cost, atoms),
            self.solver,
            Limits(self.tol, self.max_iter, self.time_limit, problem.n_jobs, problem.seed),
            monitor,
            self._start(D_shape=(len(rows), len(atoms))),
        )
        mass = np.asarray(D.sum(axis=1)).ravel()
        decision = np.zeros((len(rows), problem.labels.n_labels))
        scaled = atoms.label_scores() @ sp.diags_array(1.0 / self._decision_scale(atoms))
        decision[:, varies] = (D @ scaled).toarray() + mass[:, None]
        self._set_model(problem, rows, decision, -mass, bias)
        self.n_atoms_ = len(atoms)
        if self.warm_start:
            self._dual = (D, problem.labels.positives.shape, self.C)
        return solution

    def _kernel(self, Z: Any) -> Kernel:
        """Input kernel with fixed rows Z."""
        return make_kernel(self.kernel, Z, np.float64, self.gamma_, self.kernel_degree, self.coef0)

    def _inputs(self, problem: Problem, rows: NDArray[np.intp], bias: float) -> tuple[Any, NDArray[np.float64] | None]:
        X = problem.X[rows]
        if self.kernel == "linear":
            return X, None
        if self.kernel == "precomputed":
            X = X[:, rows]
        K = gram_matrix(self._kernel(X), X, problem.n_jobs)[:, : len(rows)]
        K += bias**2
        return None, K

    def _start(self, D_shape: tuple[int, int]) -> sp.csr_array | None:
        """Dual variables of the last fit; the ones at their bound move with it when C changes."""
        last = getattr(self, "_dual", None)
        if not self.warm_start or last is None or last[0].shape != D_shape:
            return None
        return sp.csr_array(last[0] * (self.C / last[2]))

    def _set_model(
        self,
        problem: Problem,
        rows: NDArray[np.intp],
        decision: NDArray[np.float64],
        threshold: NDArray[np.float64],
        bias: float,
    ) -> None:
        """Keep the coefficients of the decisions and of the reference score."""
        dtype = problem.dtype
        self.intercept_ = (bias**2 * decision.sum(axis=0)).astype(dtype)
        self.threshold_intercept_ = float(bias**2 * threshold.sum())
        for name in ("coef_", "support_", "support_vectors_", "dual_coef_"):
            self.__dict__.pop(name, None)  # of an earlier fit with another kernel
        if self.kernel == "linear":
            X = problem.X[rows]
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
