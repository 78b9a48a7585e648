"""Random multi-label problems that vary what is seldom varied: scale, precision, layout, unknown labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["Case", "class_weights", "margins", "random_case", "random_prior"]


def class_weights(Y: np.ndarray, class_weight: Any) -> np.ndarray:
    """Weight of every cell of Y (0, 1 and NaN) by its class: None, "balanced", or a mapping from 0 and 1."""
    if class_weight is None:
        return np.ones(Y.shape)
    on, off = (Y == 1).sum(axis=0), (Y == 0).sum(axis=0)
    if class_weight == "balanced":
        return (on + off) / (2.0 * np.maximum(np.where(Y == 1, on, off), 1))
    return np.where(Y == 1, class_weight[1], class_weight[0])


def margins(sign: np.ndarray, margin: Any) -> np.ndarray:
    """Margin of every cell by its class: a number or mapping for all labels, a list of either, or a matrix."""
    if isinstance(margin, np.ndarray):
        return np.broadcast_to(margin, sign.shape)
    each = margin if isinstance(margin, list) else [margin] * sign.shape[1]
    pairs = [(m[0], m[1]) if isinstance(m, dict) else (m, m) for m in each]
    return np.where(sign > 0, [m[1] for m in pairs], [m[0] for m in pairs])


@dataclass(frozen=True)
class Case:
    """Training data, and the same as plain arrays in double precision.

    ``sign`` is 1 or -1; ``known`` tells of which cells it is known.
    """

    X: Any
    Y: Any
    sample_weight: Any
    dense: np.ndarray
    sign: np.ndarray
    known: np.ndarray

    @property
    def constant(self) -> np.ndarray:
        """Labels with one value at most."""
        on, off = (self.known & (self.sign > 0)).any(axis=0), (self.known & (self.sign < 0)).any(axis=0)
        return ~(on & off)

    @property
    def truth(self) -> np.ndarray:
        """Y as 0, 1 and NaN."""
        return np.where(self.known, self.sign > 0, np.nan)

    @property
    def row_weight(self) -> np.ndarray:
        """One weight per row, where ``sample_weight`` has no more."""
        return np.ones(len(self.sign)) if self.sample_weight is None else np.asarray(self.sample_weight, float)

    def costs(self, C: float, class_weight: Any = None) -> np.ndarray:
        """C times the weights, 0 where nothing is known."""
        weight = self.row_weight
        weight = weight[:, None] if weight.ndim == 1 else weight
        return C * weight * class_weights(self.truth, class_weight) * self.known


def random_case(
    rng: np.random.Generator, *, most_rows: int = 60, most_labels: int = 8, cell_weights: bool = False
) -> Case:
    """Draw a problem: |x| over twelve decades, float32 or float64, dense or CSR, NaN in Y, constant labels, weights."""
    n, d = int(rng.integers(2, most_rows + 1)), int(rng.integers(1, 13))
    n_labels = int(rng.integers(1, most_labels + 1))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < rng.choice([0.3, 1.0]))
    truth = X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) + rng.normal()
    X = X * 10.0 ** rng.uniform(-6, 6)
    if rng.random() < 0.2:  # columns of very different scales
        X = X * 10.0 ** rng.uniform(-2, 2, size=d)
    if rng.random() < 0.3:
        X[rng.random(n) < 0.2] = 0.0  # empty rows
    X = X.astype(rng.choice([np.float32, np.float64]))
    sign = np.where(truth > 0, 1.0, -1.0)
    if rng.random() < 0.3:
        sign[:, rng.integers(n_labels)] = rng.choice([-1.0, 1.0])
    known = np.ones(sign.shape, bool)
    if rng.random() < 0.4:
        known = rng.random(sign.shape) < 0.8
        if rng.random() < 0.3:
            known[:, rng.integers(n_labels)] = False
        known[0, 0] = True
    Y: Any = (sign > 0).astype(int) if known.all() else np.where(known, sign > 0, np.nan)
    if known.all() and rng.random() < 0.3:
        Y = sp.csr_array(Y)
    weight = None
    if rng.random() < 0.3:
        weight = rng.exponential(size=n) * (rng.random(n) < 0.9) + 1e-3
        if cell_weights and rng.random() < 0.5:
            weight = rng.exponential(size=sign.shape)
    dense = X.astype(np.float64)
    return Case(sp.csr_array(X) if rng.random() < 0.4 else X, Y, weight, dense, sign, known)


def random_prior(rng: np.random.Generator, n_labels: int) -> Any:
    """Draw None, a matrix (singular, ill-conditioned, by blocks), or a LowRankPrior."""
    from multimargin.priors import LowRankPrior

    kind = rng.integers(6)
    F = rng.normal(size=(n_labels, int(rng.integers(1, n_labels + 1))))
    if kind == 0:
        return None
    if kind == 1:
        return F @ F.T
    if kind == 2:
        return LowRankPrior(F)
    if kind == 3:
        return LowRankPrior(F, 10.0 ** rng.uniform(-6, 1))
    R = 0.5 * np.eye(n_labels) + 0.5
    if kind == 4 and n_labels > 1:
        cut = int(rng.integers(1, n_labels))
        R[:cut, cut:] = R[cut:, :cut] = 0.0
    return R
