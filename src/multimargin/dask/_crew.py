"""The driver's side of a fit on a cluster: where each part lives, what it is asked, what happens when it is lost.

A task is pinned to the home of its part, for the state is there and nowhere else; Dask would wait for ever for a home
that has died. So every wait here is a loop with an end: it looks, every second, whether the homes are still there, and
gives up, with an error, when there has been no worker to go on with for `PATIENCE` seconds.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Self

from distributed import Client, Future, KilledWorker, wait
from distributed.comm import CommClosedError

from multimargin.dask._collections import Block
from multimargin.dask._facts import BlockFacts, Facts, block_facts
from multimargin.dask._worker import LOST, PLUGIN, PartsPlugin, Slice, call_part, forget, load_part, stop
from multimargin.errors import FitError, InputError

__all__ = ["Crew", "Load", "facts_of_blocks"]

POLL = 0.2
"""Seconds between two looks at the answers."""
LOOK = 1.0
"""Seconds between two looks at the workers."""
PATIENCE = 30.0
"""Seconds to wait for a worker where there is none, or where the one that is needed has no memory left to run."""
MOST_LOSSES = 4
"""Lives of a part that may be lost."""
GONE = (CancelledError, CommClosedError, KilledWorker, OSError, TimeoutError)


@dataclass(frozen=True)
class Load:
    """A part to be: its rows, and what makes its state of them on a worker."""

    slices: tuple[Slice, ...]
    make: Callable[..., Any]


class Crew:
    """The parts of one fit on the workers of a cluster; a context manager that leaves the cluster clean."""

    def __init__(self, client: Client, blocks: Sequence[Block], facts: Facts, need: str) -> None:
        self.client, self.blocks, self.facts, self.need = client, blocks, facts, need
        self.fit = uuid.uuid4().hex
        self.loads: list[Load] = []
        self.homes: list[str | None] = []
        self.lives: list[int] = []
        self.losses: list[int] = []
        self.told: list[Any] = []
        self._computed: dict[int, Future] = {}
        self._asked: set[Future] = set()
        self._watch = Watch(client, need)

    def __enter__(self) -> Self:
        self.client.register_plugin(PartsPlugin(), name=PLUGIN)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.cancel([*self._asked, *self._computed.values()], force=True)
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
        self.homes, self.lives, self.losses = [None] * count, [0] * count, [0] * count
        self.told = [None] * count

    def load(self, on_poll: Callable[[], None] | None = None) -> list[int]:
        """Bring every part to a living worker; return the parts that began a new life."""
        fresh: list[int] = []
        while missing := self._homeless():
            self._find_homes(missing)
            asked = {part: self._ask_to_load(part) for part in missing}
            answers, lost = self._answers(asked, on_poll)
            for part, told in answers.items():
                self.told[part] = told
                fresh.append(part)
            for part in lost:
                self._check_blocks(part)
            self._lose(lost)
        self._computed.clear()  # from now on the rows are in the parts
        return sorted(set(fresh))

    def call(
        self,
        function: Callable[..., Any],
        arguments: Mapping[int, tuple[Any, ...]],
        on_poll: Callable[[], None] | None = None,
    ) -> tuple[dict[int, Any], set[int]]:
        """Call a function on the state of parts; return the answers, and the parts that are lost."""
        asked = {part: self.ask(function, part, *given) for part, given in arguments.items()}
        answers, lost = self._answers(asked, on_poll)
        self._lose(lost)
        return answers, lost

    def ask(self, function: Callable[..., Any], part: int, *arguments: Any) -> Future:
        """Begin a call on the state of a part; the arguments may be futures."""
        return self._submit(self.homes[part], call_part, self.fit, part, self.lives[part], function, *arguments)

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
                self._computed[cut.block] = self.client.compute(self.blocks[cut.block].value)
        blocks = [self._computed[cut.block] for cut in load.slices]
        return self._submit(
            self.homes[part],
            load_part,
            self.fit,
            part,
            self.lives[part],
            load.slices,
            blocks,
            self.facts,
            load.make,
        )

    def _answers(
        self, asked: Mapping[int, Future], on_poll: Callable[[], None] | None
    ) -> tuple[dict[int, Any], set[int]]:
        """Wait for answers; parts whose home is gone are lost."""
        answers: dict[int, Any] = {}
        lost: set[int] = set()
        pending = dict(asked)
        try:
            while pending:
                for part in self._done(pending):
                    answer = self._answer(pending.pop(part), part)
                    if isinstance(answer, str) and answer == LOST:
                        lost.add(part)
                    else:
                        answers[part] = answer
                if on_poll is not None:
                    on_poll()
                for part in self._orphans(pending):
                    pending.pop(part).cancel(force=True)
                    lost.add(part)
        finally:
            for future in asked.values():
                self._asked.discard(future)
                future.cancel(force=True)
        return answers, lost

    def _done(self, pending: Mapping[int, Future]) -> list[int]:
        done = {future.key for future in first_done(pending.values())}
        return [part for part, future in pending.items() if future.key in done]

    def _answer(self, future: Future, part: int) -> Any:
        """Answer of a task that has ended; LOST if its worker went before it was brought here."""
        while True:
            try:
                return future.result(timeout=LOOK)
            except TimeoutError:
                if future.status != "finished" or self._orphans({part: future}):
                    return LOST
            except GONE:
                return LOST
            except MemoryError as error:
                msg = f"A worker has run out of memory in part {part}. {self.need}"
                raise FitError(msg) from error

    def _orphans(self, pending: Mapping[int, Any]) -> list[int]:
        living = self._watch.workers({home for part in pending if (home := self.homes[part]) is not None})
        return [part for part in pending if self.homes[part] not in living]

    def _homeless(self) -> list[int]:
        return [part for part, home in enumerate(self.homes) if home is None]

    def _lose(self, parts: Iterable[int]) -> None:
        for part in parts:
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
            if future is None or future.status in ("pending", "finished"):
                continue
            self._computed[cut.block] = again = self.client.compute(self.blocks[cut.block].value)
            if not first_done([again]):
                continue
            if again.status != "finished":
                name = self.blocks[cut.block].name
                msg = (
                    f"The rows of {name} were lost with the worker that held them, and cannot be computed again: they "
                    "were scattered or persisted from data that are gone. Give blocks that can be loaded again, such "
                    "as delayed readers of files, or fit again."
                )
                raise InputError(msg)

    def _tell_workers(self, function: Callable[..., None]) -> None:
        with suppress(OSError, TimeoutError):  # no scheduler, no workers: their state went with them
            self.client.sync(self.client._run, function, self.fit, on_error="ignore", callback_timeout=PATIENCE)


class Watch:
    """Which workers there are, asked for at most once a second."""

    def __init__(self, client: Client, need: str) -> None:
        self.client, self.need = client, need
        self._known: dict[str, Any] = {}
        self._looked = -LOOK
        self._paused: dict[str, float] = {}

    def workers(self, needed: Iterable[str] = ()) -> list[str]:
        """Addresses of the workers; raises FitError where a needed one has been out of memory for too long."""
        now = monotonic()
        if now - self._looked >= LOOK:
            self._known = worker_infos(self.client)
            self._looked = now
        paused = {a for a in needed if a in self._known and self._known[a].get("status") == "paused"}
        self._paused = {address: self._paused.get(address, now) for address in paused}
        for address, since in self._paused.items():
            if now - since > PATIENCE:
                msg = f"The worker {address} is paused: its memory is full. {self.need}"
                raise FitError(msg)
        return list(self._known)

    def some_workers(self) -> list[str]:
        """Addresses of the workers, in the order of their names; waits for one if there is none."""
        since = monotonic()
        while True:
            self._looked = -LOOK
            if self.workers():
                names = {address: str(info.get("name", address)) for address, info in self._known.items()}
                return sorted(self._known, key=lambda address: (len(names[address]), names[address]))
            if monotonic() - since > PATIENCE:
                msg = (
                    f"The cluster has had no worker for {PATIENCE:.0f} seconds: all of them have ended. Start workers "
                    f"and fit again. {self.need}"
                )
                raise FitError(msg)
            sleep(POLL)


def worker_infos(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows of its workers; FitError if there is no scheduler."""
    try:
        if client.status != "running":
            msg = f"the client is {client.status}"
            raise OSError(msg)
        found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    except (OSError, TimeoutError) as error:
        msg = f"The scheduler of the cluster does not answer: {error}. Start a cluster and fit again."
        raise FitError(msg) from error
    return found


def first_done(futures: Iterable[Future]) -> set[Future]:
    """Wait a moment; return the futures that have ended, however."""
    futures = list(futures)
    with suppress(*GONE):  # whatever it is, the state of the futures tells
        wait(futures, timeout=POLL, return_when="FIRST_COMPLETED")
    return {future for future in futures if future.status != "pending"}


def facts_of_blocks(client: Client, blocks: Sequence[Block]) -> tuple[list[BlockFacts], dict[int, Future]]:
    """Compute the blocks on the workers; return what they tell of themselves, and the blocks."""
    need = "It was counting the rows of the blocks; smaller blocks need less memory."
    watch = Watch(client, need)
    watch.some_workers()
    computed = dict(enumerate(client.compute([block.value for block in blocks])))
    told = [
        client.submit(block_facts, computed[k], block.name, pure=False, retries=0) for k, block in enumerate(blocks)
    ]
    pending = set(told)
    try:
        while pending:
            pending -= first_done(pending)
            if not watch.workers():
                watch.some_workers()
            failed = next((k for k, future in enumerate(told) if future.status in ("error", "cancelled", "lost")), None)
            if failed is not None:
                _raise_of(told[failed], blocks[failed].name)
        return [future.result(timeout=PATIENCE) for future in told], computed
    except TimeoutError as error:
        msg = f"What the blocks tell of themselves did not arrive within {PATIENCE:.0f} seconds. {need}"
        raise FitError(msg) from error
    except BaseException:
        client.cancel([*told, *computed.values()], force=True)
        raise


def _raise_of(future: Future, name: str) -> None:
    try:
        future.result(timeout=PATIENCE)
    except KilledWorker as error:
        msg = f"Workers died while they computed {name}, most likely out of memory. Give smaller blocks."
        raise FitError(msg) from error
    except (CancelledError, TimeoutError) as error:
        msg = (
            f"The rows of {name} are lost: they were scattered or persisted, and the worker that held them is gone. "
            "Give blocks that can be loaded again, such as delayed readers of files."
        )
        raise InputError(msg) from error
