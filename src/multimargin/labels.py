"""Every form of Y, in and out.

Inside the library Y is one thing, a :class:`LabelMatrix`: the cells that are positive, the cells that are unknown,
the names of the labels, and the form the user gave, so that predictions come back in that form. Y is read and held
sparse, and counts, splits, metrics, priors and label kernels work on the sparse form, the latter by blocks of rows.
Dense are the predictions that are asked for in a dense form, the categories of signatures, and what an estimator says
of itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from multimargin.errors import InputError

__all__ = ["LabelForm", "LabelMatrix", "read_labels", "write_labels"]

FORMS = (
    "Y may be a 0/1, boolean or -1/1 array of shape (n_samples, n_labels), a SciPy sparse matrix or array, a DataFrame "
    "with one column per label, a list of label sets, or a 1-D array with two classes; NaN marks an unknown label"
)


KINDS = ("array", "sparse", "frame", "sets", "column")
SPARSE_CONTAINERS = {
    f"{name}_{kind}": getattr(sp, f"{name}_{kind}")
    for kind in ("array", "matrix")
    for name in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
}
FRAME_CONTAINERS = ("", "sparse", "polars")


@dataclass(frozen=True)
class LabelForm:
    """How Y was given, and so how predictions are returned.

    Attributes
    ----------
    kind : {"array", "sparse", "frame", "sets", "column"}
        ``"column"`` is a 1-D y.
    dtype : str
        NumPy dtype of the cells.
    negative : int
        The value of a negative cell, 0 or -1.
    container : str
        For ``"sparse"``, SciPy's class name, such as ``"csr_matrix"``. For ``"frame"``, ``""`` is pandas, ``"sparse"``
        pandas with sparse columns, and ``"polars"``.
    """

    kind: Literal["array", "sparse", "frame", "sets", "column"]
    dtype: str = "int64"
    negative: int = 0
    container: str = ""

    def __post_init__(self) -> None:
        containers = {"sparse": tuple(SPARSE_CONTAINERS), "frame": FRAME_CONTAINERS}.get(self.kind, ("",))
        cells = self.kind == "column" or np.dtype(self.dtype).kind in "biuf"
        if self.kind not in KINDS or not cells or self.negative not in (0, -1) or self.container not in containers:
            msg = f"There is no form of labels such as {self}. {FORMS}."
            raise InputError(msg)


@dataclass(frozen=True)
class LabelMatrix:
    """Labels of ``n_samples`` rows.

    Attributes
    ----------
    positives : csr_array of shape (n_samples, n_labels)
        True where the label is present; canonical, no stored zeros.
    missing : csr_array of shape (n_samples, n_labels) or None
        True where it is unknown whether the label is present.
    names : ndarray of shape (n_labels,)
        Label names, in column order.
    form : LabelForm
        How Y was given.
    values : ndarray
        For a 1-D y, its sorted distinct values; otherwise ``names``.
    """

    positives: sp.csr_array
    missing: sp.csr_array | None
    names: NDArray[Any]
    form: LabelForm
    values: NDArray[Any]

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.positives.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.positives.shape[1])

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of positive and of negative cells per label; unknown cells count in neither."""
        return self._counts

    @cached_property
    def _counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        positive = np.bincount(self.positives.indices, minlength=self.n_labels)
        known = np.full(self.n_labels, self.n_samples)
        if self.missing is not None:
            known = known - np.bincount(self.missing.indices, minlength=self.n_labels)
        return _frozen(positive), _frozen(known - positive)

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Which labels take one value only; those never observed are among them."""
        positive, negative = self.counts()
        return _frozen((positive == 0) | (negative == 0))

    @cached_property
    def signs(self) -> NDArray[np.float64]:
        """1 for every label that is present in a row, -1 for the others: of a constant label, its value."""
        return _frozen(np.where(self.counts()[0] > 0, 1.0, -1.0))

    def part(self, rows: Any) -> LabelMatrix:
        """Return the labels of some of the rows."""
        missing = None if self.missing is None else self.missing[rows]
        return replace(
            self, positives=self.positives[rows], missing=missing if missing is not None and missing.nnz else None
        )


def read_labels(
    Y: Any, *, n_samples: int | None = None, names: Sequence[Any] | NDArray[Any] | None = None, subject: str = "Y"
) -> LabelMatrix:
    """Read labels in any form.

    Parameters
    ----------
    Y : array, sparse matrix or array, pandas or polars DataFrame, list of label sets, 1-D array, or LabelMatrix
        A LabelMatrix is returned as it is, so that a sparse Y can carry the names of its labels into ``fit``.
        Cells are 0/1, booleans or -1/1; NaN is an unknown label. In a sparse Y the stored entries are 1 (or NaN).
        A list of lists is an indicator matrix if it is a rectangular table of 0 and 1, and label sets otherwise; sets
        and tuples are always label sets.
    n_samples : int, optional
        The number of rows X has; another number in Y is an error.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be. By default the columns of a DataFrame, the sorted
        labels of label sets, and 0, 1, 2... otherwise.
    subject : str
        What error messages call Y.

    Returns
    -------
    LabelMatrix

    Examples
    --------
    >>> from multimargin.labels import read_labels
    >>> labels = read_labels([{"sea", "sun"}, {"sun"}, set()])
    >>> labels.names
    array(['sea', 'sun'], dtype=object)
    >>> labels.positives.toarray().astype(int)
    array([[1, 1],
           [0, 1],
           [0, 0]])
    """
    if Y is None:
        msg = f"requires y to be passed, but the target y is None: {subject} holds the labels. {FORMS}."
        raise InputError(msg)
    if isinstance(Y, LabelMatrix):
        labels = Y
    elif sp.issparse(Y):
        labels = _from_sparse(Y, names, subject)
    elif _is_polars(Y):
        labels = _from_polars(Y, names, subject)
    elif hasattr(Y, "columns") and hasattr(Y, "iloc"):
        labels = _from_frame(Y, names, subject)
    elif _is_label_sets(Y):
        labels = _from_sets(Y, names, subject)
    else:
        labels = _from_array(Y, names, subject)
    _check(labels, n_samples, subject)
    return labels


def write_labels(
    positives: sp.csr_array, form: LabelForm, names: NDArray[Any], values: NDArray[Any], index: Any = None
) -> Any:
    """Give predicted labels back in the form in which Y came.

    Parameters
    ----------
    positives : csr_array of shape (n_samples, n_labels)
        True where the label is predicted.
    form, names, values
        As in the :class:`LabelMatrix` of the training labels.
    index : optional
        Row index for a DataFrame.

    Returns
    -------
    ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
    """
    if form.kind == "sets":
        return [set(row) for row in label_tuples(positives, names)]
    if form.kind == "sparse":
        return SPARSE_CONTAINERS[form.container](positives.astype(form.dtype))
    dense = positives.toarray().astype(bool)
    if form.kind == "column":
        return np.asarray(values)[dense[:, 0].astype(int) if len(values) == 2 else np.zeros(len(dense), dtype=int)]
    one = np.ones((), dtype=form.dtype)
    cells = np.where(dense, one, np.asarray(form.negative, dtype=form.dtype))
    return _as_frame(cells, form.container, names, index) if form.kind == "frame" else cells


def _as_frame(cells: NDArray[Any], container: str, names: NDArray[Any], index: Any) -> Any:
    if container == "polars":
        import polars

        return polars.DataFrame(cells, schema=[str(name) for name in names])
    import pandas as pd

    frame = pd.DataFrame(cells, columns=pd.Index(names), index=index)
    return frame.astype(pd.SparseDtype(cells.dtype, cells.dtype.type(0))) if container == "sparse" else frame


def label_tuples(positives: sp.csr_array, names: NDArray[Any]) -> list[tuple[Any, ...]]:
    """Return for each row the tuple of the names of its labels, in column order."""
    return [tuple(names[positives.indices[a:b]].tolist()) for a, b in pairwise(positives.indptr)]


def _is_label_sets(Y: Any) -> bool:
    if isinstance(Y, np.ndarray) and (Y.ndim != 1 or Y.dtype != object):
        return False
    if isinstance(Y, str) or not isinstance(Y, Iterable):
        return False
    rows = list(Y)
    if not any(isinstance(row, (set, frozenset, tuple, list)) for row in rows):
        return False
    if any(isinstance(row, (set, frozenset, tuple)) for row in rows):
        return True
    lengths = {len(row) if isinstance(row, list) else -1 for row in rows}
    if len(lengths) != 1:
        return True
    return not all(isinstance(cell, (int, float, np.number, np.bool_)) for row in rows for cell in row)


def _from_sets(Y: Iterable[Any], names: Any, subject: str) -> LabelMatrix:
    rows: list[Collection[Any]] = []
    for i, row in enumerate(Y):
        if not isinstance(row, (set, frozenset, tuple, list)):
            msg = (
                f"{subject} is a list of label sets, but row {i} is {row!r}. Give every row as a set, tuple or list of "
                "labels; an empty one if the row has none."
            )
            raise InputError(msg)
        rows.append(row)
    present = {label for row in rows for label in row}
    if names is None:
        try:
            ordered = sorted(present)
        except TypeError:
            ordered = sorted(present, key=str)
    else:
        ordered = list(names)
        unknown = present - set(ordered)
        if unknown:
            msg = (
                f"{subject} contains the label {min(unknown, key=str)!r}, which is not one of the {len(ordered)} known "
                "labels. Remove it, or include it in the names."
            )
            raise InputError(msg)
    column = {label: j for j, label in enumerate(ordered)}
    indices = [sorted({column[label] for label in row}) for row in rows]
    offsets = np.cumsum([0, *map(len, indices)])
    flat = np.fromiter((j for row in indices for j in row), dtype=np.int32, count=int(offsets[-1]))
    positives = sp.csr_array((np.ones(len(flat), dtype=bool), flat, offsets), shape=(len(rows), len(ordered)))
    return _labels(positives, None, _as_names(ordered), LabelForm("sets"))


def _from_sparse(Y: Any, names: Any, subject: str) -> LabelMatrix:
    if Y.ndim != 2:
        msg = f"A sparse {subject} must have two dimensions; got {Y.ndim}. {FORMS}."
        raise InputError(msg)
    container = next(name for name, cls in SPARSE_CONTAINERS.items() if isinstance(Y, cls))
    cells = sp.csr_array(Y, copy=True)
    cells.sum_duplicates()
    unknown = np.isnan(cells.data) if cells.data.dtype.kind == "f" else np.zeros(cells.nnz, dtype=bool)
    wrong = ~(unknown | (cells.data == 1) | (cells.data == 0))
    if wrong.any():
        msg = (
            f"The stored entries of a sparse {subject} must be 1 (or NaN for an unknown label); got "
            f"{_some(cells.data[wrong])}. Store the positive labels only."
        )
        raise InputError(msg)
    missing = _with_data(cells, unknown) if unknown.any() else None
    form = LabelForm("sparse", dtype=cells.dtype.name, container=container)
    return _labels(_with_data(cells, cells.data == 1), missing, names, form)


def _is_polars(Y: Any) -> bool:
    return type(Y).__module__.partition(".")[0] == "polars" and type(Y).__name__ in ("DataFrame", "LazyFrame")


def _from_polars(Y: Any, names: Any, subject: str) -> LabelMatrix:
    if hasattr(Y, "collect"):  # a frame that is still to be computed
        Y = Y.collect()
    for name, dtype in Y.schema.items():
        if not (dtype.is_numeric() or str(dtype) == "Boolean"):
            _refuse_column(name, dtype, subject)
    kinds = {str(dtype) for dtype in Y.dtypes}
    columns = _as_names(list(Y.columns)) if names is None else names
    cells = np.column_stack([Y[name].cast(float).to_numpy() for name in Y.columns]) if Y.width else np.empty(Y.shape)
    if kinds == {"Boolean"} and not np.isnan(cells).any():
        dtype = "bool"
    elif len(kinds) == 1 and not np.isnan(cells).any():
        dtype = Y[:, 0].to_numpy().dtype.name
    else:
        dtype = "float64" if np.isnan(cells).any() or any("Float" in kind for kind in kinds) else "int64"
    return _from_cells(cells, columns, "frame", dtype, subject, "polars")


def _refuse_column(name: Any, dtype: Any, subject: str) -> NoReturn:
    msg = (
        f"Column {name!r} of {subject} has dtype {dtype}; label columns hold 0/1, booleans or NaN. Convert the "
        "column, or drop it if it is not a label."
    )
    raise InputError(msg)


def _from_frame(Y: Any, names: Any, subject: str) -> LabelMatrix:
    for name, dtype in Y.dtypes.items():
        if getattr(dtype, "kind", "O") not in "biuf":
            _refuse_column(name, dtype, subject)
    columns = _as_names(list(Y.columns)) if names is None else names
    cells = Y.to_numpy(dtype=np.float64, na_value=np.nan) if Y.shape[1] else np.empty(Y.shape)
    kinds = {dtype.kind for dtype in Y.dtypes}
    integral = kinds <= set("biu")
    nullable_or_float = not integral or bool(np.isnan(cells).any())
    dtype = "float64" if nullable_or_float else "bool" if kinds == {"b"} else "int64"
    sparse = bool(kinds) and all(hasattr(dtype, "fill_value") for dtype in Y.dtypes)
    if kinds and len(set(Y.dtypes)) == 1:
        common = Y.dtypes.iloc[0].subtype if sparse else Y.dtypes.iloc[0]
        dtype = common.name if isinstance(common, np.dtype) else dtype
    return _from_cells(cells, columns, "frame", dtype, subject, "sparse" if sparse else "")


def _from_array(Y: Any, names: Any, subject: str) -> LabelMatrix:
    try:
        cells = np.asarray(Y)
    except ValueError as error:  # ragged nested sequences
        msg = f"{subject} is not a rectangular table: {error}. {FORMS}."
        raise InputError(msg) from None
    if cells.ndim == 1:
        return _from_column(cells, names, subject)
    if cells.ndim != 2:
        msg = f"{subject} must have one or two dimensions; got shape {cells.shape}. {FORMS}."
        raise InputError(msg)
    if cells.dtype.kind not in "biuf":
        msg = (
            f"{subject} has dtype {cells.dtype}, as of object columns or text; its cells must be 0/1, booleans or NaN. "
            "Convert it with Y.astype(float), or give a list of label sets."
        )
        raise InputError(msg)
    return _from_cells(cells, names, "array", cells.dtype.name, subject)


def _from_column(y: NDArray[Any], names: Any, subject: str) -> LabelMatrix:
    unknown = np.zeros(len(y), dtype=bool)
    if y.dtype.kind == "f":
        unknown = np.isnan(y)
    known = y[~unknown]
    if known.dtype.kind == "f" and np.any(np.isinf(known)):
        msg = f"Input {subject} contains infinity. {FORMS}."
        raise InputError(msg)
    if known.dtype.kind == "f" and np.any(known != np.floor(known)):
        kind = type_of_target(known)
        msg = f"Unknown label type: {kind}. A 1-D {subject} holds the two classes of one label. {FORMS}."
        raise InputError(msg)
    try:
        values = np.unique(known)
    except TypeError:
        msg = f"A 1-D {subject} must hold values of one type; got a mixture. {FORMS}."
        raise InputError(msg) from None
    if len(values) > 2:
        msg = (
            f"Only binary classification is supported. The type of the target is {type_of_target(known)}: 1-D "
            f"{subject} has {len(values)} classes ({_some(values)}). For several classes or labels give an indicator "
            "matrix (sklearn.preprocessing.label_binarize) or a list of label sets."
        )
        raise InputError(msg)
    single_negative = len(values) == 1 and values[0] in (0, -1)
    positive = (y == values[-1]) & ~unknown if len(values) and not single_negative else np.zeros(len(y), dtype=bool)
    missing = sp.csr_array(unknown[:, None]) if unknown.any() else None
    form = LabelForm("column", dtype=str(y.dtype))
    one = sp.csr_array(positive[:, None])
    return _labels(one, missing, [0] if names is None else names, form, values=values)


def _from_cells(
    cells: NDArray[Any], names: Any, kind: Any, dtype: str, subject: str, container: str = ""
) -> LabelMatrix:
    positive = cells == 1
    form = LabelForm(kind, dtype, 0, container)
    if np.count_nonzero(cells) == np.count_nonzero(positive):  # 0 and 1 alone
        return _labels(_as_csr(positive), None, names, form)
    unknown = np.isnan(cells) if cells.dtype.kind == "f" else None
    other = ~positive if unknown is None else ~(positive | unknown)
    values = cells[other]
    negative = -1 if values.size and np.all(values == -1) else 0
    if negative == 0 and np.any(values != 0):
        found = _some(np.unique(cells[~np.isnan(cells)] if cells.dtype.kind == "f" else cells))
        rule = (
            "-1/1 and 0/1 must not be mixed. Replace -1 by 0, or by NaN if it means unknown"
            if set(np.unique(values).tolist()) == {-1, 0}
            else "Binarise the values first"
        )
        msg = (
            f"{subject} must be a binary indicator matrix of shape (n_samples, n_labels), with cells 0/1, -1/1, "
            f"booleans or NaN; got values {found}. {rule}."
        )
        raise InputError(msg)
    missing = _as_csr(unknown) if unknown is not None and unknown.any() else None
    return _labels(_as_csr(positive), missing, names, replace(form, negative=negative))


def _as_csr(cells: NDArray[np.bool_]) -> sp.csr_array:
    """Return the true cells; what SciPy makes of them, in less than half of the time."""
    n_samples, n_labels = cells.shape
    found = np.flatnonzero(cells)
    begins = n_labels * np.arange(n_samples + 1)
    offsets = np.searchsorted(found, begins)
    columns = found - np.repeat(begins[:-1], np.diff(offsets))
    index = np.int32 if max(len(found), n_labels) <= np.iinfo(np.int32).max else np.int64
    data = np.ones(len(found), dtype=np.bool_)
    return sp.csr_array((data, columns.astype(index), offsets.astype(index)), shape=cells.shape)


def _labels(
    positives: sp.csr_array, missing: sp.csr_array | None, names: Any, form: LabelForm, values: Any = None
) -> LabelMatrix:
    names = np.arange(positives.shape[1]) if names is None else _as_names(names)
    return LabelMatrix(positives, missing, names, form, names if values is None else values)


def _check(labels: LabelMatrix, n_samples: int | None, subject: str) -> None:
    if n_samples is not None and labels.n_samples != n_samples:
        msg = (
            f"X has {n_samples} rows but {subject} has {labels.n_samples}: inconsistent numbers of samples. Every row "
            f"of X needs its row of {subject}."
        )
        raise InputError(msg)
    if labels.n_samples == 0:
        msg = f"{subject} has no rows (0 samples); at least one is needed."
        raise InputError(msg)
    if labels.n_labels == 0:
        msg = f"{subject} names no label at all: it has shape {labels.positives.shape}. Give at least one label."
        raise InputError(msg)
    if len(labels.names) != labels.n_labels:
        msg = f"{len(labels.names)} label names were given for the {labels.n_labels} columns of {subject}."
        raise InputError(msg)
    seen: set[Any] = set()
    for name in labels.names.tolist():
        if name in seen:
            msg = f"The label name {name!r} occurs twice in {subject}. Give every label a name of its own."
            raise InputError(msg)
        seen.add(name)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, which is shared from now on, as one nobody can write to."""
    array.setflags(write=False)
    return array


def _with_data(cells: sp.csr_array, keep: NDArray[np.bool_]) -> sp.csr_array:
    kept = sp.csr_array((keep, cells.indices.copy(), cells.indptr.copy()), shape=cells.shape)
    kept.eliminate_zeros()
    kept.sort_indices()
    return kept


def _as_names(names: Any) -> NDArray[Any]:
    """Label names as an array: numbers as numbers, anything else as Python objects, never silently turned to text."""
    items = list(names)
    if items and all(isinstance(item, (int, np.integer)) and not isinstance(item, bool) for item in items):
        return np.asarray(items)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _some(values: NDArray[Any], limit: int = 5) -> str:
    distinct = np.unique(values)
    shown = ", ".join(str(v) for v in distinct[:limit].tolist())
    return "{" + shown + (", ..." if len(distinct) > limit else "") + "}"
