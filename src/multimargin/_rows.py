"""Rows of a matrix as the native core takes them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin import _core

__all__ = ["fingerprint", "native_rows"]


def native_rows(X: Any) -> _core.Rows:
    """Rows of a dense or CSR matrix for the native core, without a copy of the entries."""
    if sp.issparse(X):
        return _core.csr_rows(X.data, X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64), X.shape[1])
    return _core.dense_rows(np.ascontiguousarray(X))


def fingerprint(X: Any) -> tuple[Any, ...]:
    """Return what tells the rows of a dense or CSR matrix from others: shape, type, and a hash of the entries."""
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return X.shape, X.dtype.str, digest.digest()
