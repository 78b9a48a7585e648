r"""Rows made shorter, for proximal steps of the clique solver.

A step minimises P(W) plus :math:`\tfrac12 \sum_T (W_T - W^0_T)^\top Q (W_T - W^0_T) / \kappa_T`, where Q is the mean of
:math:`C_i x_i x_i^\top` over the rows, divided by the ``height``. With :math:`1 + Q = L L^\top` that is the problem
itself for the rows :math:`L^{-1} x_i`, with weights :math:`V_T = L^\top W_T` and the origin
:math:`(L^\top - L^{-1}) W^0_T`: directions in which rows are long are cut to about the ``height``, the others stay as
they are. Of sparse rows, many features, and features that belong to cliques only the diagonal of Q is taken. L comes
from orthogonal transformations of the rows: Q itself would lose the directions in which rows are short.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from multimargin import _core
from multimargin._interrupt import interruptible
from multimargin._rows import native_rows
from multimargin.estimators.cliques.data import CliqueData

__all__ = ["RowCutter", "ShortRows", "mean_squares", "warn_of_scale"]

MOST_MIXED_FEATURES = 512
HARDEST = 1e6
"""Beyond this mean of C |x|^2 most problems tried were not solved within 5,000 passes."""


class RowCutter:
    """Cuts the rows of the data to any height; the products of ``mixed`` features count, else the squares alone."""

    def __init__(self, data: CliqueData):
        self.data = data
        self.mixed = not sp.issparse(data.X) and data.X.shape[1] <= MOST_MIXED_FEATURES and data.joint is None
        self._squares = mean_squares(data)
        if self.mixed:
            constant = np.full(len(data.cost), data.bias)
            self._rows = np.column_stack([data.X, constant]).astype(np.float64, copy=False)
            weighted = self._rows * np.sqrt(data.cost / len(data.cost))[:, None]
            self._root = interruptible(qr, weighted, mode="r")[0][: weighted.shape[1]]

    def cut(self, height: float) -> ShortRows:
        """Return the rows cut to this height."""
        if self.mixed:
            factor = interruptible(qr, np.vstack([self._root / np.sqrt(height), np.eye(len(self._squares))]), mode="r")[
                0
            ]
            factor = factor[: len(self._squares)].T
            pivots = factor.diagonal()
            np.fill_diagonal(factor, np.where(np.abs(pivots) < 1.0, 1.0, pivots))  # less than 1 is rounding
            return ShortRows(factor, np.ascontiguousarray(_divided(self._rows, factor)), 0.0)
        factor = np.sqrt(1.0 + self._squares / height)
        return ShortRows(factor, _scaled(self.data.X, 1.0 / factor[:-1]), self.data.bias / factor[-1])


@dataclass(frozen=True)
class ShortRows:
    """The rows ``x / L``, and how weights change with them."""

    factor: NDArray[np.float64]
    X: Any
    bias: float

    @cached_property
    def rows(self) -> _core.Rows:
        """The rows for the native core."""
        return native_rows(self.X)

    def origin(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where a step from W begins, in the weights of the short rows."""
        if self.factor.ndim == 1:
            return W * self.factor - W / self.factor
        return np.pad(W @ self.factor - _divided(W, self.factor), ((0, 0), (0, 1)))  # the native constant feature is 0

    def weights(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights of the rows themselves."""
        if self.factor.ndim == 1:
            return V / self.factor
        return np.asarray(solve_triangular(self.factor, V[:, :-1].T, lower=True, trans="T").T)


def _divided(rows: NDArray[np.float64], factor: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(solve_triangular(factor, rows.T, lower=True).T)


def mean_squares(data: CliqueData) -> NDArray[np.float64]:
    """Mean over the rows of cost times squared feature; the last one is that of the constant feature."""
    weight, X = data.cost / len(data.cost), data.X
    if sp.issparse(X):
        terms = np.repeat(weight, np.diff(X.indptr)) * X.data.astype(np.float64) ** 2
        squares = np.bincount(X.indices, weights=terms, minlength=X.shape[1])
    else:
        squares = np.einsum("i,ij,ij->j", weight, X, X, dtype=np.float64)
    return np.append(squares, data.bias**2 * weight.sum())


def warn_of_scale(data: CliqueData, C: float, max_iter: int) -> None:
    """Say before a long training that the features are too large for it."""
    length = float(mean_squares(data).sum())
    if length <= HARDEST:
        return
    warnings.warn(
        f"The features are large: with C={C!r}, C times the mean squared length of a row is {length:.1e}. Beyond "
        f"{HARDEST:.0e} training often does not converge within max_iter={max_iter}. Scale the features, with "
        f"scikit-learn's StandardScaler or normalize, or use C around 1 / mean squared length = {C / length:.1e}.",
        stacklevel=4,
    )


def _scaled(X: Any, factors: NDArray[np.float64]) -> Any:
    """X with its columns multiplied, in double precision."""
    if not sp.issparse(X):
        return X * factors
    scaled = X.astype(np.float64)
    scaled.data *= factors[scaled.indices]
    return scaled
