"""Tables with named columns: CSV and Parquet."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from multimargin import _core
from multimargin.datasets.dataset import LABEL_DTYPE, Dataset, make_dataset
from multimargin.datasets.formats.arff import table_dataset
from multimargin.datasets.formats.columns import (
    Labels,
    assign_roles,
    check_features,
    check_missing,
    labels_there,
    names_of_labels,
    shortened,
)
from multimargin.datasets.formats.source import (
    FilePath,
    allowed_bytes,
    check_size,
    decoded,
    fitting,
    naming,
    read_bytes,
    read_text,
)
from multimargin.errors import FileFormatError, InputError

__all__ = ["read_csv", "read_parquet"]


def read_csv(
    path: FilePath,
    *,
    labels: Labels | None = None,
    need_labels: bool = True,
    ignore: Sequence[str] = (),
    missing: str = "error",
    delimiter: str | None = None,
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    dtype: npt.DTypeLike = np.float64,
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read a CSV file with column names in its first line, optionally gzipped. Needs no pandas.

    Parameters
    ----------
    path : path
        The file. Cells are numbers or true/false; label cells are 0 or 1, or true/false.
    labels : list of names, path of a Mulan XML file or int
        Which columns are labels. A count means the first columns, a negative one the last. An empty list
        reads features only.
    need_labels : bool, default=True
        Whether a file must have labels. False: one that has none of the label columns is read as features only.
    ignore : list of str, default=()
        Columns to leave out, such as identifiers; they may hold any text.
    missing : {"error", "nan"}, default="error"
        What to do with empty cells, ``?``, ``NA`` and ``nan`` among the features. A missing label is always
        an error.
    delimiter : str or None, default=None
        One character. None: the one of comma, semicolon and tab that occurs most in the first line.
    n_features : int or None, default=None
        The number of columns that X must have.
    feature_names : list of str or None, default=None
        The names that the columns of X must have, in this order.
    dtype : float64 or float32, default=float64
        Type of X.
    max_bytes : int or None, default=None
        The most memory to take for the content of the file, decompressed, and as much again for the table made from
        it; what needs more is refused before it is taken. None: half of the memory of this machine or container.

    Returns
    -------
    Dataset
        X is dense.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.datasets import read_csv
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.csv"
    >>> _ = path.write_text("id,blue,sea,sun\na,0.9,1,0\nb,0.4,1,1\n")
    >>> data = read_csv(path, labels=["sea", "sun"], ignore=["id"])
    >>> data.feature_names, data.X.tolist(), data.Y.toarray().tolist()
    (('blue',), [[0.9], [0.4]], [[1, 0], [1, 1]])
    """
    missing_as_nan = check_missing(missing)
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '\n\r"'):
        msg = f"delimiter must be one ASCII character, neither a quote nor a line end, got {delimiter!r}"
        raise InputError(msg)
    most = allowed_bytes(max_bytes)
    given = None if labels is None else names_of_labels(labels, most)
    text = read_text(path, most)
    with naming(path, text):
        header = _core.csv_header(text, delimiter or "\0", most)
        names = [decoded(name) for name, *_ in header.attributes]
        roles = assign_roles(path, names, _stated(path, given, names, need_labels), ignore)
        check_features(path, [names[k] for k in roles.features], n_features, feature_names)
        label_of = np.full(len(names), -1, dtype=np.int32)
        label_of[roles.labels] = np.arange(len(roles.labels))
        column_of = np.full(len(names), -1, dtype=np.int32)
        column_of[roles.features] = np.arange(len(roles.features))
        X, Y = _core.csv_rows(text, header, label_of, column_of, len(roles.features), True, missing_as_nan, most)
        return table_dataset(
            path,
            X,
            Y,
            [names[k] for k in roles.labels],
            [names[k] for k in roles.features],
            dtype,
            ignore=tuple(ignore),
            missing=missing,
        )


def read_parquet(
    path: FilePath,
    *,
    labels: Labels | None = None,
    need_labels: bool = True,
    ignore: Sequence[str] = (),
    missing: str = "error",
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    dtype: npt.DTypeLike = np.float64,
    max_bytes: int | None = None,
) -> Dataset:
    """Read a Parquet file. Needs pyarrow: ``pip install "multimargin[tables]"``.

    Parameters
    ----------
    path : path
        The file. Feature columns are numbers or booleans; label columns hold 0 and 1, or booleans.
    labels, need_labels, ignore, n_features, feature_names, dtype, max_bytes
        As in :func:`read_csv`.
    missing : {"error", "nan"}, default="error"
        What to do with nulls and NaN among the features. A missing label is always an error.

    Returns
    -------
    Dataset
        X is dense.
    """
    missing_as_nan = check_missing(missing)
    most = allowed_bytes(max_bytes)
    given = None if labels is None else names_of_labels(labels, most)
    file = _parquet_file(path, most)
    names: list[str] = list(file.schema_arrow.names)
    if len(set(names)) < len(names):
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        msg = f"{path}: expected different names for all columns, found {shortened(twice)} twice; rename one"
        raise FileFormatError(msg)
    roles = assign_roles(path, names, _stated(path, given, names, need_labels), ignore)
    label_names, columns = [names[k] for k in roles.labels], [names[k] for k in roles.features]
    check_features(path, columns, n_features, feature_names)
    needed = 8 * file.metadata.num_rows * (len(columns) + len(label_names))
    check_size(path, "a table", needed, most)
    with fitting(path, lambda: needed):
        table = _parquet_table(path, file, [*columns, *label_names])
        X = np.empty((table.num_rows, len(columns)), dtype=dtype)
        for j, name in enumerate(columns):
            X[:, j] = _parquet_column(path, name, table.column(name), missing_as_nan, X.dtype)
        Y = np.empty((table.num_rows, len(label_names)), dtype=bool)
        for j, name in enumerate(label_names):
            column = _parquet_column(path, name, table.column(name), False, np.dtype(np.float64))
            wrong = np.flatnonzero((column != 0) & (column != 1))
            if wrong.size:
                row = wrong[0]
                msg = f"{path}: expected 0 or 1 in label column {name!r}, found {column[row]:g} in row {row + 1}"
                raise FileFormatError(msg)
            Y[:, j] = column
        return make_dataset(
            path,
            X,
            csr_matrix(Y, dtype=LABEL_DTYPE),
            label_names,
            columns,
            dtype,
            {
                "labels": tuple(label_names),
                "feature_names": tuple(columns),
                "ignore": tuple(ignore),
                "missing": missing,
            },
        )


def _stated(path: FilePath, labels: list[str] | int | None, names: list[str], need_labels: bool) -> list[str] | int:
    if labels is None and need_labels:
        msg = (
            f"{path}: expected labels=[...] to say which columns are labels, found none; "
            f"the columns are {shortened(names)}"
        )
        raise InputError(msg)
    return labels_there(labels or [], names, need_labels)


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        msg = 'reading Parquet needs pyarrow, which is not installed; run: pip install "multimargin[tables]"'
        raise InputError(msg) from None
    return pyarrow, pyarrow.parquet


@contextmanager
def _undamaged(path: FilePath) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # a damaged file raises nearly anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = f"{path}: expected a Parquet file, found something else or a damaged one ({reason})"
        raise FileFormatError(msg) from None


def _parquet_file(path: FilePath, max_bytes: int) -> Any:
    _, parquet = _pyarrow()
    data = read_bytes(path, max_bytes)
    with fitting(path, lambda: 2 * len(data)), _undamaged(path):
        file = parquet.ParquetFile(io.BytesIO(data))
        file.schema_arrow.names  # noqa: B018 - found to be damaged only when it is asked for
        return file


def _parquet_table(path: FilePath, file: Any, columns: list[str]) -> Any:
    """Read the columns asked for, after a look at their types."""
    pyarrow, _ = _pyarrow()
    test = pyarrow.types
    for name in columns:
        kind = file.schema_arrow.field(name).type
        if not (test.is_integer(kind) or test.is_floating(kind) or test.is_boolean(kind) or test.is_decimal(kind)):
            msg = (
                f"{path}: expected numbers in column {name!r}, found the type {kind}; "
                f"encode it, or leave it out with ignore=[{name!r}]"
            )
            raise FileFormatError(msg)
    with _undamaged(path):
        table = file.read(columns=columns)
    if table.num_rows == 0:
        msg = f"{path}: expected rows, found none; is the file complete?"
        raise FileFormatError(msg)
    if table.num_rows != file.metadata.num_rows:
        msg = f"{path}: expected {file.metadata.num_rows} rows as the file states, found {table.num_rows}"
        raise FileFormatError(msg)
    return table


def _parquet_column(
    path: FilePath, name: str, column: Any, missing_as_nan: bool, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    pyarrow, _ = _pyarrow()
    with _undamaged(path), np.errstate(over="ignore"):
        values = column.cast(pyarrow.float64(), safe=False).to_numpy()
        converted: npt.NDArray[Any] = values.astype(dtype)
    wrong = np.flatnonzero(np.isinf(converted) if missing_as_nan else ~np.isfinite(converted))
    if wrong.size:
        row = wrong[0]
        finite = f"{values[row]:g}, which {dtype} cannot hold,"
        found = "a missing value" if np.isnan(values[row]) else "an infinite value" if np.isinf(values[row]) else finite
        msg = f"{path}: expected a finite number in column {name!r}, found {found} in row {row + 1}"
        if np.isnan(values[row]):
            msg += '; pass missing="nan" to read missing features as NaN'
        raise FileFormatError(msg)
    return converted
