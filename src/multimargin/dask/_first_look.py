"""The first look at the blocks: computed on the workers, and asked what they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, Future, KilledWorker

from multimargin.dask import _waits
from multimargin.dask._collections import RemoteBlock
from multimargin.dask._facts import block_facts
from multimargin.dask._watch import Watch
from multimargin.errors import FitError, InputError
from multimargin.estimators.m3l.blocks import BlockFacts

__all__ = ["FIRST_ANSWER", "NO_FIRST_ANSWER", "facts_of_blocks"]

FIRST_ANSWER = 300.0
"""Seconds in which workers import this library."""
NO_FIRST_ANSWER = f"A worker of the cluster has not answered for {FIRST_ANSWER:.0f} seconds. Restart it and fit again."


def facts_of_blocks(
    client: Client, blocks: Sequence[RemoteBlock]
) -> tuple[list[tuple[BlockFacts, bool]], dict[int, Future]]:
    """Compute the blocks on the workers; return what they tell of themselves, and the blocks."""
    need = "It was counting the rows of the blocks; smaller blocks need less memory."
    watch = Watch(client, need)
    watch.some_workers()
    _check_library(client, set(watch.workers()) - watch.silent())
    computed = dict(enumerate(client.compute([block.value() for block in blocks])))
    told = [client.submit(block_facts, computed[k], pure=False, retries=0) for k in range(len(blocks))]
    pending = set(told)
    try:
        while pending:
            pending -= _waits.first_done(pending)
            if not watch.workers(watch.needed_by_any()):
                watch.some_workers()
            failed = next((k for k, future in enumerate(told) if future.status in ("error", "cancelled", "lost")), None)
            if failed is not None:
                _raise_of(told[failed], blocks[failed], client)
        try:
            return [future.result(timeout=_waits.PATIENCE) for future in told], computed
        except TimeoutError as error:
            msg = f"What the blocks tell of themselves did not arrive within {_waits.PATIENCE:.0f} seconds. {need}"
            raise FitError(msg) from error
    except BaseException:
        _waits.cancel(client, [*told, *computed.values()])
        raise


def _check_library(client: Client, workers: Iterable[str]) -> None:
    """Raise FitError where the library is missing: a task that such a worker cannot read ends it without a word."""
    options: dict[str, Any] = {"workers": sorted(workers), "on_error": "return"}
    try:
        told = _waits.in_time(client, FIRST_ANSWER, client.run, exec, "import multimargin.dask", {}, **options)
    except TimeoutError as error:
        raise FitError(NO_FIRST_ANSWER) from error
    for worker, answer in told.items():
        if isinstance(answer, ImportError):
            msg = (
                f"The worker {worker} cannot import multimargin.dask: {answer}. Install there what is installed here, "
                'pip install "multimargin[dask]", and start it again.'
            )
            raise FitError(msg) from answer


def _raise_of(future: Future, block: RemoteBlock, client: Client) -> None:
    try:
        future.result(timeout=_waits.PATIENCE)
    except (KilledWorker, MemoryError) as error:
        size = "of a size that is not known before" if block.n_bytes is None else f"of {block.n_bytes} bytes"
        workers = _waits.worker_infos(client).values()
        limits = [int(info["memory_limit"]) for info in workers if info.get("memory_limit")]
        room = f", and a worker has {min(limits)} bytes" if limits else ""
        killed = isinstance(error, KilledWorker)
        how = "Workers died, most likely out of memory," if killed else "A worker ran out of memory"
        msg = f"{how} while computing {block.name}, {size}; it is needed twice{room}. Give smaller blocks."
        raise FitError(msg) from error
    except (CancelledError, TimeoutError) as error:
        if future.status == "error":
            raise
        msg = (
            f"The rows of {block.name} are lost: they were scattered or persisted, and the worker that held them is "
            "gone. Give blocks that can be loaded again, such as delayed readers of files."
        )
        raise InputError(msg) from error
