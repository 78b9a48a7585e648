"""Scores beside the labels they belong to: what rules are tuned on."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.errors import InputError
from multimargin.labels import LabelMatrix, read_labels
from multimargin.metrics._pairs import read_scores, read_weights

__all__ = ["Cells", "marks", "read_cells", "read_score_matrix", "stored_where", "without"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cells:
    """Scores, labels and row weights of the same rows.

    Attributes
    ----------
    scores : ndarray or csr_array of shape (n_samples, n_labels)
        NaN: the cell has no score that could be used; it is left out. -inf, or not stored: never predicted.
    labels : LabelMatrix
    weights : ndarray of shape (n_samples,)
        Rows of weight 0 are left out.
    """

    scores: Any
    labels: LabelMatrix
    weights: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and labels."""
        return self.labels.n_samples, self.labels.n_labels

    @property
    def sparse(self) -> bool:
        """Whether only some cells have a score."""
        return bool(sp.issparse(self.scores))

    @cached_property
    def columns(self) -> Any:
        """Scores for the native core, label by label."""
        if not self.sparse:
            return np.ascontiguousarray(self.scores)
        csc = sp.csc_array(self.scores)
        return _core.SparseScores(csc.data, csc.indptr.astype(np.int64), csc.indices.astype(np.int64), csc.shape[0])

    @cached_property
    def positives(self) -> _core.Marks:
        """Rows of the positive cells, label by label."""
        return marks(sp.csc_array(self.labels.positives))

    @cached_property
    def unknown(self) -> _core.Marks | None:
        """Rows of the unknown cells, label by label."""
        return None if self.labels.missing is None else marks(sp.csc_array(self.labels.missing))

    @cached_property
    def unusable(self) -> sp.csr_array | None:
        """Known cells whose score is NaN."""
        if self.sparse:
            cells = stored_where(self.scores, np.isnan(self.scores.data))
        elif np.isnan(self.scores.max()):
            cells = sp.csr_array(np.isnan(self.scores))
        else:
            return None
        return without(cells, self.labels.missing) if cells.nnz else None

    @cached_property
    def present(self) -> sp.csr_array:
        """Positive cells that count."""
        return without(self.labels.positives, self.unusable)

    def only(self, rows: NDArray[np.bool_]) -> Self:
        """Return the same cells where only some rows count."""
        part = copy.copy(self)  # with everything computed so far
        object.__setattr__(part, "weights", np.where(rows, self.weights, 0.0))
        return part

    def some_labels(self, chosen: NDArray[np.bool_]) -> Cells:
        """Return the cells of some labels."""
        at = np.flatnonzero(chosen)
        labels = self.labels
        missing = None if labels.missing is None else sp.csr_array(labels.missing[:, at])
        part = LabelMatrix(sp.csr_array(labels.positives[:, at]), missing, labels.names[at], labels.form, at)
        return Cells(self.scores[:, at], part, self.weights)

    def with_scores(self, scores: Any) -> Cells:
        """Return the same labels and weights beside other scores."""
        return Cells(scores, self.labels, self.weights)

    def per_label(self, cells: sp.csr_array) -> Floats:
        """Weight of the rows of some cells, summed for every label."""
        of_cells = np.repeat(self.weights, np.diff(cells.indptr))
        return np.bincount(cells.indices, weights=of_cells, minlength=self.shape[1]).astype(np.float64)

    def counts(self) -> tuple[Floats, Floats]:
        """Weights of the positive and of all cells that count, for every label."""
        known = np.full(self.shape[1], self.weights.sum())
        for left_out in (self.labels.missing, self.unusable):
            if left_out is not None:
                known = known - self.per_label(left_out)
        return self.per_label(self.present), known

    def pooled(self) -> Cells:
        """Return all cells as those of a single label."""
        n, n_labels = self.shape
        size = n * n_labels

        def column(cells: sp.csr_array | None) -> sp.csr_array | None:
            if cells is None:
                return None
            rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(cells.indptr)) * n_labels + cells.indices
            return sp.csr_array(sp.csc_array((cells.data, rows, np.array([0, len(rows)])), shape=(size, 1)))

        scores = column(self.scores) if self.sparse else np.ascontiguousarray(self.scores).reshape(-1, 1)
        labels = LabelMatrix(
            column(self.labels.positives), column(self.labels.missing), np.arange(1), self.labels.form, np.arange(1)
        )
        return Cells(scores, labels, np.repeat(self.weights, n_labels))


def marks(cells: Any) -> _core.Marks:
    """Mark cells for the native core: the rows of each label of a CSC array, the labels of each row of a CSR one."""
    members = cells.shape[0] if cells.format == "csc" else cells.shape[1]
    return _core.Marks(cells.indptr.astype(np.int64), cells.indices.astype(np.int64), members)


def stored_where(scores: sp.csr_array, keep: NDArray[np.bool_]) -> sp.csr_array:
    """Return some of the cells that are stored."""
    # SciPy drops cells in place: from copies
    cells = sp.csr_array((keep, scores.indices.copy(), scores.indptr.copy()), shape=scores.shape)
    cells.eliminate_zeros()
    return cells


def without(cells: sp.csr_array, others: sp.csr_array | None) -> sp.csr_array:
    """Return the cells that are not among the others."""
    if others is None:
        return cells
    left = cells.astype(np.int8) - cells.astype(np.int8).multiply(others.astype(np.int8))
    left.eliminate_zeros()
    return sp.csr_array(left.astype(bool))


def read_cells(scores: Any, Y: Any, sample_weight: Any) -> Cells:
    """Check scores, labels and weights, and put them side by side."""
    labels = read_labels(Y)
    if sp.issparse(scores):
        cells = read_score_matrix(scores, labels.n_labels)
        if cells.shape[0] != labels.n_samples:
            msg = f"scores must have the {labels.n_samples} rows of Y; got {cells.shape[0]}. Score the rows of Y."
            raise InputError(msg)
    else:
        cells = read_scores(scores, labels)
        _refuse_infinity(cells)
    weights = read_weights(sample_weight, labels.n_samples)
    return Cells(cells, labels, np.ones(labels.n_samples) if weights is None else weights)


def read_score_matrix(scores: Any, n_labels: int) -> Any:
    """Check a bare matrix of scores, dense or sparse; one label may come as a vector."""
    if sp.issparse(scores):
        cells = sp.csr_array(scores, copy=True)
        cells.sum_duplicates()
        cells = cells if cells.dtype in (np.float32, np.float64) else cells.astype(np.float64)
    else:
        try:
            cells = np.asarray(scores)
            cells = cells if cells.dtype in (np.float32, np.float64) else cells.astype(np.float64)
        except (TypeError, ValueError) as error:
            msg = f"scores must be numbers, one per row and label; {error}. Give decision_function(X)."
            raise InputError(msg) from None
        cells = cells[:, None] if cells.ndim == 1 and n_labels == 1 else cells
    if cells.ndim != 2 or cells.shape[1] != n_labels:
        msg = f"scores must have a column for each of the {n_labels} labels; got shape {cells.shape}."
        raise InputError(msg)
    values = cells.data if sp.issparse(cells) else cells
    if np.isnan(values).any():
        msg = "scores must not be NaN. A label that must never be predicted for a row may have the score -inf."
        raise InputError(msg)
    _refuse_infinity(values)
    return cells


def _refuse_infinity(values: NDArray[Any]) -> None:
    if values.size and values.max() == np.inf:
        msg = "scores must be below +inf: no threshold lies above it. Replace it by a large number."
        raise InputError(msg)
