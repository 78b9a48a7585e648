"""Whether probabilities mean what they say."""

from __future__ import annotations

import numpy as np

from multimargin import metrics
from multimargin.report.evidence import Evidence
from multimargin.report.html import Html, element
from multimargin.report.numbers import number
from multimargin.report.sections.part import Part, facts, note
from multimargin.report.svg import Box, Scale, drawing, frame, path, short, side_by_side, text

__all__ = ["probabilities_section"]

MULTIPLES = 12
POOLED_BINS, LABEL_BINS = 15, 10


def probabilities_section(evidence: Evidence) -> Part | None:
    """Scores of the probabilities, and the share of positives against them."""
    p = evidence.probabilities
    if p is None:
        return None
    truth = evidence.truth.positives.toarray().astype(np.float64)
    truth[~evidence.known] = np.nan
    pooled = metrics.reliability(evidence.truth, p, n_bins=POOLED_BINS)
    own, base = evidence.values["log-loss"], evidence.constants["log-loss"]
    summary = {
        "log-loss skill": number(1 - own / base) if base > 0 else number(np.nan),
        "log-loss": f"{number(own, 4)} (frequencies alone {number(base, 4)})",
        "Brier score": number(evidence.values["brier-score"], 4),
        "calibration error": number(pooled.error, 4),
        "squared, without noise": number(pooled.debiased_squared_error, 5),
    }
    positives = evidence.truth.counts()[0]
    order = [label for label in np.argsort(-positives, kind="stable").tolist() if positives[label]][:MULTIPLES]
    pictures = [_picture("all labels", pooled)]
    for label in order:
        one = metrics.reliability(truth[:, [label]], p[:, [label]], n_bins=LABEL_BINS)
        pictures.append(_picture(evidence.names[label], one))
    return Part(
        "probabilities",
        "Probabilities",
        (
            facts(summary),
            side_by_side(pictures),
            note(
                "Share of positives (up) against probability (right), in bins of equally many cells; bars are Wilson's "
                "intervals of 90\u2009%. On the diagonal, probabilities mean what they say. ",
                element("b", "e"),
                f" is the calibration error, biased upwards. All labels pooled and the {len(order)} most frequent.",
            ),
        ),
    )


def _picture(name: str, one: metrics.Reliability) -> Html:
    box = Box(30, 24, 166, 150)
    x, y = Scale(0, 1, box.left, box.right), Scale(0, 1, box.bottom, box.top)
    parts = [
        text(0, 12, short(name, 20), class_="name"),
        text(166, 12, f"e {number(one.error, 3)}", "end"),
        frame(box, x, y, most=(2, 2)),
        path([box.left, box.right], [box.bottom, box.top], class_="line dashed"),
    ]
    xs, ys = x(one.probability), y(one.share)
    for at, low, high in zip(xs, y(one.low), y(one.high), strict=True):
        parts.append(path([at, at], [low, high], class_="stem"))
    parts.append(path(xs, ys, class_="line strong"))
    parts += [
        element("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r=2.4, class_="mark-full") for a, b in zip(xs, ys, strict=True)
    ]
    words = "; ".join(f"{p:.2f} said, {s:.2f} found" for p, s in zip(one.probability, one.share, strict=True))
    return drawing(176, 172, f"Reliability of {name}", words, *parts)
