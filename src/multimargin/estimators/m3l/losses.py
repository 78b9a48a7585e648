r"""The margins that M3L asks for. A new margin loss is a class here and a line in :data:`LOSSES`.

The loss of a cell is :math:`c_{il} \max(0, m_{il} - y_{il} z_{il})`; a margin loss says what :math:`m_{il}` is, up to
the factor ``margin`` of the user.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.estimators.contract import Problem
from multimargin.priors import LowRankPrior
from multimargin.priors._forms import PriorForms

__all__ = ["LOSSES", "MarginLoss"]


class MarginLoss(Protocol):
    """Margins of the cells of a problem."""

    def check(self, problem: Problem) -> None:
        """Raise InputError where the margins make no sense."""

    def margins(self, problem: Problem) -> NDArray[np.float64] | None:
        """Return m of every cell, of shape (n_samples, n_labels), or None where every margin is 1."""


class HammingMargins:
    """A margin of 1 everywhere: the Hamming loss, bounded by hinges."""

    def check(self, problem: Problem) -> None:
        """Any problem will do."""

    def margins(self, problem: Problem) -> None:
        """Return None: every margin is 1."""


class PriorMargins:
    """The margin ``y_l (R y)_l``: larger where a row agrees with the prior R, unknown labels counting as 0."""

    def check(self, problem: Problem) -> None:
        """Refuse a prior that would ask for negative margins."""
        if problem.prior is None:
            return
        R = problem.prior.toarray() if isinstance(problem.prior, LowRankPrior) else problem.prior
        slack = 2 * np.diag(R) - np.abs(R).sum(axis=1)
        worst = int(np.argmin(slack))
        if slack[worst] < -1e-6 * R[worst, worst]:
            msg = (
                f"loss='prior' needs a diagonally dominant prior; for label {problem.labels.names.tolist()[worst]!r} "
                f"the diagonal is {R[worst, worst]:.4g} but the other entries of its row sum to "
                f"{np.abs(R[worst]).sum() - R[worst, worst]:.4g} in absolute value. Use loss='hamming', or shrink the "
                "prior towards the identity."
            )
            raise InputError(msg)

    def margins(self, problem: Problem) -> NDArray[np.float64] | None:
        """``y o (R y)`` of every row."""
        if problem.prior is None:
            return None
        y = np.where(problem.labels.positives.toarray(), 1.0, -1.0)
        if problem.labels.missing is not None:
            y[problem.labels.missing.toarray().astype(bool)] = 0.0
        return np.asarray(y * PriorForms(problem.prior).apply(y))


LOSSES: dict[str, MarginLoss] = {"hamming": HammingMargins(), "prior": PriorMargins()}
"""Margin losses by the name that ``loss`` takes."""
