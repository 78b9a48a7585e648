"""Counts of hits, of present and of predicted labels, from which all metrics of predicted labels follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from multimargin.labels import LabelMatrix
from multimargin.metrics._pairs import Floats, ratio


@dataclass(frozen=True)
class Tally:
    """Weighted numbers of cells where a label is present and predicted (hits), present, predicted, known."""

    hits: Floats
    present: Floats
    predicted: Floats
    known: Floats

    def precision(self) -> Floats:
        """Hits among the predicted."""
        return ratio(self.hits, self.predicted)

    def recall(self) -> Floats:
        """Hits among the present."""
        return ratio(self.hits, self.present)

    def f1(self) -> Floats:
        """Harmonic mean of precision and recall."""
        return ratio(2 * self.hits, self.present + self.predicted)


@dataclass(frozen=True)
class Counts:
    """The counts by label, weighted, and by row, not weighted, with the weights of the rows."""

    labels: Tally
    rows: Tally
    weights: Floats


def count(truth: LabelMatrix, predicted: sp.csr_array, weights: Floats | None) -> Counts:
    """Count without densifying."""
    w = np.ones(truth.n_samples) if weights is None else weights
    hits = truth.positives.astype(np.int8).multiply(predicted).tocsr()
    hits.eliminate_zeros()
    stored = (hits, truth.positives, predicted)
    by_label = [_per_label(cells, w) for cells in stored]
    by_row = [np.diff(cells.indptr).astype(np.float64) for cells in stored]
    known_labels = np.full(truth.n_labels, w.sum())
    known_rows = np.full(truth.n_samples, float(truth.n_labels))
    if truth.missing is not None:
        known_rows = known_rows - np.diff(truth.missing.indptr)
        known_labels = known_labels - _per_label(truth.missing, w)
    # A row of which nothing is known says nothing.
    w = np.where(known_rows > 0, w, 0.0)
    return Counts(Tally(*[*by_label, known_labels]), Tally(*[*by_row, known_rows]), w)


def _per_label(cells: sp.csr_array, weights: Floats) -> Floats:
    of_cells = np.repeat(weights, np.diff(cells.indptr))
    return np.bincount(cells.indices, weights=of_cells, minlength=cells.shape[1]).astype(np.float64)
