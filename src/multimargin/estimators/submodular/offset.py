"""The one number added to all scores that makes the mean F-score largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multimargin.labels import LabelMatrix

__all__ = ["Path", "best_offset", "known_truth", "offset_range"]


@dataclass(frozen=True)
class Path:
    """Sum of F-scores at the offset ``low``, and its changes on the way to ``high``."""

    low: float
    high: float
    start: float
    offsets: NDArray[np.float64]
    changes: NDArray[np.float64]


def best_offset(parts: list[Path]) -> float:
    """Return the middle of the interval of offsets where the sum of the paths is largest; 0 if nothing beats it."""
    if not parts:
        return 0.0
    low, high = max(p.low for p in parts), min(p.high for p in parts)
    offsets = np.concatenate([np.maximum(p.offsets, low) for p in parts])
    changes = np.concatenate([p.changes for p in parts])
    inside = offsets < high
    order = np.argsort(offsets[inside], kind="stable")
    edges, start = np.unique(offsets[inside][order], return_index=True)
    if not len(edges):
        return 0.0
    values = np.concatenate([[0.0], np.cumsum(np.add.reduceat(changes[inside][order], start))])
    bounds = np.concatenate([[low], edges, [high]])
    values[np.diff(bounds) <= 0] = -np.inf
    best = int(np.argmax(values))
    zero = int(np.searchsorted(bounds[1:-1], 0.0, side="left"))
    if values[zero] >= values[best] - 1e-12 * sum(p.start for p in parts):
        return 0.0
    return float((bounds[best] + bounds[best + 1]) / 2)


def offset_range(u: NDArray[np.float64], truth: NDArray[np.uint8]) -> tuple[float, float]:
    """Offsets between a third and three times as many labels as there are, by the scores alone."""
    density = float(np.mean(truth == 1)) if truth.size else 0.0
    if density == 0.0:
        return -1.0, 1.0
    low, high = -np.quantile(u, [1 - density / 3, max(1 - 3 * density, 0.0)])
    margin = 1e-3 + 1e-3 * abs(high - low)
    return float(min(low, 0.0) - margin), float(max(high, 0.0) + margin)


def known_truth(labels: LabelMatrix, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """0/1 labels of these rows, 2 where unknown."""
    truth = labels.positives[rows].toarray().astype(np.uint8)
    if labels.missing is not None:
        truth[labels.missing[rows].toarray().astype(bool)] = 2
    return np.ascontiguousarray(truth)
