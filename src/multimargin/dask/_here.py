"""``client="local"``: the same data and the same training, in this process, without a cluster.

Blocks are computed one by one. If all rows fit the memory, the ordinary solver trains them; if not, the blocks are
parts that are streamed, one after the other (fleets.py). Row parts that are asked for by ``layout`` are held here and
trained in the rounds of a cluster, to the same bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import scipy.sparse as sp
from dask.delayed import Delayed
from distributed import Future

from multimargin.dask._collections import is_array, is_frame, read_blocks
from multimargin.dask._facts import Facts, agreed, block_facts
from multimargin.dask._layout import Layout, Machines, memory_needed, planned, row_parts
from multimargin.dask._worker import Slice, stacked
from multimargin.errors import InputError
from multimargin.estimators import LinearM3L
from multimargin.estimators.m3l.blocks import Block, BlockFacts
from multimargin.estimators.m3l.parted import train_on_parts
from multimargin.estimators.monitor import ForecastMonitor
from multimargin.estimators.threads import threads
from multimargin.fleets import LocalFleet, StreamedFleet, bytes_left, part_sources

__all__ = ["fit_here"]

Read = Callable[[], Block]
SHORTEST = 1e-3
"""Seconds that are left for training where reading took all of the time: enough for a certificate."""


def fit_here(model: Any, local: LinearM3L, X: Any, y: Any, sample_weight: Any) -> tuple[int, int]:
    """Train ``local`` with the parameters of ``model``, a DaskLinearM3L; return row parts and label blocks."""
    monitor = ForecastMonitor(local.callback, int(local.verbose), type(model).__name__, tol=local.tol)
    sources = block_sources(X, y, sample_weight)
    limit = bytes_left(model._memory())
    found, kept = _described(sources, limit // 2)
    facts = agreed(local, found)
    layout = _layout(model, facts, limit)
    streams = layout.rows == 1 and layout.memory > limit
    if model.verbose:
        way = f"{len(sources)} parts, one after the other (all rows need {layout.memory} bytes)"
        sys.stderr.write(f"{type(model).__name__}: {way if streams else layout.told()}\n")
    passes = None if model.local_passes == "auto" else int(model.local_passes)
    n_jobs = threads(model.n_jobs)
    if streams:
        kept.clear()
        train_on_parts(local, StreamedFleet(sources, n_jobs, limit, None), passes, monitor=monitor)
        return len(sources), 1
    read = [(lambda block=block: block) for block in kept] if kept else sources
    parts = [partial(_rows, slices, read, facts) for slices in row_parts(facts.rows, layout.rows)]
    if layout.rows > 1:
        train_on_parts(local, LocalFleet(parts, n_jobs), passes, layout.newton, monitor)
    else:
        rows = parts[0]()
        if local.time_limit is not None:
            local.time_limit = max(monitor.time_left(local.time_limit), SHORTEST)
        _fit_whole(local, rows, facts)
    return layout.rows, 1


def block_sources(X: Any, y: Any, sample_weight: Any) -> list[Read]:
    """Return what reads each block in this process."""
    if isinstance(X, list | tuple) and any(isinstance(part, Future) for part in X):
        msg = 'Futures are on a cluster, and client="local" trains without one. Give delayed, or client=None.'
        raise InputError(msg)
    given = isinstance(X, list | tuple) and len(X) and not any(isinstance(part, Delayed) for part in X)
    if given and not (is_array(X) or is_frame(X)):
        if y is not None or sample_weight is not None:
            msg = (
                "Parts that are here must be a list of tuples (X, Y) or (X, Y, sample_weight), or of functions that "
                "return one, with y=None and sample_weight=None."
            )
            raise InputError(msg)
        return part_sources(X)
    return [partial(block.value().compute, scheduler="synchronous") for block in read_blocks(X, y, sample_weight)]


def _described(sources: Sequence[Read], most: int) -> tuple[list[tuple[BlockFacts, bool]], list[Block]]:
    """Read all blocks; return what they tell of themselves and, if they take no more bytes than this, the blocks."""
    found, kept, taken = [], [], 0
    for source in sources:
        block = source()
        told = block_facts(block)
        found.append(told)
        taken += told[0].n_entries * (told[0].dtype.itemsize + 4)
        if taken <= most:
            kept.append(block)
        else:
            kept.clear()
    return found, kept if taken <= most else []


def _layout(model: Any, facts: Facts, limit: int) -> Layout:
    if model.layout == "auto":
        return Layout(1, 1, memory_needed(facts, 1, 1), "all rows fit the memory")
    coupled = model.prior is not None
    may_newton = model.local_passes == "auto" and not coupled
    layout = planned(model.layout, facts, coupled, Machines(1, 1, None), may_newton)
    if layout.labels > 1:
        msg = f'Blocks of labels are for several workers; got layout={model.layout!r} with client="local". Give '
        raise InputError(msg + f"layout=({layout.rows}, 1), or layout='auto'.")
    need = layout.memory
    if need > limit:
        msg = (
            f"memory_limit must hold all parts of layout={model.layout!r}: {need} bytes; beside what this process "
            f"holds already it leaves {limit}. With layout='auto' the blocks are streamed, one after the other."
        )
        raise InputError(msg)
    return layout


def _rows(slices: tuple[Slice, ...], sources: Sequence[Read], facts: Facts) -> Block:
    return stacked(slices, [sources[cut.block]() for cut in slices], facts.plan)


def _fit_whole(local: LinearM3L, rows: Block, facts: Facts) -> None:
    X, names = rows.X, facts.plan.columns.get("feature_names_in_")
    if names is not None and not sp.issparse(X):
        import pandas as pd

        X = pd.DataFrame(X, columns=list(names), copy=False)
    local.fit(X, rows.y, rows.sample_weight)
