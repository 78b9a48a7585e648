"""One limit on BLAS threads for all fits of a process."""

from __future__ import annotations

from threading import Lock
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

__all__ = ["one_blas_thread"]


class _OneBlasThread:
    """Keeps BLAS from starting threads of its own, as long as anybody in the process asks for it.

    The limit is one of the process: the first of several fits at the same time sets it, the last one takes it back,
    whichever thread it is in.
    """

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._limit: Any = None
        self._libraries: ThreadpoolController | None = None  # finding them takes milliseconds

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                if self._libraries is None:
                    self._libraries = ThreadpoolController()
                self._limit = self._libraries.limit(limits=1, user_api="blas")
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _let_any_thread_set_limits()
                self._limit.restore_original_limits()
                _let_any_thread_set_limits()


def _let_any_thread_set_limits() -> None:
    """From threadpoolctl 3.8 on, what a thread has limited, others change only then."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


one_blas_thread = _OneBlasThread()
