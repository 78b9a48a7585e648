"""The generation of cliques: those of a learned graph join a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.frank_wolfe import LEAST_SHARE, Active, FrankWolfe, Work
from multimargin.estimators.cliques.graph import Clique, CliqueGraph, candidate_cliques
from multimargin.estimators.cliques.scores import AtomResiduals, SignificanceTest, clique_scores, scaled_dual
from multimargin.estimators.contract import Problem

__all__ = ["Generation", "Round", "with_active", "without_small", "wrong_labels"]

FIRST_TOL = 0.05
ROUND_TOL = 0.03
TESTED_PER_PLACE = 10


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
            residuals = self.residuals(active)
            scores, global_dual = self.score(active, residuals, candidates)
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
            if work.exhausted is not None:
                return active, best
            joining = self.choose(active, residuals, candidates, scores, global_dual)
            if not (joining or self.may_tighten(active, global_dual)):
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

    def residuals(self, active: Active) -> AtomResiduals:
        """Dual residuals; in double where the bound over all candidates decides."""
        if active.start is None:
            msg = "only solutions with dual variables can be extended"
            raise AssertionError(msg)
        return AtomResiduals(active.start, self.data, np.float64 if self.rule == "gap" else self.data.X.dtype)

    def score(
        self, active: Active, residuals: AtomResiduals, candidates: Sequence[Clique]
    ) -> tuple[NDArray[np.float64], float]:
        """Scores of all candidates, and the lower bound of the optimum over all of them."""
        cliques = with_active(candidates, active)
        scores, nodes, expected_loss = clique_scores(self.data, residuals, cliques, self.parity)
        largest = float(np.sort(scores)[::-1][: self.budget].sum())
        return scores[: len(candidates)], scaled_dual(expected_loss, 0.5 * (nodes + largest))

    def choose(
        self,
        active: Active,
        residuals: AtomResiduals,
        candidates: Sequence[Clique],
        scores: NDArray[np.float64],
        global_dual: float,
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
        test = SignificanceTest(self.data, residuals, self.level / len(candidates))
        return list(islice(filter(test, promising), room))


def with_active(candidates: Sequence[Clique], active: Active) -> list[Clique]:
    """Return the candidates, and after them the cliques of the model that are none."""
    known = set(candidates)
    return [*candidates, *(c for c in active.graph.cliques if c not in known)]


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


def wrong_labels(active: Active, problem: Problem, bias: float, inference: _core.CliqueInference) -> float:
    """Share of the known labels of these rows that are predicted wrong."""
    scores = safe_sparse_dot(problem.X, active.weights[:, :-1].T, dense_output=True) + active.weights[:, -1] * bias
    y = inference.maximize(np.ascontiguousarray(scores, dtype=np.float64), problem.n_jobs)[0]
    wrong = y.astype(bool) != problem.labels.positives.toarray().astype(bool)
    if problem.labels.missing is not None:
        wrong = wrong[~problem.labels.missing.toarray().astype(bool)]
    return float(np.mean(wrong))
