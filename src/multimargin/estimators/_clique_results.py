"""What is left of the training of a clique model besides the model: its certificate, and how it grew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators._certificate import Certificate

__all__ = ["CliqueCertificate", "CliquePath"]


@dataclass(frozen=True)
class CliqueCertificate(Certificate):
    """Proof of how close a solution is to two optima: for its own cliques, and for all cliques that were candidates.

    Attributes
    ----------
    primal : float
        Objective of the returned model; an upper bound of both optima.
    dual : float
        Lower bound of the optimum for the cliques in the model.
    gap, relative_gap : float
        ``primal - dual``, and its share of ``primal``.
    converged : bool
        Whether ``relative_gap <= tol``; with ``stopping="gap"`` whether ``global_relative_gap <= tol``.
    oracle_exact : float
        Share of the oracle calls in the primal that were proved exact; the others count with an upper bound.
    global_dual : float
        Lower bound of the optimum for all candidate cliques. NaN if the graph was given.
    global_gap, global_relative_gap : float
        ``primal - global_dual``, and its share of ``primal``.
    """

    global_dual: float = np.nan
    global_gap: float = np.nan
    global_relative_gap: float = np.nan


@dataclass(frozen=True, eq=False)
class CliquePath:
    """How the model grew: one entry for every round of clique generation.

    Attributes
    ----------
    n_cliques : ndarray
        Number of cliques in the model.
    primal, dual : ndarray
        Bounds of the optimum for these cliques.
    global_dual : ndarray
        Lower bound of the optimum for all candidates.
    training_loss, validation_loss : ndarray
        Share of wrong labels among the rows trained on, and among the rows held out (NaN without ``stopping=
        "validation"``).
    """

    n_cliques: NDArray[np.int64]
    primal: NDArray[np.float64]
    dual: NDArray[np.float64]
    global_dual: NDArray[np.float64]
    training_loss: NDArray[np.float64]
    validation_loss: NDArray[np.float64]
