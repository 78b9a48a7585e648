"""Steps that fill cells without a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer

from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, expect, is_real
from multimargin.pipelines.step import Attributes, Step, any_floats, columns, none_or, one_of

__all__ = ["STEPS"]

DTYPES = ("float32", "float64", "int32", "int64")


def _a_number(value: Any, sizes: Sizes) -> None:
    expect(is_real(value), f"must be a number in a model file; got {value!r}")


def _rules(step: Any) -> dict[str, Rule]:
    keeps_all = step.keep_empty_features or step.strategy == "constant"
    types = "f4 f8 i4 i8"
    own: dict[str, Rule] = {"statistics_": array_of("features", -LARGEST, LARGEST, types)}
    if not keeps_all:  # NaN marks columns without a value, which are left out

        def statistics(value: Any, sizes: Sizes) -> None:
            any_floats("features", types)(value, sizes)
            own["statistics_"](np.nan_to_num(value), sizes)

        return {**columns(), "statistics_": statistics, "fit_dtype": one_of(*DTYPES)}
    return {**columns(), **own, "fit_dtype": one_of(*DTYPES)}


def _width(step: Any) -> int:
    return int(np.count_nonzero(~np.isnan(step.statistics_.astype(np.float64))))


def _take(step: Any, names: Mapping[str, Rule]) -> Attributes:
    found = {name: vars(step)[name] for name in sorted(names) if name in vars(step)}
    if "statistics_" not in found:
        return found
    if found["statistics_"].dtype == object and step._fit_dtype.kind != "O":  # a constant, of which X takes this type
        found["statistics_"] = found["statistics_"].astype(step._fit_dtype)
    return found | {"fit_dtype": str(step._fit_dtype)}


def _give(step: Any, fitted: Attributes) -> None:
    if "fit_dtype" in fitted:
        dtype = np.dtype(fitted["fit_dtype"])
        vars(step).update(_fit_dtype=dtype, _fill_dtype=dtype, indicator_=None)
    vars(step).update({name: value for name, value in fitted.items() if name != "fit_dtype"})


STEPS = (
    Step(
        SimpleImputer,
        _rules,
        _width,
        parameters={"missing_values": _a_number, "fill_value": none_or(_a_number), "add_indicator": one_of(False)},
        take=_take,
        give=_give,
    ),
)
