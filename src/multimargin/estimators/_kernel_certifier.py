"""Certifier of kernel M3L: bounds in double precision, from the data, the model to return and dual variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators._base import Problem
from multimargin.estimators._certificate import Bounds
from multimargin.kernels import BLOCK_BYTES, one_blas_thread
from multimargin.priors._forms import PriorForms

__all__ = ["KernelCertifier"]

Array = NDArray[np.float64]
T = TypeVar("T")


class KernelCertifier:
    r"""Bounds of models with scores :math:`z(x) = \sum_j k(x_j, x)\, a_j + w` over some training rows j.

    With U = K A,

    .. math::

        P = \tfrac12 \operatorname{tr}(A R^+ U_S^\top) + \tfrac1{2 s^2} w^\top R^+ w
            + \sum_{il} c_{il} \max(0, m_{il} - y_{il} z_{il}), \qquad
        D = \sum_{il} m_{il} b_{il} - \tfrac12 \operatorname{tr}(\beta (K \beta R)^\top) - \tfrac{s^2}2 t^\top R\, t

    where t sums :math:`\beta` over the rows. :math:`\beta` is moved into its box first. Costs the kernel values between
    all rows and those in use, and a product with them.

    Parameters
    ----------
    problem : Problem
    values : callable
        ``values(rows, first)`` returns the kernel values between these rows and those in use from ``first`` on, in
        double.
    symmetric : bool
        Whether these are the same both ways to the last bit, so that half of them between the rows in use will do.
    support : ndarray of shape (n_support,)
        The rows in use.
    bias : float
        The square of s.
    targets : ndarray of shape (n_samples, n_labels) or None
        y m where the margins m are not 1.
    """

    def __init__(
        self,
        problem: Problem,
        values: Callable[[NDArray[np.int64], int], Array],
        symmetric: bool,
        support: NDArray[np.int64],
        bias: float,
        targets: Array | None,
    ) -> None:
        self.problem, self.values, self.symmetric = problem, values, symmetric
        self.support, self.bias, self.targets = support, bias, targets
        self.forms = None if problem.prior is None else PriorForms(problem.prior)

    def bounds(self, models: list[tuple[NDArray[Any], NDArray[Any]]], beta: NDArray[Any] | None) -> list[Bounds]:
        """Bounds of each model (coefficients of the rows in use, intercepts), with the value of ``beta`` of those rows.

        Models that are the same to the bit are computed once.
        """
        duals = None if beta is None else self._in_box(np.asarray(beta, dtype=np.float64))
        panels: list[Array] = []
        places: list[int] = []
        wanted = [coef for coef, _ in models]
        if duals is not None:
            wanted.append(duals if self.forms is None else self.forms.apply(duals))
        for panel in wanted:
            panel = np.asarray(panel, dtype=np.float64)
            same = [k for k, other in enumerate(panels) if np.array_equal(other, panel)]
            places.append(same[0] if same else len(panels))
            if not same:
                panels.append(panel)
        hinges, products = self._products(panels, [(places[k], w) for k, (_, w) in enumerate(models)])
        dual = None if duals is None else self._dual(duals, products[places[-1]])
        found = []
        for k, (_, intercept) in enumerate(models):
            norm = self._norm(panels[places[k]], products[places[k]])
            w = np.asarray(intercept, dtype=np.float64)[None]
            shift = self._norm(w, w) / self.bias if self.bias > 0 else 0.0
            found.append(Bounds(0.5 * (norm + shift) + hinges[k], dual))
        return found

    def _norm(self, A: Array, U: Array) -> float:
        return float(np.vdot(A, U)) if self.forms is None else self.forms.inverse_product(A, U)

    def _dual(self, beta: Array, products: Array) -> float:
        target = self._cells(self.support)[0]
        t = beta.sum(axis=0)
        shift = float(t @ t) if self.forms is None else self.forms.square(t[None])
        return float(np.vdot(target, beta)) - 0.5 * (float(np.vdot(beta, products)) + self.bias * shift)

    def _in_box(self, beta: Array) -> Array:
        _, sign, cost = self._cells(self.support)
        return np.clip(beta, np.minimum(sign * cost, 0.0), np.maximum(sign * cost, 0.0))

    def _cells(self, rows: Any) -> tuple[Array, Array, Array]:
        """Target y m, sign and cost of the cells of some rows."""
        labels, costs = self.problem.labels, self.problem.exact_costs
        positive = labels.positives[rows].toarray().astype(bool)
        sign = np.where(positive, 1.0, -1.0)
        cost = costs.row[rows][:, None] * np.where(positive, costs.positive, costs.negative)
        if costs.cells is not None:
            cost *= costs.cells[rows]
        if labels.missing is not None:
            cost[labels.missing[rows].toarray().astype(bool)] = 0.0
        return sign if self.targets is None else self.targets[rows], sign, cost

    def _products(self, panels: list[Array], models: list[tuple[int, NDArray[Any]]]) -> tuple[list[float], list[Array]]:
        """Hinge losses of the models (panel, intercepts), and K times each panel at the rows in use."""
        width = self.problem.labels.n_labels
        stacked = np.ascontiguousarray(np.hstack(panels))
        others = np.setdiff1d(np.arange(self.problem.labels.n_samples), self.support)
        at_support = np.zeros_like(stacked)
        hinges = np.zeros(len(models))

        def add_losses(rows: NDArray[np.int64], products: Array) -> None:
            target, sign, cost = self._cells(rows)
            for k, (panel, intercept) in enumerate(models):
                z = products[:, panel * width : (panel + 1) * width] + np.asarray(intercept, dtype=np.float64)
                hinges[k] += float(np.vdot(cost, np.maximum(sign * (target - z), 0.0)))

        def own(block: slice) -> tuple[Array, Array]:
            """Products of a block of the rows in use with those from it on, and what it adds to the ones after it."""
            first = block.start if self.symmetric else 0
            K = self.values(self.support[block], first)
            size = block.stop - block.start
            after = K[:, size:].T @ stacked[block] if self.symmetric else stacked[:0]
            return K @ stacked[first:], after

        for block, (products, after) in self._in_order(own, len(self.support)):
            at_support[block] += products
            if self.symmetric:
                at_support[block.stop :] += after
        for block, products in self._in_order(lambda block: self.values(others[block], 0) @ stacked, len(others)):
            add_losses(others[block], products)
        for rows in _blocks(len(self.support), BLOCK_BYTES // (8 * width)):
            add_losses(self.support[rows], at_support[rows])
        return hinges.tolist(), np.hsplit(at_support, len(panels))

    def _in_order(self, task: Callable[[slice], T], n: int) -> Iterator[tuple[slice, T]]:
        """Results for blocks of rows, computed on all threads a few at a time, one after the other."""
        blocks = _blocks(n, BLOCK_BYTES // (8 * max(len(self.support), 1)))
        jobs = self.problem.n_jobs
        with one_blas_thread, ThreadPoolExecutor(jobs) as pool:
            for start in range(0, len(blocks), jobs):
                some = blocks[start : start + jobs]
                yield from zip(some, map(task, some) if jobs == 1 else pool.map(task, some), strict=True)


def _blocks(n: int, size: int) -> list[slice]:
    size = min(max(size, 16), 256)
    return [slice(a, min(a + size, n)) for a in range(0, n, size)]
