"""Kernels of the inputs: names, callables or a precomputed Gram matrix, and exact factors of Gram matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import pairwise

from multimargin.errors import InputError

__all__ = ["KERNELS", "InputKernel", "gram_factor", "input_kernel", "resolve_gamma"]

KERNELS = ("linear", "rbf", "poly", "laplacian", "chi2", "precomputed")
"""Names of input kernels; a callable ``(X, Z) -> matrix`` is a kernel too."""


@dataclass(frozen=True)
class InputKernel:
    """A kernel k(x, z) of two inputs, every parameter resolved.

    Attributes
    ----------
    name : str or callable
        One of :data:`KERNELS`, or a function of two blocks of rows.
    gamma, degree, coef0
        Parameters of the named kernels: ``exp(-gamma |x - z|^2)``, ``(gamma x.z + coef0)^degree``,
        ``exp(-gamma |x - z|_1)`` and ``exp(-gamma sum (x - z)^2 / (x + z))``.
    """

    name: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def __call__(self, X: Any, Z: Any) -> NDArray[np.float64]:
        """Matrix of the kernel between the rows of X and the rows of Z."""
        if callable(self.name):
            return self._checked(self.name(X, Z), X.shape[0], Z.shape[0])
        if self.name == "linear":
            values = pairwise.linear_kernel(X, Z)
        elif self.name == "rbf":
            values = pairwise.rbf_kernel(X, Z, gamma=self.gamma)
        elif self.name == "poly":
            values = pairwise.polynomial_kernel(X, Z, degree=self.degree, gamma=self.gamma, coef0=self.coef0)
        elif self.name == "laplacian":
            values = pairwise.laplacian_kernel(X, Z, gamma=self.gamma)
        elif self.name == "chi2":
            values = pairwise.chi2_kernel(X, Z, gamma=self.gamma)
        else:
            raise AssertionError(self.name)
        return np.asarray(values, dtype=np.float64)

    @staticmethod
    def _checked(values: Any, rows: int, columns: int) -> NDArray[np.float64]:
        matrix: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
        if matrix.shape != (rows, columns):
            msg = (
                f"The kernel function must return a matrix of shape {(rows, columns)}, a value for each pair of rows; "
                f"got shape {matrix.shape}."
            )
            raise InputError(msg)
        return matrix


def input_kernel(kernel: Any, X: Any, gamma: Any = "scale", degree: int = 3, coef0: float = 1.0) -> InputKernel:
    """Resolve the parameters of a kernel on training data.

    Parameters
    ----------
    kernel : str or callable
        One of :data:`KERNELS`, or a function of two blocks of rows.
    X : array or sparse matrix of shape (n_samples, n_features)
    gamma : float, "scale" or "auto"
        ``"scale"`` is ``1 / (n_features * X.var())`` and ``"auto"`` is ``1 / n_features``.
    degree, coef0
        Of the polynomial kernel.

    Returns
    -------
    InputKernel
    """
    if kernel == "chi2" and hasattr(X, "toarray"):
        msg = "kernel='chi2' needs dense inputs. Use X.toarray(), or another kernel."
        raise InputError(msg)
    return InputKernel(kernel, resolve_gamma(gamma, X, kernel), int(degree), float(coef0))


def resolve_gamma(gamma: Any, X: Any, kernel: Any) -> float:
    """Return gamma as a number; "scale" is 1 / (n_features * variance of X), "auto" 1 / n_features."""
    if not isinstance(gamma, str):
        return float(gamma)
    if callable(kernel) or kernel == "precomputed":
        return 1.0  # not used
    if gamma == "auto":
        return float(1.0 / X.shape[1])
    if sp.issparse(X):
        mean = float(X.sum(dtype=np.float64)) / (X.shape[0] * X.shape[1])
        variance = float(np.square(X.data, dtype=np.float64).sum()) / (X.shape[0] * X.shape[1]) - mean**2
    else:
        variance = float(X.var(dtype=np.float64))
    return float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0


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
    if not np.allclose(K, K.T, rtol=1e-6, atol=1e-9 * scale):
        msg = f"{subject} must be symmetric; two entries across its diagonal differ by {np.abs(K - K.T).max():.3g}."
        raise InputError(msg)
    if scale == 0 and not K.any():
        return np.zeros((n, 0))
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(K, tol=1e-14 * n * scale, lower=1)
    Z = np.zeros((n, rank))
    Z[pivots - 1] = np.tril(factor)[:, :rank]
    error = float(np.abs(Z @ Z.T - K).max())
    if error > 1e-7 * scale:
        msg = (
            f"{subject} must be positive semidefinite; it is off by {error:.3g} from the nearest such matrix found "
            f"(its largest entry is {scale:.3g}). Use a kernel that is positive semidefinite."
        )
        raise InputError(msg)
    return Z
