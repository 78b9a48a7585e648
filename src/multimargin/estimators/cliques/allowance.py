"""What is left of the passes and of the time of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from multimargin import _core
from multimargin._core import Status
from multimargin.estimators.contract import Problem
from multimargin.estimators.monitor import Monitor

__all__ = ["Allowance", "Report"]

Report = Callable[[int, float, float | None, float | None], bool]


@dataclass
class Allowance:
    """``max_iter`` and ``time_limit``, shared by all solvers of a fit, which report here."""

    problem: Problem
    monitor: Monitor
    max_iter: int
    time_limit: float
    passes: int = 0
    ended: Status | None = None

    @classmethod
    def of(cls, problem: Problem, monitor: Monitor, max_iter: int, time_limit: float | None) -> Allowance:
        """Return the allowance of a fit that begins."""
        return cls(problem, monitor, int(max_iter), np.inf if time_limit is None else float(time_limit))

    @property
    def out_of_limits(self) -> bool:
        """Whether no pass or no time is left, whatever ended an earlier part of the fit."""
        return self.passes >= self.max_iter or self.monitor.time_left(self.time_limit) <= 0

    @property
    def exhausted(self) -> Status | None:
        """Why training must end, if it must."""
        if self.ended is not None:
            return self.ended
        if self.monitor.time_left(self.time_limit) <= 0:
            return Status.time_limit
        return Status.max_iter if self.passes >= self.max_iter else None

    def grant_last_pass(self) -> None:
        """If nothing is left, allow one more pass, for a model of all rows."""
        self.ended = self.exhausted
        if self.ended is not None:
            self.max_iter, self.time_limit = self.passes + 1, np.inf

    def report(self, pass_: int, time: float, primal: float | None, dual: float | None) -> bool:
        """Report of a solver; True asks it to stop."""
        if self.monitor(pass_, time, primal, dual):
            self.ended = Status.stopped
        return self.ended == Status.stopped

    def limits(self, tol: float, most: int | None = None, report: Report | None = None) -> _core.Limits:
        """Limits of a native solver that starts now and makes at most so many passes, one at least."""
        left = self.max_iter - self.passes
        return _core.Limits(
            tol=tol,
            max_iter=self.passes + max(1, left if most is None else min(left, most)),
            threads=self.problem.n_jobs,
            seed=self.problem.seed + self.passes,
            time_limit=self.monitor.time_left(self.time_limit),
            report=report or self.report,
            passes=self.passes,
        )
