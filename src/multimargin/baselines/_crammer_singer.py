r"""Multi-class SVM of Crammer and Singer by exact steps over the dual variables of one row at a time.

Minimises :math:`\tfrac12 \sum_k |w_k|^2 + \sum_i c_i \max_k \big( [k \ne k_i] - (w_{k_i} - w_k)^\top \psi_i \big)` with
:math:`\psi_i = (x_i, s)`. The dual variables of row i are :math:`a_{ik} \le c_i [k = k_i]` with sum 0, weights are
:math:`w_k = \sum_i a_{ik} \psi_i`, and the dual value is :math:`\sum_i a_{i k_i} - \tfrac12 |W|^2`. For one row,
:math:`a_{ik} = \min(u_{ik}, (\theta - g_k) / |\psi_i|^2)` with the scores g of the other rows, plus 1 for wrong
classes, and :math:`\theta` so that they sum to 0; the classes below their bound are the ones with the largest
:math:`g_k + u_{ik} |\psi_i|^2`, found by sorting. A pass visits the rows in random order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin.baselines._inputs import Inputs
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.monitor import Clock
from multimargin.kernels import one_blas_thread

__all__ = ["CrammerSingerProblem"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CrammerSingerProblem:
    """Inputs, the class of each row by number, and what its error costs."""

    inputs: Inputs
    code: NDArray[np.intp]
    n_classes: int
    cost: Array

    def primal(self, W: Array) -> float:
        """Objective of weights of shape (n_classes, n_features + 1)."""
        scores = self.inputs.scores(W)
        rows = np.arange(len(scores))
        own = scores[rows, self.code].copy()
        scores += 1.0
        scores[rows, self.code] -= 1.0
        return 0.5 * float(np.sum(W * W)) + float(self.cost @ (scores.max(axis=1) - own))

    def dual(self, alpha: Array) -> float:
        """Value of dual variables of shape (n_rows, n_classes)."""
        W = self.inputs.combined(alpha)
        return float(alpha[np.arange(len(alpha)), self.code].sum()) - 0.5 * float(np.sum(W * W))

    def solve(self, limits: _core.Limits) -> tuple[Array, Array, int, Status]:
        """Maximise the dual; return weights, dual variables, passes and why it ended."""
        with one_blas_thread:
            return self._ascend(limits)

    def _ascend(self, limits: _core.Limits) -> tuple[Array, Array, int, Status]:
        n, d = self.inputs.shape
        alpha = np.zeros((n, self.n_classes))
        W = np.zeros((self.n_classes, d))
        visit = _Visits(self, W, alpha)
        rng, clock = np.random.default_rng(limits.seed), Clock(limits)
        used = np.flatnonzero((self.cost > 0) & (visit.squares > 0))
        self._settle_empty(alpha, np.flatnonzero(visit.squares == 0))
        while True:
            for i in rng.permutation(used):
                visit.row(i)
            W[:] = self.inputs.combined(alpha)
            clock.end_pass()
            bounds = Bounds(self.primal(W), self.dual(alpha))
            if clock.tell(bounds.primal, bounds.dual):
                return W, alpha, clock.passes, Status.stopped
            if bounds.within(limits.tol):
                return W, alpha, clock.passes, Status.converged
            if clock.is_last:
                return W, alpha, clock.passes, clock.reason

    def _settle_empty(self, alpha: Array, rows: NDArray[np.intp]) -> None:
        """Rows of zeros cost the same whatever the weights are: their dual variables are at their bound."""
        if self.n_classes > 1:
            alpha[rows, self.code[rows]] = self.cost[rows]
            alpha[rows, (self.code[rows] + 1) % self.n_classes] = -self.cost[rows]


class _Visits:
    """Steps over one row, which change the weights and dual variables they were given."""

    def __init__(self, problem: CrammerSingerProblem, W: Array, alpha: Array):
        self.problem, self.W, self.alpha = problem, W, alpha
        X, self.bias = problem.inputs.X, problem.inputs.bias
        self.X = sp.csr_array(X) if sp.issparse(X) else X
        rows = self.X.power(2).sum(axis=1) if sp.issparse(self.X) else np.einsum("ij,ij->i", self.X, self.X)
        self.squares = np.asarray(rows).ravel() + self.bias**2

    def row(self, i: int) -> None:
        """Set the dual variables of a row to their best values."""
        columns, x = self._features(i)
        scores = self.W[:, columns] @ x + self.bias * self.W[:, -1]
        own, k, bound = self.problem.code[i], self.squares[i], self.problem.cost[i]
        g = scores - k * self.alpha[i] + 1.0
        g[own] -= 1.0
        new = _best_row(g, own, k, bound)
        change = new - self.alpha[i]
        moved = np.flatnonzero(change)
        if len(moved):
            self.alpha[i] = new
            if isinstance(columns, slice):
                self.W[moved, :-1] += change[moved, None] * x
            else:
                self.W[np.ix_(moved, columns)] += change[moved, None] * x
            self.W[moved, -1] += self.bias * change[moved]

    def _features(self, i: int) -> tuple[Any, Array]:
        """Which features a row has, and their values."""
        if not sp.issparse(self.X):
            return slice(0, self.X.shape[1]), self.X[i]
        part = slice(self.X.indptr[i], self.X.indptr[i + 1])
        return self.X.indices[part], self.X.data[part]


def _best_row(g: Array, own: int, k: float, bound: float) -> Array:
    """Dual variables ``min(u, (theta - g) / k)`` with sum 0, where u is the bound for the own class and 0 elsewhere."""
    level = g.copy()
    level[own] += k * bound
    falling = np.sort(level)[::-1]
    # With the r largest below their bounds, theta = (sum of their levels - k bound) / r.
    thetas = (np.cumsum(falling) - k * bound) / np.arange(1, len(g) + 1)
    r = int(np.argmax(np.append(falling[1:], -np.inf) <= thetas))
    new = np.minimum(0.0, (thetas[r] - level) / k)
    new[own] += bound
    return np.asarray(new)
