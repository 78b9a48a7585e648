"""The one container of data sets, and what every reader does to fill it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import Bunch

from multimargin.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from multimargin.datasets.formats.source import FilePath

__all__ = ["LABEL_DTYPE", "Dataset", "Matrix", "first_position", "label_matrix", "make_dataset"]

Matrix = Any  # ndarray or scipy.sparse.csr_matrix: scipy has no types

# In a narrower type sums such as Y.T @ Y overflow, and scikit-learn numbers labels in the type of Y: with int8 its
# OneVsRestClassifier mixes up labels above 127.
LABEL_DTYPE = np.int64


class Dataset(Bunch):
    """A multi-label data set: a dictionary whose entries are attributes, too, as scikit-learn's ``Bunch``.

    What was read from one file, or generated, has ``X`` and ``Y``; what is divided into a training and a test part has
    ``X_train``, ``Y_train``, ``X_test``, ``Y_test``, of which :meth:`part` gives one. A data set may have more entries,
    named by the function that returns it.

    Attributes
    ----------
    X, X_train, X_test : ndarray or csr_matrix of shape (n_samples, n_features)
        Features, float64 or float32; CSR when the file is sparse. Of a file read with ``text=``, an array of texts of
        shape (n_samples,).
    Y, Y_train, Y_test : csr_matrix or ndarray of shape (n_samples, n_labels), int64
        1 where a sample has a label. From files always CSR; ``Y.toarray()`` gives the dense form. Where a file leaves
        labels open, they are NaN, and Y is float64: the estimators of this library leave such cells out.
    label_names : tuple of str
        One name per column of ``Y``.
    feature_names : tuple of str or None
        One name per column of ``X``; None when there are no names.
    description : str
        One line of facts.
    options : dict
        Of a file: what ``read(other_file, **options)`` needs to read another one, such as the test set, in the same
        way: the same columns in the same order, or an error.

    Examples
    --------
    >>> from multimargin.datasets import load_digit_strips
    >>> strips = load_digit_strips(n_samples=90)
    >>> strips
    Dataset(strips of handwritten digits: 90 samples, 48 features, 10 labels)
    >>> strips["X_train"] is strips.X_train is strips.part("train").X
    True
    """

    label_names: tuple[str, ...]
    feature_names: tuple[str, ...] | None
    description: str

    def part(self, split: Literal["train", "test"]) -> Dataset:
        """Return the training or the test part as a data set with ``X`` and ``Y``.

        Parameters
        ----------
        split : {"train", "test"}

        Returns
        -------
        Dataset
            Entries that end in ``_train`` or ``_test`` lose that ending; the others are shared.
        """
        if f"X_{split}" not in self:
            parts = ", ".join(key.removeprefix("X_") for key in self if key.startswith("X_"))
            msg = f"split must name a part of the data set ({parts or 'none: use X and Y'}); got {split!r}."
            raise InputError(msg)
        of_part, of_both = f"_{split}", ("_train", "_test")
        entries = {key.removesuffix(of_part): value for key, value in self.items() if key.endswith(of_part)}
        return Dataset(**entries, **{key: value for key, value in self.items() if not key.endswith(of_both)})

    def __repr__(self) -> str:
        return f"Dataset({self.description})"


def label_matrix(
    columns: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    n_labels: int,
    unknown: tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]] | None = None,
) -> csr_matrix:
    """Return the CSR matrix with a 1 at each given column, and NaN at each one that is unknown."""
    shape = (len(offsets) - 1, n_labels)
    Y = csr_matrix((np.ones(len(columns), dtype=LABEL_DTYPE), columns, offsets), shape=shape)
    if unknown is None or not len(unknown[0]):
        return Y
    return Y + csr_matrix((np.full(len(unknown[0]), np.nan), *unknown), shape=shape)


def describe(name: str, X: Matrix, Y: csr_matrix) -> str:
    """Return the facts of a data set in one line."""
    unknown = int(np.isnan(Y.data).sum()) if Y.dtype.kind == "f" else 0
    features = f"{X.shape[1]} features" if X.ndim == 2 else "texts"
    facts = f"{X.shape[0]} samples, {features}, {Y.shape[1]} labels"
    cardinality = (Y.nnz - unknown) / max(X.shape[0], 1)
    return f"{name}: {facts}, cardinality {cardinality:.2f}" + (f", {unknown} unknown cells" if unknown else "")


def make_dataset(
    path: FilePath,
    X: Matrix,
    Y: csr_matrix,
    label_names: Sequence[str],
    feature_names: Sequence[str] | None,
    dtype: npt.DTypeLike,
    options: Mapping[str, Any],
) -> Dataset:
    """Return a Dataset with X in the type asked for."""
    names = None if feature_names is None else tuple(feature_names)
    X = _converted(path, X, dtype) if X.ndim == 2 else X
    return Dataset(
        X=X,
        Y=Y,
        label_names=tuple(label_names),
        feature_names=names,
        description=describe(Path(path).name, X, Y),
        options=options,
    )


def _converted(path: FilePath, X: Matrix, dtype: npt.DTypeLike) -> Matrix:
    """Return X in another type, refusing numbers that would become infinite in it."""
    with np.errstate(over="ignore"):
        converted = X.astype(dtype, copy=False)
    if np.can_cast(X.dtype, converted.dtype, "safe"):
        return converted
    too_large = first_position(converted, np.isinf)
    if too_large is not None:
        row, column = too_large
        msg = (
            f"{path}: expected numbers that {converted.dtype} can hold, found {X[row, column]:g} in row {row + 1}, "
            f"column {column + 1} of X; pass dtype=float64, or scale the feature"
        )
        raise FileFormatError(msg)
    return converted


def first_position(matrix: Matrix, wrong: Callable[[Any], Any]) -> tuple[int, int] | None:
    """Return the row and the column of the first stored number that is wrong."""
    if issparse(matrix):
        found = np.flatnonzero(wrong(matrix.data))[:1]
        rows, columns = np.searchsorted(matrix.indptr, found, side="right") - 1, matrix.indices[found]
    else:
        found = np.flatnonzero(wrong(matrix))[:1]
        rows, columns = np.unravel_index(found, matrix.shape)
    return (int(rows[0]), int(columns[0])) if found.size else None
