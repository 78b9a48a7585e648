"""LSG21 of Cai, Nie, Cai and Huang (ICCV 2013): least squares with a norm over linked labels."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

__all__ = ["LSG21"]

FEWEST = 1e-8
"""Squared length below which a group counts as zero in the weights of the next round."""


class LSG21(BaseEstimator):
    r"""Least squares in which linked labels share features.

    The authors' equations were not at hand. This is the simplest problem with the properties they describe: with
    labels s in {-1, 1}, and groups g of two labels whose correlation is at least ``correlation`` in absolute value
    (a label without such a partner is a group of its own), it minimises

    .. math:: \tfrac{1}{2n} |S - X W - 1 b^\top|_F^2 + \lambda \sum_g \sum_d |W_{d, g}|_2

    by reweighting: a ridge regression for each label, whose penalties come from the lengths of the round before. The
    objective falls in every round; there is no certificate.

    Parameters
    ----------
    penalty : float
        Lambda.
    correlation : float
        Least absolute correlation of linked labels.
    rounds : int
        Largest number of rounds; fewer if the objective changes by less than a millionth.
    """

    def __init__(self, penalty: float, correlation: float = 0.1, rounds: int = 200) -> None:
        self.penalty = penalty
        self.correlation = correlation
        self.rounds = rounds

    def fit(self, X: Any, Y: Any) -> Self:
        """Train on dense rows and 0/1 labels."""
        X, S = np.asarray(X, dtype=float), 2.0 * np.asarray(Y, dtype=float) - 1.0
        n = len(X)
        self.x_mean_, self.s_mean_ = X.mean(axis=0), S.mean(axis=0)
        X, S = X - self.x_mean_, S - self.s_mean_
        groups = linked_labels(S, self.correlation)
        gram, moment = X.T @ X / n, X.T @ S / n
        W = np.linalg.solve(gram + self.penalty * np.eye(len(gram)), moment)
        self.objectives_: list[float] = []
        for _ in range(self.rounds):
            weights = np.zeros_like(W)
            for group in groups:
                weights[:, group] += 1.0 / np.sqrt(np.sum(W[:, group] ** 2, axis=1) + FEWEST)[:, None]
            for label in range(W.shape[1]):
                W[:, label] = np.linalg.solve(gram + self.penalty * np.diag(weights[:, label]), moment[:, label])
            self.objectives_.append(self._objective(X, S, W, groups))
            if len(self.objectives_) > 1 and self.objectives_[-2] - self.objectives_[-1] < 1e-6 * self.objectives_[-1]:
                break
        self.coef_ = W
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the labels with a positive score."""
        scores = (np.asarray(X, dtype=float) - self.x_mean_) @ self.coef_ + self.s_mean_
        return np.asarray(scores > 0, dtype=np.int64)

    def _objective(
        self, X: NDArray[np.float64], S: NDArray[np.float64], W: NDArray[np.float64], groups: list[list[int]]
    ) -> float:
        lengths = sum(float(np.sqrt(np.sum(W[:, group] ** 2, axis=1) + FEWEST).sum()) for group in groups)
        return 0.5 * float(np.sum((S - X @ W) ** 2)) / len(X) + self.penalty * lengths


def linked_labels(S: NDArray[np.float64], correlation: float) -> list[list[int]]:
    """Pairs of correlated labels, and labels without a partner by themselves."""
    length = np.sqrt(np.sum(S**2, axis=0))
    cosine = (S.T @ S) / np.maximum(np.outer(length, length), np.finfo(float).tiny)
    pairs = [[a, b] for a, b in combinations(range(S.shape[1]), 2) if abs(cosine[a, b]) >= correlation]
    alone = set(range(S.shape[1])) - {label for pair in pairs for label in pair}
    return [*pairs, *([label] for label in sorted(alone))]
