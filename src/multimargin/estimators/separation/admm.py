"""Calibrated separation with whole matrices: alternating directions in the eigenbases of K and R."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._interrupt import interruptible
from multimargin.errors import InputError
from multimargin.estimators.contract import Status
from multimargin.estimators.interior_point import input_factor
from multimargin.estimators.monitor import Clock
from multimargin.estimators.separation.problem import Proposal, SeparationProblem, Start, losses, not_zero, spectrum
from multimargin.kernels import one_blas_thread

__all__ = ["solve_admm"]

MOST_BYTES = 4 * 2**30
CHECK_EVERY = 10
LONG_PRODUCT = 100_000_000  # multiply-adds
FARTHEST_SCORE = 10.0

Array = NDArray[np.float64]


def solve_admm(problem: SeparationProblem, limits: _core.Limits, start: Start | None) -> Proposal:
    """Solve by alternating directions; a pass costs :math:`t n (t + n)` for t rows and n atoms."""
    t, n = problem.n_rows, len(problem.atoms)
    needed = 8 * (8 * t * n + 3 * n * n + 3 * t * problem.rank)
    if needed > MOST_BYTES:
        msg = (
            f"solver='admm' works with whole matrices between {t} rows and {n} label sets, about {needed / 2**30:.1f} "
            f"GiB; at most {MOST_BYTES / 2**30:.0f} are allowed. Use solver='rows', or fewer rows."
        )
        raise InputError(msg)
    with one_blas_thread:  # products are small, and their bits must not depend on threads
        return _admm(problem, limits, start)


def _admm(problem: SeparationProblem, limits: _core.Limits, start: Start | None) -> Proposal:
    r"""Alternating direction method of multipliers.

    With all costs divided by their largest, c: maximise

    .. math:: \langle S, D \rangle - \tfrac c2 \operatorname{tr}(D' K D R)

    over feasible D, S being the signs of the atoms. D is split into a copy z which meets the quadratic, in closed form
    in the eigenbases, and a copy w which is feasible, a projection. The penalty rho keeps both residuals in step;
    changing it costs nothing in the eigenbasis.

    The dual value belongs to w, the primal one to the weights of z: with c K large, the weights of w would multiply
    the small difference of the copies, while those of z come out of the eigenbasis without cancellation.
    """
    clock = Clock(limits)
    signs = problem.signs()
    c = float(problem.cost.max())
    cost = problem.cost / c
    Vk, lk, lift = _input_spectrum(problem)
    Vr, lr = spectrum(problem.atoms.coupling())
    H = c * np.outer(lk, lr)
    rho = min(0.05 * float(np.sqrt(np.median(H) * H.max())), 1.0) if H.size else 1.0

    def hat(D: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(Vk.T @ D @ Vr)

    def back(D: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(Vk @ D @ Vr.T)

    long = signs.size * H.shape[0] + H.shape[0] * signs.shape[1] * H.shape[1] > LONG_PRODUCT

    def run(function: Any, D: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(interruptible(function, D) if long else function(D))

    linear = signs.astype(np.float64)
    w = np.zeros(signs.shape)
    mu = np.zeros_like(w)
    model = np.zeros(H.shape)
    if start is not None:
        w = start.D.toarray() / c
        _core.project_signed(w, signs, cost)
        model = run(hat, start.coef) / c
        mu = (linear - np.clip(run(back, H * model), -FARTHEST_SCORE, FARTHEST_SCORE)) / rho
    best = _Best(np.inf, -np.inf, w, model)

    def evaluate(z: NDArray[np.float64], w: NDArray[np.float64]) -> None:
        for model in (run(hat, w), z):
            best.offer_model(
                float(0.5 * np.sum(H * model**2) + np.sum(cost * losses(run(back, H * model), signs))), model
            )
        gain, quadratic = float(np.sum(linear * w)), float(np.sum(H * run(hat, w) ** 2))
        factor = min(1.0, gain / quadratic) if quadratic > 0 else 1.0  # the best multiple of w
        best.offer_dual(factor * gain - 0.5 * factor**2 * quadratic, factor, w)

    evaluate(model, w)
    while True:
        q = w - mu + linear / rho
        q_hat = run(hat, q)
        z = q - run(back, H / (H + rho) * q_hat)
        relaxed = 1.6 * z - 0.6 * w
        before = w
        w = relaxed + mu
        _core.project_signed(w, signs, cost)
        mu += relaxed - w

        clock.end_pass()
        check = clock.own_passes % CHECK_EVERY == 0 or clock.own_passes == 1 or clock.is_last
        if check:
            evaluate(rho / (H + rho) * q_hat, w)
        stopped = clock.tell(*((c * best.primal, c * best.dual) if check else (None, None)))
        if stopped and not check:
            evaluate(rho / (H + rho) * q_hat, w)
        converged = (check or stopped) and best.primal - best.dual <= limits.tol * best.primal
        if converged or stopped or clock.is_last:
            status = Status.converged if converged else Status.stopped if stopped else clock.reason
            model = c * best.model @ Vr.T
            values = (c * best.primal, c * best.dual)
            return Proposal(sp.csr_array(c * best.w), Vk @ model, lift(model), *values, clock.passes, status)
        if check:
            factor = _balance(z - w, w - before, w, max(_norm(mu), 0.01 * _norm(linear) / rho))
            rho *= factor
            mu /= factor


class _Best:
    """The best model, in the eigenbases, and the best dual variables seen."""

    def __init__(self, primal: float, dual: float, w: NDArray[np.float64], model: NDArray[np.float64]):
        self.primal, self.dual, self.w, self.model = primal, dual, w, model

    def offer_model(self, primal: float, model: NDArray[np.float64]) -> None:
        if primal < self.primal:
            self.primal, self.model = primal, model

    def offer_dual(self, dual: float, factor: float, w: NDArray[np.float64]) -> None:
        if dual > self.dual:
            self.dual, self.w = dual, factor * w


def _input_spectrum(problem: SeparationProblem) -> tuple[Array, Array, Callable[[Array], Array | None]]:
    """Eigenvectors (n_rows, rank) and eigenvalues of K that are not zero; weights of coefficients of eigenvectors."""
    if problem.K is None:
        factor = input_factor(problem.X, None, problem.bias)
        vectors, singular, right = interruptible(np.linalg.svd, factor.Z, full_matrices=False)
        vectors, values = not_zero(vectors, singular**2)
        return vectors, values, lambda W: factor.weights(right[: len(values)].T @ (np.sqrt(values)[:, None] * W))
    values, vectors = interruptible(np.linalg.eigh, problem.K + problem.bias**2)
    if values[0] < -1e-7 * np.abs(values).max():
        msg = (
            f"The kernel matrix must be positive semidefinite; its smallest eigenvalue is {values[0]:.3g}, its "
            f"largest {values[-1]:.3g}. Use a kernel that is positive semidefinite."
        )
        raise InputError(msg)
    return *not_zero(vectors, values), lambda W: None


def _balance(primal: Any, dual: Any, w: Any, mu: float) -> float:
    """Factor of the penalty that brings the relative residuals together; 1 while they are within a factor of 5."""
    ratio = (_norm(primal) / _norm(w)) / (_norm(dual) / mu)
    return float(np.clip(np.sqrt(ratio), 0.2, 5.0)) if ratio > 5 or ratio < 0.2 else 1.0


def _norm(v: NDArray[np.float64]) -> float:
    return max(float(np.linalg.norm(v)), 1e-30)
