"""C="scale": the cost of an error that suits the length of the rows."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from multimargin.kernels import mean_self_value

__all__ = ["C_CONSTRAINTS", "cost_of_error", "mean_square", "shown_C"]

C_CONSTRAINTS: list[Any] = [StrOptions({"scale"}), Interval(Real, 0, None, closed="neither")]
"""What the parameter C may be."""


def cost_of_error(estimator: Any, X: Any, weight: NDArray[np.float64] | None = None) -> float:
    """Return C as a number; "scale" is 1 / :func:`mean_square`."""
    return 1.0 / mean_square(estimator, X, weight) if isinstance(estimator.C, str) else float(estimator.C)


def mean_square(estimator: Any, X: Any, weight: NDArray[np.float64] | None = None) -> float:
    """Mean of K(x, x) under the kernel of an estimator, by the weights of the rows; 1 where it is not positive.

    Without a kernel that is the squared length of a row, the constant feature not counted: rows of length 1 and kernels
    with K(x, x) = 1 keep C = 1.
    """
    kernel = getattr(estimator, "kernel", "linear")
    gamma, degree, coef0 = (getattr(estimator, name, 1.0) for name in ("gamma", "degree", "coef0"))
    return mean_self_value(kernel, X, gamma, degree, coef0, weight)


def shown_C(estimator: Any, C: float) -> str:
    """Return C for a message, with the number that "scale" stands for."""
    return f"C='scale' (here {C:.3g})" if isinstance(estimator.C, str) else f"C={estimator.C!r}"
