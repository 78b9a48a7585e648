"""How many threads an estimator may use."""

from __future__ import annotations

from joblib import cpu_count, effective_n_jobs

from multimargin.errors import InputError

__all__ = ["threads"]


def threads(n_jobs: int | None) -> int:
    """Return the number of threads, at most one per core of the machine."""
    if n_jobs == 0:
        msg = "n_jobs must not be 0; use None or 1 for one thread, -1 for all cores."
        raise InputError(msg)
    return int(min(effective_n_jobs(n_jobs), cpu_count()))
