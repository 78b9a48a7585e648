r"""Linear classifiers of labels whose inputs hold other labels: the links of chains and label networks.

The link of label l minimises :math:`\tfrac12 |w_l|^2 + \tfrac12 |v_l|^2 + C \sum_i \phi(s_{il} (w_l^\top \psi_i + r
v_l^\top y_{i, pa(l)}))` with :math:`\psi_i = (x_i, 1)`, the true labels :math:`y \in \{0, 1\}` of its parents in
training, and a scale r of these. Scores are computed label after label, with the labels predicted so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._smooth_losses import SMOOTH_LOSSES, SmoothProblem
from multimargin.estimators.certificate import Certificate

__all__ = ["LinkSettings", "Links", "fit_links"]

Array = NDArray[np.float64]

MOST_STEPS = 1000


@dataclass(frozen=True)
class LinkSettings:
    """Cost of an error, loss, relative gap of each link, and scale of labels as inputs."""

    C: float
    loss: str
    tol: float
    parent_scale: float = 1.0


@dataclass(frozen=True)
class Links:
    """Trained links.

    Attributes
    ----------
    coef : ndarray of shape (n_labels, n_features)
    intercept : ndarray of shape (n_labels,)
    parents : ndarray of shape (n_labels, n_labels)
        Row l holds the weights of other labels, as numbers 0 and 1, in the score of label l.
    order : ndarray of shape (n_labels,)
        Parents come before their children.
    gap : float
        Largest relative gap of a link.
    """

    coef: Array
    intercept: Array
    parents: Array
    order: NDArray[np.int64]
    gap: float = 0.0

    def scores(self, X: Any) -> Array:
        """Scores of the labels, each with the predictions of its parents."""
        scores = np.asarray(safe_sparse_dot(X, self.coef.T, dense_output=True) + self.intercept, dtype=np.float64)
        for label in self.order:
            used = np.flatnonzero(self.parents[label])
            if len(used):
                scores[:, label] += (scores[:, used] > 0) @ self.parents[label, used]
        return scores


def fit_links(
    X: Any,
    Y: sp.csr_array,
    parents: Sequence[Sequence[int]],
    order: Sequence[int],
    settings: LinkSettings,
    weight: Array | float = 1.0,
) -> Links:
    """Train a link for each label, on rows with these weights; those without parents together."""
    n_labels, d = Y.shape[1], X.shape[1]
    weights = Links(np.zeros((n_labels, d)), np.zeros(n_labels), np.zeros((n_labels, n_labels)), np.array(order))
    columns, gap = Y.tocsc(), 0.0
    alone = [label for label in range(n_labels) if not parents[label]]
    groups: list[tuple[list[int], tuple[int, ...]]] = [(alone, ())] if alone else []
    groups += [([label], tuple(parents[label])) for label in range(n_labels) if parents[label]]
    for labels, given in groups:
        beside = settings.parent_scale * columns[:, list(given)].toarray()
        inputs = Inputs(_with_labels(X, beside), 1.0)
        sign = 2.0 * columns[:, labels].toarray() - 1.0
        cost = np.broadcast_to(settings.C * np.asarray(weight, dtype=np.float64).reshape(-1, 1), (len(sign), 1))
        problem = SmoothProblem(inputs, sign, cost, SMOOTH_LOSSES[settings.loss])
        W, _, _ = problem.solve(_core.Limits(tol=settings.tol, max_iter=MOST_STEPS, threads=1))
        bounds = problem.bounds(W)
        assert bounds.dual is not None
        gap = max(gap, Certificate.of(bounds.primal, bounds.dual, settings.tol).relative_gap)
        weights.coef[labels], weights.intercept[labels] = W[:, :d], W[:, -1]
        weights.parents[np.ix_(labels, list(given))] = settings.parent_scale * W[:, d:-1]
    return Links(weights.coef, weights.intercept, weights.parents, weights.order, gap)


def _with_labels(X: Any, beside: Array) -> Any:
    if not beside.shape[1]:
        return X
    return sp.csr_array(sp.hstack([X, beside], format="csr")) if sp.issparse(X) else np.hstack([X, beside])
