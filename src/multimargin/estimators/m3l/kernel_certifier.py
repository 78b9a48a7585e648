"""Certifier of kernel M3L: bounds in double precision, from the data, the model to return and dual variables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import Problem
from multimargin.kernels import BLOCK_BYTES, one_blas_thread
from multimargin.priors._forms import PriorForms
from multimargin.weights import CellMargins

__all__ = ["KernelCertifier"]

Array = NDArray[np.float64]
T = TypeVar("T")

BLOCK_ROWS = 128
SPARSE_SHARE = 0.3  # of coefficients that are not 0; BLAS is faster from there on


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
        ``values(rows, first, room)`` returns the kernel values between these rows and those in use from ``first`` on,
        in double; it may write them into ``room``, which has their shape.
    symmetric : bool
        Whether these are the same both ways to the last bit, so that half of them between the rows in use will do.
    support : ndarray of shape (n_support,)
        The rows in use.
    bias : float
        The square of s.
    margins : CellMargins
    """

    def __init__(
        self,
        problem: Problem,
        values: Callable[[NDArray[np.int64], int, Array], Array],
        symmetric: bool,
        support: NDArray[np.int64],
        bias: float,
        margins: CellMargins,
    ) -> None:
        self.problem, self.values, self.symmetric = problem, values, symmetric
        self.support, self.bias, self.margins = support, bias, margins
        self.forms = None if problem.prior is None else PriorForms(problem.prior)

    def bounds(self, coef: NDArray[Any], intercept: NDArray[Any], beta: NDArray[Any] | None) -> Bounds:
        """Bounds of a model (coefficients of the rows in use, intercepts), with the value of ``beta`` of those rows."""
        with one_blas_thread:  # threads of BLAS stay awake, and in the way of others, for a while after each sum
            return self._bounds(np.asarray(coef, dtype=np.float64), np.asarray(intercept, dtype=np.float64), beta)

    def _bounds(self, A: Array, w: Array, beta: NDArray[Any] | None) -> Bounds:
        duals = weights = None
        linear = 0.0
        if beta is not None:
            duals, linear = self._in_box(beta)
            weights = duals if self.forms is None else self.forms.apply(duals)
        alike = weights is not None and np.array_equal(weights, A)
        hinge, products, square = self._products(A, w, None if alike else duals, weights)
        norm = self._norm(A, products)
        if duals is not None and alike:
            square = norm if self.forms is None else float(np.vdot(duals, products))
        shift = self._norm(w[None], w[None]) / self.bias if self.bias > 0 else 0.0
        dual = None if duals is None else linear - 0.5 * (square + self.bias * self._shift(duals))
        return Bounds(0.5 * (norm + shift) + hinge, dual)

    def _norm(self, A: Array, U: Array) -> float:
        return float(np.vdot(A, U)) if self.forms is None else self.forms.inverse_product(A, U)

    def _shift(self, beta: Array) -> float:
        t = beta.sum(axis=0)
        return float(t @ t) if self.forms is None else self.forms.square(t[None])

    def _in_box(self, beta: NDArray[Any]) -> tuple[Array, float]:
        """Move dual variables of the rows in use into their box; also the sum of m b."""
        out = np.empty(beta.shape)

        def move(block: slice) -> float:
            target, sign, cost = self._cells(self.support[block])
            bound = np.multiply(sign, cost, out=sign)
            np.clip(beta[block], np.minimum(bound, 0.0), np.maximum(bound, 0.0, out=cost), out=out[block])
            return float(np.vdot(target, out[block]))

        return out, sum(part for _, part in self._in_order(move, len(out)))

    def _cells(self, rows: Any) -> tuple[Array, Array, Array]:
        """Target y m, sign and cost of the cells of some rows."""
        labels, costs = self.problem.labels, self.problem.costs
        positive = labels.positives[rows].toarray().astype(bool)
        sign = np.where(positive, 1.0, -1.0)
        cost = costs.row[rows][:, None] * np.where(positive, costs.positive, costs.negative)
        if costs.cells is not None:
            cost *= costs.cells[rows]
        if labels.missing is not None:
            cost[labels.missing[rows].toarray().astype(bool)] = 0.0
        return sign * self.margins.of(rows, positive), sign, cost

    def _products(
        self, A: Array, intercept: Array, duals: Array | None, weights: Array | None
    ) -> tuple[float, Array, float]:
        """Hinge loss of the model, K A at the rows in use, and tr(beta (K beta R)') if dual variables are given.

        For the latter, a symmetric K is used above the diagonal only.
        """
        n_used = len(self.support)
        others = np.setdiff1d(np.flatnonzero(self.problem.costs.row > 0), self.support)
        panel = _panel(A)
        own = None if duals is None else _panel(duals)
        at_support = panel.zeros(n_used)
        hinge = square = 0.0
        rooms = _Rooms(self._block_size() * n_used)

        def loss(rows: NDArray[np.int64], products: Array) -> float:
            target, sign, cost = self._cells(rows)
            return float(np.vdot(cost, np.maximum(sign * (target - products - intercept), 0.0)))

        def among_used(block: slice) -> tuple[Array, Array, Array, float]:
            first, size = block.start if self.symmetric else 0, block.stop - block.start
            room = rooms.take()
            K = self.values(self.support[block], first, _shaped(room, size, n_used - first))
            part = 0.0
            if own is not None and weights is not None:
                product = own.times(K, slice(0, size), first)
                product += (2.0 if self.symmetric else 1.0) * own.times(K, slice(size, K.shape[1]), first)
                part = float(np.vdot(weights[block], product))
            return room, K, panel.times(K, slice(0, K.shape[1]), first), part

        def of_others(block: slice) -> float:
            rows, room = others[block], rooms.take()
            products = panel.times(self.values(rows, 0, _shaped(room, len(rows), n_used)), slice(0, n_used), 0)
            rooms.give_back(room)
            return loss(rows, products)

        for block, (room, K, products, part) in self._in_order(among_used, n_used):
            at_support[block] += products
            if self.symmetric:
                panel.add_transposed(K, block, at_support)
            rooms.give_back(room)
            square += part
        for _, lost in self._in_order(of_others, len(others)):
            hinge += lost
        for _, lost in self._in_order(lambda block: loss(self.support[block], at_support[block]), n_used):
            hinge += lost
        return hinge, at_support, square

    def _block_size(self) -> int:
        """Rows of a block of kernel values."""
        return min(max(BLOCK_BYTES // (8 * max(len(self.support), 1)), 16), BLOCK_ROWS)

    def _in_order(self, task: Callable[[slice], T], n: int) -> Iterator[tuple[slice, T]]:
        """Results for blocks of rows, computed on all threads a few ahead, one after the other."""
        blocks, jobs = _blocks(n, self._block_size()), self.problem.n_jobs
        with one_blas_thread:
            if jobs == 1:
                yield from ((block, task(block)) for block in blocks)
                return
            with ThreadPoolExecutor(jobs) as pool:
                ahead: deque[tuple[slice, Future[T]]] = deque()
                for block in blocks:
                    ahead.append((block, pool.submit(task, block)))
                    if len(ahead) > 2 * jobs:
                        done, result = ahead.popleft()
                        yield done, result.result()
                for done, result in ahead:
                    yield done, result.result()


class _DensePanel:
    """Products of blocks of kernel values with coefficients (n_support, n_labels), by BLAS."""

    def __init__(self, coef: Array) -> None:
        self.coef = coef

    def zeros(self, n: int) -> Array:
        return np.zeros((n, self.coef.shape[1]))

    def times(self, K: Array, columns: slice, first: int) -> Array:
        """Multiply columns of K with their coefficients; the first column of K belongs to row ``first`` of them."""
        return np.asarray(K[:, columns] @ self.coef[first + columns.start : first + columns.stop])

    def add_transposed(self, K: Array, block: slice, products: Array) -> None:
        """Add what the rows of a block contribute to the rows after it."""
        products[block.stop :] += K[:, block.stop - block.start :].T @ self.coef[block]


class _SparsePanel(_DensePanel):
    """The same where most coefficients are 0. Products have the order of Fortran."""

    def __init__(self, coef: Array) -> None:
        super().__init__(coef)
        by_label = sp.csc_array(coef)
        self._native = _core.kernel_coefficients(
            by_label.indptr.astype(np.int64), by_label.indices.astype(np.int32), by_label.data, len(coef)
        )

    def zeros(self, n: int) -> Array:
        return np.zeros((self.coef.shape[1], n)).T

    def times(self, K: Array, columns: slice, first: int) -> Array:
        products = self.zeros(len(K))
        self._native.add_to_rows(K, columns.start, columns.stop, first + columns.start, products.T)
        return products

    def add_transposed(self, K: Array, block: slice, products: Array) -> None:
        size = block.stop - block.start
        self._native.add_to_columns(K, size, K.shape[1], block.start, products.T, block.stop)


def _panel(coef: Array) -> _DensePanel:
    return _SparsePanel(coef) if np.count_nonzero(coef) < SPARSE_SHARE * coef.size else _DensePanel(coef)


class _Rooms:
    """Memory for blocks of kernel values, used again: to get fresh pages takes nearly as long as to fill them."""

    def __init__(self, size: int) -> None:
        self._size, self._free = size, deque[Array]()

    def take(self) -> Array:
        try:
            return self._free.pop()
        except IndexError:
            return np.empty(self._size)

    def give_back(self, room: Array) -> None:
        self._free.append(room)


def _shaped(room: Array, rows: int, columns: int) -> Array:
    return room[: rows * columns].reshape(rows, columns)


def _blocks(n: int, size: int) -> list[slice]:
    return [slice(a, min(a + size, n)) for a in range(0, n, size)]
