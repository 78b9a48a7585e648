"""Values of kernels between blocks of rows, and the rule for gamma."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._rows import native_rows
from multimargin.errors import InputError

__all__ = [
    "KERNELS",
    "POSITIVE_DATA",
    "Kernel",
    "check_not_negative",
    "make_kernel",
    "resolve_gamma",
    "squared_norms",
    "stays_sparse",
]

KERNELS = frozenset({"linear", "rbf", "poly", "sigmoid", "laplacian", "chi2", "additive_chi2", "precomputed"})
"""Names of input kernels; a callable ``(X, Z) -> matrix`` is a kernel too."""
POSITIVE_DATA = frozenset({"chi2", "additive_chi2"})
DENSE_SHARE = 0.2  # sparser rows stay sparse


class Kernel:
    """Values k(a, z) between rows a of a block and the fixed rows z.

    Parameters
    ----------
    Z : array or CSR matrix of shape (n, n_features)
        The fixed rows.
    dtype : type
        Precision of the values.
    """

    symmetric = True
    unit_diagonal = False
    large_blocks = False
    """Whether a call costs much beside its values."""

    def __init__(self, Z: Any, dtype: Any):
        self.dtype = np.dtype(dtype)
        self.n = Z.shape[0]

    def prepare(self, A: Any) -> Any:
        """Rows in the form in which :meth:`values` takes them; slices of it are blocks."""
        return A

    def values(self, A: Any, first: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Kernel values between prepared rows and the fixed rows from ``first`` on."""
        raise AssertionError


class _DotKernel(Kernel):
    """A function of the inner product: by BLAS for dense rows, by the columns of the fixed rows for sparse ones."""

    def __init__(self, Z: Any, dtype: Any):
        super().__init__(Z, dtype)
        self._sparse = stays_sparse(Z)
        if sp.issparse(Z) and not self._sparse:
            Z = Z.toarray()
        if self._sparse:
            columns = sp.csr_array(sp.csr_array(Z, dtype=self.dtype).T)
            columns.sort_indices()
            self._columns = native_rows(columns)
        else:
            self._Z = self._right(np.asarray(Z, dtype=self.dtype))

    def prepare(self, A: Any) -> Any:
        if self._sparse:
            return sp.csr_array(A, dtype=self.dtype)
        return self._left(np.asarray(A.toarray() if sp.issparse(A) else A, dtype=self.dtype))

    def values(self, A: Any, first: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        values = np.empty((A.shape[0], self.n - first), dtype=self.dtype) if out is None else out
        if not self._sparse:
            np.matmul(A, self._Z[first:].T, out=values)
        elif values.flags.c_contiguous:
            _core.sparse_products(native_rows(A), self._columns, 0, A.shape[0], first, values)
        else:
            values[...] = self.values(A, first)
            return values
        self._finish(values, A, first)
        return values

    def _left(self, A: NDArray[Any]) -> NDArray[Any]:
        return A

    def _right(self, Z: NDArray[Any]) -> NDArray[Any]:
        return Z

    def _finish(self, values: NDArray[Any], A: Any, first: int) -> None:
        """Turn inner products into kernel values, in place."""


class _Poly(_DotKernel):
    def __init__(self, Z: Any, dtype: Any, gamma: float, degree: float, coef0: float):
        super().__init__(Z, dtype)
        self._gamma, self._degree, self._coef0 = gamma, degree, coef0

    def _finish(self, values: NDArray[Any], A: Any, first: int) -> None:
        values *= self._gamma
        values += self._coef0
        if self._degree != 1:
            np.power(values, int(self._degree) if self._degree == int(self._degree) else self._degree, out=values)


class _Sigmoid(_Poly):
    def _finish(self, values: NDArray[Any], A: Any, first: int) -> None:
        super()._finish(values, A, first)
        np.tanh(values, out=values)


class _Rbf(_DotKernel):
    """The Gaussian kernel.

    Its exponent -gamma |a - z|^2 is an inner product, of (2 gamma a, -gamma a.a, 1) with (z, 1, -gamma z.z); centring
    the rows first keeps its digits.
    """

    unit_diagonal = True

    def __init__(self, Z: Any, dtype: Any, gamma: float):
        self._gamma = gamma
        super().__init__(Z, dtype)
        if self._sparse:
            self._norms = (-gamma * squared_norms(sp.csr_array(Z, dtype=self.dtype))).astype(self.dtype)

    def _right(self, Z: NDArray[Any]) -> NDArray[Any]:
        self._centre = Z.mean(axis=0, dtype=np.float64).astype(Z.dtype) if len(Z) else np.zeros(Z.shape[1], Z.dtype)
        centred = Z - self._centre
        right = np.empty((len(Z), Z.shape[1] + 2), dtype=Z.dtype)
        right[:, :-2] = centred
        right[:, -2] = 1.0
        right[:, -1] = -self._gamma * squared_norms(centred)
        return right

    def _left(self, A: NDArray[Any]) -> NDArray[Any]:
        centred = A - self._centre
        left = np.empty((len(A), A.shape[1] + 2), dtype=A.dtype)
        np.multiply(centred, 2.0 * self._gamma, out=left[:, :-2])
        left[:, -2] = -self._gamma * squared_norms(centred)
        left[:, -1] = 1.0
        return left

    def _finish(self, values: NDArray[Any], A: Any, first: int) -> None:
        if self._sparse:
            values *= 2.0 * self._gamma
            values += (-self._gamma * squared_norms(A)).astype(self.dtype)[:, None]
            values += self._norms[first:]
        np.minimum(values, 0.0, out=values)
        np.exp(values, out=values)


class _FeatureSums(Kernel):
    """A function of a sum over features, which needs dense rows."""

    def __init__(self, Z: Any, dtype: Any, name: str, gamma: float):
        super().__init__(Z, dtype)
        self._name, self._gamma = name, gamma
        self._Z = self.prepare(Z)
        self._sum = {"laplacian": _core.manhattan, "chi2": _core.chi2, "additive_chi2": _core.additive_chi2}[name]
        self.unit_diagonal = self._exponential = name != "additive_chi2"

    def prepare(self, A: Any) -> Any:
        if self._name in POSITIVE_DATA:
            check_not_negative(self._name, A)
        return np.ascontiguousarray(A.toarray() if sp.issparse(A) else A, dtype=self.dtype)

    def values(self, A: Any, first: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        sums = np.empty((len(A), self.n - first), dtype=self.dtype)
        self._sum(A, self._Z[first:], sums)
        if self._exponential:
            sums *= -self._gamma
            np.exp(sums, out=sums)
        if out is None:
            return sums
        out[...] = sums
        return out


class _Callable(Kernel):
    symmetric = False
    large_blocks = True

    def __init__(self, Z: Any, dtype: Any, function: Callable[[Any, Any], Any]):
        super().__init__(Z, dtype)
        self._Z, self._function = Z, function

    def values(self, A: Any, first: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        values = self._function(A, self._Z)
        values = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=self.dtype)
        if (
            values.shape != (A.shape[0], self.n)
            or not np.isfinite([values.min(initial=0), values.max(initial=0)]).all()
        ):
            msg = (
                f"The kernel function must return finite values of shape {(A.shape[0], self.n)}, a row for each row of "
                f"its first argument and a column for each of its second; got shape {values.shape}."
            )
            raise InputError(msg)
        if out is None:
            return np.ascontiguousarray(values[:, first:])
        out[...] = values[:, first:]
        return out


class _Precomputed(Kernel):
    """Blocks of rows already hold their kernel values with the fixed rows."""

    symmetric = False

    def values(self, A: Any, first: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        values = np.asarray((A.toarray() if sp.issparse(A) else A)[:, first:], dtype=self.dtype)
        if out is None:
            return np.ascontiguousarray(values)
        out[...] = values
        return out


def make_kernel(kernel: Any, Z: Any, dtype: Any, gamma: float, degree: float, coef0: float) -> Kernel:
    """Return the kernel with the fixed rows ``Z``."""
    if callable(kernel):
        return _Callable(Z, dtype, kernel)
    if kernel == "rbf":
        return _Rbf(Z, dtype, gamma)
    if kernel == "poly":
        return _Poly(Z, dtype, gamma, degree, coef0)
    if kernel == "sigmoid":
        return _Sigmoid(Z, dtype, gamma, 1, coef0)
    if kernel == "linear":
        return _DotKernel(Z, dtype)
    if kernel == "precomputed":
        return _Precomputed(Z, dtype)
    return _FeatureSums(Z, dtype, kernel, gamma)


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


def check_not_negative(kernel: str, X: Any) -> None:
    """Refuse features below 0, for which the chi2 kernels are not defined."""
    smallest = float(X.min()) if X.shape[0] else 0.0
    if smallest < 0:
        msg = (
            f"Negative values in data: kernel={kernel!r} is defined for non-negative features; the smallest is "
            f"{smallest:.4g}. Scale the features to [0, 1], or use kernel='rbf'."
        )
        raise InputError(msg)


def stays_sparse(Z: Any) -> bool:
    """Whether inner products with these rows are taken between sparse rows."""
    return bool(sp.issparse(Z)) and Z.nnz <= DENSE_SHARE * Z.shape[0] * Z.shape[1]


def squared_norms(A: Any) -> NDArray[np.float64]:
    """Squared lengths of rows, in double precision."""
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1, dtype=np.float64)).ravel()
    wide = A.astype(np.float64, copy=False)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))
