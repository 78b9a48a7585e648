"""What a decision rule is judged by."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import norm

from multimargin.decisions._cells import Cells, without
from multimargin.errors import InputError

__all__ = ["RULES", "Scoring", "is_number", "read_scoring", "wilson"]

Floats = NDArray[np.float64]

F_MEASURES = ("macro", "micro", "weighted", "example")
RULES: dict[str, tuple[str, ...]] = {
    "macro": ("per-label", "offset", "pcut"),
    "weighted": ("per-label", "offset", "pcut"),
    "micro": ("offset", "per-label", "pcut", "decode"),
    "example": ("offset", "at-least-one", "rcut", "decode", "per-label", "pcut"),
    "micro+macro": ("per-label",),
    "cost": ("decode", "per-label", "seen-sets"),
    "subset": ("decode", "seen-sets"),
    "precision-at-recall": ("per-label",),
    "recall-at-precision": ("per-label",),
}
"""The rules for each kind of scoring; ``rule="auto"`` is the first one, or the best of several on the scores given."""


@dataclass(frozen=True, eq=False)
class Scoring:
    """A scoring, read and checked.

    Attributes
    ----------
    name : str
        As the user gave it.
    kind : str
        A key of ``RULES``.
    beta_squared : float
    level : float
        The recall or precision that is asked for.
    costs : tuple of ndarray of shape (n_labels,), or None
        Costs of a false positive and of a false negative.
    confidence : float or None
    """

    name: str
    kind: str
    beta_squared: float = 1.0
    level: float = 0.0
    costs: tuple[Floats, Floats] | None = None
    confidence: float | None = None

    @property
    def smaller_is_better(self) -> bool:
        """Whether the score is a loss."""
        return self.kind == "cost"

    def share(self, part: Floats, whole: Floats) -> Floats:
        """Return part / whole, or what it is at least, with ``confidence``."""
        return wilson(part, whole, self.confidence)

    def value(self, cells: Cells, predicted: sp.csr_array) -> float:
        """Judge predicted cells."""
        predicted = without(without(predicted, cells.labels.missing), cells.unusable)
        hits = sp.csr_array(cells.present.astype(np.int8).multiply(predicted.astype(np.int8)))
        hits.eliminate_zeros()
        if self.kind == "subset":
            wrong = np.diff(cells.present.indptr) + np.diff(predicted.indptr) - 2 * np.diff(hits.indptr)
            return _mean((wrong == 0).astype(np.float64), example_weights(cells))
        if self.kind == "example":
            return self._example(cells, hits, predicted)
        of_labels = cells.per_label(hits), cells.per_label(cells.present), cells.per_label(predicted)
        if self.kind == "cost":
            true, present, guessed = of_labels
            assert self.costs is not None
            cost = self.costs[0] @ (guessed - true) + self.costs[1] @ (present - true)
            return float(cost / max(cells.counts()[1].sum(), np.finfo(float).tiny))
        return self._of_labels(*of_labels)

    def _of_labels(self, hits: Floats, present: Floats, predicted: Floats) -> float:
        # the labels that occur: of the others nothing can be said, and rare ones have no usable positive out of fold
        f = np.where(present > 0, self.f_measure(hits, present, predicted), np.nan)
        pooled = self.f_measure(*(np.array([x.sum()]) for x in (hits, present, predicted)))
        if self.kind == "macro":
            return _mean(f)
        if self.kind == "weighted":
            return _mean(f, present)
        if self.kind == "micro":
            return float(pooled[0])
        if self.kind == "micro+macro":
            return (float(pooled[0]) + _mean(f)) / 2.0
        whole = predicted if self.kind == "precision-at-recall" else present
        share = np.divide(hits, whole, out=np.zeros_like(hits), where=whole > 0)
        return _mean(np.where(present > 0, share, np.nan))

    def _example(self, cells: Cells, hits: sp.csr_array, predicted: sp.csr_array) -> float:
        rows = (np.diff(part.indptr).astype(np.float64) for part in (hits, cells.present, predicted))
        f = np.nan_to_num(self.f_measure(*rows), nan=1.0)
        return _mean(f, example_weights(cells))

    def f_measure(self, hits: Floats, present: Floats, predicted: Floats) -> Floats:
        """F, NaN where nothing is present and nothing predicted."""
        whole = self.beta_squared * present + predicted
        f = np.full(np.shape(whole), np.nan)
        np.divide((1.0 + self.beta_squared) * hits, whole, out=f, where=whole > 0)
        return f


def example_weights(cells: Cells) -> Floats:
    """Weights of the rows; a row of which nothing is known says nothing."""
    known = np.full(cells.shape[0], cells.shape[1])
    for left_out in (cells.labels.missing, cells.unusable):
        if left_out is not None:
            known = known - np.diff(left_out.indptr)
    return np.where(known > 0, cells.weights, 0.0)


def wilson(part: Floats, whole: Floats, confidence: float | None) -> Floats:
    """Share of a count; with a confidence, the lower end of Wilson's one-sided interval. 0 of 0 is 0."""
    share = np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=np.asarray(whole) > 0)
    if confidence is None:
        return share
    z = norm.ppf(confidence)
    n = np.where(np.asarray(whole) > 0, whole, 1.0)
    centre, spread = share + z * z / (2 * n), np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    lower = np.maximum((centre - z * spread) / (1 + z * z / n), 0.0)
    return np.asarray(np.where(np.asarray(whole) > 0, lower, 0.0))


def read_scoring(scoring: Any, n_labels: int, beta: Any, costs: Any, confidence: Any) -> Scoring:
    """Check a scoring and what belongs to it."""
    name, level = (scoring[0], scoring[1]) if isinstance(scoring, (tuple, list)) and len(scoring) == 2 else (scoring, 0)
    known = [f"{kind}-f1" for kind in F_MEASURES] + [f"{kind}-fbeta" for kind in F_MEASURES]
    known += ["micro+macro-f1", "hamming-loss", "cost", "subset-accuracy", "precision-at-recall", "recall-at-precision"]
    if not isinstance(name, str) or name not in known:
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}."
        msg = f"scoring must name a metric; got {scoring!r}. {hint}"
        raise InputError(msg)
    at_level = name in ("precision-at-recall", "recall-at-precision")
    if at_level and not (is_number(level) and 0 < level <= 1):
        msg = f"scoring={name!r} needs a share in (0, 1] beside it; got {scoring!r}. Use scoring=({name!r}, 0.9)."
        raise InputError(msg)
    if not at_level and isinstance(scoring, (tuple, list)):
        msg = f"scoring={name!r} takes no number beside it; got {scoring!r}."
        raise InputError(msg)
    if not (is_number(beta) and np.isfinite(beta) and beta > 0):
        msg = f"beta must be a positive number; got {beta!r}. beta=2 weighs recall twice as high as precision."
        raise InputError(msg)
    if beta != 1 and not name.endswith("-fbeta"):
        msg = f"beta={beta!r} belongs to the scorings that end in '-fbeta'; got scoring={name!r}. Use 'macro-fbeta'."
        raise InputError(msg)
    if confidence is not None and not (at_level and is_number(confidence) and 0.5 <= confidence < 1):
        msg = (
            f"confidence must be None, or lie in [0.5, 1) with scoring 'precision-at-recall' or 'recall-at-precision'; "
            f"got {confidence!r} with scoring={name!r}."
        )
        raise InputError(msg)
    kinds = {"hamming-loss": "cost", "subset-accuracy": "subset"}
    kind = kinds.get(name) or name.removesuffix("-f1").removesuffix("-fbeta")
    return Scoring(
        name=name if not at_level else f"{name}-{level:g}",
        kind=kind,
        beta_squared=float(beta) ** 2,
        level=float(level),
        costs=_read_costs(name, costs, n_labels),
        confidence=None if confidence is None else float(confidence),
    )


def _read_costs(name: str, costs: Any, n_labels: int) -> tuple[Floats, Floats] | None:
    if name != "cost":
        if costs is not None:
            msg = f"costs belong to scoring='cost'; got scoring={name!r}. Leave costs out, or use scoring='cost'."
            raise InputError(msg)
        return (np.ones(n_labels), np.ones(n_labels)) if name == "hamming-loss" else None
    try:
        pair = [np.broadcast_to(np.asarray(cost, dtype=np.float64), (n_labels,)) for cost in costs]
    except (TypeError, ValueError):
        pair = []
    if len(pair) != 2 or not all(np.isfinite(cost).all() and (cost > 0).all() for cost in pair):
        msg = (
            "scoring='cost' needs costs=(false_positive, false_negative), positive numbers or arrays with one of each "
            f"of the {n_labels} labels; got {costs!r}. Use costs=(1, 5) where a miss is five times as bad."
        )
        raise InputError(msg)
    return pair[0].copy(), pair[1].copy()


def is_number(value: Any) -> bool:
    """Whether a value is a real number."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _mean(values: Floats, weights: Floats | None = None) -> float:
    defined = ~np.isnan(values)
    w = np.ones(len(values)) if weights is None else weights
    total = w[defined].sum()
    return float(values[defined] @ w[defined] / total) if total > 0 else float("nan")
