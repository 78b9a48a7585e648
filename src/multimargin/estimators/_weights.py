"""The cost of every cell of Y: ``C``, ``class_weight`` and ``sample_weight`` turned into one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.labels import LabelMatrix
from multimargin.priors import LabelFrequencies

__all__ = ["CellCosts", "cell_costs"]


@dataclass(frozen=True)
class CellCosts:
    """Cost of cell (i, l): ``row[i] * (positive[l] or negative[l]) * cells[i, l]``.

    Attributes
    ----------
    row : ndarray of shape (n_samples,)
        Includes C.
    positive, negative : ndarray of shape (n_labels,)
        Factors of the cells where the label is present, or absent. 0 for labels left out of training.
    cells : ndarray of shape (n_samples, n_labels) or None
        A 2-D ``sample_weight``.
    """

    row: NDArray[Any]
    positive: NDArray[Any]
    negative: NDArray[Any]
    cells: NDArray[Any] | None

    def astype(self, dtype: Any) -> CellCosts:
        """Return the costs in this precision."""

        def cast(part: NDArray[Any]) -> NDArray[Any]:
            return np.ascontiguousarray(part, dtype=dtype)

        cells = None if self.cells is None else cast(self.cells)
        return CellCosts(cast(self.row), cast(self.positive), cast(self.negative), cells)

    def part(self, rows: NDArray[Any]) -> CellCosts:
        """Return the costs of some of the rows."""
        return replace(self, row=self.row[rows], cells=None if self.cells is None else self.cells[rows])

    def extent(self) -> tuple[float, float]:
        """Smallest cost above 0, about, and largest: products of the extents of the factors."""
        smallest = largest = 1.0
        both = np.concatenate([self.positive, self.negative])
        for part in (self.row, both) if self.cells is None else (self.row, both, self.cells):
            above = part[part > 0]
            if above.size:
                smallest, largest = smallest * float(above.min()), largest * float(above.max())
        return smallest, largest

    def native(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """Return the costs for the native core."""
        return self.row, self.positive, self.negative, self.cells


def cell_costs(
    labels: LabelMatrix, C: float, class_weight: Any, sample_weight: Any, left_out: NDArray[np.bool_]
) -> CellCosts:
    """Combine the weights, in double precision; labels in ``left_out`` cost nothing."""
    negative, positive = _class_weights(labels, class_weight)
    row, cells = _sample_weights(labels, sample_weight)
    return CellCosts(
        row=C * row,
        positive=np.where(left_out, 0.0, positive),
        negative=np.where(left_out, 0.0, negative),
        cells=None if cells is None else np.ascontiguousarray(cells),
    )


def _sample_weights(labels: LabelMatrix, weight: Any) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    n, n_labels = labels.n_samples, labels.n_labels
    if weight is None:
        return np.ones(n), None
    weight = np.asarray(weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape not in ((n,), (n, n_labels)):
        msg = (
            f"sample_weight must have shape ({n},), a weight per row, or ({n}, {n_labels}), a weight per row and "
            f"label; got sample_weight.shape == {weight.shape}."
        )
        raise InputError(msg)
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        msg = f"sample_weight must be finite and not negative; its minimum is {np.min(weight)}."
        raise InputError(msg)
    if not weight.any():
        msg = "sample_weight must not be all zero: there would be nothing to train on. Weight at least one row."
        raise InputError(msg)
    return (weight, None) if weight.ndim == 1 else (np.ones(n), weight)


def _class_weights(labels: LabelMatrix, weight: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of the negative and of the positive cells of each label."""
    n_labels = labels.n_labels
    if weight is None:
        return np.ones(n_labels), np.ones(n_labels)
    if isinstance(weight, LabelFrequencies):
        return weight.weights(labels)
    if isinstance(weight, str):  # "balanced": the parameter check admits no other text
        positive, negative = labels.counts()
        total = positive + negative
        return total / (2.0 * np.maximum(negative, 1)), total / (2.0 * np.maximum(positive, 1))
    weights: Sequence[Any] = [weight] * n_labels if isinstance(weight, Mapping) else list(weight)
    if len(weights) != n_labels:
        msg = (
            f"class_weight has {len(weights)} entries for {n_labels} labels. "
            "Give one mapping {0: ..., 1: ...} per label."
        )
        raise InputError(msg)
    pairs = [_pair(w, labels, column) for column, w in enumerate(weights)]
    return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


def _pair(weight: Any, labels: LabelMatrix, column: int) -> tuple[float, float]:
    name = labels.names.tolist()[column]
    if not isinstance(weight, Mapping):
        msg = f"class_weight of label {name!r} must be a mapping such as {{0: 1.0, 1: 5.0}}; got {weight!r}."
        raise InputError(msg)
    classes: list[Any] = [labels.form.negative, 1]
    if labels.form.kind == "column":
        classes = labels.values.tolist()
        if len(classes) == 1:
            classes = [classes[0]] * 2
    unknown = [key for key in weight if key not in classes and key not in (0, 1)]
    if unknown:
        msg = f"class_weight names the class {unknown[0]!r}, but the classes are {classes}."
        raise InputError(msg)
    values = [float(weight.get(cls, weight.get(default, 1.0))) for cls, default in zip(classes, (0, 1), strict=True)]
    if not all(np.isfinite(values)) or min(values) < 0:
        msg = f"class_weight of label {name!r} must be finite and not negative; got {dict(weight)!r}."
        raise InputError(msg)
    return values[0], values[1]
