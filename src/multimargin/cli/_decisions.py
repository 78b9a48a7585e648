"""From ``--thresholds METRIC`` and ``--calibrate METHOD`` to wrappers around a model, and what they found."""

from __future__ import annotations

import math
from typing import Any

from multimargin.errors import InputError
from multimargin.fitted_rules import last_step

__all__ = ["check_decisions", "decision_facts", "decision_lines", "read_metric", "trained", "wrapped"]

NUMBERS = {
    "-fbeta": (1, "macro-fbeta=2"),
    "cost": (2, "cost=1,5"),
    "precision-at-recall": (1, "precision-at-recall=0.9"),
    "recall-at-precision": (1, "recall-at-precision=0.9"),
}
"""How many numbers belong to the metrics whose names end like this, and an example."""


def check_decisions(thresholds: str | None, calibrate: str | None) -> None:
    """Refuse an unknown metric or method before any work is done."""
    from multimargin.decisions.calibration import METHODS

    if calibrate is not None and calibrate not in METHODS:
        msg = f"--calibrate takes one of {', '.join(METHODS)}; got {calibrate!r}."
        raise InputError(msg)
    if thresholds is not None:
        read_metric("--thresholds", thresholds)


def wrapped(estimator: Any, thresholds: str | None, calibrate: str | None) -> Any:
    """Wrap a model in what was asked for: probabilities first, thresholds on them."""
    from multimargin.decisions import LabelCalibrator, ThresholdTuner

    if calibrate is not None:
        estimator = LabelCalibrator(estimator, method=calibrate, random_state=0)
    if thresholds is not None:
        estimator = ThresholdTuner(estimator, **read_metric("--thresholds", thresholds), random_state=0)
    return estimator


def read_metric(option: str, text: str) -> dict[str, Any]:
    """Read ``macro-f1``, ``macro-fbeta=2``, ``cost=1,5`` or ``precision-at-recall=0.9``, as parameters of a tuner."""
    from multimargin.decisions._scoring import read_scoring

    name, _, value = text.partition("=")
    ending = next((ending for ending in NUMBERS if name.endswith(ending)), None)
    needed, example = NUMBERS.get(ending or "", (0, "macro-f1"))
    try:
        numbers = tuple(float(part) for part in value.split(",")) if value else ()
    except ValueError:
        numbers = (math.nan,)
    if len(numbers) != needed or not all(0 < number < math.inf for number in numbers):
        count = {0: "no number", 1: "one positive number", 2: "two positive numbers"}[needed]
        msg = f"{option} {name} takes {count} beside it; got {text!r}. Example: {option} {example}"
        raise InputError(msg)
    options: dict[str, Any] = {"scoring": (name, numbers[0]) if numbers else name}
    if ending == "cost":
        options = {"scoring": name, "costs": numbers}
    if ending == "-fbeta":
        options = {"scoring": name, "beta": numbers[0]}
    try:
        read_scoring(options["scoring"], 1, options.get("beta", 1.0), options.get("costs"), None)
    except InputError as error:
        msg = f"{option} {text}: {error}"
        raise InputError(msg) from None
    return options


def trained(model: Any) -> Any:
    """Return the model inside pipelines, thresholds, calibration and categories: the one with a certificate."""
    from multimargin import ZeroShotClassifier
    from multimargin.decisions import FixedThresholds, LabelCalibrator, ThresholdTuner

    model = last_step(model)
    while isinstance(model, FixedThresholds | LabelCalibrator | ThresholdTuner | ZeroShotClassifier):
        model = last_step(model.estimator_)
    return model


def decision_facts(model: Any) -> dict[str, Any]:
    """Return what tuning and calibration found on rows that were held out."""
    from multimargin.decisions import LabelCalibrator, ThresholdTuner

    facts: dict[str, Any] = {}
    model = last_step(model)
    while hasattr(model, "estimator_"):
        if isinstance(model, ThresholdTuner):
            facts["thresholds"] = {
                "scoring": model.decision_.scoring,
                "rule": model.rule_,
                "nested_score": model.nested_score_,
                "apparent_score": model.best_score_,
                "rare_labels": model.rare_labels_,
                "infeasible_labels": model.infeasible_labels_,
            }
        elif isinstance(model, LabelCalibrator):
            names = ("log_loss", "base_log_loss", "brier", "ece")
            found = {name: getattr(model, f"{name}_", None) for name in names}
            facts["calibration"] = {"method": model.method, **found}
        model = last_step(model.estimator_)
    return facts


def decision_lines(facts: dict[str, Any]) -> dict[str, str]:
    """Return these facts as lines for people."""
    lines = {}
    if tuned := facts.get("thresholds"):
        lines["thresholds"] = f"rule {tuned['rule']} for {tuned['scoring']}"
        lines["nested score"] = (
            f"{tuned['nested_score']:.4f} (on the scores it was tuned on {tuned['apparent_score']:.4f})"
        )
        if len(tuned["rare_labels"]):
            lines["rare labels"] = f"{len(tuned['rare_labels'])} with fewer than 5 positives to tune on"
    if calibrated := facts.get("calibration"):
        lines["probabilities"] = calibrated["method"]
        if calibrated["log_loss"] is not None:
            frequencies = f"frequencies alone {calibrated['base_log_loss']:.4f}"
            lines["log-loss held out"] = f"{calibrated['log_loss']:.4f} ({frequencies})"
    return lines
