"""What the linear and the kernel form of M3L share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators.contract import (
    LARGEST_SINGLE,
    SMALLEST_SINGLE,
    Interval,
    Model,
    Monitor,
    MultilabelClassifier,
    Problem,
    StrOptions,
    WarmStart,
)
from multimargin.estimators.m3l.losses import LOSSES
from multimargin.fitted_rules import Rule, Sizes, array_of, expect
from multimargin.kernels import one_blas_thread
from multimargin.labels import LabelMatrix
from multimargin.priors import LowRankPrior, check_prior, made_prior
from multimargin.priors._forms import components
from multimargin.weights import CellMargins, cell_margins

__all__ = ["M3L", "M3LTask", "Prior", "blas_for_prior"]

Prior = NDArray[Any] | LowRankPrior | None

FEW_LABELS = 500
"""Up to which BLAS has one thread: with two it factorises R for 500 labels in some milliseconds less, and they cost a
fit on two threads more than that."""


@dataclass(frozen=True)
class M3LTask:
    """A problem, and the margins of its cells."""

    problem: Problem
    margins: CellMargins


class M3L(MultilabelClassifier):
    r"""Base of the M3L estimators: prior and margins. A warm start begins at the dual variables ``state["beta"]``.

    Parameters
    ----------
    prior : None, array of shape (n_labels, n_labels), DataFrame, LowRankPrior, "labels" or callable, default=None
        R, symmetric and positive semidefinite, possibly singular; see :mod:`multimargin.priors`. A DataFrame is aligned
        by label names. ``"labels"`` and functions of Y, such as ``partial(priors.from_labels, shrinkage=0.3)``, are
        recipes: R is made inside ``fit`` from the labels of its rows alone, so that a search over folds does not leak.
    margin : float, dict, list, or array of shape (n_labels,) or (n_samples, n_labels), default=1.0
        The score :math:`y_{il} z_{il}` from which on a cell costs nothing, 0 or more: one number; one per label;
        ``{0: a, 1: b}`` for negative and positive cells, for all labels or in a list with one per label; or one per
        cell of Y. It multiplies the margins of ``loss``. In the authors' convention, which compares the difference
        :math:`2 y_{il} z_{il}` of two scores with a loss :math:`\Delta_l`, that is :math:`\Delta_l = 2 m_{il}`. Margins
        a m at C are margins m at C / a, with scores a times as large. A matrix belongs to the rows of one fit: in a
        search over folds, give margins by label or class. The columns of a DataFrame are aligned by label names.
    class_weight : None, "balanced", dict, list of dicts or LabelFrequencies, default=None
        ``{0: a, 1: b}`` multiplies the cost of negative cells by a and of positive ones by b; a list gives each label
        its own. ``"balanced"`` gives the positives and the negatives of a label the same total cost.
        :class:`multimargin.weights.LabelFrequencies` gives them the costs of label frequencies to expect in use.

    Attributes
    ----------
    constant_labels_ : ndarray
        Labels that are predicted constant: those with a single value in training, or never observed, which the prior
        ties to no label of which something is known. Others of that kind stay in the problem and are predicted through
        the prior.
    prior_ : None, ndarray of shape (n_labels, n_labels) or LowRankPrior
        R as it was used.
    """

    prior: Any
    loss: str
    margin: Any
    prior_: Prior

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultilabelClassifier._parameter_constraints,
        "prior": "no_validation",  # type: ignore[dict-item]
        "loss": [StrOptions(set(LOSSES))],
        "margin": [Interval(Real, 0, None, closed="left"), Mapping, "array-like"],
    }

    def _checked_prior(self, labels: LabelMatrix, y: Any, *, reset: bool) -> Prior:
        given = self.prior if reset else self.prior_
        with blas_for_prior(given, labels.n_labels):
            return check_prior(made_prior(given, y) if reset else given, labels.names)

    def _constant_labels(self, labels: LabelMatrix, prior: Prior) -> NDArray[np.bool_]:
        """Labels of one value, unless the prior ties them to others of which something is known."""
        constant = labels.constant
        if prior is None or not constant.any():
            return constant
        group = components(prior)
        known = np.add(*labels.counts()) > 0
        size, informed = np.bincount(group), np.bincount(group, weights=known)
        return np.asarray(constant & ((size[group] == 1) | (informed[group] == 0)))

    def _prepare(self, problem: Problem) -> M3LTask:
        loss = LOSSES[self.loss]
        loss.check(problem)
        margins = self._margins(problem)
        smallest, largest = margins.extent()
        if problem.dtype == np.float32 and not SMALLEST_SINGLE <= smallest <= largest <= LARGEST_SINGLE:
            problem = problem.in_double()
        return M3LTask(problem, margins)

    def _margins(self, problem: Problem) -> CellMargins:
        return cell_margins(problem.labels, self.margin).times(LOSSES[self.loss].margins(problem))

    def _attributes(self, problem: Problem, model: Model, monitor: Monitor) -> dict[str, Any]:
        return {**super()._attributes(problem, model, monitor), "prior_": problem.prior}

    def _stored_parameters(self) -> dict[str, Any]:
        """Parameters for a model file, which holds no function: the prior that it made takes its place."""
        parameters = super()._stored_parameters()
        return {**parameters, "prior": self.prior_} if callable(self.prior) and hasattr(self, "prior_") else parameters

    def _fitted_rules(self) -> dict[str, Rule]:
        return {**super()._fitted_rules(), "prior_": _prior_rule}

    def _start(self, last: WarmStart | None, C: float, dtype: Any) -> NDArray[Any] | None:
        """Dual variables of the last fit; the ones at their bound move with it when C changes."""
        if last is None:
            return None
        return np.ascontiguousarray(last.state["beta"] * (C / last.C), dtype=dtype)


def blas_for_prior(prior: Any, n_labels: int) -> AbstractContextManager[None]:
    """Keep BLAS on one thread where it has little to do: its threads stay awake for a while, in the way of a fit's."""
    return one_blas_thread if prior is not None and n_labels <= FEW_LABELS else nullcontext()


def _prior_rule(value: Any, sizes: Sizes) -> None:
    if isinstance(value, LowRankPrior):
        array_of("labels rank")(value.factor, sizes)
        array_of("labels", 0.0)(value.diagonal, sizes)
    elif value is not None:
        array_of("labels labels")(value, sizes)
        expect(bool((value == value.T).all()), "must be symmetric")
