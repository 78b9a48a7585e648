"""What the rows and their labels are like."""

from __future__ import annotations

import numpy as np

from multimargin.inspection import LabelDescription
from multimargin.report.evidence import Evidence
from multimargin.report.html import Html, element, table
from multimargin.report.numbers import count, number, percent, significant
from multimargin.report.sections.part import Part, details, note
from multimargin.report.svg import Box, Scale, drawing, frame, path, short, text

__all__ = ["data_section"]

PAIRS_SHOWN = 10
NAMED_BARS = 24


def data_section(evidence: Evidence) -> Part:
    """Rows, labels, how rare they are and which depend on each other."""
    here, seen = evidence.description, evidence.train_description
    described = [here] if seen is None else [seen, here]
    header = ["", "these rows"] if seen is None else ["", "training rows", "these rows"]
    columns = [_facts(one) for one in described]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    if len(getattr(evidence.X, "shape", ())) == 2:
        rows.insert(1, ["features", *[count(evidence.X.shape[1])] * len(columns)])
    content: list[object] = [
        element(
            "div",
            element("div", table(header, rows)),
            element("figure", _label_counts(evidence), element("figcaption", _counts_caption(evidence))),
            class_="halves",
        ),
    ]
    if len(here.dependence.columns):
        content.append(_dependence(seen or here))
    return Part("data", "Data and labels", tuple(content))


def _facts(one: LabelDescription) -> dict[str, str]:
    pairs = one.dependence
    return {
        "rows": count(one.n_samples),
        "labels": count(one.n_labels),
        "labels of a row (cardinality)": significant(one.cardinality),
        "distinct label sets": count(one.n_sets),
        "of them seen once": count(one.n_sets_once),
        "rows with the largest set": percent(one.largest_set_share),
        "rows without labels": count(one.n_empty_rows),
        "unknown cells": percent(one.unknown),
        "mean imbalance (MeanIR)": significant(one.mean_imbalance),
        "rare beside frequent (SCUMBLE)": number(one.scumble, 4),
        "dependent pairs of labels": f"{count(int(np.count_nonzero(pairs.significant)))} of {count(pairs.n_tests)}",
    }


def _counts_caption(evidence: Evidence) -> str:
    rows = "these rows" if evidence.train is None else "these rows (bars) and in the training rows (marks)"
    return f"How many of {rows} have each label, the most frequent first."


def _label_counts(evidence: Evidence) -> Html:
    """Bars of the labels' positives; with many labels a curve on logarithmic scales."""
    here, seen = evidence.truth.counts()[0], evidence.train_positives
    order = np.argsort(-here, kind="stable")
    most = max(int(here.max()), 1, 1 if seen is None else int(seen.max()))
    described = (
        f"The most frequent label, {evidence.names[order[0]]}, has {here[order[0]]:,} rows; "
        f"the median is {np.median(here):,.0f}, the fewest {here.min():,}."
    )
    if len(here) > NAMED_BARS:
        return _count_curve(here[order], None if seen is None else np.sort(seen)[::-1], most, described)
    height = 17 * len(here) + 26
    x = Scale(0, most, 150, 500)
    parts: list[Html] = []
    for rank, label in enumerate(order.tolist()):
        top = 17 * rank
        end = float(x(here[label]))
        parts.append(text(142, top + 11.5, short(evidence.names[label], 22), "end", class_="name"))
        bar = {"x": 150, "y": top + 3, "width": max(end - 150, 0.5), "height": 10, "class_": "bar"}
        parts.append(element("rect", **bar))
        if seen is not None:
            at = float(x(seen[label]))
            parts.append(path([at, at], [top + 1, top + 15], class_="mark-line"))
        words_at = end if seen is None else max(end, float(x(seen[label])))
        parts.append(text(words_at + 5, top + 11.5, count(int(here[label]))))
    parts.append(frame(Box(150, 0, 500, height - 22), x, None))
    return drawing(545, height, "Rows of each label", described, *parts)


def _count_curve(here: np.ndarray, seen: np.ndarray | None, most: int, described: str) -> Html:
    box = Box(46, 22, 500, 210)
    x, y = Scale(1, len(here), box.left, box.right, log=True), Scale(1, max(most, 2), box.bottom, box.top, log=True)
    parts = [frame(box, x, y, x_words="rank of the label", y_words="rows with the label")]
    for counts, kind in ((here, "line strong"), (seen, "line dashed")):
        if counts is not None and (counts > 0).any():
            kept = counts[counts > 0]
            parts.append(path(*_thinned(x(np.arange(1, len(kept) + 1)), y(kept)), class_=kind))
    return drawing(510, 244, "Rows of each label, by rank", described, *parts)


def _thinned(xs: np.ndarray, ys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out points that cannot be told from the last one."""
    cells = np.floor(xs / 2)
    keep = np.concatenate([[True], cells[1:] != cells[:-1]])
    keep[-1] = True
    return xs[keep], ys[keep]


def _dependence(one: LabelDescription) -> Html:
    pairs = one.dependence
    found = int(np.count_nonzero(pairs.significant))
    rows = []
    for k in range(min(PAIRS_SHOWN, len(pairs.columns))):
        first, second = (str(name) for name in one.names[pairs.columns[k]])
        numbers = [count(pairs.together[k]), number(pairs.phi[k]), significant(pairs.lift[k], 3)]
        rows.append([f"{first} · {second}", *numbers, significant(pairs.q_value[k], 2)])
    share = f"{count(found)} of {count(pairs.n_tests)} pairs depend on each other"
    return details(
        f"The strongest pairs: {share}",
        table(["pair", "together", "φ", "lift", "q"], rows),
        note(
            "φ is the correlation of two labels, lift how often they come together over how often independent labels "
            "would; q after Benjamini and Hochberg. The features are left out: labels that share theirs depend on each "
            "other."
        ),
    )
