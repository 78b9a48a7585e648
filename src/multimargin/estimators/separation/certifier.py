r"""Certifier of calibrated separation: the objective of a model and the value of dual variables, from the data alone.

Problem and notation: core/separation/block_ascent.hpp. Everything is computed in double precision from the inputs (or
their Gram matrix), the labels and the costs; nothing of a solver is used.

A model keeps the scores of its labels and of the reference, and coefficients B of the larger label sets. Vectors of
single labels are at right angles to each other, since they share nothing. With :math:`Q_{jk} = \psi_j^\top \psi_k` and
:math:`G_l` the score of label l divided by :math:`a_l`, the W that has exactly these label scores, and off the span of
the single labels the part that B gives, has

.. math::

    |W|^2 = \sum_l |G_l|^2 / Q_{ll} + \operatorname{tr}(B' K B\, Q^\perp), \qquad
    \psi_j^\top W x = \sum_l \frac{Q_{jl}}{Q_{ll}} G_l(x) + \sum_i k(x, x_i)\, (B Q^\perp)_{ij}

where :math:`Q^\perp` is Q less its part in that span. Calibrated separation has no larger sets: there this is the sum
of the squared weights of the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.estimators.separation.problem import SeparationProblem
from multimargin.label_kernels import FunctionKernel, Polynomial

__all__ = ["Functions", "ModelPoint", "Objective", "SeparationCertifier"]

BLOCK_BYTES = 64 * 2**20
CACHED = 2**20  # bytes of numbers that are looked at several times in turn
MANY_ATOMS, MOST_PAIRS = 2000, 10**7
"""The matrix between fewer atoms is soon made; more label pairs would take more room than it."""


@dataclass(frozen=True)
class Functions:
    """Functions of the input.

    Attributes
    ----------
    coef : ndarray of shape (n_features or n_rows, n_functions)
        Weights of the features, or coefficients of the training rows.
    constant : ndarray of shape (n_functions,)
    """

    coef: NDArray[np.float64]
    constant: NDArray[np.float64]


@dataclass(frozen=True)
class ModelPoint:
    """A model as the certifier sees it.

    Attributes
    ----------
    labels : Functions
        Scores of the labels that take part, divided by their ``a``.
    reference : Functions
        The reference score.
    sets : Functions or csr_array of shape (n_rows, n_atoms - n_labels)
        Those the larger label sets add, or coefficients of the rows in them.
    """

    labels: Functions
    reference: Functions
    sets: Functions | sp.csr_array


@dataclass(frozen=True)
class Objective:
    """Squared norm of a model, and per row the worst margins of what it has (``above``) and of what it lacks."""

    norm: float
    above: NDArray[np.float64]
    below: NDArray[np.float64]
    cost: NDArray[np.float64]

    def of_multiple(self, factor: float) -> float:
        """Objective of the model times a factor >= 0; rows without such labels have infinite margins and no loss."""
        with np.errstate(invalid="ignore"):
            losses = [np.maximum(0.0, 1.0 - factor * side) for side in (self.above, self.below)]
        sides = (np.where(np.isposinf(m), 0.0, loss) for m, loss in zip((self.above, self.below), losses, strict=True))
        paid = sum(float(cost @ loss) for cost, loss in zip(self.cost.T, sides, strict=True))
        return 0.5 * factor**2 * self.norm + paid

    def best_multiple(self) -> float:
        """Return the factor in [0, 1] with the least objective, which is convex in it."""
        low, high = 0.0, 1.0
        for _ in range(200):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            low, high = (a, high) if self.of_multiple(a) > self.of_multiple(b) else (low, b)
        return high


class SeparationCertifier:
    """Objective of models and value of dual variables of one problem."""

    def __init__(self, problem: SeparationProblem):
        self.problem = problem
        self.n_labels = problem.atoms.n_labels
        self._positive = problem.positives.toarray().astype(bool)
        self._negative = problem.negatives.toarray().astype(bool)
        if problem.K is None:
            self._X = problem.X.astype(np.float64, copy=False)
        else:
            self._X = problem.K  # coefficients of rows, and its own transpose

    def objective(self, point: ModelPoint) -> Objective:
        """Objective of a model; the norm is the one of W and the reference together."""
        reference = self._values(point.reference)
        labels = self._values(point.labels)
        above, below = self._worst(labels - reference, self._positive, self._negative)
        norms = self._inner(point.labels, point.labels)
        norm = float(np.sum(self._inner(point.reference, point.reference)) + np.sum(norms / self._unit_norms))
        terms = self._terms(point.sets, self.n_labels)
        for block in self._blocks_of(np.arange(self.n_labels, len(self.problem.atoms))):
            part = terms.mixed(block, orthogonal=True)
            share = self._share_of_labels(block).T
            decisions = Functions(
                part.coef + point.labels.coef @ share - point.reference.coef,
                part.constant + point.labels.constant @ share - point.reference.constant,
            )
            self._lower(above, below, decisions, block)
            norm += self._products(terms, part, block)
        return Objective(norm, above, below, self.problem.cost)

    def dual(self, D: sp.csr_array) -> float:
        """Value of dual variables (n_rows, n_atoms), after they were moved into their feasible set."""
        linear, quadratic = self._dual_parts(self.feasible(D))
        return linear - 0.5 * quadratic

    def best_multiple(self, D: sp.csr_array) -> sp.csr_array:
        """Return feasible dual variables: of all multiples of these, between none and themselves, the best."""
        D = self.feasible(D)
        linear, quadratic = self._dual_parts(D)
        return D * (linear / quadratic) if quadratic > linear else D

    def _dual_parts(self, D: sp.csr_array) -> tuple[float, float]:
        total = self._combined(np.asarray(D.sum(axis=1)).reshape(-1, 1))
        quadratic = float(np.sum(self._inner(total, total)))
        terms = self._terms(D, 0)
        for block in self._blocks_of(terms.atoms):
            quadratic += self._products(terms, terms.mixed(block), block)
        return float(np.abs(D.data).sum()), quadratic + self._rounding(D, terms.atoms)

    def _rounding(self, D: sp.csr_array, used: NDArray[np.intp]) -> float:
        """Return how far rounding may have lowered D'KDR: with a Gram matrix, large numbers may cancel in it."""
        if self.problem.K is None:
            return 0.0
        sizes = np.sqrt(np.maximum(self.problem.squares(), 0.0)) @ abs(D)[:, used]  # |K_ij|^2 <= K_ii K_jj
        products = sum(
            sizes[block] @ (sizes @ self._gram(used, used[block])) for block in self._blocks_of(np.arange(len(used)))
        )
        return float(np.finfo(np.float64).eps * (products + sizes.sum() ** 2))

    def _products(self, terms: _Terms, part: Functions, block: NDArray[np.intp]) -> float:
        """Sum of the inner products of the terms of a block of atoms with these functions of them."""
        _, mine, there = np.intersect1d(terms.atoms, block, assume_unique=True, return_indices=True)
        return float(np.sum(self._inner(terms.some(mine), Functions(part.coef[:, there], part.constant[there]))))

    def _terms(self, sets: Functions | sp.csr_array, first: int) -> _Terms:
        """Functions with which atoms from ``first`` on enter W; as coefficients of rows where that takes less room."""
        if isinstance(sets, Functions):
            return _Terms(first + np.arange(len(sets.constant)), sets, None, self)
        columns = sp.csc_array(sets)
        used = np.flatnonzero(np.diff(columns.indptr))
        rows = sp.csr_array(columns[:, used])
        small = self.problem.K is None and 8 * self._X.shape[1] * len(used) <= 8 * BLOCK_BYTES
        return _Terms(first + used, self._combined(rows) if small else None, rows, self)

    def feasible(self, D: sp.csr_array) -> sp.csr_array:
        """Dual variables without those of sets that have no part in their row, and no side's sum above its cost."""
        D = sp.csr_array(D, dtype=np.float64, copy=True)
        D.sum_duplicates()
        row = np.repeat(np.arange(D.shape[0]), np.diff(D.indptr))
        for side, labels in ((1.0, self._positive), (-1.0, self._negative)):
            cells = np.flatnonzero(side * D.data > 0)
            D.data[cells[~self._within(row[cells], D.indices[cells], labels)]] = 0.0
        for side, cost in zip((1.0, -1.0), self.problem.cost.T, strict=True):
            weight = np.maximum(side * D.data, 0.0)
            sums = np.bincount(row, weights=weight, minlength=D.shape[0])
            over = sums > cost
            factor = np.where(over, cost / np.where(over, sums, 1.0), 1.0)
            D.data = np.where(side * D.data > 0, D.data * factor[row], D.data)
        return D

    def _values(self, functions: Functions) -> NDArray[np.float64]:
        return np.asarray(self._X @ functions.coef + functions.constant)

    def _inner(self, f: Functions, g: Functions) -> NDArray[np.float64]:
        """Inner products of functions and functions, one by one; the constant is a feature of value ``bias``."""
        coef = g.coef if self.problem.K is None else self._X @ g.coef
        products = np.einsum("ij,ij->j", f.coef, coef)
        bias = self.problem.bias
        return np.asarray(products + (f.constant / bias) * (g.constant / bias) if bias else products)

    def _combined(self, coefficients: Any) -> Functions:
        """Functions that are sums of rows, with dense or sparse coefficients."""
        constant = self.problem.bias**2 * np.asarray(coefficients.sum(axis=0)).ravel()
        if self.problem.K is None:
            coefficients = (coefficients.T @ self._X).T
        return Functions(coefficients.toarray() if sp.issparse(coefficients) else coefficients, constant)

    def _worst(self, scores: NDArray[np.float64], within: Any, without: Any) -> tuple[Any, Any]:
        above = np.where(within, scores, np.inf).min(axis=1, initial=np.inf)
        below = np.where(without, -scores, np.inf).min(axis=1, initial=np.inf)
        return above, below

    def _lower(self, above: Any, below: Any, decisions: Functions, block: NDArray[np.intp]) -> None:
        """Take the worst margins of the sets of a block into those so far; as many rows at a time as caches hold."""
        sets = self._sets[block].astype(np.float32)  # counts of labels are exact in it
        size = sets.sum(axis=1)
        small = np.flatnonzero(size <= self._positive.sum(axis=1).max(initial=0))  # others lie within no row's labels
        at_once = max(16, CACHED // (8 * len(block)))
        for first in range(0, len(above), at_once):
            rows = slice(first, first + at_once)
            scores = np.asarray(self._X[rows] @ decisions.coef + decisions.constant)
            within = self._positive[rows].astype(np.float32) @ sets[small].T == size[small]
            without = self._negative[rows].astype(np.float32) @ sets.T == size
            more = np.where(within, scores[:, small], np.inf).min(axis=1, initial=np.inf)
            np.minimum(above[rows], more, out=above[rows])
            more = -np.where(without, scores, -np.inf).max(axis=1, initial=-np.inf)
            np.minimum(below[rows], more, out=below[rows])

    def _within(self, rows: NDArray[np.intp], atoms: NDArray[np.intp], labels: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether each of these atoms lies within these labels of its row."""
        single = atoms < self.n_labels
        found = np.zeros(len(rows), dtype=bool)
        found[single] = labels[rows[single], atoms[single]]
        larger = np.flatnonzero(~single)
        if len(larger):
            lacked, sets = np.packbits(~labels, axis=1), np.packbits(self._sets > 0, axis=1)
            at_once = max(1, BLOCK_BYTES // lacked.shape[1])
            for k in range(0, len(larger), at_once):
                some = larger[k : k + at_once]
                found[some] = ~(lacked[rows[some]] & sets[atoms[some]]).any(axis=1)
        return found

    @cached_property
    def _sets(self) -> NDArray[np.float64]:
        return np.asarray(self.problem.atoms.sets.toarray(), dtype=np.float64)

    @cached_property
    def _unit_norms(self) -> NDArray[np.float64]:
        return np.array([self._gram(np.array([k]), np.array([k]))[0, 0] for k in range(self.n_labels)])

    def _gram(self, left: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.float64]:
        """Q between some of the atoms."""
        atoms = self.problem.atoms
        if isinstance(atoms.kernel, FunctionKernel):
            values = atoms.kernel(atoms.sets[left], atoms.sets[right])
        else:
            A, B = self._sets[left], self._sets[right]
            values = atoms.kernel.of_counts(A @ B.T, A.sum(axis=1)[:, None], B.sum(axis=1)[None, :])
        return np.asarray(values / np.outer(atoms.a[left], atoms.a[right]))

    @cached_property
    def _factors(self) -> tuple[sp.csr_array, sp.csr_array] | None:
        """A and B with Q = A B', where the kernel has such and atoms are many."""
        atoms = self.problem.atoms
        if not isinstance(atoms.kernel, Polynomial) or len(atoms) < MANY_ATOMS:
            return None
        small = np.minimum(self._sets.sum(axis=1), self.n_labels - self._sets.sum(axis=1))
        factors = atoms.kernel.factors(sp.csr_array(atoms.sets)) if small @ small <= MOST_PAIRS else None
        if factors is None:
            return None
        scale = sp.diags_array(1.0 / atoms.a)
        return sp.csr_array(scale @ factors[0]), sp.csr_array(scale @ factors[1])

    def _share_of_labels(self, block: NDArray[np.intp]) -> NDArray[np.float64]:
        return np.asarray(self._gram(block, np.arange(self.n_labels)) / self._unit_norms)

    def _orthogonal(self, left: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.float64]:
        """Q between some of the atoms, less its part in the span of the single labels."""
        spanned = (self._share_of_labels(left) * self._unit_norms) @ self._share_of_labels(right).T
        return np.asarray(self._gram(left, right) - spanned)

    def _blocks_of(self, atoms: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Atoms, a block at a time, such that a number per row and atom of a block fits in a few dozen megabytes."""
        size = max(1, BLOCK_BYTES // (8 * max(self.problem.n_rows, len(self.problem.atoms), 1)))
        return (atoms[k : k + size] for k in range(0, len(atoms), size))


@dataclass(frozen=True)
class _Terms:
    """Functions of some atoms, or the coefficients of the rows in them."""

    atoms: NDArray[np.intp]
    functions: Functions | None
    rows: Any
    certifier: SeparationCertifier

    def some(self, which: NDArray[np.intp]) -> Functions:
        if self.functions is None:
            return self.certifier._combined(self.rows[:, which])
        return Functions(self.functions.coef[:, which], self.functions.constant[which])

    def mixed(self, block: NDArray[np.intp], orthogonal: bool = False) -> Functions:
        """Add up the functions, with Q between their atoms and those of a block as factors, or its orthogonal part."""
        certifier, factors = self.certifier, self.certifier._factors
        if factors is None:
            between = certifier._orthogonal if orthogonal else certifier._gram
            return self._as_functions(np.asarray(self._coefficients @ between(self.atoms, block)))
        summed = _product(self._in_factors, factors[1][block].T)
        if orthogonal:
            summed = summed - self._in_labels @ certifier._share_of_labels(block).T
        return self._as_functions(summed)

    @cached_property
    def _coefficients(self) -> Any:
        """Those of the functions, with the constants in the last row; or those of the rows."""
        if self.functions is None:
            return self.rows
        return np.vstack([self.functions.coef, self.functions.constant])

    @cached_property
    def _in_factors(self) -> NDArray[np.float64]:
        assert self.certifier._factors is not None
        return _product(self._coefficients, self.certifier._factors[0][self.atoms])

    @cached_property
    def _in_labels(self) -> NDArray[np.float64]:
        certifier = self.certifier
        return np.asarray(self._coefficients @ (certifier._share_of_labels(self.atoms) * certifier._unit_norms))

    def _as_functions(self, coefficients: NDArray[np.float64]) -> Functions:
        if self.functions is None:
            return self.certifier._combined(coefficients)
        return Functions(coefficients[:-1], coefficients[-1])


def _product(A: Any, B: sp.csr_array) -> NDArray[np.float64]:
    """Return the product as an array; B is sparse."""
    if sp.issparse(A):
        return np.asarray((A @ B).toarray())
    return np.asarray((B.T @ A.T).T)
