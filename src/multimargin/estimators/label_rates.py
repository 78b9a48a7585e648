"""Whether a model predicts about as many labels as are true: what :class:`DecisionWarning` says after a fit."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin.estimators.problem import Problem
from multimargin.weights import CellCosts

__all__ = ["DECIDED_ELSEWHERE", "LabelRates", "fit_for_scores", "label_rates"]

MOST_CELLS = 2_000_000
"""Rows times labels of the sample."""
TIMES = 2.5
"""How many times fewer, or more, labels must be predicted than are true."""
ALMOST_ALL = 5.0
"""How many times fewer labels must be left out than are absent."""
FEWEST_ROWS, FEWEST = 100, 20
"""Rows of the sample, and labels present (or absent) in them, below which nothing is said."""
DECIDED_ELSEWHERE: ContextVar[bool] = ContextVar("DECIDED_ELSEWHERE", default=False)
"""Whether the estimator that is being fitted gives scores to a wrapper, which decides."""


@dataclass(frozen=True)
class LabelRates:
    """Labels per row, on a sample of the training rows.

    Attributes
    ----------
    predicted, true : float
    weighted : float
        How many are true where cells count with their costs: what a fit with class weights is after.
    labels : float
        How many there are. Labels constant in training, and unknown cells, count nowhere.
    rows : int
        Size of the sample.
    """

    predicted: float
    true: float
    weighted: float
    labels: float
    rows: int

    @property
    def few(self) -> bool:
        """Whether several times fewer labels are predicted than are true."""
        true = min(self.true, self.weighted)
        return self._tells(true) and TIMES * self.predicted < true

    @property
    def many(self) -> bool:
        """Whether several times more labels are predicted than are true, or almost all."""
        true = max(self.true, self.weighted)
        absent, left_out = self.labels - true, self.labels - self.predicted
        return self._tells(absent) and (self.predicted > TIMES * true or ALMOST_ALL * left_out < absent)

    def _tells(self, rate: float) -> bool:
        """Whether so many labels per row are enough to judge by."""
        return self.rows >= FEWEST_ROWS and rate * self.rows >= FEWEST

    def told(self, model: str) -> str:
        """Return the numbers in a sentence."""
        if self.labels == 1:
            return f"{model} predicts the label in {self.predicted:.2g} of the rows where {self.true:.2g} have it."
        return (
            f"{model} predicts {self.predicted:.3g} of {self.labels:.3g} labels per row where {self.true:.3g} are true "
            f"({self.rows} training rows)."
        )


def label_rates(model: Any, problem: Problem, most_rows: int) -> LabelRates:
    """Count the labels a model predicts on a sample of its training rows: the same rows for the same data."""
    rows = np.flatnonzero(problem.costs.row > 0)
    most = min(most_rows, max(1, MOST_CELLS // problem.labels.n_labels))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    labels, costs = problem.labels.part(rows), problem.costs.part(rows)
    present = labels.positives.toarray()
    cost = _cost_of_cells(costs, present)
    if labels.missing is not None:
        cost[labels.missing.toarray()] = 0.0
    counted = cost > 0
    predicted = model._positives(problem.X[rows]).toarray() & counted
    total = cost.sum(axis=0)
    frequency = np.divide((cost * present).sum(axis=0), total, out=np.zeros_like(total), where=total > 0)
    return LabelRates(
        predicted=float(predicted.sum() / len(rows)),
        true=float((present & counted).sum() / len(rows)),
        weighted=float(frequency @ counted.mean(axis=0)),
        labels=float(counted.sum() / len(rows)),
        rows=len(rows),
    )


def _cost_of_cells(costs: CellCosts, present: NDArray[np.bool_]) -> NDArray[np.float64]:
    cost = costs.row[:, None] * np.where(present, costs.positive, costs.negative)
    return np.asarray(cost if costs.cells is None else cost * costs.cells)


def fit_for_scores(estimator: Any, X: Any, y: Any, **params: Any) -> Any:
    """Fit an estimator of which the scores are used and not the decisions: these are not looked at."""
    before = DECIDED_ELSEWHERE.set(True)
    try:
        return estimator.fit(X, y, **params)
    finally:
        DECIDED_ELSEWHERE.reset(before)
