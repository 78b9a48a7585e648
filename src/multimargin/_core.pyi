"""Types of the native module."""

from collections.abc import Callable

Report = Callable[[int, float, float | None, float | None], bool]

def rehearse(seconds: float, threads: int, fail_at: int, report: Report | None, time_limit: float) -> int: ...
