r"""The log-linear model of label sets with a group norm on label pairs: objective, certificate and solver.

With :math:`\psi = (x, s)`, the characters :math:`\chi_T(y) = \prod_{l \in T} (2 y_l - 1)` of single labels and
of pairs, :math:`p(y \mid x) \propto \exp \sum_T (w_T^\top \psi) \chi_T(y)`. Minimises

.. math::

    P(W) = \tfrac12 \sum_l |w_l|^2 + \kappa \sum_{ab} |w_{ab}| - \sum_i c_i \log p(y_i \mid x_i).

Any distributions :math:`\alpha_i` over label sets with :math:`|q_{ab}| \le \kappa` for all pairs,
:math:`q_T = \sum_i c_i (\chi_T(y_i) - \mathrm E_{\alpha_i} \chi_T) \psi_i`, give the lower bound
:math:`\sum_i c_i H(\alpha_i) - \tfrac12 \sum_l |q_l|^2`. Those of the model, moved towards the true label sets
until they are feasible, :math:`\alpha^t = (1 - t)\, \delta_{y_i} + t\, \alpha_i`, have :math:`q^t = t q` and an entropy
that needs the probability of the true set and the entropy of the model only.

The solver is the accelerated proximal gradient method (Beck and Teboulle, 2009) with backtracking, and with its
momentum taken back where the objective rises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin.baselines._inputs import Inputs
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.monitor import Clock
from multimargin.kernels import one_blas_thread

__all__ = ["LogLinearProblem"]

Array = NDArray[np.float64]

GROWTH, SHRINKAGE = 1.25, 0.5
"""Of the step, after an iteration, and where it is too long."""


class _Point(NamedTuple):
    """Weights, scores of the characters, logs of the sums over label sets, moments of the characters, and the loss."""

    W: Array
    scores: Array
    log_partition: Array
    moments: Array
    loss: float


@dataclass(frozen=True)
class LogLinearProblem:
    """Rows, their label sets, costs, and the penalty of pairs.

    Attributes
    ----------
    inputs : Inputs
    characters : ndarray of shape (n_rows, n_subsets)
        Of the true label sets: single labels first, then the pairs that may have weights.
    n_labels : int
    cost : ndarray of shape (n_rows,)
    penalty : float
        The number kappa.
    inference : CliqueInference
        Compiled for these labels and pairs.
    threads : int
    """

    inputs: Inputs
    characters: Array
    n_labels: int
    cost: Array
    penalty: float
    inference: _core.CliqueInference
    threads: int

    def bounds(self, W: Array) -> Bounds:
        """Objective of weights, and a lower bound by their distributions."""
        return self._bounds(self._point(W, self.inputs.scores(W)))

    def solve(self, limits: _core.Limits) -> tuple[Array, int, Status]:
        """Minimise; return weights, passes and why it ended."""
        with one_blas_thread:
            return self._descend(limits)

    def _descend(self, limits: _core.Limits) -> tuple[Array, int, Status]:
        shape = (self.characters.shape[1], self.inputs.shape[1])
        zero = np.zeros(shape)
        last = now = self._point(zero, np.zeros(self.characters.shape))
        best = now
        bounds = self._bounds(now)
        lowest, step, momentum = bounds.primal, self._first_step(), 1.0
        clock = Clock(limits)
        while not bounds.within(limits.tol):
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = (momentum - 1.0) / following
            start = now if ahead == 0.0 else self._extrapolated(now, last, ahead)
            last, momentum = now, following
            now, step = self._proximal_step(start, step)
            bounds = self._bounds(now)
            clock.end_pass()
            if bounds.primal > lowest:
                momentum, last = 1.0, now
            else:
                lowest, best = bounds.primal, now
            if clock.tell(bounds.primal, bounds.dual):
                return best.W, clock.passes, Status.stopped
            if clock.is_last:
                return (now if bounds.within(limits.tol) else best).W, clock.passes, clock.reason
        return now.W, clock.passes, Status.converged

    def _proximal_step(self, start: _Point, step: float) -> tuple[_Point, float]:
        """Step from a point, as long as a quadratic above the loss allows; also the next length to try."""
        gradient = -self._sums(start.moments)
        # losses are differences of numbers as large as the scores
        rounding = 1e-12 * abs(start.loss) + 1e-15 * float(self.cost @ np.abs(start.log_partition))
        while True:
            W = self._shrunk(start.W - step * gradient, step)
            move = W - start.W
            now = self._point(W, self.inputs.scores(W))
            above = start.loss + float(np.sum(gradient * move)) + float(np.sum(move * move)) / (2.0 * step)
            if now.loss <= above + rounding:
                return now, GROWTH * step
            step *= SHRINKAGE

    def _shrunk(self, W: Array, step: float) -> Array:
        """Proximal point of the penalties."""
        norms = np.linalg.norm(W[self.n_labels :], axis=1)
        factor = np.maximum(0.0, 1.0 - step * self.penalty / np.maximum(norms, np.finfo(float).tiny))
        return np.vstack([W[: self.n_labels] / (1.0 + step), factor[:, None] * W[self.n_labels :]])

    def _extrapolated(self, now: _Point, last: _Point, ahead: float) -> _Point:
        W = now.W + ahead * (now.W - last.W)
        return self._point(W, now.scores + ahead * (now.scores - last.scores))

    def _point(self, W: Array, scores: Array) -> _Point:
        sums = self.inference.sums(np.ascontiguousarray(scores), self.threads)
        own = np.sum(self.characters * scores, axis=1)
        return _Point(W, scores, sums.log_partition, sums.moments, float(self.cost @ (sums.log_partition - own)))

    def _sums(self, moments: Array) -> Array:
        """Return the vectors q of all characters."""
        return self.inputs.combined(self.cost[:, None] * (self.characters - moments))

    def _bounds(self, point: _Point) -> Bounds:
        W, single = point.W, slice(0, self.n_labels)
        penalty = self.penalty * float(np.linalg.norm(W[self.n_labels :], axis=1).sum())
        primal = 0.5 * float(np.sum(W[single] ** 2)) + penalty + point.loss
        q = self._sums(point.moments)
        longest = float(np.linalg.norm(q[self.n_labels :], axis=1).max(initial=0.0))
        t = min(1.0, self.penalty / longest) if longest > 0 else 1.0
        dual = float(self.cost @ self._entropies(point, t)) - 0.5 * t * t * float(np.sum(q[single] ** 2))
        return Bounds(primal, dual)

    def _entropies(self, point: _Point, t: float) -> Array:
        """Entropies of the distributions of the rows, moved towards the true label sets."""
        logs = np.sum(self.characters * point.scores, axis=1) - point.log_partition
        own = np.exp(logs)
        entropy = point.log_partition - np.sum(point.scores * point.moments, axis=1)
        kept = 1.0 - t + t * own
        return np.asarray(-_xlogx(kept) - (1.0 - own) * _xlogx(np.array(t)) + t * (entropy + own * logs))

    def _first_step(self) -> float:
        """Inverse of a bound of the second derivatives, of single characters."""
        largest = float(np.max(self.inputs.squares(self.cost)))
        return 1.0 / max(largest, np.finfo(float).tiny)


def _xlogx(x: Array) -> Array:
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0)
