"""How rows and labels are divided among the workers, and the memory that takes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from multimargin.dask._facts import Facts
from multimargin.dask._worker import Slice
from multimargin.errors import InputError
from multimargin.estimators.m3l.label_blocks import bytes_per_label
from multimargin.estimators.m3l.newton_rounds import newton_bytes, newton_pays

__all__ = ["Layout", "Machines", "label_blocks", "memory_needed", "memory_of_cell", "planned", "row_parts"]

SPARE = 0.3
"""Share of a worker's free memory that is left alone."""
LABELS_AT_ONCE = 8
"""Labels that the native solver trains together; blocks of labels are multiples of it."""


@dataclass(frozen=True)
class Machines:
    """The workers: how many, threads of one, and the free memory of the one that has least; None where no limit is."""

    count: int
    threads: int
    free: int | None

    @classmethod
    def of(cls, infos: dict[str, Any]) -> Machines:
        """Read what the scheduler says."""
        free = [
            int(info["memory_limit"]) - int(info.get("metrics", {}).get("memory") or 0)
            for info in infos.values()
            if info.get("memory_limit")
        ]
        threads = max((int(info.get("nthreads") or 1) for info in infos.values()), default=1)
        return cls(len(infos), threads, min(free) if free else None)


class Layout(NamedTuple):
    """Division of the training cells: a grid of row parts and label blocks, one cell of it for each worker at a time.

    Attributes
    ----------
    rows, labels : int
        Numbers of row parts and of label blocks. With one row part a worker holds all rows, and the ordinary solver
        trains its labels; with more, the parts train together in rounds.
    memory : int
        Bytes a worker needs.
    why : str
        The reason, in a few words.
    newton : bool
        Whether rounds are Newton rounds.
    """

    rows: int
    labels: int
    memory: int
    why: str
    newton: bool = False

    def told(self) -> str:
        """Say it in a sentence."""
        grid = f"{_count(self.rows, 'row part')} x {_count(self.labels, 'label block')}"
        rounds = "Newton rounds, for features are few" if self.newton else "accelerated rounds"
        way = "the ordinary solver for each" if self.rows == 1 else rounds
        return f"{grid}, {way} ({self.why}); {_size(self.memory)} a worker"


def memory_needed(facts: Facts, rows: int, labels: int, newton: bool = False, cells: int = 1) -> int:
    """Bytes a worker needs for ``cells`` cells of the grid, if it also adds up what is found for their labels."""
    adding = min(cells, labels) * _memory_to_add(facts, rows, labels, newton)
    return cells * memory_of_cell(facts, rows, labels, newton) + adding


def memory_of_cell(facts: Facts, rows: int, labels: int, newton: bool = False) -> int:
    """Bytes of one cell of the grid at work, the blocks from which its rows are put together included."""
    plan, item = facts.plan, facts.plan.dtype.itemsize
    share, columns = -(-facts.n_rows // rows), -(-facts.n_labels // labels)
    given = facts.n_bytes + 5 * int(plan.labels.totals[0].sum()) + 4 * facts.n_rows  # labels lie in CSR, too
    if facts.weights_of_cells:
        given += 8 * facts.n_rows * facts.n_labels
    if rows == 1:
        single, of_cells = item == 4, facts.weights_of_cells
        return int(2 * given + columns * bytes_per_label(share, plan.n_features, single=single, of_cells=of_cells))
    # dual variables and their pending change, in Newton rounds scores and their change
    at_work = item * share * columns * (3 if newton else 2)
    state = item * (plan.n_features + 1) * 4 * columns
    if newton:
        state += 12 * plan.n_features**2 * columns  # systems: as sums, and as they are sent
    return int(2 * -(-given // rows) + at_work + state)


def _memory_to_add(facts: Facts, rows: int, labels: int, newton: bool) -> int:
    """Bytes of what all row parts have found for a block of labels, which meets on one worker, and of its sum."""
    if rows == 1:
        return 0
    plan, columns = facts.plan, -(-facts.n_labels // labels)
    entries = facts.n_bytes // (rows * plan.dtype.itemsize)
    occurring = min(plan.n_features, entries) + 1
    added = 8 * columns * (rows * occurring + 2 * (plan.n_features + 1))  # the last sums come in double
    if newton:
        added += newton_bytes(plan) * (rows + 2) * columns // facts.n_labels
    return int(added)


def planned(layout: Any, facts: Facts, coupled: bool, machines: Machines, may_newton: bool = False) -> Layout:
    """Check the layout that is asked for, or choose one; InputError, with the bytes needed, where none fits.

    ``may_newton``: whether Newton rounds may be chosen.
    """
    most_blocks = 1 if coupled else max(1, facts.n_labels // LABELS_AT_ONCE)
    room = None if machines.free is None else int(machines.free * (1 - SPARE))
    if layout != "auto":
        rows, labels = layout
        if coupled and labels > 1:
            msg = f"A prior ties the labels: layout must be (row parts, 1) with one; got {layout!r}."
            raise InputError(msg)
        if labels > facts.n_labels or rows > facts.n_rows:
            msg = (
                f"layout={layout!r} has more parts than there are: {facts.n_rows} rows, {facts.n_labels} labels. "
                "Give fewer, or layout='auto'."
            )
            raise InputError(msg)
        newton = may_newton and rows > 1 and newton_pays(facts.plan, facts.blocks, rows)
        need = memory_needed(facts, rows, labels, newton, -(-rows * labels // machines.count))
        _check_room(need, machines, f"layout={layout!r}")
        return Layout(rows, labels, need, "as asked for", newton)
    for rows in range(1, machines.count + 1):
        labels = max(1, min(machines.count // rows, most_blocks // max(1, machines.threads) or 1))
        newton = may_newton and rows > 1 and newton_pays(facts.plan, facts.blocks, rows)
        need = memory_needed(facts, rows, labels, newton)
        if room is None or need <= room:
            why = "all rows fit a worker" if rows == 1 else f"all rows need {_size(memory_needed(facts, 1, labels))}"
            return Layout(rows, labels, need, f"{why}, the prior ties the labels" if coupled else why, newton)
    _check_room(need, machines, f"dividing the rows among all {machines.count} workers")
    msg = "unreachable"
    raise AssertionError(msg)


def _check_room(need: int, machines: Machines, way: str) -> None:
    if machines.free is None or need <= machines.free * (1 - SPARE):
        return
    msg = (
        f"The memory of the workers must hold their parts: {way} needs {need} bytes ({_size(need)}) on each, and the "
        f"one with the least has {_size(machines.free)} free, of which {SPARE:.0%} stay unused. Start more workers, "
        "or larger ones, give float32 rows, or give a layout with more row parts."
    )
    raise InputError(msg)


def label_blocks(n_labels: int, count: int) -> list[slice]:
    """Blocks of consecutive labels, cut at multiples of the labels the solver trains at once where there are enough."""
    unit = LABELS_AT_ONCE if n_labels >= LABELS_AT_ONCE * count else 1
    cuts = [*(unit * int(cut) for cut in np.linspace(0, n_labels / unit, count + 1)[:-1].round()), n_labels]
    return [slice(a, b) for a, b in pairwise(cuts)]


def row_parts(rows: Any, count: int) -> list[tuple[Slice, ...]]:
    """Cut all rows into parts of equal size, in their order; ``rows`` are the rows of each block."""
    ends = np.cumsum(rows)
    cuts = np.linspace(0, int(ends[-1]), count + 1).round().astype(int).tolist()
    parts = []
    for first, last in pairwise(cuts):
        slices = []
        for block, (size, end) in enumerate(zip(rows.tolist(), ends.tolist(), strict=True)):
            start, stop = max(first - (end - size), 0), min(last - (end - size), size)
            if start < stop:
                slices.append(Slice(block, start, stop))
        parts.append(tuple(slices))
    return parts


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _size(number: int) -> str:
    return f"{number / 2**30:.2f} GiB" if number >= 2**29 else f"{number / 2**20:.1f} MiB"
