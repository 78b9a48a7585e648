"""How much a clique that is not in the model would help: exact scores by matrix products, and a significance test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import chi2
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from multimargin import _core
from multimargin.estimators._clique_graph import Clique, CliqueGraph, subset_arrays

__all__ = ["NO_RESIDUALS", "AtomResiduals", "Atoms", "Residuals", "SignificanceTest", "clique_scores", "subset_norms"]

PANEL_BYTES = 64 * 2**20
EXACT_SPREAD_FEATURES = 512
PROBES = 64


class Residuals(Protocol):
    """Dual residuals ``C_i (chi_T(y_i) - E_i chi_T)`` of any label subset T."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows where they are not zero."""

    def panel(self, subsets: Sequence[Clique]) -> NDArray[Any]:
        """One row for each of ``rows``, one column for each subset."""


@dataclass(frozen=True)
class Atoms:
    """Distributions over labellings: each belongs to a row and has a weight; the true labelling has the rest."""

    row: NDArray[np.int64]
    weight: NDArray[np.float64]
    bits: NDArray[np.uint64]

    def native(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.uint64]]:
        """Return the atoms for the native core."""
        return self.row, self.weight, self.bits


class AtomResiduals:
    """Residuals of distributions given as atoms."""

    def __init__(self, atoms: Atoms, labels: _core.CliqueLabels, dtype: Any, threads: int):
        self._rows, first = np.unique(atoms.row, return_index=True)
        self._first = np.append(first, len(atoms.row)).astype(np.int64)
        self._atoms = atoms
        self._labels = labels
        self._dtype = dtype
        self._threads = threads

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows whose distribution is not all on the truth."""
        return self._rows

    def panel(self, subsets: Sequence[Clique]) -> NDArray[Any]:
        """One row for each of ``rows``, one column for each subset."""
        out = np.empty((len(self.rows), len(subsets)), dtype=self._dtype)
        atoms = self._atoms
        _core.clique_residuals(
            labels=self._labels,
            subsets=subset_arrays(subsets),
            row=self.rows,
            first=self._first,
            weight=atoms.weight,
            bits=atoms.bits,
            threads=self._threads,
            out=out,
        )
        return out


class _NoResiduals:
    rows = np.zeros(0, dtype=np.int64)

    def panel(self, subsets: Sequence[Clique]) -> NDArray[Any]:
        return np.zeros((0, len(subsets)))


NO_RESIDUALS: Residuals = _NoResiduals()
"""Of a solution whose cliques are not to be extended."""


def subset_norms(X: Any, bias: float, residuals: Residuals, subsets: Sequence[Clique]) -> NDArray[np.float64]:
    """Return ``|q_T|^2`` of each subset, in panels of one matrix product each."""
    squares = np.empty(len(subsets))
    rows = residuals.rows
    part = X if len(rows) == X.shape[0] else X[rows]
    width = max(1, PANEL_BYTES // (8 * max(len(rows), 1)))
    for start in range(0, len(subsets), width):
        chosen = slice(start, min(start + width, len(subsets)))
        R = residuals.panel(subsets[chosen])
        squares[chosen] = _squared_norms(part, R) + (bias * R.sum(axis=0, dtype=np.float64)) ** 2
    return squares


def _squared_norms(X: Any, R: NDArray[Any]) -> NDArray[np.float64]:
    Q = (X.T @ R).T if sp.issparse(X) else R.T @ X
    return np.asarray(np.einsum("td,td->t", Q, Q, dtype=np.float64))


def clique_scores(
    X: Any, bias: float, residuals: Residuals, n_labels: int, cliques: Sequence[Clique], parity: bool
) -> tuple[NDArray[np.float64], float]:
    """Return ``s_c`` of each clique, whether it is in the model or not, and the part of the nodes in the dual."""
    graph = CliqueGraph(n_labels, tuple(cliques), parity)
    squares = subset_norms(X, bias, residuals, graph.subsets)
    return graph.scores(squares), 0.5 * float(squares[:n_labels].sum())


class SignificanceTest:
    r"""Tells of a clique whether it is significant.

    If the residuals of a clique had nothing to do with the features, :math:`q = \sum_i R_i x_i` would have the
    covariance :math:`V = \sum_i R_i^2 x_i x_i^\top`, and :math:`|q|^2 / \operatorname{tr} V` would be about a
    chi-squared variable over its degrees of freedom :math:`(\operatorname{tr} V)^2 / \|V\|_F^2`. The constant feature
    has a test of its own, with one degree of freedom: it would drown the others. A clique is significant if either
    is; the level is shared between the two.
    """

    def __init__(self, X: Any, bias: float, residuals: Residuals, level: float, seed: int):
        self._X = X if len(residuals.rows) == X.shape[0] else X[residuals.rows]
        self._norms = row_norms(self._X, squared=True).astype(np.float64)
        self._bias = bias
        self._residuals = residuals
        self._level = level / 2
        self._rng = np.random.default_rng(seed)

    def __call__(self, clique: Clique) -> bool:
        """Test one clique."""
        R = self._residuals.panel([clique]).astype(np.float64)
        weight = R[:, 0] ** 2
        if not weight.any():
            return False
        if self._bias and R.sum() ** 2 > weight.sum() * chi2.isf(self._level, 1):
            return True
        square, trace = float(_squared_norms(self._X, R)[0]), float(weight @ self._norms)
        if square <= trace:  # the threshold is above 1
            return False
        freedom = trace**2 / _squared_frobenius(self._X, weight, self._rng)
        return bool(square * freedom > trace * chi2.isf(self._level, freedom))


def _squared_frobenius(X: Any, weight: NDArray[np.float64], rng: np.random.Generator) -> float:
    """Return ``|X' diag(weight) X|_F^2``, estimated with random signs if there are many features."""
    if X.shape[1] <= EXACT_SPREAD_FEATURES and not sp.issparse(X):
        V = X.T @ (weight[:, None] * X)
    else:
        signs = rng.choice([-1.0, 1.0], size=(X.shape[1], PROBES)) / np.sqrt(PROBES)
        V = safe_sparse_dot(X.T, weight[:, None] * safe_sparse_dot(X, signs, dense_output=True), dense_output=True)
    return float(np.sum(np.asarray(V, dtype=np.float64) ** 2))
