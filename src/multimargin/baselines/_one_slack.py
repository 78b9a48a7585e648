"""The one-slack cutting-plane method of SVM-struct (Joachims, Finley, Yu 2009) for losses that are sums over cells.

The sum of all losses is bounded from below by planes,

    min  1/2 |W|^2 + xi    s.t.  xi >= b_k - <G_k, W>,  k = 0, 1, 2, ...

the first of which is xi >= 0. A new plane is the loss at the present W, linearised: b_k is the cost of the cells whose
margin is below 1, G_k the sum of their rows, with sign and cost. The dual over the planes, a >= 0 with sum 1 and value
b.a - 1/2 |sum_k a_k G_k|^2, is solved by steps in two variables. P(W) of the best W seen and the dual value bracket the
optimum: each a is a point of the dual of the original problem as well, in which a cell has its cost times the sum of a
over the planes that contain it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin.estimators.monitor import Clock

__all__ = ["SlackProblem", "SlackProposal", "solve_one_slack"]

IDLE_ROUNDS = 50  # a plane without weight for so long is dropped
INNER_ACCURACY = 0.1  # of the gap
MOST_STEPS = 100_000  # where rounding hides the accuracy asked for

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SlackProblem:
    """Rows, a constant feature, and cells with signs and costs, in the precision of the rows.

    Attributes
    ----------
    X : array or csr matrix of shape (n_rows, n_features)
    bias : float
    sign, cost : ndarray of shape (n_rows, n_labels)
    """

    X: Any
    bias: float
    sign: NDArray[Any]
    cost: NDArray[Any]

    def scores(self, W: Array) -> NDArray[Any]:
        """Scores of weights of shape (n_features + 1, n_labels), those of the constant feature last."""
        W = W.astype(self.X.dtype)
        return np.asarray(self.X @ W[:-1] + self.bias * W[-1])

    def weights(self, beta: NDArray[Any]) -> NDArray[Any]:
        """Sum of the rows with these coefficients."""
        return np.vstack([self.X.T @ beta, self.bias * beta.sum(axis=0)])


@dataclass(frozen=True)
class SlackProposal:
    """The best weights seen, and signed dual variables of the cells."""

    weights: Array
    beta: Array
    passes: int
    status: Status


@dataclass
class _Planes:
    """Planes with their weights a, and the cells they contain, packed."""

    normals: list[NDArray[Any]]
    cells: list[NDArray[np.uint8]]
    offsets: Array
    a: Array
    idle: NDArray[np.int64]
    gram: Array

    @classmethod
    def first(cls, size: int, n_cells: int, dtype: Any) -> _Planes:
        """Return the plane xi >= 0, with all the weight."""
        nothing = np.packbits(np.zeros(n_cells, dtype=bool))
        one, zero = np.ones(1), np.zeros(1)
        return cls([np.zeros(size, dtype=dtype)], [nothing], zero, one, np.zeros(1, dtype=np.int64), np.zeros((1, 1)))

    def add(self, normal: NDArray[Any], cells: NDArray[np.bool_], offset: float) -> None:
        """Add a plane; drop those without weight for long, but for the first."""
        kept = np.flatnonzero((self.idle < IDLE_ROUNDS) | (np.arange(len(self.idle)) == 0))
        self.normals = [*(self.normals[k] for k in kept), normal]
        self.cells = [*(self.cells[k] for k in kept), np.packbits(cells)]
        products = np.array([np.dot(normal, other) for other in self.normals], dtype=np.float64)
        self.gram = np.block([[self.gram[np.ix_(kept, kept)], products[:-1, None]], [products[None]]])
        self.offsets, self.a = np.append(self.offsets[kept], offset), np.append(self.a[kept], 0.0)
        self.idle = np.append(self.idle[kept], 0)

    def ascend(self, accuracy: float) -> None:
        """Maximise b.a - 1/2 a'Ga over the simplex, by moving weight between two planes."""
        gradient = self.offsets - self.gram @ self.a
        diagonal = np.diag(self.gram)
        for _ in range(MOST_STEPS):
            up = int(np.argmax(gradient))
            slack = gradient[up] - gradient
            if slack @ self.a <= accuracy:
                break
            curvature = np.maximum(diagonal[up] + diagonal - 2 * self.gram[up], 1e-300)
            step = np.minimum(slack / curvature, self.a)
            down = int(np.argmax(step * (slack - 0.5 * step * curvature)))
            if not step[down] > 0:
                break  # rounding leaves nothing to move
            self.a[up] += step[down]
            self.a[down] = 0.0 if step[down] == self.a[down] else self.a[down] - step[down]
            gradient -= step[down] * (self.gram[up] - self.gram[down])
        self.idle = np.where(self.a > 0, 0, self.idle + 1)

    def mean(self) -> Array:
        """Mean of the normals by weight: the best W of these planes."""
        total = np.zeros(len(self.normals[0]))
        for k in np.flatnonzero(self.a):
            total += self.a[k] * self.normals[k]
        return total

    def shares(self, n_cells: int) -> Array:
        """For each cell, the weight of the planes that contain it."""
        share = np.zeros(n_cells)
        for k in np.flatnonzero(self.a):
            share += self.a[k] * np.unpackbits(self.cells[k], count=n_cells)
        return share


def solve_one_slack(problem: SlackProblem, limits: _core.Limits) -> SlackProposal:
    """Add planes until the gap is small or a limit is reached."""
    clock = Clock(limits)
    shape, signed = problem.sign.shape, problem.sign * problem.cost
    W = np.zeros((problem.X.shape[1] + 1, shape[1]))
    planes = _Planes.first(W.size, signed.size, problem.X.dtype)
    best, best_W, dual = np.inf, W, 0.0
    while True:
        active = problem.sign * problem.scores(W) < 1
        normal = problem.weights(np.where(active, signed, signed.dtype.type(0))).ravel()
        offset = float(np.sum(problem.cost, where=active, dtype=np.float64))
        primal = 0.5 * float(np.vdot(W, W)) + offset - float(np.dot(normal, W.ravel()))
        if primal < best:
            best, best_W = primal, W
        clock.end_pass()
        stopped = clock.tell(best, dual)
        converged = best - dual <= limits.tol * best
        if converged or stopped or clock.is_last:
            status = Status.converged if converged else Status.stopped if stopped else clock.reason
            return SlackProposal(best_W, planes.shares(signed.size).reshape(shape) * signed, clock.passes, status)
        planes.add(normal, active, offset)
        planes.ascend(INNER_ACCURACY * (best - dual))
        W = planes.mean().reshape(W.shape)
        dual = max(dual, float(planes.offsets @ planes.a) - 0.5 * float(np.vdot(W, W)))
