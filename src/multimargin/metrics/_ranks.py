"""Ranks of labels by their scores, from which all metrics of scores follow.

Everything about a row follows from three numbers for each of its true labels: how many labels score higher
(above), how many at least as high (reach), and how many true ones at least as high (hits). They are found by
sorting rows in blocks; columns and the pool of all cells are treated alike. Scores are never copied as a
whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.labels import LabelMatrix
from multimargin.metrics._pairs import Floats, Mean, mean

CELLS_PER_BLOCK = 1 << 21


@dataclass(frozen=True)
class RowRanks:
    """Row, above, reach and hits of every true label; numbers of present and known labels of every row."""

    row: NDArray[np.intp]
    above: NDArray[np.intp]
    reach: NDArray[np.intp]
    hits: NDArray[np.intp]
    present: NDArray[np.intp]
    known: NDArray[np.intp]

    def per_row(self, values: Any) -> Floats:
        """Sum the values of the true labels of each row."""
        return np.bincount(self.row, weights=values, minlength=len(self.present)).astype(np.float64)


@dataclass(frozen=True)
class LabelCurves:
    """Area under the ROC curve and average precision of each label, NaN where Y is constant."""

    roc_auc: Floats
    average_precision: Floats


class Ranking:
    """Scores beside labels; what the metrics share is computed when first asked for."""

    def __init__(self, truth: LabelMatrix, scores: Any, weights: Floats | None) -> None:
        self.truth = truth
        self.scores = scores
        self.weights = weights

    @cached_property
    def rows(self) -> RowRanks:
        """Ranks of the true labels in their rows."""
        return _row_ranks(self.truth, self.scores)

    @cached_property
    def labels(self) -> LabelCurves:
        """Curves of every label by itself."""
        return _label_curves(self.truth, self.scores, self.weights)

    @cached_property
    def pool(self) -> LabelCurves:
        """Curves of all cells together."""
        return _pooled_curves(self.truth, self.scores, self.weights)

    def average_rows(self, values: Floats) -> Mean:
        """Average over the rows of which anything is known."""
        known = self.rows.known > 0
        return mean(values[known], None if self.weights is None else self.weights[known])


def _blocks(truth: LabelMatrix, scores: NDArray[Any]) -> Any:
    """Yield row ranges with a copy of their scores, NaN in unknown cells."""
    step = max(1, CELLS_PER_BLOCK // truth.n_labels)
    for start in range(0, truth.n_samples, step):
        stop = min(start + step, truth.n_samples)
        block = np.array(scores[start:stop], order="C")
        if truth.missing is not None:
            cells = truth.missing[start:stop].tocoo()
            block[cells.row, cells.col] = np.nan
        yield start, stop, block


def _row_ranks(truth: LabelMatrix, scores: Any) -> RowRanks:
    offsets, columns = truth.positives.indptr, truth.positives.indices
    present = np.diff(offsets).astype(np.intp)
    row = np.repeat(np.arange(truth.n_samples), present)
    known = np.full(truth.n_samples, truth.n_labels)
    if truth.missing is not None:
        known = known - np.diff(truth.missing.indptr)
    above, reach = np.empty_like(row), np.empty_like(row)
    if sp.issparse(scores):
        values = _place_among_stored(scores, row, columns, above, reach)
        return RowRanks(row, above, reach, _hits(row, values), present, known)
    values = scores[row, columns]
    for start, stop, block in _blocks(truth, scores):
        block.sort(axis=1)  # NaN goes to the end, beyond the known cells
        here = slice(offsets[start], offsets[stop])
        local = row[here] - start
        ends = known[row[here]]
        above[here] = ends - _count_before(block, local, ends, values[here], np.less_equal)
        reach[here] = ends - _count_before(block, local, ends, values[here], np.less)
    return RowRanks(row, above, reach, _hits(row, values), present, known)


def _place_among_stored(
    scores: sp.csr_array, row: NDArray[np.intp], columns: NDArray[Any], above: NDArray[np.intp], reach: NDArray[np.intp]
) -> NDArray[Any]:
    """Fill above and reach from the best scores of rows, and return those of the true labels.

    A label without a score comes after all that have one, as if alone there.
    """
    n, n_labels = scores.shape
    stored = np.diff(scores.indptr).astype(np.intp)
    cells = scores.indices + n_labels * np.repeat(np.arange(n), stored)  # rises, for the indices are sorted
    needles = columns + n_labels * row
    at = np.searchsorted(cells, needles)
    has_score = at < len(cells)
    has_score[has_score] = cells[at[has_score]] == needles[has_score]
    values = np.full(len(row), -np.inf)
    values[has_score] = scores.data[at[has_score]]
    table = np.full((n, int(stored.max(initial=1))), np.nan)
    table[np.arange(table.shape[1]) < stored[:, None]] = scores.data
    table.sort(axis=1)
    ends = stored[row]
    above[:] = np.where(has_score, ends - _count_before(table, row, ends, values, np.less_equal), ends)
    reach[:] = np.where(has_score, ends - _count_before(table, row, ends, values, np.less), ends + 1)
    return values


def _count_before(
    rows: NDArray[Any], row: NDArray[np.intp], ends: NDArray[np.intp], values: NDArray[Any], before: np.ufunc
) -> NDArray[np.intp]:
    """Count the entries v of a sorted row with before(v, value), for many values at once, by bisection."""
    flat, width = rows.ravel(), rows.shape[1]
    low, high = np.zeros_like(row), ends.copy()
    for _ in range(width.bit_length()):
        middle = (low + high) >> 1
        open_ = low < high
        goes_right = before(flat[row * width + np.minimum(middle, width - 1)], values) & open_
        high = np.where(open_ & ~goes_right, middle, high)
        low = np.where(goes_right, middle + 1, low)
    return low


def _hits(row: NDArray[np.intp], values: NDArray[Any]) -> NDArray[np.intp]:
    """Count for every true label the true labels of its row that score at least as high."""
    if not len(row):
        return np.empty(0, dtype=np.intp)
    order = np.lexsort((-values, row))
    row, values = row[order], values[order]
    new_row = np.r_[True, row[1:] != row[:-1]]
    last_of_tie = np.r_[new_row[1:] | (values[1:] != values[:-1]), True]
    place = np.arange(1, len(row) + 1)
    end = np.minimum.accumulate(np.where(last_of_tie, place, len(row) + 1)[::-1])[::-1]
    start = np.maximum.accumulate(np.where(new_row, place - 1, 0))
    hits = np.empty(len(row), dtype=np.intp)
    hits[order] = end - start
    return hits


def _mass_above(values: NDArray[Any], weights: Floats | None, needles: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the weight of the values above, and of those at or above, each needle."""
    if weights is None:
        ordered = np.sort(values)
        below = np.arange(len(values) + 1, dtype=np.float64)
    else:
        order = np.argsort(values)
        ordered = values[order]
        below = np.r_[0.0, np.cumsum(weights[order])]
    return (
        below[-1] - below[np.searchsorted(ordered, needles, side="right")],
        below[-1] - below[np.searchsorted(ordered, needles, side="left")],
    )


def _curve(needles: NDArray[Any], w: Floats | None, above: Floats, reach: Floats, total: float) -> tuple[float, float]:
    """Return AUC and average precision from the mass above and at or above each positive score."""
    hits_above, hits = _mass_above(needles, w, needles)
    weights = np.ones(len(needles)) if w is None else w
    positive = float(weights.sum())
    negative = total - positive
    if positive <= 0 or negative <= 0:
        return np.nan, np.nan
    worse = (reach - hits + above - hits_above) / 2  # negatives scored higher, ties for half
    auc = 1 - float(worse @ weights) / (positive * negative)
    shares = np.divide(hits, reach, out=np.zeros(len(needles)), where=reach > 0)
    return auc, float(shares @ weights) / positive


def _label_curves(truth: LabelMatrix, scores: NDArray[Any], weights: Floats | None) -> LabelCurves:
    positives = truth.positives.tocsc()
    missing = None if truth.missing is None else truth.missing.tocsc()
    curves = np.full((truth.n_labels, 2), np.nan)
    for label in range(truth.n_labels):
        rows = positives.indices[positives.indptr[label] : positives.indptr[label + 1]]
        if len(rows) in (0, truth.n_samples):
            continue
        column, w = np.ascontiguousarray(scores[:, label]), weights
        rows = rows[np.argsort(column[rows])]  # bisection by sorted needles walks through memory in order
        needles, w_needles = column[rows], None if weights is None else weights[rows]
        if missing is not None:
            unknown = missing.indices[missing.indptr[label] : missing.indptr[label + 1]]
            column = np.delete(column, unknown)
            w = None if w is None else np.delete(w, unknown)
        total = float(len(column) if w is None else w.sum())
        curves[label] = _curve(needles, w_needles, *_mass_above(column, w, needles), total)
    return LabelCurves(curves[:, 0], curves[:, 1])


def _pooled_curves(truth: LabelMatrix, scores: NDArray[Any], weights: Floats | None) -> LabelCurves:
    row = np.repeat(np.arange(truth.n_samples), np.diff(truth.positives.indptr))
    needles = scores[row, truth.positives.indices]
    order = np.argsort(needles)
    needles, w = needles[order], None if weights is None else weights[row[order]]
    above, reach, total = np.zeros(len(needles)), np.zeros(len(needles)), 0.0
    for start, stop, block in _blocks(truth, scores):
        known = ~np.isnan(block)
        values = block.ravel() if truth.missing is None else block[known]
        w_values = None
        if weights is not None:
            w_values = np.broadcast_to(weights[start:stop, None], block.shape)[known]
        higher, at_least = _mass_above(values, w_values, needles)
        above += higher
        reach += at_least
        total += float(len(values) if w_values is None else w_values.sum())
    auc, precision = _curve(needles, w, above, reach, total)
    return LabelCurves(np.array([auc]), np.array([precision]))
