r"""The most violating label set of every row, for the metric Q of maximum margin output coding.

Maximises :math:`f_i(y) = \Delta(y, y_i) - (r_i - y)^\top Q\, (r_i - y)`, the Hamming distance less the distance of
codes: over all label sets, or over the box :math:`[0, 1]^L` that contains them, in which :math:`\Delta` is linear and
:math:`f_i` concave. A point y of the box cannot be improved by more than

.. math:: \sum_l \max\big( \partial_l f_i(y)\, (1 - y_l),\; -\partial_l f_i(y)\, y_l \big),

its slack. The maximum over the box is found by coordinates: cost of a sweep rows x labels squared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators.cliques.graph import compiled

__all__ = ["MOST_LABELS", "BoxOracle", "MetricOracle", "SetOracle", "Worst"]

Array = NDArray[np.float64]

MOST_LABELS = 20
"""Of a search of all label sets."""
MOST_SWEEPS = 1000
ROUNDING = 1e-12


class Worst(NamedTuple):
    """A point for every row, by how much others can be better at most, and whether it is proved to be the best set."""

    chosen: Array
    slack: Array
    exact: NDArray[np.bool_]


class MetricOracle(Protocol):
    """What finds the points."""

    def find(self, Q: Array, predicted: Array, truth: Array) -> Worst:
        """Return the points for predictions r and label sets of rows, as numbers 0 and 1."""


class SetOracle:
    """Searches all label sets."""

    def __init__(self, n_labels: int, threads: int) -> None:
        subsets = [*((k,) for k in range(n_labels)), *combinations(range(n_labels), 2)]
        self._inference = compiled(n_labels, subsets, "auto", MOST_LABELS)
        self._threads = threads

    def find(self, Q: Array, predicted: Array, truth: Array) -> Worst:
        """Return the best sets."""
        single = predicted @ Q - 0.5 * Q.sum(axis=0) - (truth - 0.5)
        first, second = np.triu_indices(len(Q), k=1)
        pairs = np.broadcast_to(-0.5 * Q[first, second], (len(single), len(first)))
        found = self._inference.maximize(np.ascontiguousarray(np.hstack([single, pairs])), self._threads)
        slack = np.where(found.exact, 0.0, found.bound - found.value)
        return Worst(found.y.astype(np.float64), slack, np.asarray(found.exact, dtype=bool))


@dataclass(frozen=True)
class BoxOracle:
    """Searches the box.

    Attributes
    ----------
    accuracy : float
        Largest slack, as a share of what is found, half by row and half of the mean over rows.
    """

    accuracy: float

    def find(self, Q: Array, predicted: Array, truth: Array) -> Worst:
        """Return points with a slack within the accuracy, or after many sweeps with the slack that is left."""
        y = 1.0 - truth  # the best point where Q is zero
        away = 1.0 - 2.0 * truth
        own = _code_distance(predicted - truth, Q)
        slack, gain = np.empty(len(y)), np.empty(len(y))
        rows = np.arange(len(y))
        for _ in range(MOST_SWEEPS):
            slope = away[rows] + 2.0 * (predicted[rows] - y[rows]) @ Q
            slack[rows] = np.maximum(slope * (1.0 - y[rows]), -slope * y[rows]).sum(axis=1)
            distance = np.abs(y[rows] - truth[rows]).sum(axis=1)
            gain[rows] = distance - _code_distance(predicted[rows] - y[rows], Q) + own[rows]
            found = np.maximum(gain, 0.0)
            enough = np.maximum(0.5 * self.accuracy * (found + found.mean()), ROUNDING * Q.shape[0])
            keep = slack[rows] > enough[rows]
            rows = rows[keep]
            if not len(rows):
                break
            y[rows] = _swept(Q, y[rows], slope[keep])
        whole = np.all((y == 0.0) | (y == 1.0), axis=1)
        return Worst(y, slack, whole & (slack <= ROUNDING * Q.shape[0]))


def _swept(Q: Array, y: Array, slope: Array) -> Array:
    """Move each coordinate of all rows to its best place, the others held; ``slope`` is the gradient at y."""
    y, slope = y.T.copy(), slope.T.copy()  # a coordinate of all rows side by side
    for label, curvature in enumerate(2.0 * np.diagonal(Q)):
        if curvature > 0.0:
            best = np.clip(y[label] + slope[label] / curvature, 0.0, 1.0)
        else:
            best = (slope[label] > 0.0).astype(np.float64)
        slope -= 2.0 * np.outer(Q[label], best - y[label])
        y[label] = best
    return y.T


def _code_distance(difference: Array, Q: Array) -> Array:
    return np.asarray(np.sum(difference @ Q * difference, axis=1))
