"""Labels of tables whose cells have types: answers, 0/1 or yes/no, one column per label; or lists of labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from multimargin.datasets.dataset import LABEL_DTYPE, label_matrix
from multimargin.datasets.formats.source import FilePath
from multimargin.errors import FileFormatError

__all__ = ["label_answers", "label_lists", "stacked_answers"]

ANSWERS = {"1": 1.0, "true": 1.0, "yes": 1.0, "y": 1.0, "0": 0.0, "false": 0.0, "no": 0.0, "n": 0.0}
UNKNOWN = ("", "?", "na", "nan")


def label_answers(path: FilePath, name: str, cells: Iterable[Any]) -> list[float]:
    """Return a column of one label as 0, 1 and NaN where it is unknown."""
    return [_answer(path, name, cell, row) for row, cell in enumerate(cells, start=1)]


def _answer(path: FilePath, name: str, cell: Any, row: int) -> float:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return math.nan
    if isinstance(cell, str):
        word = cell.strip().lower()
        if word in ANSWERS or word in UNKNOWN:
            return ANSWERS.get(word, math.nan)
    elif isinstance(cell, bool | int | float) and cell in (0, 1):
        return float(cell)
    remedy = f"make a column of 0 and 1 for each value, or leave the column out with ignore=[{name!r}]"
    if cell == -1:
        remedy = "write 0 for a label that is absent, and null if it is unknown"
    elif isinstance(cell, list):
        remedy = "a column of label lists must be the only label column"
    msg = f"{path}: expected 0 or 1, or no or yes, for label {name!r}, found {cell!r:.40} in row {row}; {remedy}"
    raise FileFormatError(msg)


def stacked_answers(n_rows: int, columns: Sequence[Sequence[float]]) -> csr_matrix:
    """Return Y of columns of 0, 1 and NaN."""
    cells = np.array(columns, dtype=np.float64).reshape(len(columns), n_rows).T
    return csr_matrix(cells, dtype=np.float64 if np.isnan(cells).any() else LABEL_DTYPE)


def label_lists(
    path: FilePath, name: str, cells: Sequence[Any], label_names: Sequence[str] | None
) -> tuple[csr_matrix, list[str]]:
    """Return Y and the names of the labels of a column of lists; in a row without a list all labels are unknown."""
    rows: list[list[str]] = []
    for row, cell in enumerate(cells, start=1):
        items = [] if cell is None else cell
        if not isinstance(items, list) or not all(isinstance(item, str | int) for item in items):
            msg = f"{path}: expected a list of labels in {name!r}, found {cell!r:.40} in row {row}; write [] for none"
            raise FileFormatError(msg)
        rows.append([str(item) for item in items])
    present = {label for items in rows for label in items}
    names = sorted(present) if label_names is None else list(label_names)
    if strange := sorted(present - set(names)):
        msg = f"{path}: every label in {name!r} must be one of the {len(names)} known ones, found {strange[0]!r}"
        raise FileFormatError(msg)
    if not names:
        msg = f"{path}: expected labels in the lists of {name!r}, found none in any row"
        raise FileFormatError(msg)
    at = {label: k for k, label in enumerate(names)}
    lists = [sorted({at[label] for label in items}) for items in rows]
    open_rows = [range(len(names)) if cell is None else () for cell in cells]
    return label_matrix(*_cells(lists), len(names), _cells(open_rows)), names


def _cells(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Return columns and offsets of the cells of each row."""
    offsets = np.cumsum([0, *map(len, rows)])
    return np.fromiter((k for row in rows for k in row), np.int32, count=int(offsets[-1])), offsets
