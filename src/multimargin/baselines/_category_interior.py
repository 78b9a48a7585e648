"""Ranking by the worst pair of every row, by an interior-point method: a cell is an ordered pair, a group is a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin.baselines._rank_svm_certifier import Array, RankProblem
from multimargin.baselines._rank_svm_interior import RankProposal, differences, rank_weights
from multimargin.estimators.interior_point import InteriorSystem, input_factor, run_interior

__all__ = ["solve_category_interior"]


def solve_category_interior(problem: RankProblem, limits: _core.Limits) -> RankProposal:
    """Rank by steps of Newton's method in the interior of the feasible set."""
    n_rows, n_labels = problem.positives.shape
    pairs = np.zeros((n_rows, n_labels, n_labels), dtype=np.int8)
    for i, on, off, _ in problem.pairs():
        pairs[i][np.ix_(on, off)] = problem.cost[i] > 0
    c = float(problem.cost.max())
    factor = input_factor(problem.X, None, problem.bias)
    found = run_interior(_Rows(factor.Z, differences(n_labels), pairs.reshape(n_rows, -1), problem.cost / c, c), limits)
    z = found.z.reshape(pairs.shape)
    dual = z.sum(axis=2) - z.sum(axis=1)
    return RankProposal(rank_weights(problem, factor, found.W), dual, found.passes, found.status)


class _Rows(InteriorSystem):
    def __init__(self, Z: Array, V: Array, S: NDArray[np.int8], cost: Array, c: float):
        super().__init__(Z, V, S, c)
        self.cost = np.where(self.used.any(axis=1), cost, 1.0)  # of a row without pairs it does not matter

    def shares(self) -> Array:
        return np.asarray((self.cost / (self.used.sum(axis=1) + 1.0))[:, None])

    def spread(self, groups: Array) -> Array:
        return np.where(self.used, groups, 0.0)

    def sums(self, cells: Array) -> Array:
        return np.asarray(cells.sum(axis=1, keepdims=True))

    def curvature(self, inverse: Array, slack: Array) -> Array:
        q = self.V.shape[1]
        along = inverse @ self.V
        T = (inverse @ self.products).reshape(-1, q, q)
        T -= along[:, :, None] * (along / (self.sums(inverse) + slack))[:, None, :]
        return np.asarray(T)

    def loss(self, U: Array) -> float:
        worst = np.where(self.used, 1.0 - U, 0.0).max(axis=1)
        return float(self.cost @ np.maximum(0.0, worst))
