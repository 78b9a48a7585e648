"""Blocks of rows as they come, for a linear M3L problem whose rows are in parts: read, checked, described.

The way of a part: a :class:`Block` of rows is read and described by :func:`describe_block`; from the descriptions of
all blocks make_plan (plans.py) makes one plan, which is small and can be sent anywhere; plan and block make a part
(parts.py), which then takes part in rounds (rounds.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.estimators.m3l.linear import LinearM3L
from multimargin.estimators.predictor import largest_entry
from multimargin.kernels import squared_lengths
from multimargin.labels import LabelForm, LabelMatrix, read_labels
from multimargin.weights import CellCosts, cell_costs, row_weights

__all__ = [
    "Block",
    "BlockFacts",
    "aligned_labels",
    "block_weights",
    "describe_block",
    "occurring",
    "read_block",
    "widened",
]


@dataclass(frozen=True)
class Block:
    """Rows as a user gives them.

    Attributes
    ----------
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
    y : labels of the rows, in any form
    sample_weight : array of shape (n_samples,) or (n_samples, n_labels), optional
    name : str
        What error messages call it.
    open_ended : bool
        Whether labels that it does not name are absent from its rows, and features beyond its last one 0, as in a
        LIBSVM file.
    columns : dict, optional
        Where X and y are what :func:`read_block` made of them before, what it said of the columns.
    """

    X: Any
    y: Any
    sample_weight: Any = None
    name: str = "a part"
    open_ended: bool = False
    columns: dict[str, Any] | None = None


@dataclass(frozen=True)
class BlockFacts:
    """What of a block the plan depends on.

    Attributes
    ----------
    name : str
    n_rows, n_features, n_entries : int
    dtype : dtype
    names : ndarray of shape (n_labels,)
        Label names; sorted, of label sets.
    form : LabelForm
    values : ndarray
        For a 1-D y, its distinct values.
    positive, negative : ndarray of shape (n_labels,)
        Cells of either kind.
    columns : dict
        ``feature_names_in_``, if X was a DataFrame.
    features : ndarray
        Those that occur, ascending.
    largest : float
        The largest absolute value of X.
    weights : tuple of float
        Smallest above 0 and largest of ``sample_weight``; 1 without.
    weight, squares : float
        Sum of the weights of the rows, and of the squared lengths times them: by these ``C="scale"`` is measured.
    open_ended : bool
        As of the block.
    """

    name: str
    n_rows: int
    n_features: int
    n_entries: int
    dtype: Any
    names: NDArray[Any]
    form: LabelForm
    values: NDArray[Any]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]
    columns: dict[str, Any]
    features: NDArray[np.int32]
    largest: float
    weights: tuple[float, float]
    weight: float
    squares: float
    open_ended: bool


def read_block(block: Block) -> tuple[Any, LabelMatrix, dict[str, Any]]:
    """Rows and labels of a block, checked, and the names of its columns."""
    n = np.shape(block.X)[0]
    if block.columns is not None:
        return block.X, block.y, block.columns
    if n == 0:
        X = sp.csr_matrix(block.X, dtype=np.float32) if sp.issparse(block.X) else np.asarray(block.X, dtype=np.float32)
        return X, _no_labels(block.y), {"n_features_in_": X.shape[1]}
    try:
        X, columns = LinearM3L()._read_X(block.X)
        return X, read_labels(block.y, n_samples=n), columns
    except ValueError as error:
        msg = f"{block.name}: {error}"
        raise InputError(msg) from error


def describe_block(block: Block) -> BlockFacts:
    """Read a block and say what the plan needs to know of it."""
    X, labels, columns = read_block(block)
    positive, negative = labels.counts()
    weights = (1.0, 1.0)
    if block.sample_weight is not None:
        given = np.asarray(block.sample_weight, dtype=np.float64)
        above = given[given > 0]
        weights = (float(above.min()), float(above.max())) if above.size else (1.0, 1.0)
    counted = row_weights(labels, block_weights(labels, block))
    return BlockFacts(
        name=block.name,
        n_rows=int(X.shape[0]),
        n_features=int(X.shape[1]),
        n_entries=int(X.nnz if sp.issparse(X) else X.size),
        dtype=X.dtype,
        names=labels.names,
        form=labels.form,
        values=labels.values,
        positive=positive,
        negative=negative,
        columns=columns,
        features=occurring(X),
        largest=largest_entry(X),
        weights=weights,
        weight=float(counted.sum()),
        squares=squared_lengths(X, counted),
        open_ended=block.open_ended or labels.form.kind == "sets",
    )


def aligned_labels(labels: LabelMatrix, common: LabelMatrix, name: str) -> LabelMatrix:
    """Labels of a part in the columns of all parts."""
    if labels.n_samples == 0:
        return LabelMatrix(
            sp.csr_array((0, common.n_labels), dtype=bool), None, common.names, common.form, common.values
        )
    positives = labels.positives
    if common.form.kind == "column" and len(labels.values) == 1 and len(common.values) == 2:
        known = np.ones(labels.n_samples, dtype=bool)
        if labels.missing is not None:
            known &= ~labels.missing.toarray().astype(bool)[:, 0]
        positives = sp.csr_array((known & (labels.values[0] == common.values[1]))[:, None])
    elif labels.names.tolist() != common.names.tolist():
        place = {label: j for j, label in enumerate(common.names.tolist())}
        if not set(labels.names.tolist()) <= set(place):
            msg = f"{name}: its labels are not those of the other parts."
            raise InputError(msg)
        at = np.array([place[label] for label in labels.names.tolist()], dtype=np.int32)
        shape = (labels.n_samples, common.n_labels)
        positives = sp.csr_array((positives.data, at[positives.indices], positives.indptr), shape=shape)
    return LabelMatrix(positives, labels.missing, common.names, common.form, common.values)


def block_weights(labels: LabelMatrix, block: Block) -> CellCosts:
    """Return the weights of the rows of a block, or of their cells."""
    every = np.ones(labels.n_labels)
    if labels.n_samples == 0 or block.sample_weight is None:
        return CellCosts(np.ones(labels.n_samples), every, every, None)
    if np.shape(block.sample_weight)[:1] == (labels.n_samples,) and not np.any(block.sample_weight):
        cells = np.zeros((labels.n_samples, labels.n_labels)) if np.ndim(block.sample_weight) == 2 else None
        return CellCosts(np.zeros(labels.n_samples), every, every, cells)
    try:
        return cell_costs(labels, None, block.sample_weight, np.zeros(labels.n_labels, dtype=bool))
    except InputError as error:
        msg = f"{block.name}: {error}"
        raise InputError(msg) from error


def occurring(X: Any) -> NDArray[np.int32]:
    """Return the features that occur, ascending; of dense rows, all."""
    if sp.issparse(X):
        return np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1])).astype(np.int32)
    return np.arange(X.shape[1], dtype=np.int32)


def widened(X: Any, n_features: int) -> Any:
    """Return sparse rows with this many features, those beyond their last one 0."""
    return X if X.shape[1] == n_features else sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], n_features))


def _no_labels(y: Any) -> LabelMatrix:
    if isinstance(y, LabelMatrix):
        return y
    width = np.shape(y)[1] if np.ndim(y) == 2 else 0
    return LabelMatrix(
        sp.csr_array((0, width), dtype=bool), None, np.arange(width), LabelForm("array"), np.arange(width)
    )
