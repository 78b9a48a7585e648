"""Certifier of the ranking by the worst pair of every row, from the data alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multimargin.baselines._rank_svm_certifier import Array, RankProblem

__all__ = ["CategoryProblem"]


class CategoryProblem(RankProblem):
    """Rows whose loss is that of their worst pair."""

    def loss(self, scores: Array) -> float:
        """Sum of the losses of all rows."""
        has, lacks = self._sides()
        lowest = np.where(has, scores, np.inf).min(axis=1)
        highest = np.where(lacks, scores, -np.inf).max(axis=1)
        # rows with labels on one side only have no loss, since -inf - (+inf) is far below -1
        return float(self.cost @ np.maximum(0.0, 1.0 + highest - lowest))

    def dual(self, coefficients: Array) -> float:
        """Value of coefficients of the rows in the weights, after they were moved into their feasible set.

        Those of a row are not negative for its labels, not positive for others, and add up to the same on both sides,
        its cost at most.
        """
        has, lacks = self._sides()
        on, off = np.where(has, coefficients, 0.0).clip(min=0.0), np.where(lacks, -coefficients, 0.0).clip(min=0.0)
        used = np.minimum(np.minimum(on.sum(axis=1), off.sum(axis=1)), self.cost)
        feasible = _scaled(on, used) - _scaled(off, used)
        return float(used.sum()) - 0.5 * self.squared_norm(feasible)

    def _sides(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return self.positives.toarray().astype(bool), self.negatives.toarray().astype(bool)


def _scaled(part: Array, sums: Array) -> Array:
    """Rows of numbers that are not negative, scaled to these sums."""
    now = part.sum(axis=1)
    factors = np.divide(sums, now, out=np.zeros_like(now), where=now > 0)
    return np.asarray(part * factors[:, None])
