"""The linear problem for the native core: what of a prior is matrix work is done here, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.cython_lapack
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators.m3l.base import M3LTask
from multimargin.priors import LowRankPrior
from multimargin.priors._forms import PriorForms

__all__ = ["linear_problem", "prior_arrays"]

DSYEVD = scipy.linalg.cython_lapack.__pyx_capi__["dsyevd"]
# Up to this many labels, a factor with a diagonal is faster multiplied out.
DENSE_PRIOR_LABELS = 256


def linear_problem(task: M3LTask, bias: float) -> _core.LinearM3LProblem:
    """Return the problem with the constant feature ``bias``."""
    problem = task.problem
    return _core.LinearM3LProblem(
        rows=problem.rows,
        labels=problem.cells,
        margins=task.margins.native(),
        bias=bias,
        prior=None if problem.prior is None else _native_prior(problem.prior, problem.X, bias),
        eigenbasis=lambda single: eigenbasis(problem.X, bias, np.float32 if single else np.float64),
    )


def _native_prior(prior: NDArray[Any] | LowRankPrior, X: Any, bias: float) -> _core.LinearPrior:
    forms = PriorForms(prior)
    pure = isinstance(prior, LowRankPrior) and not np.any(prior.diagonal)

    def weigh(state: NDArray[Any]) -> NDArray[Any]:
        """Weights (n_labels, n_features + 1), the last column the intercepts, in double and rounded once."""
        V = state.astype(np.float64)
        Z = V @ prior.factor.T if pure else forms.apply(V)  # type: ignore[union-attr]
        Z[-1] *= bias
        return np.ascontiguousarray(Z.T, dtype=state.dtype)

    def into_range(weights: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(forms.project(weights), dtype=weights.dtype)

    def quadratic(weights: NDArray[Any], V: NDArray[np.float64]) -> tuple[float, float]:
        Z = weights.astype(np.float64)
        Z[:, -1] *= 1 / bias if bias else 0.0
        return forms.inverse_square(Z), forms.square(V)

    R = np.ascontiguousarray(prior.toarray() if isinstance(prior, LowRankPrior) else prior, dtype=np.float64)
    needs_root = _core.newton_may_serve(X.shape[0], X.shape[1])
    return _core.LinearPrior(
        **prior_arrays(prior),
        root=_root(R) if needs_root else None,
        own=np.ascontiguousarray(np.diag(R)),
        mild=bool(np.trace(R) ** 2 >= 0.25 * len(R) * np.square(R).sum()),
        dsyevd=DSYEVD,
        weigh=weigh,
        into_range=into_range,
        forms=quadratic,
    )


def prior_arrays(prior: NDArray[Any] | LowRankPrior | None) -> dict[str, NDArray[np.float64] | None]:
    """Return R in the form that coordinate ascent takes: ``R``, or ``factor``, ``transposed`` and ``diagonal``."""
    arrays: dict[str, NDArray[np.float64] | None] = dict.fromkeys(("R", "factor", "transposed", "diagonal"))
    if isinstance(prior, LowRankPrior):
        factor = np.ascontiguousarray(prior.factor, dtype=np.float64)
        pure = not np.any(prior.diagonal)
        if pure or len(factor) > DENSE_PRIOR_LABELS:
            arrays["factor"], arrays["transposed"] = factor, np.ascontiguousarray(factor.T)
            arrays["diagonal"] = None if pure else np.ascontiguousarray(prior.diagonal, dtype=np.float64)
            return arrays
        prior = prior.toarray()
    if prior is not None:
        arrays["R"] = np.ascontiguousarray(prior, dtype=np.float64)
    return arrays


def _root(R: NDArray[np.float64]) -> NDArray[np.float64]:
    """P with R = P P', without the null space of R."""
    values, vectors = np.linalg.eigh(R)
    kept = values > 1e-10 * values[-1]
    return np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept]))


def eigenbasis(X: Any, bias: float, dtype: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Eigenvectors (Q and its transpose) and eigenvalues of the Gram matrix of the features, constant one included."""
    n = X.shape[1]
    G = np.empty((n + 1, n + 1))
    G[:n, :n] = (X.T @ X).toarray() if sp.issparse(X) else X.T @ X
    G[n, :n] = G[:n, n] = bias * np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
    G[n, n] = bias**2 * X.shape[0]
    values, Q = np.linalg.eigh(G.astype(dtype))
    return np.ascontiguousarray(Q), np.ascontiguousarray(Q.T), values.astype(np.float64)
