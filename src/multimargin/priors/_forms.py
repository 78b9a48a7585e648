"""What a prior makes of weights, in double precision: its quadratic forms, and which labels it ties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from multimargin.priors._checks import LowRankPrior

__all__ = ["PriorForms", "components"]

# Up to this many labels R is decomposed as a whole, whatever its form.
DECOMPOSED_LABELS = 2048
# Share of the squared weights that rounding may leave outside the range of R; single precision leaves about 1e-14.
OUTSIDE = 1e-9
NO_TIE = 1e-12
BLOCK = 2048


class PriorForms:
    """Quadratic forms of a checked prior R.

    Parameters
    ----------
    prior : ndarray of shape (n_labels, n_labels) or LowRankPrior
    """

    def __init__(self, prior: NDArray[np.float64] | LowRankPrior) -> None:
        self.prior = prior
        self._inverse: _Eigen | _Woodbury | None = None

    def apply(self, V: NDArray[Any]) -> NDArray[np.float64]:
        """V R, for V of shape (n, n_labels)."""
        V = np.asarray(V, dtype=np.float64)
        if not isinstance(self.prior, LowRankPrior):
            return np.asarray(V @ self.prior)
        return np.asarray(V * self.prior.diagonal + (V @ self.prior.factor) @ self.prior.factor.T)

    def square(self, V: NDArray[Any]) -> float:
        """Tr(V R V') for V of shape (n, n_labels)."""
        return sum(float(np.vdot(self.apply(V[rows]), V[rows])) for rows in _blocks(len(V)))

    def inverse_square(self, Z: NDArray[Any]) -> float:
        """Tr(Z' R^+ Z) for Z of shape (n_labels, n); infinite where Z leaves the range of R by more than rounding."""
        return self.inverse_product(Z.T, Z.T)

    def inverse_product(self, A: NDArray[Any], U: NDArray[Any]) -> float:
        """Tr(A R^+ U') for A and U of shape (n, n_labels); infinite where A leaves the range of R."""
        if self._inverse is None:
            self._inverse = _inverse(self.prior)
        total = outside = squares = 0.0
        for rows in _blocks(len(A)):
            a = np.asarray(A[rows], dtype=np.float64)
            inside, rest = self._inverse.product(a, np.asarray(U[rows], dtype=np.float64))
            total += inside
            outside += rest
            squares += float(np.vdot(a, a))
        return np.inf if outside > OUTSIDE * squares else total


class _Eigen:
    """R^+ from orthonormal vectors and the eigenvalues of R that are not zero."""

    def __init__(self, vectors: NDArray[np.float64], values: NDArray[np.float64], n: int) -> None:
        kept = values > n * np.finfo(float).eps * values.max()
        self.vectors, self.values = vectors[:, kept], values[kept]

    def product(self, A: NDArray[np.float64], U: NDArray[np.float64]) -> tuple[float, float]:
        inside = A @ self.vectors
        outside = float(np.vdot(A, A)) - float(np.vdot(inside, inside))
        return float(np.vdot(inside / self.values, U @ self.vectors)), max(outside, 0.0)


class _Woodbury:
    """R^-1 of a factor with a positive diagonal."""

    def __init__(self, prior: LowRankPrior) -> None:
        self.root = np.sqrt(prior.diagonal)
        self.scaled = prior.factor / self.root[:, None]
        self.cholesky = np.linalg.cholesky(np.eye(self.scaled.shape[1]) + self.scaled.T @ self.scaled)

    def product(self, A: NDArray[np.float64], U: NDArray[np.float64]) -> tuple[float, float]:
        A, U = A / self.root, U / self.root
        return float(np.vdot(A, U)) - float(np.vdot(self._explained(A), self._explained(U))), 0.0

    def _explained(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(scipy.linalg.solve_triangular(self.cholesky, (A @ self.scaled).T, lower=True))


def _inverse(prior: NDArray[np.float64] | LowRankPrior) -> _Eigen | _Woodbury:
    if isinstance(prior, LowRankPrior):
        n = len(prior.factor)
        if not np.any(prior.diagonal):
            vectors, singular, _ = np.linalg.svd(prior.factor, full_matrices=False)
            return _Eigen(vectors, singular**2, n)
        if n > DECOMPOSED_LABELS and np.all(prior.diagonal):
            return _Woodbury(prior)
        prior = prior.toarray()
    values, vectors = np.linalg.eigh(prior)
    return _Eigen(vectors, values, len(prior))


def components(prior: NDArray[np.float64] | LowRankPrior) -> NDArray[np.int32]:
    """Return the number of each label's group: labels that R ties, directly or through others, share one."""
    if isinstance(prior, LowRankPrior):
        links = sp.csr_array(np.asarray(prior.factor) != 0)
        return np.asarray(connected_components(links @ links.T, directed=False)[1])
    scale = np.sqrt(np.diag(prior))
    return np.asarray(connected_components(sp.csr_array(np.abs(prior) > NO_TIE * np.outer(scale, scale)))[1])


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, BLOCK):
        yield slice(start, start + BLOCK)
