r"""Mean field of a distribution over label sets: the nearest one in which labels are independent.

For :math:`p(y) \propto \exp(\sum_l \theta_l s_l + \sum_{a < b} \theta_{ab} s_a s_b)` with signs s, the means
:math:`m_l = \tanh(\theta_l + \sum_b \theta_{lb} m_b)` are a stationary point of the divergence. One label after the
other moves there, which never raises the divergence; every row ends by itself, so that it does not matter which rows
are asked for together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["mean_field"]

Array = NDArray[np.float64]

MOST_SWEEPS = 200
SMALLEST_MOVE = 1e-9
"""Of a mean, at which a row has ended."""


def mean_field(single: Array, pairs: Array) -> Array:
    """Return log-odds of the labels, from coefficients of signs (rows x labels) and of products of two signs."""
    m = np.tanh(single).T.copy()  # a label of all rows side by side
    rows = np.arange(m.shape[1])
    for _ in range(MOST_SWEEPS):
        now, field = m[:, rows], single[rows].T
        move = np.zeros(len(rows))
        for label in range(len(pairs)):
            mean = np.tanh(field[label] + pairs[label] @ now)
            move = np.maximum(move, np.abs(mean - now[label]))
            now[label] = mean
        m[:, rows] = now
        rows = rows[move > SMALLEST_MOVE]
        if not len(rows):
            break
    return np.asarray(2.0 * (single + m.T @ pairs))
