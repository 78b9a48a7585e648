"""Every label in a table that sorts and filters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multimargin.report.evidence import RARE, Evidence
from multimargin.report.html import Html, element, join
from multimargin.report.json_text import json_script
from multimargin.report.numbers import count, number
from multimargin.report.sections.part import Part

__all__ = ["labels_section"]

MOST_ROWS = 1000
"""Rows of the table that are on the page at once; the others are added on demand."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column of numbers: its heading, what it means, its values and how they are written."""

    heading: str
    meaning: str
    values: NDArray[np.float64]
    digits: int = 3

    def words(self, label: int) -> str:
        """Return the value of a label as text."""
        value = float(self.values[label])
        return count(value) if self.digits == 0 else number(value, self.digits)


def labels_section(evidence: Evidence) -> Part:
    """Make the table, its controls and the meaning of its columns."""
    columns = _columns(evidence)
    here = evidence.truth.counts()[0]
    order = np.argsort(-here, kind="stable")
    shown, rest = _shown_first(evidence, order)
    sorted_by = 1 + next(k for k, column in enumerate(columns) if column.heading == "rows")
    body = join(_row(evidence, columns, label) for label in shown.tolist())
    content: list[object] = [
        _controls(evidence, len(shown)),
        element(
            "div",
            element(
                "table",
                element("caption", "Metrics of each label. The headings are buttons that sort.", class_="hidden"),
                element("thead", element("tr", _heading("label", "", 0, sorted_by), *_headings(columns, sorted_by))),
                element("tbody", body),
                id="label-table",
            ),
            class_="wide tall",
            tabindex="0",
            role="region",
            aria_label="Labels",
        ),
        element("p", "All rows of the table are printed, also those a filter hides on the screen.", class_="print"),
    ]
    if len(rest):
        rows = [[evidence.names[label], *_cells(columns, label), int(evidence.rare[label])] for label in rest.tolist()]
        content.append(json_script("more-labels", rows))
    meanings = [element("div", element("dt", column.heading), element("dd", column.meaning)) for column in columns]
    content.append(element("dl", join(meanings), class_="meanings"))
    return Part("labels", "Label by label", tuple(content))


def _columns(evidence: Evidence) -> list[Column]:
    per_label = evidence.report.per_label
    columns = []
    if evidence.train_positives is not None:
        columns.append(Column("trained", "training rows with the label", evidence.train_positives.astype(float), 0))
    columns += [
        Column("rows", "rows with the label, of those reported on", per_label["support"], 0),
        Column("predicted", "rows for which it is predicted", per_label["predicted"], 0),
        Column("precision", "share of the predicted rows that have it", per_label["precision"]),
        Column("recall", "share of the rows with it that are predicted", per_label["recall"]),
        Column("F1", "harmonic mean of precision and recall", per_label["f1"]),
    ]
    if "average_precision" in per_label:
        meaning = "average precision of the rows in the order of the label's scores"
        columns.append(Column("AP", meaning, per_label["average_precision"]))
    thresholds = evidence.thresholds
    if thresholds is not None and not np.isnan(thresholds).all():
        columns.append(Column("threshold", "score above which it is predicted", thresholds))
    if evidence.shrinkage is not None:
        meaning = "weight of the label's own best threshold; the rest follows its frequency"
        columns.append(Column("own weight", meaning, evidence.shrinkage, 2))
    if evidence.log_loss_skill is not None:
        meaning = "1 \u2212 log-loss / log-loss of the label's frequency: above 0, probabilities say more than that"
        columns.append(Column("skill", meaning, evidence.log_loss_skill))
    if evidence.scores is not None and evidence.truth.n_labels > 1:
        meaning = "of the rows that have it, the worst place it took among the scores of its row"
        columns.append(Column("worst rank", meaning, _worst_ranks(evidence), 0))
    return columns


def _worst_ranks(evidence: Evidence) -> NDArray[np.float64]:
    """Of the rows with a label, the largest number of labels whose score is not below its own."""
    assert evidence.scores is not None
    worst = np.full(evidence.truth.n_labels, np.nan)
    cells = evidence.truth.positives
    for row in range(cells.shape[0]):
        present = cells.indices[cells.indptr[row] : cells.indptr[row + 1]]
        if len(present):
            ordered = np.sort(evidence.scores[row][evidence.known[row]])
            ranks = len(ordered) - np.searchsorted(ordered, evidence.scores[row, present], side="left")
            worst[present] = np.fmax(worst[present], ranks)
    return worst


def _shown_first(evidence: Evidence, order: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the labels whose rows are on the page from the start: the most frequent, and those of lowest F1."""
    if len(order) <= MOST_ROWS:
        return order, order[:0]
    f1 = np.nan_to_num(evidence.report.per_label["f1"][order], nan=1.0)
    chosen = np.zeros(len(order), dtype=bool)
    chosen[: MOST_ROWS // 2] = True
    worst = np.argsort(np.where(chosen, np.inf, f1), kind="stable")[: MOST_ROWS - MOST_ROWS // 2]
    chosen[worst] = True
    return order[chosen], order[~chosen]


def _controls(evidence: Evidence, n_shown: int) -> Html:
    n_labels, n_rare = evidence.truth.n_labels, int(evidence.rare.sum())
    search = element(
        "label",
        element("span", "Filter by name"),
        element("input", type="search", id="label-filter", autocomplete="off", spellcheck="false"),
        element("kbd", "/", title="The key / goes to the filter, Esc clears it."),
    )
    parts: list[object] = [search]
    if 0 < n_rare < n_labels:
        where = "training rows" if evidence.train is not None else "rows"
        words = element("span", f"rare only: at most {RARE} {where} ({n_rare:,})")
        parts.append(element("label", element("input", type="checkbox", id="label-rare"), words))
    if n_shown < n_labels:
        parts.append(element("button", f"Show all {n_labels:,}", type="button", id="label-all"))
    parts.append(element("output", f"{n_shown:,} labels", id="label-count", role="status", aria_live="polite"))
    return element("div", *parts, class_="controls", hidden="")


def _headings(columns: list[Column], sorted_by: int) -> list[Html]:
    return [_heading(column.heading, column.meaning, k, sorted_by) for k, column in enumerate(columns, start=1)]


def _heading(words: str, meaning: str, column: int, sorted_by: int) -> Html:
    state = {"aria_sort": "descending" if column == sorted_by else "none"}
    return element("th", element("button", words, type="button", title=meaning or "name"), scope="col", **state)


def _cells(columns: list[Column], label: int) -> list[tuple[str, str]]:
    """Return of each column its words and the value that is sorted by."""
    return [(column.words(label), _value(float(column.values[label]))) for column in columns]


def _value(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.7g}"


def _row(evidence: Evidence, columns: list[Column], label: int) -> Html:
    """Make a row; written out here, because there may be thousands."""
    parts = [element("th", evidence.names[label], scope="row")]
    for column, (words, value) in zip(columns, _cells(columns, label), strict=True):
        share = f' style="--share:{float(value):.3f}"' if column.heading == "F1" and value else ""
        parts.append(Html(f'<td data-v="{value}"{share}>{words}</td>'))
    rare = Html(" data-rare") if evidence.rare[label] else Html("")
    return Html(f"<tr{rare}>{join(parts)}</tr>")
