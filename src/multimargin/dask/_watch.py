"""Which workers a cluster has, and which of them sleep or have no memory left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic, sleep
from typing import Any

from distributed import Client
from distributed.scheduler import heartbeat_interval

from multimargin.dask import _waits
from multimargin.errors import FitError

__all__ = ["SILENCE", "Watch"]

SILENCE = 3.0
"""Seconds after which a worker sleeps that says nothing while others do; one that is awake does every half second."""


class Watch:
    """Which workers there are, asked for at most once a second."""

    def __init__(self, client: Client, need: str) -> None:
        self.client, self.need = client, need
        self._known: dict[str, Any] = {}
        self._looked = -_waits.LOOK
        self._paused: dict[str, float] = {}

    def workers(self, needed: Iterable[str] = ()) -> list[str]:
        """Addresses of the workers; raises FitError where a needed one has been out of memory for too long."""
        now = monotonic()
        if now - self._looked >= _waits.LOOK:
            self._known = _waits.worker_infos(self.client)
            self._looked = now
            stuck = {address for address, info in self._known.items() if _is_stuck(info)}
            self._paused = {address: self._paused.get(address, now) for address in stuck}
        for address in needed:
            if now - self._paused.get(address, now) > _waits.PATIENCE:
                msg = f"The worker {address} is paused: its memory is full. {self.need}"
                raise FitError(msg)
        return list(self._known)

    def needed_by_any(self) -> list[str]:
        """Addresses of the workers that have something to do, or of all where none can."""
        if not self._paused:
            return []
        if len(self._paused) == len(self._known):
            return list(self._known)
        try:
            processing = _waits.in_time(self.client, _waits.PATIENCE, self.client.processing)
        except (OSError, TimeoutError):
            return []  # the next look says what is wrong
        return [address for address, keys in processing.items() if keys]

    def is_paused(self, worker: str) -> bool:
        """Whether a worker takes no tasks, for its memory is full."""
        return bool(self._known.get(worker, {}).get("status") == "paused")

    def silent(self, seconds: float = SILENCE) -> set[str]:
        """Workers that have said nothing to the scheduler for so long before the last word of any of them."""
        heard = {address: float(info["last_seen"]) for address, info in self._known.items()}
        longest = max(seconds, 3 * heartbeat_interval(len(heard)))  # many workers speak less often
        latest = max(heard.values(), default=0.0)
        return {address for address, at in heard.items() if latest - at > longest}

    def look_again(self) -> None:
        """Ask the scheduler the next time."""
        self._looked = -_waits.LOOK

    def some_workers(self) -> list[str]:
        """Addresses of the workers, in the order of their names; waits for one if there is none."""
        since = monotonic()
        while True:
            self.look_again()
            if self.workers():
                names = {address: str(info.get("name", address)) for address, info in self._known.items()}
                return sorted(self._known, key=lambda address: (len(names[address]), names[address]))
            if monotonic() - since > _waits.PATIENCE:
                msg = (
                    f"The cluster has had no worker for {_waits.PATIENCE:.0f} seconds: all of them have ended. Start "
                    f"workers and fit again. {self.need}"
                )
                raise FitError(msg)
            sleep(_waits.POLL)


def _is_stuck(info: Mapping[str, Any]) -> bool:
    """Whether a worker is paused and runs nothing: what ran when its memory was full goes on."""
    counts = info.get("metrics", {}).get("task_counts") or {}
    return info.get("status") == "paused" and not counts.get("executing")
