"""A model and what it is made of: wrappers around wrappers around a pipeline around an estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from multimargin.errors import InputError

__all__ = ["first_with", "fitted_label_names", "layers", "model_name", "preprocessing", "reaching", "trained"]


def layers(model: Any) -> Iterator[Any]:
    """Return the model and what it wraps, from the outside in; of a pipeline the last step is inside."""
    while model is not None:
        yield model
        model = model[-1] if isinstance(model, Pipeline) else getattr(model, "estimator_", None)


def trained(model: Any) -> Any:
    """Return the innermost estimator: the one with weights and a certificate."""
    *_, innermost = layers(model)
    return innermost


def preprocessing(model: Any) -> list[Any]:
    """Return the fitted pipelines without their last steps, in the order in which rows go through them."""
    found = [layer[:-1] for layer in layers(model) if isinstance(layer, Pipeline)]
    return [before for before in found if len(before.steps)]


def reaching(model: Any, X: Any, stop: Callable[[Any], bool]) -> tuple[Any, Any]:
    """Go inside until a layer that is wanted; return it with the rows as they reach it."""
    for layer in layers(model):
        if stop(layer):
            return layer, X
        if isinstance(layer, Pipeline) and len(layer.steps) > 1:
            X = layer[:-1].transform(X)
    msg = f"{type(model).__name__} has no such layer."
    raise LookupError(msg)


def first_with(model: Any, attribute: str) -> Any:
    """Return the outermost layer that has an attribute, or None."""
    return next((layer for layer in layers(model) if getattr(layer, attribute, None) is not None), None)


def fitted_label_names(model: Any) -> NDArray[Any] | None:
    """Return the names of the labels a model predicts, or None if it does not know them.

    A model that was not fitted, or that predicts categories, is refused.
    """
    kind = type(model).__name__
    if not hasattr(model, "predict"):
        msg = f"The model must be a fitted classifier of labels; got {kind}."
        raise InputError(msg)
    if hasattr(model, "signatures"):
        msg = f"The model must predict labels; {kind} predicts categories. Give its estimator_, with the attributes."
        raise InputError(msg)
    named = first_with(model, "label_names_")
    if named is not None:
        return np.asarray(named.label_names_)
    if first_with(model, "classes_") is None:
        msg = f"The model must be fitted; this {kind} was not. Call fit first."
        raise InputError(msg)
    return None


def model_name(model: Any) -> str:
    """Return the names of the layers, such as ``ThresholdTuner(LinearM3L)``; a pipeline is named by its last step."""
    names = [type(layer).__name__ for layer in layers(model) if not isinstance(layer, Pipeline)]
    return "(".join(names) + ")" * (len(names) - 1)
