"""Training data of clique models, and the scores of their rows with the loss in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.estimators.cliques.graph import Clique
from multimargin.estimators.cliques.joint_features import JointColumns
from multimargin.estimators.contract import Problem

__all__ = ["AugmentedRows", "CliqueData", "characters"]


@dataclass(frozen=True)
class CliqueData:
    """A problem as the clique solvers and their certifier see it.

    ``bias`` is the value of the constant feature, ``joint`` which columns belong to cliques, if some do.
    """

    problem: Problem
    bias: float
    joint: JointColumns | None = None

    @property
    def X(self) -> Any:
        """The rows."""
        return self.problem.X

    @property
    def n_labels(self) -> int:
        """Number of labels, those left out included."""
        return self.problem.labels.n_labels

    @property
    def cost(self) -> NDArray[np.float64]:
        """Cost of each row: C times its weight."""
        return self.problem.costs.row

    @property
    def largest_loss(self) -> float:
        """Loss of the worst labelling of a row that costs 1, at most."""
        costs = self.problem.costs
        return float(np.maximum(costs.positive, costs.negative).sum())

    @property
    def threads(self) -> int:
        """Threads to use."""
        return self.problem.n_jobs

    @cached_property
    def bits(self) -> _core.LabelBits:
        """Labels and costs for the native core."""
        return _core.LabelBits(self.problem.cells)

    @property
    def usable(self) -> NDArray[np.int64]:
        """Labels that are not left out."""
        return np.flatnonzero(~self.problem.constant)

    def weights(self, signs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cost of a mistake at labels present (signs above 0) and absent, where the row costs 1."""
        costs = self.problem.costs
        return np.where(signs > 0, costs.positive, costs.negative)

    def signs(self, rows: slice) -> NDArray[np.float64]:
        """1 for the labels present in a row, -1 for those absent, 0 for those unknown or left out."""
        labels = self.problem.labels
        signs = np.where(labels.positives[rows].toarray(), 1.0, -1.0)
        if labels.missing is not None:
            signs[labels.missing[rows].toarray().astype(bool)] = 0.0
        signs[:, self.problem.constant] = 0.0
        return signs


def characters(signs: NDArray[np.float64], subsets: Sequence[Clique]) -> NDArray[np.float64]:
    """``chi_T`` of labellings given as signs, for every subset T; 0 where a label of T is not known."""
    chi = np.empty((len(signs), len(subsets)))
    sizes = np.array([len(t) for t in subsets])
    for size in np.unique(sizes):
        at = np.flatnonzero(sizes == size)
        members = np.array([subsets[k] for k in at.tolist()])
        product = signs[:, members[:, 0]]
        for column in members.T[1:]:
            product *= signs[:, column]
        chi[:, at] = product
    return chi


class AugmentedRows:
    """Some rows, in double precision: what a labelling y gains over the truth, ``loss(y) + F(y) - F(truth)``.

    It is ``half_loss + augmented . chi(y) - truth``, with what :meth:`scores` gives; ``2 ** free`` labellings differ in
    unknown labels only.
    """

    def __init__(self, data: CliqueData, subsets: Sequence[Clique], rows: slice = slice(None)):
        self.n_labels = data.n_labels
        self.cost = data.cost[rows]
        self.X = data.X[rows].astype(np.float64, copy=False)
        self.bias = data.bias
        signs = data.signs(rows)
        self.chi = characters(signs, subsets)
        self.known = np.abs(self.chi)
        self.lost = 0.5 * data.weights(signs) * signs
        self.half_loss = np.abs(self.lost).sum(axis=1)
        self.free = (signs == 0).sum(axis=1)

    def scores(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores with the loss in them, one column per subset, and the score of the truth."""
        scores = np.ascontiguousarray(safe_sparse_dot(self.X, coef.T, dense_output=True) + intercept)
        scores *= self.known
        truth = np.einsum("it,it->i", scores, self.chi)
        scores[:, : self.n_labels] -= self.lost
        return scores, truth

    def products(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """``q_T`` of distributions with these moments: one row per subset, the last column for the constant feature."""
        return self._sums(self.X, self.chi - moments, self.bias)

    def spreads(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """``sum_i C_i x_ij^2`` times the variance of ``chi_T``, in the same form."""
        squares = self.X.multiply(self.X).tocsr() if sp.issparse(self.X) else self.X**2
        return self._sums(squares, self.known - moments**2, self.bias**2)

    def _sums(self, X: Any, values: NDArray[np.float64], bias: float) -> NDArray[np.float64]:
        values = self.cost[:, None] * values
        sums = (X.T @ values).T if sp.issparse(X) else values.T @ X
        return np.column_stack([sums, bias * values.sum(axis=0)])

    def softmax(
        self,
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        temperature: float,
        inference: _core.CliqueInference,
        threads: int,
    ) -> tuple[float, float, NDArray[np.float64]]:
        """Softmax margin of the rows; expected loss plus temperature times entropy of their distributions; moments."""
        scores, truth = self.scores(coef, intercept)
        sums = inference.sums(scores / temperature, threads)
        moments = sums.moments * self.known
        soft = self.half_loss + temperature * (sums.log_partition - self.free * np.log(2.0))
        expected = np.einsum("it,it->i", scores, moments)
        expected += np.einsum("ik,ik->i", self.lost, moments[:, : self.n_labels])
        return float(self.cost @ (soft - truth)), float(self.cost @ (soft - expected)), moments
