r"""The log-linear model of label sets with a group norm on label pairs: objective, certificate and solver.

With :math:`\psi = (x, s)` and the characters :math:`\chi_T(y) = \prod_{l \in T} (2 y_l - 1)` of single labels and
of pairs, which have the scores :math:`w_T^\top \psi`, minimises

.. math::

    P(W) = \tfrac12 \sum_l |w_l|^2 + \kappa \sum_{ab} |w_{ab}| - \sum_i c_i \log p(y_i \mid x_i)

for a likelihood or pseudo-likelihood p. Any distributions :math:`\alpha_i` over label sets (over either value of each
label) with :math:`|q_{ab}| \le \kappa` for all pairs,
:math:`q_T = \sum_i c_i (\chi_T(y_i) - \mathrm E_{\alpha_i} \chi_T) \psi_i` (for a pair, the sum over both labels, the
other held), give the lower bound :math:`\sum_i c_i H(\alpha_i) - \tfrac12 \sum_l |q_l|^2`. Those of the model are
moved towards what was seen until they are feasible: :math:`q^t = t q`.

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
from multimargin.baselines._likelihoods import Likelihood, View
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.monitor import Clock
from multimargin.kernels import one_blas_thread

__all__ = ["LogLinearProblem"]

Array = NDArray[np.float64]

GROWTH, SHRINKAGE = 1.25, 0.5
"""Of the step, after an iteration, and where it is too long."""


class _Point(NamedTuple):
    """Weights, scores of the characters, the likelihood there, and the loss."""

    W: Array
    scores: Array
    view: View
    loss: float


@dataclass(frozen=True)
class LogLinearProblem:
    """Rows, their label sets, costs, and the penalty of pairs.

    Attributes
    ----------
    inputs : Inputs
    likelihood : Likelihood
    n_labels : int
        Characters of single labels; the others are those of pairs.
    cost : ndarray of shape (n_rows,)
    penalty : float
        The number kappa.
    """

    inputs: Inputs
    likelihood: Likelihood
    n_labels: int
    cost: Array
    penalty: float

    def bounds(self, W: Array) -> Bounds:
        """Objective of weights, and a lower bound by their distributions."""
        return self._bounds(self._point(W, self.inputs.scores(W)))

    def solve(self, limits: _core.Limits) -> tuple[Array, int, Status]:
        """Minimise; return weights, passes and why it ended."""
        with one_blas_thread:
            return self._descend(limits)

    def _descend(self, limits: _core.Limits) -> tuple[Array, int, Status]:
        n_rows, n_subsets = self.likelihood.characters.shape
        last = now = self._point(np.zeros((n_subsets, self.inputs.shape[1])), np.zeros((n_rows, n_subsets)))
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
        gradient = -self._sums(start.view)
        # losses are differences of numbers as large as the scores
        rounding = 1e-12 * abs(start.loss) + 1e-15 * float(self.cost @ start.view.size)
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
        view = self.likelihood.at(scores)
        return _Point(W, scores, view, float(self.cost @ view.losses))

    def _sums(self, view: View) -> Array:
        """Return the vectors q of all characters."""
        return self.inputs.combined(self.cost[:, None] * view.residuals)

    def _bounds(self, point: _Point) -> Bounds:
        W, single = point.W, slice(0, self.n_labels)
        penalty = self.penalty * float(np.linalg.norm(W[self.n_labels :], axis=1).sum())
        primal = 0.5 * float(np.sum(W[single] ** 2)) + penalty + point.loss
        q = self._sums(point.view)
        longest = float(np.linalg.norm(q[self.n_labels :], axis=1).max(initial=0.0))
        t = min(1.0, self.penalty / longest) if longest > 0 else 1.0
        dual = float(self.cost @ point.view.moved_entropies(t)) - 0.5 * t * t * float(np.sum(q[single] ** 2))
        return Bounds(primal, dual)

    def _first_step(self) -> float:
        """Inverse of a bound of the second derivatives, of single characters."""
        largest = float(np.max(self.inputs.squares(self.cost)))
        return 1.0 / max(largest, np.finfo(float).tiny)
