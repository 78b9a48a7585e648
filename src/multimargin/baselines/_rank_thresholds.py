"""Thresholds between the labels of a row and those it lacks, for models that only rank them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["RULES", "fit_threshold", "threshold_targets"]

RULES = ("auto", "least-squares", "constant")
ROWS_PER_LABEL = 10  # below, the regression has too few rows for its L + 1 coefficients: measured, see CategoryRanking

Array = NDArray[np.float64]


def threshold_targets(scores: Array, positives: sp.csr_array, negatives: sp.csr_array) -> Array:
    """For each row, the threshold that splits its labels with the fewest errors.

    It is the middle of the first best interval between two neighbouring scores; below all scores it is the smallest
    less one, above all scores the largest plus one.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_labels)
    positives, negatives : csr_array of shape (n_samples, n_labels)
        Labels which rows have, and labels they are known to lack.

    Returns
    -------
    ndarray of shape (n_samples,)
        NaN for a row of which nothing is known.
    """
    targets = np.full(len(scores), np.nan)
    for i, s in enumerate(scores):
        on = s[positives.indices[positives.indptr[i] : positives.indptr[i + 1]]]
        off = s[negatives.indices[negatives.indptr[i] : negatives.indptr[i + 1]]]
        targets[i] = _best_cut(on, off)
    return targets


def _best_cut(on: Array, off: Array) -> float:
    cuts = np.unique(np.concatenate([on, off]))
    if not len(cuts):
        return np.nan
    middle = np.concatenate([[cuts[0] - 1], (cuts[:-1] + cuts[1:]) / 2, [cuts[-1] + 1]])
    errors = np.searchsorted(np.sort(on), middle, side="right") + (
        len(off) - np.searchsorted(np.sort(off), middle, side="left")
    )
    return float(middle[np.argmin(errors)])


def fit_threshold(
    rule: str, scores: Array, positives: sp.csr_array, negatives: sp.csr_array, used: NDArray[np.bool_]
) -> Array:
    """Coefficients of the threshold in the scores and, last, its constant.

    Parameters
    ----------
    rule : {"auto", "least-squares", "constant"}
        Least squares on the thresholds that split each row best, or one constant with the fewest errors over all rows;
        "auto" is the former for more than 10 rows per label.
    scores : ndarray of shape (n_samples, n_labels)
    positives, negatives : csr_array of shape (n_samples, n_labels)
        Labels which rows have, and labels they are known to lack.
    used : ndarray of shape (n_samples,)
        Rows that count.

    Returns
    -------
    ndarray of shape (n_labels + 1,)
    """
    coefficients = np.zeros(scores.shape[1] + 1)
    if rule == "constant" or (rule == "auto" and used.sum() <= ROWS_PER_LABEL * scores.shape[1]):
        on, off = (scores[used][cells[used].nonzero()] for cells in (positives, negatives))
        cut = _best_cut(on, off)
        coefficients[-1] = 0.0 if np.isnan(cut) else cut
        return coefficients
    targets = threshold_targets(scores, positives, negatives)
    used = used & ~np.isnan(targets)
    if not used.any():
        return coefficients
    design = np.column_stack([scores[used], np.ones(used.sum())])
    return np.asarray(np.linalg.lstsq(design, targets[used], rcond=None)[0])
