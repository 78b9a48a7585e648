"""The model, how it was trained, and how sure its optimum is."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from multimargin.report.evidence import Evidence
from multimargin.report.html import Html, element, join, table
from multimargin.report.layers import layers
from multimargin.report.numbers import MISSING, count, number, significant
from multimargin.report.sections.part import Part, note
from multimargin.report.svg import Box, Scale, drawing, frame, path

__all__ = ["shown_value", "training_section"]

GAP_WORDS = "The relative gap bounds how much better any model of this kind can be on the training objective."


def training_section(evidence: Evidence) -> Part:
    """Layers and their settings, the certificate and its curve."""
    content: list[object] = [_layers(evidence.model)]
    certificate = getattr(evidence.estimator, "certificate_", None)
    if certificate is None:
        content.append(note(f"{type(evidence.estimator).__name__} has no certificate: it is not trained to a bound."))
    else:
        numbers = _certificate(evidence.estimator, certificate)
        pictures = _convergence(getattr(evidence.estimator, "history_", None))
        content += [element("h3", "Certificate"), _verdict(certificate)]
        content.append(element("div", numbers, element("div", *pictures), class_="halves") if pictures else numbers)
    return Part("training", "Model and certificate", tuple(content))


def _layers(model: Any) -> Html:
    rows: list[tuple[str, object, object]] = []
    for layer in layers(model):
        if isinstance(layer, Pipeline):
            steps = " → ".join(type(step).__name__ for _, step in layer.steps[:-1])
            rows.append(("Pipeline", steps, ""))
            continue
        defaults = {name: known.default for name, known in signature(type(layer)).parameters.items()}
        changed: list[str] = []
        usual: list[str] = []
        for name, value in layer.get_params(deep=False).items():
            if name in ("callback", "verbose", "n_jobs") or isinstance(value, BaseEstimator):
                continue
            same = _same(value, defaults.get(name))
            (usual if same else changed).append(f"{name}={shown_value(value)}")
        rows.append((type(layer).__name__, _words(changed), _words(usual)))
    head = element("tr", join(element("th", words, scope="col") for words in ("layer", "settings", "defaults")))
    body = join(
        element("tr", element("th", name, scope="row"), element("td", own), element("td", usual, class_="soft"))
        for name, own, usual in rows
    )
    return element(
        "div", element("table", element("thead", head), element("tbody", body), class_="prose"), class_="wide"
    )


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and isinstance(value, str | int | float | bool | None) and value == default


def _words(settings: list[str]) -> object:
    return join((element("code", setting) for setting in settings), " ") if settings else MISSING


def shown_value(value: Any) -> str:
    """Return a parameter in a few words: of an array its shape."""
    shape = getattr(value, "shape", None)
    if shape is None and hasattr(value, "factor"):
        shape = (len(value.factor),) * 2
    if shape is not None:
        return f"{type(value).__name__} {' x '.join(map(str, shape))}" if len(shape) else str(value)
    words = repr(value)
    return words if len(words) <= 60 else words[:59] + "…"


def _verdict(certificate: Any) -> Html:
    proved = bool(certificate.converged)
    return element(
        "p",
        element("strong", "✓ Proved within the tolerance. " if proved else "✗ Not proved within the tolerance. "),
        GAP_WORDS,
        class_="verdict " + ("right" if proved else "wrong"),
    )


def _certificate(estimator: Any, certificate: Any) -> Html:
    names = {
        "primal": "objective of the model (primal)",
        "dual": "no model is below (dual)",
        "relative_gap": "relative gap",
        "global_relative_gap": "relative gap over all candidate cliques",
        "oracle_exact": "share of inference calls proved exact",
    }
    rows: list[list[object]] = [
        [words, significant(float(getattr(certificate, name)), 6 if name in ("primal", "dual") else 3)]
        for name, words in names.items()
        if isinstance(getattr(certificate, name, None), float | int)
    ]
    if getattr(estimator, "C_", None) is not None:
        rows.append(["cost of an error (C)", significant(float(estimator.C_), 3)])
    rows.append(["tolerance asked for (tol)", significant(float(estimator.tol), 3)])
    if getattr(estimator, "n_iter_", None) is not None:
        rows.append(["passes", count(int(np.max(estimator.n_iter_)))])
    history = getattr(estimator, "history_", None)
    if history is not None and len(history.time):
        rows.append(["seconds", number(float(history.time[-1]), 2)])
    return table(["", "value"], rows)


def _convergence(history: Any) -> list[Html]:
    """Draw the bounds over time, and the relative gap on a logarithmic scale."""
    if history is None or len(history.time) < 2:
        return []
    values = np.array([history.time, history.primal, history.dual], dtype=np.float64)
    time, primal, dual = values[:, np.isfinite(values).all(axis=0)]
    if len(time) < 2 or not time[-1] > 0:
        return []
    gap = np.maximum(primal - dual, 0) / np.where(primal > 0, primal, 1)
    box = Box(52, 24, 400, 170)
    x = Scale(0, float(time[-1]), box.left, box.right)
    spread = max(float(np.ptp(dual)), abs(float(primal.min())) * 1e-3, 1e-300)
    high = min(float(primal.max()), float(primal.min()) + 2 * spread) + 0.05 * spread
    y = Scale(float(dual.min()) - 0.05 * spread, high, box.bottom, box.top)
    xs, upper, lower = x(time), y(primal), y(dual)
    band = path(np.concatenate([xs, xs[::-1]]), np.concatenate([upper, lower[::-1]]), close=True, class_="band")
    bounds = drawing(
        410,
        204,
        "Bounds of the optimum over time",
        f"The objective of the model falls to {primal[-1]:.6g}, the lower bound rises to {dual[-1]:.6g} in "
        f"{time[-1]:.2f} seconds; the optimum lies between.",
        frame(box, x, y, x_words="seconds", y_words="objective (solid) and its lower bound (dashed)"),
        band,
        path(xs, upper, class_="line strong"),
        path(xs, lower, class_="line second dashed"),
    )
    positive = gap > 0
    if np.count_nonzero(positive) < 2:
        return [bounds]
    low = 10.0 ** np.floor(np.log10(gap[positive].min()))
    top = max(10.0 ** np.ceil(np.log10(gap[positive].max())), 10 * low)
    log_y = Scale(float(low), float(top), box.bottom, box.top, log=True)
    gaps = drawing(
        410,
        204,
        "Relative gap over time",
        f"From {gap[positive][0]:.2g} to {gap[-1]:.2g}.",
        frame(box, x, log_y, x_words="seconds", y_words="relative gap"),
        path(xs[positive], log_y(gap[positive]), class_="line strong"),
    )
    return [bounds, gaps]
