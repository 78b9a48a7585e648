"""The rows the model is most wrong about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from multimargin.inspection import Contributions, Explanation
from multimargin.report.evidence import Evidence
from multimargin.report.html import Html, element, join, table
from multimargin.report.layers import first_with
from multimargin.report.mistakes import Mistake, worst_mistakes
from multimargin.report.numbers import number
from multimargin.report.sections.part import Part, details

__all__ = ["mistakes_section"]

PARTS_SHOWN = 5
MOST_MARKS = 15
SIGNS = {"false": ("✗", "not there"), "missed": ("○", "missed"), "hit": ("✓", "right")}


def mistakes_section(evidence: Evidence) -> Part | None:
    """Show true and predicted labels of the worst rows, and why."""
    found = worst_mistakes(evidence)
    if not found:
        return Part("mistakes", "Mistakes", (element("p", "Every label of every row is predicted right."),))
    wrong = int(np.count_nonzero(_wrong_rows(evidence)))
    lead = element(
        "p",
        f"{wrong:,} of {evidence.truth.n_samples:,} rows have a wrong label. "
        f"The {len(found)} with the largest violation, ",
        "the distance of a wrong label's score from its threshold: ",
        _key(),
    )
    cards = [_card(evidence, mistake) for mistake in found]
    return Part("mistakes", "The worst mistakes", (lead, element("ol", join(cards), class_="cards")))


def _wrong_rows(evidence: Evidence) -> Any:
    different = (evidence.truth.positives != evidence.predicted).tocsr()
    if evidence.truth.missing is not None:
        different = different.astype(np.int8) - different.astype(np.int8).multiply(evidence.truth.missing)
    return np.asarray(different.sum(axis=1)).ravel() > 0


def _key() -> Html:
    return join((element("span", " ".join(words), class_=f"mark {kind}") for kind, words in SIGNS.items()), " ")


def _card(evidence: Evidence, mistake: Mistake) -> Html:
    name = evidence.names[mistake.label]
    kind = "missed" if mistake.label in mistake.true else "predicted, but not there"
    head = element(
        "h3", f"Row {mistake.name}", element("span", f"{name} {kind}: {_signed(mistake.margin)}", class_="soft")
    )
    why = () if mistake.explanation is None else (details(f"Why {name}", _why(evidence, mistake.explanation)),)
    return element("li", head, _marks(evidence, mistake), *why, class_="card")


def _marks(evidence: Evidence, mistake: Mistake) -> Html:
    """List what was predicted or missed; each kind has its own sign, not only its own colour."""
    true, guessed = set(mistake.true.tolist()), set(mistake.predicted.tolist())
    kinds = {"false": guessed - true, "missed": true - guessed, "hit": true & guessed}
    items = []
    for kind, labels in kinds.items():
        sign = SIGNS[kind][0]
        shown = sorted(labels)[:MOST_MARKS]
        items += [element("li", f"{sign} {evidence.names[label]}", class_=f"mark {kind}") for label in shown]
        if len(labels) > len(shown):
            items.append(element("li", f"and {len(labels) - len(shown):,} {sign}", class_="soft"))
    return element("ul", join(items), class_="marks")


def _signed(value: float) -> str:
    return number(value, 2) if value < 0 else f"+{number(value, 2)}"


def _why(evidence: Evidence, why: Explanation) -> Html:
    """Return two sums that give the score: of features or training rows, and of evidence and loans."""
    rows: list[list[object]] = [["score", _signed(why.score)]]
    threshold = _threshold(evidence, why.label)
    if threshold is not None:
        rows.append(["threshold", _signed(threshold)])
    if len(why.pairs):
        rows += [["own evidence", _signed(why.own)], *_parts("with", why.pairs, None)]
    rows += [["baseline", _signed(why.baseline)]]
    rows += _parts("feature", why.features, evidence.feature_names)
    rows += _parts("training row", why.support, None)
    if len(why.borrowed):
        rows += [["own evidence, through the prior", _signed(why.own)], *_parts("borrowed from", why.borrowed, None)]
    return table(["part", "adds"], rows)


def _threshold(evidence: Evidence, label: Any) -> float | None:
    """Return the threshold of a label, if it is the estimator's own score that is compared with it."""
    layer = first_with(evidence.model, "thresholds_")
    if layer is None or layer.response_method_ != "decision_function":
        return None
    inner = layer.estimator_[-1] if isinstance(layer.estimator_, Pipeline) else layer.estimator_
    value = float(layer.thresholds_[layer.label_names_.tolist().index(label)])
    return None if inner is not evidence.estimator or math.isnan(value) else value


def _parts(kind: str, parts: Contributions, names: Sequence[Any] | None) -> list[list[object]]:
    largest = parts.top(PARTS_SHOWN)
    rows: list[list[object]] = []
    for name, value in largest.items():
        words = ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)
        if names is not None and isinstance(name, int) and name < len(names):
            words = str(names[name])
        rows.append([f"+ {kind} {words}", _signed(value)])
    rest = len(parts) - len(largest)
    return [*rows, [f"+ {rest:,} more", _signed(parts.sum() - largest.sum())]] if rest else rows
