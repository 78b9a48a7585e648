"""A part of the rows of a linear M3L problem at work: built for the native core, kept in step with a driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators.m3l.blocks import Block, aligned_labels, block_weights, occurring, read_block, widened
from multimargin.estimators.m3l.linear_problem import prior_arrays
from multimargin.estimators.m3l.plans import Plan
from multimargin.weights import CellCosts

__all__ = ["Part", "PartAnswer", "PartSums"]


@dataclass(frozen=True)
class PartAnswer:
    """What a visit has found: plain arrays, to be sent anywhere.

    Attributes
    ----------
    change : ndarray of shape (n_features_of_the_part + 1, width)
        U, in the precision of the plan.
    own : ndarray of shape (n_features_of_the_part + 1,)
        :math:`|U_j|^2`.
    hinge, linear, change_linear : ndarray of shape (n_labels,), or (1,) with a prior
        Losses at the state given, sum of y m beta before the visit, and by how much it grew.
    complete : bool
        False where the time limit came first.
    local_gap : float
        Sum over the cells of c max(0, t) - b t, t the gradient of the dual before the first step in a cell.
    """

    change: NDArray[Any]
    own: NDArray[np.float64]
    hinge: NDArray[np.float64]
    linear: NDArray[np.float64]
    change_linear: NDArray[np.float64]
    complete: bool
    local_gap: float


@dataclass(frozen=True)
class PartSums:
    """Sums over the rows of a part: ``V`` of shape (n_features_of_the_part + 1, n_labels); others by label."""

    V: NDArray[np.float64]
    linear: NDArray[np.float64]
    hinge: NDArray[np.float64]


class Part:
    """A part of the rows at work: what it holds, and its place in the sequence of rounds.

    A part is settled up to a round, ``committed``, and may hold the change of a later one, which counts only when the
    driver says so. Every call is idempotent: it may be repeated, come late or be left out.

    Parameters
    ----------
    plan : Plan
    block : Block
    n_jobs : int
        Threads.
    renumber : bool
        Whether to leave out features that do not occur in the part.

    Attributes
    ----------
    features : ndarray
        Features that occur, ascending, or all. What goes in and out has a row for each of them and one for the
        constant one.
    squares : ndarray of shape (n_features_of_the_part + 1,)
        Sums of the squares of their values, the constant one last; zeros with ``plan.newton``.
    """

    def __init__(self, plan: Plan, block: Block, n_jobs: int = 1, *, renumber: bool = True):
        X, labels, _ = read_block(block)
        labels = aligned_labels(labels, plan.labels, block.name)
        renumber = renumber and not plan.newton
        self.features = occurring(X) if renumber else np.arange(plan.n_features, dtype=np.int32)
        X = _renumbered(X, self.features) if renumber else widened(X, plan.n_features)
        X = (X.toarray() if plan.newton and sp.issparse(X) else X).astype(plan.dtype, copy=False)
        given = block_weights(labels, block)
        costs = CellCosts(plan.C * given.row, plan.positive, plan.negative, given.cells)
        task = plan.task(plan.problem(X, labels, costs, n_jobs))
        self.n_rows = int(X.shape[0])
        self.dtype = plan.dtype
        given_rows: dict[str, Any] = {
            "rows": task.problem.rows,
            "labels": task.problem.cells,
            "margins": task.margins.native(),
            "bias": plan.bias,
            "threads": n_jobs,
        }
        self._native: Any
        if plan.newton:
            self._native = _core.M3LNewtonPartition(**given_rows)
            self.squares = np.zeros(plan.n_features + 1)
        else:
            coupling: dict[str, Any] = prior_arrays(plan.prior)
            self._native = _core.M3LPartition(**given_rows, **coupling)
            self.squares = self._native.squares
        whole = len(self.features) == plan.n_features
        self._rows_of = slice(None) if whole else np.append(self.features, plan.n_features)
        self.committed = 0
        self._pending = 0

    @property
    def rows_of(self) -> Any:
        """Rows of a state of all features that belong to this part: an index."""
        return self._rows_of

    def settle(self, committed: int, theta: NDArray[np.float64] | None) -> bool:
        """Take over the driver's word on the last round; False where this part has missed a round."""
        if self._pending:
            keep = self._pending == committed
            self._native.settle(theta if keep else None)
            self.committed = self._pending if keep else self.committed
            self._pending = 0
        return self.committed == committed

    def visit(
        self,
        state: NDArray[Any],
        scale: NDArray[np.float64],
        *,
        number: int,
        passes: int,
        seed: int,
        time_limit: float = np.inf,
    ) -> PartAnswer:
        """Improve the dual variables from this state; the change waits for :meth:`settle`.

        Parameters
        ----------
        state : array of shape (n_features_of_the_part + 1, width)
        scale : array of shape (n_features_of_the_part + 1,)
        number : int
            The round.
        passes, seed : int
        time_limit : float
            Seconds.
        """
        self._pending = number
        return self._visit(state, scale, True, passes, seed, time_limit)

    def advance(
        self, state: NDArray[Any], scale: NDArray[np.float64], *, passes: int, seed: int, time_limit: float = np.inf
    ) -> PartAnswer:
        """As :meth:`visit`, with a change that stands, and losses of 0 in place of those at the state given.

        For parts that are visited one after the other.
        """
        return self._visit(state, scale, False, passes, seed, time_limit)

    def _visit(
        self, state: NDArray[Any], scale: NDArray[Any], revocable: bool, passes: int, seed: int, time_limit: float
    ) -> PartAnswer:
        found = self._native.visit(
            np.ascontiguousarray(state, dtype=self.dtype),
            np.ascontiguousarray(scale, dtype=np.float64),
            passes=passes,
            seed=seed,
            evaluate=revocable,
            revocable=revocable,
            time_limit=time_limit,
        )
        hinge = np.zeros_like(found.linear) if found.hinge is None else np.asarray(found.hinge)
        sums = hinge, found.linear, found.change_linear
        return PartAnswer(found.change, found.own, *sums, found.complete, found.local_gap)

    def value(self, U: NDArray[np.float64], tau: NDArray[np.float64], *, number: int) -> _core.M3LNewtonValue:
        """Return sums at U (core/m3l/partition_newton.hpp); a step to beta(z) waits for :meth:`settle`."""
        self._pending = number
        found: _core.M3LNewtonValue = self._native.value(U, tau)
        return found

    def system(
        self, U: NDArray[np.float64], tau: NDArray[np.float64], marked: NDArray[np.bool_]
    ) -> _core.M3LNewtonValue:
        """Return sums at U, and the Newton systems of the labels marked."""
        found: _core.M3LNewtonValue = self._native.system(U, tau, marked)
        return found

    def search(
        self, U: NDArray[np.float64], direction: Any, tau: NDArray[np.float64], lengths: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return by how much the smoothed losses change along a direction, of shape (n_lengths, n_labels)."""
        return np.asarray(self._native.search(U, direction, tau, lengths))

    def sum(self, committed: int, theta: NDArray[np.float64] | None, weights: NDArray[np.float64]) -> PartSums:
        """Sum afresh, in double precision, after settling. A part that missed a round begins again at zero.

        Parameters
        ----------
        committed, theta
            As in :meth:`settle`.
        weights : array of shape (n_labels, n_features_of_the_part + 1)
            The last column the intercepts.
        """
        if not self.settle(committed, theta):
            self.beta = np.zeros((self.n_rows, len(weights)), self.dtype)
            self.committed = committed
        found = self._native.sum(np.ascontiguousarray(weights, dtype=np.float64))
        return PartSums(found.V, found.linear, found.hinge)

    @property
    def beta(self) -> NDArray[Any]:
        """Signed dual variables, of shape (n_rows, n_labels)."""
        return np.asarray(self._native.beta)

    @beta.setter
    def beta(self, values: NDArray[Any]) -> None:
        self._native.beta = np.ascontiguousarray(values, dtype=self.dtype)

    def stop(self) -> None:
        """End the call at work in another thread, and every later one, with InterruptedError."""
        self._native.stop()


def _renumbered(X: Any, features: NDArray[np.int32]) -> Any:
    if not sp.issparse(X) or len(features) == X.shape[1]:
        return X
    place = np.zeros(X.shape[1], dtype=np.int32)
    place[features] = np.arange(len(features), dtype=np.int32)
    return sp.csr_matrix((X.data, place[X.indices], X.indptr), shape=(X.shape[0], len(features)))
