r"""Which cliques are significant.

If the residuals of a clique had nothing to do with the features, :math:`q = \sum_i R_i x_i` would have the covariance
:math:`V = \sum_i R_i^2 x_i x_i^\top`, and :math:`|q|^2 / \operatorname{tr} V` would be about a chi-squared variable
over its degrees of freedom :math:`(\operatorname{tr} V)^2 / \|V\|_F^2`. The constant feature has a test of its own,
with one degree of freedom: it would drown the others. A clique is significant if either is; the level is shared
between the two.

At small levels the threshold falls with the freedom, so that bounds of it decide most cases. The freedom is 1 at least
and the rank at most. For any G, :math:`\|V\|_F \ge \langle V, G \rangle / \|G\|_F`, where
:math:`\langle V, G \rangle = \sum_i R_i^2\, x_i^\top G x_i` is a sum over the rows: G is :math:`X^\top X`, of many
features that of a sample of the rows. What this leaves open, V itself decides. Of many features, :math:`\|V\|_F^2` is
known on a few directions in which V is large, and of the rest the mean of :math:`|V s|^2` over random signs s, which
join until the decision is clear, the same for all cliques.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import chdtri
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.graph import Clique
from multimargin.estimators.cliques.scores import AtomResiduals, products, rows_with_residuals
from multimargin.estimators.predictor import row_blocks

__all__ = ["SignificanceTest"]

EXACT_FEATURES = 512
DIRECTIONS = 4
PROBES, PROBES_TOGETHER = 64, 8
CLEAR = 4.0
"""Standard errors between an estimate and the values that would decide otherwise."""

TESTED_TOGETHER = 16
SAMPLED_ROWS = 512
SMALL_LEVEL = 0.05
ROUNDING, TINY = 1e-9, np.finfo(np.float64).tiny


class SignificanceTest:
    """Tests cliques by their residuals."""

    def __init__(self, data: CliqueData):
        self._data = data
        self._exact = data.X.shape[1] <= EXACT_FEATURES and not sp.issparse(data.X)
        self._norms = row_norms(data.X, squared=True).astype(np.float64)

    def first(self, residuals: AtomResiduals, cliques: Sequence[Clique], level: float, most: int) -> list[Clique]:
        """Return the first significant cliques, ``most`` at most."""
        found: list[Clique] = []
        for start in range(0, len(cliques), TESTED_TOGETHER):
            block = cliques[start : start + TESTED_TOGETHER]
            for clique, significant in zip(block, self._decisions(residuals, block, level / 2), strict=True):
                if significant:
                    found.append(clique)
                if len(found) == most:
                    return found
        return found

    def _decisions(self, residuals: AtomResiduals, block: Sequence[Clique], level: float) -> Iterator[bool]:
        rows, X = residuals.rows, rows_with_residuals(self._data, residuals)
        R = residuals.panel(block).astype(np.float64, copy=False)
        weights = R**2
        by_constant = R.sum(axis=0) ** 2 > weights.sum(axis=0) * chdtri(1, level)
        Q = products(X, R)
        squares, traces = np.einsum("td,td->t", Q, Q), self._norms[rows] @ weights
        least = self.least_squared_norms(rows, weights)
        for k in range(len(block)):
            if self._data.bias and by_constant[k]:
                yield True
            elif squares[k] <= traces[k]:  # the threshold is above 1
                yield False
            else:
                yield self._decide(X, weights[:, k], squares[k], traces[k], least[k], level)

    def _decide(
        self, X: Any, weight: NDArray[np.float64], square: float, trace: float, least: float, level: float
    ) -> bool:
        at = np.flatnonzero(weight)
        rank = min(len(at), X.shape[1])
        if not rank:
            return False

        def significant(squared_norm: float) -> bool:
            """Whether it is if ``|V|_F^2`` is this."""
            freedom = min(max(trace**2 / squared_norm, 1.0), rank) if squared_norm > 0 else rank
            return bool(square * freedom > trace * chdtri(freedom, level))

        falls = level <= SMALL_LEVEL
        least = max(trace**2 / rank, least)
        if falls and not significant(least):
            return False
        if falls and significant(trace**2):
            return True
        X, weight = X[at], weight[at]
        if self._exact:
            return significant(_squared_norm(X, weight))
        for estimate, low, high in self._estimates(X, weight, trace):
            decision = significant(estimate)
            if falls and significant(low) == significant(high):
                break
        return decision

    def _estimates(self, X: Any, weight: NDArray[np.float64], trace: float) -> Iterator[tuple[float, float, float]]:
        """Estimates of ``|V|_F^2`` with a low and a high value, each better than the last one."""

        def V(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(safe_sparse_dot(X.T, weight[:, None] * safe_sparse_dot(X, vectors, dense_output=True)))

        Q = np.linalg.qr(V(np.column_stack([X.T @ weight, self._probes[:, PROBES:]])))[0]
        VQ = V(Q)
        known = 2.0 * np.sum(VQ**2) - np.sum((Q.T @ VQ) ** 2)
        yield known, known, trace**2
        values = np.zeros(0)
        while len(values) < PROBES:
            S = self._probes[:, len(values) : len(values) + PROBES_TOGETHER]
            S = S - Q @ (Q.T @ S)
            images = V(S)
            images -= Q @ (Q.T @ images)
            values = np.append(values, np.einsum("dp,dp->p", images, images))
            rest, unsure = values.mean(), CLEAR * values.std(ddof=1) / np.sqrt(len(values))
            yield known + rest, known + max(rest - unsure, 0.0), known + rest + unsure

    @cached_property
    def _probes(self) -> NDArray[np.float64]:
        rng = np.random.default_rng(self._data.problem.seed)
        return rng.choice([-1.0, 1.0], size=(self._data.X.shape[1], PROBES + DIRECTIONS - 1))

    @cached_property
    def _forms(self) -> tuple[NDArray[np.float64], float]:
        """``x' G x`` of each row, and ``|G|_F^2``."""
        X, forms = self._data.X, np.zeros(self._data.X.shape[0])
        if not self._exact:
            rng = np.random.default_rng(self._data.problem.seed)
            sample = np.sort(rng.choice(len(forms), size=min(SAMPLED_ROWS, len(forms)), replace=False))
            S = X[sample].astype(np.float64).T
            for block in row_blocks(len(forms), S.shape[1]):
                forms[block] = row_norms(X[block] @ S, squared=True)
            return forms, float(forms[sample].sum())
        G = np.zeros((X.shape[1], X.shape[1]))
        for block in row_blocks(*X.shape):
            part = X[block].astype(np.float64, copy=False)
            G += part.T @ part
        for block in row_blocks(*X.shape):
            part = X[block].astype(np.float64, copy=False)
            forms[block] = np.einsum("id,id->i", part @ G, part)
        return forms, float(np.sum(G**2))

    def least_squared_norms(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower bounds of ``|V|_F^2`` for squared residuals of these rows, a column for each clique."""
        forms, square = self._forms
        return (forms[rows] @ weights) ** 2 / max(square, TINY) * (1.0 - ROUNDING)


def _squared_norm(X: NDArray[Any], weight: NDArray[np.float64]) -> float:
    """``|X' diag(weight) X|_F^2``."""
    return float(np.sum((X.T @ (weight[:, None] * X)) ** 2))
