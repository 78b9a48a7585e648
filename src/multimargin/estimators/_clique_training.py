"""Training of clique models: the active problem by Frank-Wolfe, and the generation of cliques around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators._base import Problem
from multimargin.estimators._clique_graph import Clique, CliqueGraph, candidate_cliques
from multimargin.estimators._clique_scores import AtomResiduals, Atoms, Residuals, SignificanceTest, clique_scores
from multimargin.estimators._monitor import Monitor

__all__ = ["Active", "CliqueData", "FrankWolfe", "Generation", "Round", "Work", "first_shares"]

FIRST_TOL = 0.05
ROUND_TOL = 0.03
LEAST_SHARE = 1e-9
TESTED_PER_PLACE = 10


@dataclass(frozen=True)
class CliqueData:
    """Training data as the clique solvers need it."""

    X: Any
    bias: float
    n_labels: int
    labels: dict[str, Any]
    native_labels: _core.CliqueLabels
    usable: NDArray[np.int64]
    threads: int
    seed: int

    @classmethod
    def of(cls, problem: Problem, constant: NDArray[np.bool_], bias: float) -> CliqueData:
        """Prepare a problem; constant labels are left out."""
        labels: dict[str, Any] = {
            "positives": problem.positives(),
            "missing": problem.missing(),
            "left_out": constant.astype(np.uint8),
            "cost": np.ascontiguousarray(problem.costs.row, dtype=np.float64),
        }
        return cls(
            problem.X,
            bias,
            problem.labels.n_labels,
            labels,
            _core.CliqueLabels(**labels),
            np.flatnonzero(~constant),
            problem.n_jobs,
            problem.seed,
        )

    def residuals(self, atoms: Atoms) -> AtomResiduals:
        """Return the dual residuals of distributions."""
        return AtomResiduals(atoms, self.native_labels, self.X.dtype, self.threads)


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
    """Solution of the problem with a given set of cliques."""

    graph: CliqueGraph
    eta: NDArray[np.float64]
    weights: NDArray[np.float64]
    primal: float
    dual: float
    status: str
    oracle_exact: float
    expected_loss: float
    residuals: Residuals
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
        result = _core.fit_cliques(
            rows=self.rows,
            labels=self.data.native_labels,
            bias=self.data.bias,
            subsets=graph.native_subsets(),
            cliques=graph.native_cliques(),
            budget=self.budget,
            eta=np.ascontiguousarray(eta, dtype=np.float64),
            inference=graph.inference(self.inference, self.treewidth_limit),
            start=last.start.native() if last is not None and last.start is not None else None,
            oracle_calls=self.oracle_calls,
            pairwise=self.pairwise,
            fixed_eta=self.fixed_eta,
            tol=tol,
            max_iter=max(work.passes_left, 1),
            threads=self.data.threads,
            seed=self.data.seed,
            report=work.report,
            time_limit=max(work.time_left, 0.0),
        )
        work.passes += result["passes"]
        atoms = Atoms(*result["atoms"])
        return Active(
            graph=graph,
            eta=result["eta"],
            weights=result["weights"],
            primal=result["primal"],
            dual=result["dual"],
            status=result["status"],
            oracle_exact=result["oracle_exact"],
            expected_loss=result["expected_loss"],
            residuals=self.data.residuals(atoms),
            start=atoms,
        )


@dataclass(frozen=True)
class Round:
    """The state before cliques are added."""

    n_cliques: int
    primal: float
    dual: float
    global_dual: float
    training_loss: float
    validation_loss: float


@dataclass
class Generation:
    """Adds cliques, a few at a time, until a rule says that the graph is complete.

    Attributes
    ----------
    rule : {"gap", "significance", "limit"}
        "limit" stops at ``max_cliques`` only.
    measure : callable
        Called with every solution; gives its loss on the rows trained on and on rows held out.
    patience : int or None
        Without improvement of the loss on rows held out for so many rounds, the generation ends, whatever the rule.
    """

    data: CliqueData
    solver: FrankWolfe
    budget: int
    batch: int
    max_cliques: int
    max_order: int
    parity: bool
    rule: str
    level: float
    tol: float
    measure: Callable[[Active], tuple[float, float]]
    patience: int | None
    rounds: list[Round] = field(default_factory=list)

    def run(self, work: Work, last: Active | None) -> tuple[Active, Active]:
        """Return the last solution, and the one with the lowest loss on rows held out (the last one without them)."""
        graph = last.graph if last is not None else CliqueGraph(self.data.n_labels, (), self.parity)
        eta = last.eta if last is not None else np.zeros(0)
        active = best = self.solver.solve(graph, eta, last, max(FIRST_TOL, self.tol), work)
        best_loss, waited = np.inf, 0
        while True:
            candidates = self.candidates(active)
            scores, global_dual = self.score(active, candidates)
            losses = self.measure(active)
            self.rounds.append(Round(len(active.graph.cliques), active.primal, active.dual, global_dual, *losses))
            if self.patience is None:
                best = active
            elif losses[1] < best_loss - 1e-12:
                best, best_loss, waited = active, losses[1], 0
            else:
                waited += 1
                if waited >= self.patience:
                    return active, best
            joining = self.choose(active, candidates, scores, global_dual)
            if work.exhausted is not None or not (joining or self.may_tighten(active, global_dual)):
                return active, best
            graph = CliqueGraph(self.data.n_labels, (*active.graph.cliques, *joining), self.parity)
            eta = first_shares(active.eta, len(joining), self.budget) if joining else active.eta
            active = self.solver.solve(graph, eta, active, self.round_tol(active, global_dual), work)

    def may_tighten(self, active: Active, global_dual: float) -> bool:
        """Whether the gap over all candidates may only be too large because the active problem is not solved."""
        return (
            self.rule == "gap"
            and active.primal - global_dual > self.tol * active.primal
            and active.relative_gap > 0.5 * self.tol
        )

    def candidates(self, active: Active) -> list[Clique]:
        """Cliques that may be in the model."""
        rng = np.random.default_rng((self.data.seed, len(self.rounds)))
        return candidate_cliques(self.data.usable, active.graph.cliques, self.max_order, rng)

    def round_tol(self, active: Active, global_dual: float) -> float:
        """How exactly to solve the next round: well below the gap that is left."""
        if self.rule != "gap":
            return max(ROUND_TOL, self.tol)
        left = (active.primal - global_dual) / active.primal if active.primal > 0 else 0.0
        return float(np.clip(0.3 * left, 0.5 * self.tol, ROUND_TOL))

    def score(self, active: Active, candidates: Sequence[Clique]) -> tuple[NDArray[np.float64], float]:
        """Scores of all candidates, and the lower bound of the optimum over all of them."""
        known = set(candidates)
        others = [c for c in active.graph.cliques if c not in known]
        data = self.data
        scores, nodes = clique_scores(
            data.X, data.bias, active.residuals, data.n_labels, [*candidates, *others], self.parity
        )
        largest = float(np.sort(scores)[::-1][: self.budget].sum())
        return scores[: len(candidates)], scaled_dual(active.expected_loss, 0.5 * (nodes + largest))

    def choose(
        self, active: Active, candidates: Sequence[Clique], scores: NDArray[np.float64], global_dual: float
    ) -> list[Clique]:
        """Cliques to add, the best first; none if the rule says stop."""
        room = min(self.batch, self.max_cliques - len(active.graph.cliques))
        if room <= 0 or not candidates:
            return []
        present = set(active.graph.cliques)
        order = [k for k in np.argsort(-scores, kind="stable").tolist() if candidates[k] not in present]
        if self.rule == "gap":
            if active.primal - global_dual <= self.tol * active.primal:
                return []
            # Only a clique among the ``budget`` best of all lowers the bound.
            bar = np.sort(scores)[::-1][: self.budget][-1] if len(scores) else 0.0
            order = [k for k in order if scores[k] >= bar]
        if self.rule != "significance":
            return [candidates[k] for k in order[:room] if scores[k] > 0]
        # A score also counts what a clique adds to its single labels: the best ones need not be significant.
        promising = [candidates[k] for k in order[: TESTED_PER_PLACE * room] if scores[k] > 0]
        data = self.data
        test = SignificanceTest(data.X, data.bias, active.residuals, self.level / len(candidates), data.seed)
        return list(islice(filter(test, promising), room))


def scaled_dual(linear: float, quadratic: float) -> float:
    """Return the largest ``t * linear - t**2 * quadratic`` with ``t`` from 0 to 1."""
    t = min(1.0, linear / (2 * quadratic)) if quadratic > 0 else 1.0
    return t * linear - t**2 * quadratic


def first_shares(eta: NDArray[np.float64], joining: int, budget: int) -> NDArray[np.float64]:
    """Shares when cliques join: an equal share for the new ones, the sum within the budget."""
    total = len(eta) + joining
    if total <= budget:
        return np.ones(total)
    shares = np.append(eta, np.full(joining, budget / total))
    return np.asarray(np.maximum(shares * min(1.0, budget / shares.sum()), LEAST_SHARE))


def without_small(active: Active, share: float) -> CliqueGraph:
    """Return the graph of the cliques whose share is at least ``share`` of the largest."""
    if not len(active.eta):
        return active.graph
    kept = active.eta >= share * active.eta.max()
    cliques = tuple(c for c, keep in zip(active.graph.cliques, kept, strict=True) if keep)
    return replace(active.graph, cliques=cliques)
