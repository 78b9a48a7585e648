"""The generation of cliques: those of a learned graph join a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators.cliques.allowance import Allowance
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.frank_wolfe import LEAST_SHARE, FrankWolfe
from multimargin.estimators.cliques.graph import Clique, CliqueGraph, candidate_cliques
from multimargin.estimators.cliques.prediction import CliquePredictor
from multimargin.estimators.cliques.scores import AtomResiduals, dual_over
from multimargin.estimators.cliques.significance import SignificanceTest
from multimargin.estimators.cliques.solution import Solution

__all__ = ["Generation", "GraphRules", "Round"]

FIRST_TOL = 0.05
ROUND_TOL = 0.03
TESTED_PER_PLACE = 10
OBJECTIVE_ACCURACY = 0.1
"""Of the change of the objective at which the generation ends."""


PATIENCE = 3
"""Without improvement on rows held out for so many rounds, the generation ends."""


@dataclass(frozen=True)
class GraphRules:
    """How a graph is learned: the parameters of the estimator, with ``batch`` and ``max_cliques`` as numbers."""

    budget: int
    batch: int
    max_cliques: int
    max_order: int
    stopping: str
    significance: float
    validation_fraction: float
    objective_change: float
    prune: float
    tol: float


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
    """Adds cliques, a few at a time, until the rules say that the graph is complete.

    With rows held out, only ``max_cliques`` and the loss on them end it.
    """

    data: CliqueData
    empty: CliqueGraph
    rules: GraphRules
    held_out: CliqueData | None = None
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.solver = FrankWolfe(self.data, self.rules.budget)
        self.by_gap = self.held_out is None and self.rules.stopping == "gap"
        self.by_objective = self.held_out is None and self.rules.stopping == "objective"
        self.by_significance = self.held_out is None and self.rules.stopping == "significance"

    def run(self, work: Allowance, last: Solution | None) -> tuple[Solution, Solution]:
        """Return the last solution, and the one with the lowest loss on rows held out (the last one without them)."""
        rules = self.rules
        graph = last.graph if last is not None else self.empty
        eta = last.eta if last is not None else np.zeros(0)
        now = best = self.solver.solve(graph, eta, last, self.first_tol(), work)
        best_loss, waited = np.inf, 0
        while True:
            candidates = self.candidates(now)
            residuals = self.residuals(now)
            global_dual, scores = dual_over(self.data, residuals, candidates, rules.budget)
            losses = self.losses(now)
            self.rounds.append(Round(len(now.graph.cliques), now.primal, now.dual, global_dual, *losses))
            if self.held_out is None:
                best = now
            elif losses[1] < best_loss - 1e-12:
                best, best_loss, waited = now, losses[1], 0
            else:
                waited += 1
                if waited >= PATIENCE:
                    return now, best
            if work.exhausted is not None or (self.by_objective and self.stands_still()):
                return now, best
            joining = self.choose(now, residuals, candidates, scores, global_dual)
            if not (joining or self.may_tighten(now, global_dual)):
                return now, best
            graph = now.graph.with_cliques((*now.graph.cliques, *joining))
            eta = first_shares(now.eta, len(joining), rules.budget) if joining else now.eta
            now = self.solver.solve(graph, eta, now, self.round_tol(now, global_dual), work)

    def stands_still(self) -> bool:
        """Whether two rounds of joining changed the objective by little: the paper's rule, from its third round on."""
        if len(self.rounds) <= 3:  # the first entry is that without new cliques
            return False
        before, now = self.rounds[-3].primal, self.rounds[-1].primal
        return abs(now - before) <= self.rules.objective_change * before

    def may_tighten(self, now: Solution, global_dual: float) -> bool:
        """Whether the gap over all candidates may only be too large because the present problem is not solved."""
        tol = self.rules.tol
        return self.by_gap and now.primal - global_dual > tol * now.primal and now.relative_gap > 0.5 * tol

    def candidates(self, now: Solution) -> list[Clique]:
        """Cliques that may be in the model, and after them those that are, though they are no candidates."""
        rng = np.random.default_rng((self.data.problem.seed, len(self.rounds)))
        found = candidate_cliques(self.data.usable, now.graph.cliques, self.rules.max_order, rng)
        known = set(found)
        return [*found, *(c for c in now.graph.cliques if c not in known)]

    def first_tol(self) -> float:
        """How exactly to solve the problem without new cliques."""
        return max(OBJECTIVE_ACCURACY * self.rules.objective_change if self.by_objective else FIRST_TOL, self.rules.tol)

    def round_tol(self, now: Solution, global_dual: float) -> float:
        """How exactly to solve the next round: well below the gap that is left, or the change that counts."""
        tol = self.rules.tol
        if self.by_objective:
            return self.first_tol()
        if not self.by_gap:
            return max(ROUND_TOL, tol)
        left = (now.primal - global_dual) / now.primal if now.primal > 0 else 0.0
        return float(np.clip(0.3 * left, 0.5 * tol, ROUND_TOL))

    def residuals(self, now: Solution) -> AtomResiduals:
        """Dual residuals; in double where the bound over all candidates decides."""
        assert now.atoms is not None
        return AtomResiduals(now.atoms, self.data, np.float64 if self.by_gap else self.data.X.dtype)

    def choose(
        self,
        now: Solution,
        residuals: AtomResiduals,
        candidates: Sequence[Clique],
        scores: NDArray[np.float64],
        global_dual: float,
    ) -> list[Clique]:
        """Cliques to add, the best first; none if the rules say stop."""
        rules = self.rules
        room = min(rules.batch, rules.max_cliques - len(now.graph.cliques))
        if room <= 0 or not candidates:
            return []
        present = set(now.graph.cliques)
        order = [k for k in np.argsort(-scores, kind="stable").tolist() if candidates[k] not in present]
        if self.by_gap:
            if now.primal - global_dual <= rules.tol * now.primal:
                return []
            # Only a clique among the ``budget`` best of all lowers the bound.
            bar = np.sort(scores)[::-1][: rules.budget][-1]
            order = [k for k in order if scores[k] >= bar]
        if not self.by_significance:
            return [candidates[k] for k in order[:room] if scores[k] > 0]
        # A score also counts what a clique adds to its single labels: the best ones need not be significant.
        promising = [candidates[k] for k in order[: TESTED_PER_PLACE * room] if scores[k] > 0]
        return self.test.first(residuals, promising, rules.significance / len(candidates), room)

    @cached_property
    def test(self) -> SignificanceTest:
        """Tells which cliques are significant."""
        return SignificanceTest(self.data)

    def losses(self, now: Solution) -> tuple[float, float]:
        """Share of wrong labels on the rows trained on, and on the rows held out."""
        return wrong_labels(now, self.data), np.nan if self.held_out is None else wrong_labels(now, self.held_out)


def first_shares(eta: NDArray[np.float64], joining: int, budget: int) -> NDArray[np.float64]:
    """Shares when cliques join: an equal share for the new ones, the sum within the budget."""
    total = len(eta) + joining
    if total <= budget:
        return np.ones(total)
    shares = np.append(eta, np.full(joining, budget / total))
    return np.asarray(np.maximum(shares * min(1.0, budget / shares.sum()), LEAST_SHARE))


def wrong_labels(now: Solution, data: CliqueData) -> float:
    """Share of the known labels of these rows that are predicted wrong; labels are dense a block of rows at a time."""
    predictor = CliquePredictor(now.coef, now.intercept(data.bias), now.graph.inference, data.n_labels, data.threads)
    labels, wrong, known = data.problem.labels, 0, 0
    for rows, best in predictor.labellings(data.X):
        differs = best.y.astype(bool) != labels.positives[rows].toarray().astype(bool)
        if labels.missing is not None:
            differs = differs[~labels.missing[rows].toarray().astype(bool)]
        wrong, known = wrong + int(differs.sum()), known + differs.size
    return wrong / known if known else np.nan
