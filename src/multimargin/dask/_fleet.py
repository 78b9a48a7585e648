"""Row parts on a cluster, trained together in rounds: the fleet of estimators/m3l/rounds.py on the workers of Dask.

A part of the fleet is a cell (r, l) of the grid of row parts and label blocks. In a round its worker fetches the state
from the worker that has it, improves its dual variables, and keeps its change until the next round says what of it
counts; the worker of the first part adds up the changes of all, in the order of the parts, and only the sum travels to
the driver. A round in which a worker is lost is void: its parts begin again at zero on other workers, and the driver
goes on from sums over what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Place of a part in the grid: its number among the row parts, its labels, and whether these are all."""

    row: int
    labels: slice
    all_labels: bool

    def of(self, table: Any) -> Any:
        """Return the columns of a state, or the entries of a vector, that belong to the labels; a view."""
        return table if self.all_labels else table[..., self.labels]


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
        blocks = label_blocks(facts.n_labels, layout.labels)
        self.cells = [Cell(row, block, len(blocks) == 1) for row in range(layout.rows) for block in blocks]
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
        given = {k: (visit, small, cell, order.part_seed(cell.row)) for k, cell in enumerate(self.cells)}
        answer = self._added((order.state, order.scale, order.theta), given, add_visits, order.state.shape)
        self.bytes += order.state.nbytes + 8 * order.state.size
        return answer if isinstance(answer, RoundAnswer) else None

    def newton(self, order: NewtonOrder) -> NewtonAnswer | None:
        """Ask every part for what Newton rounds need; None if one was lost."""
        if order.ask == "value":
            self._welcome(order)
        given = {k: (newton, cell.labels) for k, cell in enumerate(self.cells)}
        small = replace(order, U=order.U[:0], direction=None)  # all that adding needs, besides the shape
        answer = self._added(order, given, add_newton, (small, order.U.shape))
        if not isinstance(answer, NewtonAnswer):
            return None
        self.bytes += order.U.nbytes + sum(one.nbytes for one in vars(answer).values())
        return answer

    def sum(self, committed: int, theta: Array | None, weights: Array) -> FleetSums:
        """Sum afresh over all parts; as often as it takes until none is lost on the way."""
        given = {k: (sums, committed, cell) for k, cell in enumerate(self.cells)}
        while True:
            answer = self._added((weights, theta), given, add_sums, weights.T.shape)
            self.bytes += 2 * weights.nbytes
            if isinstance(answer, FleetSums):
                return answer

    def close(self) -> None:
        """Parts go with the crew."""

    def betas(self, committed: int, theta: Array | None) -> NDArray[Any]:
        """Return the dual variables of all parts, of shape (n_samples, n_labels).

        Those of a part that is lost now are what it begins with, which any later fit may begin with, too.
        """
        asked = {k: (committed, _part_theta(theta, cell)) for k, cell in enumerate(self.cells)}
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

    def _added(self, common: Any, given: dict[int, tuple[Any, ...]], add: Any, shape: tuple[Any, ...]) -> Any:
        """Ask all parts and add up their answers on the worker of the first one; None, and new lives, if one is lost.

        ``common`` goes to that worker, too, and the others fetch it from there.
        """
        crew = self.crew
        answer: Any = None
        lost: set[int] = set()
        sent = None if crew.homeless() else crew.send(common, 0)
        if sent is not None:
            asked = {k: crew.ask(function, k, sent, *rest) for k, (function, *rest) in given.items()}
            lost = crew.finish(asked)
            if not lost:
                answer = crew.on_home(0, add, [asked[k] for k in sorted(asked)], self.cells, shape)
            if isinstance(answer, list):  # parts that did not have the life they were asked for
                answer, lost = None, set(answer)
            if crew.homeless():  # given up while the sum came: it holds, but they have to begin again
                answer = None
            crew.drop([*asked.values(), sent])
        lost = lost or (crew.gone() if answer is None else set())
        self.voids = self.voids + 1 if answer is None and not lost else 0
        if self.voids >= MOST_VOIDS:
            msg = (
                f"{self.voids} rounds have failed one after another, though all workers are there. Their logs say why."
            )
            raise FitError(msg)
        if answer is None:
            crew.lose(lost)
            crew.load()
        return answer

    def _welcome(self, order: RoundOrder | NewtonOrder) -> None:
        """Give parts of workers that have several to workers that have none, with their dual variables."""
        if not self.elastic:
            return
        for part, home in self.crew.moves():
            cell = self.cells[part]
            answers, lost = self.crew.call(settled_beta, {part: (order.committed, _part_theta(order.theta, cell))})
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


def _part_theta(theta: Array | None, cell: Cell) -> Array | None:
    """Return the steps of the labels of a part; with a prior there is one for all."""
    return theta if theta is None or len(theta) == 1 else np.ascontiguousarray(theta[cell.labels])


def visit(part: Part, common: tuple[Any, ...], order: RoundOrder, cell: Cell, seed: int) -> Any:
    """Settle a part and visit its rows; runs on a worker."""
    state, scale, theta = common
    if not part.settle(order.committed, _part_theta(theta, cell)):
        return LOST
    rows = part.rows_of
    found = part.visit(
        cell.of(state)[rows],
        scale[rows],
        number=order.number,
        passes=order.passes,
        seed=seed,
        time_limit=order.time_limit,
    )
    by_group = np.asarray(found.hinge), np.asarray(found.linear), np.asarray(found.change_linear)
    return Found(rows, np.asarray(found.change), np.asarray(found.own), by_group, bool(found.complete))


def add_visits(found: list[Any], cells: list[Cell], shape: tuple[int, int]) -> RoundAnswer | list[int]:
    """Add up what all parts have found, in their order; or say which are lost. Runs on a worker."""
    lost = [k for k, one in enumerate(found) if isinstance(one, str)]
    if lost:
        return lost
    change, own = np.zeros(shape), np.zeros(shape[0])
    groups = len(found[0].by_group[0]) if cells[0].all_labels else shape[1]
    by_group = np.zeros((3, groups))
    for one, cell in zip(found, cells, strict=True):
        cell.of(change)[one.rows_of] += one.change
        own[one.rows_of] += one.own
        cell.of(by_group)[...] += one.by_group
    hinge, linear, change_linear = by_group
    return RoundAnswer(change, own, hinge, linear, change_linear, all(one.complete for one in found))


def newton(part: Part, order: NewtonOrder, labels: slice) -> Any:
    """Settle a part and do what the order asks; runs on a worker."""
    found = newton_part(part, order.of(labels))
    return LOST if found is None else found


def add_newton(
    found: list[Any], cells: list[Cell], asked: tuple[NewtonOrder, tuple[int, int]]
) -> NewtonAnswer | list[int]:
    """Add up what all parts have found, in their order; or say which are lost. Runs on a worker."""
    lost = [k for k, one in enumerate(found) if isinstance(one, str)]
    if lost:
        return lost
    order, shape = asked
    total = NewtonTotals(replace(order, U=np.empty(shape)))
    for one, cell in zip(found, cells, strict=True):
        total.add(one, cell.labels)
    return total.answer()


def sums(part: Part, common: tuple[Any, ...], committed: int, cell: Cell) -> tuple[Any, FleetSums]:
    """Settle a part and sum over its rows afresh; runs on a worker."""
    weights, theta = common
    some = weights if cell.all_labels else weights[cell.labels]
    rows = part.rows_of
    found = part.sum(committed, _part_theta(theta, cell), some[:, rows])
    return rows, FleetSums(np.asarray(found.V), np.asarray(found.linear), np.asarray(found.hinge))


def add_sums(found: list[Any], cells: list[Cell], shape: tuple[int, int]) -> FleetSums | list[int]:
    """Add up the sums of all parts, in their order; or say which are lost. Runs on a worker."""
    lost = [k for k, one in enumerate(found) if isinstance(one, str)]
    if lost:
        return lost
    total = FleetSums(np.zeros(shape), np.zeros(shape[1]), np.zeros(shape[1]))
    for (rows, one), cell in zip(found, cells, strict=True):
        cell.of(total.V)[rows] += one.V
        cell.of(total.linear)[...] += one.linear
        cell.of(total.hinge)[...] += one.hinge
    return total


def settled_beta(part: Part, committed: int, theta: Array | None) -> Any:
    """Settle a part; return its dual variables. Runs on a worker."""
    return part.beta if part.settle(committed, theta) else LOST


def last_beta(part: Part, committed: int, theta: Array | None) -> NDArray[Any]:
    """Settle a part as far as it is; return its dual variables, which are feasible in any case. Runs on a worker."""
    part.settle(committed, theta)
    return part.beta
