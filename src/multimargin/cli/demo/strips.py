"""The second part of the demo: which digits are in a strip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import datasets, metrics, priors
from multimargin.cli._output import Step
from multimargin.estimators import LinearM3L
from multimargin.model_selection import MultilabelStratifiedKFold

from .means import Mean, compare, percent

__all__ = ["MEASURES", "METHODS", "RULE", "Strips", "run_strips"]

COSTS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
DRAWS = 5
METHODS = {False: "one-vs-all", True: "M3L with the label prior"}
MEASURES = {"hamming-loss": "wrong labels", "macro-f1": "macro F1", "subset-accuracy": "all digits right"}
RULE = (
    f"C is chosen for each method among {', '.join(f'{C:g}' for C in COSTS)} by the Hamming loss in three "
    f"stratified folds of the training strips. Means and standard errors are over {DRAWS} draws of 1000 "
    "training and 500 test strips."
)


@dataclass(frozen=True)
class Strips:
    """What was measured on several draws of strips.

    Attributes
    ----------
    data : Bunch
        The first draw.
    models : dict
        By method, the pipeline fitted on the first draw.
    values : dict
        By method and measure, one value for each draw.
    """

    data: Any
    models: dict[bool, Pipeline]
    values: dict[bool, dict[str, list[float]]]

    def table(self) -> list[tuple[str, ...]]:
        """Return a row for each method: its name and all measures."""
        return [
            (name, *(percent(Mean.of(self.values[method][measure])) for measure in MEASURES))
            for method, name in METHODS.items()
        ]

    def findings(self) -> list[str]:
        """Return what the measurement shows, in words that follow from the numbers."""
        words = {"hamming-loss": "Wrong labels", "macro-f1": "Macro F1"}
        return [
            compare(words[key], METHODS[True], self.values[True][key], METHODS[False], self.values[False][key])
            for key in words
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers for machines."""
        keys = {False: "one_vs_all", True: "m3l"}
        summary = {
            key: {measure: Mean.of(self.values[m][measure]).as_dict() for measure in MEASURES}
            for m, key in keys.items()
        }
        return {"rule": RULE, "draws": DRAWS, "summary": summary, "findings": self.findings()}


def run_strips(step: Step) -> Strips:
    """Fit and measure both methods on every draw."""
    values: dict[bool, dict[str, list[float]]] = {m: {measure: [] for measure in MEASURES} for m in METHODS}
    first: tuple[Any, dict[bool, Pipeline]] | None = None
    for draw in range(DRAWS):
        step(f"digits in strips, draw {draw + 1} of {DRAWS}")
        data = datasets.load_digit_strips(random_state=draw)
        models = {m: _fit(data.X_train, data.Y_train, _choose_cost(data, m), m, tol=1e-3) for m in METHODS}
        first = first or (data, models)
        for method, model in models.items():
            report = metrics.report(data.Y_test, model.predict(data.X_test))
            for measure in MEASURES:
                values[method][measure].append(report.to_dict()["values"][measure])
    assert first is not None
    return Strips(*first, values)


def _fit(X: NDArray[Any], Y: NDArray[Any], cost: float, with_prior: bool, tol: float) -> Pipeline:
    prior = priors.from_labels(Y) if with_prior else None
    return make_pipeline(StandardScaler(), LinearM3L(C=cost, prior=prior, tol=tol, random_state=0)).fit(X, Y)


def _choose_cost(data: Any, with_prior: bool) -> float:
    X, Y = data.X_train, data.Y_train
    folds = list(MultilabelStratifiedKFold(3, random_state=0).split(X, Y))

    def loss(cost: float) -> float:
        parts = [(_fit(X[a], Y[a], cost, with_prior, tol=1e-2).predict(X[b]), Y[b]) for a, b in folds]
        return float(np.mean([np.mean(guess != truth) for guess, truth in parts]))

    return min(COSTS, key=loss)
