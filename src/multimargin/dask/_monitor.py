"""Progress of a long fit: with the time that is left, as far as that can be told."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import isfinite, log

from multimargin.estimators.monitor import Monitor

__all__ = ["ForecastMonitor"]

FEWEST = 4
"""Records from which on there is a forecast."""


@dataclass
class ForecastMonitor(Monitor):
    """Prints the gap and, from how it has fallen, the time until it is at most ``tol``."""

    tol: float = 1e-3

    def __call__(
        self, pass_: int, time: float, primal: float | None, dual: float | None, iterate: object = None
    ) -> bool:
        """Report of a pass or round; True asks to stop."""
        verbose, self.verbose = self.verbose, 0
        try:
            stop = super().__call__(pass_, time, primal, dual)
        finally:
            self.verbose = verbose
        if verbose and primal is not None and dual is not None:
            relative = (primal - dual) / primal if primal > 0 else primal - dual
            left = self.seconds_left()
            forecast = "" if left is None else f"  about {left:.0f} s left"
            sys.stderr.write(
                f"{self.name}: round {pass_:4d}  {self.elapsed:8.2f} s  objective {primal:.6g}  relative gap "
                f"{relative:.2e}{forecast}\n"
            )
        return stop

    def seconds_left(self) -> float | None:
        """Time until the gap is closed if it goes on falling at the rate of the last half of the records."""
        records = [(time, log((p - d) / p / self.tol)) for time, _, p, d in self._records if p > d and p > 0]
        if len(records) < FEWEST:
            return None
        (before, high), (now, low) = records[len(records) // 2 - 1], records[-1]
        left = low * (now - before) / (high - low) if high > low else float("inf")
        return max(left, 0.0) if isfinite(left) else None
