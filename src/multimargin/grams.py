"""Gram matrices: all of one or rows of it, a block of rows at a time, and exact factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Lock
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from multimargin import _core
from multimargin._interrupt import interruptible
from multimargin.errors import InputError
from multimargin.kernels import Kernel

__all__ = ["BLOCK_BYTES", "for_blocks", "gram_factor", "gram_matrix", "gram_rows", "one_blas_thread"]

BLOCK_BYTES = 32 * 2**20
GRAM_BLOCK_ROWS = 128
BLOCK = 64


def gram_matrix(kernel: Kernel, X: Any, n_jobs: int) -> NDArray[Any]:
    """Return the whole Gram matrix of the training rows, padded as the solver wants it."""
    n = kernel.n
    gram: NDArray[Any] = (_core.gram_matrix_float32 if kernel.dtype == np.float32 else _core.gram_matrix_float64)(n)
    rows = kernel.prepare(X)

    def fill(block: slice) -> None:
        first = block.start if kernel.symmetric else 0
        kernel.values(rows[block], first, gram[block, first:n])

    for_blocks(fill, (slice(a, min(a + GRAM_BLOCK_ROWS, n)) for a in range(0, n, GRAM_BLOCK_ROWS)), n_jobs)
    if kernel.unit_diagonal:
        np.fill_diagonal(gram[:, :n], 1.0)
    if kernel.symmetric:
        _core.mirror_gram(gram, n_jobs)
    return gram


def gram_rows(kernel: Kernel, X: Any, n_jobs: int) -> Callable[[NDArray[np.int32]], NDArray[Any]]:
    """Return a function that computes rows of the Gram matrix by their numbers."""
    prepared = kernel.prepare(X)

    def compute(rows: NDArray[np.int32]) -> NDArray[Any]:
        out = np.empty((len(rows), kernel.n), dtype=kernel.dtype)

        def fill(block: slice) -> None:
            kernel.values(prepared[rows[block]], 0, out[block])

        size = GRAM_BLOCK_ROWS // 2
        for_blocks(fill, (slice(a, min(a + size, len(rows))) for a in range(0, len(rows), size)), n_jobs)
        if kernel.unit_diagonal:
            out[np.arange(len(rows)), rows] = 1.0
        return out

    return compute


def for_blocks(task: Callable[[slice], None], blocks: Iterator[slice], n_jobs: int) -> None:
    """Run a task on every block, on ``n_jobs`` threads, with BLAS on one: the bits do not depend on ``n_jobs``."""
    with one_blas_thread:
        if n_jobs == 1:
            for block in blocks:
                task(block)
            return
        pool = ThreadPoolExecutor(n_jobs)
        try:
            for _ in pool.map(task, blocks):
                pass
        finally:
            pool.shutdown(cancel_futures=True)


class _OneBlasThread:
    """Keeps BLAS from starting threads of its own, as long as anybody in the process asks for it.

    The limit is one of the process: the first of several fits at the same time sets it, the last one takes it back.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._limit = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limit.enter_context(threadpool_limits(1, user_api="blas"))
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.close()


one_blas_thread = _OneBlasThread()


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
