"""A part of the rows of a linear M3L problem: read, described, built for the native core, kept in step with a driver.

The way of a part: a :class:`Block` of rows is read and described by :func:`describe_block`; from the descriptions of
all parts :func:`make_plan` makes one :class:`Plan` (names and counts of the labels, costs, prior, precision), which is
small and can be sent anywhere; plan and block make a :class:`Part`, which then takes part in rounds (rounds.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.errors import InputError
from multimargin.estimators.contract import LARGEST_SINGLE, SMALLEST_SINGLE
from multimargin.estimators.m3l.base import M3LTask, Prior
from multimargin.estimators.m3l.linear import LinearM3L
from multimargin.estimators.m3l.linear_problem import prior_arrays
from multimargin.estimators.m3l.losses import LOSSES
from multimargin.estimators.predictor import largest_entry
from multimargin.estimators.problem import Problem
from multimargin.kernels import squared_lengths
from multimargin.labels import LabelForm, LabelMatrix, read_labels
from multimargin.weights import CellCosts, cell_costs, cell_margins, row_weights

__all__ = [
    "Block",
    "BlockFacts",
    "LabelTotals",
    "Part",
    "PartAnswer",
    "PartSums",
    "Plan",
    "aligned_labels",
    "block_weights",
    "describe_block",
    "make_plan",
    "read_block",
    "widened",
]


@dataclass(frozen=True)
class Block:
    """Rows as a user gives them.

    Attributes
    ----------
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
    y : labels of the rows, in any form
    sample_weight : array of shape (n_samples,) or (n_samples, n_labels), optional
    name : str
        What error messages call it.
    open_ended : bool
        Whether labels that it does not name are absent from its rows, and features beyond its last one 0, as in a
        LIBSVM file.
    checked : bool
        Whether X and y are what :func:`read_block` made of them before.
    """

    X: Any
    y: Any
    sample_weight: Any = None
    name: str = "a part"
    open_ended: bool = False
    checked: bool = False


@dataclass(frozen=True)
class LabelTotals(LabelMatrix):
    """The labels of all parts together: names and counts, without rows.

    Attributes
    ----------
    totals : tuple of two ndarrays of shape (n_labels,)
        Positive and negative cells.
    """

    totals: tuple[NDArray[np.int64], NDArray[np.int64]] = field(default=(np.empty(0, np.int64), np.empty(0, np.int64)))

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of positive and of negative cells per label, over all parts."""
        return self.totals


@dataclass(frozen=True)
class BlockFacts:
    """What of a block the plan depends on.

    Attributes
    ----------
    name : str
    n_rows, n_features, n_entries : int
    dtype : dtype
    names : ndarray of shape (n_labels,)
        Label names; sorted, of label sets.
    form : LabelForm
    values : ndarray
        For a 1-D y, its distinct values.
    positive, negative : ndarray of shape (n_labels,)
        Cells of either kind.
    columns : dict
        ``feature_names_in_``, if X was a DataFrame.
    features : ndarray
        Those that occur, ascending.
    largest : float
        The largest absolute value of X.
    weights : tuple of float
        Smallest above 0 and largest of ``sample_weight``; 1 without.
    weight, squares : float
        Sum of the weights of the rows, and of the squared lengths times them: by these ``C="scale"`` is measured.
    open_ended : bool
        As of the block.
    """

    name: str
    n_rows: int
    n_features: int
    n_entries: int
    dtype: Any
    names: NDArray[Any]
    form: LabelForm
    values: NDArray[Any]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]
    columns: dict[str, Any]
    features: NDArray[np.int32]
    largest: float
    weights: tuple[float, float]
    weight: float
    squares: float
    open_ended: bool


@dataclass(frozen=True)
class Plan:
    """The problem that all parts share.

    Attributes
    ----------
    labels : LabelTotals
    n_rows, n_features : int
    dtype : dtype
        Precision in which the parts work.
    positive, negative : ndarray of shape (n_labels,)
        Costs of the cells of a label, without C.
    constant : ndarray of shape (n_labels,)
        Labels that are left out and predicted constant.
    prior : None, ndarray or LowRankPrior
    bias : float
        Value of the constant feature.
    C : float
    loss : str
    margin : object
    columns : dict
        ``n_features_in_`` and, for DataFrames, ``feature_names_in_``.
    """

    labels: LabelTotals
    n_rows: int
    n_features: int
    dtype: Any
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    constant: NDArray[np.bool_]
    prior: Prior
    bias: float
    C: float
    loss: str
    margin: Any
    columns: dict[str, Any]

    def problem(self, X: Any, labels: LabelMatrix, costs: CellCosts, n_jobs: int = 1) -> Problem:
        """Return the problem of some rows, or of none."""
        return Problem(
            X=X,
            labels=labels,
            C=self.C,
            costs=costs,
            constant=self.constant,
            prior=self.prior,
            n_jobs=n_jobs,
            seed=0,
            columns=self.columns,
        )

    @property
    def scale(self) -> float:
        """Cost of a typical cell, by its margin."""
        costs = np.maximum(self.positive, self.negative)[~self.constant]
        margins = cell_margins(self.labels, self.margin)
        margin = float(margins.positive.mean() + margins.negative.mean()) / 2
        return self.C * (float(costs.mean()) if costs.size else 1.0) / (margin or 1.0)

    def task(self, problem: Problem) -> M3LTask:
        """Return a problem with the margins of its cells."""
        model = LinearM3L(C=self.C, loss=self.loss, margin=self.margin)
        return M3LTask(problem, model._margins(problem))


def read_block(block: Block) -> tuple[Any, LabelMatrix, dict[str, Any]]:
    """Rows and labels of a block, checked, and the names of its columns."""
    n = np.shape(block.X)[0]
    if block.checked:
        return block.X, block.y, {}
    if n == 0:
        X = sp.csr_matrix(block.X, dtype=np.float32) if sp.issparse(block.X) else np.asarray(block.X, dtype=np.float32)
        return X, _no_labels(block.y), {"n_features_in_": X.shape[1]}
    try:
        X, columns = LinearM3L()._read_X(block.X)
        return X, read_labels(block.y, n_samples=n), columns
    except ValueError as error:
        msg = f"{block.name}: {error}"
        raise InputError(msg) from error


def describe_block(block: Block, columns: dict[str, Any] | None = None) -> BlockFacts:
    """Read a block and say what the plan needs to know of it; ``columns``: of one that is checked already."""
    X, labels, found = read_block(block)
    positive, negative = labels.counts()
    weights = (1.0, 1.0)
    if block.sample_weight is not None:
        given = np.asarray(block.sample_weight, dtype=np.float64)
        above = given[given > 0]
        weights = (float(above.min()), float(above.max())) if above.size else (1.0, 1.0)
    counted = row_weights(labels, block_weights(labels, block))
    return BlockFacts(
        name=block.name,
        n_rows=int(X.shape[0]),
        n_features=int(X.shape[1]),
        n_entries=int(X.nnz if sp.issparse(X) else X.size),
        dtype=X.dtype,
        names=labels.names,
        form=labels.form,
        values=labels.values,
        positive=positive,
        negative=negative,
        columns=found if columns is None else columns,
        features=_occurring(X),
        largest=largest_entry(X),
        weights=weights,
        weight=float(counted.sum()),
        squares=squared_lengths(X, counted),
        open_ended=block.open_ended or labels.form.kind == "sets",
    )


def make_plan(model: LinearM3L, facts: Sequence[BlockFacts]) -> Plan:
    """Check that the parts fit each other and the parameters, and say what they have in common."""
    if isinstance(model.prior, str) or callable(model.prior):
        msg = (
            f"prior={model.prior!r} is a recipe, made from the labels of all rows, which no part has. Compute it "
            "first, for example priors.from_labels(Y) on some of the rows, and give the matrix."
        )
        raise InputError(msg)
    filled = [one for one in facts if one.n_rows]
    if not filled:
        msg = "The parts have no rows at all; at least one row is needed."
        raise InputError(msg)
    columns, n_features = _common_columns(filled)
    labels = _common_labels(filled)
    if not sum(labels.totals[0] + labels.totals[1]):
        msg = "Y holds no known label at all: every cell is NaN. Give at least one known cell."
        raise InputError(msg)
    prior = model._checked_prior(labels, None, reset=True)
    constant = model._constant_labels(labels, prior)
    costs = cell_costs(labels, model.class_weight, None, constant)
    C = _cost_of_error(model, filled)
    plan = Plan(
        labels=labels,
        n_rows=sum(one.n_rows for one in filled),
        n_features=n_features,
        dtype=_precision(C, costs, filled),
        positive=costs.positive,
        negative=costs.negative,
        constant=constant,
        prior=prior,
        bias=model._constant_feature(),
        C=C,
        loss=model.loss,
        margin=model.margin,
        columns=columns,
    )
    if np.ndim(model.margin) == 2:
        msg = "margin must be given by label or class where rows come in parts; got a matrix of cells."
        raise InputError(msg)
    LOSSES[model.loss].check(plan.problem(np.empty((0, n_features)), labels, costs))
    return plan


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
    """

    change: NDArray[Any]
    own: NDArray[np.float64]
    hinge: NDArray[np.float64]
    linear: NDArray[np.float64]
    change_linear: NDArray[np.float64]
    complete: bool


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
        Sums of the squares of their values, the constant one last.
    """

    def __init__(self, plan: Plan, block: Block, n_jobs: int = 1, *, renumber: bool = True):
        X, labels, _ = read_block(block)
        labels = aligned_labels(labels, plan.labels, block.name)
        self.features = _occurring(X) if renumber else np.arange(plan.n_features, dtype=np.int32)
        X = _renumbered(X, self.features) if renumber else widened(X, plan.n_features)
        X = X.astype(plan.dtype, copy=False)
        given = block_weights(labels, block)
        costs = CellCosts(plan.C * given.row, plan.positive, plan.negative, given.cells)
        task = plan.task(plan.problem(X, labels, costs, n_jobs))
        self.n_rows = int(X.shape[0])
        self.dtype = plan.dtype
        self._native = _core.M3LPartition(
            rows=task.problem.rows,
            labels=task.problem.cells,
            margins=task.margins.native(),
            bias=plan.bias,
            threads=n_jobs,
            **prior_arrays(plan.prior),
        )
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
        """As :meth:`visit`, with a change that stands: for parts that are visited one after the other."""
        return self._visit(state, scale, False, passes, seed, time_limit)

    def _visit(
        self, state: NDArray[Any], scale: NDArray[Any], revocable: bool, passes: int, seed: int, time_limit: float
    ) -> PartAnswer:
        found = self._native.visit(
            np.ascontiguousarray(state, dtype=self.dtype),
            np.ascontiguousarray(scale, dtype=np.float64),
            passes=passes,
            seed=seed,
            revocable=revocable,
            time_limit=time_limit,
        )
        hinge = np.asarray(found.hinge)
        return PartAnswer(found.change, found.own, hinge, found.linear, found.change_linear, found.complete)

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


def _occurring(X: Any) -> NDArray[np.int32]:
    if sp.issparse(X):
        return np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1])).astype(np.int32)
    return np.arange(X.shape[1], dtype=np.int32)


def _renumbered(X: Any, features: NDArray[np.int32]) -> Any:
    if not sp.issparse(X) or len(features) == X.shape[1]:
        return X
    place = np.zeros(X.shape[1], dtype=np.int32)
    place[features] = np.arange(len(features), dtype=np.int32)
    return sp.csr_matrix((X.data, place[X.indices], X.indptr), shape=(X.shape[0], len(features)))


def widened(X: Any, n_features: int) -> Any:
    """Return sparse rows with this many features, those beyond their last one 0."""
    return X if X.shape[1] == n_features else sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], n_features))


def _no_labels(y: Any) -> LabelMatrix:
    if isinstance(y, LabelMatrix):
        return y
    width = np.shape(y)[1] if np.ndim(y) == 2 else 0
    return LabelMatrix(
        sp.csr_array((0, width), dtype=bool), None, np.arange(width), LabelForm("array"), np.arange(width)
    )


def _common_columns(facts: Sequence[BlockFacts]) -> tuple[dict[str, Any], int]:
    first = facts[0]
    names = first.columns.get("feature_names_in_")
    if all(one.open_ended and not one.columns.get("feature_names_in_") for one in facts) and first.form.kind != "sets":
        widest = max(one.n_features for one in facts)
        return {"n_features_in_": widest}, widest
    for one in facts:
        if one.n_features != first.n_features:
            msg = (
                f"All parts must have the same features: {first.name} has {first.n_features}, {one.name} has "
                f"{one.n_features}. Give them in one order and number, also those that do not occur in a part."
            )
            raise InputError(msg)
        others = one.columns.get("feature_names_in_")
        if _listed(names) != _listed(others):
            msg = f"The feature names of {one.name} are not those of {first.name}. Give the same columns in every part."
            raise InputError(msg)
    return first.columns, first.n_features


def _listed(names: Any) -> list[Any] | None:
    return None if names is None else list(names)


def _common_labels(facts: Sequence[BlockFacts]) -> LabelTotals:
    first = facts[0]
    kinds = {one.form.kind for one in facts}
    if len(kinds) > 1:
        msg = f"The labels must have one form in all parts; they come as {', '.join(sorted(kinds))}."
        raise InputError(msg)
    names, values = first.names, first.values
    grows = all(one.open_ended for one in facts)
    if grows:
        names = values = _sorted_union([one.names for one in facts])
    elif first.form.kind == "column":
        values = _sorted_union([one.values for one in facts])
        if len(values) > 2:
            msg = f"A 1-D y has two classes; the parts have {len(values)} together."
            raise InputError(msg)
    place = {name: j for j, name in enumerate(names.tolist())}
    totals = np.zeros((2, len(names)), dtype=np.int64)
    for one in facts:
        if not grows and one.names.tolist() != names.tolist():
            msg = (
                f"All parts must have the same labels in one order: {first.name} has {len(names)}, {one.name} has "
                f"{len(one.names)}, or others. Give the same columns in every part, or lists of label sets."
            )
            raise InputError(msg)
        at = np.array([place[name] for name in one.names.tolist()], dtype=np.intp)
        if first.form.kind == "column":
            _count_column(one, values, totals)
            continue
        totals[0, at] += one.positive
        totals[1, at] += one.negative
        absent = np.setdiff1d(np.arange(len(names)), at)
        totals[1, absent] += one.n_rows
    empty = sp.csr_array((0, len(names)), dtype=bool)
    return LabelTotals(empty, None, names, first.form, values, (totals[0], totals[1]))


def _count_column(one: BlockFacts, values: NDArray[Any], totals: NDArray[np.int64]) -> None:
    """Count the cells of a 1-D y, of which a part may know one class only."""
    known = int(one.positive[0] + one.negative[0])
    if len(one.values) == 2:
        totals[:, 0] += one.positive[0], one.negative[0]
    elif known:
        is_positive = one.values[0] == values[-1] and (len(values) == 2 or one.positive[0] > 0)
        totals[0 if is_positive else 1, 0] += known


def _sorted_union(lists: Sequence[NDArray[Any]]) -> NDArray[Any]:
    found = {item for one in lists for item in one.tolist()}
    try:
        ordered = sorted(found)
    except TypeError:
        ordered = sorted(found, key=str)
    names = np.empty(len(ordered), dtype=object)
    names[:] = ordered
    return names if any(one.dtype == object for one in lists) else np.asarray(ordered)


def aligned_labels(labels: LabelMatrix, common: LabelTotals, name: str) -> LabelMatrix:
    """Labels of a part in the columns of all parts."""
    if labels.n_samples == 0:
        return LabelMatrix(
            sp.csr_array((0, common.n_labels), dtype=bool), None, common.names, common.form, common.values
        )
    positives = labels.positives
    if common.form.kind == "column" and len(labels.values) == 1 and len(common.values) == 2:
        known = np.ones(labels.n_samples, dtype=bool)
        if labels.missing is not None:
            known &= ~labels.missing.toarray().astype(bool)[:, 0]
        positives = sp.csr_array((known & (labels.values[0] == common.values[1]))[:, None])
    elif labels.names.tolist() != common.names.tolist():
        place = {label: j for j, label in enumerate(common.names.tolist())}
        if not set(labels.names.tolist()) <= set(place):
            msg = f"{name}: its labels are not those of the other parts."
            raise InputError(msg)
        at = np.array([place[label] for label in labels.names.tolist()], dtype=np.int32)
        shape = (labels.n_samples, common.n_labels)
        positives = sp.csr_array((positives.data, at[positives.indices], positives.indptr), shape=shape)
    return LabelMatrix(positives, labels.missing, common.names, common.form, common.values)


def block_weights(labels: LabelMatrix, block: Block) -> CellCosts:
    """Return the weights of the rows of a block, or of their cells."""
    every = np.ones(labels.n_labels)
    if labels.n_samples == 0 or block.sample_weight is None:
        return CellCosts(np.ones(labels.n_samples), every, every, None)
    if np.shape(block.sample_weight)[:1] == (labels.n_samples,) and not np.any(block.sample_weight):
        cells = np.zeros((labels.n_samples, labels.n_labels)) if np.ndim(block.sample_weight) == 2 else None
        return CellCosts(np.zeros(labels.n_samples), every, every, cells)
    try:
        return cell_costs(labels, None, block.sample_weight, np.zeros(labels.n_labels, dtype=bool))
    except InputError as error:
        msg = f"{block.name}: {error}"
        raise InputError(msg) from error


def _cost_of_error(model: LinearM3L, facts: Sequence[BlockFacts]) -> float:
    """Return C as a number; "scale" is what it would be for all rows together."""
    if not isinstance(model.C, str):
        return float(model.C)
    weight, squares = sum(one.weight for one in facts), sum(one.squares for one in facts)
    return weight / squares if weight > 0 and np.isfinite(squares) and squares > 0 else 1.0


def _precision(C: float, costs: CellCosts, facts: Sequence[BlockFacts]) -> Any:
    """float32 where all rows are and their numbers suit it."""
    smallest = C * min(one.weights[0] for one in facts)
    largest = C * max(one.weights[1] for one in facts)
    both = np.concatenate([costs.positive, costs.negative])
    above = both[both > 0]
    if above.size:
        smallest, largest = smallest * float(above.min()), largest * float(above.max())
    entry = max(one.largest for one in facts)
    single = all(one.dtype == np.float32 for one in facts)
    suits = SMALLEST_SINGLE <= smallest <= largest <= LARGEST_SINGLE and (
        entry == 0 or SMALLEST_SINGLE <= entry <= LARGEST_SINGLE
    )
    return np.dtype(np.float32 if single and suits else np.float64)
