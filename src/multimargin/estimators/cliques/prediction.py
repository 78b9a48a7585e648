"""Scores, labellings and probabilities of clique models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.estimators.predictor import row_blocks

__all__ = ["CliquePredictor"]


@dataclass(frozen=True)
class CliquePredictor:
    """Weights of the label subsets, with inference compiled for them; works in blocks of rows."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    inference: _core.CliqueInference
    n_labels: int
    threads: int

    def labellings(self, X: Any) -> Iterator[tuple[slice, _core.Labellings]]:
        """Labellings with the largest score, block by block."""
        for rows, scores in self._scores(X):
            yield rows, self.inference.maximize(scores, self.threads)

    def positives(self, X: Any) -> tuple[sp.csr_array, NDArray[np.bool_]]:
        """Cells of these labellings, and of which rows they are proved to be the best."""
        blocks = [best for _, best in self.labellings(X)]
        cells = sp.vstack([sp.csr_array(best.y.astype(bool)) for best in blocks], format="csr")
        return sp.csr_array(cells), np.concatenate([best.exact for best in blocks])

    def max_marginals(self, X: Any) -> NDArray[np.float64]:
        """Largest score with a label minus largest score without it."""
        out = np.empty((X.shape[0], self.n_labels))
        for rows, scores in self._scores(X):
            out[rows] = self.inference.max_marginals(scores, self.threads)
        return out

    def probabilities(self, X: Any, temperature: float) -> NDArray[np.float64]:
        """Marginal probabilities of the labels."""
        out = np.empty((X.shape[0], self.n_labels))
        for rows, scores in self._scores(X):
            moments = self.inference.sums(scores / temperature, self.threads).moments
            out[rows] = 0.5 * (1.0 + moments[:, : self.n_labels])
        return out

    def _scores(self, X: Any) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        for rows in row_blocks(X.shape[0], len(self.coef)):
            scores = safe_sparse_dot(X[rows], self.coef.T, dense_output=True) + self.intercept
            yield rows, np.ascontiguousarray(scores, dtype=np.float64)
