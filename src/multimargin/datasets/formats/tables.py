"""Tables with named columns: CSV and Parquet."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from multimargin import _core
from multimargin.datasets.dataset import Dataset
from multimargin.datasets.formats.arff import table_dataset
from multimargin.datasets.formats.columns import (
    Labels,
    assign_roles,
    check_features,
    check_missing,
    column_dataset,
    names_of_labels,
    positions,
    shortened,
    stated_labels,
)
from multimargin.datasets.formats.label_cells import read_label_cells
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

__all__ = ["csv_columns", "parquet_columns", "read_csv", "read_parquet"]


def read_csv(
    path: FilePath,
    *,
    labels: Labels | None = None,
    need_labels: bool = True,
    ignore: Sequence[str] = (),
    missing: str = "error",
    text: str | None = None,
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
        The file. Cells are numbers or true/false; label cells are 0 or 1, true/false, yes/no or Y/N, or empty where the
        label is unknown. Where columns are not separated by commas, numbers may have a decimal comma. A first column
        without a name, as pandas writes its index, is left out, with a warning.
    labels : list of names, path of a Mulan XML file or int
        Which columns are labels. A count means the first columns, a negative one the last. An empty list
        reads features only.
    need_labels : bool, default=True
        Whether a file must have labels. False: one that has none of the label columns is read as features only.
    ignore : list of str, default=()
        Columns to leave out, such as identifiers; they may hold any text.
    missing : {"error", "nan"}, default="error"
        What to do with empty cells, ``?``, ``NA`` and ``nan`` among the features. Among the labels they are unknown
        labels: NaN in Y.
    text : str or None, default=None
        The column whose texts are X; all others that are no labels are left out.
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
        X is dense, or an array of texts.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.datasets import read_csv
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.csv"
    >>> _ = path.write_text("id,blue,sea,sun\na,0.9,1,0\nb,0.4,1,1\n")
    >>> data = read_csv(path, labels=["sea", "sun"], ignore=["id"])
    >>> data.feature_names, data.X.tolist(), data.Y.toarray().tolist()
    (('blue',), [[0.9], [0.4]], [[1, 0], [1, 1]])

    Labels that are not known:

    >>> _ = path.write_text("blue,sea,sun\n0.9,yes,\n0.4,no,yes\n")
    >>> read_csv(path, labels=["sea", "sun"]).Y.toarray().tolist()
    [[1.0, nan], [0.0, 1.0]]
    """
    missing_as_nan = check_missing(missing)
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '\n\r"'):
        msg = f"delimiter must be one ASCII character, neither a quote nor a line end, got {delimiter!r}"
        raise InputError(msg)
    most = allowed_bytes(max_bytes)
    given = None if labels is None else names_of_labels(labels, most)
    content = read_text(path, most)
    with naming(path, content):
        header = _core.csv_header(content, delimiter or "\0", most)
        names = [decoded(name) for name, *_ in header.attributes]
        roles = assign_roles(path, names, stated_labels(path, given, names, need_labels), ignore, text, feature_names)
        columns = [names[k] for k in roles.features]
        check_features(path, columns, n_features, feature_names, roles)
        label_of, column_of = positions(len(names), roles.labels), positions(len(names), roles.features)
        rows = _core.csv_rows(
            content, header, label_of, column_of, len(columns), True, missing_as_nan, most, roles.text
        )
        return table_dataset(path, rows, names, roles, columns, dtype, missing)


def csv_columns(path: FilePath) -> list[str]:
    """Return the names of the columns of a CSV file."""
    most = allowed_bytes(None)
    content = read_text(path, most)
    with naming(path, content):
        return [decoded(name) for name, *_ in _core.csv_header(content, "\0", most).attributes]


def parquet_columns(path: FilePath) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    return list(_parquet_file(path, allowed_bytes(None)).schema_arrow.names)


def read_parquet(
    path: FilePath,
    *,
    labels: Labels | None = None,
    need_labels: bool = True,
    ignore: Sequence[str] = (),
    missing: str = "error",
    text: str | None = None,
    label_names: Sequence[str] | None = None,
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    dtype: npt.DTypeLike = np.float64,
    max_bytes: int | None = None,
) -> Dataset:
    """Read a Parquet file. Needs pyarrow: ``pip install "multimargin[tables]"``.

    Parameters
    ----------
    path : path
        The file. Feature columns are numbers or booleans; label columns hold 0 and 1, booleans, or "yes" and "no", and
        null or NaN where the label is unknown. One label column alone may hold lists of labels.
    labels, need_labels, ignore, text, n_features, feature_names, dtype, max_bytes
        As in :func:`read_csv`.
    missing : {"error", "nan"}, default="error"
        What to do with nulls and NaN among the features.
    label_names : list of str or None, default=None
        Of a column of lists: the labels there may be. None: those that occur, sorted.

    Returns
    -------
    Dataset
        X is dense, or an array of texts.
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
    roles = assign_roles(path, names, stated_labels(path, given, names, need_labels), ignore, text, feature_names)
    at, columns = [names[k] for k in roles.labels], [names[k] for k in roles.features]
    check_features(path, columns, n_features, feature_names, roles)
    needed = 8 * file.metadata.num_rows * (len(columns) + len(at))
    check_size(path, "a table", needed, most)
    with fitting(path, lambda: needed):
        table = _parquet_table(path, file, columns, at, text)
        X = np.empty((table.num_rows, len(columns)), dtype=dtype)
        for j, name in enumerate(columns):
            X[:, j] = _parquet_column(path, name, table.column(name), missing_as_nan, X.dtype)
        if text is not None:
            cells = _parquet_cells(path, table.column(text))
            X = np.array(["" if item is None else str(item) for item in cells], dtype=object)
        cells = [_parquet_cells(path, table.column(name)) for name in at]
        Y, found = read_label_cells(path, at, cells, table.num_rows, label_names)
        return column_dataset(path, X, Y, names, roles, columns, dtype, missing, **found)


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


def _is_list(kind: Any) -> bool:
    test = _pyarrow()[0].types
    return bool(test.is_list(kind) or test.is_large_list(kind))


def _is_text(kind: Any) -> bool:
    test = _pyarrow()[0].types
    if test.is_dictionary(kind):
        kind = kind.value_type
    return bool(test.is_string(kind) or test.is_large_string(kind))


def _is_numeric(kind: Any) -> bool:
    test = _pyarrow()[0].types
    return bool(test.is_integer(kind) or test.is_floating(kind) or test.is_boolean(kind) or test.is_decimal(kind))


def _parquet_table(path: FilePath, file: Any, columns: list[str], labels: list[str], text: str | None) -> Any:
    """Read the columns asked for, after a look at their types."""
    texts = [] if text is None else [text]
    for names, expected, fits in (
        (columns, "numbers", _is_numeric),
        (labels, "0 and 1 or lists of labels", lambda kind: _is_numeric(kind) or _is_text(kind) or _is_list(kind)),
        (texts, "texts", lambda kind: _is_text(kind) or _pyarrow()[0].types.is_integer(kind)),
    ):
        for name in names:
            kind = file.schema_arrow.field(name).type
            if not fits(kind):
                msg = (
                    f"{path}: expected {expected} in column {name!r}, found the type {kind}; "
                    f"encode it, or leave it out with ignore=[{name!r}]"
                )
                raise FileFormatError(msg)
    columns = [*columns, *labels, *texts]
    with _undamaged(path):
        table = file.read(columns=columns)
    if table.num_rows == 0:
        msg = f"{path}: expected rows, found none; is the file complete?"
        raise FileFormatError(msg)
    if table.num_rows != file.metadata.num_rows:
        msg = f"{path}: expected {file.metadata.num_rows} rows as the file states, found {table.num_rows}"
        raise FileFormatError(msg)
    return table


def _parquet_cells(path: FilePath, column: Any) -> list[Any]:
    """Return cells as objects of Python."""
    pyarrow, _ = _pyarrow()
    if pyarrow.types.is_decimal(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    with _undamaged(path):
        return list(column.to_pylist())


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
