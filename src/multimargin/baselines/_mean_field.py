r"""Mean field of a distribution over label sets: the nearest one in which labels are independent.

For :math:`p(y) \propto \exp(\sum_l \theta_l s_l + \sum_{a < b} \theta_{ab} s_a s_b)` with signs s, the means
:math:`m_l = \tanh(\theta_l + \sum_b \theta_{lb} m_b)` are a stationary point of the divergence. One label after the
other moves there, which never raises the divergence; every row ends by itself, so that it does not matter which rows
are asked for together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["mean_field"]

Array = NDArray[np.float64]

MOST_SWEEPS = 200
SMALLEST_MOVE = 1e-9
"""Of a mean, at which a row has ended."""


def mean_field(single: Array, pairs: NDArray[Any], pair_scores: Array) -> Array:
    """Return log-odds of the labels.

    Parameters
    ----------
    single : ndarray of shape (n_rows, n_labels)
        Coefficients of signs.
    pairs : ndarray of shape (n_pairs, 2)
        Labels of the pairs.
    pair_scores : ndarray of shape (n_rows, n_pairs), or (1, n_pairs) where all rows have the same
        Coefficients of products of two signs.
    """
    partners = [_partners(pairs, label) for label in range(single.shape[1])]
    weights = np.ascontiguousarray(pair_scores.T)  # a pair of all rows side by side, and so with labels
    m, field = np.tanh(single).T.copy(), np.ascontiguousarray(single.T)
    rows = np.arange(len(single))
    for _ in range(MOST_SWEEPS):
        means, own = m[:, rows], weights if weights.shape[1] == 1 else weights[:, rows]
        move = np.zeros(len(rows))
        for label, (at, other) in enumerate(partners):
            mean = np.tanh(field[label, rows] + np.sum(own[at] * means[other], axis=0))
            move = np.maximum(move, np.abs(mean - means[label]))
            means[label] = mean
        m[:, rows] = means
        rows = rows[move > SMALLEST_MOVE]
        if not len(rows):
            break
    around = [np.sum(weights[at] * m[other], axis=0) for at, other in partners]
    return np.asarray(2.0 * (single + np.transpose(around)))


def _partners(pairs: NDArray[Any], label: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the pairs of a label, and the other label of each."""
    at = np.flatnonzero(np.any(pairs == label, axis=1))
    return at, pairs[at].sum(axis=1) - label
