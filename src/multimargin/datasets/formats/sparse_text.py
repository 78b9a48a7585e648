"""LIBSVM multi-label files and the XMC files of extreme classification, which add a header."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from multimargin import _core
from multimargin.datasets.dataset import Dataset, label_matrix, make_dataset
from multimargin.datasets.formats.columns import Labels, check_counts, check_width, given_names, numbers_as_names
from multimargin.datasets.formats.source import FilePath, allowed_bytes, naming, read_text
from multimargin.errors import FileFormatError, InputError

__all__ = ["read_libsvm", "read_xmc"]

ZeroBased = bool | Literal["auto"]


def read_libsvm(
    path: FilePath,
    *,
    labels: Labels | None = None,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: ZeroBased = "auto",
    labels_zero_based: ZeroBased = "auto",
    dtype: npt.DTypeLike = np.float64,
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read a LIBSVM multi-label file: lines such as ``1,3 5:0.2 7:1``, optionally gzipped.

    A row without labels begins with its first feature. Empty lines and comments after ``#`` are skipped.

    Parameters
    ----------
    path : path
        The file.
    labels : path of a Mulan XML file, list of names or None, default=None
        Names of the labels, in the order of their numbers. None: the numbers as written in the file.
    n_features, n_labels : int or None, default=None
        The number of columns of X and Y. None: the largest index found. A larger index is an error; so a
        test file read with the numbers of the training file fits or is refused.
    zero_based, labels_zero_based : bool or "auto", default="auto"
        Whether features and labels are counted from 0. "auto": from 0 if a 0 occurs, else from 1. A test
        file may lack index 0 by chance: pass ``**train.options``, which holds what was found in training.
    dtype : float64 or float32, default=float64
        Type of X.
    max_bytes : int or None, default=None
        The most memory to take for the content of the file, decompressed, and as much again for the table made from
        it; what needs more is refused before it is taken. None: half of the memory of this machine or container.

    Returns
    -------
    Dataset
        X is CSR; ``feature_names`` is None.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.datasets import read_libsvm
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.svm").write_text("0,2 1:0.5 3:2\n1 2:1  # one label\n 3:1\n")
    >>> _ = (folder / "test.svm").write_text("1 2:1\n")
    >>> train = read_libsvm(folder / "train.svm")
    >>> train.Y.toarray().tolist()
    [[1, 0, 1], [0, 1, 0], [0, 0, 0]]
    >>> read_libsvm(folder / "test.svm", **train.options).X.toarray().tolist()
    [[0.0, 1.0, 0.0]]
    """
    most = allowed_bytes(max_bytes)
    names = given_names(labels, most)
    if names is not None:
        n_labels = len(names)
    check_counts(n_features, n_labels)
    text = read_text(path, most)
    with naming(path, text):
        X, Y, feature_extent, label_extent, _, _ = _core.libsvm_rows(text, most)
        values, columns, offsets = X
        label_columns, label_offsets = Y
        if len(offsets) == 1:
            msg = f"{path}: expected rows such as 1,3 5:0.2, found comments only"
            raise FileFormatError(msg)
        base, d = _count(path, "feature", feature_extent, zero_based, n_features)
        label_base, n_labels = _count(path, "label", label_extent, labels_zero_based, n_labels)
        columns -= base
        label_columns -= label_base
        return make_dataset(
            path,
            csr_matrix((values, columns, offsets), shape=(len(offsets) - 1, d)),
            label_matrix(label_columns, label_offsets, n_labels),
            names if names is not None else numbers_as_names(path, label_base, n_labels, most),
            None,
            dtype,
            {
                "labels": None if names is None else tuple(names),
                "n_features": d,
                "n_labels": n_labels,
                "zero_based": base == 0,
                "labels_zero_based": label_base == 0,
            },
        )


def read_xmc(
    path: FilePath,
    *,
    labels: Labels | None = None,
    n_features: int | None = None,
    n_labels: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read a file of the extreme classification repository: a line ``N D L``, then rows as in LIBSVM.

    Everything is counted from 0, and every line after the first is a row.

    Parameters
    ----------
    path : path
        The file, optionally gzipped.
    labels : path of a Mulan XML file, list of names or None, default=None
        Names of the labels, in the order of their numbers. None: the numbers.
    n_features, n_labels : int or None, default=None
        What the first line must state.
    dtype : float64 or float32, default=float64
        Type of X.
    max_bytes : int or None, default=None
        The most memory to take for the content of the file, decompressed, and as much again for the table made from
        it; what needs more is refused before it is taken. None: half of the memory of this machine or container.

    Returns
    -------
    Dataset
        X is CSR; ``feature_names`` is None.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.datasets import read_xmc
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.txt"
    >>> _ = path.write_text("2 4 3\n0,2 1:0.5 3:2\n 0:1\n")
    >>> read_xmc(path)
    Dataset(tiny.txt: 2 samples, 4 features, 3 labels, cardinality 1.00)
    """
    most = allowed_bytes(max_bytes)
    names = given_names(labels, most)
    wanted = n_labels if names is None else len(names)
    check_counts(n_features, wanted)
    text = read_text(path, most)
    with naming(path, text):
        X, Y, _, _, d, found_labels = _core.xmc_rows(text, most)
        if len(X[2]) == 1:
            msg = f"{path}:1: expected at least one row, found 0 rows stated in the first line"
            raise FileFormatError(msg)
        check_width(path, d, n_features)
        if wanted is not None and wanted != found_labels:
            msg = f"{path}:1: expected {wanted} labels as asked for, found {found_labels} stated in the first line"
            raise FileFormatError(msg)
        return make_dataset(
            path,
            csr_matrix(X, shape=(len(X[2]) - 1, d)),
            label_matrix(Y[0], Y[1], found_labels),
            names if names is not None else numbers_as_names(path, 0, found_labels, most),
            None,
            dtype,
            {"labels": None if names is None else tuple(names), "n_features": d, "n_labels": found_labels},
        )


def _count(
    path: FilePath, what: str, extent: tuple[int, int, int, int], zero_based: ZeroBased, wanted: int | None
) -> tuple[int, int]:
    """Return the first index of the file and the number of columns."""
    smallest, smallest_line, largest, largest_line = extent
    if zero_based not in (True, False, "auto"):
        msg = f'zero_based must be True, False or "auto", got {zero_based!r}'
        raise InputError(msg)
    base = int(smallest != 0) if zero_based == "auto" else int(not zero_based)
    if largest < 0:  # no index at all
        return base, wanted or 0
    if smallest < base:
        msg = f"{path}:{smallest_line}: expected {what}s counted from 1, found {what} 0; pass zero_based=True"
        raise FileFormatError(msg)
    found = largest + 1 - base
    if wanted is not None and found > wanted:
        msg = (
            f"{path}:{largest_line}: expected {what}s from {base} to {wanted - 1 + base} ({wanted} {what}s), "
            f"found {what} {largest}; was the model trained on other data, or is zero_based wrong?"
        )
        raise FileFormatError(msg)
    return base, found if wanted is None else wanted
