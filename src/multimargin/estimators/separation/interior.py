"""Calibrated separation by an interior-point method: a group is a row and a side."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.errors import InputError
from multimargin.estimators.interior_point import (
    MOST_UNKNOWNS,
    InteriorSystem,
    input_factor,
    run_interior,
    suits_interior,
)
from multimargin.estimators.separation.problem import Proposal, SeparationProblem, losses, spectrum

__all__ = ["fits_interior", "solve_interior"]

Array = NDArray[np.float64]


def fits_interior(problem: SeparationProblem) -> bool:
    """Whether the problem is small enough."""
    n, n_labels = len(problem.atoms), problem.atoms.n_labels
    n_features = 0 if problem.K is not None else problem.X.shape[1]

    def suits(label_rank: int) -> bool:
        return suits_interior(problem.n_rows, n_features, problem.rank, n, label_rank)

    return suits(n_labels) and (n == n_labels or suits(spectrum(problem.atoms.coupling())[0].shape[1]))


def solve_interior(problem: SeparationProblem, limits: _core.Limits) -> Proposal:
    """Solve by steps of Newton's method in the interior of the feasible set."""
    if not fits_interior(problem):
        msg = (
            f"solver='interior' solves a system with an unknown for each input and label dimension, at most "
            f"{MOST_UNKNOWNS}; {problem.n_rows} rows of rank {problem.rank} and {len(problem.atoms)} label sets are "
            "too many. Use solver='rows' or 'admm', or fewer rows or features."
        )
        raise InputError(msg)
    c = float(problem.cost.max())
    vectors, lengths = spectrum(problem.atoms.coupling())
    factor, V = input_factor(problem.X, problem.K, problem.bias), np.asarray(vectors * np.sqrt(lengths))
    system = _Sides(factor.Z, V, problem.signs(), problem.cost / c, c)
    found = run_interior(system, limits)
    W = found.W @ np.linalg.pinv(V)
    D = sp.csr_array(system.S * found.z)
    values = (found.primal, found.dual, found.passes, found.status)
    return Proposal(D, factor.coefficients(W), factor.weights(W), *values)


class _Sides(InteriorSystem):
    def __init__(self, Z: Array, V: Array, S: NDArray[np.int8], cost: Array, c: float):
        super().__init__(Z, V, S, c)
        self.cost = np.where(cost > 0, cost, 1.0)  # sides that cost nothing have no atoms
        self.sides = (S > 0, S < 0)

    def shares(self) -> Array:
        return np.asarray(self.cost / (self.sums(np.ones(self.S.shape)) + 1.0))

    def spread(self, groups: Array) -> Array:
        above, below = (np.where(side, groups[:, k, None], 0.0) for k, side in enumerate(self.sides))
        return np.asarray(above + below)

    def sums(self, cells: Array) -> Array:
        return np.stack([np.where(side, cells, 0.0).sum(axis=1) for side in self.sides], axis=1)

    def curvature(self, inverse: Array, slack: Array) -> Array:
        q, total = self.V.shape[1], self.sums(inverse) + slack
        T = (inverse @ self.products).reshape(-1, q, q)
        for k, side in enumerate(self.sides):
            along = np.where(side, inverse, 0.0) @ self.V
            T -= along[:, :, None] * (along / total[:, k, None])[:, None, :]
        return np.asarray(T)

    def loss(self, U: Array) -> float:
        return float(np.sum(self.cost * losses(U, self.S)))
