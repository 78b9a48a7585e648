"""How labels are tied: the prior the model was given, or the label graph it has learned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin.plots import LabelGraphDisplay, similarity_order
from multimargin.plots.label_graph import MEANING, label_ties
from multimargin.priors import LowRankPrior, check_prior
from multimargin.report.evidence import Evidence
from multimargin.report.html import Html, element, join, table
from multimargin.report.numbers import number, significant
from multimargin.report.sections.part import Part, details, note
from multimargin.report.svg import decimals, drawing, name_width, short, text

__all__ = ["ties_section"]

Floats = NDArray[np.float64]

MOST_LABELS = 60
MOST_NUMBERS = 12
TIES_LISTED = 12
LEVELS = 6
BLOCK = 512
STYLE = {1: "attract", -1: "exclude", 0: "mixed"}


def ties_section(evidence: Evidence) -> Part | None:
    """Draw a heat map of the prior, or a picture of the label graph, and the strongest ties in numbers."""
    estimator = evidence.estimator
    prior = getattr(estimator, "prior_", getattr(estimator, "prior", None))
    if prior is not None and not isinstance(prior, str) and not callable(prior):
        return _prior_part(evidence, _as_trained(prior, estimator.label_names_.tolist()))
    if hasattr(estimator, "pairs_") or getattr(estimator, "cliques_", None) is not None:
        return _graph_part(evidence)
    return None


def _prior_part(evidence: Evidence, prior: Any) -> Part | None:
    if evidence.truth.n_labels < 2:
        return None
    shown = _most_tied(prior)
    R = _submatrix(prior, shown)
    order = similarity_order(R)
    R, names = R[np.ix_(order, order)], [evidence.names[k] for k in shown[order]]
    left_out = evidence.truth.n_labels - len(names)
    words = f" The {len(names)} labels with the strongest ties; {left_out:,} are left out." if left_out else ""
    rows, columns = np.tril_indices(len(R), -1)
    strongest = np.argsort(-np.abs(R[rows, columns]), kind="stable")[:TIES_LISTED]
    listed = [
        [f"{names[rows[k]]} · {names[columns[k]]}", number(R[rows[k], columns[k]]), _tie(R[rows[k], columns[k]])]
        for k in strongest.tolist()
        if R[rows[k], columns[k]]
    ]
    caption = (
        "The prior R the model was given; similar labels stand side by side. Squares: labels that come together; "
        f"circles: labels that exclude each other; the fuller the stronger.{words}"
    )
    return Part(
        "ties",
        "Ties between labels: the prior",
        (
            element("figure", _heat_map(R, names), element("figcaption", caption)),
            details("The strongest ties in numbers", table(["pair", "R", ""], listed)) if listed else "",
        ),
    )


def _as_trained(prior: Any, names: list[Any]) -> Any:
    """Return the prior in the order of the labels; fit has checked it, eigenvalues included."""
    if isinstance(prior, LowRankPrior):
        return check_prior(prior, names)
    if hasattr(prior, "loc"):
        prior = prior.loc[names, names]
    return np.asarray(prior.toarray() if hasattr(prior, "toarray") else prior, dtype=np.float64)


def _tie(value: float) -> str:
    return "together" if value > 0 else "exclude each other"


def _most_tied(prior: Any) -> NDArray[np.intp]:
    """Return the labels with the largest sums of ties to others, in their own order; in blocks, R may be large."""
    low_rank = isinstance(prior, LowRankPrior)
    n = len(prior.factor) if low_rank else len(prior)
    total = np.zeros(n)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(start + BLOCK, n))
        block = np.abs(prior.factor[rows] @ prior.factor.T if low_rank else prior[rows])
        total[rows] = block.sum(axis=1) - block[np.arange(len(block)), np.arange(rows.start, rows.stop)]
    return np.sort(np.argsort(-total, kind="stable")[:MOST_LABELS])


def _submatrix(prior: Any, shown: NDArray[np.intp]) -> Floats:
    if isinstance(prior, LowRankPrior):
        factor = prior.factor[shown]
        return np.asarray(factor @ factor.T + np.diag(np.asarray(prior.diagonal)[shown]), dtype=np.float64)
    return np.asarray(prior, dtype=np.float64)[np.ix_(shown, shown)]


def _heat_map(R: Floats, names: list[str]) -> Html:
    """Draw the part below the diagonal: squares for positive ties, circles for negative ones."""
    n = len(R)
    cell = float(np.clip(640 / n, 12, 34))
    left, top = name_width(names, 22), 6.0
    off = np.abs(R - np.diag(np.diag(R)))
    limit = float(off.max()) or 1.0
    levels = np.ceil(off / limit * LEVELS - 1e-9).astype(int)
    shapes: dict[tuple[str, int], list[str]] = {}
    parts: list[Html] = []
    numbered = n <= MOST_NUMBERS
    for i in range(n):
        y = top + i * cell
        parts.append(text(left - 6, y + cell / 2 + 3.5, short(names[i], 22), "end", class_="name"))
        for j in range(i):
            x = left + j * cell
            if levels[i, j] and off[i, j] >= 0.02 * limit:
                kind = "attract" if R[i, j] > 0 else "exclude"
                shapes.setdefault((kind, int(levels[i, j])), []).append(_cell(x, y, cell, R[i, j] > 0))
            if numbered:
                parts.append(text(x + cell / 2, y + cell / 2 + 4, number(R[i, j], 2), "middle", class_="in-cell"))
        parts.append(text(left + (i + 0.5) * cell, y + cell / 2 + 4, "·", "middle"))
    drawn = [
        element("path", d="".join(cells), class_=kind, fill_opacity=f"{level / LEVELS * 0.85:.2f}")
        for (kind, level), cells in sorted(shapes.items())
    ]
    bottom = top + n * cell
    slope = -60 if cell > 20 else -90
    for j, name in enumerate(names[:-1]):
        x = left + (j + 0.5) * cell + 3.5
        place = f"rotate({slope} {decimals(x)} {decimals(bottom + 8)})"
        parts.append(text(x, bottom + 8, short(name, 22), "end", transform=place))
    strongest = np.unravel_index(int(np.argmax(np.tril(off, -1))), off.shape)
    words = (
        f"{n} labels. The strongest tie is between {names[strongest[0]]} and {names[strongest[1]]}: "
        f"{number(R[strongest])}."
    )
    return drawing(
        left + n * cell + 10, bottom + name_width(names, 22) + 4, "Prior between labels", words, *drawn, *parts
    )


def _cell(x: float, y: float, size: float, square: bool) -> str:
    inner = size - 1.5
    if square:
        side = decimals(inner)
        return f"M{decimals(x + 0.75)} {decimals(y + 0.75)}h{side}v{side}h-{side}z"
    r, across = decimals(inner / 2), decimals(inner)
    return f"M{decimals(x + 0.75)} {decimals(y + size / 2)}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0"


def _graph_part(evidence: Evidence) -> Part:
    pairs, weights, signs = label_ties(evidence.estimator)
    graph = LabelGraphDisplay(evidence.names, pairs=pairs, weights=weights, signs=signs, max_labels=MOST_LABELS)
    if not len(graph.pairs):
        return Part(
            "ties", "Ties between labels", (element("p", "No two labels are tied: each is predicted by itself."),)
        )
    words = []
    if graph.without_ties:
        few = len(graph.without_ties) <= 8
        words.append(
            f" Without ties: {', '.join(map(str, graph.without_ties))}."
            if few
            else f" {len(graph.without_ties):,} labels have no ties."
        )
    strongest = np.argsort(-graph.weights, kind="stable")
    listed = [
        [
            " · ".join(graph.label_names[end] for end in graph.pairs[k].tolist()),
            significant(float(graph.weights[k]), 3),
            MEANING[int(graph.signs[k])],
        ]
        for k in strongest[:TIES_LISTED].tolist()
    ]
    caption = (
        "Labels that the model ties, wider the stronger. Solid: they attract each other; dashed: they exclude each "
        f"other; dotted: it depends on the row.{''.join(words)}"
    )
    return Part(
        "ties",
        "Ties between labels: the graph",
        (
            element("figure", _ring(graph), element("figcaption", caption)),
            details(f"The strongest of {len(graph.pairs):,} ties", table(["pair", "weight", ""], listed)),
            note("Ties are given the features: what is left of the dependence of labels once these are known."),
        ),
    )


def _ring(graph: LabelGraphDisplay) -> Html:
    """Draw labels on a circle, tied ones near each other, and ties as curves through it."""
    n = len(graph.label_names)
    matrix = np.zeros((n, n))
    first, second = graph.pairs.T
    matrix[first, second] = matrix[second, first] = graph.weights
    np.fill_diagonal(matrix, graph.weights.max())
    position = np.empty(n, dtype=int)
    position[similarity_order(matrix)] = np.arange(n)
    angle = 2 * np.pi * position / n - np.pi / 2
    radius = 150.0 + 3.0 * max(n - 20, 0)
    centre_x, centre_y = radius + 150, radius + 40 + (60 if n > 20 else 0)
    xs, ys = centre_x + radius * np.cos(angle), centre_y + radius * np.sin(angle)
    strength = graph.weights / graph.weights.max()
    parts = []
    for k in np.argsort(graph.weights, kind="stable").tolist():
        a, b = graph.pairs[k].tolist()
        bend = 0.45
        control = [
            (1 - bend) * (one[a] + one[b]) / 2 + bend * centre for one, centre in ((xs, centre_x), (ys, centre_y))
        ]
        curve = f"M{xs[a]:.1f} {ys[a]:.1f}Q{control[0]:.1f} {control[1]:.1f} {xs[b]:.1f} {ys[b]:.1f}"
        width = f"{0.8 + 4.2 * strength[k]:.1f}"
        parts.append(element("path", d=curve, class_=f"tie {STYLE[int(graph.signs[k])]}", stroke_width=width))
    for label, name in enumerate(graph.label_names):
        parts.append(element("circle", cx=f"{xs[label]:.1f}", cy=f"{ys[label]:.1f}", r=4, class_="mark-full"))
        parts.append(_ring_name(name, float(angle[label]), centre_x, centre_y, radius + 10, n > 20))
    strongest = int(np.argmax(graph.weights))
    names = " and ".join(graph.label_names[end] for end in graph.pairs[strongest].tolist())
    words = f"{n} labels with {len(graph.pairs)} ties; the strongest is between {names}."
    return drawing(2 * centre_x, 2 * centre_y, "Label graph", words, join(parts))


def _ring_name(name: str, angle: float, centre_x: float, centre_y: float, radius: float, along: bool) -> Html:
    """Write a name outside the circle: along its ray if there are many."""
    x, y = centre_x + radius * math.cos(angle), centre_y + radius * math.sin(angle)
    if not along:
        side = "middle" if abs(math.cos(angle)) < 0.2 else "start" if math.cos(angle) > 0 else "end"
        return text(x, y + 4 + 6 * math.sin(angle), short(name, 24), side, class_="name")
    degrees, side = math.degrees(angle), "start"
    if math.cos(angle) < 0:
        degrees, side = degrees + 180, "end"
    place = f"rotate({degrees:.1f} {x:.1f} {y:.1f})"
    return text(x, y + 3.5, short(name, 22), side, class_="name", transform=place)
