"""Training rows with a constant feature, dense or sparse, as the solvers of the baselines use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Inputs"]

Array = NDArray[np.float64]


class Inputs:
    """Products with the rows psi = (x, bias), in double precision; the constant column is never appended.

    Parameters
    ----------
    X : array or csr matrix of shape (n_rows, n_features)
    bias : float
        The constant feature; its weight is the last of a vector of weights, also where it is 0.
    """

    def __init__(self, X: Any, bias: float):
        self.X = X.astype(np.float64, copy=False)
        self.bias = bias

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features, constant one included."""
        return self.X.shape[0], self.X.shape[1] + 1

    @property
    def size(self) -> int:
        """Number of stored entries."""
        return int(self.X.nnz if sp.issparse(self.X) else self.X.size)

    def scores(self, W: Array) -> Array:
        """Products of rows with weights of shape (n_outputs, n_features + 1)."""
        return np.asarray(self.X @ W[:, :-1].T) + self.bias * W[:, -1]

    def combined(self, coefficients: Array) -> Array:
        """Sum rows times coefficients of shape (n_rows, n_outputs)."""
        sums = np.asarray(self.X.T @ coefficients).T
        return np.column_stack([sums, self.bias * coefficients.sum(axis=0)])

    def squares(self, weight: Array) -> Array:
        """Sum over the rows of weight times squared features: a vector, or one for each column of weights."""
        squared = self.X.power(2) if sp.issparse(self.X) else self.X**2
        return np.concatenate([np.asarray(squared.T @ weight), [self.bias**2 * weight.sum(axis=0)]])

    def gram(self, weight: Array) -> Array:
        """Sum over the rows of weight psi psi'."""
        d = self.X.shape[1]
        G = np.empty((d + 1, d + 1))
        if sp.issparse(self.X):
            G[:d, :d] = (self.X.T @ self.X.multiply(weight[:, None]).tocsr()).toarray()
        else:
            scaled = np.sqrt(weight)[:, None] * self.X
            G[:d, :d] = scaled.T @ scaled
        G[d, :d] = G[:d, d] = self.bias * np.asarray(self.X.T @ weight)
        G[d, d] = self.bias**2 * weight.sum()
        return G

    def row_gram(self) -> Array:
        """Products psi' psi between the rows."""
        K = self.X @ self.X.T
        return np.asarray(K.toarray() if sp.issparse(K) else K) + self.bias**2

    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues of the sum of psi psi' that are not zero, and their eigenvectors, as columns."""
        n, d = self.shape
        values, vectors = np.linalg.eigh(self.gram(np.ones(n)) if d <= n else self.row_gram())
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        return values, vectors if d <= n else self.combined(vectors).T / np.sqrt(values)
