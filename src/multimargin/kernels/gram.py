"""Gram matrices: all of one or rows of it, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import _core

from .blas import one_blas_thread
from .values import Kernel

__all__ = ["BLOCK_BYTES", "for_blocks", "gram_matrix", "gram_rows"]

BLOCK_BYTES = 32 * 2**20
GRAM_BLOCK_ROWS = 128


def gram_matrix(kernel: Kernel, X: Any, n_jobs: int) -> NDArray[Any]:
    """Return the whole Gram matrix of the training rows, padded as the solver wants it."""
    n = kernel.n
    gram: NDArray[Any] = (_core.gram_matrix_float32 if kernel.dtype == np.float32 else _core.gram_matrix_float64)(n)
    rows = kernel.prepare(X)

    def fill(block: slice) -> None:
        first = block.start if kernel.symmetric else 0
        kernel.values(rows[block], first, gram[block, first:n])

    for_blocks(fill, _blocks(n, GRAM_BLOCK_ROWS, kernel), n_jobs)
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

        for_blocks(fill, _blocks(len(rows), GRAM_BLOCK_ROWS // 2, kernel), n_jobs)
        if kernel.unit_diagonal:
            out[np.arange(len(rows)), rows] = 1.0
        return out

    return compute


def _blocks(n: int, size: int, kernel: Kernel) -> Iterator[slice]:
    if kernel.large_blocks:
        size = max(size, BLOCK_BYTES // (8 * kernel.n))
    return (slice(a, min(a + size, n)) for a in range(0, n, size))


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
