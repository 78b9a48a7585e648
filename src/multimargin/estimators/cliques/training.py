"""From a checked task to a certified solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.allowance import Allowance
from multimargin.estimators.cliques.certifier import CliqueCertifier, CliqueModel
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.frank_wolfe import FrankWolfe
from multimargin.estimators.cliques.generation import GraphRules
from multimargin.estimators.cliques.graph import CliqueGraph
from multimargin.estimators.cliques.learning import GraphLearner
from multimargin.estimators.cliques.results import CliqueBounds, CliquePath
from multimargin.estimators.cliques.softmax_margin import SoftmaxMargin
from multimargin.estimators.cliques.solution import Solution

__all__ = ["CliqueTask", "Trained", "check_sums", "train"]

MOST_CORRECTIONS = 3
"""So often training goes on where the certifier does not confirm what the solver found."""


@dataclass(frozen=True)
class CliqueTask:
    """A problem, its graph, and what to find.

    Attributes
    ----------
    data : CliqueData
    graph : CliqueGraph
        The graph given, or the empty one from which learning starts.
    rules : GraphRules or None
        How the graph is learned; None if it is given.
    temperature : float or None
        Of the softmax margin; None for the hinge loss.
    tol : float
    """

    data: CliqueData
    graph: CliqueGraph
    rules: GraphRules | None
    temperature: float | None
    tol: float

    @property
    def budget(self) -> int:
        """R of the k-support norm; with all cliques of a given graph in it, the norm is the plain sum of squares."""
        return max(len(self.graph.cliques), 1) if self.rules is None else self.rules.budget


@dataclass(frozen=True)
class Trained:
    """A solution, its bounds by the certifier, and how its graph grew if it was learned."""

    solution: Solution
    bounds: CliqueBounds
    path: CliquePath | None


def train(task: CliqueTask, last: Solution | None, work: Allowance) -> Trained:
    """Solve the task, from the last solution if there is one."""
    solver = _solver(task)
    certifier = CliqueCertifier(task.data, task.budget, task.temperature)
    path, candidates = None, None
    if task.rules is None:
        solution = solver.solve(task.graph, np.ones(len(task.graph.cliques)), last, task.tol, work)
    else:
        learned = GraphLearner(task.data, task.graph, task.rules).learn(last, work)
        solution, path, candidates = learned.solution, learned.path, learned.candidates
        if task.temperature is not None:
            check_sums(solution.graph)
            solution = solver.solve(solution.graph, solution.eta, solution, task.tol, work)
    solution, bounds = _certified(task, solver, certifier, solution, work)
    global_dual = np.nan
    if candidates is not None and solution.atoms is not None:
        global_dual = certifier.dual(solution.atoms, candidates)
    return Trained(solution, CliqueBounds(**vars(bounds), global_dual=global_dual), path)


def _solver(task: CliqueTask) -> FrankWolfe | SoftmaxMargin:
    """Solver of the problem whose solution is returned."""
    if task.temperature is not None:
        return SoftmaxMargin(task.data, task.temperature)
    return FrankWolfe(task.data, task.budget)


def _certified(
    task: CliqueTask,
    solver: FrankWolfe | SoftmaxMargin,
    certifier: CliqueCertifier,
    solution: Solution,
    work: Allowance,
) -> tuple[Solution, Bounds]:
    """Go on until the certifier confirms the solution, or the work is at its end."""
    for correction in range(1, MOST_CORRECTIONS + 2):
        bounds = certifier.bounds(CliqueModel.of(solution, task.data.bias), solution.atoms)
        if bounds.within(task.tol) or work.exhausted is not None or correction > MOST_CORRECTIONS:
            break
        solution = solver.solve(solution.graph, solution.eta, solution, task.tol / 4**correction, work)
    return solution, bounds


def check_sums(graph: CliqueGraph) -> None:
    """Refuse a graph over whose labellings nothing can be summed."""
    if graph.inference.has_sums:
        return
    msg = (
        f"loss='softmax-margin' sums over labellings, which needs a treewidth of at most treewidth_limit="
        f"{graph.treewidth_limit}; this graph has {graph.inference.treewidth}. Allow fewer cliques (max_cliques), "
        "give a sparser graph, or raise treewidth_limit."
    )
    raise InputError(msg)
