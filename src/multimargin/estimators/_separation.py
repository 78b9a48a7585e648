r"""Solvers of calibrated separation over label-set atoms (problem and notation: core/solvers/separation.hpp).

Two methods reach the same optimum. ``rows`` (native) visits row after row, with growing lists of atoms; it takes any
number of rows. ``admm`` (here) works with whole matrices in the eigenbases of K and R; it minds bad scaling less, but
every pass costs :math:`t n (t + n)` for t rows and n atoms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot
from threadpoolctl import threadpool_limits

from multimargin import _core
from multimargin._interrupt import interruptible
from multimargin.errors import InputError
from multimargin.estimators._base import Problem, Solution, native_rows
from multimargin.grams import gram_factor
from multimargin.label_kernels import LabelAtoms, pack_sets

__all__ = ["Limits", "SeparationProblem", "known_labels", "solve_separation"]

ADMM_CELLS = 1_000_000
ADMM_ROWS = 2000
ROW_PASSES = 2000
MOST_WEIGHTS = 64_000_000  # of a linear model, before its Gram matrix is used instead
MOST_ADMM_BYTES = 4 * 2**30
CHECK_EVERY = 10
LONG_PRODUCT = 100_000_000  # multiply-adds

Report = Callable[[int, float, float | None, float | None], bool]


@dataclass(frozen=True)
class Limits:
    """When to stop, and how."""

    tol: float
    max_iter: int
    time_limit: float | None
    n_jobs: int
    seed: int

    @property
    def seconds(self) -> float:
        """The time limit as a number."""
        return np.inf if self.time_limit is None else float(self.time_limit)


@dataclass(frozen=True)
class SeparationProblem:
    """Rows, their label sets and costs.

    Attributes
    ----------
    X : array or csr matrix of shape (n_samples, n_features), or None
        Inputs of a linear model.
    K : ndarray of shape (n_samples, n_samples) or None
        Gram matrix of a kernel model, constant feature included.
    bias : float
        Constant feature of a linear model.
    positives, negatives : csr_array of shape (n_samples, n_labels)
    cost : ndarray of shape (n_samples,)
    atoms : LabelAtoms
    """

    X: Any
    K: NDArray[np.float64] | None
    bias: float
    positives: sp.csr_array
    negatives: sp.csr_array
    cost: NDArray[np.float64]
    atoms: LabelAtoms

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.positives.shape[0])

    def spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Eigenvectors (n_samples, rank) and eigenvalues of K that are not zero."""
        if self.K is not None:
            values, vectors = interruptible(np.linalg.eigh, self.K)
            if values[0] < -1e-7 * np.abs(values).max():
                msg = (
                    f"The kernel matrix must be positive semidefinite; its smallest eigenvalue is {values[0]:.3g}, its "
                    f"largest {values[-1]:.3g}. Use a kernel that is positive semidefinite."
                )
                raise InputError(msg)
        else:
            X = self.X.toarray() if sp.issparse(self.X) else self.X
            X = np.column_stack([X.astype(np.float64), np.full(len(X), self.bias)])
            vectors, singular, _ = interruptible(np.linalg.svd, X, full_matrices=False)
            values = singular**2
        return _nonzero(vectors, values)

    def signs(self) -> NDArray[np.int8]:
        """+1 where an atom lies within the labels of a row, -1 where within those it lacks, 0 elsewhere."""
        sets = self.atoms.sets
        size = np.diff(sets.indptr)
        within = (self.positives.astype(np.float64) @ sets.T).toarray() == size
        without = (self.negatives.astype(np.float64) @ sets.T).toarray() == size
        return np.ascontiguousarray(within.astype(np.int8) - without.astype(np.int8))


def known_labels(problem: Problem, columns: NDArray[np.intp]) -> tuple[sp.csr_array, sp.csr_array]:
    """Labels which rows have, and labels they are known to lack, in these columns."""
    positives = problem.labels.positives[:, columns]
    missing = problem.labels.missing
    negatives = ~positives.toarray().astype(bool)
    if missing is not None:
        negatives &= ~missing[:, columns].toarray().astype(bool)
    return sp.csr_array(positives), sp.csr_array(negatives)


def solve_separation(
    problem: SeparationProblem, solver: str, limits: Limits, monitor: Report, start: sp.csr_array | None = None
) -> tuple[sp.csr_array, Solution]:
    """Dual variables D (n_samples, n_atoms) at which the duality gap is small, and their certificate.

    ``"auto"`` begins with ``"rows"``; where that has not converged after many passes, as on badly scaled inputs, and
    the matrices are small, ``"admm"`` goes on from there.
    """
    if solver == "admm":
        return _solve_admm(problem, limits, monitor, start)
    small = problem.n_rows <= ADMM_ROWS and problem.n_rows * len(problem.atoms) <= ADMM_CELLS
    if solver == "rows" or not small or limits.max_iter <= ROW_PASSES:
        return _solve_rows(problem, limits, monitor, start)
    began = time.monotonic()
    D, first = _solve_rows(problem, replace(limits, max_iter=ROW_PASSES), monitor, start)
    if first.status != "max_iter":
        return D, first
    spent = time.monotonic() - began
    rest = replace(limits, max_iter=limits.max_iter - ROW_PASSES)
    if limits.time_limit is not None:
        rest = replace(rest, time_limit=max(limits.time_limit - spent, 0.0))

    def later(pass_: int, seconds: float, primal: float | None, dual: float | None) -> bool:
        return monitor(ROW_PASSES + pass_, spent + seconds, primal, dual)

    D, second = _solve_admm(problem, rest, later, D)
    return D, replace(second, passes=ROW_PASSES + second.passes)


def _solve_rows(
    problem: SeparationProblem, limits: Limits, monitor: Report, start: sp.csr_array | None
) -> tuple[sp.csr_array, Solution]:
    features = problem.atoms.features()
    K = problem.K
    if K is None and _n_weights(features, problem) > MOST_WEIGHTS and problem.n_rows < problem.X.shape[1]:
        K = np.asarray(safe_sparse_dot(problem.X, problem.X.T, dense_output=True), dtype=np.float64) + problem.bias**2
    inputs = problem.X if K is None else gram_factor(K)
    result = _core.fit_separation(
        rows=native_rows(inputs),
        sets=problem.atoms.bits(),
        n_labels=problem.atoms.n_labels,
        features=features,
        positive=pack_sets(problem.positives),
        negative=pack_sets(problem.negatives),
        cost=problem.cost,
        bias=problem.bias if K is None else 0.0,
        start=None
        if start is None
        else (start.indptr.astype(np.int64), start.indices.astype(np.int32), start.data.astype(np.float64)),
        tol=limits.tol,
        max_iter=limits.max_iter,
        threads=limits.n_jobs,
        seed=limits.seed,
        report=monitor,
        time_limit=limits.seconds,
    )
    offsets, atoms, values = result["D"]
    D = sp.csr_array((values, atoms, offsets), shape=(problem.n_rows, len(problem.atoms)))
    D.sort_indices()
    return D, Solution(result["primal"], result["dual"], result["passes"], result["status"])


def _n_weights(features: Any, problem: SeparationProblem) -> int:
    """Size of the state of the native solver, about."""
    if features is None:
        rows = problem.atoms.n_labels
    else:
        rows = 3 * problem.atoms.n_labels + features[5] if isinstance(features, tuple) else features.shape[1]
    return int(rows) * (int(problem.X.shape[1]) + 1)


def _solve_admm(
    problem: SeparationProblem, limits: Limits, monitor: Report, start: sp.csr_array | None
) -> tuple[sp.csr_array, Solution]:
    t, n = problem.n_rows, len(problem.atoms)
    needed = 8 * (8 * t * n + 3 * n * n + 3 * t * (t if problem.K is not None else min(t, problem.X.shape[1] + 1)))
    if needed > MOST_ADMM_BYTES:
        msg = (
            f"solver='admm' works with whole matrices between {t} rows and {n} label sets, about {needed / 2**30:.1f} "
            f"GiB; at most {MOST_ADMM_BYTES / 2**30:.0f} are allowed. Use solver='rows', or fewer rows."
        )
        raise InputError(msg)
    with threadpool_limits(1, user_api="blas"):  # products are small, and their bits must not depend on threads
        return _admm(problem, limits, monitor, start)


def _admm(
    problem: SeparationProblem, limits: Limits, monitor: Report, start: sp.csr_array | None
) -> tuple[sp.csr_array, Solution]:
    r"""Alternating direction method of multipliers.

    With all costs divided by their largest, c: maximise

    .. math:: \langle S, D \rangle - \tfrac c2 \operatorname{tr}(D' K D R)

    over feasible D, S being the signs of the atoms. D is split into a copy which meets the quadratic, in closed form in
    the eigenbases, and one which is feasible, a projection. The penalty rho keeps both residuals in step; changing it
    costs nothing in the eigenbasis. The certificate belongs to the feasible copy.
    """
    began = time.monotonic()
    signs = problem.signs()
    c = float(problem.cost.max())
    cost = problem.cost / c
    Vk, lk = problem.spectrum()
    Vr, lr = _nonzero(*interruptible(np.linalg.eigh, problem.atoms.coupling())[::-1])
    H = c * np.outer(lk, lr)
    rho = 0.05 * float(np.sqrt(np.median(H) * H.max())) if H.size else 1.0

    def in_eigenbases(D: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(Vk @ (factors * (Vk.T @ D @ Vr)) @ Vr.T)

    def product(D: NDArray[np.float64], factors: NDArray[np.float64] = H) -> NDArray[np.float64]:
        long = D.size * H.shape[0] + H.shape[0] * D.shape[1] * H.shape[1] > LONG_PRODUCT
        return interruptible(in_eigenbases, D, factors) if long else in_eigenbases(D, factors)

    def certificate(D: NDArray[np.float64]) -> tuple[float, float]:
        U = product(D)
        g = signs * (1.0 - signs * U)  # derivative with respect to D
        best = (
            np.maximum(0.0, np.where(signs > 0, g, 0.0).max(axis=1)),
            np.maximum(0.0, np.where(signs < 0, -g, 0.0).max(axis=1)),
        )
        gap = float(cost @ (best[0] + best[1]) - np.sum(D * g))
        dual = float(np.sum(signs * D) - 0.5 * np.sum(D * U))
        return c * (dual + max(gap, 0.0)), c * dual

    w = np.zeros(signs.shape)
    if start is not None:
        w = start.toarray() / c
        _core.project_signed(w, signs, cost)
    linear = signs.astype(np.float64)
    mu = np.zeros_like(w) if start is None else (linear - product(w)) / rho
    for pass_ in range(1, limits.max_iter + 1):
        q = w - mu + linear / rho
        z = q - product(q, H / (H + rho))
        relaxed = 1.6 * z - 0.6 * w
        before = w
        w = relaxed + mu
        _core.project_signed(w, signs, cost)
        mu += relaxed - w

        elapsed = time.monotonic() - began
        late = elapsed > limits.seconds
        check = pass_ % CHECK_EVERY == 0 or pass_ == 1 or pass_ == limits.max_iter or late
        primal, dual = certificate(w) if check else (None, None)
        stopped = monitor(pass_, elapsed, primal, dual)
        if stopped and (primal is None or dual is None):
            primal, dual = certificate(w)
        if primal is not None and dual is not None:
            converged = primal - dual <= limits.tol * primal
            if converged or stopped or late or pass_ == limits.max_iter:
                status = "converged" if converged else "stopped" if stopped else "time_limit" if late else "max_iter"
                return sp.csr_array(c * w), Solution(primal, dual, pass_, status)
            factor = _balance(z - w, w - before, w, max(_norm(mu), 0.01 * _norm(linear) / rho))
            rho *= factor
            mu /= factor
    raise AssertionError


def _balance(primal: Any, dual: Any, w: Any, mu: float) -> float:
    """Factor of the penalty that brings the relative residuals together; 1 while they are within a factor of 5."""
    ratio = (_norm(primal) / _norm(w)) / (_norm(dual) / mu)
    return float(np.clip(np.sqrt(ratio), 0.2, 5.0)) if ratio > 5 or ratio < 0.2 else 1.0


def _norm(v: NDArray[np.float64]) -> float:
    return max(float(np.linalg.norm(v)), 1e-30)


def _nonzero(vectors: Any, values: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    keep = values > 1e-14 * max(float(values.max(initial=0.0)), 0.0) * len(values)
    return np.ascontiguousarray(vectors[:, keep]), values[keep]
