"""What lives on a worker while a fit runs: the rows it was given, and the state of its parts.

The state is kept in a plugin of the worker, by fit, part and incarnation: an incarnation is one life of a part on one
worker, so that what an earlier life left is deleted and never used. State that nobody has asked for in a while, because
its client is gone, is dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import WorkerPlugin, get_worker
from tornado.ioloop import PeriodicCallback

from multimargin.estimators.m3l.blocks import Block, aligned_labels, read_block, widened
from multimargin.estimators.m3l.plans import Plan
from multimargin.labels import LabelMatrix

__all__ = [
    "LOST",
    "PLUGIN",
    "PartsPlugin",
    "Slice",
    "call_part",
    "forget",
    "forget_part",
    "forget_rows",
    "load_part",
    "plugin",
    "renew",
    "stop",
]

PLUGIN = "multimargin-parts"
LEASE = 600.0
"""Seconds after which the state of a fit that nobody asks for is dropped."""
LOST = "lost"
"""The answer of a worker that does not have the part, or not this life of it."""


@dataclass(frozen=True)
class Slice:
    """Rows ``start`` to ``stop`` of a block."""

    block: int
    start: int
    stop: int


@dataclass
class FitState:
    """What a worker holds for one fit."""

    rows: dict[tuple[Slice, ...], Block] = field(default_factory=dict)
    parts: dict[int, tuple[int, Any, threading.Lock]] = field(default_factory=dict)
    stopped: bool = False
    used: float = field(default_factory=monotonic)
    running: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class PartsPlugin(WorkerPlugin):
    """Keeps the parts of fits on a worker."""

    idempotent = True
    name = PLUGIN

    def __init__(self) -> None:
        self.fits: dict[str, FitState] = {}
        self.over: deque[str] = deque(maxlen=100)

    def setup(self, worker: Any) -> None:
        """Begin on a worker."""
        self.fits = {}
        self.clock = PeriodicCallback(self.expire, 1000 * LEASE / 10)
        self.clock.start()

    def teardown(self, worker: Any) -> None:
        """End with the worker."""
        self.clock.stop()
        self.fits.clear()

    def expire(self) -> None:
        """Drop what nobody has asked for."""
        late = monotonic() - LEASE
        for fit, state in list(self.fits.items()):
            if not state.running and state.used < late:
                self.fits.pop(fit, None)

    @contextmanager
    def using(self, fit: str) -> Iterator[FitState]:
        """State of a fit, while a task uses it."""
        state = FitState() if fit in self.over else self.fits.setdefault(fit, FitState())
        state.running += 1
        try:
            yield state
        finally:
            state.running -= 1
            state.used = monotonic()

    def asks_to_stop(self, fit: str) -> bool:
        """Whether what runs for a fit should end."""
        state = self.fits.get(fit)
        return state is None or state.stopped

    def stop(self, fit: str) -> None:
        """Ask what runs for a fit to end after its current pass."""
        if fit in self.fits:
            self.fits[fit].stopped = True

    def forget(self, fit: str) -> None:
        """Drop the state of a fit, and end what runs for it; tasks of it that come late find nothing."""
        self.over.append(fit)
        state = self.fits.pop(fit, None)
        for _, made, _ in [] if state is None else list(state.parts.values()):
            if hasattr(made, "stop"):
                made.stop()


def plugin(worker: Any = None) -> PartsPlugin:
    """Return the plugin of this worker."""
    found: PartsPlugin = (worker or get_worker()).plugins[PLUGIN]
    return found


def load_part(
    fit: str, part: int, life: int, slices: tuple[Slice, ...], blocks: list[Any], plan: Plan, make: Callable[..., Any]
) -> Any:
    """Put together the rows of a part and make its state; return what the state tells of itself."""
    with plugin().using(fit) as state, state.lock:
        state.parts.pop(part, None)
        if slices not in state.rows:
            state.rows[slices] = stacked(slices, blocks, plan)
        made, told = make(state.rows[slices])
        state.parts[part] = (life, made, threading.Lock())
        return told


def call_part(fit: str, part: int, life: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on the state of a part, if it is this life of it."""
    with plugin().using(fit) as state:
        found = state.parts.get(part)
        if found is None or found[0] != life:
            return LOST
        with found[2]:  # a task that was taken back may still run
            return function(found[1], *arguments)


def stacked(slices: tuple[Slice, ...], blocks: list[Block], plan: Plan) -> Block:
    """Rows of some blocks, checked, one after another; ``blocks`` are those of the slices."""
    X, positives, missing = [], [], []
    weights: list[Any] = []
    for cut, block in zip(slices, blocks, strict=True):
        rows = slice(cut.start, cut.stop)
        features, labels, _ = read_block(block)
        labels = aligned_labels(labels, plan.labels, block.name)
        X.append(widened(features, plan.n_features)[rows])
        positives.append(labels.positives[rows])
        missing.append(None if labels.missing is None else labels.missing[rows])
        weights.append(None if block.sample_weight is None else np.asarray(block.sample_weight, np.float64)[rows])
    unknown = None
    if any(one is not None for one in missing):
        none = [sp.csr_array(one.shape, dtype=bool) for one in positives]
        unknown = _together([b if a is None else a for a, b in zip(missing, none, strict=True)], sp.csr_array)
    common = plan.labels
    labels = LabelMatrix(_together(positives, sp.csr_array), unknown, common.names, common.form, common.values)
    sparse = any(sp.issparse(one) for one in X)
    whole = _together(X, sp.csr_matrix) if sparse else X[0] if len(X) == 1 else np.concatenate(X)
    weight = None if weights[0] is None else np.concatenate(weights)
    return Block(whole, labels, weight, "these rows", columns=plan.columns)


def _together(parts: list[Any], container: Any) -> Any:
    return container(sp.vstack(parts, format="csr")) if len(parts) > 1 else container(parts[0])


def stop(fit: str, dask_worker: Any = None) -> None:
    """Ask what runs for a fit to end after its current pass."""
    if PLUGIN in dask_worker.plugins:
        plugin(dask_worker).stop(fit)


def renew(fit: str, dask_worker: Any = None) -> None:
    """Keep the state of a fit for another while."""
    if PLUGIN in dask_worker.plugins and fit in plugin(dask_worker).fits:
        plugin(dask_worker).fits[fit].used = monotonic()


def forget_rows(fit: str, dask_worker: Any = None) -> None:
    """Drop the rows that parts were made of: parts have what they need."""
    if PLUGIN in dask_worker.plugins:
        state = plugin(dask_worker).fits.get(fit)
        if state is not None:
            state.rows.clear()


def forget_part(fit: str, part: int, life: int, dask_worker: Any = None) -> None:
    """Drop a part that has moved."""
    if PLUGIN in dask_worker.plugins:
        state = plugin(dask_worker).fits.get(fit)
        if state is not None and part in state.parts and state.parts[part][0] == life:
            del state.parts[part]


def forget(fit: str, dask_worker: Any = None) -> None:
    """Drop the state of a fit."""
    if PLUGIN in dask_worker.plugins:
        plugin(dask_worker).forget(fit)
