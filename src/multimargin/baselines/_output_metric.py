r"""Cutting planes for the metric of maximum margin output coding.

Minimises, over positive semidefinite Q,

.. math::

    P(Q) = \tfrac12 |Q|_F^2 + \sum_i c_i \max_y \big( \Delta(y, y_i) - |r_i - y|_Q^2 + |r_i - y_i|_Q^2 \big)

with the Hamming distance and :math:`|v|_Q^2 = v^\top Q v`, y being a label set or, relaxed, a point of the box around
them all. The points that attain the maxima give a plane
:math:`b_k - \langle Q, G_k \rangle` below the second term. Of the problem with K planes the dual is
:math:`\max_a\; a^\top b - \tfrac12 |[\sum_k a_k G_k]_+|_F^2` over :math:`a \ge 0, \sum a \le 1`, where
:math:`[\cdot]_+` is the positive semidefinite part, Q at the optimum; its value is a lower bound. It is maximised
by sequential quadratic programming, and accelerated projected gradient steps where that is not precise enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from multimargin import _core
from multimargin._core import Status
from multimargin.baselines._metric_oracles import MetricOracle
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.monitor import Clock
from multimargin.kernels import one_blas_thread

__all__ = ["MetricProblem"]

Array = NDArray[np.float64]

MOST_INNER_STEPS = 5000
INNER_SHARE = 0.1
"""Share of the gap to which the problem of the planes is solved before the next plane."""


@dataclass(frozen=True)
class MetricProblem:
    """Predictions r and label sets of the rows, as numbers 0 and 1, their costs, and what finds the maxima."""

    predicted: Array
    truth: Array
    cost: Array
    oracle: MetricOracle

    def plane(self, Q: Array) -> tuple[Array, float, float, float]:
        """Return G and b of the plane at Q, the objective there, and the share of maxima that were proved."""
        own = self.predicted - self.truth
        chosen, slack, exact = self.oracle.find(Q, self.predicted, self.truth)
        other = self.predicted - chosen
        distance = np.abs(chosen - self.truth).sum(axis=1)
        value = distance - np.sum(other @ Q * other, axis=1) + np.sum(own @ Q * own, axis=1)
        upper = value + slack
        used = self.cost * (value > 0)  # the true label set is always a choice
        G = (used[:, None] * other).T @ other - (used[:, None] * own).T @ own
        primal = 0.5 * float(np.sum(Q * Q)) + float(self.cost @ np.maximum(upper, 0.0))
        return 0.5 * (G + G.T), float(used @ distance), primal, float(exact.mean())

    def solve(self, limits: _core.Limits) -> tuple[Array, Bounds, int, Status]:
        """Minimise; return Q, its bounds, planes and why it ended."""
        with one_blas_thread:
            return self._cut(limits)

    def _cut(self, limits: _core.Limits) -> tuple[Array, Bounds, int, Status]:
        planes = _Planes()
        n_labels = self.truth.shape[1]
        Q = best = np.zeros((n_labels, n_labels))
        lowest, dual, exact = np.inf, 0.0, 1.0
        clock = Clock(limits)
        while True:
            G, b, primal, proved = self.plane(Q)
            if primal < lowest:
                lowest, best, exact = primal, Q, proved
            clock.end_pass()
            bounds = Bounds(lowest, dual, exact)
            if clock.tell(lowest, dual):
                return best, bounds, clock.passes, Status.stopped
            if bounds.within(limits.tol):
                return best, bounds, clock.passes, Status.converged
            if clock.is_last:
                return best, bounds, clock.passes, clock.reason
            planes.add(G, b)
            Q, value = planes.solve(INNER_SHARE * max(lowest - dual, limits.tol * lowest))
            dual = max(dual, value)


@dataclass
class _Planes:
    """The planes so far, and the last multipliers."""

    G: list[Array] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    a: Array = field(default_factory=lambda: np.zeros(0))

    def add(self, G: Array, b: float) -> None:
        self.G.append(G)
        self.b.append(b)
        self.a = np.append(self.a, 0.0)

    def solve(self, enough: float) -> tuple[Array, float]:
        """Maximise the dual to an absolute gap; return Q and the value."""
        flat = np.array([G.ravel() for G in self.G])
        b, shape = np.array(self.b), self.G[0].shape
        self.a = self._guess(flat, b, shape)
        step = 1.0 / max(float(np.linalg.norm(flat @ flat.T, 2)), np.finfo(float).tiny)
        last, k = self.a, 0
        for _ in range(MOST_INNER_STEPS):
            Q = _positive_part((self.a @ flat).reshape(shape))
            gradient = b - flat @ Q.ravel()
            value = float(self.a @ b) - 0.5 * float(np.sum(Q * Q))
            if max(float(gradient.max()), 0.0) - float(gradient @ self.a) <= enough:
                break
            k = 0 if gradient @ (self.a - last) < 0 else k + 1
            ahead = self.a + k / (k + 3.0) * (self.a - last)
            moved = _positive_part((ahead @ flat).reshape(shape))
            last, self.a = self.a, _onto_simplex(ahead + step * (b - flat @ moved.ravel()))
        return Q, value

    def _guess(self, flat: Array, b: Array, shape: tuple[int, ...]) -> Array:
        """Multipliers by sequential quadratic programming, which are good already unless rounding is in its way."""
        scale = max(float(np.abs(b).max()), np.finfo(float).tiny)

        def negative(a: Array) -> tuple[float, Array]:
            Q = _positive_part((a @ flat).reshape(shape))
            value, gradient = float(a @ b) - 0.5 * float(np.sum(Q * Q)), b - flat @ Q.ravel()
            return -value / scale, -gradient / scale

        inside = {"type": "ineq", "fun": lambda a: 1.0 - a.sum(), "jac": lambda a: -np.ones(len(a))}
        options = {"maxiter": 200, "ftol": 1e-12}
        bounds = [(0.0, 1.0)] * len(b)
        found = minimize(
            negative, self.a, jac=True, method="SLSQP", bounds=bounds, constraints=[inside], options=options
        )
        a = _onto_simplex(found.x)
        return a if np.isfinite(a).all() and negative(a)[0] <= negative(self.a)[0] else self.a


def _positive_part(M: Array) -> Array:
    values, vectors = np.linalg.eigh(M)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _onto_simplex(a: Array) -> Array:
    """Nearest point with entries of at least 0 and a sum of at most 1."""
    a_plus = np.maximum(a, 0.0)
    if a_plus.sum() <= 1.0:
        return a_plus
    falling = np.sort(a)[::-1]
    levels = (np.cumsum(falling) - 1.0) / np.arange(1, len(a) + 1)
    return np.asarray(np.maximum(a - levels[np.flatnonzero(falling > levels)[-1]], 0.0))
