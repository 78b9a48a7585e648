"""Calls of a Dask client, each of which ends: most of the client's own have no time limit, or look at a clock."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from distributed import Client, Future, KilledWorker
from distributed.client import _wait
from distributed.comm import CommClosedError

from multimargin.errors import FitError

__all__ = ["GONE", "LOOK", "OF_WORKERS", "PATIENCE", "POLL", "begun", "cancel", "first_done", "in_time", "worker_infos"]

POLL = 0.2
"""Seconds between two looks at the answers."""
LOOK = 1.0
"""Seconds between two looks at the workers."""
PATIENCE = 30.0
"""Seconds to wait for a worker where there is none, or where the one that is needed has no memory left to run."""
OF_WORKERS = (CancelledError, CommClosedError, KilledWorker)
GONE = (*OF_WORKERS, OSError, TimeoutError)


def cancel(client: Client, futures: list[Future]) -> None:
    """Take back what is asked for; a client that is closed has done so."""
    if client.status == "running":
        with suppress(*GONE):
            in_time(client, PATIENCE, client.cancel, futures, force=True)


def begun(client: Client, call: Callable[..., Any], *arguments: Any, **options: Any) -> concurrent.futures.Future[Any]:
    """Begin a call of a client in its loop, to be waited for elsewhere; most have no time limit of their own."""

    async def begin() -> Any:
        return await call(*arguments, **options)

    return asyncio.run_coroutine_threadsafe(begin(), client.loop.asyncio_loop)


def in_time(client: Client, seconds: float, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a client; TimeoutError if that takes longer."""

    async def begin() -> Any:
        return await call(*arguments, **options)

    return client.sync(begin, callback_timeout=seconds)


def worker_infos(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows of its workers; FitError if there is no scheduler."""
    try:
        if client.status != "running":
            msg = f"the client is {client.status}"
            raise OSError(msg)
        # Not client.scheduler_info, whose answer a clock of the client may replace by one without workers.
        told = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=PATIENCE)
    except (OSError, TimeoutError) as error:
        msg = f"The scheduler of the cluster does not answer: {error}. Start a cluster and fit again."
        raise FitError(msg) from error
    workers: dict[str, Any] = told["workers"]
    return workers


def first_done(futures: Iterable[Future], *, all_of_them: bool = False) -> set[Future]:
    """Wait a moment for one future, or all; return those that have ended, however."""
    futures = list(futures)
    client = futures[0].client  # _wait, for distributed.wait takes the default client
    with suppress(*GONE):  # whatever it is, the state of the futures tells
        client.sync(_wait, futures, timeout=POLL, return_when="ALL_COMPLETED" if all_of_them else "FIRST_COMPLETED")
    return {future for future in futures if future.status != "pending"}
