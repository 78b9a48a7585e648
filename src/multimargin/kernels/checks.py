"""What makes a kernel unfit for training."""

from __future__ import annotations

from typing import Any

import numpy as np

from multimargin.errors import InputError

from .diagonal import diagonal
from .values import POSITIVE_DATA, check_not_negative, make_kernel

__all__ = ["check_kernel", "largest_value"]

SAMPLE_ROWS = 256
LARGEST = 1e100  # squares of kernel values stay far from the ends of the range of double precision
PSD_TOLERANCE = 1e-6


def check_kernel(kernel: Any, X: Any, gamma: float, degree: float, coef0: float, seed: int) -> None:
    """Refuse data a kernel is not defined on, and kernels that are not positive semidefinite."""
    if kernel == "precomputed" and X.shape[0] != X.shape[1]:
        msg = (
            f"kernel='precomputed' needs the square Gram matrix of the training rows as X; got shape {X.shape}. "
            "X should be a square kernel matrix."
        )
        raise InputError(msg)
    if not callable(kernel) and kernel in POSITIVE_DATA:
        check_not_negative(kernel, X)
    safe_poly = kernel == "poly" and coef0 >= 0 and degree == int(degree)
    if callable(kernel) or kernel in ("precomputed", "sigmoid") or (kernel == "poly" and not safe_poly):
        _check_sample(kernel, X, gamma, degree, coef0, seed)
    largest = largest_value(kernel, X, gamma, degree, coef0)
    if not largest <= LARGEST:
        msg = (
            f"The values of kernel={kernel!r} must not exceed {LARGEST:g}; between a row and itself they reach "
            f"{largest:.3g}. Scale the features."
        )
        raise InputError(msg)


def largest_value(kernel: Any, X: Any, gamma: float, degree: float, coef0: float) -> float:
    """Bound of the kernel's values between rows; for a function, the largest between some rows and themselves."""
    rows = X[:SAMPLE_ROWS] if callable(kernel) else X
    return float(np.abs(diagonal(kernel, rows, gamma, degree, abs(coef0))).max(initial=0.0))


def _check_sample(kernel: Any, X: Any, gamma: float, degree: float, coef0: float, seed: int) -> None:
    n = X.shape[0]
    rows = np.sort(np.random.default_rng(seed).choice(n, size=min(n, SAMPLE_ROWS), replace=False))
    sample = X[rows][:, rows] if kernel == "precomputed" else X[rows]
    K = make_kernel(kernel, sample, np.float64, gamma, degree, coef0)
    values = K.values(K.prepare(sample))
    name = getattr(kernel, "__name__", "function") if callable(kernel) else repr(kernel)
    if not np.all(np.isfinite(values)):
        msg = f"The kernel {name} has infinite or undefined values on these data. Scale the features."
        raise InputError(msg)
    asymmetry, scale = float(np.abs(values - values.T).max()), float(np.abs(values).max())
    if asymmetry > 1e-5 * scale:
        msg = (
            f"The kernel {name} must be symmetric; values of a pair of rows differ by up to {asymmetry:.3g} (largest "
            f"value {scale:.3g}). Use (K + K.T) / 2."
        )
        raise InputError(msg)
    eigenvalues = np.linalg.eigvalsh((values + values.T) / 2)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest < -PSD_TOLERANCE * max(largest, 0.0) - np.finfo(np.float64).tiny:
        msg = (
            f"The kernel {name} is not positive semidefinite: on a sample of {len(rows)} rows its smallest eigenvalue "
            f"is {smallest:.3g} (largest {largest:.3g}), so training would have no certified optimum. Use another "
            "kernel, or add the size of that eigenvalue to the diagonal of a precomputed one."
        )
        raise InputError(msg)
