"""Solvers of calibrated separation over label-set atoms (problem and notation: core/separation/block_ascent.hpp).

Three methods reach the same optimum. ``rows`` (native) visits row after row, with growing lists of atoms; it takes any
number of rows, but needs the more passes the larger C K(x, x) is. ``interior`` (_separation_interior.py) solves linear
systems and does not mind the scale, on small problems. ``admm`` (_separation_admm.py) works with whole matrices in the
eigenbases of K and R, on small and middling ones, and minds the scale less than ``rows``.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.estimators._base import native_rows
from multimargin.estimators._interior import passes_before
from multimargin.estimators._separation_admm import solve_admm
from multimargin.estimators._separation_interior import fits_interior, solve_interior
from multimargin.estimators._separation_problem import Limits, Proposal, Report, SeparationProblem, Start
from multimargin.kernels import gram_factor
from multimargin.label_kernels import pack_sets

__all__ = ["second_solver", "solve_separation"]

ADMM_CELLS = 1_000_000
ADMM_ROWS = 2000
ROW_PASSES = 2000  # before admm takes over
MOST_WEIGHTS = 64_000_000  # of a linear model, before its Gram matrix is used instead


def solve_separation(
    problem: SeparationProblem, solver: str, limits: Limits, monitor: Report, start: Start | None = None
) -> Proposal:
    """Model and dual variables at which the duality gap is small.

    ``"auto"`` begins with ``"rows"``; where that has not converged after many passes, as on badly scaled inputs, and
    the problem is small, another solver goes on.
    """
    if solver == "admm":
        return solve_admm(problem, limits, monitor, start)
    if solver == "interior":
        return solve_interior(problem, limits, monitor)
    second, done = second_solver(problem, limits.max_iter) if solver == "auto" else ("rows", limits.max_iter)
    if second == "rows":
        return _solve_rows(problem, limits, monitor, start)
    began = time.monotonic()
    first = _solve_rows(problem, replace(limits, max_iter=done), monitor, start)
    if first.status != "max_iter":
        return first
    spent = time.monotonic() - began
    rest = replace(limits, max_iter=limits.max_iter - done)
    if limits.time_limit is not None:
        rest = replace(rest, time_limit=max(limits.time_limit - spent, 0.0))

    def later(pass_: int, seconds: float, primal: float | None, dual: float | None) -> bool:
        return monitor(done + pass_, spent + seconds, primal, dual)

    if second == "interior":
        found = solve_interior(problem, rest, later)
    else:
        found = solve_admm(problem, rest, later, Start(first.D, first.coef))
    return replace(found, passes=done + found.passes)


def second_solver(problem: SeparationProblem, max_iter: int) -> tuple[str, int]:
    """Return what ``solver="auto"`` goes on with where ``"rows"`` takes long, and after how many passes."""
    passes = passes_before(max_iter, problem.n_rows, problem.rank, problem.atoms.n_labels)
    if passes < max_iter and fits_interior(problem):
        return "interior", passes
    small = problem.n_rows <= ADMM_ROWS and problem.n_rows * len(problem.atoms) <= ADMM_CELLS
    return ("admm", ROW_PASSES) if small and max_iter > ROW_PASSES else ("rows", max_iter)


def _solve_rows(problem: SeparationProblem, limits: Limits, monitor: Report, start: Start | None) -> Proposal:
    features = problem.atoms.features()
    K = problem.K
    if K is None and _n_weights(features, problem) > MOST_WEIGHTS and problem.n_rows < problem.X.shape[1]:
        X = problem.X.astype(np.float64)
        K = np.asarray(safe_sparse_dot(X, X.T, dense_output=True))
    result = _core.fit_separation(
        rows=native_rows(problem.X if K is None else gram_factor(K)),
        sets=problem.atoms.bits(),
        n_labels=problem.atoms.n_labels,
        features=features,
        positive=pack_sets(problem.positives),
        negative=pack_sets(problem.negatives),
        cost=problem.cost,
        bias=problem.bias,
        start=None if start is None else _native(start.D),
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
    return Proposal(D, D, None, result["primal"], result["dual"], result["passes"], result["status"])


def _native(D: sp.csr_array) -> tuple[Any, Any, Any]:
    return D.indptr.astype(np.int64), D.indices.astype(np.int32), D.data.astype(np.float64)


def _n_weights(features: Any, problem: SeparationProblem) -> int:
    """Size of the state of the native solver, about."""
    if features is None:
        rows = problem.atoms.n_labels
    else:
        rows = 3 * problem.atoms.n_labels + features[5] if isinstance(features, tuple) else features.shape[1]
    return int(rows) * (int(problem.X.shape[1]) + 1)
