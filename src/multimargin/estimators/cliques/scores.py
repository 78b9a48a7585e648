"""How much a clique that is not in the model would help: exact scores by matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.graph import Clique, CliqueGraph, label_subsets
from multimargin.estimators.predictor import row_blocks

__all__ = [
    "AtomResiduals",
    "clique_scores",
    "dual_over",
    "feasible",
    "products",
    "rows_with_residuals",
    "scaled_dual",
    "score_any",
]

PANEL_BYTES = 64 * 2**20


def feasible(atoms: _core.Atoms, n_rows: int) -> _core.Atoms:
    """Return the same atoms with weights that are a distribution, whatever rounding has made of them."""
    weight = np.maximum(atoms.weight, 0.0)
    total = np.bincount(atoms.row, weights=weight, minlength=n_rows)
    return _core.Atoms(atoms.row, weight / np.maximum(total, 1.0)[atoms.row], atoms.bits)


class AtomResiduals:
    """Dual residuals ``C_i (chi_T(y_i) - E_i chi_T)`` of distributions given as atoms, for any label subset T."""

    def __init__(self, atoms: _core.Atoms, data: CliqueData, dtype: Any):
        self.rows = atoms.rows
        """Rows whose distribution is not all on the truth."""
        self.atoms = atoms
        self._data = data
        self._dtype = dtype

    def panel(self, subsets: Sequence[Clique]) -> NDArray[Any]:
        """One row for each of ``rows``, one column for each subset."""
        out = np.empty((len(self.rows), len(subsets)), dtype=self._dtype)
        _core.clique_residuals(
            labels=self._data.bits,
            subsets=label_subsets(self._data.n_labels, subsets),
            atoms=self.atoms,
            threads=self._data.threads,
            out=out,
        )
        return out


def clique_scores(
    data: CliqueData, residuals: AtomResiduals, cliques: Sequence[Clique]
) -> tuple[NDArray[np.float64], float, float]:
    """Return ``s_c`` of each clique, in the model or not, the part of the nodes in the dual, and the expected loss."""
    return (score_pairs if cliques and sees_pairs(data, cliques) else score_any)(data, residuals, cliques)


def sees_pairs(data: CliqueData, cliques: Sequence[Clique]) -> bool:
    """Whether these are pairs of labels known in all rows, of features that all see."""
    return (
        data.joint is None
        and data.problem.labels.missing is None
        and all(len(c) == 2 for c in cliques)
        and not data.problem.constant[[k for c in cliques for k in c]].any()
    )


def score_pairs(
    data: CliqueData, residuals: AtomResiduals, pairs: Sequence[Clique]
) -> tuple[NDArray[np.float64], float, float]:
    """Scores of pairs, in double precision, at the cost of the labels that are rare."""
    ends = np.array(pairs, dtype=np.int32)
    found = _core.pair_squares(
        rows=data.problem.rows,
        labels=data.bits,
        bias=data.bias,
        atoms=residuals.atoms,
        pairs=np.sort(ends, axis=1),
        threads=data.threads,
    )
    scores = 0.25 * (found.labels[ends[:, 0]] + found.labels[ends[:, 1]] + found.pairs)
    return scores, 0.5 * float(found.labels.sum()), found.expected_loss


def score_any(
    data: CliqueData, residuals: AtomResiduals, cliques: Sequence[Clique]
) -> tuple[NDArray[np.float64], float, float]:
    """Scores of any cliques, in the precision of the residuals: one matrix product over all label subsets."""
    graph = CliqueGraph(data.n_labels, tuple(cliques), joint=data.joint)
    squares = np.empty((len(graph.subsets), len(graph.sight[0])))
    expected_loss = 0.0
    X = rows_with_residuals(data, residuals)
    width = max(1, PANEL_BYTES // (8 * max(len(residuals.rows), 1)))
    for start in range(0, len(squares), width):
        chosen = slice(start, min(start + width, len(squares)))
        R = residuals.panel(graph.subsets[chosen])
        last = data.bias * R.sum(axis=0, dtype=np.float64)
        squares[chosen] = graph.squares(np.column_stack([products(X, R), last]))
        labels = slice(start, min(chosen.stop, data.n_labels))
        expected_loss += _expected_loss(data, R[:, : max(labels.stop - start, 0)], labels)
    return graph.scores(squares), graph.node_part(squares), expected_loss


def rows_with_residuals(data: CliqueData, residuals: AtomResiduals) -> Any:
    """Rows of X that have residuals."""
    return data.X if len(residuals.rows) == data.X.shape[0] else data.X[residuals.rows]


def _expected_loss(data: CliqueData, R: NDArray[Any], labels: slice) -> float:
    """Return the expected loss at these labels; R: their residuals, which have the sign of the truth."""
    costs = data.problem.costs
    weight = np.where(R > 0, costs.positive[labels], costs.negative[labels])
    return 0.5 * float((weight * np.abs(R)).sum(dtype=np.float64))


def dual_over(
    data: CliqueData, residuals: AtomResiduals, cliques: Sequence[Clique], budget: int
) -> tuple[float, NDArray[np.float64]]:
    """Lower bound of the optimum of the hinge loss with any of these cliques, and the score of each."""
    scores, nodes, expected_loss = clique_scores(data, residuals, cliques)
    largest = float(np.sort(scores)[::-1][:budget].sum())
    return scaled_dual(expected_loss, 0.5 * (nodes + largest)), scores


def products(X: Any, R: NDArray[Any]) -> NDArray[Any]:
    """``R' X`` in the precision of R."""
    if X.dtype == R.dtype:
        return np.asarray((X.T @ R).T if sp.issparse(X) else R.T @ X)
    Q = np.zeros((R.shape[1], X.shape[1]), dtype=R.dtype)
    for rows in row_blocks(*X.shape):
        Q += products(X[rows].astype(R.dtype), R[rows])
    return Q


def scaled_dual(linear: float, quadratic: float) -> float:
    """Return the largest ``t * linear - t**2 * quadratic`` with ``t`` from 0 to 1: mass moved to the truth."""
    t = min(1.0, linear / (2 * quadratic)) if quadratic > 0 else 1.0
    return t * linear - t**2 * quadratic
