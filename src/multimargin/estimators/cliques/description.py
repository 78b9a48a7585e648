"""What a clique model tells of itself: the names, weights and couplings of its cliques."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.results import CliquePath
from multimargin.estimators.cliques.solution import Solution

__all__ = ["fitted_attributes", "networkx_graph"]


def fitted_attributes(solution: Solution, data: CliqueData, path: CliquePath | None) -> dict[str, Any]:
    """All that makes the model, by the names of the estimator."""
    graph, names = solution.graph, data.problem.labels.names.tolist()
    coef, intercept = solution.weights[:, :-1].copy(), solution.intercept(data.bias)
    own = [graph.positions[c] for c in graph.cliques]
    couplings = safe_sparse_dot(data.X, coef[own].T, dense_output=True) + intercept[own]
    return {
        "subsets_": list(graph.subsets),
        "subset_coef_": coef,
        "subset_intercept_": intercept,
        "cliques_": [tuple(names[k] for k in clique) for clique in graph.cliques],
        "clique_shares_": solution.eta,
        "clique_weights_": graph.norms(solution.weights, solution.eta),
        "clique_couplings_": couplings.mean(axis=0),
        "clique_coupling_spreads_": couplings.std(axis=0),
        "path_": path,
    }


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
