"""Splits by category."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from multimargin.errors import InputError

__all__ = ["CategoryKFold"]


class CategoryKFold(BaseCrossValidator):
    """K folds of whole categories: those of the test part have no rows in the training part.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    seen_share : float in [0, 1), default=0.0
        Share of the rows of the training categories that are kept for testing too, as the harmonic mean of seen and
        unseen categories needs.
    random_state : int, RandomState or None, default=None
        Which categories go together, and which rows are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.model_selection import CategoryKFold
    >>> y = np.array(["cat", "cat", "dog", "owl", "owl", "owl"])
    >>> [sorted(set(y[test].tolist())) for _, test in CategoryKFold(3, random_state=0).split(y, y)]
    [['owl'], ['dog'], ['cat']]
    """

    def __init__(self, n_splits: int = 5, *, seen_share: float = 0.0, random_state: Any = None):
        self.n_splits = n_splits
        self.seen_share = seen_share
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : ignored

        Returns
        -------
        int
        """
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the training and the test rows of each fold.

        Parameters
        ----------
        X : ignored
        y : array of shape (n_samples,)
            Categories of the rows.
        groups : ignored
        """
        names, category = np.unique(np.asarray(y), return_inverse=True)
        if not isinstance(self.n_splits, Integral) or not 2 <= self.n_splits <= len(names):
            msg = f"n_splits must lie between 2 and the {len(names)} categories of y; got {self.n_splits}."
            raise InputError(msg)
        if not 0.0 <= self.seen_share < 1.0:
            msg = f"seen_share must lie in [0, 1); got {self.seen_share}."
            raise InputError(msg)
        random = check_random_state(self.random_state)
        fold_of = np.empty(len(names), dtype=np.intp)
        fold_of[random.permutation(len(names))] = np.arange(len(names)) % self.n_splits
        kept = random.random_sample(len(category)) < self.seen_share
        for fold in range(self.n_splits):
            test = (fold_of[category] == fold) | kept
            yield np.flatnonzero(~test), np.flatnonzero(test)
