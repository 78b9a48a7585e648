"""Multi-label k nearest neighbours."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from multimargin.baselines._base import VaryingLabelsBaseline
from multimargin.baselines._neighbors import nearest_rows, refuse_few_rows, voted
from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, expect

__all__ = ["MLkNN"]


class MLkNN(VaryingLabelsBaseline):
    r"""ML-kNN: from the number of neighbours with a label, by Bayes' rule, whether to predict it.

    For label l let :math:`c` be the number of the k nearest training rows that have it. The label is predicted if

    .. math:: P(H_l = 1)\, P(c \mid H_l = 1) > P(H_l = 0)\, P(c \mid H_l = 0),

    with all probabilities counted on the training rows, each with its own neighbours, and smoothed by s:
    :math:`P(H_l = 1) = (s + n_l) / (2 s + n)`, :math:`P(c \mid H_l) = (s + n_{lc}) / ((k + 1) s + \sum_j n_{lj})`.

    Parameters
    ----------
    n_neighbors : int, default=10
        The number k.
    smoothing : float, default=1.0
        The number s.

    Attributes
    ----------
    log_odds_ : ndarray of shape (n_varying, n_neighbors + 1)
        Log-odds of each label that is not constant for each number of neighbours that have it.
    training_rows_ : array or csr matrix of shape (n_samples, n_features)
        The training rows.
    training_labels_ : csr_array of shape (n_samples, n_varying)
        Their labels that are not constant.

    References
    ----------
    M.-L. Zhang, Z.-H. Zhou. ML-KNN: a lazy learning approach to multi-label learning. Pattern Recognition 40 (2007).
    https://doi.org/10.1016/j.patcog.2006.12.019

    Examples
    --------
    >>> from multimargin.baselines import MLkNN
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Y = [{"low"}, {"low"}, {"low"}, {"high"}, {"high"}, {"high"}]
    >>> MLkNN(n_neighbors=2).fit(X, Y).predict_sets([[0.05], [1.3]])
    [('low',), ('high',)]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, n_neighbors: int = 10, *, smoothing: float = 1.0):
        self.n_neighbors = n_neighbors
        self.smoothing = smoothing

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        n, n_labels = Y.shape
        refuse_few_rows(self.n_neighbors, n, self.n_neighbors + 1)
        Y = Y.astype(np.int64)
        counts = self._counts(X, Y, None)
        has = Y.toarray().astype(bool)
        k, s = self.n_neighbors, float(self.smoothing)
        tables = np.zeros((2, n_labels, k + 1))
        for value in (0, 1):
            rows, columns = np.nonzero(has == bool(value))
            np.add.at(tables[value], (columns, counts[rows, columns]), 1)
        given = (s + tables) / (s * (k + 1) + tables.sum(axis=2, keepdims=True))
        present = has.sum(axis=0)
        prior = np.log(s + present) - np.log(s + n - present)
        log_odds = prior[:, None] + np.log(given[1]) - np.log(given[0])
        return {"training_rows_": X, "training_labels_": Y, "log_odds_": log_odds}

    def _varying_rules(self) -> dict[str, Rule]:
        def rows(value: Any, sizes: Sizes) -> None:
            array_of("rows features", -LARGEST, LARGEST, sparse=True)(value, sizes)
            expect(sizes["rows"] > self.n_neighbors, f"must have more than {self.n_neighbors} rows")

        return {
            "training_rows_": rows,
            "training_labels_": array_of("rows varying", 0, 1, "i8", sparse=True),
            "log_odds_": array_of(f"varying {int(self.n_neighbors) + 1}"),
        }

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        counts = self._counts(self.training_rows_, self.training_labels_, X)
        return np.asarray(self.log_odds_[np.arange(len(self.log_odds_)), counts])

    def _counts(self, training: Any, Y: sp.csr_array, X: Any) -> NDArray[np.int64]:
        """Count neighbours with each label; without X, those of the training rows among the others."""
        counts = np.empty(((training if X is None else X).shape[0], Y.shape[1]), dtype=np.int64)
        for rows, near, _ in nearest_rows(training, X, int(self.n_neighbors)):
            counts[rows] = voted(near, np.ones(near.shape, np.int64), Y)
        return counts
