"""Ranking SVM by an interior-point method: a cell is a row and an ordered pair of labels, and a group of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multimargin.baselines._rank_svm_certifier import RankProblem
from multimargin.estimators.interior_point import (
    Found,
    InteriorSystem,
    input_factor,
    run_interior,
    suits_interior,
)

__all__ = ["rank_fits_interior", "solve_rank_interior"]

Array = NDArray[np.float64]


def rank_fits_interior(problem: RankProblem) -> bool:
    """Whether the problem is small enough."""
    (n, d), n_labels = problem.X.shape, problem.positives.shape[1]
    return suits_interior(n, d, min(n, d + 1), n_labels**2, n_labels)


def solve_rank_interior(
    problem: RankProblem, tol: float, max_iter: int, seconds: float, monitor: Callable[[int, float, float, float], bool]
) -> tuple[Found, Array, Array]:
    """Return what was found, weights of the labels, constant feature last, and dual variables of the pairs."""
    n_rows, n_labels = problem.positives.shape
    bounds = np.zeros((n_rows, n_labels, n_labels))
    for i, on, off, bound in problem.pairs():
        bounds[i][np.ix_(on, off)] = bound
    c = float(bounds.max())
    first, second = np.divmod(np.arange(n_labels**2), n_labels)
    V = np.eye(n_labels)[first] - np.eye(n_labels)[second]
    factor = input_factor(problem.X, None, problem.bias)
    system = _Cells(factor.Z, V, bounds.reshape(n_rows, -1) / c, c)

    def report(pass_: int, time: float, primal: float, dual: float) -> bool:
        return monitor(pass_, time, c * primal, c * dual)

    found = run_interior(system, tol, max_iter, seconds, report)
    z = c * found.z.reshape(bounds.shape)
    alpha = [z[i][np.ix_(on, off)].ravel() for i, on, off, _ in problem.pairs()]
    W = np.sqrt(c) * found.W
    weights = factor.weights(W)
    if weights is None:
        coef = factor.coefficients(W)
        weights = np.vstack([problem.X.T @ coef, problem.bias * coef.sum(axis=0)])
    return found, weights.T, np.concatenate(alpha)


class _Cells(InteriorSystem):
    def __init__(self, Z: Array, V: Array, bound: Array, c: float):
        super().__init__(Z, V, (bound > 0).astype(np.int8), c)
        self.bound = bound

    def shares(self) -> Array:
        return np.where(self.used, self.bound / 2, 1.0)

    def spread(self, groups: Array) -> Array:
        return np.where(self.used, groups, 0.0)

    def sums(self, cells: Array) -> Array:
        return cells

    def curvature(self, inverse: Array, slack: Array) -> Array:
        q = self.V.shape[1]
        return np.asarray((inverse * (slack / (inverse + slack)) @ self.products).reshape(-1, q, q))

    def loss(self, U: Array) -> float:
        return float(np.sum(self.bound * np.maximum(0.0, 1.0 - U)))
