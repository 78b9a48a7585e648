"""Layouts in which a worker holds all rows: the ordinary solver for each block of labels.

Without a prior the problems of the labels are independent: each block of labels is a problem of its own, solved to
``tol`` on one worker as :class:`~multimargin.LinearM3L` solves it, to the same bits. The objective of all labels is the
sum of the objectives, the dual value the sum of the dual values, and gaps of at most ``tol`` times the objective of
each block add up to one of at most ``tol`` times the objective of all.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray

from multimargin.dask._crew import Crew, Load
from multimargin.dask._facts import Facts
from multimargin.dask._layout import Layout, label_blocks, row_parts
from multimargin.dask._worker import plugin
from multimargin.estimators import LinearM3L, Progress
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import Model, Monitor, Status, WarmStart
from multimargin.estimators.m3l.base import M3LTask
from multimargin.estimators.m3l.blocks import Block
from multimargin.estimators.m3l.label_blocks import labels_of

__all__ = ["Told", "WholeRows", "fit_whole_rows"]

WORST = (Status.stopped, Status.time_limit, Status.max_iter, Status.imprecise, Status.converged)
"""What is said of all blocks if one of them ended so, first one first."""


@dataclass(frozen=True)
class Told:
    """What a worker says of the problem once it has all rows."""

    constant: NDArray[np.bool_]
    prior: Any
    dtype: Any
    C: float


@dataclass(frozen=True)
class WholeRows:
    """The state of a part: a model to be, and its task."""

    model: LinearM3L
    task: M3LTask
    start: WarmStart | None


def fit_whole_rows(
    crew: Crew, facts: Facts, model: LinearM3L, layout: Layout, seed: int, last: WarmStart | None, monitor: Monitor
) -> tuple[Told, Model]:
    """Train every block of labels on one of the workers."""
    blocks = label_blocks(facts.n_labels, layout.labels)
    (slices,) = row_parts(facts.rows, 1)
    crew.plan([Load(slices, partial(make_block, model, block, seed, last)) for block in blocks])
    crew.load()
    told: list[Told] = list(crew.told)
    news = News(crew, len(blocks), monitor)
    found: dict[int, Model] = {}
    with news:
        while len(found) < len(blocks):
            missing = [part for part in range(len(blocks)) if part not in found]
            left = monitor.time_left(model.time_limit)
            answers, lost = crew.call(
                solve_block, {part: (crew.fit, part, news.topic, left) for part in missing}, news.pass_on
            )
            found.update(answers)
            if lost:
                crew.load(news.pass_on)
    constant = np.concatenate([one.constant for one in told])
    return replace(told[0], constant=constant), put_together([found[part] for part in range(len(blocks))])


def put_together(models: list[Model]) -> Model:
    """Return the model of all labels from those of blocks of labels."""
    fitted = {name: np.concatenate([one.fitted[name] for one in models]) for name in models[0].fitted}
    duals = [one.bounds.dual for one in models]
    bounds = Bounds(
        primal=float(sum(one.bounds.primal for one in models)),
        dual=None if any(dual is None for dual in duals) else float(sum(dual for dual in duals if dual is not None)),
    )
    status = min((one.status for one in models), key=WORST.index)
    state = None
    if models[0].state is not None:
        beta = np.concatenate([one.state["beta"] for one in models], axis=1)
        state = {"beta": beta, "newton": all(one.state["newton"] for one in models)}
    return Model(fitted, bounds, max(one.passes for one in models), status, state)


def make_block(
    model: LinearM3L, columns: slice, seed: int, last: WarmStart | None, rows: Block
) -> tuple[WholeRows, Told]:
    """Make the problem of a block of labels; runs on a worker."""
    if model.n_jobs is None:
        model.n_jobs = get_worker().state.nthreads
    problem = replace(model._problem(rows.X, rows.y, rows.sample_weight), seed=seed)
    task = labels_of(model._prepare(problem), columns)
    start = None
    if last is not None:
        start = replace(last, state={**last.state, "beta": np.ascontiguousarray(last.state["beta"][:, columns])})
        model.coef_, model.intercept_ = model.coef_[columns], model.intercept_[columns]
    return WholeRows(model, task, start), Told(task.problem.constant, problem.prior, task.problem.dtype, problem.C)


def solve_block(part: WholeRows, fit: str, number: int, topic: str, time_limit: float) -> Model:
    """Train a block of labels, and tell of every pass; runs on a worker."""
    worker, parts = get_worker(), plugin()

    def tell(progress: Progress) -> bool:
        if progress.primal is not None:
            worker.log_event(topic, [number, progress.pass_, progress.primal, progress.dual])
        return parts.asks_to_stop(fit)

    monitor = Monitor(tell, 0, type(part.model).__name__)
    part.model.time_limit = None if np.isinf(time_limit) else time_limit
    found = part.model._solve(part.task, part.start, monitor)
    return found if part.model.warm_start else replace(found, state=None)


class News:
    """Passes that workers tell of on their way, passed on as passes of the whole fit."""

    def __init__(self, crew: Crew, count: int, monitor: Monitor) -> None:
        self.crew, self.count, self.monitor = crew, count, monitor
        self.topic = f"multimargin-{crew.fit}"
        self._waiting: deque[Any] = deque()
        self._latest: dict[int, tuple[int, float, float]] = {}

    def __enter__(self) -> None:
        self.crew.client.subscribe_topic(self.topic, lambda event: self._waiting.append(event[1]))

    def __exit__(self, *_: object) -> None:
        self.crew.client.unsubscribe_topic(self.topic)

    def pass_on(self) -> None:
        """Tell the monitor what has come; if it asks to stop, ask the workers."""
        fresh = bool(self._waiting)
        while self._waiting:
            part, pass_, primal, dual = self._waiting.popleft()
            self._latest[part] = (pass_, primal, dual)
        if fresh and len(self._latest) == self.count:
            passes, primals, duals = zip(*self._latest.values(), strict=True)
            if self.monitor(max(passes), self.monitor.elapsed, sum(primals), sum(duals)):
                self.crew.stop()
