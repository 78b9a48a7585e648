"""Thresholds: what they change, where they lie, and what others would do."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from multimargin.report.evidence import Evidence
from multimargin.report.html import Html, element, table
from multimargin.report.numbers import number
from multimargin.report.sections.headline import is_loss, metric_words
from multimargin.report.sections.part import Part, note
from multimargin.report.svg import Box, Scale, drawing, frame, path, short, side_by_side, text
from multimargin.report.threshold_curves import Thresholded, f1_curve, thresholded

__all__ = ["thresholds_section"]

MULTIPLES = 12
MOST_POINTS = 120
COMPARED = ("macro-f1", "micro-f1", "example-f1", "subset-accuracy", "hamming-loss")


def thresholds_section(evidence: Evidence) -> Part | None:
    """Metrics before and after tuning, the thresholds, and the F1 of single labels against theirs."""
    found = thresholded(evidence)
    if found is None:
        return None
    content: list[object] = []
    if found.before is not None:
        content += _before_and_after(evidence, found)
    values = _values(evidence, found)
    labels = _drawn(evidence)
    curves = [_curve(evidence, found, values, label) for label in labels]
    if not curves and not content:
        return None
    if curves:
        words = "score" if found.usual == 0 else "probability"
        marks = "The solid line is the threshold in use"
        lowest, highest = found.scores[:, labels].min(axis=0), found.scores[:, labels].max(axis=0)
        if ((values[labels] < lowest) | (values[labels] > highest)).any():
            marks += ", or an arrow where it lies outside the scores"
        marks += f"; the dashed one is {found.usual:g}" if found.layer is not None else ""
        content += [
            element("h3", f"F1 against the threshold on the {words}"),
            side_by_side(curves),
            note(
                f"The {len(curves)} most frequent labels. {marks}; the dot is the best F1 on these rows, which no "
                "threshold chosen elsewhere can be expected to reach."
            ),
        ]
    return Part("thresholds", "Thresholds", tuple(content))


def _values(evidence: Evidence, found: Thresholded) -> NDArray[np.float64]:
    """Thresholds in use; NaN with rules that look at a row as a whole."""
    if evidence.thresholds is not None:
        return evidence.thresholds
    return np.full(evidence.truth.n_labels, found.usual)


def _before_and_after(evidence: Evidence, found: Thresholded) -> list[object]:
    assert found.before is not None
    decision = getattr(found.layer, "decision_", None)
    rows = []
    for name in COMPARED:
        before, after = found.before.values[name], evidence.values[name]
        better = (after - before) * (-1 if is_loss(name) else 1)
        sign = "▲ better" if better > 0.0005 else "▼ worse" if better < -0.0005 else "= same"
        change = number(after - before).removeprefix("\u2212")
        change = ("\u2212" if after < before else "+") + change
        mark = element("span", sign, class_="right" if better > 0.0005 else "wrong" if better < -0.0005 else "soft")
        aim = decision is not None and decision.scoring == name
        label = [metric_words(name), element("span", " tuned for this", class_="soft")] if aim else [metric_words(name)]
        rows.append([element("span", *label), number(before), number(after), change, mark])
    rule = (
        f"The thresholds were given to {type(found.layer).__name__}."
        if decision is None
        else f"Rule {decision.rule} for {decision.scoring}, chosen in training on rows held out."
    )
    content: list[object] = [
        element("p", rule, " Every metric needs its own rule: what helps one may cost another."),
        table(["", f"at {found.usual:g}", "as decided", "change", ""], rows),
    ]
    picture = _all_thresholds(evidence, found)
    return [*content, picture] if picture else content


def _all_thresholds(evidence: Evidence, found: Thresholded) -> Html | None:
    """Draw the threshold of every label against its positives."""
    values = _values(evidence, found)
    decision = getattr(found.layer, "decision_", None)
    best = np.asarray(getattr(decision, "best", values), dtype=np.float64)
    positives = evidence.truth.counts()[0] if evidence.train_positives is None else evidence.train_positives
    drawn = np.flatnonzero(np.isfinite(values) & (positives > 0))
    if not len(drawn):
        return None
    raw = np.where(np.isfinite(best), best, values)
    box = Box(52, 24, 760, 232)
    every = np.concatenate([values[drawn], [found.usual]])
    margin = 0.06 * max(float(np.ptp(every)), 1e-6)
    y = Scale(float(every.min()) - margin, float(every.max()) + margin, box.bottom, box.top)
    x = Scale(max(0.8 * positives[drawn].min(), 0.5), 1.3 * positives[drawn].max() + 1, box.left, box.right, log=True)
    at = float(y(found.usual))
    parts = [frame(box, x, y, x_words="rows with the label", y_words="threshold")]
    parts.append(path([box.left, box.right], [at, at], class_="line dashed"))
    for label in drawn.tolist():
        here, place = float(x(positives[label])), float(y(values[label]))
        if abs(raw[label] - values[label]) > 1e-9:
            parts.append(path([here, here], [float(y(raw[label])), place], class_="stem"))
        parts.append(element("circle", cx=round(here, 1), cy=round(place, 1), r=3.2, class_="mark-full faint"))
    if len(drawn) <= 24:
        parts += _named(evidence, drawn, x(positives[drawn]), y(values[drawn]))
    stems = "" if evidence.shrinkage is None else " A line leads to the label's own best threshold, before shrinkage."
    words = f"Thresholds of {len(drawn):,} labels against their rows; the dashed line is {found.usual:g}.{stems}"
    return element("figure", drawing(790, 268, "Thresholds of the labels", words, *parts), element("figcaption", words))


def _named(
    evidence: Evidence, labels: NDArray[np.intp], xs: NDArray[np.float64], ys: NDArray[np.float64]
) -> list[Html]:
    """Write names beside points, where they do not run into each other."""
    placed: list[tuple[float, float, float]] = []
    parts = []
    for label, x, y in sorted(zip(labels.tolist(), xs.tolist(), ys.tolist(), strict=True), key=lambda one: one[2]):
        name = short(evidence.names[label], 18)
        width = 6.2 * len(name)
        side = "start" if x + width < 780 else "end"
        left = x + 6 if side == "start" else x - 6 - width
        if all(abs(y - other_y) > 10 or left > end or left + width < start for start, end, other_y in placed):
            placed.append((left, left + width, y))
            parts.append(text(x + 6 if side == "start" else x - 6, y + 3.5, name, side))
    return parts


def _drawn(evidence: Evidence) -> list[int]:
    positives, negatives = evidence.truth.counts()
    order = np.argsort(-positives, kind="stable")
    return [label for label in order.tolist() if positives[label] and negatives[label]][:MULTIPLES]


def _curve(evidence: Evidence, found: Thresholded, values: NDArray[np.float64], label: int) -> Html:
    known = evidence.known[:, label]
    truth = evidence.truth.positives[:, [label]].toarray().ravel().astype(bool)[known]
    thresholds, f1 = f1_curve(found.scores[known, label], truth)
    best = int(np.argmax(f1))
    box = Box(30, 30, 218, 112)
    x, y = Scale(float(thresholds[0]), float(thresholds[-1]), box.left, box.right), Scale(0, 1, box.bottom, box.top)
    kept = np.unique(np.linspace(0, len(f1) - 1, MOST_POINTS).astype(int))
    name, threshold = evidence.names[label], float(values[label])
    parts = [
        text(0, 12, short(name, 30), class_="name"),
        frame(box, x, y, most=(3, 2)),
        path(x(thresholds[kept]), y(f1[kept]), class_="line strong"),
        element(
            "circle",
            cx=round(float(x(thresholds[best])), 1),
            cy=round(float(y(f1[best])), 1),
            r=3.2,
            class_="mark-full",
        ),
    ]
    own = float(evidence.report.per_label["f1"][label])
    words = f"best F1 {number(f1[best])} at {number(float(thresholds[best]))}"
    if not math.isnan(threshold):
        parts.append(_upright(x, box, threshold, "mark-line"))
        words = f"F1 {number(own)} at {number(threshold)}; " + words
    if found.layer is not None:
        parts.append(_upright(x, box, found.usual, "line dashed"))
    parts.append(text(218, 12, f"F1 {number(own, 2)}", "end"))
    return drawing(226, 132, f"F1 of {name} against its threshold", words, *parts)


def _upright(x: Scale, box: Box, value: float, kind: str) -> Html:
    """Draw a line at a value; an arrow at the border if it lies outside."""
    if x.low <= value <= x.high:
        at = float(x(value))
        return path([at, at], [box.top, box.bottom], class_=kind)
    at, side = (box.left, -1) if value < x.low else (box.right, 1)
    tip, back = at + 5 * side, at - 3 * side
    middle = (box.top + box.bottom) / 2 + (9 if "dashed" in kind else 0)
    return path([back, tip, back], [middle - 4, middle, middle + 4], class_=kind)
