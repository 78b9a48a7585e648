"""What all parts of the rows of a linear M3L problem have in common: labels, costs, prior, precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.estimators.contract import LARGEST_SINGLE, SMALLEST_SINGLE
from multimargin.estimators.m3l.base import M3LTask, Prior
from multimargin.estimators.m3l.blocks import BlockFacts
from multimargin.estimators.m3l.linear import LinearM3L
from multimargin.estimators.m3l.losses import LOSSES
from multimargin.estimators.problem import Problem
from multimargin.labels import LabelMatrix
from multimargin.weights import CellCosts, cell_costs, cell_margins

__all__ = ["LabelTotals", "Plan", "make_plan"]


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
    newton : bool
        Whether parts are trained in Newton rounds.
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
    newton: bool = False

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
