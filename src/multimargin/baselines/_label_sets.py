"""Distinct label sets as classes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.estimators.predictor import row_blocks

__all__ = ["class_columns", "distinct_sets"]


def distinct_sets(Y: sp.csr_array) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Distinct rows of labels, sorted, and which of them each row has."""
    packed = [np.packbits(Y[rows].toarray().astype(bool), axis=1) for rows in row_blocks(*Y.shape)]
    distinct, code = np.unique(np.vstack(packed), axis=0, return_inverse=True)
    return np.unpackbits(distinct, axis=1, count=Y.shape[1]).astype(bool), code.ravel()


def class_columns(code: NDArray[np.intp], n_classes: int) -> sp.csr_array:
    """Rows with a single 1, in the column of their class."""
    cells = (np.ones(len(code), dtype=bool), code, np.arange(len(code) + 1))
    return sp.csr_array(cells, shape=(len(code), n_classes))
