"""Weights and margins of cells: what ``sample_weight``, ``class_weight``, ``C`` and ``margin`` amount to.

Where label frequencies differ between training and use, say which ones to expect:
``class_weight=weights.LabelFrequencies(q)``, alone or together with a prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multimargin import _core
from multimargin.errors import InputError
from multimargin.fitted_rules import LARGEST
from multimargin.labels import LabelMatrix, read_labels

__all__ = [
    "CellCosts",
    "CellMargins",
    "LabelFrequencies",
    "cell_costs",
    "cell_margins",
    "class_weights",
    "row_weights",
    "signature_frequencies",
    "unit_margins",
]

ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class LabelFrequencies:
    r"""Label frequencies to expect in use, as ``class_weight=`` of an estimator.

    ``fit`` turns them into class weights: with p the frequencies of its training rows and q these, a positive cell of
    label l weighs :math:`q_l / p_l` and a negative one :math:`(1 - q_l) / (1 - p_l)`, as :func:`class_weights` tells.
    In a cross-validation each fold thus gets the weights of its own rows. They work alone or together with a prior, and
    where frequencies change between training and use they are what helps most.

    Parameters
    ----------
    label_frequencies : array of shape (n_labels,) or mapping from label names
        q, the share of rows that will have each label; see :func:`signature_frequencies`.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import LinearM3L, weights
    >>> X, Y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[0], [0], [0], [1]])
    >>> model = LinearM3L(class_weight=weights.LabelFrequencies([0.75])).fit(X, Y)
    >>> weights.class_weights(Y, label_frequencies=[0.75])  # what it amounts to
    [{0: 0.3333333333333333, 1: 3.0}]
    """

    label_frequencies: Any

    def weights(self, labels: LabelMatrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of the negative and of the positive cells of each label; 1 for labels constant in training."""
        p = frequencies_of(labels)
        q = check_frequencies(_aligned_frequencies(self.label_frequencies, labels.names), labels.names)
        varies = (p > 0) & (p < 1)
        negative = np.divide(1.0 - q, 1.0 - p, out=np.ones_like(p), where=varies)
        return negative, np.divide(q, p, out=np.ones_like(p), where=varies)


def signature_frequencies(signatures: Any, probabilities: ArrayLike | None = None) -> NDArray[np.float64]:
    """Label frequencies to expect from categories with these signatures.

    Parameters
    ----------
    signatures : array of shape (n_categories, n_labels)
        The labels of each category, as 0/1, booleans or -1/1.
    probabilities : array of shape (n_categories,), optional
        How likely each category is; equally likely by default.

    Returns
    -------
    ndarray of shape (n_labels,)

    Examples
    --------
    >>> from multimargin.weights import signature_frequencies
    >>> signature_frequencies([[1, 1, 0], [0, 1, 0]])
    array([0.5, 1. , 0. ])
    """
    S, p = read_signatures(signatures, probabilities)
    return np.asarray(np.clip((p @ S + 1.0) / 2.0, 0.0, 1.0))


def class_weights(Y: Any, label_frequencies: Any) -> list[dict[int, float]]:
    r"""Class weights that turn the label frequencies of a training set into others.

    A positive cell of label l weighs :math:`q_l / p_l` and a negative one :math:`(1 - q_l) / (1 - p_l)`, where p are
    the frequencies in Y and q the ones to expect. They are an answer of their own to frequencies that change between
    training and use, and work together with a prior.

    Parameters
    ----------
    Y : label matrix in any form
        Labels of the training rows; unknown ones are not counted.
    label_frequencies : array of shape (n_labels,) or mapping from label names
        q, the share of rows that will have each label; see :func:`signature_frequencies`.

    Returns
    -------
    list of dict
        To be used as ``class_weight=``. A label constant in Y keeps its weights at 1. :class:`LabelFrequencies` does
        the same inside ``fit``.

    Examples
    --------
    >>> from multimargin.weights import class_weights
    >>> class_weights([[1], [0], [0], [0]], label_frequencies=[0.5])
    [{0: 0.6666666666666666, 1: 2.0}]
    """
    negative, positive = LabelFrequencies(label_frequencies).weights(read_labels(Y))
    return [{0: float(a), 1: float(b)} for a, b in zip(negative, positive, strict=True)]


def read_signatures(
    signatures: Any, probabilities: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Signatures in -1/1 and probabilities that sum to 1."""
    labels = read_labels(signatures, subject="signatures")
    if labels.missing is not None:
        msg = "signatures must be complete; got NaN cells. Fill them, or leave the category out."
        raise InputError(msg)
    S = np.where(labels.positives.toarray(), 1.0, -1.0)
    p = np.full(len(S), 1.0) if probabilities is None else np.asarray(probabilities, dtype=np.float64)
    if p.shape != (len(S),) or not np.all(np.isfinite(p)) or np.any(p < 0) or p.sum() <= 0:
        msg = (
            f"probabilities must be {len(S)} non-negative numbers, one per category, not all zero; got an array of "
            f"shape {p.shape} with minimum {p.min() if p.size else None}."
        )
        raise InputError(msg)
    return S, p / p.sum()


def frequencies_of(labels: LabelMatrix) -> NDArray[np.float64]:
    """Share of the known cells of each label that are positive."""
    positive, negative = labels.counts()
    return np.asarray(positive / np.maximum(positive + negative, 1), dtype=np.float64)


def check_frequencies(q: NDArray[np.float64], names: Any = None) -> NDArray[np.float64]:
    if q.ndim != 1 or (names is not None and len(q) != len(names)):
        wanted = "one number per label" if names is None else f"{len(names)} numbers, one per label"
        msg = f"label_frequencies must be {wanted}; got shape {q.shape}."
        raise InputError(msg)
    if not np.all((q >= -ROUNDING) & (q <= 1 + ROUNDING)):
        msg = f"label_frequencies must lie in [0, 1]; they range from {q.min():.4g} to {q.max():.4g}."
        raise InputError(msg)
    return np.asarray(np.clip(q, 0.0, 1.0))


def _aligned_frequencies(frequencies: Any, names: NDArray[Any]) -> NDArray[np.float64]:
    if not isinstance(frequencies, Mapping):
        return np.asarray(frequencies, dtype=np.float64)
    missing = [name for name in names.tolist() if name not in frequencies]
    if missing:
        msg = f"label_frequencies has no entry for label {missing[0]!r}. Give the frequency of every label."
        raise InputError(msg)
    return np.array([float(frequencies[name]) for name in names.tolist()])


@dataclass(frozen=True)
class CellCosts:
    """Cost of cell (i, l): ``row[i] * (positive[l] or negative[l]) * cells[i, l]``.

    Attributes
    ----------
    row : ndarray of shape (n_samples,)
        Weights of the rows, times C where that is included.
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

    def times(self, C: float) -> CellCosts:
        """Return all costs multiplied."""
        return replace(self, row=C * self.row)

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


def cell_costs(labels: LabelMatrix, class_weight: Any, sample_weight: Any, left_out: NDArray[np.bool_]) -> CellCosts:
    """Combine the weights, in double precision, at C = 1; labels in ``left_out`` cost nothing."""
    negative, positive = _weights_of_classes(labels, class_weight)
    row, cells = _sample_weights(labels, sample_weight)
    return CellCosts(
        row=row,
        positive=np.where(left_out, 0.0, positive),
        negative=np.where(left_out, 0.0, negative),
        cells=None if cells is None else np.ascontiguousarray(cells),
    )


def row_weights(labels: LabelMatrix, costs: CellCosts) -> NDArray[np.float64]:
    """How much each row counts: its weight, or the mean of those of its known cells; 0 where no label is known."""
    cells, missing = costs.cells, labels.missing
    if missing is None:
        return np.asarray(costs.row if cells is None else costs.row * cells.mean(axis=1))
    known = labels.n_labels - np.diff(missing.indptr)
    if cells is None:
        return np.where(known > 0, costs.row, 0.0)
    total = cells.sum(axis=1) - np.asarray(missing.multiply(cells).sum(axis=1)).ravel()
    return np.where(known > 0, costs.row * total / np.maximum(known, 1), 0.0)


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


def _weights_of_classes(labels: LabelMatrix, weight: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    weights: Any = weight if isinstance(weight, Mapping) else list(weight)
    if isinstance(weights, list) and len(weights) != n_labels:
        msg = (
            f"class_weight has {len(weights)} entries for {n_labels} labels. "
            "Give one mapping {0: ..., 1: ...} per label."
        )
        raise InputError(msg)
    return _pairs("class_weight", weights, labels)


def _pairs(subject: str, given: Any, labels: LabelMatrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read a mapping for all labels, or one for each."""
    names = labels.names.tolist()
    if isinstance(given, Mapping):
        negative, positive = _pair(subject, given, labels, names[0])
        return np.full(len(names), negative), np.full(len(names), positive)
    pairs = [_pair(subject, one, labels, name) for name, one in zip(names, given, strict=True)]
    return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


def _pair(subject: str, given: Any, labels: LabelMatrix, name: Any) -> tuple[float, float]:
    if not isinstance(given, Mapping):
        msg = f"{subject} of label {name!r} must be a mapping such as {{0: 1.0, 1: 5.0}}; got {given!r}."
        raise InputError(msg)
    classes: list[Any] = [labels.form.negative, 1]
    if labels.form.kind == "column":
        classes = labels.values.tolist()
        if len(classes) == 1:
            classes = [classes[0]] * 2
    unknown = [key for key in given if key not in classes and key not in (0, 1)]
    if unknown:
        msg = f"{subject} names the class {unknown[0]!r}, but the classes are {classes}."
        raise InputError(msg)
    values = [float(given.get(cls, given.get(default, 1.0))) for cls, default in zip(classes, (0, 1), strict=True)]
    if not all(np.isfinite(values)) or min(values) < 0:
        msg = f"{subject} of label {name!r} must be finite and not negative; got {dict(given)!r}."
        raise InputError(msg)
    return values[0], values[1]


@dataclass(frozen=True)
class CellMargins:
    """Margin of cell (i, l): ``(positive[l] or negative[l]) * cells[i, l]``.

    Attributes
    ----------
    positive, negative : ndarray of shape (n_labels,)
        Margins of the cells where the label is present, or absent.
    cells : ndarray of shape (n_samples, n_labels) or None
        Factors of single cells, 0 where the label is unknown.
    """

    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    cells: NDArray[np.float64] | None = None

    def times(self, cells: NDArray[np.float64] | None) -> CellMargins:
        """Return the margins multiplied cell by cell."""
        if cells is None:
            return self
        return replace(self, cells=np.ascontiguousarray(cells if self.cells is None else self.cells * cells))

    def of(self, rows: Any, positive: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the margins of some rows, of which it is told where labels are present."""
        margins = np.where(positive, self.positive, self.negative)
        return margins if self.cells is None else margins * self.cells[rows]

    def extent(self) -> tuple[float, float]:
        """Smallest and largest of the largest margins of the labels; those without any are left out."""
        largest = np.maximum(self.positive, self.negative)
        if self.cells is not None:
            largest = largest * self.cells.max(axis=0)
        above = largest[largest > 0]
        return (float(above.min()), float(above.max())) if above.size else (1.0, 1.0)

    def native(self) -> _core.Margins:
        """Return the margins for the native core."""
        return _core.Margins(positive=self.positive, negative=self.negative, cells=self.cells)


def unit_margins(n_labels: int) -> CellMargins:
    """Return margins of 1."""
    return CellMargins(np.ones(n_labels), np.ones(n_labels))


def cell_margins(labels: LabelMatrix, margin: Any) -> CellMargins:
    """Read ``margin=``: a number, one per label, a mapping from classes for all or for each label, or one per cell."""
    n, n_labels = labels.n_samples, labels.n_labels
    listed = isinstance(margin, list | tuple) and any(isinstance(m, Mapping) for m in margin)
    if listed and len(margin) != n_labels:
        msg = f"margin has {len(margin)} entries for {n_labels} labels. Give one number or mapping per label."
        raise InputError(msg)
    if listed or isinstance(margin, Mapping):
        each = [m if isinstance(m, Mapping) else {0: m, 1: m} for m in margin] if listed else margin
        negative, positive = _pairs("margin", each, labels)
        _check_margins(np.concatenate([negative, positive]))
        return CellMargins(positive, negative)
    if hasattr(margin, "columns"):
        margin = _aligned_columns(margin, labels.names.tolist())
    try:
        values = np.array(margin, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"margin must be made of numbers, or of mappings such as {{0: 1.0, 1: 2.0}}; got {margin!r:.80}."
        raise InputError(msg) from None
    if values.shape not in ((), (n_labels,), (n, n_labels)):
        msg = (
            f"margin must be a number, {n_labels} numbers or mappings {{0: ..., 1: ...}}, one per label, or a matrix "
            f"of shape ({n}, {n_labels}), one number per cell of Y; got shape {values.shape}. Where rows are split, as "
            "in a cross-validation, give margins by label."
        )
        raise InputError(msg)
    _check_margins(values)
    if values.ndim < 2:
        values = np.ascontiguousarray(np.broadcast_to(values, n_labels))
        return CellMargins(values, values)
    if labels.missing is not None:
        values[labels.missing.toarray().astype(bool)] = 0.0
    return unit_margins(n_labels).times(values)


def _aligned_columns(frame: Any, names: list[Any]) -> Any:
    columns = frame.columns.tolist()
    if len(columns) != len(names) or set(columns) != set(names):
        msg = f"The columns of margin must be the {len(names)} labels, each once; got {columns!r:.80}. Rename them."
        raise InputError(msg)
    return frame[names]


def _check_margins(values: NDArray[np.float64]) -> None:
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        msg = f"margin must be finite and not negative; it goes from {values.min()} to {values.max()}."
        raise InputError(msg)
    above = values[values > 0]
    if above.size and (above.max() > LARGEST or above.min() < 1 / LARGEST):
        msg = (
            f"margin must be 0 or lie between {1 / LARGEST:g} and {LARGEST:g}; it goes from {above.min():.3g} to "
            f"{above.max():.3g}. Scale it, and C with it: margins a m at C are margins m at C / a, with scores a times "
            "as large."
        )
        raise InputError(msg)
