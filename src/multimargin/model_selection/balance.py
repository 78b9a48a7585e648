"""How evenly labels are spread over folds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin._tables import aligned
from multimargin.errors import InputError
from multimargin.labels import read_labels

__all__ = ["FoldBalance", "fold_balance"]


@dataclass(frozen=True, eq=False, repr=False)
class FoldBalance:
    """How evenly the labels are spread over folds; printed as a table.

    Attributes
    ----------
    names : ndarray of shape (n_labels,)
        Label names.
    sizes : ndarray of shape (n_folds,)
        Rows in each fold.
    counts : ndarray of shape (n_folds, n_labels)
        Rows with each label in each fold.
    expected : ndarray of shape (n_folds, n_labels)
        The fold's size times the label's share of all rows.
    """

    names: NDArray[Any]
    sizes: NDArray[np.int64]
    counts: NDArray[np.int64]
    expected: NDArray[np.float64]

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Largest distance in rows between a label's count and its expectation over the folds, per label."""
        return np.asarray(np.abs(self.counts - self.expected).max(axis=0), dtype=np.float64)

    @property
    def absent(self) -> NDArray[np.int64]:
        """Number of folds without the label, per label."""
        return np.asarray((self.counts == 0).sum(axis=0), dtype=np.int64)

    def table(self, max_labels: int | None = 20) -> str:
        """Return a table of the labels with the largest deviations."""
        order = np.argsort(-self.deviation, kind="stable")[:max_labels]
        folds = [f"fold {f}" for f in range(len(self.sizes))]
        rows = [["label", *folds, "deviation"], ["(rows)", *map(str, self.sizes), ""]]
        for label in order:
            cells = [str(count) for count in self.counts[:, label]]
            rows.append([str(self.names[label]), *cells, f"{self.deviation[label]:.1f}"])
        lines = [aligned(rows)]
        if len(order) < len(self.names):
            lines.append(f"... and {len(self.names) - len(order)} labels with smaller deviations")
        lines.append(
            f"{len(self.names)} labels, largest deviation {self.deviation.max():.1f} rows, "
            f"mean {self.deviation.mean():.2f}; labels absent from some fold: {int((self.absent > 0).sum())}"
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__


def fold_balance(Y: Any, folds: Iterable[Any]) -> FoldBalance:
    """Count the labels in every fold and compare with an even spread.

    Parameters
    ----------
    Y : labels in any form
        See :func:`multimargin.labels.read_labels`.
    folds : iterable
        Pairs ``(train, test)`` as a splitter yields them, of which the test parts are examined; or arrays of
        row numbers.

    Returns
    -------
    FoldBalance

    Examples
    --------
    >>> from multimargin.model_selection import MultilabelStratifiedKFold, fold_balance
    >>> Y = [{"sea", "sun"}, {"sun"}, {"sea"}, {"sun"}, {"sea", "sun"}, {"sea"}, {"ice"}, set()]
    >>> fold_balance(Y, MultilabelStratifiedKFold(2, random_state=0).split(Y, Y))
    label   fold 0  fold 1  deviation
    (rows)       4       4
    ice          1       0        0.5
    sea          2       2        0.0
    sun          2       2        0.0
    3 labels, largest deviation 0.5 rows, mean 0.17; labels absent from some fold: 1
    """
    labels = read_labels(Y)
    parts = [np.asarray(fold[1] if isinstance(fold, tuple) else fold) for fold in folds]
    if not parts:
        msg = "folds is empty; at least one fold is needed. Give the pairs a splitter yields."
        raise InputError(msg)
    for number, part in enumerate(parts):
        whole = part.ndim == 1 and (part.dtype.kind in "iu" or part.size == 0)
        if not whole or (part.size and (part.min() < 0 or part.max() >= labels.n_samples)):
            msg = (
                f"Fold {number} must be a 1-D array of row numbers from 0 to {labels.n_samples - 1}; got "
                f"dtype {part.dtype} and shape {part.shape}. Give the pairs a splitter yields for this Y."
            )
            raise InputError(msg)
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    positives = labels.positives
    counts = np.array(
        [np.bincount(positives[part.astype(np.int64)].indices, minlength=labels.n_labels) for part in parts],
        dtype=np.int64,
    )
    expected = np.outer(sizes, labels.counts()[0]) / labels.n_samples
    return FoldBalance(labels.names, sizes, counts, expected)
