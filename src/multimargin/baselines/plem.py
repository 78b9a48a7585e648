"""Piecewise training of a tree of label pairs."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import log_softmax
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot

from multimargin.baselines._base import VaryingLabelsBaseline
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._links import LinkSettings, fit_links
from multimargin.baselines._softmax import SoftmaxProblem
from multimargin.errors import InputError
from multimargin.estimators.cliques.graph import Clique, chow_liu, compiled
from multimargin.estimators.cost_scale import C_CONSTRAINTS, cost_of_error
from multimargin.estimators.predictor import row_blocks
from multimargin.fitted_rules import Rule, Sizes, array_of, expect, number
from multimargin.labels import LabelMatrix, read_labels

__all__ = ["PLEM"]

Array = NDArray[np.float64]

SIGNS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
"""States of a pair of labels, by number: twice the first label plus the second."""


class PLEM(VaryingLabelsBaseline):
    r"""PLEM: classifiers of labels and of the label pairs of a tree, trained apart, maximised together.

    A maximum spanning tree over the labels, by how often two occur together, has the edges E. Logistic regressions give
    :math:`p_l(y_l \mid x)` for every label and multinomial ones :math:`p_{ab}(y_a, y_b \mid x)` for every edge, each
    the minimum of

    .. math:: \tfrac12 |w|^2 - C \sum_i \log p(y_i \mid x_i)

    on its own. The label set with the largest

    .. math:: \sum_l \beta_l \log p_l(y_l \mid x) + \sum_{ab \in E} \log p_{ab}(y_a, y_b \mid x)

    is predicted, by dynamic programming, with :math:`\beta_l = 1`. A label's score is the largest value of a set with
    it less the largest of one without it.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error; ``"scale"`` is one over the mean squared length of the rows.
    tree : {"counts", "mutual_information"}, default="counts"
        Weights of the spanning tree: how many rows have both labels, or the mutual information of the two.
    pair : {"joint", "and"}, default="joint"
        Classifier of a pair: of its four states, or of whether a row has both labels.
    normalised : bool, default=False
        Whether :math:`\beta_l` is 1 less the number of edges at l, the factors of a distribution on a tree. Otherwise
        labels with many edges count more than once, as published. For ``pair="joint"`` only.
    floor : float, default=1e-4
        Probability of states of a pair that do not occur in training, and least one of all.
    tol : float, default=1e-3
        Relative duality gap at which the training of a classifier stops.

    Attributes
    ----------
    edges_ : ndarray of shape (n_edges, 2)
        Pairs of labels, by position among those that are not constant.
    coef_ : ndarray of shape (n_varying, n_features)
        Weights of the label classifiers.
    intercept_ : ndarray of shape (n_varying,)
        Their intercepts.
    pair_coef_ : ndarray of shape (n_edges, 4, n_features)
        Weights of the states of the pairs: none, the second, the first, both labels.
    pair_intercept_ : ndarray of shape (n_edges, 4)
        Their intercepts.
    pair_seen_ : ndarray of shape (n_edges, 4)
        Which states occur in training; with ``pair="and"`` the last one stands for both labels, the first for all else.
    piece_gap_ : float
        Largest relative duality gap of a classifier.
    C_ : float
        The cost of an error, C or the number that ``"scale"`` stood for.

    References
    ----------
    X. Li, F. Zhao, Y. Guo. Multi-label image classification with a probabilistic label enhancement model. UAI (2014).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import PLEM
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = PLEM(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": C_CONSTRAINTS,
        "tree": [StrOptions({"counts", "mutual_information"})],
        "pair": [StrOptions({"joint", "and"})],
        "normalised": ["boolean"],
        "floor": [Interval(Real, 0, 0.5, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        tree: str = "counts",
        pair: str = "joint",
        normalised: bool = False,
        floor: float = 1e-4,
        tol: float = 1e-3,
    ):
        self.C = C
        self.tree = tree
        self.pair = pair
        self.normalised = normalised
        self.floor = floor
        self.tol = tol

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> dict[str, Any]:
        if self.normalised and self.pair == "and":
            msg = (
                "normalised=True needs the distributions of pairs, pair='joint'; with pair='and' labels of one edge "
                "would have no term of their own. Change one of them."
            )
            raise InputError(msg)
        return super()._fit_labels(X, labels)

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        n, n_labels = Y.shape
        C = cost_of_error(self, X)
        none: list[list[int]] = [[] for _ in range(n_labels)]
        nodes = fit_links(X, Y, none, range(n_labels), LinkSettings(C, "logistic", self.tol))
        edges = self._tree(Y)
        seen = np.zeros((len(edges), 4), dtype=bool)
        weights, gap = np.zeros((len(edges), 4, X.shape[1] + 1)), nodes.gap
        inputs, columns = Inputs(X, 1.0), Y.tocsc().astype(np.intp)
        for edge, (a, b) in enumerate(edges):
            state = columns[:, [a, b]].toarray() @ [2, 1]
            if self.pair == "and":
                state = np.where(state == 3, 3, 0)
            there, code = np.unique(state, return_inverse=True)
            seen[edge, there] = True
            if len(there) > 1:
                pieces = SoftmaxProblem(inputs, code, len(there), np.full(n, C))
                weights[edge, there], reached = pieces.solve(self.tol)
                gap = max(gap, reached)
        return {
            "edges_": np.array(edges, dtype=np.int64).reshape(-1, 2),
            "coef_": nodes.coef,
            "intercept_": nodes.intercept,
            "pair_coef_": weights[:, :, :-1].copy(),
            "pair_intercept_": weights[:, :, -1].copy(),
            "pair_seen_": seen,
            "piece_gap_": gap,
            "C_": C,
        }

    def _tree(self, Y: sp.csr_array) -> list[Clique]:
        n, n_labels = Y.shape
        if self.tree == "mutual_information":
            return chow_liu(read_labels(Y), np.ones(n), np.arange(n_labels))
        cells = Y.astype(np.int64)
        together = (cells.T @ cells).toarray()
        first, second = np.triu_indices(n_labels, k=1)
        group = np.arange(n_labels)
        edges: list[Clique] = []
        for k in np.argsort(-together[first, second], kind="stable"):
            a, b = int(first[k]), int(second[k])
            if group[a] != group[b]:
                group[group == group[b]] = group[a]
                edges.append((a, b))
        return sorted(edges)

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        n_labels = len(self.coef_)
        edges = [(int(a), int(b)) for a, b in self.edges_]
        inference = compiled(n_labels, [*((k,) for k in range(n_labels)), *edges], "auto", 1)
        scores = np.empty((X.shape[0], n_labels))
        for rows in row_blocks(X.shape[0], n_labels + 4 * len(edges)):
            scores[rows] = inference.max_marginals(self._characters(X[rows]), 1)
        return scores

    def _characters(self, X: Any) -> Array:
        """Coefficients of labels and pairs, as signs and products of signs, in the value of a label set."""
        n_labels = len(self.coef_)
        degree = np.bincount(self.edges_.ravel(), minlength=n_labels)
        share = 1.0 - degree if self.normalised else np.ones(n_labels)
        odds = np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_)
        theta = np.empty((X.shape[0], n_labels + len(self.edges_)))
        theta[:, :n_labels] = 0.5 * share * odds
        for edge, (a, b) in enumerate(self.edges_):
            logs = self._pair_logs(X, edge)
            theta[:, n_labels + edge] = logs @ (SIGNS[:, 0] * SIGNS[:, 1]) / 4
            theta[:, a] += logs @ SIGNS[:, 0] / 4
            theta[:, b] += logs @ SIGNS[:, 1] / 4
        return theta

    def _pair_logs(self, X: Any, edge: int) -> Array:
        """Log-probabilities of the four states of a pair, at least that of the floor."""
        lowest = np.log(float(self.floor))
        logs = np.full((X.shape[0], 4), lowest)
        seen = self.pair_seen_[edge]
        scores = safe_sparse_dot(X, self.pair_coef_[edge, seen].T, dense_output=True)
        logs[:, seen] = np.maximum(log_softmax(scores + self.pair_intercept_[edge, seen], axis=1), lowest)
        if self.pair == "and":
            logs[:, 1] = logs[:, 2] = logs[:, 0]
        return logs

    def _varying_rules(self) -> dict[str, Rule]:
        def edges(value: Any, sizes: Sizes) -> None:
            array_of("edges 2", 0, "varying", "i8")(value, sizes)
            expect(np.all(value[:, 0] < value[:, 1]), "must list each pair in order")
            links = sp.csr_array((np.ones(len(value)), (value[:, 0], value[:, 1])), shape=(sizes["varying"],) * 2)
            pieces, _ = connected_components(links, directed=False)
            expect(len(value) == sizes["varying"] - 1 and pieces == 1, "must be those of a tree")

        return {
            "edges_": edges,
            "coef_": array_of("varying features"),
            "intercept_": array_of("varying"),
            "pair_coef_": array_of("edges 4 features"),
            "pair_intercept_": array_of("edges 4"),
            "pair_seen_": array_of("edges 4", 0, 1, "b1"),
            "piece_gap_": number(),
            "C_": number(0.0),
        }
