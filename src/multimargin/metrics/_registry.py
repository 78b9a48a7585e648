"""Every metric by its name: the report, the scorers and the command read this list.

A metric is a formula with a line above it that registers it. The line also makes the public function of the formula:
the same name and text, for labels in any form. scikit-learn's functions of these names know no unknown cells, differ in
what they make of undefined values, and each of them counts or sorts anew; here a report shares that work. Where both
are defined they agree, which the tests hold.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from multimargin.errors import InputError
from multimargin.labels import read_labels
from multimargin.metrics._counts import Counts, count
from multimargin.metrics._pairs import (
    Mean,
    Names,
    Undefined,
    check_undefined,
    read_best_scores,
    read_pair,
    read_scores,
    read_weights,
)
from multimargin.metrics._ranks import Ranking

__all__ = ["DEFAULT_K", "METRICS", "check_k", "find_metric", "metrics_at", "of_best", "of_labels", "of_scores"]

DEFAULT_K = (1, 3, 5)


@dataclass(frozen=True)
class Metric:
    """A metric and what is needed to use it: whether it needs scores, and whether smaller values are better."""

    name: str
    formula: Callable[..., Mean]
    of_scores: bool
    loss: bool
    k: int | None = None

    def at(self, k: int) -> Metric:
        """Return the metric of the best k labels that this one, whose name ends in ``@k``, stands for."""
        return replace(self, name=f"{self.name.removesuffix('k')}{k}", formula=partial(self.formula, k=k), k=k)

    def value(self, Y: Any, given: Any, names: Names, sample_weight: Any, undefined: Undefined = "skip") -> float:
        """Compute the metric of predicted labels, or of scores, in any form."""
        check_undefined(undefined)
        if not self.of_scores:
            truth, predicted = read_pair(Y, given, names)
            counts = count(truth, predicted, read_weights(sample_weight, truth.n_samples))
            return self.formula(counts, undefined).value
        truth = read_labels(Y, names=names)
        scores = read_scores(given, truth) if self.k is None else read_best_scores(given, truth, self.k)
        ranking = Ranking(truth, scores, read_weights(sample_weight, truth.n_samples))
        return self.formula(ranking, undefined).value


METRICS: dict[str, Metric] = {}
"""Every metric by its name; those of the best k labels by a name that ends in ``@k``."""


def find_metric(name: str) -> Metric:
    """Return the metric of that name, also for a name such as ``precision@7``."""
    kind, _, k = name.partition("@")
    if f"{kind}@k" in METRICS:
        return METRICS[f"{kind}@k"].at(check_k(int(k) if k.isdecimal() else k))
    if name not in METRICS:
        close = get_close_matches(name, METRICS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(METRICS)}."
        msg = f"There is no metric {name!r}. {hint}"
        raise InputError(msg)
    return METRICS[name]


def metrics_at(ks: Iterable[int]) -> list[Metric]:
    """List every metric, those of the best k labels for each of these k."""
    whole = [metric for name, metric in METRICS.items() if not name.endswith("@k")]
    return whole + [metric.at(k) for name, metric in METRICS.items() if name.endswith("@k") for k in ks]


def check_k(k: Any, n_labels: int | None = None) -> int:
    """Return k if it is a whole number from 1 to the number of labels."""
    whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    if not whole or k < 1 or (n_labels is not None and k > n_labels):
        most = "" if n_labels is None else f" to {n_labels}, the number of labels"
        msg = f"k must be a whole number from 1{most}; got {k!r}. Choose another k."
        raise InputError(msg)
    return int(k)


class LabelMetric(Protocol):
    """A function of labels and predicted labels."""

    def __call__(
        self, Y: Any, prediction: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
    ) -> float: ...


class ScoreMetric(Protocol):
    """A function of labels and scores."""

    def __call__(
        self, Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
    ) -> float: ...


class BestMetric(Protocol):
    """A function of labels, scores and the number of best labels."""

    def __call__(
        self,
        Y: Any,
        scores: Any,
        k: int,
        *,
        names: Names = None,
        sample_weight: Any = None,
        undefined: Undefined = "skip",
    ) -> float: ...


def of_labels(name: str, *, loss: bool = False) -> Callable[[Callable[[Counts, Undefined], Mean]], LabelMetric]:
    """Register a formula of the counts of predicted labels."""

    def register(formula: Callable[[Counts, Undefined], Mean]) -> LabelMetric:
        METRICS[name] = metric = Metric(name, formula, of_scores=False, loss=loss)

        def function(
            Y: Any, prediction: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
        ) -> float:
            return metric.value(Y, prediction, names, sample_weight, undefined)

        return _named(function, formula, PREDICTION)

    return register


def of_scores(name: str, *, loss: bool = False) -> Callable[[Callable[[Ranking, Undefined], Mean]], ScoreMetric]:
    """Register a formula of the ranking of labels by their scores."""

    def register(formula: Callable[[Ranking, Undefined], Mean]) -> ScoreMetric:
        METRICS[name] = metric = Metric(name, formula, of_scores=True, loss=loss)

        def function(
            Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
        ) -> float:
            return metric.value(Y, scores, names, sample_weight, undefined)

        return _named(function, formula, SCORES)

    return register


def of_best(name: str) -> Callable[[Callable[[Ranking, Undefined, int], Mean]], BestMetric]:
    """Register a formula of the best k labels of a ranking; its name ends in ``@k``."""

    def register(formula: Callable[[Ranking, Undefined, int], Mean]) -> BestMetric:
        def checked(ranking: Ranking, undefined: Undefined, k: int) -> Mean:
            return formula(ranking, undefined, check_k(k, ranking.truth.n_labels))

        METRICS[name] = Metric(name, checked, of_scores=True, loss=False)

        def function(
            Y: Any,
            scores: Any,
            k: int,
            *,
            names: Names = None,
            sample_weight: Any = None,
            undefined: Undefined = "skip",
        ) -> float:
            return METRICS[name].at(k).value(Y, scores, names, sample_weight, undefined)

        return _named(function, formula, SCORES + BEST + NUMBER)

    return register


Function = TypeVar("Function", bound=Callable[..., float])


def _named(function: Function, formula: Callable[..., Mean], arguments: str) -> Function:
    function.__name__ = function.__qualname__ = formula.__name__
    function.__module__ = formula.__module__
    function.__doc__ = f"{inspect.cleandoc(formula.__doc__ or '')}\n\nParameters\n----------\n{arguments}{COMMON}"
    return function


PREDICTION = """\
Y, prediction : labels in any form
    True and predicted labels of the same rows; NaN cells of Y are left out.
"""
SCORES = """\
Y : labels in any form
    True labels; NaN cells are left out.
scores : array-like of shape (n_samples, n_labels)
    Larger means more likely, as ``decision_function`` gives them.
"""
BEST = """\
    For many labels, what ``predict_top(X, k)`` gives: a sparse array with the best k of each row, or more.
"""
NUMBER = """\
k : int
    How many labels to look at, from 1 to the number of labels.
"""
COMMON = """\
names : sequence, optional
    Names of the labels; for label sets, the labels there may be.
sample_weight : array-like of shape (n_samples,), optional
    Weights of the rows.
undefined : {"skip", 0, 1}, default="skip"
    What becomes of undefined values: left out, counted as worst, or counted as perfect.

Returns
-------
float
"""
