"""Values of a kernel between rows and themselves, and their mean, by which C="scale" is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .values import make_kernel, resolve_gamma, squared_norms

__all__ = ["diagonal", "mean_self_value", "squared_lengths"]

BLOCK_ENTRIES = 2**16  # of X, in double precision at once
BLOCK_ROWS = 64  # for functions, which know no diagonal


def diagonal(kernel: Any, X: Any, gamma: float, degree: float, coef0: float) -> NDArray[np.float64]:
    """Values of the kernel between each row and itself."""
    if callable(kernel):
        return np.concatenate(
            [_of_function(kernel, X[start : start + BLOCK_ROWS]) for start in range(0, X.shape[0], BLOCK_ROWS)]
        )
    if kernel == "precomputed":
        return np.asarray(X.diagonal(), dtype=np.float64)
    if kernel == "additive_chi2":
        return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    if kernel not in ("linear", "poly", "sigmoid"):
        return np.ones(X.shape[0])
    squares = squared_norms(X)
    if kernel == "linear":
        return squares
    with np.errstate(over="ignore"):
        inner = gamma * squares + coef0
        return np.tanh(inner) if kernel == "sigmoid" else np.power(inner, float(degree))


def _of_function(kernel: Any, X: Any) -> NDArray[np.float64]:
    return np.asarray(np.diag(make_kernel(kernel, X, np.float64, 1.0, 1.0, 1.0).values(X)))


def mean_self_value(
    kernel: Any, X: Any, gamma: Any, degree: float, coef0: float, weight: NDArray[np.float64] | None = None
) -> float:
    """Mean of K(x, x) over the rows, by their weights; 1 where that is not a positive number.

    ``gamma`` may be a word that :func:`resolve_gamma` knows; it is taken from the rows with a weight.
    """
    if weight is not None and (weight == weight[0]).all():
        weight = None if weight[0] > 0 else weight
    if kernel == "linear":
        whole = float(X.shape[0]) if weight is None else float(weight.sum())
        mean = squared_lengths(X, weight) / whole if whole > 0 else 1.0
    elif kernel == "precomputed" and X.shape[0] != X.shape[1]:
        return 1.0  # for the estimator to refuse
    else:
        used = X if weight is None or kernel not in ("poly", "sigmoid") else X[weight > 0]
        number = resolve_gamma(gamma, used, kernel) if used.shape[0] else 1.0
        mean = _average(diagonal(kernel, X, number, degree, coef0), weight)
    return mean if np.isfinite(mean) and mean > 0 else 1.0


def _average(values: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    if weight is None:
        return float(np.mean(values))
    total = float(weight.sum())
    return float(np.einsum("i,i", weight, values)) / total if total > 0 else 1.0


def squared_lengths(X: Any, weight: NDArray[np.float64] | None = None) -> float:
    """Sum over the rows of x.x times their weights, in double precision, in one pass and without a copy of X.

    By einsum, for BLAS would start threads, which go on turning on the processors that those of the solver need.
    """
    n = X.shape[0]
    if sp.issparse(X):
        X = sp.csr_array(X)  # shares the entries of a CSR matrix
        entries, rows = X.nnz, X.indptr
    else:
        entries, rows = X.size, None
    step, total = max(1, BLOCK_ENTRIES * n // max(entries, 1)), 0.0
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = X[start:stop] if rows is None else X.data[rows[start] : rows[stop]]
        block = block.astype(np.float64, copy=False)
        if weight is None:
            block = block.reshape(-1)
            total += float(np.einsum("i,i", block, block))
        elif rows is None:
            total += float(np.einsum("i,ij,ij", weight[start:stop], block, block))
        else:
            of_entries = np.repeat(weight[start:stop], np.diff(rows[start : stop + 1]))
            total += float(np.einsum("i,i,i", of_entries, block, block))
    return total
