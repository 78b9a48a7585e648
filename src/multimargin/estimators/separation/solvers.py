"""Solvers of calibrated separation over label-set atoms (problem and notation: core/separation/block_ascent.hpp).

Three methods reach the same optimum. ``rows`` (native) visits row after row, with growing lists of atoms; it takes any
number of rows, but needs the more passes the larger C K(x, x) is. ``interior`` (interior.py) solves linear
systems and does not mind the scale, on small problems. ``admm`` (admm.py) works with whole matrices in the
eigenbases of K and R, on small and middling ones, and minds the scale less than ``rows``.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.estimators.contract import Status, native_cells, native_rows
from multimargin.estimators.interior_point import passes_before
from multimargin.estimators.separation.admm import solve_admm
from multimargin.estimators.separation.interior import fits_interior, solve_interior
from multimargin.estimators.separation.problem import Proposal, SeparationProblem, Start
from multimargin.kernels import gram_factor

__all__ = ["second_solver", "solve_separation"]

ADMM_CELLS = 1_000_000
ADMM_ROWS = 2000
ROW_PASSES = 2000  # before admm takes over
MOST_WEIGHTS = 64_000_000  # of a linear model, before its Gram matrix is used instead


def solve_separation(
    problem: SeparationProblem, solver: str, limits: _core.Limits, start: Start | None = None
) -> Proposal:
    """Model and dual variables at which the duality gap is small.

    ``"auto"`` begins with ``"rows"``; where that has not converged after many passes, as on badly scaled inputs, and
    the problem is small, another solver goes on.
    """
    if solver == "admm":
        return solve_admm(problem, limits, start)
    if solver == "interior":
        return solve_interior(problem, limits)
    left = limits.max_iter - limits.passes
    second, passes = second_solver(problem, left) if solver == "auto" else ("rows", left)
    if second == "rows":
        return _solve_rows(problem, limits, start)
    began = time.monotonic()
    first = _solve_rows(problem, _moved(limits, max_iter=limits.passes + passes), start)
    if first.status != Status.max_iter:
        return first
    rest = _moved(limits, passes=first.passes, seconds=time.monotonic() - began)
    if second == "interior":
        return solve_interior(problem, rest)
    return solve_admm(problem, rest, Start(first.D, first.coef))


def second_solver(problem: SeparationProblem, max_iter: int) -> tuple[str, int]:
    """Return what ``solver="auto"`` goes on with where ``"rows"`` takes long, and after how many passes."""
    passes = passes_before(max_iter, problem.n_rows, problem.rank, problem.atoms.n_labels)
    if passes < max_iter and fits_interior(problem):
        return "interior", passes
    small = problem.n_rows <= ADMM_ROWS and problem.n_rows * len(problem.atoms) <= ADMM_CELLS
    return ("admm", ROW_PASSES) if small and max_iter > ROW_PASSES else ("rows", max_iter)


def _solve_rows(problem: SeparationProblem, limits: _core.Limits, start: Start | None) -> Proposal:
    features = problem.atoms.features()
    K = problem.K
    if K is None and _n_weights(features, problem) > MOST_WEIGHTS and problem.n_rows < problem.X.shape[1]:
        X = problem.X.astype(np.float64)
        K = np.asarray(safe_sparse_dot(X, X.T, dense_output=True))
    found = _core.fit_separation(
        rows=native_rows(problem.X if K is None else gram_factor(K)),
        labels=problem.cells,
        cost=problem.cost,
        sets=native_cells(problem.atoms.sets),
        features=features,
        bias=problem.bias,
        start=None if start is None else _native(start.D),
        limits=limits,
    )
    shape = (problem.n_rows, len(problem.atoms))
    D = sp.csr_array((found.D.values, found.D.atoms, found.D.offsets), shape=shape)
    D.sort_indices()
    result = found.result
    return Proposal(D, D, None, result.primal, result.dual, result.passes, result.status)


def _native(D: sp.csr_array) -> _core.DualVariables:
    return _core.DualVariables(D.indptr.astype(np.int64), D.indices.astype(np.int32), D.data.astype(np.float64))


def _moved(
    limits: _core.Limits, *, max_iter: int | None = None, passes: int | None = None, seconds: float = 0.0
) -> _core.Limits:
    """Limits for a part of the passes, or after others that took some time."""
    return _core.Limits(
        tol=limits.tol,
        max_iter=limits.max_iter if max_iter is None else max_iter,
        threads=limits.threads,
        seed=limits.seed,
        time_limit=max(limits.time_limit - seconds, 0.0),
        report=limits.report,
        passes=limits.passes if passes is None else passes,
    )


def _n_weights(features: _core.SetFeatures | NDArray[np.float64] | None, problem: SeparationProblem) -> int:
    """Size of the state of the native solver, about."""
    if features is None:
        rows = problem.atoms.n_labels
    elif isinstance(features, _core.SetFeatures):
        rows = 3 * problem.atoms.n_labels + features.n_pairs
    else:
        rows = features.shape[1]
    return int(rows) * (int(problem.X.shape[1]) + 1)
