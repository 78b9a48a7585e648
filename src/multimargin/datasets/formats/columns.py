"""Which columns of a table are labels, which are features, and which are left out."""

import warnings
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from multimargin._core import MOST_FEATURES, MOST_LABELS, UNNAMED_FIRST_COLUMN
from multimargin.datasets.dataset import Dataset, Matrix, make_dataset
from multimargin.datasets.formats.source import FilePath, check_size, fitting, read_text
from multimargin.errors import FileFormatError, InputError

__all__ = [
    "Labels",
    "Roles",
    "assign_roles",
    "check_counts",
    "check_features",
    "check_missing",
    "check_width",
    "column_dataset",
    "given_names",
    "labels_there",
    "names_of_labels",
    "numbers_as_names",
    "positions",
    "stated_labels",
]

Labels = FilePath | Sequence[str] | int

INDEX_COLUMNS = (UNNAMED_FIRST_COLUMN, "__index_level_0__")
"""What pandas calls a column that was the index of a table, in CSV and in Parquet."""


@dataclass(frozen=True)
class Roles:
    """What each column is.

    Attributes
    ----------
    labels, features : list of int
        Positions, in the order of Y and of X.
    text : int
        Position of the texts that are X, if they are; else -1.
    ignored : tuple of str
        Names of columns left out because they were asked to be, or number the rows.
    """

    labels: list[int]
    features: list[int]
    text: int
    ignored: tuple[str, ...]


def shortened(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, quoted, for a message."""
    text = ", ".join(repr(name) for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")


def read_label_xml(path: FilePath, max_bytes: int) -> list[str]:
    """Return the label names of a Mulan XML file, parents before children."""
    text = read_text(path, max_bytes)
    try:
        with fitting(path, lambda: 10 * len(text)):
            root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        line = getattr(error, "position", (1, 0))[0]
        msg = f"{path}:{line}: expected an XML file with <label name=...> tags, found bad XML ({error})"
        raise FileFormatError(msg) from None
    names: list[str] = []
    for tag in root.iter():
        if tag.tag.rpartition("}")[2] == "label":
            name = tag.get("name")
            if not name:
                msg = f"{path}: expected a name in every <label> tag, found none in label {len(names) + 1}"
                raise FileFormatError(msg)
            names.append(name)
    if not names:
        msg = f"{path}: expected <label name=...> tags, found none in <{root.tag.rpartition('}')[2]}>"
        raise FileFormatError(msg)
    return names


def names_of_labels(labels: Labels, max_bytes: int) -> list[str] | int:
    """Return the names given as a list or in an XML file, or the count."""
    if isinstance(labels, bool):
        msg = f"labels must be an XML file, a list of names or a count, got {labels!r}"
        raise InputError(msg)
    if isinstance(labels, int):
        return labels
    if isinstance(labels, (str, PathLike)):
        if not str(labels).lower().endswith((".xml", ".xml.gz")):
            msg = f"labels must be a Mulan .xml file, a list of names or a count, got {str(labels)!r}"
            raise InputError(msg)
        names, source = read_label_xml(labels, max_bytes), f"{labels}: "
    else:
        names, source = list(labels), ""
        if not all(isinstance(name, str) for name in names):
            msg = f"labels must be names (text), got {names!r:.80}"
            raise InputError(msg)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        msg = f"{source}labels must have different names, found {shortened(twice)} twice; remove or rename one"
        raise InputError(msg)
    return names


def given_names(labels: Labels | None, max_bytes: int) -> list[str] | None:
    """Return the names of the labels for a format whose labels are numbered."""
    names = None if labels is None else names_of_labels(labels, max_bytes)
    if isinstance(names, int):
        msg = f"labels must be names for this format, got the count {names}; pass n_labels={abs(names)}"
        raise InputError(msg)
    return names


def numbers_as_names(path: FilePath, first: int, count: int, max_bytes: int) -> list[str]:
    """Return the numbers of the labels as their names."""
    check_size(path, f"names of {count} labels", 80 * count, max_bytes)
    return [str(k + first) for k in range(count)]


def labels_there(labels: list[str] | int, names: Sequence[str], need_labels: bool) -> list[str] | int:
    """Return the labels, or none if no column has the name of one and the file need not have them."""
    if need_labels or isinstance(labels, int) or not set(labels).isdisjoint(names):
        return labels
    return []


def stated_labels(
    path: FilePath, labels: list[str] | int | None, names: Sequence[str], need_labels: bool
) -> list[str] | int:
    """Return the labels of a file that does not say itself which columns they are."""
    if labels is None and need_labels:
        msg = (
            f"{path}: expected labels=[...] to say which columns are labels, found none; "
            f"the columns are {shortened(names)}"
        )
        raise InputError(msg)
    return labels_there(labels or [], names, need_labels)


def positions_by_count(path: FilePath, n_columns: int, count: int) -> list[int]:
    """Return the positions of the first ``count`` columns, or of the last ones if it is negative."""
    if not 1 <= abs(count) < n_columns:
        msg = (
            f"{path}: the number of labels must be from 1 to {n_columns - 1} for {n_columns} columns "
            f"(negative: the last columns), got {count}"
        )
        raise FileFormatError(msg)
    return list(range(count)) if count > 0 else list(range(n_columns + count, n_columns))


def assign_roles(
    path: FilePath,
    names: Sequence[str],
    labels: list[str] | int,
    ignore: Sequence[str] = (),
    text: str | None = None,
    feature_names: Sequence[str] | None = None,
) -> Roles:
    """Return what the named columns are: labels and features in the order asked for, or a column of texts; left out.

    Where the features or the text are known, a column to leave out need not be there.
    """
    position = {name: k for k, name in enumerate(names)}
    if isinstance(ignore, str):
        msg = f"ignore must be a list of column names, got the text {ignore!r}; write ignore=[{ignore!r}]"
        raise InputError(msg)
    may_be_absent = feature_names is not None or text is not None
    for what, wanted in (
        ("label", () if isinstance(labels, int) else labels),
        ("ignored column", () if may_be_absent else ignore),
        ("column of texts", () if text is None else (text,)),
    ):
        absent = [name for name in wanted if name not in position]
        if absent:
            msg = (
                f"{path}: every {what} must be a column of the file, found no column {shortened(absent)}; "
                f"the columns are {shortened(names)}"
            )
            raise FileFormatError(msg)
    row_numbers = _row_numbers(path, names, labels, ignore, text)
    if isinstance(labels, int):
        usable = [k for k, name in enumerate(names) if name not in row_numbers]
        at = [usable[k] for k in positions_by_count(path, len(usable), labels)]
    else:
        at = [position[name] for name in labels]
    left_out = list(dict.fromkeys((*ignore, *row_numbers)))
    both = [name for name in (*left_out, *(() if text is None else (text,))) if position.get(name) in at]
    if both:
        msg = f"a column is either a label or ignored, got {shortened(both)} as both; remove it from one of them"
        if text in both:
            msg = f"a column is either a label or the text, got {text!r} as both; choose another one"
        raise InputError(msg)
    if text is not None:
        return Roles(at, [], position[text], tuple(left_out))
    taken = {*at, *(position[name] for name in left_out if name in position)}
    features = [k for k in range(len(names)) if k not in taken]
    if feature_names is not None and {names[k] for k in features} == set(feature_names):
        features = [position[name] for name in feature_names]
    if not features:
        msg = f"{path}: at least one column must be a feature, found labels and ignored columns only"
        raise FileFormatError(msg)
    return Roles(at, features, -1, tuple(left_out))


def _row_numbers(
    path: FilePath, names: Sequence[str], labels: list[str] | int, ignore: Sequence[str], text: str | None
) -> list[str]:
    """Return the column that was the index of a table in pandas, after a word on it unless it is spoken of."""
    found = [name for name in INDEX_COLUMNS if name in names and (name != UNNAMED_FIRST_COLUMN or name == names[0])]
    found = [name for name in found if isinstance(labels, int) or name not in labels]
    spoken_of = {*ignore, *(() if text is None else found)}
    for name in found:
        if name not in spoken_of:
            msg = (
                f"{path}: the column {name!r} is an index that pandas wrote and was left out. Rename it if it is a "
                f"feature; leave it out without this warning by ignore=[{name!r}]."
            )
            warnings.warn(msg, stacklevel=4)
    return [name for name in found if name != text]


def positions(n_columns: int, chosen: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return for each column its place among the chosen ones, or -1."""
    place = np.full(n_columns, -1, dtype=np.int32)
    place[chosen] = np.arange(len(chosen))
    return place


def column_dataset(
    path: FilePath,
    X: Matrix,
    Y: csr_matrix,
    names: Sequence[str],
    roles: Roles,
    feature_names: Sequence[str],
    dtype: npt.DTypeLike,
    missing: str,
    **options: Any,
) -> Dataset:
    """Return a Dataset of named columns, with what reads another file of such columns in the same way."""
    label_names = tuple(names[k] for k in roles.labels)
    how: dict[str, Any] = {"labels": label_names, "ignore": roles.ignored, "missing": missing}
    if roles.text >= 0:
        how["text"] = names[roles.text]
        return make_dataset(path, X, Y, options.get("label_names", label_names), None, dtype, how | options)
    how["feature_names"] = tuple(feature_names)
    return make_dataset(path, X, Y, options.get("label_names", label_names), feature_names, dtype, how | options)


def check_missing(missing: str) -> bool:
    """Return whether missing features become NaN."""
    if missing not in ("error", "nan"):
        msg = f'missing must be "error" or "nan", got {missing!r}'
        raise InputError(msg)
    return missing == "nan"


def check_counts(n_features: int | None, n_labels: int | None) -> None:
    """Refuse numbers of columns that no file of numbered columns can have."""
    for name, value, most in (("n_features", n_features, MOST_FEATURES), ("n_labels", n_labels, MOST_LABELS)):
        if value is not None and (not isinstance(value, (int, np.integer)) or not 0 <= value <= most):
            msg = f"{name} must be a whole number from 0 to {most}, or None to take it from the file, got {value!r}"
            raise InputError(msg)


def check_width(path: FilePath, found: int, n_features: int | None) -> None:
    """Refuse a file whose number of features is not the one asked for."""
    if n_features is not None and found != n_features:
        msg = f"{path}: expected {n_features} features as asked for by n_features, found {found}"
        raise FileFormatError(msg)


def check_features(
    path: FilePath, found: Sequence[str], n_features: int | None, feature_names: Sequence[str] | None, roles: Roles
) -> None:
    """Refuse a file whose features are not the ones asked for; texts are no features yet."""
    if roles.text >= 0:
        return
    wanted, there = set(feature_names or found), set(found)
    for what, some in (
        ("as asked for, found none called", [name for name in feature_names or () if name not in there]),
        ("and no others, as asked for, found", [name for name in found if name not in wanted]),
    ):
        if some:
            msg = (
                f"{path}: expected {len(feature_names or ())} features {what} {shortened(some)}; add the columns, or "
                f"leave others out with ignore=[...]"
            )
            raise FileFormatError(msg)
    check_width(path, len(found), n_features)
    for k, (have, want) in enumerate(zip(found, feature_names or (), strict=False)):
        if have != want:
            msg = f"{path}: expected feature {want!r} as number {k + 1}, found {have!r}; bring the columns in order"
            raise FileFormatError(msg)
