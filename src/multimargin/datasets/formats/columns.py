"""Which columns of a table are labels, which are features, and which are left out."""

import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np

from multimargin._core import MOST_FEATURES, MOST_LABELS
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
    "given_names",
    "labels_there",
    "names_of_labels",
    "numbers_as_names",
]

Labels = FilePath | Sequence[str] | int


@dataclass(frozen=True)
class Roles:
    """Positions of the labels, in the order of Y, and of the features, in the order of X."""

    labels: list[int]
    features: list[int]


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


def positions_by_count(path: FilePath, n_columns: int, count: int) -> list[int]:
    """Return the positions of the first ``count`` columns, or of the last ones if it is negative."""
    if not 1 <= abs(count) < n_columns:
        msg = (
            f"{path}: the number of labels must be from 1 to {n_columns - 1} for {n_columns} columns "
            f"(negative: the last columns), got {count}"
        )
        raise FileFormatError(msg)
    return list(range(count)) if count > 0 else list(range(n_columns + count, n_columns))


def assign_roles(path: FilePath, names: Sequence[str], labels: list[str] | int, ignore: Sequence[str]) -> Roles:
    """Return where labels and features are among the named columns, in the order asked for."""
    position = {name: k for k, name in enumerate(names)}
    if isinstance(ignore, str):
        msg = f"ignore must be a list of column names, got the text {ignore!r}; write ignore=[{ignore!r}]"
        raise InputError(msg)
    wanted = [] if isinstance(labels, int) else labels
    for what, absent in (
        ("label", [n for n in wanted if n not in position]),
        ("ignored column", [n for n in ignore if n not in position]),
    ):
        if absent:
            msg = f"{path}: every {what} must be a column of the file, found no column {shortened(absent)}"
            raise FileFormatError(msg)
    if isinstance(labels, int):
        at = positions_by_count(path, len(names), labels)
    else:
        at = [position[name] for name in labels]
    taken = set(at)
    both = [n for n in ignore if position[n] in taken]
    if both:
        msg = f"a column is either a label or ignored, got {shortened(both)} as both; remove it from one of them"
        raise InputError(msg)
    taken.update(position[n] for n in ignore)
    features = [k for k in range(len(names)) if k not in taken]
    if not features:
        msg = f"{path}: at least one column must be a feature, found labels and ignored columns only"
        raise FileFormatError(msg)
    return Roles(at, features)


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
    path: FilePath, found: Sequence[str], n_features: int | None, feature_names: Sequence[str] | None
) -> None:
    """Refuse a file whose features are not the ones asked for."""
    check_width(path, len(found), len(feature_names) if n_features is None and feature_names else n_features)
    for k, (have, want) in enumerate(zip(found, feature_names or (), strict=False)):
        if have != want:
            msg = f"{path}: expected feature {want!r} as number {k + 1}, found {have!r}; bring the columns in order"
            raise FileFormatError(msg)
