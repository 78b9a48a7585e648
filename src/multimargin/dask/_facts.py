"""What all blocks agree on: one reduction over the blocks, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import chdtrc

from multimargin.errors import InputError
from multimargin.estimators import LinearM3L
from multimargin.estimators.predictor import largest_entry
from multimargin.labels import LabelForm, LabelMatrix, read_labels
from multimargin.weights import _sample_weights

__all__ = ["BlockFacts", "Facts", "RemoteLabels", "agreed", "block_facts", "block_labels", "block_rows"]

FEWEST_EXPECTED, RARE = 5.0, 1e-6
"""Rows with a label, or without, from which on a block counts in the test of order; and what is no chance."""


@dataclass(frozen=True)
class BlockFacts:
    """What one block tells of itself; a block without rows says nothing of labels."""

    n_rows: int
    n_features: int = 0
    dtype: str = "float32"
    sparse: bool = False
    n_bytes: int = 0
    largest: float = 0.0
    columns: dict[str, Any] = field(default_factory=dict)
    form: LabelForm | None = None
    names: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    positive: NDArray[np.int64] | None = None
    negative: NDArray[np.int64] | None = None
    weights: tuple[float, float] = (1.0, 1.0)
    weights_of_cells: bool = False


@dataclass(frozen=True)
class Facts:
    """What all blocks together are.

    Attributes
    ----------
    rows : ndarray of shape (n_blocks,)
        Rows of each block.
    n_features : int
    dtype : dtype
        float32 if every block is.
    sparse : bool
    n_bytes : int
        Of the features of all blocks, in that type.
    largest : float
        Largest absolute value of the features.
    columns : dict
        ``n_features_in_`` and, of DataFrames, ``feature_names_in_``.
    labels : RemoteLabels
    weights : tuple of float
        Smallest sample weight above 0, and largest.
    weights_of_cells : bool
        Whether cells have weights of their own.
    shuffled : bool
        Whether label frequencies differ between blocks by no more than chance.
    """

    rows: NDArray[np.int64]
    n_features: int
    dtype: Any
    sparse: bool
    n_bytes: int
    largest: float
    columns: dict[str, Any]
    labels: RemoteLabels
    weights: tuple[float, float]
    weights_of_cells: bool
    shuffled: bool

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return int(self.rows.sum())

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.labels.n_labels


@dataclass(frozen=True)
class RemoteLabels(LabelMatrix):
    """Labels of rows that are elsewhere: names, form and counts."""

    rows: int = 0
    positive: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    negative: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.rows

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of positive and of negative cells per label; unknown cells count in neither."""
        return self.positive, self.negative


def block_facts(block: tuple[Any, Any, Any], name: str) -> BlockFacts:
    """Return what a block tells of itself; runs on a worker."""
    X, y, weight = block
    try:
        if getattr(X, "ndim", 2) == 2 and hasattr(X, "shape") and X.shape[0] == 0:
            return BlockFacts(0, X.shape[1])
        checked, columns = LinearM3L()._read_X(X)
        labels = read_labels(y, n_samples=checked.shape[0])
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        silent = weight is not None and not weight.any()  # a block may be, all blocks may not
        row, cells = _sample_weights(labels, np.ones_like(weight) if silent else weight)
    except ValueError as error:
        msg = f"{name[0].upper()}{name[1:]}: {error}"
        raise InputError(msg) from None
    positive, negative = labels.counts()
    values = checked.data if sp.issparse(checked) else checked
    counted = row if cells is None else cells
    counted = counted[counted > 0]
    return BlockFacts(
        n_rows=checked.shape[0],
        n_features=checked.shape[1],
        dtype=checked.dtype.name,
        sparse=sp.issparse(checked),
        n_bytes=values.nbytes + (4 * values.size + 8 * checked.shape[0] if sp.issparse(checked) else 0),
        largest=largest_entry(checked),
        columns=columns,
        form=labels.form,
        names=labels.names.tolist(),
        values=labels.values.tolist(),
        positive=positive,
        negative=negative,
        weights=(np.inf, 0.0) if silent else (float(counted.min()), float(counted.max())),
        weights_of_cells=cells is not None,
    )


def agreed(found: Sequence[BlockFacts], block_names: Sequence[str]) -> Facts:
    """Put together what the blocks tell; raise InputError naming the block that does not agree with the first one."""
    full = [(facts, name) for facts, name in zip(found, block_names, strict=True) if facts.n_rows]
    if not full:
        msg = "X has no rows (0 samples) in any block; at least one is needed."
        raise InputError(msg)
    first, first_name = full[0]
    for facts, name in full[1:]:
        for subject, ours, theirs in (
            ("features", facts.n_features, first.n_features),
            ("columns", _columns(facts), _columns(first)),
            ("form of labels", _kind(facts), _kind(first)),
            ("labels", _names(facts), _names(first)),
            ("shape of sample_weight", facts.weights_of_cells, first.weights_of_cells),
        ):
            if ours != theirs:
                msg = (
                    f"All blocks must have the same {subject}: those of {name} differ from those of {first_name} "
                    f"({_some(ours)} against {_some(theirs)}). Give every block the same columns in the same order."
                )
                raise InputError(msg)
    dtype = np.dtype(np.float32 if all(facts.dtype == "float32" for facts, _ in full) else np.float64)
    sparse = any(facts.sparse for facts, _ in full)
    rows = np.array([facts.n_rows for facts in found], dtype=np.int64)
    labels, shuffled = _labels(full, int(rows.sum()))
    if not labels.positive.any() and not labels.negative.any():
        msg = "Y holds no known label at all: every cell is NaN. Give at least one known cell."
        raise InputError(msg)
    weights = min(facts.weights[0] for facts, _ in full), max(facts.weights[1] for facts, _ in full)
    if weights[1] == 0.0:
        msg = "sample_weight must not be all zero: there would be nothing to train on. Weight at least one row."
        raise InputError(msg)
    n_bytes = sum(facts.n_bytes * dtype.itemsize // np.dtype(facts.dtype).itemsize for facts, _ in full)
    return Facts(
        rows=rows,
        n_features=first.n_features,
        dtype=dtype,
        sparse=sparse,
        n_bytes=n_bytes,
        largest=max(facts.largest for facts, _ in full),
        columns=first.columns,
        labels=labels,
        weights=weights,
        weights_of_cells=first.weights_of_cells,
        shuffled=shuffled,
    )


def _columns(facts: BlockFacts) -> list[Any]:
    return list(facts.columns.get("feature_names_in_", []))


def _kind(facts: BlockFacts) -> tuple[str, str]:
    assert facts.form is not None
    return facts.form.kind, facts.form.container


def _names(facts: BlockFacts) -> list[Any]:
    """Names that must agree: label sets and classes of a 1-D y may lack some in a block."""
    return [] if _kind(facts)[0] in ("sets", "column") else facts.names


def _some(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _labels(full: Sequence[tuple[BlockFacts, str]], n_rows: int) -> tuple[RemoteLabels, bool]:
    forms = [facts.form for facts, _ in full if facts.form is not None]
    kind = forms[0].kind
    if kind == "sets":
        names = _ordered({name for facts, _ in full for name in facts.names})
        positive, negative = _counts_of_sets(full, names)
    else:
        names = full[0][0].names
        positive = np.array([facts.positive for facts, _ in full])
        negative = np.array([facts.negative for facts, _ in full])
    values = names
    if kind == "column":
        values = _ordered({value for facts, _ in full for value in facts.values})
        if len(values) > 2:
            msg = (
                f"Only binary classification is supported: the blocks of the 1-D Y have the classes {_some(values)}. "
                "For several classes or labels give an indicator matrix or label sets."
            )
            raise InputError(msg)
        positive, negative = _counts_of_classes(full, values)
    form = replace(
        forms[0],
        dtype=forms[0].dtype if kind == "column" else np.result_type(*(form.dtype for form in forms)).name,
        negative=_negative(full),
    )
    total = positive.sum(axis=0), negative.sum(axis=0)
    empty = sp.csr_array((0, len(names)), dtype=bool)
    named = read_labels(sp.csr_array((1, len(names)), dtype=bool), names=names).names
    remote = RemoteLabels(
        positives=empty,
        missing=None,
        names=named,
        form=form,
        values=np.asarray(values) if kind == "column" else named,
        rows=n_rows,
        positive=total[0],
        negative=total[1],
    )
    return remote, _shuffled(positive, negative)


def _negative(full: Sequence[tuple[BlockFacts, str]]) -> int:
    """Return the value of negative cells; a block without any leaves it open."""
    sure = [
        (facts.form.negative, name)
        for facts, name in full
        if facts.form is not None and facts.negative is not None and facts.negative.any()
    ]
    for negative, name in sure[1:]:
        if negative != sure[0][0]:
            msg = (
                f"-1/1 and 0/1 must not be mixed: negative cells are {sure[0][0]} in {sure[0][1]} and {negative} in "
                f"{name}. Replace -1 by 0, or by NaN if it means unknown."
            )
            raise InputError(msg)
    return sure[0][0] if sure else 0


def _ordered(present: set[Any]) -> list[Any]:
    try:
        return sorted(present)
    except TypeError:
        return sorted(present, key=str)


def _counts_of_sets(
    full: Sequence[tuple[BlockFacts, str]], names: list[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    column = {name: j for j, name in enumerate(names)}
    positive = np.zeros((len(full), len(names)), dtype=np.int64)
    for k, (facts, _) in enumerate(full):
        assert facts.positive is not None
        positive[k, [column[name] for name in facts.names]] = facts.positive
    rows = np.array([facts.n_rows for facts, _ in full], dtype=np.int64)
    return positive, rows[:, None] - positive


def _counts_of_classes(
    full: Sequence[tuple[BlockFacts, str]], values: list[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the classes of a 1-D Y, of which a block may have one only."""
    counts = np.zeros((2, len(full), 1), dtype=np.int64)
    for k, (facts, _) in enumerate(full):
        assert facts.positive is not None
        assert facts.negative is not None
        known = int(facts.positive[0] + facts.negative[0])
        if len(facts.values) == 2:
            counts[:, k, 0] = facts.positive[0], facts.negative[0]
        elif facts.values:
            counts[0 if _is_positive(facts.values[0], values) else 1, k, 0] = known
    return counts[0], counts[1]


def _is_positive(value: Any, values: list[Any]) -> bool:
    """Whether a class is the positive one, as ``read_labels`` has it."""
    return bool(value == values[-1] and not (len(values) == 1 and values[0] in (0, -1)))


def _shuffled(positive: NDArray[np.int64], negative: NDArray[np.int64]) -> bool:
    """Whether the counts of labels in blocks are those of rows in random order: a chi-square test over all labels."""
    known = positive + negative
    rate = positive.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    spread = known * rate * (1 - rate)
    enough = spread >= FEWEST_EXPECTED
    terms = np.divide(np.square(positive - known * rate), spread, out=np.zeros_like(spread), where=enough)
    freedom = int(enough.sum() - enough.any(axis=0).sum())
    statistic = float(terms.sum())
    return freedom <= 0 or statistic <= 2 * freedom or bool(chdtrc(freedom, statistic) >= RARE)


def block_rows(X: Any, facts: Facts) -> Any:
    """Features of a block, in the type and form of all; runs on a worker."""
    checked, _ = LinearM3L()._read_X(X)
    checked = checked.astype(facts.dtype, copy=False)
    return sp.csr_matrix(checked) if facts.sparse else checked


def block_labels(y: Any, facts: Facts) -> LabelMatrix:
    """Labels of a block, among those of all; runs on a worker."""
    known = facts.labels
    read = read_labels(y, names=known.names if known.form.kind == "sets" else None)
    positives = read.positives
    if known.form.kind == "column":
        y = np.asarray(y)
        values = known.values.tolist()
        right = (y == values[-1]) if _is_positive(values[-1], values) else np.zeros(len(y), dtype=bool)
        positives = sp.csr_array(right[:, None])
    return LabelMatrix(positives, read.missing, known.names, known.form, known.values)
