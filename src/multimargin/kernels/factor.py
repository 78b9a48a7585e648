"""Exact factors of Gram matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from multimargin._interrupt import interruptible
from multimargin.errors import InputError

__all__ = ["gram_factor"]

BLOCK = 64


def gram_factor(K: NDArray[np.float64], subject: str = "The kernel matrix") -> NDArray[np.float64]:
    """Rows Z with ``Z @ Z.T == K`` up to rounding, and as few columns as the rank of K.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric and positive semidefinite.
    subject : str
        What error messages call K.

    Returns
    -------
    ndarray of shape (n, rank)
    """
    n = len(K)
    scale = float(np.abs(np.diag(K)).max(initial=0.0))
    asymmetry = max((float(np.abs(K[k] - K[:, k].T).max()) for k in _blocks(n)), default=0.0)
    if asymmetry > 1e-6 * scale:
        msg = f"{subject} must be symmetric; two entries across its diagonal differ by {asymmetry:.3g}."
        raise InputError(msg)
    Z = _pivoted_cholesky(K, 1e-14 * n * scale)
    error = max((float(np.abs(interruptible(np.matmul, Z[k], Z.T) - K[k]).max()) for k in _blocks(n)), default=0.0)
    if error > 1e-7 * scale:
        msg = (
            f"{subject} must be positive semidefinite; it is off by {error:.3g} from the nearest such matrix found "
            f"(its largest entry is {scale:.3g}). Use a kernel that is positive semidefinite."
        )
        raise InputError(msg)
    return Z


def _blocks(n: int) -> Iterator[slice]:
    return (slice(k, min(k + BLOCK, n)) for k in range(0, n, BLOCK))


def _pivoted_cholesky(K: NDArray[np.float64], tol: float) -> NDArray[np.float64]:
    """Rows Z with ``Z @ Z.T == K``, by blocks of the pivots with the largest remainder; stops where none is above tol.

    Made of short steps, so that Ctrl-C is answered; rank r costs n r^2.
    """
    n, rank = len(K), 0
    Z = np.zeros((n, n), order="F")  # columns not used take no memory
    rest = np.diag(K).copy()
    while True:
        block = np.argsort(-rest, kind="stable")[:BLOCK]
        block = block[rest[block] > tol]
        if not len(block):
            return np.ascontiguousarray(Z[:, :rank])
        part = K[np.ix_(block, block)] - Z[block, :rank] @ Z[block, :rank].T
        factor, order, found, _ = scipy.linalg.lapack.dpstrf(part, tol=tol, lower=1)
        if not found:  # nothing but rounding is left of these
            rest[block] = 0.0
            continue
        pivots, L = block[order[:found] - 1], np.tril(factor)[:found, :found]
        columns = K[pivots] - interruptible(np.matmul, Z[pivots, :rank], Z[:, :rank].T)
        Z[:, rank : rank + found] = scipy.linalg.solve_triangular(L, columns, lower=True).T
        rest -= np.einsum("ij,ij->i", Z[:, rank : rank + found], Z[:, rank : rank + found])
        rest[pivots] = 0.0
        rank += found
