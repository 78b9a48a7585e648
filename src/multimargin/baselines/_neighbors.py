"""The nearest training rows, by blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from multimargin.errors import InputError
from multimargin.estimators.predictor import row_blocks

__all__ = ["METRICS", "nearest_rows", "refuse_few_rows", "voted"]

METRICS = ("euclidean", "cosine")
ROUNDING = 1e-9
"""Share of squared lengths by which distances through products may be wrong."""


def refuse_few_rows(n_neighbors: int, n_rows: int, needed: int) -> None:
    """Refuse fewer training rows than are needed."""
    if n_rows < needed:
        msg = (
            f"n_neighbors={n_neighbors} needs at least {needed} training rows (samples); got n_samples = {n_rows}. "
            "Lower n_neighbors."
        )
        raise InputError(msg)


def nearest_rows(
    training: Any, X: Any, k: int, metric: str = "euclidean"
) -> Iterator[tuple[slice, NDArray[np.intp], NDArray[np.float64]]]:
    """Find the k nearest training rows of every row, the nearest first; of equally near ones the first.

    Parameters
    ----------
    training, X : array or csr matrix
        X may be None: the training rows, each among the others.
    k : int
    metric : {"euclidean", "cosine"}
        ``"cosine"`` is 1 less the cosine of the angle, 1 for a row of zeros.

    Yields
    ------
    rows : slice
        Which rows of X.
    neighbors : ndarray of shape (n_rows, k)
        Numbers of training rows.
    distances : ndarray of shape (n_rows, k)
    """
    training = training.astype(np.float64, copy=False)
    asked = training if X is None else X.astype(np.float64, copy=False)
    if metric == "cosine":
        training, asked = normalize(training), normalize(asked)
    own, lengths = _squares(asked), _squares(training)
    for rows in row_blocks(asked.shape[0], training.shape[0]):
        products = asked[rows] @ training.T
        products = products.toarray() if sp.issparse(products) else products
        distances = 1.0 - products if metric == "cosine" else own[rows, None] + lengths - 2.0 * products
        if X is None:
            distances[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.inf
        slack = ROUNDING * (own[rows] + lengths.max() if metric == "euclidean" else np.ones(len(distances)))
        last = np.partition(distances, k - 1, axis=1)[:, k - 1] + slack
        n_near = int(np.max(np.sum(distances <= last[:, None], axis=1)))
        near = np.sort(np.argpartition(distances, n_near - 1, axis=1)[:, :n_near], axis=1)
        if metric == "euclidean" and not sp.issparse(training):
            block = asked[rows].toarray() if sp.issparse(asked) else asked[rows]
            exact = _differences(block, training, near)
            if X is None:
                exact[near == np.arange(rows.start, rows.stop)[:, None]] = np.inf
        else:
            exact = np.maximum(np.take_along_axis(distances, near, axis=1), 0.0)
        order = np.argsort(exact, axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(exact, order, axis=1)
        yield rows, np.take_along_axis(near, order, axis=1), np.sqrt(found) if metric == "euclidean" else found


def voted(near: NDArray[np.intp], votes: NDArray[Any], Y: sp.csr_array) -> NDArray[Any]:
    """Sum the labels of the neighbours of each row, times the votes these have."""
    starts = np.arange(0, near.size + 1, near.shape[1])
    graph = sp.csr_array((votes.ravel(), near.ravel(), starts), shape=(len(near), Y.shape[0]))
    return np.asarray((graph @ Y).toarray())


def _squares(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.power(2).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)).ravel()


def _differences(X: Any, training: Any, near: NDArray[np.intp]) -> NDArray[np.float64]:
    """Squared distances to some training rows of each row, without cancellation."""
    out = np.empty(near.shape)
    for rows in row_blocks(len(X), near.shape[1] * X.shape[1]):
        out[rows] = np.square(training[near[rows]] - X[rows, None]).sum(axis=2)
    return out
