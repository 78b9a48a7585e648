"""Kernel models as the native core scores rows with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._rows import native_rows

from .values import stays_sparse

__all__ = ["kernel_scorer"]

BY_FEATURE = frozenset({"laplacian", "chi2", "additive_chi2"})


def kernel_scorer(
    kernel: str,
    support: Any,
    coef: NDArray[Any],
    intercept: NDArray[Any],
    gamma: float,
    degree: float,
    coef0: float,
) -> _core.Scorer:
    """Return the scores ``k(x, support) @ coef + intercept`` for a kernel that has a name, in the precision of coef."""
    rows, columns = None, None
    if kernel not in BY_FEATURE and stays_sparse(support):
        transposed = sp.csr_array(sp.csr_array(support, dtype=coef.dtype).T)
        transposed.sort_indices()
        columns = native_rows(transposed)
    else:
        rows = np.ascontiguousarray(support.toarray() if sp.issparse(support) else support, dtype=coef.dtype)
    kind = getattr(_core.KernelKind, kernel)
    constants = {"gamma": float(gamma), "degree": float(degree), "coef0": float(coef0)}
    return _core.kernel_scorer(coef, np.ascontiguousarray(intercept, coef.dtype), rows, columns, kind, **constants)
