"""Metrics of predicted label sets, all from the same counts of hits, present and predicted labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.labels import LabelMatrix
from multimargin.metrics._pairs import (
    Floats,
    Mean,
    Names,
    Undefined,
    check_undefined,
    fill,
    mean,
    ratio,
    read_pair,
    read_weights,
)


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


def _macro(values: Callable[[Tally], Floats]) -> Metric:
    return lambda counts, undefined: mean(fill(values(counts.labels), undefined))


def _weighted(values: Callable[[Tally], Floats]) -> Metric:
    return lambda counts, undefined: mean(fill(values(counts.labels), undefined), counts.labels.present)


def _micro(values: Callable[[Tally], Floats]) -> Metric:
    def metric(counts: Counts, undefined: Undefined) -> Mean:
        of = counts.labels
        pooled = Tally(*(cells.sum(keepdims=True) for cells in (of.hits, of.present, of.predicted, of.known)))
        return Mean(float(fill(values(pooled), undefined)[0]))

    return metric


def _samples(values: Callable[[Tally], Floats]) -> Metric:
    def metric(counts: Counts, undefined: Undefined) -> Mean:
        empty = counts.rows.present + counts.rows.predicted == 0
        return mean(np.where(empty, 1.0, np.nan_to_num(values(counts.rows))), counts.weights)

    return metric


def _hamming(counts: Counts, undefined: Undefined) -> Mean:
    rows, weights = counts.rows, counts.weights
    wrong = rows.present + rows.predicted - 2 * rows.hits
    return Mean(float(ratio(wrong @ weights, rows.known @ weights)))


def _subset(counts: Counts, undefined: Undefined) -> Mean:
    rows = counts.rows
    right: NDArray[np.bool_] = (rows.hits == rows.present) & (rows.hits == rows.predicted)
    return mean(right.astype(np.float64), counts.weights)


Metric = Callable[[Counts, Undefined], Mean]

SET_METRICS: dict[str, Metric] = {
    f"{average}-{name}": over(values)
    for average, over in {
        "macro": _macro,
        "micro": _micro,
        "weighted": _weighted,
        "samples": _samples,
    }.items()
    for name, values in {"precision": Tally.precision, "recall": Tally.recall, "f1": Tally.f1}.items()
} | {"hamming-loss": _hamming, "subset-accuracy": _subset, "example-f1": _samples(Tally.f1)}


def set_metric(
    name: str, Y: Any, prediction: Any, names: Names, sample_weight: Any, undefined: Undefined = "skip"
) -> float:
    """Compute one of ``SET_METRICS``."""
    check_undefined(undefined)
    truth, predicted = read_pair(Y, prediction, names)
    weights = read_weights(sample_weight, truth.n_samples)
    return SET_METRICS[name](count(truth, predicted, weights), undefined).value


def hamming_loss(Y: Any, prediction: Any, *, names: Names = None, sample_weight: Any = None) -> float:
    r"""Share of cells where Y and the prediction differ.

    .. math:: \frac{1}{n L} \sum_{i,l} [y_{il} \ne \hat y_{il}]

    Parameters
    ----------
    Y, prediction : labels in any form
        True and predicted labels of the same rows; NaN cells of Y are left out.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> round(metrics.hamming_loss([[1, 0, 1], [0, 0, 1]], [[1, 0, 0], [0, 0, 1]]), 3)
    0.167
    """
    return set_metric("hamming-loss", Y, prediction, names, sample_weight)


def subset_accuracy(Y: Any, prediction: Any, *, names: Names = None, sample_weight: Any = None) -> float:
    r"""Share of rows in which every label is right.

    .. math:: \frac{1}{n} \sum_i [Y_i = \hat Y_i]

    Parameters
    ----------
    Y, prediction : labels in any form
        True and predicted labels of the same rows; NaN cells of Y are left out.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> metrics.subset_accuracy([{"sun"}, {"sea", "sun"}], [{"sun"}, {"sea"}])
    0.5
    """
    return set_metric("subset-accuracy", Y, prediction, names, sample_weight)


def example_f1(Y: Any, prediction: Any, *, names: Names = None, sample_weight: Any = None) -> float:
    r"""Mean over rows of the F1 of the label set.

    .. math:: \frac{1}{n} \sum_i \frac{2 |Y_i \cap \hat Y_i|}{|Y_i| + |\hat Y_i|}

    A row without labels for which none is predicted counts as 1: the prediction is right.

    Parameters
    ----------
    Y, prediction : labels in any form
        True and predicted labels of the same rows; NaN cells of Y are left out.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> round(metrics.example_f1([{"sun"}, {"sea", "sun"}, set()], [{"sun"}, {"ice"}, set()]), 3)
    0.667
    """
    return set_metric("example-f1", Y, prediction, names, sample_weight)


def macro_f1(
    Y: Any, prediction: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Mean over labels of the F1 of the label.

    .. math:: \frac{1}{L} \sum_l \frac{2 \mathrm{TP}_l}{2 \mathrm{TP}_l + \mathrm{FP}_l + \mathrm{FN}_l}

    Undefined for a label neither present nor predicted in any row.

    Parameters
    ----------
    Y, prediction : labels in any form
        True and predicted labels of the same rows; NaN cells of Y are left out.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> metrics.macro_f1([[1, 0, 0], [1, 1, 0]], [[1, 0, 0], [1, 0, 0]])
    0.5
    >>> round(metrics.macro_f1([[1, 0, 0], [1, 1, 0]], [[1, 0, 0], [1, 0, 0]], undefined=0), 3)
    0.333
    """
    return set_metric("macro-f1", Y, prediction, names, sample_weight, undefined)


def micro_f1(
    Y: Any, prediction: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""F1 of all cells pooled.

    .. math:: \frac{2 \sum_l \mathrm{TP}_l}{\sum_l (2 \mathrm{TP}_l + \mathrm{FP}_l + \mathrm{FN}_l)}

    Parameters
    ----------
    Y, prediction : labels in any form
        True and predicted labels of the same rows; NaN cells of Y are left out.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> metrics.micro_f1([[1, 0, 0], [1, 1, 0]], [[1, 0, 0], [1, 0, 0]])
    0.8
    """
    return set_metric("micro-f1", Y, prediction, names, sample_weight, undefined)


def weighted_f1(
    Y: Any, prediction: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Mean over labels of the F1 of the label, weighted by its number of positive rows.

    .. math:: \sum_l N_l F_l \Big/ \sum_l N_l

    Parameters
    ----------
    Y, prediction : labels in any form
        True and predicted labels of the same rows; NaN cells of Y are left out.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> round(metrics.weighted_f1([[1, 0, 0], [1, 1, 0]], [[1, 0, 0], [1, 0, 0]]), 3)
    0.667
    """
    return set_metric("weighted-f1", Y, prediction, names, sample_weight, undefined)
