"""What a model file gives or takes of a pipeline and its steps."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from multimargin._model_contents import check_fitted, check_parameters
from multimargin.decisions._wrapper import DecisionWrapper
from multimargin.errors import ModelFileError
from multimargin.estimators.predictor import MultilabelPredictor
from multimargin.fitted_rules import BrokenRuleError
from multimargin.pipelines import imputing, projection, scaling, selection, texts
from multimargin.pipelines.step import OUTPUT, Attributes, Step
from multimargin.zero_shot import ZeroShotClassifier

__all__ = ["CLASSES", "REGISTRY", "contents", "make_model"]

REGISTRY: dict[type, Step] = {
    step.cls: step for step in (*scaling.STEPS, *imputing.STEPS, *texts.STEPS, *selection.STEPS, *projection.STEPS)
}
"""Steps that model files know."""

CLASSES: dict[str, type] = {cls.__name__: cls for cls in (Pipeline, *REGISTRY)}
"""Classes of scikit-learn that model files may name."""

KEPT = "passthrough"
AGAIN = "Fit and save the pipeline again."


def contents(model: Any) -> tuple[Attributes, Attributes]:
    """Return parameters and fitted attributes of a pipeline or a step, as they are stored."""
    parameters = model.get_params(deep=False)
    if type(model) is Pipeline:
        for name, step in model.steps[:-1]:
            if type(step) not in REGISTRY and step not in (None, KEPT):
                known = ", ".join(cls.__name__ for cls in REGISTRY)
                msg = (
                    f"The step {name!r} of the pipeline is a {type(step).__name__}, which model files do not know. "
                    f"Known steps: {known}. Use one of them, or store the pipeline with skops.io.dump(model, path)."
                )
                raise ModelFileError(msg)
        return parameters | {"memory": None}, {}
    kind = REGISTRY[type(model)]
    try:
        fitted = kind.take(model, kind.all_rules(model))
    except BrokenRuleError as error:
        msg = f"The words of {type(model).__name__} {error}. {AGAIN}"
        raise ModelFileError(msg) from error
    return kind.as_words(parameters), fitted


def make_model(cls: type[BaseEstimator], parameters: Attributes, fitted: Attributes) -> Any:
    """Make a pipeline or a step; raise ModelFileError unless it is as scikit-learn makes it."""
    if cls is Pipeline:
        return _pipeline(parameters, fitted)
    kind = REGISTRY[cls]
    step: Any = cls(**kind.from_words(parameters))
    check_parameters(step, functions=kind.words)
    check_fitted(cls, {name: getattr(step, name) for name in kind.parameters}, dict(kind.parameters), set())
    unset = [name for name in kind.unset if getattr(step, name) is not None]
    if unset:
        msg = f"{unset[0]} of {cls.__name__} must be None in a model file."
        raise ModelFileError(msg)
    required = kind.required(step) if fitted.keys() - {OUTPUT} else set()
    check_fitted(cls, fitted, kind.all_rules(step), required)
    kind.give(step, fitted)
    return step


def _pipeline(parameters: Attributes, fitted: Attributes) -> Pipeline:
    pipeline = Pipeline(**parameters)
    check_parameters(pipeline)
    working = {"memory": pipeline.memory, "transform_input": getattr(pipeline, "transform_input", None), **fitted}
    for name, value in working.items():
        if value is not None:
            msg = f"A pipeline in a model file has no {name}. Leave it out, or store the pipeline with skops.io.dump."
            raise ModelFileError(msg)
    _check_names(pipeline.steps)
    last = pipeline.steps[-1][1]
    if not isinstance(last, MultilabelPredictor | DecisionWrapper | ZeroShotClassifier):
        msg = (
            f"The last step of a pipeline in a model file must be an estimator of multimargin; it is a "
            f"{type(last).__name__}. Store other pipelines with skops.io.dump."
        )
        raise ModelFileError(msg)
    _check_widths([step for _, step in pipeline.steps[:-1] if step not in (None, KEPT)], last)
    return pipeline


def _check_names(steps: Any) -> None:
    sound = isinstance(steps, list) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and "__" not in pair[0]
        for pair in steps
    )
    if not sound or not steps or len({name for name, _ in steps}) < len(steps):
        msg = f"The steps of a pipeline must be pairs of a name of its own and a step. {AGAIN}"
        raise ModelFileError(msg)
    for name, step in steps[:-1]:
        if type(step) not in REGISTRY and step not in (None, KEPT):
            msg = f"The step {name!r} of the pipeline is a {type(step).__name__}, not a step. {AGAIN}"
            raise ModelFileError(msg)


def _check_widths(steps: list[Any], last: Any) -> None:
    """Refuse steps that do not fit each other: each takes the columns that the one before it gives."""
    if not hasattr(last, "classes_"):
        return  # not fitted
    width: int | None = None
    for position, step in enumerate(steps):
        kind, name = REGISTRY[type(step)], type(step).__name__
        takes = getattr(step, "n_features_in_", None)
        if not kind.is_fitted(step):
            msg = f"The model of the pipeline is fitted, but its step {name} is not. {AGAIN}"
            raise ModelFileError(msg)
        if position and takes != width:
            given = "texts" if kind.takes_texts else f"{takes} features"
            msg = f"The step {name} takes {given}, but the one before it gives {width} features. {AGAIN}"
            raise ModelFileError(msg)
        width = kind.width(step)
    takes = getattr(last, "n_features_in_", None)
    if steps and takes != width:
        msg = f"{type(last).__name__} takes {takes} features, but the step before it gives {width}. {AGAIN}"
        raise ModelFileError(msg)
