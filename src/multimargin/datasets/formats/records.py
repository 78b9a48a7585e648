"""Records in JSON: one object per row, in a list or one to a line."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from multimargin.datasets.dataset import Dataset
from multimargin.datasets.formats.columns import (
    Labels,
    Roles,
    assign_roles,
    check_features,
    check_missing,
    column_dataset,
    names_of_labels,
    stated_labels,
)
from multimargin.datasets.formats.label_cells import read_label_cells
from multimargin.datasets.formats.source import FilePath, allowed_bytes, check_size, fitting, read_text
from multimargin.errors import FileFormatError

__all__ = ["json_columns", "read_json"]

BYTES_PER_LETTER = 30
"""What records take at most for each letter of their text: an empty list is three letters and some eighty bytes."""

AS_RECORDS = (
    "write one object per row, in a list or one to a line, such as pandas' frame.to_json(path, orient='records')"
)


def read_json(
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
    r"""Read records in JSON: a list of objects (.json), or one object to a line (.jsonl), optionally gzipped.

    Parameters
    ----------
    path : path
        The file. Keys are columns, in the order in which they first occur; what a record lacks, or has as null, is
        missing.
    labels : list of names, path of a Mulan XML file or int
        Which keys are labels, with values 0 and 1, true and false, or "yes" and "no", null if unknown; or the one key
        whose values are lists of labels.
    label_names : list of str or None, default=None
        Of a key with lists: the labels there may be. None: those that occur, sorted.
    need_labels, ignore, missing, text, n_features, feature_names, dtype, max_bytes
        As in :func:`read_csv`.

    Returns
    -------
    Dataset
        X is dense, or an array of texts.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.datasets import read_json
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.jsonl"
    >>> _ = path.write_text('{"said": "blue waves", "tags": ["sea", "sun"]}\n{"said": "fog", "tags": []}\n')
    >>> data = read_json(path, labels=["tags"], text="said")
    >>> data.X.tolist(), data.label_names, data.Y.toarray().tolist()
    (['blue waves', 'fog'], ('sea', 'sun'), [[1, 1], [0, 0]])
    """
    missing_as_nan = check_missing(missing)
    most = allowed_bytes(max_bytes)
    given = None if labels is None else names_of_labels(labels, most)
    content = read_text(path, most)
    with fitting(path, lambda: BYTES_PER_LETTER * len(content)):
        check_size(path, "JSON records", BYTES_PER_LETTER * len(content), most)
        records = _records(path, content)
        names = _keys(records)
        roles = assign_roles(path, names, stated_labels(path, given, names, need_labels), ignore, text, feature_names)
        columns = [names[k] for k in roles.features]
        check_features(path, columns, n_features, feature_names, roles)
        check_size(path, "a table", 8 * len(records) * (len(columns) + len(roles.labels)), most)
        X = _features(path, records, names, roles, missing_as_nan)
        at = [names[k] for k in roles.labels]
        cells = [[record.get(name) for record in records] for name in at]
        Y, found = read_label_cells(path, at, cells, len(records), label_names)
        return column_dataset(path, X, Y, names, roles, columns, dtype, missing, **found)


def json_columns(path: FilePath) -> list[str]:
    """Return the keys of the records of a file, in the order in which they first occur."""
    content = read_text(path, allowed_bytes(None))
    with fitting(path, lambda: BYTES_PER_LETTER * len(content)):
        return _keys(_records(path, content))


def _keys(records: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for record in records for key in record))


def _records(path: FilePath, content: bytes) -> list[dict[str, Any]]:
    start = content.lstrip()[:1]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        msg = f"{path}: expected JSON in UTF-8, found other bytes; save the file as UTF-8"
        raise FileFormatError(msg) from None
    if start == b"[":
        found = _parsed(path, text, 0)
    else:
        lines = enumerate(text.split("\n"), start=1)
        found = [_parsed(path, line, number) for number, line in lines if line.strip()]
    for row, record in enumerate(found, start=1):
        if not isinstance(record, dict):
            msg = f"{path}: expected an object {{...}} as record {row}, found {record!r:.40}; {AS_RECORDS}"
            raise FileFormatError(msg)
    if not found:
        msg = f"{path}: expected records, found none; is the file complete?"
        raise FileFormatError(msg)
    if len(found) == 1 and any(isinstance(value, dict) for value in found[0].values()):
        msg = f"{path}: expected records, found one object of columns; {AS_RECORDS}"
        raise FileFormatError(msg)
    return list(found)


def _parsed(path: FilePath, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        at = line or getattr(error, "lineno", 1)
        msg = f"{path}:{at}: expected records in JSON, found something else ({error}); {AS_RECORDS}"
        raise FileFormatError(msg) from None


def _features(
    path: FilePath, records: list[dict[str, Any]], names: list[str], roles: Roles, missing_as_nan: bool
) -> npt.NDArray[Any]:
    if roles.text >= 0:
        return np.array([_text(path, names[roles.text], *pair) for pair in enumerate(records, start=1)], dtype=object)
    X = np.empty((len(records), len(roles.features)))
    for j, name in enumerate(names[k] for k in roles.features):
        for row, record in enumerate(records):
            X[row, j] = _number(path, name, record.get(name), row + 1, missing_as_nan)
    return X


def _text(path: FilePath, name: str, row: int, record: dict[str, Any]) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):  # an identifier
        return str(value)
    if not isinstance(value, str):
        msg = f"{path}: expected a text in {name!r}, found {value!r:.40} in record {row}"
        raise FileFormatError(msg)
    return value


def _number(path: FilePath, name: str, value: Any, row: int, missing_as_nan: bool) -> float:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        if missing_as_nan:
            return math.nan
        msg = (
            f"{path}: expected a number in {name!r}, found a missing value in record {row}; "
            'pass missing="nan" to read missing features as NaN'
        )
        raise FileFormatError(msg)
    if isinstance(value, bool | int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    msg = (
        f"{path}: expected a finite number in {name!r}, found {value!r:.40} in record {row}; encode text as numbers, "
        f"or leave the column out with ignore=[{name!r}]"
    )
    raise FileFormatError(msg)
