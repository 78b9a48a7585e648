"""Thresholds that are best for a label, or for all labels together, read from the cuts of the score columns."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin.decisions._cells import Cells
from multimargin.decisions._scoring import Scoring

__all__ = ["Cuts", "find_cuts", "per_label", "shrunk"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cuts:
    """Every cut of every label that can be best, highest threshold first.

    Attributes
    ----------
    offsets : ndarray of shape (n_labels + 1,)
        Label l has the cuts ``offsets[l]:offsets[l + 1]``.
    thresholds, hits, predicted : ndarray
        Of every cut: cells with a larger score are predicted.
    positives, squares, known : ndarray of shape (n_labels,)
        Weight of the positive cells, sum of its squares, weight of all cells.
    quota : ndarray of shape (n_labels,)
        The threshold above which as many cells lie as are positive; NaN if fewer have a score.
    lowest : ndarray of shape (n_labels,)
        The lowest score.
    """

    offsets: NDArray[np.int64]
    thresholds: Floats
    hits: Floats
    predicted: Floats
    positives: Floats
    squares: Floats
    known: Floats
    quota: Floats
    lowest: Floats

    @property
    def effective_positives(self) -> Floats:
        """Number of positive cells; with weights, the number of equal ones that would say as much."""
        return np.divide(self.positives**2, self.squares, out=np.zeros_like(self.positives), where=self.squares > 0)

    @property
    def label_of_cut(self) -> NDArray[np.int64]:
        """The label of every cut."""
        return np.repeat(np.arange(len(self.positives)), np.diff(self.offsets))

    def best(self, objective: Floats, at_least: float = -np.inf) -> NDArray[np.int64]:
        """First cut of largest objective of every label; -1 if it has none, or none above ``at_least``."""
        chosen = np.full(len(self.positives), -1)
        filled = np.flatnonzero(np.diff(self.offsets))
        if not len(filled):
            return chosen
        starts = self.offsets[filled]
        largest = np.maximum.reduceat(objective, starts)
        is_best = np.flatnonzero(objective == np.repeat(largest, np.diff(self.offsets)[filled]))
        first = is_best[np.searchsorted(is_best, starts)]
        chosen[filled] = np.where(largest > at_least, first, -1)
        return chosen

    def at(self, chosen: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """Return thresholds, hits and predictions of one cut per label; -1 predicts nothing."""
        none = chosen < 0
        pick = np.where(none, 0, chosen)
        values = []
        for array, otherwise in ((self.thresholds, np.inf), (self.hits, 0.0), (self.predicted, 0.0)):
            source = array if len(array) else np.zeros(1)
            values.append(np.where(none, otherwise, source[pick]))
        return values[0], values[1], values[2]


def find_cuts(cells: Cells) -> Cuts:
    """Find the cuts of every label."""
    found = _core.cuts(cells.columns, cells.positives, cells.unknown, cells.weights)
    return Cuts(**{part.name: getattr(found, part.name) for part in fields(Cuts)})


def per_label(cuts: Cuts, scoring: Scoring) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the best threshold of each label, exact on these cells, and which labels cannot reach the level."""
    feasible = np.ones(len(cuts.positives), dtype=bool)
    if scoring.kind == "micro":
        return _micro(cuts, scoring), ~feasible
    if scoring.kind == "micro+macro":
        return _micro_and_macro(cuts, scoring), ~feasible
    objective = label_objective(cuts, scoring)
    chosen = cuts.best(objective, at_least=0.0 if scoring.kind == "cost" else -np.inf)
    if scoring.kind.endswith(("-at-recall", "-at-precision")):
        feasible = chosen >= 0
    return cuts.at(chosen)[0], ~feasible


def label_objective(cuts: Cuts, scoring: Scoring) -> Floats:
    """Worth of each cut to its label; larger is better, -inf is not allowed."""
    label = cuts.label_of_cut
    positives = cuts.positives[label]
    if scoring.kind == "cost":
        assert scoring.costs is not None
        false_positive, false_negative = (cost[label] for cost in scoring.costs)
        return np.asarray((false_negative + false_positive) * cuts.hits - false_positive * cuts.predicted)
    precision, recall = scoring.share(cuts.hits, cuts.predicted), scoring.share(cuts.hits, positives)
    slack = 1e-12
    if scoring.kind == "precision-at-recall":
        return np.where(recall >= scoring.level - slack, precision, -np.inf)
    if scoring.kind == "recall-at-precision":
        return np.where(precision >= scoring.level - slack, recall, -np.inf)
    return scoring.f_measure(cuts.hits, positives, cuts.predicted)


def shrunk(cuts: Cuts, best: Floats, shrinkage: float) -> tuple[Floats, Floats]:
    """Draw thresholds of rare labels towards the quota; return them and the weights of the best thresholds.

    The weight is P / (P + shrinkage) with P positive cells. A threshold that predicts every cell counts as one just
    below the lowest score.
    """
    positives = cuts.effective_positives
    if shrinkage == 0:
        return best, np.where(positives > 0, 1.0, 0.0)
    with np.errstate(invalid="ignore"):
        weight = np.zeros_like(positives) if np.isinf(shrinkage) else positives / (positives + shrinkage)
    weight = np.where(best == np.inf, 0.0, weight)
    weight = np.where(np.isnan(cuts.quota), 1.0, weight)
    finite = np.where(best == -np.inf, np.nextafter(cuts.lowest, -np.inf), best)
    own = np.where(weight > 0, weight * np.where(weight > 0, finite, 0.0), 0.0)
    quota = np.where(weight < 1, (1 - weight) * np.where(weight < 1, cuts.quota, 0.0), 0.0)
    return own + quota, weight


def _micro(cuts: Cuts, scoring: Scoring) -> Floats:
    """Exact by Dinkelbach's method: the F of all cells rises until no cut raises (1 + b) TP - F k any more."""
    b = scoring.beta_squared
    whole = b * cuts.positives.sum()
    f, best = 0.0, np.full(len(cuts.positives), np.inf)
    while True:
        chosen = cuts.best((1 + b) * cuts.hits - f * cuts.predicted, at_least=0.0)
        thresholds, hits, predicted = cuts.at(chosen)
        higher = (1 + b) * hits.sum() / max(whole + predicted.sum(), np.finfo(float).tiny)
        if not higher > f:
            return best
        f, best = higher, thresholds


def _micro_and_macro(cuts: Cuts, scoring: Scoring) -> Floats:
    """Labels by falling frequency; each maximises its F / labels so far + the F of all cells so far."""
    b = scoring.beta_squared
    thresholds = np.full(len(cuts.positives), np.inf)
    hits = predicted = positives = 0.0
    for rank, label in enumerate(np.argsort(-cuts.positives, kind="stable"), start=1):
        part = slice(cuts.offsets[label], cuts.offsets[label + 1])
        positives += cuts.positives[label]
        if part.start == part.stop:
            continue
        own = (1 + b) * cuts.hits[part] / (b * cuts.positives[label] + cuts.predicted[part])
        pooled = (1 + b) * (hits + cuts.hits[part]) / (b * positives + predicted + cuts.predicted[part])
        chosen = part.start + int(np.argmax(own / rank + pooled))
        thresholds[label] = cuts.thresholds[chosen]
        hits += cuts.hits[chosen]
        predicted += cuts.predicted[chosen]
    return thresholds
