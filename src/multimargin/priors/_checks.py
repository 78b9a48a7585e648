"""What a prior must be, and the form of low rank."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin._tables import html_table
from multimargin.errors import InputError

__all__ = ["LowRankPrior", "check_prior"]

SYMMETRY_TOLERANCE = 1e-8
ROUNDING = 1e-12
PSD_TOLERANCE = 1e-8

REMEDY = (
    "Build the prior with multimargin.priors, or project it: R = (R + R.T) / 2, then set negative eigenvalues to 0."
)


@dataclass(frozen=True, eq=False)
class LowRankPrior:
    r"""A prior of low rank plus a diagonal, :math:`R = \mathrm{diag}(d) + F F^\top`.

    Training costs :math:`r L` per row instead of :math:`L^2`; without a diagonal only :math:`D \times r` weights are
    kept.

    Parameters
    ----------
    factor : array of shape (n_labels, rank)
        F.
    diagonal : float or array of shape (n_labels,), default=0.0
        d, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.priors import LowRankPrior
    >>> LowRankPrior(np.array([[1.0], [-1.0]]), diagonal=0.5).toarray()
    array([[ 1.5, -1. ],
           [-1. ,  1.5]])
    """

    factor: NDArray[Any]
    diagonal: float | NDArray[Any] = 0.0

    def toarray(self) -> NDArray[np.float64]:
        """Return R as a dense matrix."""
        F = np.asarray(self.factor, dtype=np.float64)
        return F @ F.T + np.diag(np.broadcast_to(np.asarray(self.diagonal, dtype=np.float64), len(F)))

    def _repr_html_(self) -> str:
        n_labels, rank = np.shape(self.factor)
        ends = [f"{end:.4g}" for end in (np.min(self.diagonal), np.max(self.diagonal))]
        rows = [["labels", str(n_labels)], ["rank", str(rank)], ["diagonal", " to ".join(dict.fromkeys(ends))]]
        return html_table(rows, head=False, note="R = diag(d) + F Fᵀ")


def check_prior(
    prior: Any, names: Sequence[Any] | NDArray[Any], dtype: type[np.floating[Any]] = np.float64
) -> NDArray[Any] | LowRankPrior | None:
    """Check a prior against the labels.

    Parameters
    ----------
    prior : None, array, DataFrame or LowRankPrior
        ``None`` is the identity. A DataFrame is aligned with the labels by its row and column names.
    names : sequence
        Label names.
    dtype : type
        Precision of the result.

    Returns
    -------
    None, ndarray of shape (n_labels, n_labels), or LowRankPrior with an array diagonal
    """
    if prior is None:
        return None
    if isinstance(prior, LowRankPrior):
        return _check_low_rank(prior, names, dtype)
    R: Any = _aligned(prior, names) if hasattr(prior, "columns") else prior
    if sp.issparse(R):
        R = R.toarray()
    try:
        R = np.asarray(R, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"prior must be None, a square matrix, a DataFrame or a LowRankPrior; got {type(prior).__name__}."
        raise InputError(msg) from None
    n = len(names)
    if R.shape != (n, n):
        msg = f"prior must have one row and one column for each of the {n} labels; got shape {R.shape}."
        raise InputError(msg)
    if not np.all(np.isfinite(R)):
        msg = "prior must be finite; it contains NaN or infinite entries."
        raise InputError(msg)
    scale = max(float(np.abs(R).max()), np.finfo(float).tiny)
    asymmetry = float(np.abs(R - R.T).max())
    if asymmetry > SYMMETRY_TOLERANCE * scale:
        msg = f"prior must be symmetric; R and its transpose differ by up to {asymmetry:.3g}. {REMEDY}"
        raise InputError(msg)
    R = (R + R.T) / 2
    diagonal = np.diag(R)
    if np.any(diagonal <= 0):
        worst = int(np.argmin(diagonal))
        where = f"it is {diagonal[worst]:.3g} for label {_name(names, worst)!r}"
        msg = f"prior must have a positive diagonal; {where}. {REMEDY}"
        raise InputError(msg)
    return np.ascontiguousarray(_clip_eigenvalues(R), dtype=dtype)


def _check_low_rank(prior: LowRankPrior, names: Any, dtype: type[np.floating[Any]]) -> LowRankPrior:
    factor = np.asarray(prior.factor, dtype=np.float64)
    n = len(names)
    if factor.ndim != 2 or factor.shape[0] != n or factor.shape[1] == 0:
        msg = f"The factor of a LowRankPrior must have shape ({n}, rank), one row per label; got {factor.shape}."
        raise InputError(msg)
    diagonal = np.asarray(prior.diagonal, dtype=np.float64)
    if diagonal.shape not in ((), (n,)):
        msg = f"The diagonal of a LowRankPrior must be a number or {n} numbers; got shape {diagonal.shape}."
        raise InputError(msg)
    diagonal = np.broadcast_to(diagonal, n)
    if not np.all(np.isfinite(factor)) or not np.all(np.isfinite(diagonal)):
        msg = "A LowRankPrior must be finite; it contains NaN or infinite entries."
        raise InputError(msg)
    if np.any(diagonal < 0):
        msg = f"The diagonal of a LowRankPrior must not be negative; its minimum is {diagonal.min():.3g}."
        raise InputError(msg)
    total = diagonal + np.einsum("lr,lr->l", factor, factor)
    if np.any(total <= 0):
        worst = int(np.argmin(total))
        msg = (
            f"prior must have a positive diagonal; it is 0 for label {_name(names, worst)!r}. "
            "Give it a factor or a diagonal entry."
        )
        raise InputError(msg)
    return LowRankPrior(np.ascontiguousarray(factor, dtype=dtype), np.ascontiguousarray(diagonal, dtype=dtype))


def _name(names: Any, position: int) -> Any:
    return np.asarray(names, dtype=object).tolist()[position]


def _aligned(frame: Any, names: Any) -> NDArray[np.float64]:
    known = set(frame.columns) & set(frame.index)
    missing = [name for name in names if name not in known]
    if missing:
        msg = (
            f"prior is a DataFrame without a row and column for label {missing[0]!r}; it needs both for each of the "
            f"{len(names)} labels."
        )
        raise InputError(msg)
    return np.asarray(frame.loc[list(names), list(names)].to_numpy(dtype=np.float64))


def _clip_eigenvalues(R: NDArray[np.float64]) -> NDArray[np.float64]:
    eigenvalues = np.linalg.eigvalsh(R)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest < -PSD_TOLERANCE * largest:
        msg = (
            f"prior must be positive semidefinite; its smallest eigenvalue is {smallest:.3g} (largest {largest:.3g}). "
            f"{REMEDY}"
        )
        raise InputError(msg)
    if smallest >= -ROUNDING * largest:
        return R
    warnings.warn(
        f"The smallest eigenvalue of the prior is {smallest:.3g} (largest {largest:.3g}); negative ones were set to 0.",
        stacklevel=4,
    )
    values, vectors = np.linalg.eigh(R)
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((clipped + clipped.T) / 2)
