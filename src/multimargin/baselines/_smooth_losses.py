r"""Linear models with smooth losses of the margin, many at a time, by Newton's method.

For each output l minimises :math:`\tfrac12 |w_l|^2 + \sum_i c_{il}\, \phi(s_{il} w_l^\top \psi_i)`, where
:math:`\psi_i = (x_i, s)` with the constant feature s and :math:`s_{il}` is 1 or -1. The dual variables of any weights
are :math:`\alpha_{il} = -c_{il} \phi'(m_{il})` at their margins m. They are feasible, their value is
:math:`\sum_i c_{il} (\phi(m_{il}) - m_{il} \phi'(m_{il})) - \tfrac12 |v_l|^2` with
:math:`v_l = \sum_i \alpha_{il} s_{il} \psi_i`, and the gap is :math:`\tfrac12 |w_l - v_l|^2`, half the squared
gradient.

A pass is a Newton step of all outputs that have not converged, each with a line search of its own. The systems are
solved by conjugate gradients for all outputs together, preconditioned through the eigenvectors of one Gram matrix if
there are outputs enough for that. Where these take many steps, as on badly scaled features, and
rows or features are few, Cholesky factors serve from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import expit

from multimargin import _core
from multimargin._core import Status
from multimargin.baselines._inputs import Inputs
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.monitor import Clock
from multimargin.kernels import one_blas_thread

__all__ = ["SMOOTH_LOSSES", "SmoothLoss", "SmoothProblem"]

Array = NDArray[np.float64]

DIRECT = 1000
"""Systems up to this order may be factored,"""
PATIENCE = 50
"""after so many steps of conjugate gradients; larger ones take at most"""
MOST_CG_STEPS = 250
EIGENVECTOR_COST, PRODUCTS_SAVED = 9, 400
ENOUGH, EXACT = 1e-2, 1e-20
"""Of the squared residual: for a Newton step; all there is."""
MOST_HALVINGS = 40
SUFFICIENT = 1e-4
WITHIN = 0.9  # of the tolerance: the certifier sums in another order


@dataclass(frozen=True)
class SmoothLoss:
    """A loss of the margin, its first and its second derivative."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]


SMOOTH_LOSSES = {
    "squared_hinge": SmoothLoss(
        value=lambda m: np.square(np.maximum(0.0, 1.0 - m)),
        slope=lambda m: -2.0 * np.maximum(0.0, 1.0 - m),
        curvature=lambda m: np.where(m < 1.0, 2.0, 0.0),
    ),
    "logistic": SmoothLoss(
        value=lambda m: np.logaddexp(0.0, -m),
        slope=lambda m: -expit(-m),
        curvature=lambda m: expit(m) * expit(-m),
    ),
}
"""Losses by name."""


@dataclass(frozen=True)
class SmoothProblem:
    """Inputs, what is to be told of each row, what an error costs, and the loss.

    Attributes
    ----------
    inputs : Inputs
    sign : ndarray of shape (n_rows, n_outputs)
        1 or -1.
    cost : ndarray of shape (n_rows, n_outputs) or (n_rows, 1)
        0 where nothing is known.
    loss : SmoothLoss
    """

    inputs: Inputs
    sign: Array
    cost: Array
    loss: SmoothLoss

    def bounds(self, W: Array) -> Bounds:
        """Objective of weights of shape (n_outputs, n_features + 1), and the value of their dual variables."""
        primal, dual = self._bounds(W, self.inputs.scores(W))
        return Bounds(float(primal.sum()), float(dual.sum()))

    def solve(self, limits: _core.Limits, *, report: bool = True) -> tuple[Array, int, Status]:
        """Minimise; return weights, passes and why it ended. With ``report``, passes are told with their bounds."""
        with one_blas_thread:  # products are with few columns: threads would mostly wait
            return self._newton(limits, report)

    def _newton(self, limits: _core.Limits, report: bool) -> tuple[Array, int, Status]:
        n_outputs = self.sign.shape[1]
        W = np.zeros((n_outputs, self.inputs.shape[1]))
        scores = np.zeros(self.sign.shape)
        primal, dual = self._bounds(W, scores)
        left = np.flatnonzero(primal - dual > WITHIN * limits.tol * primal)
        newton = _NewtonSystem(self.inputs, n_outputs)
        clock, imprecise = Clock(limits), False
        while len(left):
            part = self._part(left)
            gradient, curvature = part.derivatives(W[left], scores[:, left])
            step = newton.solve(curvature, -gradient)
            moves = self.inputs.scores(step)
            length = part.line_search(W[left], scores[:, left], step, moves, gradient, primal[left])
            W[left] += length[:, None] * step
            scores[:, left] = self.inputs.scores(W[left])
            primal[left], dual[left] = part._bounds(W[left], scores[:, left])
            stuck = length == 0.0
            imprecise |= bool(stuck.any())
            left = left[(primal[left] - dual[left] > WITHIN * limits.tol * primal[left]) & ~stuck]
            clock.end_pass()
            stop = clock.tell(*((float(primal.sum()), float(dual.sum())) if report else (None, None)))
            if stop:
                return W, clock.passes, Status.stopped
            if len(left) and clock.is_last:
                return W, clock.passes, clock.reason
        return W, clock.passes, Status.imprecise if imprecise else Status.converged

    def derivatives(self, W: Array, scores: Array) -> tuple[Array, Array]:
        """Gradient, and the second derivatives of the losses of the cells."""
        margins = self.sign * scores
        gradient = W + self.inputs.combined(self.sign * self.cost * self.loss.slope(margins))
        return gradient, self.cost * self.loss.curvature(margins)

    def line_search(self, W: Array, scores: Array, step: Array, moves: Array, gradient: Array, primal: Array) -> Array:
        """Lengths of the steps that lower the objective of each output enough, halved from 1; 0 where there is none."""
        length = np.ones(len(W))
        descent = np.sum(gradient * step, axis=1)
        left = np.arange(len(W))
        for _ in range(MOST_HALVINGS):
            part, t = self._part(left), length[left]
            trial = 0.5 * np.square(W[left] + t[:, None] * step[left]).sum(axis=1)
            trial += part.losses(scores[:, left] + t * moves[:, left])
            left = left[~(trial <= primal[left] + SUFFICIENT * t * descent[left])]
            if not len(left):
                return length
            length[left] *= 0.5
        length[left] = 0.0
        return length

    def losses(self, scores: Array) -> Array:
        """Sum the losses of each output."""
        return np.asarray((self.cost * self.loss.value(self.sign * scores)).sum(axis=0))

    def _part(self, outputs: NDArray[np.intp]) -> SmoothProblem:
        if len(outputs) == self.sign.shape[1]:
            return self
        cost = self.cost if self.cost.shape[1] == 1 else self.cost[:, outputs]
        return SmoothProblem(self.inputs, self.sign[:, outputs], cost, self.loss)

    def _bounds(self, W: Array, scores: Array) -> tuple[Array, Array]:
        """Primal and dual value of each output."""
        margins = self.sign * scores
        losses, slopes = self.cost * self.loss.value(margins), self.cost * self.loss.slope(margins)
        V = self.inputs.combined(self.sign * slopes)
        primal = 0.5 * np.square(W).sum(axis=1) + losses.sum(axis=0)
        return primal, (losses - margins * slopes).sum(axis=0) - 0.5 * np.square(V).sum(axis=1)


class _NewtonSystem:
    """Solves ``(I + sum_i h_i psi_i psi_i') d = r`` for many outputs with curvatures h of their own."""

    def __init__(self, inputs: Inputs, n_outputs: int):
        self.inputs = inputs
        self.direct = False
        self.row_gram: Array | None = None
        self.spectrum = inputs.spectrum() if self._pays_off(n_outputs) else None

    def _pays_off(self, n_outputs: int) -> bool:
        """Whether the eigenvectors of the Gram matrix, which all outputs share, cost less than the steps they save."""
        n, d = self.inputs.shape
        return min(n, d) ** 3 * EIGENVECTOR_COST <= PRODUCTS_SAVED * self.inputs.size * n_outputs

    def solve(self, curvature: Array, right: Array) -> Array:
        """Return the solutions for curvatures (n_rows, n_outputs) and right sides (n_outputs, n_features + 1)."""
        n, d = self.inputs.shape
        if not self.direct:
            may_factor = min(n, d) <= DIRECT
            found, converged = self._by_conjugate_gradients(curvature, right, PATIENCE if may_factor else MOST_CG_STEPS)
            if converged or not may_factor:
                return found
            self.direct = True
        if d <= n:
            return np.array([self._by_features(h, r) for h, r in zip(curvature.T, right, strict=True)])
        if self.row_gram is None:
            self.row_gram = self.inputs.row_gram()
        return self._by_rows(curvature, right)

    def _preconditioner(self, curvature: Array) -> Callable[[Array], Array]:
        """Return what nearly solves the systems: with mean curvatures in place of those of rows, or the diagonal."""
        if self.spectrum is None:
            scale = 1.0 / (1.0 + self.inputs.squares(curvature).T)
            return lambda residual: scale * residual
        values, vectors = self.spectrum
        shift = 1.0 / (1.0 + curvature.mean(axis=0)[:, None] * values) - 1.0
        return lambda residual: residual + (residual @ vectors * shift) @ vectors.T

    def _by_features(self, h: Array, right: Array) -> Array:
        used = h > 0
        inputs = self.inputs if used.all() else Inputs(self.inputs.X[used], self.inputs.bias)
        system = inputs.gram(h[used])
        system[np.diag_indices_from(system)] += 1.0
        return _solved(system, right)

    def _by_rows(self, curvature: Array, right: Array) -> Array:
        """By the matrix inversion lemma."""
        assert self.row_gram is not None
        root = np.sqrt(curvature)
        inner = root * self.inputs.scores(right)
        for column, r in enumerate(root.T):
            system = r[:, None] * self.row_gram * r
            system[np.diag_indices_from(system)] += 1.0
            inner[:, column] = _solved(system, inner[:, column])
        return right - self.inputs.combined(root * inner)

    def _by_conjugate_gradients(self, curvature: Array, right: Array, most_steps: int) -> tuple[Array, bool]:
        """Return solutions, and whether they are good enough for a Newton step."""
        scaled = self._preconditioner(curvature)
        found, residual = np.zeros_like(right), right.copy()
        direction = scaled(residual)
        product = np.sum(residual * direction, axis=1)
        first, going = np.abs(product), product > 0
        tiny = np.finfo(float).tiny
        for _ in range(most_steps):
            image = direction + self.inputs.combined(curvature * self.inputs.scores(direction))
            # what is solved exactly stays as it is: more steps would divide by what rounding leaves of it
            length = np.where(going, product / np.maximum(np.sum(direction * image, axis=1), tiny), 0.0)
            found += length[:, None] * direction
            residual -= length[:, None] * image
            towards = scaled(residual)
            last, product = product, np.sum(residual * towards, axis=1)
            going = product > EXACT * first
            if np.any(product < -ENOUGH * first) and self.spectrum is not None:
                self.spectrum = None  # rounding has taken its sign away; the diagonal keeps it
                return self._by_conjugate_gradients(curvature, right, most_steps)
            if np.all(product <= ENOUGH * first):
                return found, True
            direction = towards + np.where(going, product / np.maximum(last, tiny), 0.0)[:, None] * direction
        return found, False


def _solved(system: Array, right: Array) -> Array:
    """Solve a system whose eigenvalues are at least 1, whatever rounding makes of them."""
    try:
        return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(system), right))
    except scipy.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(system)
        return np.asarray(vectors @ (vectors.T @ right / np.maximum(values, 1.0)))
