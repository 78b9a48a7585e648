"""The best prediction that is the same for every row: what a model has to beat."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.labels import LabelMatrix

__all__ = ["best_constant_sets", "label_frequencies"]

MOST_LABELS = 1000


def label_frequencies(truth: LabelMatrix) -> NDArray[np.float64]:
    """Share of the known cells of each label that are positive; 0 where nothing is known."""
    positives, negatives = truth.counts()
    return np.asarray(positives / np.maximum(positives + negatives, 1))


def best_constant_sets(truth: LabelMatrix) -> dict[str, NDArray[np.bool_]]:
    r"""Return for each metric the label set that is best if it is predicted for every row.

    macro-F1
        Every label that occurs: :math:`F_l = 2 P_l / (P_l + n)`.
    micro-F1
        The most frequent labels, as many as make :math:`2 \sum_{l \in S} P_l / (\sum_l P_l + |S| n)` largest.
    example-F1
        For each size k the labels of largest :math:`\sum_{i: l \in Y_i} 2 / (|Y_i| + k)`, and the best size; among
        the 1,000 most frequent labels.
    hamming-loss
        The labels in more than half of their rows.
    subset-accuracy
        The most frequent label set.

    Unknown cells count as absent where a whole row is looked at: in the choice for the last metric and the example F.

    Parameters
    ----------
    truth : LabelMatrix
        The labels that the constant prediction is chosen and judged on.

    Returns
    -------
    dict of str to ndarray of bool of shape (n_labels,)
    """
    positives, negatives = truth.counts()
    frequency = label_frequencies(truth)
    return {
        "macro-f1": positives > 0,
        "micro-f1": _best_for_micro(positives, positives + negatives, frequency),
        "example-f1": _best_for_rows(truth, frequency),
        "hamming-loss": frequency > 0.5,
        "subset-accuracy": _most_frequent_set(truth),
    }


def _best_for_micro(
    positives: NDArray[np.int64], known: NDArray[np.int64], frequency: NDArray[np.float64]
) -> NDArray[np.bool_]:
    order = np.argsort(-frequency, kind="stable")
    f = 2 * np.cumsum(positives[order]) / np.maximum(positives.sum() + np.cumsum(known[order]), 1)
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: int(np.argmax(f)) + 1]] = True
    return chosen


def _best_for_rows(truth: LabelMatrix, frequency: NDArray[np.float64]) -> NDArray[np.bool_]:
    candidates = np.argsort(-frequency, kind="stable")[:MOST_LABELS]
    cells = sp.coo_array(truth.positives[:, candidates])
    sizes = np.diff(truth.positives.indptr)
    rows_of_size = np.zeros((len(candidates), int(sizes.max()) + 1))
    np.add.at(rows_of_size, (cells.col, sizes[cells.row]), 1.0)
    predicted = np.arange(1, len(candidates) + 1)
    gains = rows_of_size @ (2 / (np.arange(rows_of_size.shape[1])[:, None] + predicted))
    totals = np.sort(gains, axis=0)[::-1].cumsum(axis=0).diagonal()
    k = int(np.argmax(totals)) + 1
    chosen = np.zeros(truth.n_labels, dtype=bool)
    if totals[k - 1] > np.count_nonzero(sizes == 0):  # an empty prediction is right in empty rows
        chosen[candidates[np.argsort(-gains[:, k - 1], kind="stable")[:k]]] = True
    return chosen


def _most_frequent_set(truth: LabelMatrix) -> NDArray[np.bool_]:
    cells = truth.positives
    sets = Counter(cells.indices[a:b].tobytes() for a, b in pairwise(cells.indptr.tolist()))
    most = np.frombuffer(sets.most_common(1)[0][0], dtype=cells.indices.dtype)
    chosen = np.zeros(truth.n_labels, dtype=bool)
    chosen[most] = True
    return chosen
