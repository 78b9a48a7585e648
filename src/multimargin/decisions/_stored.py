"""Rules of what wrappers keep, to which model files are held: no file may make a decision fail or answer with NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.decisions._lines import Calibration
from multimargin.decisions._scoring import RULES
from multimargin.decisions.thresholds import Thresholds
from multimargin.fitted_rules import LARGEST, Sizes, array_of, count, expect, is_real, names, number

__all__ = ["any_number", "calibration_rule", "thresholds_rule"]

ROW_RULES = ("at-least-one", "rcut", "decode", "seen-sets")
"""Rules that may look at a row as a whole, for which they need log-odds."""


def any_number(value: Any, sizes: Sizes) -> None:
    """Rule of a number that is only shown: it may be NaN."""
    expect(is_real(value), f"must be a number; got {value!r}")


def calibration_rule(value: Any, sizes: Sizes) -> None:
    """Rule of a calibration: finite lines, and steps that rise from score to score inside (0, 1)."""
    expect(type(value) is Calibration, f"must be a Calibration; it is a {type(value).__name__}")
    array_of("labels 2", -LARGEST, LARGEST, "f8")(value.lines, sizes)
    expect(isinstance(value.from_probabilities, bool), "must say whether scores are probabilities")
    if value.prior is not None:
        expect(isinstance(value.prior, tuple) and len(value.prior) == 4, "must have a prior of four numbers")
        for part in value.prior:
            number()(part, sizes)
    expect(isinstance(value.steps, dict), "must have a dict of steps")
    for label, points in value.steps.items():
        expect(type(label) is int and 0 <= label < sizes["labels"], f"has steps of label {label!r}, which is none")
        expect(isinstance(points, tuple) and len(points) == 2, "must have steps of scores and probabilities")
        own: Sizes = {}
        scores, probabilities = points
        array_of("steps", types="f8")(scores, own)
        array_of("steps", np.finfo(float).tiny, np.nextafter(1.0, 0.0), "f8")(probabilities, own)
        expect(own["steps"] > 0 and (np.diff(scores) > 0).all(), "must have steps at rising scores")
        expect((np.diff(probabilities) >= 0).all(), "must have steps that rise")


def thresholds_rule(value: Any, sizes: Sizes) -> None:
    """Rule of a decision: everything that its rule looks at is there, and nothing else."""
    expect(type(value) is Thresholds, f"must be a Thresholds; it is a {type(value).__name__}")
    known = {rule for rules in RULES.values() for rule in rules}
    expect(isinstance(value.rule, str) and value.rule in known, f"has the rule {value.rule!r}, which does not exist")
    expect(isinstance(value.scoring, str), "must name its metric")
    _thresholds(value.values, sizes, may_lack=value.rule in ROW_RULES)
    _thresholds(value.best, sizes, may_lack=value.rule in ROW_RULES)
    for part in (value.weights, value.n_positives):
        array_of("labels", 0.0, types="f8")(part, sizes)
    array_of("labels", 0, 1, "b1")(value.infeasible, sizes)
    names("labels")(value.names, sizes)
    for shown in (value.score, value.score_coverage, value.offset):
        any_number(shown, sizes)
    number(1 / LARGEST, LARGEST)(value.beta_squared, sizes)
    count(1 if value.rule == "rcut" else 0)(value.size, sizes)
    _what_the_rule_needs(value, sizes)


def _thresholds(value: Any, sizes: Sizes, may_lack: bool) -> None:
    """Thresholds of all labels, infinite for labels that are predicted always or never; or NaN for none at all."""
    missing = may_lack and isinstance(value, np.ndarray) and value.dtype.kind == "f" and bool(np.isnan(value).all())
    array_of("labels", -np.inf, np.inf, "f8")(np.zeros_like(value) if missing else value, sizes)


def _what_the_rule_needs(value: Thresholds, sizes: Sizes) -> None:
    compares = value.rule in (*ROW_RULES, "offset")
    expect((value.calibration is not None) == compares, "must have a calibration exactly if its rule compares labels")
    if value.calibration is not None:
        calibration_rule(value.calibration, sizes)
    if value.rule in ("offset", "at-least-one"):
        expect(not np.isnan(value.offset), "must have an offset")
    expect((value.sets is not None) == (value.rule == "seen-sets"), "must have sets for the rule 'seen-sets' alone")
    if value.sets is not None:
        _sets(value.sets, sizes)


def _sets(value: Any, sizes: Sizes) -> None:
    array_of("sets labels", 0, 1, "b1", sparse=True)(value, sizes)
    expect(isinstance(value, sp.csr_array) and sizes["sets"] > 0, "must have label sets, as a csr_array")
    fresh = sp.csr_array((value.data, value.indices, value.indptr), shape=value.shape)
    expect(fresh.has_canonical_format and bool(value.data.all()), "must have sets that name each label once")
