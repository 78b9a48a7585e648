"""Ctrl-C while a library that cannot be interrupted computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["interruptible"]

P = ParamSpec("P")
T = TypeVar("T")


def interruptible(function: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T:
    """Call a long native function, such as an eigendecomposition, so that Ctrl-C is answered while it runs.

    It runs in a thread of its own, which after Ctrl-C is left to end unseen. The function must release the GIL.

    Parameters
    ----------
    function : callable
    *arguments, **options
        What it is called with.

    Returns
    -------
    What the function returns; what it raises is raised here.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments, **options)  # Ctrl-C belongs to the main thread
    values: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            values.append(function(*arguments, **options))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if errors:
        raise errors[0]
    return values[0]
