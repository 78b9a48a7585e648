"""Orthogonal matching pursuit for many signals and one dictionary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators.predictor import row_blocks

__all__ = ["matching_pursuit"]

Array = NDArray[np.float64]

NOTHING_LEFT = 1e-10
"""Share of a signal's length below which what is left of it is rounding."""


def matching_pursuit(A: Array, signals: Array, steps: int) -> Array:
    """Write signals as sums of a few columns of a matrix.

    Step by step, the column that correlates most with what is left of a signal, by absolute value, joins its support,
    and all coefficients on the support are found anew by least squares. Nothing joins once nothing is left.

    Parameters
    ----------
    A : ndarray of shape (n_codes, n_columns)
    signals : ndarray of shape (n_rows, n_codes)
    steps : int
        Columns of a support.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Coefficients.
    """
    out = np.zeros((len(signals), A.shape[1]))
    gram, lengths = A.T @ A, np.linalg.norm(A, axis=0)
    for rows in row_blocks(len(signals), A.shape[1] + steps * steps):
        _decode(gram, lengths, signals[rows], signals[rows] @ A, min(steps, *A.shape), out[rows])
    return out


def _decode(gram: Array, lengths: Array, signals: Array, products: Array, steps: int, out: Array) -> None:
    """Write the coefficients of some signals, with these products with the columns, to ``out``."""
    smallest = NOTHING_LEFT * np.linalg.norm(signals, axis=1)[:, None] * lengths
    active = np.arange(len(signals))
    support = np.zeros((len(signals), 0), dtype=np.intp)
    left = products
    for _ in range(steps):
        strength = np.where(np.abs(left) > smallest[active], np.abs(left), 0.0)
        np.put_along_axis(strength, support, 0.0, axis=1)
        column = strength.argmax(axis=1)
        goes_on = strength[np.arange(len(active)), column] > 0
        active, column = active[goes_on], column[goes_on]
        if not len(active):
            break
        support = np.column_stack([support[goes_on], column])
        inside = gram[support[:, :, None], support[:, None, :]]
        right = np.take_along_axis(products[active], support, axis=1)
        coefficients = np.linalg.solve(inside, right[:, :, None])[:, :, 0]
        left = products[active] - np.einsum("ij,ijk->ik", coefficients, gram[support])
        out[active] = 0.0
        out[active[:, None], support] = coefficients
