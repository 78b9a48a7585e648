"""The solvers of linear M3L and the order in which they work on a problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.cython_lapack
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators._base import Problem
from multimargin.estimators._m3l import Prior, prior_targets
from multimargin.estimators._monitor import Monitor
from multimargin.priors import LowRankPrior
from multimargin.priors._forms import PriorForms

__all__ = ["LinearSolvers", "linear_certifier"]

DSYEVD = scipy.linalg.cython_lapack.__pyx_capi__["dsyevd"]
NEWTON_MAX_FEATURES = 1000
# Up to this many labels, a factor with a diagonal is faster multiplied out.
DENSE_PRIOR_LABELS = 256
# Passes of the problem without coupling after which it is mostly clear which solver suits, and the relative gap to
# which it is then solved for a start.
PROBE_PASSES = 24
PROBE_TOL = 0.1
# The same where coordinate ascent is the only solver: these passes are cheaper than coupled ones, but soon lead astray.
HEAD_START_PASSES = 5
# Iterations after which the Newton finish with labels in batches creeps (it took 20 to 40 to a gap of 1e-3 and 35 to
# 110 to 1e-4; with a prior close to the identity and a small C, more than 1000 to 1e-6).
WIDE_ITERATIONS = 300


class LinearSolvers:
    """Coordinate ascent, and the Newton finish that takes over where it would be slow (core/m3l).

    A prior spread over many directions starts from the problem with the diagonal of R alone: its passes are cheaper,
    and the Newton finish for independent labels chooses its steps label by label and makes progress even from afar.
    """

    def __init__(
        self,
        problem: Problem,
        monitor: Monitor,
        *,
        prior_margins: bool,
        bias: float,
        tol: float,
        max_iter: int,
        time_limit: float,
        passes: int = 0,
    ) -> None:
        self.problem = problem
        self.monitor = monitor
        self.forms = None if problem.prior is None else PriorForms(problem.prior)
        self.prior = _cast(problem.prior, problem.dtype)
        self.prior_margins = prior_margins and self.prior is not None
        self.bias = bias
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.passes = passes  # of a solver before this one
        self.certifier = linear_certifier(problem, self.forms, bias, prior_margins=self.prior_margins)
        self.common: dict[str, Any] = {
            "rows": problem.rows(),
            "n_labels": problem.labels.n_labels,
            "positives": problem.positives(),
            "missing": problem.missing(),
            "bias": bias,
            "threads": problem.n_jobs,
        }
        self.costs = problem.costs.native()
        self._basis: Any = None
        self.near = False  # whether the weights of a problem much like this one are known

    def solve(
        self, beta: NDArray[Any] | None, weights: NDArray[Any] | None, after_newton: bool, keep_beta: bool
    ) -> dict[str, Any]:
        """Solve from these signed dual variables and weights, if any.

        The result holds weights (L, D + 1), the last column the intercepts. ``after_newton`` tells whether the start is
        that of a Newton finish; ``newton`` in the result tells it of this one.
        """
        self.near = weights is not None
        if self.prior is None:
            if weights is not None and after_newton and self.may_refine:
                return self._refine({"beta": beta, "passes": self.passes}, weights=weights)
            result = self._ascend(beta, keep_beta=keep_beta)
            return self._refine(result, weights=weights) if result["status"] == "hand_over" else result
        factor = _eigenfactor(self.prior, self.problem.dtype) if self.may_refine else None
        if factor is not None and self._is_wide(factor) and _is_mild(self.prior):
            return self._solve_wide(factor, beta, weights, keep_beta)
        passes = self.passes
        if beta is None and not self.prior_margins and factor is None and _is_mild(self.prior):
            alone = _Alone(self.costs, self.prior)
            probe = self._probe(alone, HEAD_START_PASSES)
            beta, passes = alone.unscaled(probe["beta"]), probe["passes"]
            if probe["status"] in ("stopped", "time_limit") or passes >= self.max_iter:
                last = self._ascend(beta, keep_beta=keep_beta, passes=passes - 1, max_iter=passes, silent=True)
                return {**last, "status": probe["status"]} if last["status"] == "max_iter" else last
        result = self._ascend(beta, keep_beta=keep_beta, passes=passes)
        return self._refine(result, factor=factor) if result["status"] == "hand_over" else result

    def _probe(self, alone: _Alone, passes: int) -> dict[str, Any]:
        return self._ascend(None, keep_beta=True, alone=alone, max_iter=min(passes, self.max_iter))

    def _solve_wide(
        self, factor: tuple[Any, ...], beta: NDArray[Any] | None, weights: NDArray[Any] | None, keep_beta: bool
    ) -> dict[str, Any]:
        if beta is not None and weights is not None:
            return self._refine_wide({"beta": beta, "passes": self.passes}, factor, weights)
        alone = _Alone(self.costs, self.prior)
        probe = self._probe(alone, PROBE_PASSES)
        if probe["status"] in ("max_iter", "converged") and probe["passes"] < self.max_iter:
            ascent = self._ascend(alone.unscaled(probe["beta"]), keep_beta=keep_beta, passes=probe["passes"])
            if ascent["status"] != "hand_over":
                return ascent
            probe = {**ascent, "beta": alone.scaled(ascent["beta"])}
        if probe["status"] == "hand_over":
            probe = self._refine(probe, alone=alone, tol=max(PROBE_TOL, self.tol))
        start = {**probe, "beta": alone.unscaled(probe["beta"])}
        if probe["status"] == "converged":
            return self._refine_wide(start, factor, self.nearby(probe["weights"]))
        # Stopped: the certificate of this point is all that is left to do.
        start["passes"] = probe["passes"] - 1
        result = self._refine(start, factor=factor, weights=self.nearby(probe["weights"]), last=True)
        return {**result, "status": probe["status"]} if result["status"] == "max_iter" else result

    def _refine_wide(self, start: dict[str, Any], factor: tuple[Any, ...], weights: NDArray[Any]) -> dict[str, Any]:
        """Labels in batches; if that creeps, all labels together with one common tau and theta."""
        limit = min(self.max_iter, start["passes"] + WIDE_ITERATIONS)
        result = self._refine(start, factor=factor, weights=weights, max_iter=limit)
        if result["status"] == "max_iter" and limit < self.max_iter:
            return self._refine(result, factor=factor)
        return result

    def _ascend(
        self,
        beta: NDArray[Any] | None,
        *,
        keep_beta: bool,
        alone: _Alone | None = None,
        max_iter: int | None = None,
        passes: int | None = None,
        silent: bool = False,
    ) -> dict[str, Any]:
        prior = self.prior if alone is None else None
        result = _core.fit_linear_m3l(
            **self.common,
            costs=self.costs if alone is None else alone.costs,
            prior=_native(prior),
            weigh=None if prior is None else self._weights,
            prior_margins=self.prior_margins,
            start=beta,
            certifier=self.certifier if alone is None else None,
            keep_beta=keep_beta,
            passes=self.passes if passes is None else passes,
            patience=self._patience(near=self.near or prior is not None),
            tol=self.tol,
            max_iter=self.max_iter if max_iter is None else max_iter,
            seed=self.problem.seed,
            report=None if silent else self.monitor if alone is None else self._tell_pass,
            time_limit=self.time_limit - self.monitor.elapsed,
        )
        return {**result, "newton": False}

    def _refine(
        self,
        start: dict[str, Any],
        *,
        factor: tuple[Any, ...] | None = None,
        weights: NDArray[Any] | None = None,
        alone: _Alone | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
        last: bool = False,
    ) -> dict[str, Any]:
        if self._basis is None:
            self._basis = eigenbasis(self.problem.X, self.bias)
        result = _core.refine_linear_m3l(
            **self.common,
            costs=self.costs if alone is None else alone.costs,
            factor=factor,
            basis=self._basis,
            start=start["beta"],
            weights=weights,
            certifier=self.certifier if alone is None else None,
            weigh=None if self.forms is None or alone is not None else self._in_range,
            passes=start["passes"],
            tol=self.tol if tol is None else tol,
            max_iter=start["passes"] + 1 if last else self.max_iter if max_iter is None else max_iter,
            report=None if last else self.monitor if alone is None else self._tell_pass,
            time_limit=self.time_limit - self.monitor.elapsed,
        )
        return {**result, "newton": True}

    def _weights(self, state: NDArray[Any]) -> NDArray[Any]:
        """Weights (n_labels, n_features + 1), the last column the intercepts, from what the solver keeps.

        See core/m3l/prior.hpp. Computed in double precision and rounded once.
        """
        assert self.forms is not None
        prior, V = self.problem.prior, state.astype(np.float64)
        if isinstance(prior, LowRankPrior) and not np.any(prior.diagonal):
            Z = V @ prior.factor.T
        else:
            Z = self.forms.apply(V)
        Z[-1] *= self.bias
        return np.ascontiguousarray(Z.T, dtype=self.problem.dtype)

    def _in_range(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return the weights without what rounding has left of them outside the range of R."""
        assert self.forms is not None
        return np.ascontiguousarray(self.forms.project(weights), dtype=weights.dtype)

    def nearby(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return such weights with those of the constant feature in place of the intercepts."""
        weights = weights.astype(self.problem.dtype)
        weights[:, -1] *= 1 / self.bias if self.bias else 0.0
        return np.ascontiguousarray(weights)

    def _tell_pass(self, pass_: int, time: float, primal: float | None, dual: float | None) -> bool:
        """Report a pass over a problem that is not the user's: its bounds are not his."""
        del primal, dual
        return self.monitor(pass_, time, None, None)

    @property
    def may_refine(self) -> bool:
        """Whether the Newton finish, which also starts from weights, can serve."""
        return bool(np.isfinite(self._patience()))

    def _patience(self, *, near: bool = False) -> float:
        """Return the passes of coordinate ascent that the Newton finish is worth, where it can serve at all.

        From weights nearby it takes a third of its iterations.
        """
        n_samples, n_features = self.problem.X.shape
        if self.prior_margins or n_features > NEWTON_MAX_FEATURES or n_samples <= n_features:
            return np.inf
        return newton_patience(n_features, sparse=sp.issparse(self.problem.X)) / (3 if near else 1)

    def _is_wide(self, factor: tuple[Any, ...]) -> bool:
        """Whether products with X are cheaper label by label than through the factor."""
        n_labels, rank = factor[0].shape
        n_features = self.problem.X.shape[1]
        return bool(rank * (n_features + n_labels) >= n_features * n_labels)


def linear_certifier(
    problem: Problem, forms: PriorForms | None, bias: float, *, prior_margins: bool
) -> tuple[Any, Any, Any]:
    """Return what the native certifier takes besides the rows and labels; all in double precision."""

    def quadratic(weights: NDArray[Any], V: NDArray[np.float64]) -> tuple[float, float]:
        assert forms is not None
        Z = weights.astype(np.float64)
        Z[:, -1] *= 1 / bias if bias else 0.0
        return forms.inverse_square(Z), forms.square(V)

    targets = prior_targets(problem) if prior_margins and forms is not None else None
    return problem.exact_costs.native(), targets, None if forms is None else quadratic


def newton_patience(n_features: int, *, sparse: bool) -> float:
    """Return the passes that cost as much as a typical Newton finish.

    For dense rows that forms matrices with a row and a column per feature: 45 to 90 passes on 120 features, 250 to 300
    on 252.
    """
    return 400.0 if sparse else min(max(n_features**3 / 36_000, 16.0), 300.0)


def _is_mild(prior: Prior) -> bool:
    """Whether R is spread over many directions, so that the labels' own problems lie near the coupled one."""
    R = prior.toarray() if isinstance(prior, LowRankPrior) else np.asarray(prior)
    return bool(np.trace(R) ** 2 >= 0.25 * len(R) * np.square(R, dtype=np.float64).sum())


class _Alone:
    """The problem with diag(R) instead of R, as one with R = I: costs c_l R_ll, and dual variables that grow alike."""

    def __init__(self, costs: tuple[Any, ...], prior: Prior) -> None:
        row, positive, negative, cells = costs
        R = prior.toarray() if isinstance(prior, LowRankPrior) else np.asarray(prior)
        self.diagonal = np.ascontiguousarray(np.diag(R), dtype=positive.dtype)
        self.costs = (row, positive * self.diagonal, negative * self.diagonal, cells)

    def scaled(self, beta: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(beta * self.diagonal)

    def unscaled(self, beta: NDArray[Any]) -> NDArray[Any]:
        positive = self.diagonal > 0
        return np.ascontiguousarray(beta * np.where(positive, 1 / np.where(positive, self.diagonal, 1), 0))


def eigenbasis(X: Any, bias: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Eigenvectors (Q and its transpose) and eigenvalues of the Gram matrix of the features, constant one included."""
    n = X.shape[1]
    G = np.empty((n + 1, n + 1))
    G[:n, :n] = (X.T @ X).toarray() if sp.issparse(X) else X.T @ X
    G[n, :n] = G[:n, n] = bias * np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
    G[n, n] = bias**2 * X.shape[0]
    values, Q = np.linalg.eigh(G.astype(X.dtype))
    return np.ascontiguousarray(Q), np.ascontiguousarray(Q.T), values.astype(np.float64)


def _eigenfactor(prior: Prior, dtype: Any) -> tuple[Any, ...] | None:
    """P and its transpose with R = P P', without the null space of R, and SciPy's eigensolver."""
    if prior is None:
        return None
    R = prior.toarray() if isinstance(prior, LowRankPrior) else prior.astype(np.float64)
    values, vectors = np.linalg.eigh(R)
    kept = values > 1e-10 * values[-1]
    P = vectors[:, kept] * np.sqrt(values[kept])
    return np.ascontiguousarray(P, dtype=dtype), np.ascontiguousarray(P.T, dtype=dtype), DSYEVD


def _cast(prior: Prior, dtype: Any) -> Prior:
    if isinstance(prior, LowRankPrior):
        return LowRankPrior(np.ascontiguousarray(prior.factor, dtype), np.ascontiguousarray(prior.diagonal, dtype))
    return None if prior is None else np.ascontiguousarray(prior, dtype)


def _native(prior: Prior) -> tuple[Any, ...] | None:
    if prior is None:
        return None
    if isinstance(prior, LowRankPrior):
        diagonal = np.asarray(prior.diagonal)
        if diagonal.any() and len(diagonal) <= DENSE_PRIOR_LABELS:
            return (np.ascontiguousarray(prior.toarray(), dtype=prior.factor.dtype),)
        return prior.factor, np.ascontiguousarray(prior.factor.T), diagonal if diagonal.any() else None
    return (prior,)
