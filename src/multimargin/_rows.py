"""Rows of a matrix as the native core takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin import _core

__all__ = ["native_rows"]


def native_rows(X: Any) -> _core.Rows:
    """Rows of a dense or CSR matrix for the native core, without a copy of the entries."""
    if sp.issparse(X):
        return _core.csr_rows(X.data, X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64), X.shape[1])
    return _core.dense_rows(np.ascontiguousarray(X))
