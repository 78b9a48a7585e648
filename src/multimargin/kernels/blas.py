"""One limit on BLAS threads for all fits of a process."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Lock

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


class _OneBlasThread:
    """Keeps BLAS from starting threads of its own, as long as anybody in the process asks for it.

    The limit is one of the process: the first of several fits at the same time sets it, the last one takes it back.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._limit = Lock(), 0, ExitStack()
        self._libraries: ThreadpoolController | None = None  # finding them takes milliseconds

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                if self._libraries is None:
                    self._libraries = ThreadpoolController()
                self._limit.enter_context(self._libraries.limit(limits=1, user_api="blas"))
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.close()


one_blas_thread = _OneBlasThread()
