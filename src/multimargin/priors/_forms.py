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
OUTSIDE = 1e-11
NO_TIE = 1e-12
BLOCK = 2048


class PriorForms:
    """Quadratic forms of a checked prior R.

    R is used as a product P P': where R is singular, weights and dual variables may be large along its null space, and
    only P takes that out before anything is squared. Eigenvalues within rounding of 0 count as 0.

    Parameters
    ----------
    prior : ndarray of shape (n_labels, n_labels) or LowRankPrior
    """

    def __init__(self, prior: NDArray[np.float64] | LowRankPrior) -> None:
        self._form: _Decomposed
        if isinstance(prior, LowRankPrior) and (len(prior.factor) > DECOMPOSED_LABELS or not np.any(prior.diagonal)):
            self._form = _Factored(prior)
        else:
            self._form = _Decomposed(prior)

    def apply(self, V: NDArray[Any]) -> NDArray[np.float64]:
        """V R, for V of shape (n, n_labels)."""
        return self._form.apply(np.asarray(V, dtype=np.float64))

    def project(self, Z: NDArray[Any]) -> NDArray[np.float64]:
        """Return the part of Z (n_labels, n) in the range of R."""
        return self._form.project(np.asarray(Z, dtype=np.float64))

    def solve(self, Z: NDArray[Any]) -> NDArray[np.float64]:
        """R^+ Z, for Z of shape (n_labels, n): the smallest V with R V = Z, if there is one."""
        return self._form.solve(np.asarray(Z, dtype=np.float64))

    def square(self, V: NDArray[Any]) -> float:
        """Tr(V R V') for V of shape (n, n_labels)."""
        return sum(self._form.square(V[rows]) for rows in _blocks(len(V)))

    def inverse_square(self, Z: NDArray[Any]) -> float:
        """Tr(Z' R^+ Z) for Z of shape (n_labels, n); infinite where Z leaves the range of R by more than rounding."""
        return self.inverse_product(Z.T, Z.T)

    def inverse_product(self, A: NDArray[Any], U: NDArray[Any]) -> float:
        """Tr(A R^+ U') for A and U of shape (n, n_labels); infinite where A leaves the range of R."""
        total = outside = squares = 0.0
        for rows in _blocks(len(A)):
            a = np.asarray(A[rows], dtype=np.float64)
            inside, rest = self._form.inverse_product(a, np.asarray(U[rows], dtype=np.float64))
            total += inside
            outside += rest
            squares += float(np.vdot(a, a))
        return np.inf if outside > OUTSIDE * squares else total


class _Decomposed:
    """R from its eigenvectors."""

    def __init__(self, prior: NDArray[np.float64] | LowRankPrior) -> None:
        values, vectors = np.linalg.eigh(prior.toarray() if isinstance(prior, LowRankPrior) else prior)
        self._keep(vectors, values)

    def _keep(self, vectors: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        kept = values > len(vectors) * np.finfo(float).eps * values.max()
        self.vectors, self.values = vectors[:, kept], values[kept]

    def apply(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((V @ self.vectors * self.values) @ self.vectors.T)

    def project(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        return Z if self.vectors.shape[0] == self.vectors.shape[1] else self.vectors @ (self.vectors.T @ Z)

    def solve(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.vectors @ ((self.vectors.T @ Z) / self.values[:, None]))

    def square(self, V: NDArray[np.float64]) -> float:
        return float(np.square(V @ self.vectors).sum(axis=0) @ self.values)

    def inverse_product(self, A: NDArray[np.float64], U: NDArray[np.float64]) -> tuple[float, float]:
        inside = A @ self.vectors
        outside = float(np.vdot(A, A)) - float(np.vdot(inside, inside))
        return float(np.vdot(inside / self.values, U @ self.vectors)), max(outside, 0.0)


class _Factored(_Decomposed):
    """A factor, or one with a diagonal for many labels: R is never formed, unless some of the diagonal is 0."""

    def __init__(self, prior: LowRankPrior) -> None:
        self.factor, self.diagonal = prior.factor, np.asarray(prior.diagonal)
        vectors, singular, _ = np.linalg.svd(self.factor, full_matrices=False)
        self._keep(vectors, singular**2)
        if self.diagonal.any():
            if not self.diagonal.all():
                super().__init__(prior)
            self.root = np.sqrt(self.diagonal)
            self.scaled = self.factor / np.where(self.root > 0, self.root, 1.0)[:, None]
            self.cholesky = np.linalg.cholesky(np.eye(self.scaled.shape[1]) + self.scaled.T @ self.scaled)

    def apply(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(V * self.diagonal + (V @ self.factor) @ self.factor.T)

    def project(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        return Z if self.diagonal.all() else super().project(Z)

    def solve(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.diagonal.all():
            return super().solve(Z)
        scaled = Z / self.root[:, None]
        explained = scipy.linalg.cho_solve((self.cholesky, True), self.scaled.T @ scaled)
        return np.asarray((scaled - self.scaled @ explained) / self.root[:, None])

    def square(self, V: NDArray[np.float64]) -> float:
        return float(np.square(V @ self.factor).sum() + np.square(V).sum(axis=0) @ self.diagonal)

    def inverse_product(self, A: NDArray[np.float64], U: NDArray[np.float64]) -> tuple[float, float]:
        if not self.diagonal.all():
            return super().inverse_product(A, U)
        A, U = A / self.root, U / self.root
        return float(np.vdot(A, U)) - float(np.vdot(self._explained(A), self._explained(U))), 0.0

    def _explained(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """By Woodbury's identity, what the factor takes from the inverse of the diagonal."""
        return np.asarray(scipy.linalg.solve_triangular(self.cholesky, (A @ self.scaled).T, lower=True))


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
