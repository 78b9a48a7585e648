r"""The certifier of clique models: bounds from the data, the returned weights and dual variables, in double precision.

Nothing a solver has summed up enters. The weights W with the shares :math:`\eta` stand for the indicator weights u and
:math:`v_c` of :math:`z_T = W_T / \kappa_T`, whose norms count. The loss of a row is maximised afresh; where inference
is not exact, its upper bound counts. The dual variables are distributions over labellings: weights below 0 are taken
as 0, those of a row are scaled to a sum of at most 1, and the true labelling has the rest. With the softmax margin they
are the distributions of the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.data import AugmentedRows, CliqueData
from multimargin.estimators.cliques.graph import Clique, CliqueGraph, divided
from multimargin.estimators.cliques.scores import AtomResiduals, dual_over, feasible, scaled_dual
from multimargin.estimators.cliques.solution import Solution
from multimargin.estimators.predictor import row_blocks

__all__ = ["CliqueCertifier", "CliqueModel"]


@dataclass(frozen=True)
class CliqueModel:
    """What is certified: weights of the subsets of a graph, shares of its cliques."""

    graph: CliqueGraph
    eta: NDArray[np.float64]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]

    @classmethod
    def of(cls, solution: Solution, bias: float) -> CliqueModel:
        """Return the model of a solution."""
        return cls(solution.graph, solution.eta, solution.coef, solution.intercept(bias))


@dataclass(frozen=True)
class CliqueCertifier:
    """Bounds of a problem; ``budget`` is r of the k-support norm, ``temperature`` None for the hinge loss."""

    data: CliqueData
    budget: int
    temperature: float | None = None

    def bounds(self, model: CliqueModel, atoms: _core.Atoms | None) -> Bounds:
        """Bounds of the optimum for the cliques of the model; of the hinge loss without atoms the primal one alone.

        A weight on a column that its subset does not see has an infinite norm.
        """
        model = self._without_constant(model)
        bounds = self._hinge(model, atoms) if self.temperature is None else self._softmax(model, self.temperature)
        unseen = np.broadcast_to(model.graph.kappa(model.eta) == 0, self._weights(model).shape)
        return replace(bounds, primal=np.inf) if self._weights(model)[unseen].any() else bounds

    def dual(self, atoms: _core.Atoms, cliques: Sequence[Clique]) -> float:
        """Lower bound of the optimum of the hinge loss for any cliques."""
        residuals = AtomResiduals(feasible(atoms, self.data.X.shape[0]), self.data, np.float64)
        return dual_over(self.data, residuals, cliques, self.budget)[0]

    def _hinge(self, model: CliqueModel, atoms: _core.Atoms | None) -> Bounds:
        graph = model.graph
        loss, exact = 0.0, 0
        for block in self._blocks(graph):
            scores, truth = block.scores(model.coef, model.intercept)
            best = graph.inference.maximize(scores, self.data.threads)
            loss += float(block.cost @ np.maximum(block.half_loss + best.bound - truth, 0.0))
            exact += int(best.exact.sum())
        z = graph.squares(divided(self._weights(model), graph.kappa(model.eta)))
        norms = model.eta * np.sqrt(graph.scores(z))
        primal = 0.5 * (graph.node_part(z) + _core.k_support(norms, self.budget)[0]) + loss
        dual = None if atoms is None else self.dual(atoms, graph.cliques)
        return Bounds(primal, dual, exact / self.data.X.shape[0])

    def _softmax(self, model: CliqueModel, temperature: float) -> Bounds:
        """Bounds for these shares."""
        graph, threads = model.graph, self.data.threads
        kappa = graph.kappa(model.eta)
        loss = linear = 0.0
        W = self._weights(model)
        q = np.zeros_like(W)
        for block in self._blocks(graph):
            soft, expected, moments = block.softmax(model.coef, model.intercept, temperature, graph.inference, threads)
            loss, linear, q = loss + soft, linear + expected, q + block.products(moments)
        quadratic = 0.5 * float(np.sum(kappa * q**2))
        primal = loss + 0.5 * float(np.sum(W * divided(W, kappa)))
        return Bounds(primal, scaled_dual(linear, quadratic))

    def _blocks(self, graph: CliqueGraph) -> Iterator[AugmentedRows]:
        n, width = self.data.X.shape
        subsets = graph.subsets
        return (AugmentedRows(self.data, subsets, rows) for rows in row_blocks(n, 4 * len(subsets) + width))

    def _without_constant(self, model: CliqueModel) -> CliqueModel:
        """Constant labels are no part of the problem; their weights only say what to predict."""
        constant = np.zeros(len(model.coef), dtype=bool)
        constant[: self.data.n_labels] = self.data.problem.constant
        coef = np.where(constant[:, None], 0.0, model.coef)
        return CliqueModel(model.graph, model.eta, coef, np.where(constant, 0.0, model.intercept))

    def _weights(self, model: CliqueModel) -> NDArray[np.float64]:
        """W, the last column for the constant feature."""
        last = model.intercept / self.data.bias if self.data.bias else 0.0 * model.intercept
        return np.column_stack([model.coef, last])
