"""The one number added to all scores that makes the mean F-score largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.estimators.contract import Problem
from multimargin.labels import LabelMatrix

__all__ = ["Path", "best_offset", "f_score_path", "known_truth", "unary_scores"]


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


def unary_scores(X: Any, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of the labels, each by itself."""
    scores = np.asarray(safe_sparse_dot(X, coef.T, dense_output=True), dtype=np.float64) + intercept
    return np.ascontiguousarray(scores)


def f_score_path(
    model: _core.SubmodularFit,
    pairs: NDArray[np.int32],
    problem: Problem,
    rows: NDArray[np.int64],
    firm: NDArray[np.bool_],
    signs: NDArray[np.float64] | None = None,
) -> Path:
    """Weighted F-score of some rows as a function of the offset.

    It does not move the ``firm`` labels, which are predicted by these signs, or by those of the whole problem.
    """
    truth = known_truth(problem.labels, rows)
    u = unary_scores(problem.X[rows], model.coef, model.intercept)
    if signs is not None:
        u[:, firm] = signs[firm]
    u[:, problem.constant] = problem.labels.signs[problem.constant]
    weight = problem.costs.row[rows]
    low, high = offset_range(u[:, ~firm], truth[:, ~firm])
    start, offsets, changes, ends = _core.f_score_path(
        u, pairs, model.attraction, truth, firm.astype(np.uint8), low, high
    )
    return Path(low, high, float(weight @ start), offsets, changes * np.repeat(weight, np.diff(ends, prepend=0)))


def offset_range(u: NDArray[np.float64], truth: NDArray[np.uint8]) -> tuple[float, float]:
    """Offsets between a third and three times as many labels as there are, by the scores alone."""
    density = float(np.mean(truth == 1)) if truth.size else 0.0
    if density == 0.0:
        return -1.0, 1.0
    low, high = -np.quantile(u, [1 - density / 3, max(1 - 3 * density, 0.0)])
    margin = 1e-3 + 1e-3 * abs(high - low)
    return float(min(low, 0.0) - margin), float(max(high, 0.0) + margin)


def known_truth(labels: LabelMatrix, rows: NDArray[np.int64] | slice) -> NDArray[np.uint8]:
    """0/1 labels of these rows, 2 where unknown."""
    truth = labels.positives[rows].toarray().astype(np.uint8)
    if labels.missing is not None:
        truth[labels.missing[rows].toarray().astype(bool)] = 2
    return np.ascontiguousarray(truth)
