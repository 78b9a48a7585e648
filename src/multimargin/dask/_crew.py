"""The driver's side of a fit on a cluster: where each part lives, what it is asked, what happens when it is lost.

A task is pinned to the home of its part, for the state is there and nowhere else; Dask would wait for ever for a home
that has died. So every wait here is a loop with an end: it looks, every second, whether the homes are still there, and
gives up, with an error, when there has been no worker to go on with for `PATIENCE` seconds. A worker that is there but
sleeps holds up all who need something of it, whichever of them is waited for: with a ``straggler_factor``, every wait
asks first who sleeps.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Self

from distributed import Client, Future
from tornado.ioloop import PeriodicCallback

from multimargin.dask import _waits
from multimargin.dask._collections import RemoteBlock
from multimargin.dask._first_look import FIRST_ANSWER, NO_FIRST_ANSWER
from multimargin.dask._watch import SILENCE, Watch
from multimargin.dask._worker import (
    LEASE,
    LOST,
    PartsPlugin,
    Slice,
    call_part,
    forget,
    forget_part,
    forget_rows,
    load_part,
    renew,
    stop,
)
from multimargin.errors import FitError, InputError
from multimargin.estimators.m3l.plans import Plan

__all__ = ["Crew", "Load"]

RENEWAL = LEASE / 10
"""Seconds between two words to the workers that the fit goes on."""
MOST_LOSSES = 4
"""Lives of a part that may be lost."""


@dataclass(frozen=True)
class Load:
    """A part to be: its rows, and what makes its state of them on a worker."""

    slices: tuple[Slice, ...]
    make: Callable[..., Any]


class Crew:
    """The parts of one fit on the workers of a cluster; a context manager that leaves the cluster clean."""

    def __init__(
        self,
        client: Client,
        blocks: Sequence[RemoteBlock],
        plan: Plan,
        need: str,
        straggler_factor: float | None = None,
    ) -> None:
        self.client, self.blocks, self.plan_of_all, self.need = client, blocks, plan, need
        self.straggler_factor = straggler_factor
        self.fit = uuid.uuid4().hex
        self.loads: list[Load] = []
        self.homes: list[str | None] = []
        self.lives: list[int] = []
        self.losses: list[int] = []
        self.told: list[Any] = []
        self._computed: dict[int, Future] = {}
        self._asked: set[Future] = set()
        self._slow: set[str] = set()
        self._usual: dict[str, float] = {}
        self._watch = Watch(client, need)

    def __enter__(self) -> Self:
        try:
            _waits.in_time(self.client, FIRST_ANSWER, self.client.register_plugin, PartsPlugin())
        except TimeoutError as error:
            raise FitError(NO_FIRST_ANSWER) from error
        self._clock = PeriodicCallback(self._renew, 1000 * RENEWAL)
        self.client.loop.add_callback(self._clock.start)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.loop.add_callback(self._clock.stop)
        _waits.cancel(self.client, [*self._asked, *self._computed.values()])
        self._asked.clear()
        self._computed.clear()
        self._tell_workers(forget)

    def hold(self, computed: Mapping[int, Future]) -> None:
        """Use these blocks, which are computed already, for the first load."""
        self._computed.update(computed)

    def plan(self, loads: Sequence[Load]) -> None:
        """Say which parts there are."""
        count = len(loads)
        self.loads = list(loads)
        self.homes, self.losses = [None] * count, [0] * count
        self.lives = [max(self.lives, default=0)] * count  # no life is lived twice
        self.told = [None] * count

    def load(self, on_poll: Callable[[], None] | None = None) -> list[int]:
        """Bring every part to a living worker; return the parts that began a new life."""
        fresh: list[int] = []
        while missing := self.homeless():
            self._find_homes(missing)
            asked = {part: self._ask_to_load(part) for part in missing}
            answers, lost = self._answers(asked, on_poll)
            for part, told in answers.items():
                self.told[part] = told
                fresh.append(part)
            for part in lost:
                self._check_blocks(part)
            self.lose(lost)
        if fresh:
            self._computed.clear()  # from now on the rows are in the parts
            self._tell_workers(forget_rows)
        return sorted(set(fresh))

    def call(
        self,
        function: Callable[..., Any],
        arguments: Mapping[int, tuple[Any, ...]],
        on_poll: Callable[[], None] | None = None,
    ) -> tuple[dict[int, Any], set[int]]:
        """Call a function on the state of parts; return the answers, and the parts that are lost."""
        asked = {part: self.ask(function, part, *given) for part, given in arguments.items()}
        answers, lost = self._answers(asked, on_poll, silence=SILENCE)
        self.lose(lost)
        return answers, lost

    def ask(self, function: Callable[..., Any], part: int, *arguments: Any) -> Future:
        """Begin a call on the state of a part; the arguments may be futures."""
        return self._submit(self.homes[part], call_part, self.fit, part, self.lives[part], function, *arguments)

    def send(self, values: Any, part: int) -> Future | None:
        """Put values on the worker of a part; None if it is gone, or late."""
        home, began = self.homes[part], monotonic()
        if self.client.status != "running":
            return None
        sending = _waits.begun(self.client, self.client.scatter, [values], workers=[home], hash=False)
        while not concurrent.futures.wait([sending], timeout=_waits.POLL).done:
            self._give_up_late([part], began, self._usual.get("send"))
            if self._orphans({part: sending}):
                return None  # it is not cancelled: what still arrives would have no owner who lets go of it
        try:
            (future,) = sending.result()
        except (*_waits.GONE, KeyError):  # KeyError: the scheduler has no such worker any more
            return None
        if self.homeless():  # another part was given up meanwhile
            return None
        self._usual["send"] = monotonic() - began
        self._asked.add(future)
        return future

    def finish(self, asked: Mapping[int, Future]) -> set[int]:
        """Wait until tasks have ended, without bringing what they return; return the parts that are lost.

        With a straggler factor, a part that takes many times as long as the median (of two parts: as the other one) is
        lost, too, with all parts of its worker, which gets no other one.
        """
        began = monotonic()
        ended: list[float] = []
        lost: set[int] = set()
        pending = dict(asked)
        while pending:
            _waits.first_done(pending.values(), all_of_them=self.straggler_factor is None)
            for part in [part for part, future in pending.items() if future.status != "pending"]:
                future = pending.pop(part)
                ended.append(monotonic() - began)
                if future.status != "finished" and _is_lost(self._answer(future, part)):
                    lost.add(part)
            median = sorted(ended)[(len(asked) - 1) // 2] if len(ended) >= len(asked) / 2 else None
            self._give_up_late(pending, began, median)
            if given_up := self.homeless():  # others may wait for them in vain, and the round is void
                return lost.union(given_up)
            lost.update(self._orphans(pending))
            for part in lost & pending.keys():
                pending.pop(part)
        return lost

    def on_homes(self, calls: Mapping[int, tuple[Any, ...]]) -> list[Any] | None:
        """Call a function on the workers of some parts, with futures of any parts; None if a worker is gone, or late.

        ``calls``: for each of these parts the function, the same for all, and its arguments.
        """
        began = monotonic()
        (name,) = {function.__name__ for function, *_ in calls.values()}
        asked = {part: self._submit(self.homes[part], *call) for part, call in calls.items()}
        answers, lost = self._answers(asked, None, range(len(self.homes)), self._usual.get(name), SILENCE)
        if lost:
            return None
        self._usual[name] = monotonic() - began
        return [answers[part] for part in calls]

    def gone(self) -> set[int]:
        """Parts whose worker is gone."""
        self._watch.look_again()
        return set(self._orphans(dict.fromkeys(range(len(self.homes)))))

    def drop(self, futures: Iterable[Future]) -> None:
        """Let go of futures; those that have not ended are taken back."""
        futures = list(futures)
        self._asked.difference_update(futures)
        running = [future for future in futures if future.status == "pending"]
        if running:
            _waits.cancel(self.client, running)

    def moves(self) -> list[tuple[int, str]]:
        """Return parts that should move, and where to: from workers with several to workers with none."""
        free = [worker for worker in self._quick(self._watch.workers()) if worker not in self.homes]
        moves: list[tuple[int, str]] = []
        staying = dict(enumerate(self.homes))
        for worker in free:
            homes = list(staying.values())
            crowded = max(set(homes), key=lambda home: (homes.count(home), str(home)), default=None)
            if crowded is None or homes.count(crowded) < 2:
                break
            moves.append((max(part for part, home in staying.items() if home == crowded), worker))
            del staying[moves[-1][0]]
        return moves

    def move(self, part: int, home: str, load: Load) -> None:
        """Load a part on another worker; if that fails, it has no home."""
        old, life = self.homes[part], self.lives[part]
        usual, self.loads[part] = self.loads[part], load
        self.homes[part], self.lives[part] = home, life + 1
        _, lost = self._answers({part: self._ask_to_load(part)}, None)
        self.loads[part] = usual
        self._computed.clear()
        self._tell_workers(forget_rows)
        if old in self._watch.workers():
            self._tell_workers(forget_part, part, life, workers=[old])
        if lost:
            self.lose(lost)
            self.load()

    def stop(self) -> None:
        """Ask what runs on the workers to end after its current pass."""
        self._tell_workers(stop)

    def _submit(self, home: str | None, function: Callable[..., Any], *arguments: Any) -> Future:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # once per part, and part of it
            future = self.client.submit(
                function, *arguments, workers=[home], allow_other_workers=False, pure=False, retries=0
            )
        self._asked.add(future)
        return future

    def _ask_to_load(self, part: int) -> Future:
        load = self.loads[part]
        for cut in load.slices:
            if cut.block not in self._computed:
                self._computed[cut.block] = self._compute(cut.block)
        blocks = [self._computed[cut.block] for cut in load.slices]
        return self._submit(
            self.homes[part],
            load_part,
            self.fit,
            part,
            self.lives[part],
            load.slices,
            blocks,
            self.plan_of_all,
            load.make,
        )

    def _compute(self, block: int) -> Future:
        """Compute a block where Dask likes, but not on a slow worker: to Dask one that sleeps is an idle one."""
        workers = self._quick(self._watch.workers()) if self._slow else []
        return self.client.compute(self.blocks[block].value(), workers=workers or None)

    def _answers(
        self,
        asked: Mapping[int, Future],
        on_poll: Callable[[], None] | None,
        also: Iterable[int] = (),
        usual: float | None = None,
        silence: float | None = None,
    ) -> tuple[dict[int, Any], set[int]]:
        """Wait for answers; parts whose home is gone are lost, and all if that of one of the others is.

        ``usual`` and ``silence`` say who is late; None is the patience with workers that are busy with functions of the
        user, which need not let them speak.
        """
        also, began = list(also), monotonic()
        answers: dict[int, Any] = {}
        lost: set[int] = set()
        pending = dict(asked)

        def late() -> None:
            self._give_up_late(pending, began, usual, _waits.PATIENCE if silence is None else silence)

        try:
            while pending:
                for part in self._done(pending):
                    answer = self._answer(pending[part], part, late)
                    del pending[part]
                    if _is_lost(answer):
                        lost.add(part)
                    else:
                        answers[part] = answer
                if on_poll is not None:
                    on_poll()
                late()
                orphans = pending if self._orphans(dict.fromkeys(also)) else self._orphans(pending)
                for part in list(orphans):
                    del pending[part]
                    lost.add(part)
        finally:
            self.drop(asked.values())
        return answers, lost

    def _done(self, pending: Mapping[int, Future]) -> list[int]:
        done = {future.key for future in _waits.first_done(pending.values())}
        return [part for part, future in pending.items() if future.key in done]

    def _answer(self, future: Future, part: int, on_poll: Callable[[], None] | None = None) -> Any:
        """Answer of a task that has ended; LOST if its worker went before it was brought here."""
        try:
            if future.status != "finished":
                return future.result(timeout=_waits.LOOK)  # why it failed, which is here already
            # Begun once: however long it takes, it arrives.
            bringing = _waits.begun(self.client, self.client.gather, future)
            try:
                while not concurrent.futures.wait([bringing], timeout=_waits.POLL).done:
                    if on_poll is not None:
                        on_poll()
                    if self._orphans({part: future}):
                        return LOST
                return bringing.result()
            finally:
                bringing.cancel()
        except MemoryError as error:
            msg = f"A worker has run out of memory in part {part}. {self.need}"
            raise FitError(msg) from error
        except _waits.GONE as error:
            if future.status == "error" and not isinstance(error, _waits.OF_WORKERS):
                raise  # of the task, such as a file that cannot be read
            return LOST

    def _give_up_late(self, parts: Iterable[int], began: float, usual: float | None, silence: float = SILENCE) -> None:
        """Give up workers that sleep; if none does, those of parts that take many times as long as usual."""
        seconds = monotonic() - began
        if self.straggler_factor is None or seconds < silence + _waits.LOOK:  # before, nobody can be told to sleep
            return
        homes = {home for home in self.homes if home is not None}
        late = self._watch.silent(silence) & homes
        if not late and usual is not None and seconds > self.straggler_factor * usual:
            late = homes.intersection(self.homes[part] for part in parts)
        if late:
            self._give_up(late)

    def _give_up(self, late: set[str]) -> None:
        """Use some workers no more, as long as there are others; the parts they have are homeless."""
        awake = set(self._watch.workers()) - self._watch.silent()
        better = awake - late - self._slow
        if not better:  # slow or not, one that is awake is better than one that sleeps
            late, better = late - awake, awake
            self._slow -= better if late else set()
        if better:
            self._slow |= late
            _waits.cancel(self.client, list(self._computed.values()))  # blocks that are on their way may be there
            self._computed.clear()
            self.homes = [None if home in late else home for home in self.homes]

    def _orphans(self, pending: Mapping[int, Any]) -> list[int]:
        living = self._watch.workers({home for part in pending if (home := self.homes[part]) is not None})
        return [part for part in pending if self.homes[part] not in living]

    def _quick(self, workers: Iterable[str]) -> list[str]:
        """Workers that are neither slow nor asleep nor paused."""
        idle = self._slow | self._watch.silent()
        return [worker for worker in workers if worker not in idle and not self._watch.is_paused(worker)]

    def homeless(self) -> list[int]:
        """Parts that no worker holds."""
        return [part for part, home in enumerate(self.homes) if home is None]

    def lose(self, parts: Iterable[int]) -> None:
        """Take note of parts that are lost; FitError if one has been too often."""
        for part in parts:
            if self.homes[part] is None:  # it was given up
                continue
            self.homes[part] = None
            self.losses[part] += 1
            if self.losses[part] >= MOST_LOSSES:
                msg = (
                    f"Part {part} of {len(self.loads)} was lost {self.losses[part]} times: the workers that held it "
                    f"died. {self.need} The logs of the workers say why they ended."
                )
                raise FitError(msg)

    def _find_homes(self, parts: Iterable[int]) -> None:
        workers = self._watch.some_workers()
        workers = self._quick(workers) or workers
        taken = dict.fromkeys(workers, 0)
        for home in self.homes:
            if home in taken:
                taken[home] += 1
        for part in parts:
            home = min(workers, key=lambda worker: (taken[worker], workers.index(worker)))
            taken[home] += 1
            self.homes[part] = home
            self.lives[part] += 1

    def _check_blocks(self, part: int) -> None:
        """Compute lost blocks again; raise InputError if one cannot be."""
        for cut in self.loads[part].slices:
            future = self._computed.get(cut.block)
            if future is not None and future.status == "pending" and self._slow:
                # The workers that may compute it are others now.
                _waits.cancel(self.client, [self._computed.pop(cut.block)])
                continue
            if future is None or future.status in ("pending", "finished"):
                continue
            self._computed[cut.block] = again = self._compute(cut.block)
            if not _waits.first_done([again]):
                continue
            if again.status != "finished":
                name = self.blocks[cut.block].name
                msg = (
                    f"The rows of {name} were lost with the worker that held them, and cannot be computed again: they "
                    "were scattered or persisted from data that are gone. Give blocks that can be loaded again, such "
                    "as delayed readers of files, or fit again."
                )
                raise InputError(msg)

    async def _renew(self) -> None:
        """Tell the workers that this fit goes on, also those that have long had nothing to do for it."""
        if self.client.status != "running":
            return
        with suppress(OSError, TimeoutError):
            await asyncio.wait_for(self.client.run(renew, self.fit, on_error="ignore"), RENEWAL)

    def _tell_workers(self, function: Callable[..., None], *arguments: Any, workers: list[Any] | None = None) -> None:
        """Call a function on workers; what one that is slow does with it is not waited for."""
        if self.client.status != "running":
            return
        client, seconds = self.client, _waits.LOOK if self._slow or self._watch.silent() else _waits.PATIENCE
        with suppress(OSError, TimeoutError):  # no scheduler, no workers: their state went with them
            _waits.in_time(
                client, seconds, client.run, function, self.fit, *arguments, workers=workers, on_error="ignore"
            )


def _is_lost(answer: Any) -> bool:
    return isinstance(answer, str) and answer == LOST
