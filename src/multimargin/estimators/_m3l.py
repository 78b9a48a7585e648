"""What the linear and the kernel form of M3L share."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.estimators._base import (
    Interval,
    MultilabelClassifier,
    Problem,
    Solution,
    StrOptions,
    constant_labels,
)
from multimargin.labels import LabelMatrix
from multimargin.priors import LowRankPrior, check_prior
from multimargin.priors._forms import PriorForms, components

__all__ = ["M3L", "Prior", "prior_targets", "solution_of"]

Prior = NDArray[Any] | LowRankPrior | None


class M3L(MultilabelClassifier):
    """Base of the M3L estimators: prior, loss, intercept and warm start."""

    prior: Any
    loss: str
    fit_intercept: bool
    intercept_scaling: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultilabelClassifier._parameter_constraints,
        "prior": "no_validation",  # type: ignore[dict-item]
        "loss": [StrOptions({"hamming", "prior"})],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
    }

    def _checked_prior(self, labels: LabelMatrix) -> Prior:
        return check_prior(self.prior, labels.names)

    def _constant_labels(self, labels: LabelMatrix, prior: Prior) -> NDArray[np.bool_]:
        """Labels of one value, unless the prior ties them to others of which something is known."""
        constant, _ = constant_labels(labels)
        if prior is None or not constant.any():
            return constant
        group = components(prior)
        known = np.add(*labels.counts()) > 0
        size, informed = np.bincount(group), np.bincount(group, weights=known)
        return np.asarray(constant & ((size[group] == 1) | (informed[group] == 0)))

    def _check_problem(self, problem: Problem) -> None:
        if self.loss == "prior":
            _check_diagonally_dominant(problem.prior, problem.labels.names)
        beta = getattr(self, "_beta", None)
        shape = problem.labels.positives.shape
        if self.warm_start and beta is not None and beta.shape != shape:
            msg = (
                f"warm_start=True continues on the same rows and labels: the last fit had shape {beta.shape}, this one "
                f"has {shape}. Set warm_start=False, or fit a clone."
            )
            raise InputError(msg)

    def _start(self, dtype: Any) -> NDArray[Any] | None:
        """Dual variables of the last fit; the ones at their bound move with it when C changes."""
        if not self.warm_start or getattr(self, "_beta", None) is None:
            return None
        return np.ascontiguousarray(self._beta * (self.C / self._beta_C), dtype=dtype)

    def _keep(self, beta: NDArray[Any]) -> None:
        """Remember the dual variables for the next warm start."""
        if self.warm_start:
            self._beta, self._beta_C = beta, self.C


def solution_of(result: dict[str, Any]) -> Solution:
    """Read the native result."""
    return Solution(result["primal"], result["dual"], result["passes"], result["status"])


def _check_diagonally_dominant(prior: Prior, names: NDArray[Any]) -> None:
    if prior is None:
        return
    R = prior.toarray() if isinstance(prior, LowRankPrior) else prior
    slack = 2 * np.diag(R) - np.abs(R).sum(axis=1)
    worst = int(np.argmin(slack))
    if slack[worst] < -1e-6 * R[worst, worst]:
        msg = (
            f"loss='prior' needs a diagonally dominant prior; for label {names.tolist()[worst]!r} the diagonal is "
            f"{R[worst, worst]:.4g} but the other entries of its row sum to "
            f"{np.abs(R[worst]).sum() - R[worst, worst]:.4g} in absolute value. Use loss='hamming', or shrink the "
            "prior towards the identity."
        )
        raise InputError(msg)


def prior_targets(problem: Problem) -> NDArray[np.float64]:
    """Y m = R y of every row, unknown labels counting as 0."""
    y = np.where(problem.labels.positives.toarray(), 1.0, -1.0)
    if problem.labels.missing is not None:
        y[problem.labels.missing.toarray().astype(bool)] = 0.0
    return np.ascontiguousarray(PriorForms(problem.prior).apply(y))
