"""What every reader returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

__all__ = ["Dataset", "Matrix", "label_matrix"]

Matrix = Any  # ndarray or scipy.sparse.csr_matrix: scipy has no types


@dataclass(frozen=True, eq=False)
class Dataset:
    """A multi-label data set as read from one file.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n_samples, n_features)
        Features, float64 or float32; CSR when the file is sparse.
    Y : csr_matrix of shape (n_samples, n_labels), int8
        1 where a sample has a label. Always CSR; ``Y.toarray()`` gives the dense form.
    label_names : tuple of str
        One name per column of ``Y``.
    feature_names : tuple of str or None
        One name per column of ``X``; None when the format has no names.
    description : str
        One line of facts.
    options : dict
        What ``read(other_file, **options)`` needs to read another file, such as the test set, in the same
        way: the same columns in the same order, or an error.
    """

    X: Matrix
    Y: csr_matrix
    label_names: tuple[str, ...]
    feature_names: tuple[str, ...] | None
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Dataset({self.description})"


def label_matrix(columns: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], n_labels: int) -> csr_matrix:
    """Return the CSR matrix with a 1 at each given column."""
    ones = np.ones(len(columns), dtype=np.int8)
    return csr_matrix((ones, columns, offsets), shape=(len(offsets) - 1, n_labels))


def describe(name: str, X: Matrix, Y: csr_matrix) -> str:
    """Return the facts of a data set in one line."""
    n, d = X.shape
    return f"{name}: {n} samples, {d} features, {Y.shape[1]} labels, cardinality {Y.nnz / max(n, 1):.2f}"


def make_dataset(
    name: str,
    X: Matrix,
    Y: csr_matrix,
    label_names: Sequence[str],
    feature_names: Sequence[str] | None,
    dtype: npt.DTypeLike,
    options: Mapping[str, Any],
) -> Dataset:
    """Return a Dataset with X in the type asked for."""
    names = None if feature_names is None else tuple(feature_names)
    X = X.astype(dtype, copy=False)
    return Dataset(X, Y, tuple(label_names), names, describe(name, X, Y), options)
