r"""Ridge regression with many outputs, which the least-squares baselines share.

Minimises :math:`\tfrac12 |W|^2 + \tfrac12 \sum_i c_i |z_i - W \psi_i|^2` over W, :math:`\psi_i = (x_i, s)` with the
constant feature s; its weights are regularised like the others. With the residuals times their costs as dual variables,
:math:`a_i = c_i (z_i - W \psi_i)`, the dual value is :math:`\sum_i a_i^\top z_i - \tfrac12 |\sum_i a_i \psi_i^\top|^2 -
\tfrac12 \sum_i |a_i|^2 / c_i`, and the gap is :math:`\tfrac12 |W - \sum_i a_i \psi_i^\top|^2`: any W has a certificate.

One Cholesky factor of the smaller of the two Gram matrices serves all outputs; where both are large, conjugate
gradients go on for all outputs at once until the gap is small, and no Gram matrix is formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from multimargin._interrupt import interruptible
from multimargin.baselines._inputs import Inputs
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds

__all__ = ["RidgeProblem"]

Array = NDArray[np.float64]

LARGEST_SYSTEM = 5000
MOST_STEPS = 5000
STEPS_PER_CERTIFICATE = 10


@dataclass(frozen=True)
class RidgeProblem:
    """Inputs, the costs of their rows, and targets.

    Attributes
    ----------
    inputs : Inputs
    cost : ndarray of shape (n_rows,)
        May be zero.
    targets : ndarray of shape (n_rows, n_outputs)
    """

    inputs: Inputs
    cost: Array
    targets: Array

    def solve(self, tol: float) -> Array:
        """Return the weights, of shape (n_outputs, n_features + 1), those of the constant feature last."""
        n, d = self.inputs.shape
        if min(n, d) > LARGEST_SYSTEM:
            return self._conjugate_gradients(tol)
        return self._in_features() if d <= n else self._in_rows()

    def bounds(self, W: Array) -> Bounds:
        """Objective of weights, and the dual value of their residuals."""
        residual = self.targets - self.inputs.scores(W)
        dual_variables = self.cost[:, None] * residual
        squares = 0.5 * float(np.sum(dual_variables * residual))
        V = self.inputs.combined(dual_variables)
        dual = float(np.sum(dual_variables * self.targets)) - 0.5 * float(np.sum(V * V)) - squares
        return Bounds(0.5 * float(np.sum(W * W)) + squares, dual)

    def _in_features(self) -> Array:
        system = self.inputs.gram(self.cost)
        system[np.diag_indices_from(system)] += 1.0
        right = self.inputs.combined(self.cost[:, None] * self.targets)
        return _solved(system, right.T).T

    def _in_rows(self) -> Array:
        root = np.sqrt(self.cost)
        system = root[:, None] * self.inputs.row_gram() * root
        system[np.diag_indices_from(system)] += 1.0
        return self.inputs.combined(root[:, None] * _solved(system, root[:, None] * self.targets))

    def _conjugate_gradients(self, tol: float) -> Array:
        scale = 1.0 / (1.0 + self.inputs.squares(self.cost))
        W = np.zeros((self.targets.shape[1], self.inputs.shape[1]))
        residual = self.inputs.combined(self.cost[:, None] * self.targets)
        direction = scale * residual
        product = np.sum(residual * direction, axis=1)
        for step in range(1, MOST_STEPS + 1):
            image = direction + self.inputs.combined(self.cost[:, None] * self.inputs.scores(direction))
            length = product / np.maximum(np.sum(direction * image, axis=1), np.finfo(float).tiny)
            W += length[:, None] * direction
            residual -= length[:, None] * image
            if step % STEPS_PER_CERTIFICATE == 0 and self.bounds(W).within(tol):
                break
            last, product = product, np.sum(residual * scale * residual, axis=1)
            ratio = product / np.maximum(last, np.finfo(float).tiny)
            direction = scale * residual + ratio[:, None] * direction
        return W


def _solved(system: Array, right: Array) -> Array:
    """Solve a positive definite system, with one step of refinement."""
    try:
        factor = interruptible(scipy.linalg.cho_factor, system)
    except np.linalg.LinAlgError:
        msg = (
            f"C times the Gram matrix of the features, with entries up to {np.abs(system).max():.3g}, plus the "
            "identity must be positive definite, and it is not, up to rounding. Scale the features, or lower C."
        )
        raise InputError(msg) from None
    found = scipy.linalg.cho_solve(factor, right)
    return np.asarray(found + scipy.linalg.cho_solve(factor, right - system @ found))
