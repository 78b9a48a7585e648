"""What a model file gives or takes of a model: the parameters and fitted attributes that its class lists."""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from .errors import ModelFileError
from .fitted_rules import LARGEST, BrokenRuleError, Rule, Sizes, declared, is_real

__all__ = ["check_fitted", "check_parameters", "contents", "make_model"]

MOST_JOBS = 4096


def contents(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a model, and the fitted attributes that its class lists with these parameters."""
    stored = getattr(model, "_stored_parameters", None)
    parameters = model.get_params(deep=False) if stored is None else stored()
    if "callback" in parameters:
        parameters["callback"] = None
    known = declared(type(model)) | model._fitted_rules()
    return parameters, {name: vars(model)[name] for name in sorted(known) if name in vars(model)}


def make_model(cls: type[BaseEstimator], parameters: dict[str, Any], fitted: dict[str, Any]) -> BaseEstimator:
    """Make a model; raise ModelFileError unless parameters and fitted attributes are as the class makes them."""
    if parameters.get("callback") is not None:
        msg = "it names a callback, which model files never hold."
        raise ModelFileError(msg)
    model: Any = cls(**parameters)
    check_parameters(model)
    if not fitted:
        return model
    vars(model).update(fitted)
    listed = model._fitted_rules()
    rules = {**listed, **{name: rule for name, rule in declared(cls).items() if name not in listed}}
    check_fitted(cls, fitted, rules, listed.keys() - model._optional_attributes)
    return model


def check_fitted(cls: type, fitted: dict[str, Any], rules: Mapping[str, Rule], required: Set[str]) -> None:
    """Refuse attributes that are not listed, are missing, or break a rule."""
    unknown, missing = fitted.keys() - rules.keys(), required - fitted.keys()
    for names, what in ((unknown, "has no fitted attribute"), (missing, "needs the missing attribute")):
        if names:
            msg = f"{cls.__name__} with these parameters {what} {min(names)!r}. Fit and save the model again."
            raise ModelFileError(msg)
    sizes: Sizes = {}
    for name, rule in rules.items():
        if name in fitted:
            try:
                rule(fitted[name], sizes)
            except (BrokenRuleError, TypeError, ValueError, OverflowError) as error:
                msg = f"{name} of {cls.__name__} {error}. Fit and save the model again."
                raise ModelFileError(msg) from error


def check_parameters(model: BaseEstimator, functions: Container[str] = ("callback", "label_kernel")) -> None:
    """Refuse parameters that the class would refuse in ``fit``, and functions but for these."""
    own, constraints = type(model).__name__, getattr(model, "_parameter_constraints", {})
    try:
        if constraints:
            model._validate_params()
    except (TypeError, ValueError) as error:
        raise ModelFileError(str(error)) from error
    for name, value in model.get_params(deep=False).items():
        if callable(value) and name not in functions:
            msg = f"The parameter {name} of {own} is a function, which model files never hold."
            raise ModelFileError(msg)
        bounded = isinstance(constraints.get(name), list) and any(isinstance(c, Interval) for c in constraints[name])
        if bounded and is_real(value) and not -LARGEST <= value <= LARGEST:
            msg = f"The parameter {name} of {own} must not be larger than {LARGEST:g}; got {value!r}."
            raise ModelFileError(msg)
    jobs = getattr(model, "n_jobs", None)
    if jobs is not None and (jobs == 0 or abs(jobs) > MOST_JOBS):
        msg = f"n_jobs of {own} must be None or between 1 and {MOST_JOBS}, or -1 for all cores; got {jobs!r}."
        raise ModelFileError(msg)
