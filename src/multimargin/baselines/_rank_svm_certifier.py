"""Certifier of the ranking SVM: the objective of a model and the value of dual variables, from the data alone.

The weights of the labels sum to zero in every dual point, since each pair adds to one label what it takes from another;
so do the best ones. A model keeps weights less a vector they share, its threshold: taking their mean away gives weights
with the same differences, hence the same losses, and the least norm among all with these differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["RankProblem"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RankProblem:
    """Rows, labels which they have and which they are known to lack, and costs.

    Attributes
    ----------
    X : array or csr matrix of shape (n_rows, n_features)
    bias : float
        Constant feature.
    positives, negatives : csr_array of shape (n_rows, n_labels)
    cost : ndarray of shape (n_rows,)
    """

    X: Any
    bias: float
    positives: sp.csr_array
    negatives: sp.csr_array
    cost: Array

    def pairs(self) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], float]]:
        """Rows with labels on both sides: number, labels, labels they lack, and cost of a pair."""
        for i, cost in enumerate(self.cost):
            on, off = (
                cells.indices[cells.indptr[i] : cells.indptr[i + 1]] for cells in (self.positives, self.negatives)
            )
            if len(on) and len(off):
                yield i, on, off, float(cost) / (len(on) * len(off))

    def primal(self, coef: Array, intercept: Array) -> float:
        """Objective of decisions, from which any function of the input may have been taken."""
        if not len(coef):
            return 0.0
        coef = coef.astype(np.float64) - coef.mean(axis=0, dtype=np.float64)
        intercept = intercept.astype(np.float64) - intercept.mean(dtype=np.float64)
        scores = np.asarray(self._inputs() @ coef.T + intercept)
        constant = intercept / self.bias if self.bias else np.zeros(len(intercept))
        return 0.5 * float(np.sum(coef**2) + np.sum(constant**2)) + self.loss(scores)

    def loss(self, scores: Array) -> float:
        """Sum of the losses of all pairs."""
        loss = 0.0
        for i, on, off, bound in self.pairs():
            loss += bound * float(np.maximum(0.0, 1.0 - scores[i, on][:, None] + scores[i, off]).sum())
        return loss

    def dual(self, alpha: Array) -> float:
        """Value of dual variables of the pairs, after they were moved between their bounds."""
        total, coefficients = 0.0, np.zeros(self.positives.shape)
        first = 0
        for i, on, off, bound in self.pairs():
            size = len(on) * len(off)
            part = np.clip(alpha[first : first + size], 0.0, bound).reshape(len(on), len(off))
            coefficients[i, on] += part.sum(axis=1)
            coefficients[i, off] -= part.sum(axis=0)
            total += float(part.sum())
            first += size
        return total - 0.5 * self.squared_norm(coefficients)

    def squared_norm(self, coefficients: Array) -> float:
        """Squared norm of the weights that contain each row so often."""
        weights, constant = self._inputs().T @ coefficients, self.bias * coefficients.sum(axis=0)
        return float(np.sum(weights**2) + np.sum(constant**2))

    def squares(self) -> Array:
        """K(x, x) of each row, constant feature included."""
        X = self._inputs()
        squares = X.power(2).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)
        return np.asarray(squares).ravel() + self.bias * self.bias

    def _inputs(self) -> Any:
        return self.X.astype(np.float64, copy=False)
