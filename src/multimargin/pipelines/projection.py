"""Steps that map rows to other columns: random features, factors, principal components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.kernel_approximation import Nystroem, RBFSampler

from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, count, expect, number
from multimargin.pipelines.step import Attributes, Step, any_floats, columns, none_or, one_of

__all__ = ["STEPS"]

KERNELS = ("rbf", "linear", "poly", "polynomial", "sigmoid", "laplacian", "cosine", "chi2", "additive_chi2")
SHOWN = ("explained_variance_ratio_", "singular_values_")


def _nystroem(step: Any) -> dict[str, Rule]:
    positive = step.kernel in ("chi2", "additive_chi2")  # which take dense rows without negative numbers
    rows = array_of("outputs features", 0.0 if positive else -LARGEST, LARGEST, sparse=not positive)
    return {
        **columns(),
        "components_": rows,
        "normalization_": array_of("outputs outputs"),
        "component_indices_": array_of("outputs", 0, 2.0**62, "i4 i8"),
    }


def _number_of_components(step: Any) -> int:
    return int(step.components_.shape[0])


def _random(step: Any) -> dict[str, Rule]:
    return {**columns(), "random_weights_": array_of("features outputs"), "random_offset_": array_of("outputs")}


def _number_of_waves(step: Any) -> int:
    return int(step.random_weights_.shape[1])


def _with_width(width: Callable[[Any], int]) -> Callable[[Any, Attributes], None]:
    """Return what writes attributes, and the number of columns that scikit-learn keeps beside them."""

    def give(step: Any, fitted: Attributes) -> None:
        vars(step).update(fitted)
        if "n_features_in_" in fitted:
            step._n_features_out = width(step)

    return give


def _factors(step: Any) -> dict[str, Rule]:
    shown = dict.fromkeys((*SHOWN, "explained_variance_"), any_floats("outputs"))
    return {**columns(), "components_": array_of("outputs features"), **shown}


def _principal(step: Any) -> dict[str, Rule]:
    def as_many(value: Any, sizes: Sizes) -> None:
        count(1)(value, sizes)
        expect(value == sizes["outputs"], "must be the number of components")

    return {
        **_factors(step),
        "explained_variance_": array_of("outputs", 0.0),
        "mean_": array_of("features", -LARGEST, LARGEST),
        "noise_variance_": number(),
        "n_components_": as_many,
        "n_samples_": count(1),
    }


def _take_principal(step: Any, names: Any) -> Attributes:
    found = {name: vars(step)[name] for name in sorted(names) if name in vars(step)}
    if isinstance(found.get("noise_variance_"), np.ndarray | np.generic):
        found["noise_variance_"] = float(found["noise_variance_"])
    return found


STEPS = (
    Step(
        Nystroem,
        _nystroem,
        _number_of_components,
        parameters={"kernel": one_of(*KERNELS), "kernel_params": none_or(one_of(None))},
        unset=frozenset({"n_jobs"}),
        give=_with_width(_number_of_components),
    ),
    Step(RBFSampler, _random, _number_of_waves, give=_with_width(_number_of_waves)),
    Step(TruncatedSVD, _factors, _number_of_components),
    Step(PCA, _principal, _number_of_components, take=_take_principal),
)
