"""Ranking SVM by an interior-point method: a cell is a row and an ordered pair of labels, and a group of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin.baselines._rank_svm_certifier import RankProblem
from multimargin.estimators.interior_point import (
    InputFactor,
    InteriorSystem,
    input_factor,
    run_interior,
    suits_interior,
)

__all__ = ["RankProposal", "differences", "rank_fits_interior", "rank_weights", "solve_rank_interior"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RankProposal:
    """What a solver returns.

    Attributes
    ----------
    weights : ndarray of shape (n_labels, n_features + 1)
        Those of the constant feature last.
    dual : ndarray
        Dual variables, as the certifier of the problem takes them.
    passes : int
        Those of solvers before it included.
    status : Status
    """

    weights: Array
    dual: Array
    passes: int
    status: Status


def rank_fits_interior(problem: RankProblem) -> bool:
    """Whether the problem is small enough."""
    (n, d), n_labels = problem.X.shape, problem.positives.shape[1]
    return suits_interior(n, d, min(n, d + 1), n_labels**2, n_labels)


def solve_rank_interior(problem: RankProblem, limits: _core.Limits) -> RankProposal:
    """Rank by steps of Newton's method in the interior of the feasible set."""
    n_rows, n_labels = problem.positives.shape
    bounds = np.zeros((n_rows, n_labels, n_labels))
    for i, on, off, bound in problem.pairs():
        bounds[i][np.ix_(on, off)] = bound
    c = float(bounds.max())
    factor = input_factor(problem.X, None, problem.bias)
    found = run_interior(_Cells(factor.Z, differences(n_labels), bounds.reshape(n_rows, -1) / c, c), limits)
    z = found.z.reshape(bounds.shape)
    alpha = [z[i][np.ix_(on, off)].ravel() for i, on, off, _ in problem.pairs()]
    return RankProposal(rank_weights(problem, factor, found.W), np.concatenate(alpha), found.passes, found.status)


def differences(n_labels: int) -> Array:
    """Return a row for each ordered pair of labels, with 1 for the first and -1 for the second."""
    first, second = np.divmod(np.arange(n_labels**2), n_labels)
    return np.asarray(np.eye(n_labels)[first] - np.eye(n_labels)[second])


def rank_weights(problem: RankProblem, factor: InputFactor, W: Array) -> Array:
    """Weights of the labels, those of the constant feature last, from those of a factor of the inputs."""
    weights = factor.weights(W)
    if weights is None:
        coef = factor.coefficients(W)
        weights = np.vstack([problem.X.T @ coef, problem.bias * coef.sum(axis=0)])
    return np.asarray(weights.T)


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
