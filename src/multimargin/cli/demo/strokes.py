"""The first part of the demo: the strokes of digits never seen in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import Pipeline, make_pipeline

from multimargin import datasets, priors
from multimargin.cli._output import Step
from multimargin.estimators import LinearM3L

from .means import Mean, compare, percent

__all__ = ["METHODS", "RULE", "StrokeSplit", "Strokes", "run_strokes"]

COSTS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
DEFAULT_COST = 1.0
N_COMPONENTS = 300
METHODS = {False: "one-vs-all", True: "M3L with the prior"}
KEYS = {False: "one_vs_all", True: "m3l"}
RULE = (
    "Above, C = 1, the default of the library for rows of length 1. The width of the RBF kernel (300 Nyström "
    "features) is 1 / (number of pixels · their variance)."
)


@dataclass(frozen=True)
class StrokeSplit:
    """What was measured on one split into seen and unseen digits.

    Attributes
    ----------
    unseen : tuple of int
        Digits never seen in training.
    constant_error : float
        Share of wrong strokes if each stroke is predicted as most training images have it.
    errors, naming : dict
        By method (with prior or without) and C: the share of wrong strokes, and the share of images whose
        digit is named right by the nearest signature.
    models : dict
        By method: the fitted pipeline with the default C.
    """

    unseen: tuple[int, ...]
    constant_error: float
    errors: dict[tuple[bool, float], float]
    naming: dict[tuple[bool, float], float]
    models: dict[bool, Pipeline]


@dataclass(frozen=True)
class Strokes:
    """All splits, and the data they come from."""

    data: Any
    splits: list[StrokeSplit]

    def errors(self, method: bool, cost: float = DEFAULT_COST) -> list[float]:
        """Return the share of wrong strokes in each split."""
        return [split.errors[method, cost] for split in self.splits]

    def naming(self, method: bool) -> list[float]:
        """Return the share of images named right in each split."""
        return [split.naming[method, DEFAULT_COST] for split in self.splits]

    def constant_errors(self) -> list[float]:
        """Return the share of wrong strokes of constant predictions in each split."""
        return [split.constant_error for split in self.splits]

    def chance(self) -> float:
        """Return the share of images that a blind guess among the unseen digits names right."""
        return 1 / len(self.splits[0].unseen)

    def table(self) -> list[tuple[str, ...]]:
        """Return a row for each method: its name, stroke error and share of digits named right."""
        constant = percent(Mean.of(self.constant_errors()))
        rows: list[tuple[str, ...]] = [("the same strokes for all", constant, f"{100 * self.chance():.1f}% (chance)")]
        for method, name in METHODS.items():
            rows.append((name, percent(Mean.of(self.errors(method))), percent(Mean.of(self.naming(method)))))
        return rows

    def cost_table(self) -> list[tuple[str, ...]]:
        """Return a row for each C: the error of both methods and their paired difference."""
        rows: list[tuple[str, ...]] = []
        for cost in COSTS:
            one, both = self.errors(False, cost), self.errors(True, cost)
            difference = Mean.of(np.subtract(both, one))
            points = f"{100 * difference.value:+.1f} ± {100 * difference.error:.1f}"
            rows.append((f"C = {cost:g}", percent(Mean.of(one)), percent(Mean.of(both)), points))
        return rows

    def findings(self) -> list[str]:
        """Return what the measurement shows, in words that follow from the numbers."""
        one, both = METHODS[False], METHODS[True]
        wrong, named = "Wrong strokes", "Digits named right"
        return [
            compare(wrong, both, self.errors(True), one, self.errors(False)),
            compare(wrong, both, self.errors(True), "the same strokes for all", self.constant_errors()),
            compare(named, both, self.naming(True), one, self.naming(False)),
            _against_chance(self.naming(True), self.chance()),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers for machines."""
        methods = {
            key: {
                "error": Mean.of(self.errors(m)).as_dict(),
                "naming": Mean.of(self.naming(m)).as_dict(),
                "error_by_C": {f"{cost:g}": Mean.of(self.errors(m, cost)).as_dict() for cost in COSTS},
                "error_by_split": self.errors(m),
            }
            for m, key in KEYS.items()
        }
        return {
            "rule": RULE,
            "unseen": [split.unseen for split in self.splits],
            "constant_error": Mean.of(self.constant_errors()).as_dict(),
            "chance_of_naming": self.chance(),
            **methods,
            "findings": self.findings(),
        }


def _against_chance(shares: Sequence[float], chance: float) -> str:
    mean = Mean.of(shares)
    clear = abs(mean.value - chance) >= 2 * mean.error
    verdict = ("above" if mean.value > chance else "below") if clear else "within noise of"
    return f"Naming the unseen digit ({percent(mean)} right) is {verdict} chance ({100 * chance:.1f}%)."


def run_strokes(step: Step) -> Strokes:
    """Fit and measure both methods on every split."""
    data = datasets.load_digit_attributes()
    splits = []
    for seen, unseen in data.splits:
        step(f"strokes of {', '.join(map(str, unseen))} from the other digits")
        splits.append(_measure(data, seen, unseen))
    return Strokes(data, splits)


def _measure(data: Any, seen: Sequence[int], unseen: Sequence[int]) -> StrokeSplit:
    train, test = np.isin(data.digit, seen), np.isin(data.digit, unseen)
    Y, truth, signatures = data.Y[train], data.Y[test] == 1, data.signatures[list(unseen)]
    kernel = _kernel(data.X[train])
    features, test_features = kernel.transform(data.X[train]), kernel.transform(data.X[test])
    errors, naming, models = {}, {}, {}
    for method in METHODS:
        # The prior says which strokes go together in the unseen digits; no image of them is used.
        prior = priors.from_signatures(signatures) if method else None
        for cost in COSTS:
            model = LinearM3L(C=cost, prior=prior, max_iter=5000, random_state=0).fit(features, Y)
            scores = model.decision_function(test_features)
            errors[method, cost] = float(((scores > 0) != truth).mean())
            naming[method, cost] = _named_right(scores, signatures, np.array(unseen), data.digit[test])
            if cost == DEFAULT_COST:
                models[method] = make_pipeline(kernel, model)
    usual = Y.mean(axis=0) > 0.5
    return StrokeSplit(tuple(unseen), float((usual != truth).mean()), errors, naming, models)


def _kernel(X: NDArray[Any]) -> Nystroem:
    gamma = 1 / (X.shape[1] * X.var())
    return Nystroem(gamma=gamma, n_components=N_COMPONENTS, random_state=0).fit(X)


def _named_right(scores: NDArray[Any], signatures: NDArray[Any], names: NDArray[Any], digit: NDArray[Any]) -> float:
    """Name each image by the digit whose signature has the largest cosine with the scores."""
    guess = names[np.argmax(scores @ (2.0 * signatures.T - 1.0), axis=1)]
    return float((guess == digit).mean())
