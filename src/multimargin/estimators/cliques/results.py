"""What is left of the training of a clique model besides the model: its certificate, and how it grew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators.certificate import Bounds, Certificate
from multimargin.estimators.cliques.generation import Round

__all__ = ["CliqueBounds", "CliqueCertificate", "CliquePath"]


@dataclass(frozen=True)
class CliqueBounds(Bounds):
    """Bounds, with a lower bound of the optimum for all candidate cliques; NaN if the graph was given."""

    global_dual: float = np.nan


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

    @classmethod
    def of_bounds(cls, bounds: CliqueBounds, tol: float, by_global_gap: bool) -> CliqueCertificate:
        """Certificate of bounds; ``by_global_gap`` if that gap, where there is one, tells whether the fit converged."""
        own = Certificate.of(bounds.primal, np.nan if bounds.dual is None else bounds.dual, tol, bounds.oracle_exact)
        over_all = Certificate.of(bounds.primal, bounds.global_dual, tol)
        decides = over_all if by_global_gap and not np.isnan(over_all.dual) else own
        return cls(
            **{**vars(own), "converged": decides.converged},
            global_dual=over_all.dual,
            global_gap=over_all.gap,
            global_relative_gap=over_all.relative_gap,
        )


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

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> CliquePath:
        """Path of a generation of cliques."""
        return cls(**{name: np.array([getattr(r, name) for r in rounds]) for name in Round.__dataclass_fields__})
