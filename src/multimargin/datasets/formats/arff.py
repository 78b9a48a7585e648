"""Mulan ARFF with an XML file of labels, and MEKA ARFF with the number of labels in the relation name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from multimargin import _core
from multimargin.datasets.dataset import Dataset, Matrix, label_matrix
from multimargin.datasets.formats.columns import (
    Labels,
    Roles,
    assign_roles,
    check_features,
    check_missing,
    column_dataset,
    labels_there,
    names_of_labels,
    positions,
)
from multimargin.datasets.formats.source import FilePath, allowed_bytes, check_size, decoded, naming, read_text
from multimargin.errors import FileFormatError

__all__ = ["arff_columns", "read_arff", "table_dataset"]

Floats = npt.NDArray[np.float64]
Csr = tuple[Floats, npt.NDArray[np.int32], npt.NDArray[np.int64]]
LabelRows = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
FoundRows = tuple[Floats | Csr, LabelRows, LabelRows, list[bytes]]
"""Features, labels, unknown labels and texts, as the native readers return them."""

_MEKA_COUNT = re.compile(r"(?<!\S)-C\s+(-?\d{1,18})(?!\S)")


def read_arff(
    path: FilePath,
    *,
    labels: Labels | None = None,
    need_labels: bool = True,
    ignore: Sequence[str] = (),
    missing: str = "error",
    text: str | None = None,
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    dtype: npt.DTypeLike = np.float64,
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read an ARFF file, dense or sparse, optionally gzipped.

    Parameters
    ----------
    path : path
        The ARFF file.
    labels : path of a Mulan XML file, list of names, int or None, default=None
        Which attributes are labels. A count means the first attributes, a negative one the last. None reads
        the count from ``-C`` in the relation name, as MEKA writes it.
    need_labels : bool, default=True
        Whether a file must have labels. False: one that has none of the label columns is read as features only.
    ignore : list of str, default=()
        Attributes to leave out, such as identifiers.
    missing : {"error", "nan"}, default="error"
        What to do with ``?`` among the features. A ``?`` for a label is an unknown label: NaN in Y.
    text : str or None, default=None
        The attribute whose texts are X; all others that are no labels are left out.
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
        Labels are in the order of the XML file or of the list. A nominal attribute becomes one 0/1 column per
        category, named ``attribute=category``; one declared {0,1} stays a single column. X is CSR if the
        rows are sparse or if most columns come from nominal attributes, else dense. In a sparse row an
        attribute not mentioned is 0 or has its first category, as Weka defines it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.datasets import read_arff
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.arff"
    >>> _ = path.write_text(
    ...     "@relation 'tiny: -C 2'\n@attribute sea {0,1}\n@attribute sun {0,1}\n@attribute blue numeric\n"
    ...     "@data\n1,0,0.9\n1,1,0.4\n"
    ... )
    >>> data = read_arff(path)
    >>> data
    Dataset(tiny.arff: 2 samples, 1 features, 2 labels, cardinality 1.50)
    >>> data.label_names, data.Y.toarray().tolist()
    (('sea', 'sun'), [[1, 0], [1, 1]])
    """
    missing_as_nan = check_missing(missing)
    most = allowed_bytes(max_bytes)
    given = None if labels is None else names_of_labels(labels, most)
    content = read_text(path, most)
    with naming(path, content):
        header = _core.arff_header(content, most)
        names = [decoded(name) for name, *_ in header.attributes]
        stated = _meka_count(path, header, need_labels) if given is None else given
        there = labels_there(stated, names, need_labels)
        roles = assign_roles(path, names, there, ignore, text, feature_names)
        column_of, columns, n_one_hot = _feature_columns(path, header, names, roles, most)
        check_features(path, columns, n_features, feature_names, roles)
        dense = not header.sparse and 2 * n_one_hot <= len(columns)
        label_of = positions(len(names), roles.labels)
        rows = _core.arff_rows(
            content, header, label_of, column_of, len(columns), dense, missing_as_nan, most, roles.text
        )
        return table_dataset(path, rows, names, roles, columns, dtype, missing)


def arff_columns(path: FilePath) -> list[str]:
    """Return the names of the attributes of an ARFF file."""
    most = allowed_bytes(None)
    content = read_text(path, most)
    with naming(path, content):
        return [decoded(name) for name, *_ in _core.arff_header(content, most).attributes]


def _meka_count(path: FilePath, header: _core.Header, need_labels: bool) -> int | list[str]:
    found = _MEKA_COUNT.search(decoded(header.relation))
    if found is None and not need_labels:
        return []
    if found is None:
        neighbours = sorted(str(p) for p in Path(path).parent.glob("*.xml"))
        remedy = f'labels="{neighbours[0]}"' if len(neighbours) == 1 else "labels=<XML file, names or count>"
        msg = f"{path}: expected -C and the number of labels in the relation name, found none; pass {remedy}"
        raise FileFormatError(msg)
    return int(found[1])


def _feature_columns(
    path: FilePath, header: _core.Header, names: list[str], roles: Roles, max_bytes: int
) -> tuple[npt.NDArray[np.int32], list[str], int]:
    """Return the first column of each attribute, the names of the columns, and how many are one-hot."""
    attributes = header.attributes
    column_of = np.full(len(attributes), -1, dtype=np.int32)
    columns: list[str] = []
    n_one_hot = 0
    name_bytes = 0  # each column of an attribute has the name of the attribute in its own
    for k in roles.features:
        _, kind, categories, line = attributes[k]
        column_of[k] = len(columns)
        if kind == _core.Kind.other:
            msg = (
                f"{path}:{line}: expected a numeric or nominal attribute, {names[k]!r} is of another type; "
                f"leave it out with ignore=[{names[k]!r}], or read it as the texts of the rows with text={names[k]!r}"
            )
            raise FileFormatError(msg)
        name_bytes += len(names[k]) * max(len(categories), 1)
        check_size(path, "names of columns", name_bytes, max_bytes)
        if kind == _core.Kind.nominal:
            columns += [f"{names[k]}={decoded(category)}" for category in categories]
            n_one_hot += len(categories)
        else:
            columns.append(names[k])
    for k in roles.labels:
        if attributes[k][1] == _core.Kind.other:
            msg = f"{path}:{attributes[k][3]}: expected the label {names[k]!r} to be declared {{0,1}}"
            raise FileFormatError(msg)
    return column_of, columns, n_one_hot


def table_dataset(
    path: FilePath,
    found: FoundRows,
    names: list[str],
    roles: Roles,
    feature_names: list[str],
    dtype: npt.DTypeLike,
    missing: str,
) -> Dataset:
    """Return the rows that the native reader found as a Dataset."""
    X, labels, unknown, texts = found
    n_samples = len(labels[1]) - 1
    if n_samples == 0:
        msg = f"{path}: expected rows after the header, found none; is the file complete?"
        raise FileFormatError(msg)
    shape = (n_samples, len(feature_names))
    matrix: Matrix = csr_matrix(X, shape=shape) if isinstance(X, tuple) else X.reshape(shape)
    if roles.text >= 0:
        matrix = np.array([decoded(item) for item in texts], dtype=object)
    Y = label_matrix(*labels, len(roles.labels), unknown)
    return column_dataset(path, matrix, Y, names, roles, feature_names, dtype, missing)
