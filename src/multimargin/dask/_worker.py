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

from multimargin.dask._facts import Facts, block_labels, block_rows
from multimargin.labels import LabelMatrix

__all__ = ["LOST", "PLUGIN", "PartsPlugin", "Rows", "Slice", "call_part", "forget", "load_part", "plugin", "stop"]

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


@dataclass(frozen=True)
class Rows:
    """The rows of a part, put together: features, labels and weights."""

    X: Any
    labels: LabelMatrix
    weight: Any


@dataclass
class FitState:
    """What a worker holds for one fit."""

    rows: dict[tuple[Slice, ...], Rows] = field(default_factory=dict)
    parts: dict[int, tuple[int, Any]] = field(default_factory=dict)
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
        """Ask what runs for a fit to end."""
        if fit in self.fits:
            self.fits[fit].stopped = True

    def forget(self, fit: str) -> None:
        """Drop the state of a fit; tasks of it that come late find nothing."""
        self.over.append(fit)
        self.fits.pop(fit, None)


def plugin(worker: Any = None) -> PartsPlugin:
    """Return the plugin of this worker."""
    found: PartsPlugin = (worker or get_worker()).plugins[PLUGIN]
    return found


def load_part(
    fit: str, part: int, life: int, slices: tuple[Slice, ...], blocks: list[Any], facts: Facts, make: Callable[..., Any]
) -> Any:
    """Put together the rows of a part and make its state; return what the state tells of itself."""
    with plugin().using(fit) as state, state.lock:
        state.parts.pop(part, None)
        if slices not in state.rows:
            state.rows[slices] = stacked(slices, blocks, facts)
        made, told = make(state.rows[slices])
        state.parts[part] = (life, made)
        return told


def call_part(fit: str, part: int, life: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on the state of a part, if it is this life of it."""
    with plugin().using(fit) as state:
        found = state.parts.get(part)
        if found is None or found[0] != life:
            return LOST
        return function(found[1], *arguments)


def stacked(slices: tuple[Slice, ...], blocks: list[Any], facts: Facts) -> Rows:
    """Rows of some blocks, one after another; ``blocks`` are those of the slices."""
    X, positives, missing = [], [], []
    weights: list[Any] = []
    some_missing = False
    for cut, (block, y, weight) in zip(slices, blocks, strict=True):
        rows = slice(cut.start, cut.stop)
        labels = block_labels(y, facts)
        X.append(block_rows(block, facts)[rows])
        positives.append(labels.positives[rows])
        some_missing |= labels.missing is not None
        missing.append(
            sp.csr_array(positives[-1].shape, dtype=bool) if labels.missing is None else labels.missing[rows]
        )
        weights.append(None if weight is None else np.asarray(weight, dtype=np.float64)[rows])
    agreed = facts.labels
    labels = LabelMatrix(
        positives=_together(positives, sp.csr_array),
        missing=_together(missing, sp.csr_array) if some_missing else None,
        names=agreed.names,
        form=agreed.form,
        values=agreed.values,
    )
    whole = _together(X, sp.csr_matrix) if facts.sparse else X[0] if len(X) == 1 else np.concatenate(X)
    return Rows(whole, labels, None if weights[0] is None else np.concatenate(weights))


def _together(parts: list[Any], container: Any) -> Any:
    return container(sp.vstack(parts, format="csr")) if len(parts) > 1 else container(parts[0])


def stop(fit: str, dask_worker: Any = None) -> None:
    """Ask what runs for a fit to end after its current pass."""
    if PLUGIN in dask_worker.plugins:
        plugin(dask_worker).stop(fit)


def forget(fit: str, dask_worker: Any = None) -> None:
    """Drop the state of a fit."""
    if PLUGIN in dask_worker.plugins:
        plugin(dask_worker).forget(fit)
