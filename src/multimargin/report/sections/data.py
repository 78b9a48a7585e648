"""What the rows and their labels are like."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multimargin.inspection import LabelDescription
from multimargin.report.constants import label_frequencies
from multimargin.report.evidence import Evidence
from multimargin.report.html import Html, element, table
from multimargin.report.numbers import count, number, percent, significant
from multimargin.report.sections.part import Part, details, note
from multimargin.report.svg import Box, Scale, decimals, drawing, frame, name_width, path, short, text

__all__ = ["data_section"]

Floats = NDArray[np.float64]

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
            element("figure", _label_shares(evidence), element("figcaption", _caption(evidence))),
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


def _caption(evidence: Evidence) -> str:
    if evidence.train is None:
        return "Share of the rows that have each label, the most frequent first."
    here, seen = ("bars", "marks") if len(evidence.names) <= NAMED_BARS else ("solid", "dashed")
    return f"Share of these rows ({here}) and of the training rows ({seen}) that have each label."


def _label_shares(evidence: Evidence) -> Html:
    """Bars of the labels' frequencies; with many labels a curve on logarithmic scales."""
    here = label_frequencies(evidence.truth)
    seen = None if evidence.train is None else label_frequencies(evidence.train[1])
    order = np.argsort(-here, kind="stable")
    described = (
        f"The most frequent label, {evidence.names[order[0]]}, is in {percent(here[order[0]])} of the rows; the median "
        f"is {percent(float(np.median(here)))}, the least {percent(float(here.min()))}."
    )
    if len(here) > NAMED_BARS:
        return _share_curve(here[order], None if seen is None else np.sort(seen)[::-1], described)
    height = 17 * len(here) + 26
    left = name_width(evidence.names, 22)
    box = Box(left, 0, left + 350, height - 22)
    most = max(float(here.max()), 0.0 if seen is None else float(seen.max()), 0.01)
    x = Scale(0, 100 * most, box.left, box.right)
    parts: list[Html] = [frame(box, x, None)]
    for rank, label in enumerate(order.tolist()):
        top = 17 * rank
        end = float(x(100 * here[label]))
        parts.append(text(box.left - 8, top + 11.5, short(evidence.names[label], 22), "end", class_="name"))
        width = decimals(max(end - box.left, 0.5))
        parts.append(element("rect", x=box.left, y=top + 3, width=width, height=10, class_="bar"))
        mark = end
        if seen is not None:
            mark = float(x(100 * seen[label]))
            parts.append(path([mark, mark], [top + 1, top + 15], class_="mark-line"))
        parts.append(text(max(end, mark) + 6, top + 11.5, percent(float(here[label]))))
    return drawing(box.right + 55, height, "Share of the rows that have each label", described, *parts)


def _share_curve(here: Floats, seen: Floats | None, described: str) -> Html:
    box = Box(52, 22, 500, 210)
    both = here if seen is None else np.concatenate([here, seen])
    low = float(both[both > 0].min(initial=1.0))
    y = Scale(100 * low * 0.9, 100 * max(float(both.max()), 2 * low), box.bottom, box.top, log=True)
    x = Scale(1, len(here), box.left, box.right, log=True)
    parts = [frame(box, x, y, x_words="rank of the label", y_words="% of the rows have it")]
    for shares, kind in ((here, "line strong"), (seen, "line second dashed")):
        if shares is not None and (shares > 0).any():
            kept = shares[shares > 0]
            parts.append(path(*_thinned(x(np.arange(1, len(kept) + 1)), y(100 * kept)), class_=kind))
    return drawing(510, 244, "Share of the rows that have each label, by rank", described, *parts)


def _thinned(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
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
