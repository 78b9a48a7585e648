"""Steps that leave columns out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.feature_selection import SelectKBest, VarianceThreshold, chi2, f_classif

from multimargin.fitted_rules import Rule
from multimargin.pipelines.step import Step, any_floats, columns, none_or

__all__ = ["STEPS"]

compared = any_floats("features")  # a column that says nothing has the score NaN, one that says all inf


def _best(step: Any) -> dict[str, Rule]:
    return {**columns(), "scores_": compared, "pvalues_": none_or(compared)}


def _number_of_best(step: Any) -> int:
    return int(step.n_features_in_ if step.k == "all" else min(step.k, step.n_features_in_))


def _varying(step: Any) -> dict[str, Rule]:
    return {**columns(), "variances_": compared}


def _number_of_varying(step: Any) -> int:
    return int(np.count_nonzero(step.variances_ > step.threshold))


STEPS = (
    Step(SelectKBest, _best, _number_of_best, words={"score_func": {"chi2": chi2, "f_classif": f_classif}}),
    Step(VarianceThreshold, _varying, _number_of_varying),
)
