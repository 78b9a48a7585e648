r"""The problem with a given set of cliques, by block-coordinate pairwise Frank-Wolfe.

A visit moves weight between labellings of a row in steps of about 1 / (C |x|^2); with features in the hundreds that
takes more passes than anyone waits for. Proximal steps on shorter rows then lead near the solution (see the native
solver). Steps that took few passes let the next one be longer, steps that were not solved in ``MOST_PASSES`` make it
shorter. Close to the solution the direct way may be the faster one again: both are tried, the one that lowered the
logarithm of the gap more per pass goes on, and the other is tried again now and then. What is solved stays the problem
itself: every step is certified, and only the way depends on the scale.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.certifier import CliqueCertifier
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.graph import CliqueGraph
from multimargin.estimators.cliques.scores import Atoms
from multimargin.estimators.cliques.short_rows import RowCutter, mean_squares
from multimargin.estimators.monitor import Monitor

__all__ = ["Active", "FrankWolfe", "Work", "carried_over", "warn_of_scale"]

LEAST_SHARE = 1e-9
LARGEST_DIRECT = 3.0
"""Up to this mean of C |x|^2 no proximal steps are needed."""

LARGEST_SAFE = 1e200
HARDEST = 1e6
"""Beyond this mean of C |x|^2 most problems tried were not solved within 5,000 passes."""

FEW_PASSES, MOST_PASSES = 4, 15
LONGER, SHORTER = 4.0, 0.25
FIRST_TURN, TURNS_PER_TRIAL = 100, 4
STEP_ACCURACY = 0.2
"""Part of the present gap to which a proximal step is solved."""


@dataclass
class Work:
    """What is left of ``max_iter`` and ``time_limit``, shared by all rounds; passes on what solvers report."""

    monitor: Monitor
    max_iter: int
    time_limit: float
    passes: int = 0
    ended: str | None = None

    @property
    def passes_left(self) -> int:
        """Passes that may still be made."""
        return self.max_iter - self.passes

    @property
    def time_left(self) -> float:
        """Seconds that may still be used."""
        return self.time_limit - self.monitor.elapsed

    @property
    def exhausted(self) -> str | None:
        """Why training must end, if it must."""
        if self.ended is not None:
            return self.ended
        if self.time_left <= 0:
            return "time_limit"
        return "max_iter" if self.passes_left <= 0 else None

    def grant_last_pass(self) -> None:
        """If nothing is left, allow one more pass, for a model of all rows."""
        self.ended = self.exhausted
        if self.ended is not None:
            self.max_iter, self.time_limit = self.passes + 1, np.inf

    def report(self, pass_: int, time: float, primal: float | None, dual: float | None) -> bool:
        """Report of a solver that counts its own passes; True asks it to stop."""
        if self.monitor(self.passes + pass_, time, primal, dual):
            self.ended = "stopped"
        return self.ended == "stopped"


@dataclass(frozen=True)
class Active:
    """Solution of the problem with a given set of cliques, with the bounds its solver found.

    ``start`` holds the dual variables; None for the softmax margin.
    """

    graph: CliqueGraph
    eta: NDArray[np.float64]
    weights: NDArray[np.float64]
    primal: float
    dual: float
    status: str
    start: Atoms | None

    @property
    def relative_gap(self) -> float:
        """Relative duality gap of the active problem."""
        return (self.primal - self.dual) / self.primal if self.primal > 0 else 0.0


@dataclass(frozen=True)
class FrankWolfe:
    """The active problem by block-coordinate pairwise Frank-Wolfe, in native code."""

    data: CliqueData
    rows: _core.Rows
    budget: int
    inference: str
    treewidth_limit: int
    oracle_calls: int = 1
    pairwise: bool = True
    fixed_eta: bool = False

    @cached_property
    def cutter(self) -> RowCutter:
        """Makes short rows."""
        return RowCutter(self.data)

    def solve(
        self, graph: CliqueGraph, eta: NDArray[np.float64], last: Active | None, tol: float, work: Work
    ) -> Active:
        """Solve to a relative gap, starting from the last solution, whatever its cliques were."""
        active = Active(
            graph=graph,
            eta=np.ascontiguousarray(eta, dtype=np.float64),
            weights=carried_over(graph, graph.kappa(eta), last, self.data.X.shape[1] + 1),
            primal=np.inf,
            dual=0.0,
            status="max_iter",
            start=None if last is None else last.start,
        )
        if LARGEST_DIRECT < mean_squares(self.data).sum() < LARGEST_SAFE:
            return _TwoWays(self, active, tol, work).solve()
        result = self.run(active, self.rows, self.data.bias, None, 0.0, tol, work.passes_left, work, work.report)
        return replace(
            active, **{name: result[name] for name in ("eta", "weights", "primal", "dual", "status", "start")}
        )

    def run(
        self,
        active: Active,
        rows: _core.Rows,
        bias: float,
        centre: NDArray[np.float64] | None,
        enough: float,
        tol: float,
        passes: int,
        work: Work,
        report: Callable[[int, float, float | None, float | None], bool],
    ) -> dict[str, Any]:
        """Make passes of the native solver; a proximal step if there is a ``centre``."""
        graph = active.graph
        result = _core.fit_cliques(
            rows=rows,
            labels=self.data.native_labels,
            bias=bias,
            subsets=graph.native_subsets(),
            cliques=graph.native_cliques(),
            budget=self.budget,
            eta=active.eta,
            inference=graph.inference(self.inference, self.treewidth_limit),
            start=None if active.start is None else active.start.native(),
            centre=None if centre is None else np.ascontiguousarray(centre),
            enough=enough,
            oracle_calls=self.oracle_calls,
            pairwise=self.pairwise,
            fixed_eta=self.fixed_eta,
            tol=tol,
            max_iter=max(passes, 1),
            threads=self.data.threads,
            seed=self.data.seed + work.passes,
            report=report,
            time_limit=max(work.time_left, 0.0),
        )
        work.passes += result["passes"]
        return {**result, "start": Atoms(*result["atoms"])}


class _TwoWays:
    """A problem by proximal steps or directly, whichever lowers the gap faster."""

    def __init__(self, solver: FrankWolfe, active: Active, tol: float, work: Work):
        self.solver, self.tol, self.work = solver, tol, work
        self.best = self.now = active  # the steps go on from where they were, which need not be the best
        self.inference = active.graph.inference(solver.inference, solver.treewidth_limit)
        self.height = 1.0 / active.weights.shape[1]
        self.short = solver.cutter.cut(self.height)
        self.gap = solver.data.n_labels * float(solver.data.cost.sum())
        """Of weights and dual variables 0, at first."""

    def solve(self) -> Active:
        rates = [np.inf, np.inf]
        for turn in count(1):
            way = int(np.argmax(rates))
            if turn % TURNS_PER_TRIAL == 0:
                way = 1 - way
            gap, first = self.gap, self.work.passes
            (self.steps, self.directly)[way](max(FIRST_TURN, first // 10))
            if Bounds(self.best.primal, self.best.dual).within(self.tol):
                return replace(self.best, status="converged")
            if self.work.exhausted is not None:
                return replace(self.best, status=self.work.exhausted)
            rates[way] = float(np.log(gap / max(self.gap, np.finfo(float).tiny))) / (self.work.passes - first)
        raise AssertionError

    def keep(self, found: Active) -> None:
        """Keep what is better than before."""
        if found.primal < self.best.primal:
            self.best = replace(self.best, weights=found.weights, eta=found.eta, primal=found.primal)
        if found.dual > self.best.dual or self.best.start is None:
            self.best = replace(self.best, start=found.start, dual=found.dual)
        self.gap = self.best.primal - self.best.dual

    def directly(self, passes: int) -> None:
        """So many passes on the rows as they are."""
        before, solver, work = self.best, self.solver, self.work

        def report(pass_: int, time: float, primal: float | None, dual: float | None) -> bool:
            if primal is not None and dual is not None:
                primal, dual = min(primal, before.primal), max(dual, before.dual)
            return work.report(pass_, time, primal, dual)

        passes = min(passes, work.passes_left)
        result = solver.run(before, solver.rows, solver.data.bias, None, 0.0, self.tol, passes, work, report)
        self.keep(replace(before, **{k: result[k] for k in ("eta", "weights", "primal", "dual", "start")}))

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
            centre = self.short.origin(now.weights) / graph.kappa(now.eta)[:, None]
            most, enough = min(work.passes_left, MOST_PASSES), STEP_ACCURACY * self.gap
            result = solver.run(now, self.short.rows, self.short.bias, centre, enough, self.tol, most, work, report)
            now = replace(now, weights=self.short.weights(result["weights"]), start=result["start"])
            certifier = CliqueCertifier(data, graph, now.eta, solver.budget, self.inference)
            bounds = certifier.hinge(now.weights[:, :-1], now.weights[:, -1] * data.bias, now.start)
            self.keep(replace(now, primal=bounds.primal, dual=bounds.dual or 0.0))
            known = self.best.primal, self.best.dual
            if result["passes"] <= FEW_PASSES or result["status"] == "max_iter":
                self.height *= LONGER if result["passes"] <= FEW_PASSES else SHORTER
                self.short = solver.cutter.cut(self.height)
            if solver.budget < len(now.eta) and not solver.fixed_eta:
                shares = _core.k_support(graph.norms(now.weights, now.eta), solver.budget)[1]
                now = replace(now, eta=np.maximum(shares, LEAST_SHARE))
            self.now = now
            if Bounds(*known).within(self.tol) or work.passes >= last or work.exhausted is not None:
                return


def warn_of_scale(data: CliqueData, C: float, max_iter: int) -> None:
    """Say before a long training that the features are too large for it."""
    length = float(mean_squares(data).sum())
    if length <= HARDEST:
        return
    warnings.warn(
        f"The features are large: with C={C!r}, C times the mean squared length of a row is {length:.1e}. Beyond "
        f"{HARDEST:.0e} training often does not converge within max_iter={max_iter}. Scale the features, with "
        f"scikit-learn's StandardScaler or normalize, or use C around 1 / mean squared length = {C / length:.1e}.",
        stacklevel=4,
    )


def carried_over(
    graph: CliqueGraph, kappa: NDArray[np.float64], last: Active | None, width: int
) -> NDArray[np.float64]:
    """Weights to start from: those of the subsets that were there before, for the new shares."""
    W = np.zeros((len(graph.subsets), width))
    if last is None:
        return W
    before = last.graph.kappa(last.eta)
    for k, subset in enumerate(last.graph.subsets):
        at = graph.positions.get(subset)
        if at is not None and before[k] > 0:
            W[at] = last.weights[k] * (kappa[at] / before[k])
    return W
