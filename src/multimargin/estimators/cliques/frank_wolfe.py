r"""The problem with a given set of cliques, by block-coordinate pairwise Frank-Wolfe.

A visit moves weight between labellings of a row in steps of about 1 / (C |x|^2); with features in the hundreds that
takes more passes than anyone waits for. Proximal steps on shorter rows then lead near the solution (see the native
solver). Steps that took few passes let the next one be longer, steps that were not solved in ``MOST_PASSES`` make it
shorter. Close to the solution the direct way may be the faster one again: both are tried, the one that lowered the
logarithm of the gap more per pass goes on, and the other is tried again now and then. What is solved stays the problem
itself: every step is certified, and only the way depends on the scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.allowance import Allowance
from multimargin.estimators.cliques.certifier import CliqueCertifier, CliqueModel
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.graph import CliqueGraph, divided
from multimargin.estimators.cliques.joint_features import native_groups
from multimargin.estimators.cliques.short_rows import RowCutter, ShortRows, mean_squares
from multimargin.estimators.cliques.solution import Solution

__all__ = ["LEAST_SHARE", "FrankWolfe"]

LEAST_SHARE = 1e-9
LARGEST_DIRECT = 3.0
"""Up to this mean of C |x|^2 no proximal steps are needed."""

LARGEST_SAFE = 1e200
FEW_PASSES, MOST_PASSES = 4, 15
LONGER, SHORTER = 4.0, 0.25
FIRST_TURN, TURNS_PER_TRIAL = 100, 4
TINY = np.finfo(np.float64).tiny
STEP_ACCURACY = 0.2
"""Part of the present gap to which a proximal step is solved."""


@dataclass(frozen=True)
class FrankWolfe:
    """Solves with native code; ``budget`` is r of the k-support norm."""

    data: CliqueData
    budget: int

    @cached_property
    def cutter(self) -> RowCutter:
        """Makes short rows."""
        return RowCutter(self.data)

    def solve(
        self, graph: CliqueGraph, eta: NDArray[np.float64], last: Solution | None, tol: float, work: Allowance
    ) -> Solution:
        """Solve to a relative gap, starting from the last solution, whatever its cliques were."""
        start = Solution.start(graph, eta, last, self.data.X.shape[1] + 1)
        if LARGEST_DIRECT < mean_squares(self.data).sum() < LARGEST_SAFE:
            return _TwoWays(self, start, tol, work).solve()
        return self.run(start, work, work.limits(tol))

    def run(self, start: Solution, work: Allowance, limits: _core.Limits) -> Solution:
        """Make passes on the rows as they are."""
        data = self.data
        groups = native_groups(data.X, data.bias, data.joint, start.graph.cliques)
        found = self.native(
            rows=data.problem.rows, bias=data.bias, groups=groups, step=None, limits=limits, **self._problem(start)
        )
        result = found.result
        work.passes = result.passes
        return Solution(start.graph, found.eta, found.weights, result.primal, result.dual, result.status, found.atoms)

    def step(
        self, start: Solution, short: ShortRows, step: _core.ProximalStep, work: Allowance, limits: Any
    ) -> _core.CliqueFit:
        """Make a proximal step on shorter rows."""
        groups = native_groups(short.X, short.bias, self.data.joint, start.graph.cliques)
        found = self.native(
            rows=short.rows, bias=short.bias, groups=groups, step=step, limits=limits, **self._problem(start)
        )
        work.passes = found.result.passes
        return found

    def native(self, **arguments: Any) -> _core.CliqueFit:
        """Call the native solver."""
        return _core.fit_cliques(**arguments)

    def _problem(self, start: Solution) -> dict[str, Any]:
        return {
            "labels": self.data.bits,
            "inference": start.graph.inference,
            "cliques": start.graph.native_cliques(self.budget),
            "eta": start.eta,
            "start": start.atoms,
        }


class _TwoWays:
    """A problem by proximal steps or directly, whichever lowers the gap faster."""

    def __init__(self, solver: FrankWolfe, start: Solution, tol: float, work: Allowance):
        self.solver, self.tol, self.work = solver, tol, work
        self.best = self.now = start  # the steps go on from where they were, which need not be the best
        self.certifier = CliqueCertifier(solver.data, solver.budget)
        self.height = 1.0 / start.weights.shape[1]
        self.short = solver.cutter.cut(self.height)
        self.gap = solver.data.largest_loss * float(solver.data.cost.sum())
        """Of weights and dual variables 0, at first."""

    def solve(self) -> Solution:
        rates = [np.inf, np.inf]
        for turn in count(1):
            way = int(np.argmax(rates))
            if turn % TURNS_PER_TRIAL == 0:
                way = 1 - way
            gap, first = self.gap, self.work.passes
            (self.steps, self.directly)[way](max(FIRST_TURN, first // 10))
            if Bounds(self.best.primal, self.best.dual).within(self.tol):
                return replace(self.best, status=Status.converged)
            if self.work.exhausted is not None:
                return replace(self.best, status=self.work.exhausted)
            fall = np.log(max(gap, TINY)) - np.log(max(self.gap, TINY))  # rounding may leave a gap below 0
            rates[way] = float(fall) / (self.work.passes - first)
        raise AssertionError

    def keep(self, found: Solution) -> None:
        """Keep what is better than before."""
        if found.primal < self.best.primal:
            self.best = replace(self.best, weights=found.weights, eta=found.eta, primal=found.primal)
        if found.dual > self.best.dual or self.best.atoms is None:
            self.best = replace(self.best, atoms=found.atoms, dual=found.dual)
        self.gap = self.best.primal - self.best.dual

    def directly(self, passes: int) -> None:
        """So many passes on the rows as they are."""
        before, work = self.best, self.work

        def report(pass_: int, time: float, primal: float | None, dual: float | None) -> bool:
            if primal is not None and dual is not None:
                primal, dual = min(primal, before.primal), max(dual, before.dual)
            return work.report(pass_, time, primal, dual)

        self.keep(self.solver.run(before, work, work.limits(self.tol, passes, report)))

    def steps(self, passes: int) -> None:
        """Proximal steps of so many passes together."""
        solver, work, data, graph = self.solver, self.work, self.solver.data, self.best.graph
        now, last = self.now, self.work.passes + passes
        known: tuple[float | None, float | None] = (None, None)

        def report(pass_: int, time: float, primal: float | None, dual: float | None) -> bool:
            nonlocal known
            bounds, known = known, (None, None)  # those of the step before: within a step nothing is known of P
            return work.report(pass_, time, *bounds)

        while True:
            centre = divided(self.short.origin(now.weights), graph.kappa(now.eta))
            step = _core.ProximalStep(centre, STEP_ACCURACY * self.gap)
            before, limits = work.passes, work.limits(self.tol, MOST_PASSES, report)
            found = solver.step(now, self.short, step, work, limits)
            now = replace(now, weights=self.short.weights(found.weights), atoms=found.atoms)
            bounds = self.certifier.bounds(CliqueModel.of(now, data.bias), now.atoms)
            self.keep(replace(now, primal=bounds.primal, dual=bounds.dual or 0.0))
            known = self.best.primal, self.best.dual
            few = work.passes - before <= FEW_PASSES
            if few or found.result.status == Status.max_iter:
                self.height *= LONGER if few else SHORTER
                self.short = solver.cutter.cut(self.height)
            if solver.budget < len(now.eta):
                shares = _core.k_support(graph.norms(now.weights, now.eta), solver.budget)[1]
                now = replace(now, eta=np.maximum(shares, LEAST_SHARE))
            self.now = now
            if Bounds(*known).within(self.tol) or work.passes >= last or work.exhausted is not None:
                return
