"""Progress of a fit in a notebook or a terminal, for ``callback=``."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any, Self

__all__ = ["ProgressBar", "progress"]

QUIET_SECONDS = 1.0


def progress() -> ProgressBar:
    """Return a callback that shows how training goes.

    A bar where tqdm is installed (``pip install "multimargin[notebook]"``), in a notebook as a widget; otherwise a line
    on standard error about every second. It says passes, objective and relative gap of a fit, and fits done, C and the
    time left of a search (``CPath``, ``TunedM3L``). ``verbose=1`` prints a line for every evaluation instead.

    Returns
    -------
    ProgressBar
        A callable, and a context manager that closes the bar.

    Examples
    --------
    >>> import numpy as np
    >>> import multimargin
    >>> X, Y = np.eye(4), [{"sea"}, {"sun"}, {"sea", "sun"}, set()]
    >>> with multimargin.progress() as bar:
    ...     model = multimargin.LinearM3L(callback=bar).fit(X, Y)
    """
    return ProgressBar()


class ProgressBar:
    """Shows what it is told; a copy, as scikit-learn makes of every parameter, is a bar of its own."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._last = -float("inf")
        self._passes = 0

    def __call__(self, progress: Any) -> None:
        """Show a pass of a fit, or a fit of a search."""
        done, total, state = _read(progress)
        if done < self._passes:  # another fit
            self.close()
        self._passes = done
        bar = self._open(total)
        if bar is not None:
            bar.n = done
            bar.set_postfix_str(state, refresh=False)
            bar.update(0)
            if total is not None and done >= total:
                self.close()
        elif monotonic() - self._last >= QUIET_SECONDS:
            self._last = monotonic()
            sys.stderr.write(f"{_unit(total)} {done}{'' if total is None else f' of {total}'}, {state}\n")

    def close(self) -> None:
        """Leave the bar as it is; the next fit has one of its own."""
        if self._bar is not None:
            self._bar.refresh()
            self._bar.close()
        self.__init__()  # type: ignore[misc]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: Any) -> ProgressBar:
        return ProgressBar()

    def __reduce__(self) -> tuple[type[ProgressBar], tuple[()]]:
        return ProgressBar, ()

    def _open(self, total: int | None) -> Any:
        if self._bar is None:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return None
            self._bar = tqdm(total=total, unit=f" {_unit(total)}")
        return self._bar


def _unit(total: int | None) -> str:
    return "pass" if total is None else "fit"


def _read(progress: Any) -> tuple[int, int | None, str]:
    """Return how much is done, of how much if that is known, and what else to say."""
    if hasattr(progress, "total"):
        return progress.done, progress.total, f"C = {progress.C:.3g}, about {progress.time_left:.0f} s left"
    if progress.gap is None:
        return progress.pass_, None, f"{progress.time:.1f} s"
    relative = progress.gap / progress.primal if progress.primal > 0 else progress.gap
    return progress.pass_, None, f"objective {progress.primal:.6g}, relative gap {relative:.1e}"
