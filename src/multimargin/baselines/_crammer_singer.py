r"""Certifier of the multi-class SVM of Crammer and Singer, from the data alone.

Primal :math:`\tfrac12 \sum_k |w_k|^2 + \sum_i c_i \max_k \big( [k \ne k_i] - (w_{k_i} - w_k)^\top \psi_i \big)` with
:math:`\psi_i = (x_i, s)`. The dual variables of row i are :math:`a_{ik} \le c_i [k = k_i]` with sum 0, weights are
:math:`w_k = \sum_i a_{ik} \psi_i`, and the dual value is :math:`\sum_i a_{i k_i} - \tfrac12 |W|^2`. It is the ranking
of labels by the worst pair of rows that have one label each, and solved as that (core/separation/category_ranking.hpp).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multimargin.baselines._inputs import Inputs

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
        """Value of dual variables of shape (n_rows, n_classes), after they were moved into their feasible set."""
        rows = np.arange(len(alpha))
        others = np.minimum(alpha, 0.0)
        others[rows, self.code] = 0.0
        total = -others.sum(axis=1)
        own = np.minimum(total, self.cost)
        alpha = others * np.divide(own, total, out=np.zeros_like(total), where=total > 0)[:, None]
        alpha[rows, self.code] = own
        W = self.inputs.combined(alpha)
        return float(alpha[np.arange(len(alpha)), self.code].sum()) - 0.5 * float(np.sum(W * W))
