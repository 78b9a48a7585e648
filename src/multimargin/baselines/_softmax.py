r"""Multinomial logistic regression by Newton's method.

Minimises :math:`\tfrac12 |W|^2 - \sum_i c_i \log p_{k_i}(x_i)`, :math:`p_k(x) \propto \exp(w_k^\top \psi)`,
:math:`\psi = (x, s)`, over the weights of the classes. The probabilities of any weights are dual variables: their
value is :math:`\sum_i c_i H(p(x_i)) - \tfrac12 |V|^2`, with the entropy H and
:math:`V = \sum_i c_i (1_{k_i} - p(x_i)) \psi_i^\top`, and the gap is :math:`\tfrac12 |W - V|^2`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from multimargin.baselines._inputs import Inputs
from multimargin.estimators.certificate import Bounds, Certificate
from multimargin.kernels import one_blas_thread

__all__ = ["SoftmaxProblem"]

Array = NDArray[np.float64]

MOST_STEPS = 200
MOST_CG_STEPS = 250
MOST_HALVINGS = 40


@dataclass(frozen=True)
class SoftmaxProblem:
    """Inputs, the class of each row by number, and its cost."""

    inputs: Inputs
    code: NDArray[np.intp]
    n_classes: int
    cost: Array

    def bounds(self, W: Array) -> Bounds:
        """Objective of weights of shape (n_classes, n_features + 1), and the value of their probabilities."""
        logs = log_softmax(self.inputs.scores(W), axis=1)
        V = self.inputs.combined(self._errors(logs))
        entropy = -float(self.cost @ np.sum(np.exp(logs) * logs, axis=1))
        return Bounds(self._primal(W, logs), entropy - 0.5 * float(np.sum(V * V)))

    def solve(self, tol: float) -> tuple[Array, float]:
        """Minimise to a relative gap; return weights and the gap reached."""
        with one_blas_thread:
            W = self._newton(tol)
        bounds = self.bounds(W)
        assert bounds.dual is not None
        return W, Certificate.of(bounds.primal, bounds.dual, tol).relative_gap

    def _newton(self, tol: float) -> Array:
        W = np.zeros((self.n_classes, self.inputs.shape[1]))
        scores = self.inputs.scores(W)
        for _ in range(MOST_STEPS):
            logs = log_softmax(scores, axis=1)
            gradient = W - self.inputs.combined(self._errors(logs))
            primal = self._primal(W, logs)
            if 0.5 * float(np.sum(gradient**2)) <= 0.9 * tol * primal:
                break
            step = self._newton_step(np.exp(logs), -gradient)
            moves = self.inputs.scores(step)
            length = self._length(W, scores, step, moves, primal, float(np.sum(gradient * step)))
            if length == 0.0:
                break
            W = W + length * step
            scores = self.inputs.scores(W)
        return W

    def _errors(self, logs: Array) -> Array:
        """Costs times the class of each row less its probabilities."""
        errors = -np.exp(logs)
        errors[np.arange(len(logs)), self.code] += 1.0
        return self.cost[:, None] * errors

    def _primal(self, W: Array, logs: Array) -> float:
        return 0.5 * float(np.sum(W * W)) - float(self.cost @ logs[np.arange(len(logs)), self.code])

    def _length(self, W: Array, scores: Array, step: Array, moves: Array, primal: float, descent: float) -> float:
        length = 1.0
        for _ in range(MOST_HALVINGS):
            logs = log_softmax(scores + length * moves, axis=1)
            if self._primal(W + length * step, logs) <= primal + 1e-4 * length * descent:
                return length
            length *= 0.5
        return 0.0

    def _newton_step(self, p: Array, right: Array) -> Array:
        """Conjugate gradients on the second derivatives, scaled by their diagonal."""
        weight = self.cost[:, None] * p
        scale = 1.0 / (1.0 + self.inputs.squares(weight * (1.0 - p)).T)
        found, residual = np.zeros_like(right), right.copy()
        direction = scale * residual
        product = float(np.sum(residual * direction))
        enough = 1e-2 * product
        for _ in range(MOST_CG_STEPS):
            moves = self.inputs.scores(direction)
            moves -= np.sum(p * moves, axis=1)[:, None]
            image = direction + self.inputs.combined(weight * moves)
            length = product / float(np.sum(direction * image))
            found += length * direction
            residual -= length * image
            last, product = product, float(np.sum(residual * scale * residual))
            if product <= enough:
                break
            direction = scale * residual + product / last * direction
        return found
