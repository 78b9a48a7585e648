"""The metrics of the model beside those of the best constant prediction and of one-vs-all."""

from __future__ import annotations

import math

from multimargin.metrics._registry import find_metric
from multimargin.report.evidence import Evidence
from multimargin.report.html import Html, element, table
from multimargin.report.layers import layers
from multimargin.report.numbers import number
from multimargin.report.sections.part import Part, details, note
from multimargin.report.svg import Scale, drawing, path

__all__ = ["HEADLINE", "expected_values", "headline_section", "is_loss", "metric_words"]

HEADLINE = {
    "macro-f1": "macro-F1",
    "micro-f1": "micro-F1",
    "example-f1": "example-F1",
    "subset-accuracy": "subset accuracy",
    "hamming-loss": "Hamming loss",
    "macro-average-precision": "macro average precision",
    "lrap": "label ranking average precision",
    "precision@1": "precision of the best label",
    "precision@3": "precision of the best 3",
    "ranking-loss": "ranking loss",
    "log-loss": "log-loss",
    "brier-score": "Brier score",
}


def headline_section(evidence: Evidence) -> Part:
    """Metrics, what they are compared with, and what training expected of them."""
    expected = expected_values(evidence.model)
    shown = [name for name in HEADLINE if name in evidence.values]
    shown += [name for name in expected if name in evidence.values and name not in shown]
    content: list[object] = [_table(evidence, shown, expected), _key(evidence), _how(evidence)]
    rest = [name for name in evidence.values if name not in shown and not name.startswith("samples-")]
    if rest:
        rows = [[name, number(evidence.values[name], 4), _left_out(evidence, name)] for name in rest]
        header = ["metric", "this model", "undefined, left out"]
        if not any(row[-1] for row in rows):
            header, rows = header[:-1], [row[:-1] for row in rows]
        content.append(details(f"{len(rest)} more metrics", table(header, rows)))
    return Part("metrics", "How good it is", tuple(content))


def is_loss(name: str) -> bool:
    """Whether smaller values are better."""
    return name in ("log-loss", "brier-score") or find_metric(name).loss


def metric_words(name: str) -> str:
    """Return what people call a metric."""
    return HEADLINE.get(name, name)


def expected_values(model: object) -> dict[str, float]:
    """Return what wrappers found on rows held out in training, each decided by a rule learned on the others."""
    found: dict[str, float] = {}
    for layer in layers(model):
        decision = getattr(layer, "decision_", None)
        nested = getattr(layer, "nested_score_", math.nan)
        if decision is not None and math.isfinite(nested):
            found.setdefault(decision.scoring, abs(nested))
        elif math.isfinite(nested) and getattr(layer, "beta", 1.0) == 1.0:
            found.setdefault("example-f1", nested)
        for name in ("log_loss_", "brier_"):
            value = getattr(layer, name, None)
            if value is not None:
                found.setdefault({"log_loss_": "log-loss", "brier_": "brier-score"}[name], float(value))
    return found


def _table(evidence: Evidence, shown: list[str], expected: dict[str, float]) -> Html:
    header = ["", "this model"]
    header += ["nested"] if expected else []
    header += ["one-vs-all"] if evidence.reference else []
    rows = []
    for name in shown:
        others = [expected.get(name, math.nan)] if expected else []
        others += [evidence.reference.report.values.get(name, math.nan)] if evidence.reference else []
        cells = [number(value) for value in (*others, evidence.constants[name])]
        words = metric_words(name) + (" ↓" if is_loss(name) else "")
        rows.append([words, element("strong", number(evidence.values[name])), *cells, _line(evidence, name)])
    return table([*header, "best constant", element("span", "from 0 to 1", class_="soft")], rows)


def _line(evidence: Evidence, name: str) -> Html:
    """Draw the values on a line from 0 to 1."""
    own, constant = evidence.values[name], evidence.constants[name]
    reference = evidence.reference.report.values.get(name, math.nan) if evidence.reference else math.nan
    x = Scale(0, 1, 6, 214)
    parts = [path([6, 214], [9, 9], class_="grid")]
    if math.isfinite(constant):
        at = float(x(constant))
        parts.append(path([at, at], [3, 15], class_="mark-line"))
    if math.isfinite(reference):
        at = float(x(reference))
        parts.append(path([at, at + 5, at, at - 5], [4, 9, 14, 9], close=True, class_="mark-open"))
    if math.isfinite(own):
        parts.append(element("circle", cx=round(float(x(own)), 1), cy=9, r=4.5, class_="mark-full"))
    values = {"this model": own, "one-vs-all": reference, "best constant": constant}
    words = ", ".join(f"{who} {number(value)}" for who, value in values.items() if math.isfinite(value))
    return drawing(220, 18, metric_words(name), words, *parts, class_="spark")


def _key(evidence: Evidence) -> Html:
    words = "● this model   "
    words += "◇ one-vs-all   " if evidence.reference else ""
    return element("p", words + "| best constant   ↓ smaller is better", class_="note key")


def _how(evidence: Evidence) -> Html:
    words = [
        "The best constant predicts one and the same label set for every row, chosen for each metric with these very "
        "labels: for macro-F1 every label that occurs, for micro-F1 and example-F1 the best frequent ones, for the "
        "Hamming loss those in more than half of the rows, for subset accuracy the most frequent set. It ranks labels "
        "by their frequency, and gives that as probability."
    ]
    if evidence.reference is not None:
        proof = "" if evidence.reference.converged else ", stopped before its tolerance was proved"
        words.append(
            f" One-vs-all is LinearM3L(C={evidence.reference.C:.4g}) without prior or tuned thresholds, trained on the "
            f"same training rows{proof}."
        )
    if expected_values(evidence.model):
        words.append(
            " Nested values are measured in training on rows held out, where thresholds and probabilities were learned "
            "on the others."
        )
    if evidence.thresholds is not None and hasattr(evidence.model, "decision_function"):
        words.append(" Labels are ranked by their scores less their thresholds.")
    skipped = evidence.report.skipped.get("macro-f1", 0)
    if skipped:
        words.append(
            f" {skipped:,} {'label' if skipped == 1 else 'labels'} neither present nor predicted "
            f"{'has' if skipped == 1 else 'have'} no F1 and {'is' if skipped == 1 else 'are'} left out of macro-F1."
        )
    return note(*words)


def _left_out(evidence: Evidence, name: str) -> str:
    return f"{evidence.report.skipped[name]:,}" if name in evidence.report.skipped else ""
