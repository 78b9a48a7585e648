r"""The certifier of clique models: bounds from the data, the returned weights and dual variables, in double precision.

Nothing a solver has summed up enters. The weights W with the shares :math:`\eta` stand for the indicator weights u and
:math:`v_c` of :math:`z_T = W_T / \kappa_T`, whose norms count. The loss of a row is maximised afresh; where inference
is not exact, its upper bound counts. The dual variables are distributions over labellings: weights below 0 are taken
as 0, those of a row are scaled to a sum of at most 1, and the true labelling has the rest. With the softmax margin they
are the distributions of the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.data import AugmentedRows, CliqueData
from multimargin.estimators.cliques.graph import Clique, CliqueGraph
from multimargin.estimators.cliques.scores import AtomResiduals, Atoms, clique_scores, scaled_dual
from multimargin.estimators.contract import row_blocks

__all__ = ["CliqueCertifier"]


@dataclass(frozen=True)
class CliqueCertifier:
    """Bounds of the problem with these cliques; ``budget`` is r of the k-support norm."""

    data: CliqueData
    graph: CliqueGraph
    eta: NDArray[np.float64]
    budget: int
    inference: _core.CliqueInference

    def hinge(self, coef: NDArray[np.float64], intercept: NDArray[np.float64], atoms: Atoms | None) -> Bounds:
        """Bounds of the hinge loss; without atoms the primal one alone."""
        coef, intercept = self._without_constant(coef, intercept)
        loss, exact = 0.0, 0
        for block in self._blocks():
            scores, truth = block.scores(coef, intercept)
            _, _, bound, proved = self.inference.maximize(scores, self.data.threads)
            loss += float(block.cost @ np.maximum(block.half_loss + bound - truth, 0.0))
            exact += int(proved.sum())
        z = self._squares(coef, intercept) / self.graph.kappa(self.eta) ** 2
        norms = self.eta * np.sqrt(self.graph.scores(z))
        nodes = 0.5 * float(z[: self.data.n_labels].sum())
        primal = 0.5 * (nodes + _core.k_support(norms, self.budget)[0]) + loss
        dual = None if atoms is None else self.dual(atoms, self.graph.cliques)
        return Bounds(primal, dual, exact / self.data.X.shape[0])

    def dual(self, atoms: Atoms, cliques: Sequence[Clique]) -> float:
        """Lower bound of the optimum of the hinge loss for any cliques."""
        data = self.data
        residuals = AtomResiduals(atoms.feasible(data.X.shape[0]), data, np.float64)
        scores, nodes, expected_loss = clique_scores(data, residuals, cliques, self.graph.parity)
        largest = float(np.sort(scores)[::-1][: self.budget].sum())
        return scaled_dual(expected_loss, 0.5 * (nodes + largest))

    def softmax(self, coef: NDArray[np.float64], intercept: NDArray[np.float64], temperature: float) -> Bounds:
        """Bounds of the softmax margin, for these shares."""
        coef, intercept = self._without_constant(coef, intercept)
        kappa = self.graph.kappa(self.eta)
        loss = linear = 0.0
        q = np.zeros((len(kappa), coef.shape[1] + 1))
        for block in self._blocks():
            soft, expected, moments = block.softmax(coef, intercept, temperature, self.inference, self.data.threads)
            loss, linear, q = loss + soft, linear + expected, q + block.products(moments)
        quadratic = 0.5 * float(kappa @ np.einsum("td,td->t", q, q))
        primal = loss + 0.5 * float(np.sum(self._squares(coef, intercept) / kappa))
        return Bounds(primal, scaled_dual(linear, quadratic))

    def _blocks(self) -> Iterator[AugmentedRows]:
        n, width = self.data.X.shape
        subsets = self.graph.subsets
        return (AugmentedRows(self.data, subsets, rows) for rows in row_blocks(n, 4 * len(subsets) + width))

    def _without_constant(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Constant labels are no part of the problem; their weights only say what to predict."""
        constant = np.zeros(len(coef), dtype=bool)
        constant[: self.data.n_labels] = self.data.constant
        return np.where(constant[:, None], 0.0, coef), np.where(constant, 0.0, intercept)

    def _squares(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> NDArray[np.float64]:
        """``|W_T|^2``."""
        last = intercept / self.data.bias if self.data.bias else 0.0 * intercept
        return np.asarray(np.einsum("td,td->t", coef, coef) + last**2)
