"""Which cells are predicted from scores that can be compared between labels: thresholds and rules for rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from multimargin import _core
from multimargin.decisions._cells import Cells, marks, stored_where
from multimargin.decisions._scoring import Scoring, example_weights

__all__ = [
    "above",
    "at_least_one",
    "best_offset",
    "best_sets",
    "best_size",
    "coordinate_ascent",
    "distinct_sets",
    "expected_f_sets",
    "filled",
    "row_margins",
    "seen_sets",
    "top",
]

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 4096
CELLS_AT_ONCE = 4_000_000
NEVER = 1e12


def above(scores: Any, thresholds: Any) -> sp.csr_array:
    """Cells with a score above the threshold of their label."""
    if sp.issparse(scores):
        limits = np.broadcast_to(thresholds, scores.shape[1])[scores.indices]
        return stored_where(scores, scores.data.astype(np.float64) > limits)
    return sp.csr_array(np.asarray(scores, dtype=np.float64) > thresholds)


def top(scores: Any, k: int) -> sp.csr_array:
    """Predict the k best cells of every row; the first ones among equals."""
    if sp.issparse(scores):
        row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
        values = np.where(np.isnan(scores.data), -np.inf, scores.data)
        order = np.lexsort((-values, row))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order)) - scores.indptr[row[order]]
        return stored_where(scores, (rank < k) & (values > -np.inf))
    values = np.where(np.isnan(scores), -np.inf, scores)
    chosen = np.zeros(values.shape, dtype=bool)
    best = values.argmax(axis=1)[:, None] if k == 1 else np.argsort(-values, axis=1, kind="stable")[:, :k]
    np.put_along_axis(chosen, best, True, axis=1)
    return sp.csr_array(chosen & (values > -np.inf))


def at_least_one(odds: Any, threshold: float) -> sp.csr_array:
    """Cells above the threshold, and the best one of each row."""
    return sp.csr_array((above(odds, threshold).astype(np.int8) + top(odds, 1).astype(np.int8)).astype(bool))


def expected_f_sets(odds: Any, beta_squared: float) -> sp.csr_array:
    """Predict the set of largest expected F of each row, its labels taken as independent with these log-odds."""
    if sp.issparse(odds):
        p = np.nan_to_num(expit(odds.data))
        chosen = _core.best_expected_f(p, odds.indptr.astype(np.int64), beta_squared)[0]
        return stored_where(odds, chosen.astype(bool))
    return sp.csr_array(best_sets(np.nan_to_num(expit(odds)), beta_squared))


def best_sets(p: Floats, beta_squared: float) -> NDArray[np.bool_]:
    """Return the set of largest expected F of each row of independent probabilities."""
    starts = np.arange(len(p) + 1, dtype=np.int64) * p.shape[1]
    chosen = _core.best_expected_f(np.ascontiguousarray(p).ravel(), starts, beta_squared)[0]
    return np.asarray(chosen.reshape(p.shape).astype(bool))


def distinct_sets(positives: sp.csr_array) -> sp.csr_array:
    """Return each label set that occurs once, in the order of their last rows."""
    members, ends = positives.indices, positives.indptr
    last = {members[ends[i] : ends[i + 1]].tobytes(): i for i in range(positives.shape[0])}
    return sp.csr_array(positives[sorted(last.values())])


def seen_sets(odds: Any, sets: sp.csr_array) -> sp.csr_array:
    """Predict one of the sets for each row: the one of the largest sum of log-odds of its labels."""
    table = sets.astype(np.float64).T
    step = max(1, CELLS_AT_ONCE // max(sets.shape[0], sets.shape[1]))
    best = [
        # a label that must never be predicted weighs more than any sum of the others
        np.asarray(np.nan_to_num(filled(odds[start : start + step]), nan=-NEVER, neginf=-NEVER) @ table).argmax(axis=1)
        for start in range(0, odds.shape[0], step)
    ]
    return sp.csr_array(sets[np.concatenate(best)])


def best_offset(cells: Cells, scoring: Scoring, always_one: bool = False) -> float:
    """Return the one threshold for all cells that is best for a macro, weighted or example F; exact on these cells."""
    by_row = scoring.kind == "example"
    positives, _ = cells.counts()
    rows, labels = example_weights(cells) if by_row else cells.weights, np.ones(cells.shape[1])
    if not by_row:
        labels = positives if scoring.kind == "weighted" else (positives > 0).astype(np.float64)
    order = sp.csr_array if by_row else sp.csc_array
    if cells.sparse:
        stored = order(cells.scores)
        values, starts, of = stored.data.astype(np.float64), stored.indptr, stored.indices.astype(np.int64)
    else:
        table = np.ascontiguousarray(cells.scores if by_row else cells.scores.T, dtype=np.float64)
        values, starts, of = table.ravel(), np.arange(0, table.size + 1, table.shape[1]), None
    missing = cells.labels.missing
    groups, members = (rows, labels) if by_row else (labels, rows)
    return _core.best_offset(
        _core.Groups(values, starts.astype(np.int64), of, len(members)),
        marks(order(cells.labels.positives)),
        None if missing is None else marks(order(missing)),
        np.ascontiguousarray(groups / max(groups.sum(), np.finfo(float).tiny)),
        members,
        scoring.beta_squared,
        always_one,
    )[0]


def best_size(cells: Cells, scoring: Scoring) -> int:
    """Return the number of labels, the same for every row, that is best for the example F; exact on these cells."""
    total, weights = np.zeros(cells.shape[1]), example_weights(cells)
    for start in range(0, cells.shape[0], ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        scores = filled(cells.scores[rows])
        usable = scores > -np.inf
        if cells.labels.missing is not None:
            usable &= ~cells.labels.missing[rows].toarray()
        present = cells.present[rows].toarray()
        order = np.argsort(-np.where(np.isnan(scores), -np.inf, scores), axis=1, kind="stable")
        hits = np.cumsum(np.take_along_axis(present & usable, order, axis=1), axis=1, dtype=np.float64)
        predicted = np.cumsum(np.take_along_axis(usable, order, axis=1), axis=1, dtype=np.float64)
        f = scoring.f_measure(hits, present.sum(axis=1, keepdims=True).astype(np.float64), predicted)
        total += weights[rows] @ np.nan_to_num(f, nan=1.0)
    return int(np.argmax(total)) + 1


def coordinate_ascent(cells: Cells, scoring: Scoring, thresholds: Floats, sweeps: int = 20) -> Floats:
    """Improve thresholds for the example F, one label at a time, each exactly, until none can be improved."""
    scores = filled(cells.scores)
    counted = ~np.isnan(scores)
    if cells.labels.missing is not None:
        counted &= ~cells.labels.missing.toarray().astype(bool)
    truth = cells.labels.positives.toarray().astype(bool) & counted
    guess = (scores > thresholds) & counted
    weights = example_weights(cells)
    present = truth.sum(axis=1).astype(np.float64)
    hits, predicted = (truth & guess).sum(axis=1).astype(np.float64), guess.sum(axis=1).astype(np.float64)
    thresholds = thresholds.copy()

    def f(rows: NDArray[np.intp], hits: Floats, predicted: Floats) -> Floats:
        return np.nan_to_num(scoring.f_measure(hits, present[rows], predicted), nan=1.0)

    for _ in range(sweeps):
        changed = False
        for label in range(scores.shape[1]):
            rows = np.flatnonzero(counted[:, label] & (scores[:, label] > -np.inf) & (weights > 0))
            rows = rows[np.argsort(-scores[rows, label], kind="stable")]
            if not len(rows):
                continue
            others_hits = hits[rows] - (truth[rows, label] & guess[rows, label])
            others = predicted[rows] - guess[rows, label]
            with_it, without_it = f(rows, others_hits + truth[rows, label], others + 1), f(rows, others_hits, others)
            gain = weights[rows] * (with_it - without_it)
            value = np.concatenate([[0.0], np.cumsum(gain)])
            ordered = scores[rows, label]
            ends = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])
            now = int(np.count_nonzero(ordered > thresholds[label]))
            best = int(np.argmax(np.where(ends, value, -np.inf)))
            if value[best] <= value[now] + 1e-12 * max(weights.sum(), 1e-300):
                continue
            changed = True
            below = ordered[best] if best < len(rows) else -np.inf
            thresholds[label] = np.inf if best == 0 else _middle(below, ordered[best - 1])
            fresh = counted[:, label] & (scores[:, label] > thresholds[label])
            hits += (truth[:, label] & fresh).astype(float) - (truth[:, label] & guess[:, label])
            predicted += fresh.astype(float) - guess[:, label]
            guess[:, label] = fresh
        if not changed:
            break
    return thresholds


def row_margins(odds: Floats, predicted: NDArray[np.bool_], usual: float = np.nan) -> Floats:
    """Log-odds less a threshold of the row that lies between its predicted and its other labels.

    The usual threshold is taken where it does. Predicted cells are above 0, the others are not, also where labels are
    equally likely or were not chosen in the order of their odds.
    """
    lowest_in = np.where(predicted, odds, np.inf).min(axis=1, keepdims=True)
    highest_out = np.where(predicted, -np.inf, odds).max(axis=1, keepdims=True)
    middle = np.where(np.isinf(lowest_in), highest_out, np.where(np.isinf(highest_out), lowest_in, 0.0))
    both = np.isfinite(lowest_in) & np.isfinite(highest_out)
    middle[both] = (lowest_in[both] + highest_out[both]) / 2
    limit = np.where((usual < lowest_in) & (usual >= highest_out), usual, middle)
    margins = odds - limit
    return np.asarray(np.where(predicted, np.maximum(margins, np.finfo(float).tiny), np.minimum(margins, 0.0)))


def _middle(below: float, over: float) -> float:
    if below == -np.inf:
        return -np.inf
    middle = below + (over - below) / 2
    return middle if below <= middle < over else below


def filled(scores: Any) -> Floats:
    """Scores as a table; cells that are not stored have -inf."""
    if not sp.issparse(scores):
        return np.asarray(scores, dtype=np.float64)
    table = np.full(scores.shape, -np.inf)
    table[np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr)), scores.indices] = scores.data
    return table
