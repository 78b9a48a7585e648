"""The problem of calibrated separation as its solvers and its certifier receive it, and what a solver proposes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._interrupt import interruptible
from multimargin.errors import InputError
from multimargin.estimators.contract import Problem, Status, native_cells
from multimargin.label_kernels import LabelAtoms
from multimargin.weights import CellCosts

__all__ = [
    "Proposal",
    "SeparationProblem",
    "Start",
    "known_labels",
    "labels_lacked",
    "losses",
    "not_zero",
    "side_costs",
    "spectrum",
]


@dataclass(frozen=True)
class Proposal:
    """What a solver returns.

    Attributes
    ----------
    D : csr_array of shape (n_rows, n_atoms)
        Dual variables.
    coef : csr_array or ndarray of shape (n_rows, n_atoms)
        Coefficients of the model W, the sum of ``coef[i, j] psi_j x_i'``. Those of the best model need not be the best
        dual variables: where C K is large, a small error in D is a large one in W.
    weights : ndarray of shape (n_features + 1, n_atoms) or None
        The same of a linear model as weights of the features and the constant, if they are at hand: the sum over rows
        may cancel.
    primal, dual : float
    passes : int
        Those of solvers before it included.
    status : Status
    """

    D: sp.csr_array
    coef: Any
    weights: NDArray[np.float64] | None
    primal: float
    dual: float
    passes: int
    status: Status


@dataclass(frozen=True)
class Start:
    """Where a solver begins: dual variables and coefficients as in a proposal."""

    D: sp.csr_array
    coef: Any


@dataclass(frozen=True)
class SeparationProblem:
    """Rows, their label sets and costs.

    Attributes
    ----------
    X : array or csr matrix of shape (n_rows, n_features), or None
        Inputs of a linear model.
    K : ndarray of shape (n_rows, n_rows) or None
        Gram matrix of a kernel model, without the constant feature.
    bias : float
        Constant feature.
    positives : csr_array of shape (n_rows, n_labels)
        Labels which rows have.
    missing : csr_array of shape (n_rows, n_labels) or None
        Labels of which nothing is known.
    cost : ndarray of shape (n_rows, 2)
        Of the labels which a row has, and of those it lacks.
    atoms : LabelAtoms
    """

    X: Any
    K: NDArray[np.float64] | None
    bias: float
    positives: sp.csr_array
    missing: sp.csr_array | None
    cost: NDArray[np.float64]
    atoms: LabelAtoms

    @cached_property
    def negatives(self) -> sp.csr_array:
        """Labels which rows are known to lack, (n_rows, n_labels)."""
        return labels_lacked(self.positives, self.missing)

    @cached_property
    def cells(self) -> _core.Labels:
        """Labels and costs for the native core."""
        n_labels = self.positives.shape[1]
        return _core.Labels(
            positives=native_cells(self.positives),
            missing=None if self.missing is None else native_cells(self.missing),
            left_out=np.zeros(n_labels, dtype=np.uint8),
            row=np.ones(self.n_rows),  # the sides have costs of their own
            positive=np.ones(n_labels),
            negative=np.ones(n_labels),
            cells=None,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.positives.shape[0])

    @property
    def rank(self) -> int:
        """Largest possible rank of the Gram matrix."""
        return self.n_rows if self.K is not None else min(self.n_rows, int(self.X.shape[1]) + 1)

    def squares(self) -> NDArray[np.float64]:
        """K(x, x) of each row, constant feature included."""
        if self.K is not None:
            squares = np.diag(self.K)
        elif sp.issparse(self.X):
            squares = np.asarray(self.X.astype(np.float64).power(2).sum(axis=1)).ravel()
        else:
            squares = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        return np.asarray(squares + self.bias * self.bias)  # not a power: inf instead of an OverflowError

    def signs(self) -> NDArray[np.int8]:
        """+1 where an atom lies within the labels of a row, -1 where within those it lacks; 0 elsewhere.

        A side that costs nothing has no atoms.
        """
        sets = self.atoms.sets
        size = np.diff(sets.indptr)
        within = (self.positives.astype(np.float64) @ sets.T).toarray() == size
        without = (self.negatives.astype(np.float64) @ sets.T).toarray() == size
        above, below = (side & paid[:, None] for side, paid in zip((within, without), self.cost.T > 0, strict=True))
        return np.ascontiguousarray(above.astype(np.int8) - below.astype(np.int8))


def known_labels(problem: Problem, columns: NDArray[np.intp]) -> tuple[sp.csr_array, sp.csr_array | None]:
    """Labels which rows have, and labels of which nothing is known, in these columns."""
    positives, missing = problem.labels.positives, problem.labels.missing
    some = [None if cells is None else sp.csr_array(cells[:, columns]) for cells in (positives, missing)]
    for cells in some:
        if cells is not None:
            cells.sort_indices()
    return some[0], some[1]


def labels_lacked(positives: sp.csr_array, missing: sp.csr_array | None) -> sp.csr_array:
    """Labels which rows are known to lack: most of the cells, so that sparse or dense makes little difference."""
    lacked = ~positives.toarray().astype(bool)
    if missing is not None:
        lacked &= ~missing.toarray().astype(bool)
    return sp.csr_array(lacked)


def side_costs(
    costs: CellCosts, columns: NDArray[np.intp], positives: sp.csr_array, negatives: sp.csr_array
) -> NDArray[np.float64]:
    """Cost of the labels which a row has, and of those it lacks: its own, times the mean weight of these labels."""
    sides = []
    for cells, weight in ((positives, costs.positive), (negatives, costs.negative)):
        count = np.diff(cells.indptr)
        total = cells.astype(np.float64) @ weight[columns]
        sides.append(costs.row * np.divide(total, count, out=np.ones_like(total), where=count > 0))
    return np.stack(sides, axis=1)


def losses(U: NDArray[np.float64], signs: NDArray[np.int8]) -> NDArray[np.float64]:
    """Losses of each row, (n_rows, 2), at these scores of atoms above the reference: of what it has, and lacks."""
    sides = [np.where(side * signs > 0, 1.0 - side * U, 0.0).max(axis=1) for side in (1, -1)]
    return np.asarray(np.maximum(0.0, np.stack(sides, axis=1)))


def spectrum(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvectors (n, rank) and eigenvalues of a semidefinite matrix that are not zero."""
    values, vectors = interruptible(np.linalg.eigh, matrix)
    return not_zero(vectors, values)


def not_zero(vectors: Any, values: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Leave out the eigenvalues that are zero up to rounding."""
    keep = values > 1e-14 * len(values) * max(float(values.max(initial=0.0)), 0.0)
    return np.ascontiguousarray(vectors[:, keep]), values[keep]


def check_finite_kernel(K: NDArray[np.float64], kernel: Any, rows: NDArray[np.intp]) -> None:
    """Refuse a Gram matrix of these rows with infinite or undefined values."""
    finite = np.isfinite(K)
    if finite.all():
        return
    i, j = np.argwhere(~finite)[0]
    name = getattr(kernel, "__name__", "function") if callable(kernel) else repr(kernel)
    msg = (
        f"The kernel {name} must be finite between all training rows; between rows {rows[i]} and {rows[j]} it is "
        f"{K[i, j]}. Scale the features, or lower gamma or degree."
    )
    raise InputError(msg)
