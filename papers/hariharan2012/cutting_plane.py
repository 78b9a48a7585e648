"""The cutting-plane method of SVM-struct on the problem P1 of M3L, for comparison.

P1 has a constraint for every row i and every y in {-1, 1}^L: the score of its own labels must exceed that of y by the
Hamming loss. Its one-slack form (Joachims, Finley, Yu 2009) bounds the sum of the losses from below by planes,

    min  1/2 |W|^2 + C xi    s.t.  xi >= b_k - <G_k, W>,  k = 1, 2, ...

Each plane comes from the worst y of every row, found label by label: y_il where the margin is below 1. The dual over
the planes, max b.a - 1/2 |sum_k a_k G_k|^2 with a >= 0 and sum a <= C, is solved by steps in two variables. P(W) of the
best W seen and the dual value bracket the optimum.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CuttingPlane", "cutting_plane"]

IDLE_ROUNDS = 50  # a plane without weight for so long is dropped
INNER_ACCURACY = 0.1  # of the gap


@dataclass(frozen=True)
class CuttingPlane:
    """Where the method stopped: the best primal value, the lower bound, and how many planes were made."""

    primal: float
    dual: float
    cuts: int

    @property
    def relative_gap(self) -> float:
        """Distance of the bounds, as a share of the primal value."""
        return (self.primal - self.dual) / self.primal


def cutting_plane(
    X: NDArray[np.float32], y: NDArray[np.float32], C: float, tol: float, time_limit: float = np.inf
) -> CuttingPlane:
    """Solve P1 for dense rows X and signs y to a relative gap ``tol``, or for ``time_limit`` seconds of CPU time."""
    began = time.process_time()
    planes = [np.zeros(X.shape[1] * y.shape[1], dtype=np.float32)]  # the first is xi >= 0
    offsets, weights, idle = np.zeros(1), np.array([C]), np.zeros(1, dtype=int)
    gram = np.zeros((1, 1))
    W = np.zeros((X.shape[1], y.shape[1]))
    best, dual, cuts = np.inf, 0.0, 0
    while True:
        active = (y * (X @ W.astype(np.float32)) < 1) * y
        plane = (X.T @ active).ravel()
        offset = float(np.count_nonzero(active))
        best = min(best, 0.5 * float(np.vdot(W, W)) + C * (offset - float(np.vdot(plane, W))))
        if best - dual <= tol * best or time.process_time() - began > time_limit:
            return CuttingPlane(best, dual, cuts)
        cuts += 1
        kept = np.flatnonzero((idle < IDLE_ROUNDS) | (offsets == 0))
        planes = [*(planes[k] for k in kept), plane]
        products = np.array([np.dot(plane, other) for other in planes], dtype=np.float64)
        gram = np.block([[gram[np.ix_(kept, kept)], products[:-1, None]], [products[None]]])
        offsets, weights = np.append(offsets[kept], offset), np.append(weights[kept], 0.0)
        _ascend(gram, offsets, weights, INNER_ACCURACY * (best - dual))
        idle = np.where(weights > 0, 0, np.append(idle[kept], 0) + 1)
        W = sum((weights[k] * planes[k] for k in np.flatnonzero(weights)), np.zeros(plane.size)).reshape(W.shape)
        dual = max(dual, float(offsets @ weights) - 0.5 * float(np.vdot(W, W)))


def _ascend(gram: NDArray[np.float64], offsets: NDArray[np.float64], a: NDArray[np.float64], accuracy: float) -> None:
    """Maximise b.a - 1/2 a'Ga over the simplex of the sum of a, in place, by moving weight between two planes."""
    gradient = offsets - gram @ a
    diagonal = np.diag(gram)
    while True:
        up = int(np.argmax(gradient))
        slack = gradient[up] - gradient
        if slack @ a <= accuracy:
            return
        curvature = np.maximum(diagonal[up] + diagonal - 2 * gram[up], 1e-12)
        step = np.minimum(slack / curvature, a)
        down = int(np.argmax(step * (slack - 0.5 * step * curvature)))
        a[up] += step[down]
        a[down] = 0.0 if step[down] == a[down] else a[down] - step[down]
        gradient -= step[down] * (gram[up] - gram[down])
