"""What a solver reports while it runs, and what is left of it afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite, log
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin._tables import html_table

__all__ = ["Clock", "ForecastMonitor", "History", "Monitor", "Progress"]

FEWEST = 4
"""Gaps from which on there is a forecast."""


@dataclass(frozen=True, eq=False)
class History:
    """The certificate over time: one entry for every pass at which it was evaluated.

    Attributes
    ----------
    time : ndarray
        Seconds since training began.
    pass_ : ndarray
        Number of passes over the data.
    primal, dual : ndarray
        Bounds of the optimum at that moment.
    """

    time: NDArray[np.float64]
    pass_: NDArray[np.int64]
    primal: NDArray[np.float64]
    dual: NDArray[np.float64]

    def _repr_html_(self) -> str:
        n = len(self.time)
        rows = [["pass", "seconds", "primal", "dual"]]
        for k in np.unique(np.linspace(0, n - 1, min(n, 10)).round().astype(int)).tolist():
            rows.append([str(self.pass_[k]), f"{self.time[k]:.2f}", f"{self.primal[k]:.6g}", f"{self.dual[k]:.6g}"])
        return html_table(rows, note=f"{len(rows) - 1} of {n} evaluations")


@dataclass(frozen=True)
class Progress:
    """What a callback receives once per pass.

    Attributes
    ----------
    pass_ : int
        Number of passes over the data.
    time : float
        Seconds since training began.
    primal, dual, gap : float or None
        None on passes at which the certificate was not evaluated.
    model : estimator or None
        A copy of the estimator with the weights of this pass, which predicts; it has no certificate and no offset. Of
        ``SubmodularClassifier`` those at the end of the pass, or with ``solver="bundle"`` and ``"bmrm"`` those at
        which the oracle was called in it. None from solvers that do not show their weights.
    """

    pass_: int
    time: float
    primal: float | None
    dual: float | None
    gap: float | None
    model: Any = field(default=None, repr=False)


@dataclass
class Monitor:
    """Collects the history, calls the user's callback, and prints when ``verbose``."""

    callback: Callable[[Progress], object] | None
    verbose: int
    name: str
    model_at: Callable[..., Any] | None = None
    """The estimator at a solver's weights, where it can show them."""
    estimate: float | None = None
    """The relative gap as the solver guesses it, for passes at which it is not evaluated."""
    _records: list[tuple[float, int, float, float]] = field(default_factory=list)
    _start: float = field(default_factory=perf_counter)

    @property
    def wants_iterates(self) -> bool:
        """Whether a solver should report its weights, too."""
        return self.callback is not None and self.model_at is not None

    @property
    def elapsed(self) -> float:
        """Seconds since training began."""
        return perf_counter() - self._start

    def time_left(self, time_limit: float | None) -> float:
        """Seconds left of a time limit."""
        return np.inf if time_limit is None else max(float(time_limit) - self.elapsed, 0.0)

    def __call__(
        self, pass_: int, time: float, primal: float | None, dual: float | None, iterate: tuple[Any, ...] | None = None
    ) -> bool:
        """Report of the native solver; True asks it to stop."""
        time = self.elapsed  # a second solver has its own clock
        gap = None
        if primal is not None and dual is not None:
            gap = primal - dual
            self._records.append((time, pass_, primal, dual))
            if self.verbose:
                relative = gap / primal if primal > 0 else gap
                numbers = f"{time:8.2f} s  objective {primal:.6g}  relative gap {relative:.2e}"
                sys.stderr.write(f"{self.name}: pass {pass_:5d}  {numbers}\n")
        if self.callback is None:
            return False
        model = None if iterate is None or self.model_at is None else self.model_at(*iterate)
        return bool(self.callback(Progress(pass_, time, primal, dual, gap, model)))

    def settle(self, pass_: int, primal: float, dual: float) -> None:
        """Record the certifier's word on the last pass, in place of the solver's own."""
        while self._records and self._records[-1][1] >= pass_:
            self._records.pop()
        self._records.append((self.elapsed, pass_, primal, dual))

    def history(self) -> History:
        """Everything evaluated so far."""
        columns = list(zip(*self._records, strict=True)) or [(), (), (), ()]
        return History(
            time=np.asarray(columns[0], dtype=np.float64),
            pass_=np.asarray(columns[1], dtype=np.int64),
            primal=np.asarray(columns[2], dtype=np.float64),
            dual=np.asarray(columns[3], dtype=np.float64),
        )


@dataclass
class ForecastMonitor(Monitor):
    """Prints the gap, or a guess of it, and, from how it has fallen, the time until it is at most ``tol``."""

    tol: float = 1e-3
    unit: str = "round"
    _gaps: list[tuple[float, float]] = field(default_factory=list)

    def __call__(
        self, pass_: int, time: float, primal: float | None, dual: float | None, iterate: tuple[Any, ...] | None = None
    ) -> bool:
        """Report of a pass or round; True asks to stop."""
        verbose, self.verbose = self.verbose, 0
        try:
            stop = super().__call__(pass_, time, primal, dual, iterate)
        finally:
            self.verbose = verbose
        if primal is None or dual is None:
            gap, told = self.estimate, "relative gap about"
        else:
            gap = (primal - dual) / primal if primal > 0 else primal - dual
            told = f"objective {primal:.6g}  relative gap"
        if gap is not None:
            self._gaps += [(self.elapsed, log(gap / self.tol))] if gap > 0 else []
            left = self.seconds_left()
            forecast = "" if left is None else f"  about {left:.0f} s left"
            if verbose:
                sys.stderr.write(
                    f"{self.name}: {self.unit} {pass_:4d}  {self.elapsed:8.2f} s  {told} {gap:.2e}{forecast}\n"
                )
        return stop

    def seconds_left(self) -> float | None:
        """Time until the gap is closed if it goes on falling at the rate of the last half of what was told."""
        if len(self._gaps) < FEWEST:
            return None
        (before, high), (now, low) = self._gaps[len(self._gaps) // 2 - 1], self._gaps[-1]
        left = low * (now - before) / (high - low) if high > low else float("inf")
        return max(left, 0.0) if isfinite(left) else None


@dataclass
class Clock:
    """Passes and time of a solver in Python, within its limits."""

    limits: _core.Limits
    own_passes: int = 0
    late: bool = False
    _began: float = field(default_factory=perf_counter)

    @property
    def passes(self) -> int:
        """Passes, those of solvers before included."""
        return self.limits.passes + self.own_passes

    @property
    def is_last(self) -> bool:
        """Whether a limit is reached."""
        return self.late or self.passes >= self.limits.max_iter

    @property
    def reason(self) -> Status:
        """The limit that is reached."""
        return Status.time_limit if self.late else Status.max_iter

    def end_pass(self) -> None:
        """Count a pass, and look at the time."""
        self.own_passes += 1
        self.late = perf_counter() - self._began > self.limits.time_limit

    def tell(self, primal: float | None, dual: float | None) -> bool:
        """Report the pass; True asks the solver to stop."""
        report = self.limits.report
        return report is not None and report(self.passes, perf_counter() - self._began, primal, dual)
