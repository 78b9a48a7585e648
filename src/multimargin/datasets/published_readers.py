"""Data sets as their authors publish them, for readers who have the files: they may not be passed on.

A reader takes the files in the order of the catalogue and the type of X, as those of :mod:`catalogue_readers` do.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.io import loadmat
from scipy.sparse import csr_matrix, issparse, vstack

from multimargin.datasets.dataset import LABEL_DTYPE, Dataset
from multimargin.datasets.formats import column_names, read_csv, read_libsvm
from multimargin.datasets.formats.source import read_bytes, read_text, unpacked_name
from multimargin.errors import FileFormatError

__all__ = ["read_apascal", "read_fmri", "read_inria", "read_libsvm_parts"]

VECTORS: dict[str, tuple[str, str]] = {
    ".hvecs": ("<u2", "<u2"),
    ".hvecs32": ("<u4", "<u4"),
    ".fvec": ("<u4", "<f4"),
}
"""Files of vectors: type of the length before each vector, and of its numbers."""

BEFORE_ATTRIBUTES = 6
"""Words of a line before the attributes of an object: image, category, and the four numbers of its box."""


def read_libsvm_parts(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read a training file and the files of the test part, which may have features and labels of their own."""
    train = read_libsvm(files[0], dtype=dtype)
    known = {**train.options, "n_features": None, "n_labels": None}
    parts = [read_libsvm(file, dtype=dtype, **known) for file in files[1:]]
    widest = max([train, *parts], key=lambda part: part.Y.shape[1])
    n_features = max(part.X.shape[1] for part in (train, *parts))
    for part in (train, *parts):
        part.X.resize(part.X.shape[0], n_features)
        part.Y.resize(part.Y.shape[0], len(widest.label_names))
    return Dataset(
        X_train=train.X,
        Y_train=train.Y,
        X_test=vstack([part.X for part in parts], format="csr"),
        Y_test=vstack([part.Y for part in parts], format="csr"),
        label_names=widest.label_names,
        feature_names=None,
    )


def read_vectors(file: Path) -> npt.NDArray[Any]:
    """Read a file of vectors, each with its length before it: the descriptors of INRIA."""
    content = read_bytes(file)
    head, cell = (np.dtype(name) for name in VECTORS[Path(unpacked_name(file)).suffix])
    length = int(np.frombuffer(content, head, count=1)[0]) if len(content) >= head.itemsize else 0
    bytes_of_row = head.itemsize + length * cell.itemsize
    if not length or len(content) % bytes_of_row:
        msg = f"{file}: expected vectors of {length} numbers, found {len(content)} bytes; copy the file again"
        raise FileFormatError(msg)
    table = np.frombuffer(content, [("length", head), ("values", cell, (length,))])
    if (table["length"] != length).any():
        k = int(np.flatnonzero(table["length"] != length)[0])
        msg = f"{file}: expected vectors of {length} numbers, found one of {table['length'][k]} as number {k + 1}"
        raise FileFormatError(msg)
    return np.asarray(table["values"])


def read_inria(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read descriptors and labels of the training and of the test part, and the names of the labels."""
    *_, names_file = files
    names = _lines(names_file)
    entries: dict[str, Any] = {}
    for split, features, labels in (("train", files[0], files[1]), ("test", files[2], files[3])):
        X = read_vectors(features)
        marks = read_vectors(labels) if ".hvecs" in labels.name else _table(labels)
        _same_rows(labels, len(marks), features, len(X))
        if marks.shape[1] != len(names):
            msg = f"{labels}: expected {len(names)} labels as in {names_file.name}, found {marks.shape[1]}"
            raise FileFormatError(msg)
        entries |= {f"X_{split}": X.astype(dtype), f"Y_{split}": csr_matrix(marks > 0, dtype=LABEL_DTYPE)}
    return Dataset(**entries, label_names=tuple(names), feature_names=None)


def read_apascal(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read objects with attributes of their own: names of these, lists of objects, and their features."""
    names_file, *lists = files
    names = _lines(names_file)
    entries: dict[str, Any] = {}
    categories: dict[str, list[str]] = {}
    for split, objects, features in (("train", lists[0], lists[2]), ("test", lists[1], lists[3])):
        categories[split], Y = _objects(objects, len(names))
        X = _variable(features, "feat").T
        _same_rows(objects, len(Y), features, X.shape[0])
        X = csr_matrix(X, dtype=dtype) if issparse(X) else np.ascontiguousarray(X, dtype=dtype)
        entries |= {f"X_{split}": X, f"Y_{split}": csr_matrix(Y)}
    known = sorted({*categories["train"], *categories["test"]})
    for split, found in categories.items():
        entries[f"class_{split}"] = np.searchsorted(known, found)
    return Dataset(**entries, class_names=tuple(known), label_names=tuple(names), feature_names=None)


def _objects(file: Path, n_attributes: int) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the categories and the attributes of a list of objects."""
    rows = [line.split() for line in _lines(file)]
    for number, row in enumerate(rows, start=1):
        if len(row) != BEFORE_ATTRIBUTES + n_attributes or not {*row[BEFORE_ATTRIBUTES:]} <= {"0", "1"}:
            msg = (
                f"{file}:{number}: expected an image, a category, four numbers and {n_attributes} attributes of 0 or "
                f"1, found {len(row)} words"
            )
            raise FileFormatError(msg)
    return [row[1] for row in rows], np.array([row[BEFORE_ATTRIBUTES:] for row in rows]).astype(LABEL_DTYPE)


def read_fmri(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read brain images of one participant, and the numbers of each noun: attributes where these exceed their median.

    Of each of the 12 kinds of nouns the last in alphabetical order is for testing.
    """
    images, table = files
    trials = np.atleast_1d(_variable(images, "info"))
    cells = np.atleast_1d(_variable(images, "data"))
    if len(trials) != len(cells) or not {"cond", "word"} <= {*(trials.dtype.names or ())}:
        msg = f"{images}: expected a word (info) for each of {len(cells)} images (data), found {len(trials)}"
        raise FileFormatError(msg)
    shown = [(str(trial["cond"]), str(trial["word"])) for trial in trials]
    X = np.array([np.ravel(cell) for cell in cells], dtype=dtype)
    words, numbers, verbs = _semantics(table)
    strange = sorted({word for _, word in shown} - {*words})
    if strange:
        msg = f"{table}: expected a line for every noun of {images.name}, found none for {strange[0]!r}"
        raise FileFormatError(msg)
    signatures = (numbers > np.median(numbers, axis=0)).astype(LABEL_DTYPE)
    held_out = {max(word for other, word in shown if other == kind) for kind, _ in shown}
    noun = np.array([words.index(word) for _, word in shown])
    test = np.array([word in held_out for _, word in shown])
    return Dataset(
        X_train=X[~test],
        Y_train=csr_matrix(signatures[noun[~test]]),
        X_test=X[test],
        Y_test=csr_matrix(signatures[noun[test]]),
        class_train=noun[~test],
        class_test=noun[test],
        class_names=tuple(words),
        signatures=signatures,
        seen=np.unique(noun[~test]),
        unseen=np.unique(noun[test]),
        label_names=tuple(verbs),
        feature_names=None,
    )


def _semantics(file: Path) -> tuple[list[str], npt.NDArray[Any], Sequence[str]]:
    """Return nouns, their numbers, and what these are called."""
    first = column_names(file, "csv")[0]
    table = read_csv(file, labels=[], ignore=[first])
    words = [word.strip() for word in read_csv(file, labels=[], text=first).X.tolist()]
    return words, table.X, table.feature_names or ()


def _variable(file: Path, name: str) -> Any:
    """Return a variable of a MATLAB file."""
    content = read_bytes(file)
    try:
        found = loadmat(io.BytesIO(content), squeeze_me=True, variable_names=[name])
    except MemoryError:
        raise
    except Exception as error:  # a damaged file raises nearly anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = f"{file}: expected a MATLAB file (version 7 or older), found something else ({reason})"
        raise FileFormatError(msg) from None
    if name not in found:
        msg = f"{file}: expected the variable {name}, found none of that name"
        raise FileFormatError(msg)
    return found[name]


def _lines(file: Path) -> list[str]:
    return [line.strip() for line in read_text(file).decode("utf-8", "replace").splitlines() if line.strip()]


def _table(file: Path) -> npt.NDArray[np.float64]:
    """Return a table of numbers, separated by blanks or commas."""
    try:
        return np.array([[float(cell) for cell in line.replace(",", " ").split()] for line in _lines(file)])
    except ValueError:
        msg = f"{file}: expected lines with as many numbers each, found something else"
        raise FileFormatError(msg) from None


def _same_rows(file: Path, found: int, other: Path, wanted: int) -> None:
    if found != wanted:
        msg = f"{file}: expected {wanted} rows as in {other.name}, found {found}; are both of the same release?"
        raise FileFormatError(msg)
