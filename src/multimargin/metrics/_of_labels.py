"""Metrics of predicted labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multimargin.metrics._counts import Counts, Tally
from multimargin.metrics._pairs import Floats, Mean, Undefined, fill, mean, ratio
from multimargin.metrics._registry import of_labels

Average = Callable[[Callable[[Tally], Floats], Counts, Undefined], Mean]


def _macro(values: Callable[[Tally], Floats], counts: Counts, undefined: Undefined) -> Mean:
    return mean(fill(values(counts.labels), undefined))


def _weighted(values: Callable[[Tally], Floats], counts: Counts, undefined: Undefined) -> Mean:
    return mean(fill(values(counts.labels), undefined), counts.labels.present)


def _micro(values: Callable[[Tally], Floats], counts: Counts, undefined: Undefined) -> Mean:
    of = counts.labels
    pooled = Tally(*(cells.sum(keepdims=True) for cells in (of.hits, of.present, of.predicted, of.known)))
    return Mean(float(fill(values(pooled), undefined)[0]))


def _samples(values: Callable[[Tally], Floats], counts: Counts, undefined: Undefined) -> Mean:
    empty = counts.rows.present + counts.rows.predicted == 0
    return mean(np.where(empty, 1.0, np.nan_to_num(values(counts.rows))), counts.weights)


def _register(name: str, average: Average, values: Callable[[Tally], Floats]) -> None:
    @of_labels(name)
    def formula(counts: Counts, undefined: Undefined) -> Mean:
        return average(values, counts, undefined)


for _name, _average in {"macro": _macro, "micro": _micro, "weighted": _weighted, "samples": _samples}.items():
    _register(f"{_name}-precision", _average, Tally.precision)
    _register(f"{_name}-recall", _average, Tally.recall)
_register("samples-f1", _samples, Tally.f1)


@of_labels("hamming-loss", loss=True)
def hamming_loss(counts: Counts, undefined: Undefined) -> Mean:
    r"""Share of cells where Y and the prediction differ.

    .. math:: \frac{1}{n L} \sum_{i,l} [y_{il} \ne \hat y_{il}]
    """
    rows, weights = counts.rows, counts.weights
    wrong = rows.present + rows.predicted - 2 * rows.hits
    return Mean(float(ratio(wrong @ weights, rows.known @ weights)))


@of_labels("subset-accuracy")
def subset_accuracy(counts: Counts, undefined: Undefined) -> Mean:
    r"""Share of rows in which every label is right.

    .. math:: \frac{1}{n} \sum_i [Y_i = \hat Y_i]
    """
    rows = counts.rows
    right: NDArray[np.bool_] = (rows.hits == rows.present) & (rows.hits == rows.predicted)
    return mean(right.astype(np.float64), counts.weights)


@of_labels("example-f1")
def example_f1(counts: Counts, undefined: Undefined) -> Mean:
    r"""Mean over rows of the F1 of the label set.

    .. math:: \frac{1}{n} \sum_i \frac{2 |Y_i \cap \hat Y_i|}{|Y_i| + |\hat Y_i|}

    A row without labels for which none is predicted counts as 1: the prediction is right.
    """
    return _samples(Tally.f1, counts, undefined)


@of_labels("macro-f1")
def macro_f1(counts: Counts, undefined: Undefined) -> Mean:
    r"""Mean over labels of the F1 of the label.

    .. math:: \frac{1}{L} \sum_l \frac{2 \mathrm{TP}_l}{2 \mathrm{TP}_l + \mathrm{FP}_l + \mathrm{FN}_l}

    Undefined for a label neither present nor predicted in any row.
    """
    return _macro(Tally.f1, counts, undefined)


@of_labels("micro-f1")
def micro_f1(counts: Counts, undefined: Undefined) -> Mean:
    r"""F1 of all cells pooled.

    .. math:: \frac{2 \sum_l \mathrm{TP}_l}{\sum_l (2 \mathrm{TP}_l + \mathrm{FP}_l + \mathrm{FN}_l)}
    """
    return _micro(Tally.f1, counts, undefined)


@of_labels("weighted-f1")
def weighted_f1(counts: Counts, undefined: Undefined) -> Mean:
    r"""Mean over labels of the F1 of the label, weighted by its number of positive rows.

    .. math:: \sum_l N_l F_l \Big/ \sum_l N_l
    """
    return _weighted(Tally.f1, counts, undefined)
