"""What is left of the training of a clique model besides the model: its certificate, and how it grew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators.certificate import Certificate
from multimargin.estimators.cliques.generation import Round
from multimargin.estimators.contract import Solution
from multimargin.estimators.monitor import History

__all__ = ["CliqueCertificate", "CliquePath", "CliqueSolution", "ending_with", "networkx_graph"]


@dataclass(frozen=True)
class CliqueSolution(Solution):
    """A solution with a lower bound of the optimum for all candidate cliques; NaN if the graph was given."""

    global_dual: float = np.nan


@dataclass(frozen=True)
class CliqueCertificate(Certificate):
    """Proof of how close a solution is to two optima: for its own cliques, and for all cliques that were candidates.

    Attributes
    ----------
    primal : float
        Objective of the returned model; an upper bound of both optima.
    dual : float
        Lower bound of the optimum for the cliques in the model.
    gap, relative_gap : float
        ``primal - dual``, and its share of ``primal``.
    converged : bool
        Whether ``relative_gap <= tol``; with ``stopping="gap"`` whether ``global_relative_gap <= tol``.
    oracle_exact : float
        Share of the oracle calls in the primal that were proved exact; the others count with an upper bound.
    global_dual : float
        Lower bound of the optimum for all candidate cliques. NaN if the graph was given.
    global_gap, global_relative_gap : float
        ``primal - global_dual``, and its share of ``primal``.
    """

    global_dual: float = np.nan
    global_gap: float = np.nan
    global_relative_gap: float = np.nan

    @classmethod
    def of_solution(cls, solution: Solution, tol: float, by_global_gap: bool) -> CliqueCertificate:
        """Certificate of a solution; ``by_global_gap`` if that gap, where there is one, tells whether it converged."""
        active = Certificate.of(solution.primal, solution.dual, tol, solution.oracle_exact)
        global_dual = solution.global_dual if isinstance(solution, CliqueSolution) else np.nan
        over_all = Certificate.of(solution.primal, global_dual, tol)
        decides = over_all if by_global_gap and not np.isnan(over_all.dual) else active
        return cls(
            **{**vars(active), "converged": decides.converged},
            global_dual=over_all.dual,
            global_gap=over_all.gap,
            global_relative_gap=over_all.relative_gap,
        )


@dataclass(frozen=True, eq=False)
class CliquePath:
    """How the model grew: one entry for every round of clique generation.

    Attributes
    ----------
    n_cliques : ndarray
        Number of cliques in the model.
    primal, dual : ndarray
        Bounds of the optimum for these cliques.
    global_dual : ndarray
        Lower bound of the optimum for all candidates.
    training_loss, validation_loss : ndarray
        Share of wrong labels among the rows trained on, and among the rows held out (NaN without ``stopping=
        "validation"``).
    """

    n_cliques: NDArray[np.int64]
    primal: NDArray[np.float64]
    dual: NDArray[np.float64]
    global_dual: NDArray[np.float64]
    training_loss: NDArray[np.float64]
    validation_loss: NDArray[np.float64]

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> CliquePath:
        """Path of a generation of cliques."""
        return cls(**{name: np.array([getattr(r, name) for r in rounds]) for name in Round.__dataclass_fields__})


def ending_with(history: History, solution: Solution, elapsed: float) -> History:
    """Return the history with the certified bounds as its last entry, in place of the solver's for the same pass."""
    before = len(history.pass_) - int(len(history.pass_) > 0 and history.pass_[-1] == solution.passes)
    return History(
        time=np.append(history.time[:before], elapsed),
        pass_=np.append(history.pass_[:before], solution.passes),
        primal=np.append(history.primal[:before], solution.primal),
        dual=np.append(history.dual[:before], solution.dual),
    )


def networkx_graph(
    names: NDArray[Any],
    cliques: Sequence[tuple[Any, ...]],
    weights: NDArray[np.float64],
    couplings: NDArray[np.float64],
) -> Any:
    """Labels and the pairs that share a clique; a pair in several cliques shows the one with the largest weight."""
    try:
        import networkx as nx
    except ImportError as error:
        msg = 'label_graph_ needs networkx: pip install "multimargin[graphs]". cliques_ needs nothing.'
        raise ImportError(msg) from error
    graph = nx.Graph()
    graph.add_nodes_from(names.tolist())
    for clique, weight, coupling in zip(cliques, weights, couplings, strict=True):
        for a, b in combinations(clique, 2):
            if weight > graph.get_edge_data(a, b, {"weight": 0.0})["weight"]:
                graph.add_edge(a, b, weight=float(weight), coupling=float(coupling))
    return graph
