"""A learned graph, from no clique at all to the model that is returned."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from multimargin.estimators.cliques.allowance import Allowance
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.generation import Generation, GraphRules
from multimargin.estimators.cliques.graph import Clique, CliqueGraph
from multimargin.estimators.cliques.results import CliquePath
from multimargin.estimators.cliques.solution import Solution
from multimargin.model_selection import MultilabelStratifiedShuffleSplit

__all__ = ["GraphLearner", "Learned", "held_out_rows"]


@dataclass(frozen=True)
class Learned:
    """The solution with the hinge loss, how it grew, and the cliques that might have joined."""

    solution: Solution
    path: CliquePath
    candidates: list[Clique]


@dataclass(frozen=True)
class GraphLearner:
    """Learns a graph by its rules; ``empty`` is the graph without cliques."""

    data: CliqueData
    empty: CliqueGraph
    rules: GraphRules

    def learn(self, last: Solution | None, work: Allowance) -> Learned:
        """Learn, from the last solution where no rows are held out."""
        generation = Generation(self.data, self.empty, self.rules)
        if self.rules.stopping == "validation":
            trial = self._trial()
            _, best = trial.run(work, None)
            rounds = trial.rounds
            solution = replace(best, atoms=None)  # the best graph, to be trained on all rows
            work.grant_last_pass()
        else:
            solution, _ = generation.run(work, last)
            rounds = generation.rounds
        if solution.atoms is None or work.exhausted is None:
            solution = self._finish(generation, solution, work)
        return Learned(solution, CliquePath.of(rounds), generation.candidates(solution))

    def _trial(self) -> Generation:
        """Return a generation that holds rows out."""
        problem = self.data.problem
        Y = problem.labels.positives
        size = held_out_rows(self.rules.validation_fraction, Y.shape[0])
        split = MultilabelStratifiedShuffleSplit(1, test_size=size, random_state=problem.seed)
        rows, held_out = (replace(self.data, problem=problem.part(part)) for part in next(split.split(Y, Y)))
        return Generation(rows, self.empty, self.rules, held_out)

    def _finish(self, generation: Generation, solution: Solution, work: Allowance) -> Solution:
        """Solve to ``tol``, without the cliques that hardly matter."""
        rules, solver = self.rules, generation.solver
        if rules.stopping == "gap":
            return solution
        solution = solver.solve(solution.graph, solution.eta, solution, rules.tol, work)
        share = solution.share
        least = rules.prune * max(share.values(), default=0.0)
        kept = [clique for clique in solution.graph.cliques if share[clique] >= least]
        if len(kept) == len(share) or work.exhausted is not None:
            return solution
        eta = np.array([share[clique] for clique in kept])
        return solver.solve(solution.graph.with_cliques(kept), eta, solution, rules.tol, work)


def held_out_rows(fraction: float, n_rows: int) -> int:
    """Return how many rows are held out."""
    return round(fraction * n_rows)
