"""Splits in which every part has its share of every label.

Iterative stratification [1]_ deals the rows of the rarest label first, each to the part that wants it most,
then those of the next label, and so on. Here the parts have exactly the sizes asked for (folds differ by at
most one row), rows without labels are spread evenly, unknown cells count as absent, and a sparse Y is not
densified.

References
----------
.. [1] K. Sechidis, G. Tsoumakas, I. Vlahavas. On the stratification of multi-label data. ECML PKDD 2011.
   https://doi.org/10.1007/978-3-642-23808-6_10
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import _safe_indexing, check_random_state, indexable

from multimargin import _core
from multimargin.errors import InputError
from multimargin.labels import LabelMatrix, read_labels

__all__ = ["MultilabelStratifiedKFold", "MultilabelStratifiedShuffleSplit", "train_test_split"]

Indices = NDArray[np.int64]
Size = float | int | None


class MultilabelStratifiedKFold(BaseCrossValidator):
    """K folds with the same share of every label.

    Each row is in the test part of exactly one fold. Fold sizes differ by at most one row.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2 and at most the number of rows.
    shuffle : bool, default=True
        Whether chance decides between equally good rows and folds. Without it the order of the rows does.
    random_state : int, RandomState instance or None, default=None
        An int gives the same folds at every call and on every platform. Only with ``shuffle=True``.

    Notes
    -----
    A fold wants :math:`N_l / k` of the :math:`N_l` rows with label :math:`l`. A label on fewer rows than
    there are folds is absent from some of them. The time is linear in the number of positive cells and folds.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.model_selection import MultilabelStratifiedKFold
    >>> Y = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 1], [1, 1], [0, 0], [0, 0]])
    >>> for train, test in MultilabelStratifiedKFold(2, random_state=0).split(Y, Y):
    ...     print(Y[test].sum(axis=0), len(test))
    [2 2] 4
    [2 2] 4

    It serves wherever scikit-learn takes ``cv=``:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.multioutput import MultiOutputClassifier
    >>> model = MultiOutputClassifier(LogisticRegression())
    >>> cross_val_score(model, Y, Y, cv=MultilabelStratifiedKFold(2, random_state=0)).shape
    (2,)
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return _count("n_splits", self.n_splits, least=2)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the sorted row numbers of the training and the test part of each fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...) or None
            Only its length is looked at.
        y : labels in any form
            See :func:`multimargin.labels.read_labels`.
        groups : None
            Not used.

        Yields
        ------
        train, test : ndarray of int64
        """
        folds = self.get_n_splits()
        labels = _labels_of(X, y)
        n = labels.n_samples
        if folds > n:
            msg = f"n_splits must not exceed the number of rows; got {folds} for {n} rows. Use fewer folds."
            raise InputError(msg)
        if not self.shuffle and self.random_state is not None:
            msg = (
                f"random_state={self.random_state!r} has no effect when shuffle=False. Leave random_state at "
                "None, or set shuffle=True."
            )
            raise InputError(msg)
        sizes = [n // folds + (fold < n % folds) for fold in range(folds)]
        random = check_random_state(self.random_state) if self.shuffle else None
        fold_of_row = _deal(labels, sizes, [1] * folds, random)
        for fold in range(folds):
            yield np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)


class MultilabelStratifiedShuffleSplit(BaseCrossValidator):
    """Repeated random splits into a training and a test part with the same share of every label.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits, each drawn anew.
    test_size, train_size : float, int or None, default=None
        A float is a share of the rows, an int a number of rows. One that is None is what the other leaves; if
        both are, ``test_size`` is 0.1. Rows in neither part are stratified too.
    random_state : int, RandomState instance or None, default=None
        An int gives the same splits at every call and on every platform.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.model_selection import MultilabelStratifiedShuffleSplit
    >>> Y = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 1], [1, 1], [0, 0], [0, 0]])
    >>> splitter = MultilabelStratifiedShuffleSplit(3, test_size=0.25, random_state=0)
    >>> [Y[test].sum(axis=0).tolist() for train, test in splitter.split(Y, Y)]
    [[1, 1], [1, 1], [1, 1]]
    """

    def __init__(
        self, n_splits: int = 10, *, test_size: Size = None, train_size: Size = None, random_state: Any = None
    ) -> None:
        self.n_splits = n_splits
        self.test_size = test_size
        self.train_size = train_size
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return _count("n_splits", self.n_splits, least=1)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the sorted row numbers of the training and the test part of each split.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...) or None
            Only its length is looked at.
        y : labels in any form
            See :func:`multimargin.labels.read_labels`.
        groups : None
            Not used.

        Yields
        ------
        train, test : ndarray of int64
        """
        splits = self.get_n_splits()
        labels = _labels_of(X, y)
        train, test = _part_sizes(labels.n_samples, self.train_size, self.test_size, default_test=0.1)
        random = check_random_state(self.random_state)
        sizes = [train, test, labels.n_samples - train - test]
        for _ in range(splits):
            part_of_row = _deal(labels, sizes, sizes, random)
            yield np.flatnonzero(part_of_row == 0), np.flatnonzero(part_of_row == 1)


def train_test_split(
    *arrays: Any,
    test_size: Size = None,
    train_size: Size = None,
    random_state: Any = None,
    stratify: Any = None,
) -> list[Any]:
    """Split arrays into a training and a test part with the same share of every label.

    Parameters
    ----------
    *arrays : arrays, sparse matrices, DataFrames or lists with the same number of rows
        What to split, for instance ``X, Y``. Each comes back in its own type.
    test_size, train_size : float, int or None, default=None
        A float is a share of the rows, an int a number of rows. One that is None is what the other leaves; if
        both are, ``test_size`` is 0.25.
    random_state : int, RandomState instance or None, default=None
        An int gives the same split at every call and on every platform.
    stratify : labels in any form, default=None
        The labels to balance; by default the last of the arrays.

    Returns
    -------
    list
        ``[X_train, X_test, Y_train, Y_test]`` for ``X, Y``.

    Examples
    --------
    >>> from multimargin.model_selection import train_test_split
    >>> X = [[0.0], [0.1], [0.2], [0.3], [1.0], [1.1], [1.2], [1.3]]
    >>> Y = [{"sun"}, {"sun"}, {"sun"}, {"sun"}, {"rain"}, {"rain"}, {"rain"}, {"rain"}]
    >>> X_train, X_test, Y_train, Y_test = train_test_split(X, Y, random_state=0)
    >>> Y_test
    [{'sun'}, {'rain'}]
    """
    if not arrays:
        msg = "train_test_split needs at least one array; got none. Give it X and Y."
        raise InputError(msg)
    lengths = [_length(array) for array in arrays]
    if len(set(lengths)) > 1:
        msg = f"All arrays must have the same number of rows; got {lengths}. Cut them to the same rows."
        raise InputError(msg)
    labels = _labels_of(arrays[0], arrays[-1] if stratify is None else stratify)
    n_train, n_test = _part_sizes(labels.n_samples, train_size, test_size, default_test=0.25)
    sizes = [n_train, n_test, labels.n_samples - n_train - n_test]
    part_of_row = _deal(labels, sizes, sizes, check_random_state(random_state))
    train, test = np.flatnonzero(part_of_row == 0), np.flatnonzero(part_of_row == 1)
    parts = []
    for array, rows in zip(arrays, indexable(*arrays), strict=True):
        for part in (_safe_indexing(rows, train), _safe_indexing(rows, test)):
            parts.append(part.asformat(array.format) if sp.issparse(array) else part)
    return parts


def _deal(
    labels: LabelMatrix, sizes: list[int], shares: list[int], random: np.random.RandomState | None
) -> NDArray[np.int32]:
    """Return the part of every row. Without a random state, rows and parts are taken in their order."""
    positives = labels.positives
    seed = 0 if random is None else int(random.randint(np.iinfo(np.int64).max, dtype=np.int64))
    part_of_row = np.empty(labels.n_samples, dtype=np.int32)
    _core.stratify(
        offsets=np.ascontiguousarray(positives.indptr, dtype=np.int64),
        columns=np.ascontiguousarray(positives.indices, dtype=np.int32),
        labels=labels.n_labels,
        sizes=np.array(sizes, dtype=np.int64),
        shares=np.array(shares, dtype=np.int64),
        seed=seed,
        shuffle=random is not None,
        fold_of_row=part_of_row,
    )
    return part_of_row


def _labels_of(X: Any, Y: Any) -> LabelMatrix:
    return read_labels(Y, n_samples=None if X is None else _length(X))


def _length(array: Any) -> int:
    shape = getattr(array, "shape", None)
    if shape:
        return int(shape[0])
    if not hasattr(array, "__len__"):
        msg = f"Every array must have rows; got {array!r}. Give arrays, sparse matrices, DataFrames or lists."
        raise InputError(msg)
    return len(array)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _count(name: str, value: Any, least: int) -> int:
    if not _is_whole(value) or value < least:
        msg = f"{name} must be an integer of at least {least}; got {value!r}. Use {name}=5, for instance."
        raise InputError(msg)
    return int(value)


def _part_sizes(n: int, train_size: Size, test_size: Size, default_test: float) -> tuple[int, int]:
    """Return the numbers of training and test rows; a share is rounded up for testing, down for training."""
    if test_size is None and train_size is None:
        test_size = default_test
    test = None if test_size is None else _rows("test_size", test_size, n, math.ceil)
    train = None if train_size is None else _rows("train_size", train_size, n, math.floor)
    test = n - train if test is None and train is not None else test
    train = n - test if train is None and test is not None else train
    assert train is not None  # one of the two sizes is always known
    assert test is not None
    if train < 1 or test < 1 or train + test > n:
        msg = (
            f"Both parts need at least one row and together at most {n}; test_size={test_size} and "
            f"train_size={train_size} ask for {test} test rows and {train} training rows. "
            "Choose other sizes, or give more rows."
        )
        raise InputError(msg)
    return train, test


def _rows(name: str, size: Any, n: int, rounding: Any) -> int:
    if _is_whole(size) and 0 < size < n:
        return int(size)
    if isinstance(size, (float, np.floating)) and 0 < size < 1:
        # A share such as 0.07 of 100 rows must not become 8 by the rounding error of the product.
        return int(rounding(round(float(size) * n, 9)))
    msg = (
        f"{name} must be a share between 0 and 1, or a number of rows from 1 to {n - 1}; got {size!r} for "
        f"{n} rows. Use {name}=0.25, for instance."
    )
    raise InputError(msg)
