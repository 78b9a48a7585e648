"""The problem of calibrated separation as its solvers and its certifier receive it, and what a solver proposes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin._interrupt import interruptible
from multimargin.errors import InputError
from multimargin.estimators.contract import Problem
from multimargin.label_kernels import LabelAtoms

__all__ = [
    "Limits",
    "Proposal",
    "Report",
    "SeparationProblem",
    "Start",
    "known_labels",
    "losses",
    "not_zero",
    "spectrum",
]

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
    status : str
    """

    D: sp.csr_array
    coef: Any
    weights: NDArray[np.float64] | None
    primal: float
    dual: float
    passes: int
    status: str


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
    positives, negatives : csr_array of shape (n_rows, n_labels)
    cost : ndarray of shape (n_rows,)
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


def losses(U: NDArray[np.float64], signs: NDArray[np.int8]) -> NDArray[np.float64]:
    """Loss of each row at these scores of atoms above the reference."""
    above = np.maximum(0.0, np.where(signs > 0, 1.0 - U, 0.0).max(axis=1))
    return np.asarray(above + np.maximum(0.0, np.where(signs < 0, 1.0 + U, 0.0).max(axis=1)))


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
        f"{K[i, j]}. Scale the features, or lower gamma or kernel_degree."
    )
    raise InputError(msg)
