r"""The problem with a given set of cliques: block-coordinate pairwise Frank-Wolfe, by proximal steps where C |x|^2 is large.

A visit moves weight between labellings of a row in steps of about 1 / (C |x|^2); with features in the hundreds that takes
more passes than anyone waits for. Proximal steps (see the native solver) shorten the rows, feature by feature: the
``reach`` is what is left of C |x|^2 on average, the same for all features that are shortened. Steps that took few passes
let the next one reach further, steps that were not solved in ``MOST_PASSES`` make it shorter. What is solved stays the
problem itself: each step is certified, and only the way depends on the scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._rows import native_rows
from multimargin.estimators._certificate import Bounds
from multimargin.estimators._clique_certifier import CliqueCertifier
from multimargin.estimators._clique_data import CliqueData
from multimargin.estimators._clique_graph import CliqueGraph
from multimargin.estimators._clique_scores import Atoms
from multimargin.estimators._monitor import Monitor

__all__ = ["Active", "FrankWolfe", "Work", "carried_over"]

LEAST_SHARE = 1e-9
LARGEST_DIRECT = 30.0
"""Up to this mean of C |x|^2 no proximal steps are needed."""

FIRST_REACH = 1.0
FEW_PASSES, MOST_PASSES = 8, 30
FURTHER, SHORTER = 4.0, 4.0
STEP_ACCURACY = 0.1
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
        squares = self.data.mean_squares()
        if squares.sum() > LARGEST_DIRECT:
            return self._proximal(active, squares, tol, work)
        result = self._run(active, self.rows, self.data.bias, None, 0.0, tol, work.passes_left, work, work.report)
        return replace(
            active, **{name: result[name] for name in ("eta", "weights", "primal", "dual", "status", "start")}
        )

    def _proximal(self, active: Active, squares: NDArray[np.float64], tol: float, work: Work) -> Active:
        """Proximal steps; ``squares`` are the parts of the features in the mean of C |x|^2."""
        data, graph = self.data, active.graph
        inference = graph.inference(self.inference, self.treewidth_limit)
        best = active
        W, eta, atoms, reach = active.weights, active.eta, active.start, FIRST_REACH
        gap = data.n_labels * float(data.cost.sum())
        found: tuple[float | None, float | None] = (None, None)

        def report(pass_: int, time: float, primal: float | None, dual: float | None) -> bool:
            nonlocal found
            bounds, found = found, (None, None)  # of the step before; a step itself has no bounds of the problem
            return work.report(pass_, time, *bounds)

        while True:
            share = shortened(squares, reach)
            root, kappa = np.sqrt(share), graph.kappa(eta)[:, None]
            centre = (1.0 - share) * W / (root * kappa)
            passes = min(work.passes_left, MOST_PASSES)
            now = replace(active, eta=eta, start=atoms)
            rows = native_rows(_scaled(data.X, root[:-1]))
            result = self._run(now, rows, data.bias * root[-1], centre, STEP_ACCURACY * gap, tol, passes, work, report)
            W, atoms = result["weights"] * root, result["start"]
            certifier = CliqueCertifier(data, graph, eta, self.budget, inference)
            bounds = certifier.hinge(W[:, :-1], W[:, -1] * data.bias, atoms)
            if bounds.primal < best.primal:
                best = replace(best, weights=W, eta=eta, primal=bounds.primal)
            if bounds.dual > best.dual:
                best = replace(best, start=atoms, dual=bounds.dual)
            found, gap = (best.primal, best.dual), best.primal - best.dual
            if Bounds(*found).within(tol) or work.exhausted is not None:
                return replace(best, status=work.exhausted or "converged")
            if result["passes"] <= FEW_PASSES:
                reach = min(FURTHER * reach, float(squares.sum()))
            elif result["status"] == "max_iter":
                reach /= SHORTER
            if self.budget < len(eta) and not self.fixed_eta:
                eta = np.maximum(_core.k_support(graph.norms(W, eta), self.budget)[1], LEAST_SHARE)

    def _run(
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


def shortened(squares: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
    """Return factors up to 1 of the squares that give them the sum ``reach``, the largest ones cut to one height."""
    if squares.sum() <= reach:
        return np.ones_like(squares)
    ordered = np.sort(squares)
    below = np.append(0.0, np.cumsum(ordered)[:-1])
    heights = (reach - below) / np.arange(len(squares), 0, -1)
    height = heights[np.argmax(heights <= ordered)]
    return np.minimum(1.0, height / np.maximum(squares, np.finfo(float).tiny))


def _scaled(X: Any, factors: NDArray[np.float64]) -> Any:
    """X with its columns multiplied, in double precision."""
    if not sp.issparse(X):
        return X * factors
    scaled = X.astype(np.float64)
    scaled.data *= factors[scaled.indices]
    return scaled


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
