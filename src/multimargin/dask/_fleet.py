"""Row parts on a cluster, trained together in rounds: the fleet of estimators/m3l/rounds.py on the workers of Dask.

A part of the fleet is a cell (r, l) of the grid of row parts and label blocks. In a round its worker fetches the state
of its labels from the worker that has it, improves its dual variables, and keeps its change until the next round says
what of it counts; for each label block, the worker of its first part adds up the changes, in the order of the row
parts, and only the sum travels to the driver: what belongs to different label blocks never meets on a worker. A round
in which a worker is lost is void: its parts begin again at zero on other workers, and the driver goes on from sums over
what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray

from multimargin.dask._crew import Crew, Load
from multimargin.dask._facts import Facts
from multimargin.dask._layout import Layout, label_blocks, row_parts
from multimargin.dask._worker import LOST
from multimargin.errors import FitError
from multimargin.estimators.m3l.blocks import Block, BlockFacts
from multimargin.estimators.m3l.newton_rounds import NewtonAnswer, NewtonOrder, NewtonTotals, newton_part
from multimargin.estimators.m3l.parts import Part
from multimargin.estimators.m3l.plans import Plan
from multimargin.estimators.m3l.rounds import FleetSums, RoundAnswer, RoundOrder
from multimargin.labels import LabelMatrix

__all__ = ["DaskFleet"]

Array = NDArray[np.float64]
MOST_VOIDS = 4
"""Rounds that may fail one after another with no part lost."""


@dataclass(frozen=True)
class Cell:
    """Place of a part in the grid: its number among the row parts, and its labels."""

    row: int
    labels: slice


@dataclass(frozen=True)
class Found:
    """What a part has found in a visit, as it travels."""

    rows_of: Any
    change: NDArray[Any]
    own: Array
    by_group: tuple[Array, Array, Array]
    complete: bool


class DaskFleet:
    """A fleet whose parts live on the workers of a cluster.

    Parameters
    ----------
    crew : Crew
    facts : Facts
    layout : Layout
    n_jobs : int or None
        Threads of a part; None: those of its worker.
    beta : ndarray of shape (n_samples, n_labels), optional
        Dual variables to begin with.
    elastic : bool
        Whether parts move to workers that join.
    """

    at_once = True

    def __init__(
        self,
        crew: Crew,
        facts: Facts,
        layout: Layout,
        n_jobs: int | None = None,
        beta: NDArray[Any] | None = None,
        elastic: bool = True,
    ) -> None:
        self.crew, self.facts = crew, facts
        self.n_jobs, self.beta = n_jobs, beta
        self.elastic = elastic
        self.slices = row_parts(facts.rows, layout.rows)
        self.blocks = label_blocks(facts.n_labels, layout.labels)
        self.cells = [Cell(row, block) for row in range(layout.rows) for block in self.blocks]
        self.bytes = self.voids = 0

    def describe(self) -> Sequence[BlockFacts]:
        """Return what the blocks have told already."""
        return self.facts.blocks

    def open(self, plan: Plan) -> tuple[Array, Array]:
        """Build the parts; return the sums of squares of the features and the numbers of parts that have them."""
        self.plan = plan
        ends = np.cumsum([0, *(sum(cut.stop - cut.start for cut in cuts) for cuts in self.slices)])
        loads = []
        for cell in self.cells:
            start = None
            if self.beta is not None:
                start = np.ascontiguousarray(self.beta[ends[cell.row] : ends[cell.row + 1], cell.labels])
            loads.append(Load(self.slices[cell.row], partial(make_part, plan, cell.labels, self.n_jobs, start)))
        self.crew.plan(loads)
        self.crew.load()
        squares, counts = np.zeros(plan.n_features + 1), np.zeros(plan.n_features + 1)
        for cell, (rows_of, of_part) in zip(self.cells, self.crew.told, strict=True):
            if cell.labels.start == 0:
                squares[rows_of] += of_part
                counts[rows_of] += 1
        return squares, counts

    def round(self, order: RoundOrder) -> RoundAnswer | None:
        """Let every part settle and visit its rows; None if one was lost."""
        self._welcome(order)
        small = replace(order, state=None, scale=None, theta=None)  # type: ignore[arg-type]
        given = [(visit, small, order.part_seed(cell.row)) for cell in self.cells]
        answers = self._added(
            lambda labels: (_columns(order.state, labels), order.scale, _theta_of(order.theta, labels)),
            given,
            lambda labels: (add_visits, order.state[:, labels].shape),
        )
        self.bytes += order.state.nbytes + 8 * order.state.size
        if answers is None:
            return None
        return RoundAnswer(
            change=np.concatenate([one.change for one in answers], axis=1),
            own=np.sum([one.own for one in answers], axis=0),
            hinge=np.concatenate([one.hinge for one in answers]),
            linear=np.concatenate([one.linear for one in answers]),
            change_linear=np.concatenate([one.change_linear for one in answers]),
            complete=all(one.complete for one in answers),
        )

    def newton(self, order: NewtonOrder) -> NewtonAnswer | None:
        """Ask every part for what Newton rounds need; None if one was lost."""
        if order.ask == "value":
            self._welcome(order)

        def added(labels: slice) -> tuple[Any, ...]:
            own = order.of(labels)
            return add_newton, replace(own, U=own.U[:0], direction=None), own.U.shape  # all that adding needs

        answers = self._added(order.of, [(newton,)] * len(self.cells), added)
        if answers is None:
            return None
        total = NewtonTotals(order)
        for labels, one in zip(self.blocks, answers, strict=True):
            total.add(one, labels)
        answer = total.answer()
        self.bytes += order.U.nbytes + sum(one.nbytes for one in vars(answer).values())
        return answer

    def sum(self, committed: int, theta: Array | None, weights: Array) -> FleetSums:
        """Sum afresh over all parts; as often as it takes until none is lost on the way."""
        while True:
            answers = self._added(
                lambda labels: (np.ascontiguousarray(weights[labels]), _theta_of(theta, labels)),
                [(sums, committed)] * len(self.cells),
                lambda labels: (add_sums, weights[labels].T.shape),
            )
            self.bytes += 2 * weights.nbytes
            if answers is not None:
                break
        return FleetSums(
            V=np.concatenate([one.V for one in answers], axis=1),
            linear=np.concatenate([one.linear for one in answers]),
            hinge=np.concatenate([one.hinge for one in answers]),
        )

    def close(self) -> None:
        """Parts go with the crew."""

    def betas(self, committed: int, theta: Array | None) -> NDArray[Any]:
        """Return the dual variables of all parts, of shape (n_samples, n_labels).

        Those of a part that is lost now are what it begins with, which any later fit may begin with, too.
        """
        asked = {k: (committed, _theta_of(theta, cell.labels)) for k, cell in enumerate(self.cells)}
        answers: dict[int, NDArray[Any]] = {}
        while missing := {k: given for k, given in asked.items() if k not in answers}:
            found, lost = self.crew.call(last_beta, missing)
            answers |= found
            if lost:
                self.crew.load()
        rows: dict[int, list[NDArray[Any]]] = {}
        for k, cell in enumerate(self.cells):
            rows.setdefault(cell.row, []).append(answers[k])
        return np.concatenate([np.concatenate(parts, axis=1) for _, parts in sorted(rows.items())])

    def _added(
        self,
        common: Callable[[slice], Any],
        given: Sequence[tuple[Any, ...]],
        added: Callable[[slice], tuple[Any, ...]],
    ) -> list[Any] | None:
        """Ask all parts and add up their answers, for each label block on the worker of its first part.

        ``common(labels)`` goes to that worker, too, and the others fetch it from there; ``given`` says what each part
        is asked, ``added(labels)`` what adds, and with what besides the answers. None, and new lives, if one is lost.
        """
        crew, count = self.crew, len(self.blocks)
        columns = [range(b, len(self.cells), count) for b in range(count)]
        sent: list[Any] = []
        for labels, parts in zip(self.blocks, columns, strict=True):
            if crew.homeless() or (arrived := crew.send(common(labels), parts[0])) is None:
                break
            sent.append(arrived)
        asked: dict[int, Any] = {}
        answers: list[Any] | None = None
        lost: set[int] = set()
        if len(sent) == count:
            asked = {k: crew.ask(function, k, sent[k % count], *rest) for k, (function, *rest) in enumerate(given)}
            lost = crew.finish(asked)
            if not lost:
                calls = {}
                for labels, parts in zip(self.blocks, columns, strict=True):
                    add, *rest = added(labels)
                    calls[parts[0]] = (add, [asked[k] for k in parts], *rest)
                found = crew.on_homes(calls)
                if found is not None:
                    # parts that did not have the life they were asked for
                    lost = {columns[b][row] for b in range(count) if isinstance(found[b], list) for row in found[b]}
                    answers = None if lost else [found[b] for b in range(count)]
            if crew.homeless():  # given up while the sums came: they hold, but the parts have to begin again
                answers = None
        crew.drop([*asked.values(), *sent])
        lost = lost or (crew.gone() if answers is None else set())
        self.voids = self.voids + 1 if answers is None and not lost else 0
        if self.voids >= MOST_VOIDS:
            msg = (
                f"{self.voids} rounds have failed one after another, though all workers are there. Their logs say why."
            )
            raise FitError(msg)
        if answers is None:
            crew.lose(lost)
            crew.load()
        return answers

    def _welcome(self, order: RoundOrder | NewtonOrder) -> None:
        """Give parts of workers that have several to workers that have none, with their dual variables."""
        if not self.elastic:
            return
        for part, home in self.crew.moves():
            cell = self.cells[part]
            answers, lost = self.crew.call(settled_beta, {part: (order.committed, _theta_of(order.theta, cell.labels))})
            if lost:
                self.crew.load()
                continue
            moved = partial(make_part, self.plan, cell.labels, self.n_jobs, answers[part], committed=order.committed)
            self.crew.move(part, home, Load(self.slices[cell.row], moved))


def make_part(
    plan: Plan,
    labels: slice,
    n_jobs: int | None,
    beta: NDArray[Any] | None,
    rows: Block,
    committed: int = 0,
) -> tuple[Part, tuple[Any, Array]]:
    """Make a part of some rows and labels; runs on a worker."""
    some = rows if labels == slice(0, plan.labels.n_labels) else replace(rows, y=labels_of(rows.y, labels))
    if rows.sample_weight is not None and np.ndim(rows.sample_weight) == 2:
        some = replace(some, sample_weight=np.ascontiguousarray(rows.sample_weight[:, labels]))
    part = Part(plan_of(plan, labels), some, n_jobs or get_worker().state.nthreads)
    if beta is not None:
        part.beta = beta
        part.committed = committed
    return part, (part.rows_of, np.asarray(part.squares))


def labels_of(labels: LabelMatrix, columns: slice) -> LabelMatrix:
    """Return some of the labels."""
    missing = None if labels.missing is None else labels.missing[:, columns]
    return LabelMatrix(
        labels.positives[:, columns],
        missing if missing is not None and missing.nnz else None,
        labels.names[columns],
        labels.form,
        labels.values[columns],
    )


def plan_of(plan: Plan, columns: slice) -> Plan:
    """Return the plan of some of the labels; with a prior, they are all."""
    if columns == slice(0, plan.labels.n_labels):
        return plan
    labels = plan.labels
    fewer = replace(
        labels,
        positives=labels.positives[:, columns],
        names=labels.names[columns],
        values=labels.values[columns],
        totals=(labels.totals[0][columns], labels.totals[1][columns]),
    )
    margin = plan.margin
    if not isinstance(margin, dict) and np.ndim(margin) == 1:
        margin = list(margin)[columns]
    return replace(
        plan,
        labels=fewer,
        positive=plan.positive[columns],
        negative=plan.negative[columns],
        constant=plan.constant[columns],
        margin=margin,
    )


def _columns(table: NDArray[Any], labels: slice) -> NDArray[Any]:
    return np.ascontiguousarray(table[:, labels])


def _theta_of(theta: Array | None, labels: slice) -> Array | None:
    """Return the steps of some labels; with a prior there is one for all."""
    return theta if theta is None or len(theta) == 1 else np.ascontiguousarray(theta[labels])


def visit(part: Part, common: tuple[Any, ...], order: RoundOrder, seed: int) -> Any:
    """Settle a part and visit its rows; runs on a worker."""
    state, scale, theta = common
    if not part.settle(order.committed, theta):
        return LOST
    rows = part.rows_of
    found = part.visit(
        state[rows],
        scale[rows],
        number=order.number,
        passes=order.passes,
        seed=seed,
        time_limit=order.time_limit,
    )
    by_group = np.asarray(found.hinge), np.asarray(found.linear), np.asarray(found.change_linear)
    return Found(rows, np.asarray(found.change), np.asarray(found.own), by_group, bool(found.complete))


def add_visits(found: list[Any], shape: tuple[int, int]) -> RoundAnswer | list[int]:
    """Add up what the parts of some labels have found, in their order; or say which are lost. Runs on a worker."""
    lost = _lost(found)
    if lost:
        return lost
    change, own = np.zeros(shape), np.zeros(shape[0])
    by_group = np.zeros((3, len(found[0].by_group[0])))
    for one in found:
        change[one.rows_of] += one.change
        own[one.rows_of] += one.own
        by_group += one.by_group
    hinge, linear, change_linear = by_group
    return RoundAnswer(change, own, hinge, linear, change_linear, all(one.complete for one in found))


def newton(part: Part, order: NewtonOrder) -> Any:
    """Settle a part and do what the order asks; runs on a worker."""
    found = newton_part(part, order)
    return LOST if found is None else found


def add_newton(found: list[Any], order: NewtonOrder, shape: tuple[int, int]) -> NewtonAnswer | list[int]:
    """Add up what the parts of some labels have found, in their order; or say which are lost. Runs on a worker."""
    lost = _lost(found)
    if lost:
        return lost
    total = NewtonTotals(replace(order, U=np.empty(shape)))
    for one in found:
        total.add(one, slice(0, shape[1]))
    return total.answer()


def sums(part: Part, common: tuple[Any, ...], committed: int) -> tuple[Any, FleetSums]:
    """Settle a part and sum over its rows afresh; runs on a worker."""
    weights, theta = common
    rows = part.rows_of
    found = part.sum(committed, theta, weights[:, rows])
    return rows, FleetSums(np.asarray(found.V), np.asarray(found.linear), np.asarray(found.hinge))


def add_sums(found: list[Any], shape: tuple[int, int]) -> FleetSums | list[int]:
    """Add up the sums of the parts of some labels, in their order; or say which are lost. Runs on a worker."""
    lost = _lost(found)
    if lost:
        return lost
    total = FleetSums(np.zeros(shape), np.zeros(shape[1]), np.zeros(shape[1]))
    for rows, one in found:
        total.V[rows] += one.V
        total.linear[...] += one.linear
        total.hinge[...] += one.hinge
    return total


def _lost(found: list[Any]) -> list[int]:
    """Positions of the parts that did not have the life they were asked for."""
    return [k for k, one in enumerate(found) if isinstance(one, str)]


def settled_beta(part: Part, committed: int, theta: Array | None) -> Any:
    """Settle a part; return its dual variables. Runs on a worker."""
    return part.beta if part.settle(committed, theta) else LOST


def last_beta(part: Part, committed: int, theta: Array | None) -> NDArray[Any]:
    """Settle a part as far as it is; return its dual variables, which are feasible in any case. Runs on a worker."""
    part.settle(committed, theta)
    return part.beta
