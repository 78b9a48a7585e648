"""Steps that shift and scale columns or rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, expect, number
from multimargin.pipelines.step import Step, columns, none_or, two_numbers

__all__ = ["STEPS"]

shift = array_of("features", -LARGEST, LARGEST)
divisor = array_of("features", 1 / LARGEST, LARGEST)
factor = array_of("features", -LARGEST, LARGEST)


def _rows_seen(value: Any, sizes: Sizes) -> None:
    """Rule of a number of rows, or of one for each column where cells were missing."""
    (array_of("features", 0, 2.0**62, "i4 i8 f4 f8") if isinstance(value, np.ndarray) else number(0))(value, sizes)


def _nothing(value: Any, sizes: Sizes) -> None:
    expect(value is None, "must be None")


def _standard(step: Any) -> dict[str, Rule]:
    return {
        **columns(),
        "mean_": shift if step.with_mean else none_or(shift),
        "var_": none_or(array_of("features", 0.0)),
        "scale_": divisor if step.with_std else _nothing,
        "n_samples_seen_": _rows_seen,
    }


def _min_max(step: Any) -> dict[str, Rule]:
    ends = dict.fromkeys(("data_min_", "data_max_", "data_range_", "min_"), array_of("features"))
    return {**columns(), **ends, "scale_": factor, "n_samples_seen_": _rows_seen}


def _max_abs(step: Any) -> dict[str, Rule]:
    return {**columns(), "max_abs_": array_of("features", 0.0), "scale_": divisor, "n_samples_seen_": _rows_seen}


def _robust(step: Any) -> dict[str, Rule]:
    centre, scale = shift if step.with_centering else _nothing, divisor if step.with_scaling else _nothing
    return {**columns(), "center_": centre, "scale_": scale}


STEPS = (
    Step(StandardScaler, _standard),
    Step(MinMaxScaler, _min_max, parameters={"feature_range": two_numbers}),
    Step(MaxAbsScaler, _max_abs),
    Step(RobustScaler, _robust, parameters={"quantile_range": two_numbers}),
    Step(Normalizer, lambda step: columns()),
)
