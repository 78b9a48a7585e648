r"""Interior-point method for margin problems, small ones at any scale of the inputs.

The dual of a problem with one hinge loss per group g of cells (row i, atom j) is, with :math:`K = Z Z'` between rows,
:math:`R = V V'` between atoms, signs S and all costs divided by their largest, c: over sizes :math:`z \ge 0` of the
dual variables and slacks :math:`s \ge 0`,

.. math::

    \max \textstyle\sum z - \tfrac12 |W|^2, \qquad W = \sqrt c\, Z' (S \circ z) V, \qquad
    \sum_{(i,j) \in g} z_{ij} + s_g = cost_g

Its conditions, with :math:`U = \sqrt c\, Z W V'` and multipliers :math:`\lambda, \tau \ge 0`, are
:math:`1 - S \circ U - \tau + \lambda = 0`, :math:`z \circ \lambda = 0` and :math:`s \circ \tau = 0`. Steps are those of
Mehrotra's predictor and corrector. Eliminating all but W leaves a curvature T in the cells of each row and the positive
definite system :math:`I + c \sum_i Z_i Z_i' \otimes V' T_i V`, of size (rank of K) x (rank of R).

z stays feasible, W is a variable of its own, and the system does not mind the scale of the columns of Z: some 20 steps
are enough whether c K is 1e-12 or 1e12, where methods that visit rows, or alternate, need any number of passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin._interrupt import interruptible
from multimargin.estimators.monitor import Clock
from multimargin.kernels import gram_factor, one_blas_thread

__all__ = [
    "Found",
    "InputFactor",
    "InteriorSystem",
    "input_factor",
    "passes_before",
    "run_interior",
    "suits_interior",
]

MOST_UNKNOWNS = 2500
MOST_ATOMS = 1000
MOST_WORK = 2e10  # multiply-adds of a step
MOST_CELLS = 30_000_000
PATIENCE = 10  # steps without progress
LONG = 100_000_000  # multiply-adds
FASTER = 8  # a multiply-add of a product of matrices, than one of a visit
FEWEST = 30  # steps

Array = NDArray[np.float64]


def suits_interior(n_rows: int, n_features: int, rank: int, n_atoms: int, label_rank: int) -> bool:
    """Whether a problem is small enough."""
    unknowns = rank * label_rank
    cells = n_rows * max(label_rank**2, n_atoms, n_features)
    return (
        n_atoms <= MOST_ATOMS
        and unknowns <= MOST_UNKNOWNS
        and n_rows * unknowns**2 <= MOST_WORK
        and cells <= MOST_CELLS
    )


def passes_before(max_iter: int, n_rows: int, rank: int, label_rank: int) -> int:
    """Return how many visits to all rows take about as long as this method: at most half of those allowed, if it fits.

    All of them, where too few would be left for this method.
    """
    unknowns = rank * label_rank
    equal = 15 * unknowns * (n_rows / 2 + unknowns / 3) / (2 * n_rows * FASTER)
    passes = int(min(np.clip(equal, 300, 2000), max_iter // 2))
    return passes if max_iter - passes >= FEWEST else max_iter


@dataclass(frozen=True)
class Found:
    """The best weights W and the best sizes z of dual variables, with their values, for costs as they were given."""

    primal: float
    dual: float
    W: Array
    z: Array
    passes: int
    status: Status


@dataclass
class _Point:
    """An interior point: sizes z, slacks s, their multipliers, and the weights W."""

    z: Array
    s: Array
    lam: Array
    tau: Array
    W: Array

    def moved(self, step: float, by: _Point) -> _Point:
        return _Point(*(getattr(self, name) + step * getattr(by, name) for name in vars(self)))

    def longest(self, by: _Point) -> float:
        """Length of the step that stays positive, at most 1."""
        shortest = 1.0
        for name in ("z", "s", "lam", "tau"):
            value, change = getattr(self, name), getattr(by, name)
            falls = change < 0
            shortest = min(shortest, 0.995 * float(np.min(-value[falls] / change[falls], initial=np.inf)))
        return shortest

    def products(self) -> float:
        return float(np.sum(self.z * self.lam) + np.sum(self.s * self.tau))


class InteriorSystem(ABC):
    """A problem with costs divided by their largest, c, and its Newton steps; a subclass says what the groups are."""

    def __init__(self, Z: Array, V: Array, S: NDArray[np.int8], c: float):
        self.Z, self.V, self.S, self.c, self.root = Z, V, S, c, np.sqrt(c)
        self.used = S != 0
        self.products = (V[:, :, None] * V[:, None, :]).reshape(len(V), -1)

    @abstractmethod
    def shares(self) -> Array:
        """Slacks to begin with; each cell of a group gets as much."""

    @abstractmethod
    def spread(self, groups: Array) -> Array:
        """Values of the groups, in their cells."""

    @abstractmethod
    def sums(self, cells: Array) -> Array:
        """Add up the cells of each group."""

    @abstractmethod
    def curvature(self, inverse: Array, slack: Array) -> Array:
        """Matrices V' T V of the rows; T is ``inverse`` less its part along each group, slack included."""

    @abstractmethod
    def loss(self, U: Array) -> float:
        """Loss at these scores."""

    def first(self) -> _Point:
        """Return a point in the middle."""
        s = self.shares()
        W = np.zeros((self.Z.shape[1], self.V.shape[1]))
        return _Point(self.spread(s), s, self.used.astype(np.float64), np.ones(s.shape), W)

    def bounds(self, p: _Point) -> tuple[float, float]:
        """Primal value of W and dual value of z."""
        dual = p.z.sum() - 0.5 * np.sum(self._weights(p.z) ** 2)
        return float(0.5 * np.sum(p.W**2) + self.loss(self._scores(p.W))), float(dual)

    def step(self, p: _Point) -> _Point:
        """Return the point after a predictor and a corrector."""
        inverse = p.z * self._inverse(p.lam)
        slack = p.s / p.tau
        total = self.sums(inverse) + slack
        solve = self._factored(self.curvature(inverse, slack))
        residual = np.where(self.used, 1.0 - self.S * self._scores(p.W) - self.spread(p.tau), 0.0)
        behind = p.W - self._weights(p.z)
        by_z = self._inverse(p.z)

        def direction(target: float, second: _Point | None) -> _Point:
            """Newton direction to where all products are ``target``; ``second`` corrects for what is not linear."""
            aim = by_z * (target - second.z * second.lam if second else target)
            aim_s = (target - second.s * second.tau if second else target) / p.s - p.tau
            h = residual + aim
            lead = inverse * (h - self.spread((self.sums(inverse * h) + slack * aim_s) / total))
            W = solve(self._weights(lead) - behind)
            h = h - self.S * self._scores(W)
            tau = (self.sums(inverse * h) + slack * aim_s) / total
            z = inverse * (h - self.spread(tau))
            return _Point(z, slack * (aim_s - tau), aim - p.lam - p.lam * by_z * z, tau, W)

        ahead = direction(0.0, None)
        n = float(self.used.sum() + p.s.size)
        mean, foreseen = p.products() / n, p.moved(p.longest(ahead), ahead).products() / n
        step = direction(mean * min(foreseen / mean, 1.0) ** 3, ahead)
        return p.moved(p.longest(step), step)

    def _inverse(self, values: Array) -> Array:
        return np.where(self.used, 1.0 / np.where(self.used, values, 1.0), 0.0)

    def _scores(self, W: Array) -> Array:
        return np.asarray(self.root * (self.Z @ W @ self.V.T))

    def _weights(self, z: Array) -> Array:
        return np.asarray(self.root * (self.Z.T @ (self.S * z) @ self.V))

    def _factored(self, T: Array) -> Callable[[Array], Array]:
        r, q = self.Z.shape[1], self.V.shape[1]
        work = len(self.Z) * (r * q) ** 2 + (r * q) ** 3
        factor, scale = interruptible(self._cholesky, T) if work > LONG else self._cholesky(T)

        def solve(right: Array) -> Array:
            if factor is None:
                return np.full((r, q), np.nan)
            flat = scale * scipy.linalg.cho_solve(factor, scale * right.T.ravel(), check_finite=False)
            return np.asarray(flat.reshape(q, r).T)

        return solve

    def _cholesky(self, T: Array) -> tuple[Any, Array]:
        """Factor of the system with a unit diagonal, None if it has none, and the scale of its unknowns."""
        r, q = self.Z.shape[1], self.V.shape[1]
        Z = self.root * self.Z
        blocks = np.empty((q, r, q, r))
        for f in range(q):
            for g in range(f + 1):
                blocks[f, :, g] = blocks[g, :, f] = Z.T @ (T[:, f, g, None] * Z)
        M = blocks.reshape(q * r, q * r)
        diagonal = np.diag_indices(q * r)
        M[diagonal] += 1.0
        scale = 1.0 / np.sqrt(M[diagonal])
        M *= scale[:, None]
        M *= scale
        if not np.all(np.isfinite(M)):
            return None, scale
        for more in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):  # rounding at the largest scales; the step is a little short then
            M[diagonal] += more
            try:
                return scipy.linalg.cho_factor(M, check_finite=False), scale
            except np.linalg.LinAlgError:
                continue
        return None, scale


def run_interior(system: InteriorSystem, limits: _core.Limits) -> Found:
    """Take steps until the gap is small, a limit is reached or rounding leaves nothing to gain."""
    clock, c = Clock(limits), system.c
    with one_blas_thread, np.errstate(all="ignore"):
        point = system.first()
        primal, dual, W, z = np.inf, -np.inf, point.W, point.z
        since = 0
        while True:
            upper, lower = system.bounds(point)
            gap = primal - dual
            if upper < primal:
                primal, W = upper, point.W
            if lower > dual:
                dual, z = lower, point.z
            since = 0 if primal - dual < 0.99 * gap else since + 1
            clock.end_pass()
            stopped = clock.tell(c * primal, c * max(dual, 0.0))  # 0: without dual variables
            converged = primal - dual <= limits.tol * primal
            if converged or stopped or clock.is_last or since >= PATIENCE:
                status = clock.reason if clock.is_last else Status.imprecise
                status = Status.converged if converged else Status.stopped if stopped else status
                z = c * z if dual > 0 else 0.0 * z
                return Found(c * primal, c * max(dual, 0.0), system.root * W, z, clock.passes, status)
            point = system.step(point)


@dataclass(frozen=True)
class InputFactor:
    """Rows Z with Z Z' = K, constant feature included; no more columns than rows.

    Attributes
    ----------
    Z : ndarray of shape (n_rows, rank)
    columns : ndarray of bool of shape (n_features + 1,) or None
        Where the columns of Z are features, the constant last: which ones.
    """

    Z: Array
    columns: NDArray[np.bool_] | None

    def weights(self, W: Array) -> Array | None:
        """Weights of all features and the constant; None where the columns of Z are no features."""
        if self.columns is None:
            return None
        full = np.zeros((len(self.columns), W.shape[1]))
        full[self.columns] = W
        return full

    def coefficients(self, W: Array) -> Array:
        """Coefficients of the rows that give these weights: the least ones, with the least cancellation."""
        scale = np.abs(self.Z).max(axis=0, initial=0.0)
        return np.asarray(interruptible(np.linalg.lstsq, (self.Z / scale).T, W / scale[:, None], None)[0])


def input_factor(X: Any, K: Array | None, bias: float) -> InputFactor:
    """Factor of the Gram matrix: the inputs themselves where there are more rows than features."""
    rows = gram_factor(K) if K is not None else np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    rows = np.column_stack([rows, np.full(len(rows), bias)])
    wide = rows.shape[1] > rows.shape[0]
    if wide:
        rows = interruptible(scipy.linalg.qr, rows.T, mode="economic")[1].T
    used = np.abs(rows).max(axis=0, initial=0.0) > 0
    return InputFactor(np.ascontiguousarray(rows[:, used]), None if wide or K is not None else used)
