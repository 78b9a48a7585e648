"""Votes of the nearest neighbours."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from multimargin.baselines._base import VaryingLabelsBaseline
from multimargin.baselines._neighbors import METRICS, nearest_rows, refuse_few_rows, voted
from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, expect

__all__ = ["KNNLabels"]


class KNNLabels(VaryingLabelsBaseline):
    r"""Nearest neighbours: labels that most of the k nearest training rows have.

    The score of label l is the weighted share of the k nearest training rows :math:`N(x)` that have it, less one half:

    .. math:: s_l(x) = \sum_{i \in N(x)} v_i\, y_{il} \Big/ \sum_{i \in N(x)} v_i \;-\; \tfrac12, \qquad v_i = 1
        \text{ or } 1 / d(x, x_i);

    labels with a positive score are predicted, so that half of an even number of votes is not enough. Of training rows
    at the same distance the first ones count.

    Parameters
    ----------
    n_neighbors : int, default=5
        The number k.
    weights : {"uniform", "distance"}, default="uniform"
        Whether all neighbours count alike, or by the inverse of their distance; rows at distance zero then outvote all
        others.
    metric : {"euclidean", "cosine"}, default="euclidean"
        The distance.

    Attributes
    ----------
    training_rows_ : array or csr matrix of shape (n_samples, n_features)
        The training rows.
    training_labels_ : csr_array of shape (n_samples, n_varying)
        Their labels that are not constant.

    Examples
    --------
    >>> from multimargin.baselines import KNNLabels
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Y = [{"low"}, {"low"}, {"low"}, {"high"}, {"high"}, {"high"}]
    >>> KNNLabels(n_neighbors=3).fit(X, Y).predict_sets([[0.05], [1.3]])
    [('low',), ('high',)]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "weights": [StrOptions({"uniform", "distance"})],
        "metric": [StrOptions(set(METRICS))],
    }

    def __init__(self, n_neighbors: int = 5, *, weights: str = "uniform", metric: str = "euclidean"):
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.metric = metric

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        refuse_few_rows(self.n_neighbors, Y.shape[0], self.n_neighbors)
        return {"training_rows_": X, "training_labels_": Y.astype(np.int64)}

    def _varying_rules(self) -> dict[str, Rule]:
        def rows(value: Any, sizes: Sizes) -> None:
            array_of("rows features", -LARGEST, LARGEST, sparse=True)(value, sizes)
            expect(sizes["rows"] >= self.n_neighbors, f"must have at least {self.n_neighbors} rows")

        return {"training_rows_": rows, "training_labels_": array_of("rows varying", 0, 1, "i8", sparse=True)}

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        scores = np.empty((X.shape[0], self.training_labels_.shape[1]))
        for rows, near, distances in nearest_rows(self.training_rows_, X, int(self.n_neighbors), self.metric):
            votes = self._votes(distances)
            scores[rows] = voted(near, votes, self.training_labels_) / votes.sum(axis=1)[:, None] - 0.5
        return scores

    def _votes(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.weights == "uniform":
            return np.ones_like(distances)
        same = distances == 0.0
        nearest = np.where(same.any(axis=1), 1.0, distances.min(axis=1))[:, None]
        inverse = np.divide(nearest, distances, out=np.zeros_like(distances), where=~same)
        return np.where(same.any(axis=1)[:, None], same.astype(np.float64), inverse)
