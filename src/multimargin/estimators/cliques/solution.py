"""Solutions of the problem with a given set of cliques."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin.estimators.cliques.graph import CliqueGraph, divided

__all__ = ["Solution"]


@dataclass(frozen=True)
class Solution:
    """A solution, with the bounds its solver found.

    Attributes
    ----------
    graph : CliqueGraph
    eta : ndarray of shape (n_cliques,)
        Shares of the cliques.
    weights : ndarray of shape (n_subsets, n_features + 1)
        The last column belongs to the constant feature.
    primal, dual : float
    status : Status
    atoms : Atoms or None
        Dual variables; None for the softmax margin, and before the first pass.
    """

    graph: CliqueGraph
    eta: NDArray[np.float64]
    weights: NDArray[np.float64]
    primal: float
    dual: float
    status: Status
    atoms: _core.Atoms | None

    @classmethod
    def start(cls, graph: CliqueGraph, eta: NDArray[np.float64], last: Solution | None, width: int) -> Solution:
        """Where a solver begins: at the last solution, whatever its cliques were, or at 0; ``width`` of the weights."""
        eta = np.ascontiguousarray(eta, dtype=np.float64)
        W = np.zeros((len(graph.subsets), width))
        if last is not None and last.weights.shape[1] == width:
            kappa, before = graph.kappa(eta), last.graph.kappa(last.eta)
            for k, subset in enumerate(last.graph.subsets):
                at = graph.positions.get(subset)
                if at is not None:
                    W[at] = divided(last.weights[k], before[k]) * kappa[at]
        return cls(graph, eta, W, np.inf, 0.0, Status.max_iter, None if last is None else last.atoms)

    @property
    def relative_gap(self) -> float:
        """Relative duality gap."""
        return (self.primal - self.dual) / self.primal if self.primal > 0 else 0.0

    @property
    def share(self) -> dict[tuple[int, ...], float]:
        """Share of each clique."""
        return dict(zip(self.graph.cliques, self.eta.tolist(), strict=True))

    @property
    def coef(self) -> NDArray[np.float64]:
        """Weights of the features."""
        return np.ascontiguousarray(self.weights[:, :-1])

    def intercept(self, bias: float) -> NDArray[np.float64]:
        """Return what a constant feature of this value adds to the scores."""
        return np.asarray(self.weights[:, -1] * bias)

    def largest(self, number: int) -> tuple[tuple[int, ...], ...]:
        """So many cliques, those with the largest shares."""
        kept = np.sort(np.argsort(-self.eta, kind="stable")[:number])
        return tuple(self.graph.cliques[k] for k in kept)
