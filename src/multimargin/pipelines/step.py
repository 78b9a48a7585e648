"""What model files know of a class of scikit-learn that stands before an estimator in a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from multimargin.errors import ModelFileError
from multimargin.fitted_rules import Rule, Sizes, array_of, count, expect, feature_names, is_real

__all__ = ["OUTPUT", "Attributes", "Step", "any_floats", "columns", "none_or", "one_of", "two_numbers"]

Attributes: TypeAlias = dict[str, Any]

OUTPUT = "_sklearn_output_config"
"""Where scikit-learn keeps what ``set_output`` was told."""


def _from_the_object(step: Any, names: Mapping[str, Rule]) -> Attributes:
    return {name: vars(step)[name] for name in sorted(names) if name in vars(step)}


def _onto_the_object(step: Any, fitted: Attributes) -> None:
    vars(step).update(fitted)


def _as_many(step: Any) -> int:
    return int(step.n_features_in_)


@dataclass(frozen=True)
class Step:
    """How a model file holds a step: parameters and arrays, each with a rule.

    Attributes
    ----------
    cls : type
    rules : callable
        From a step with its parameters to the rules of its fitted attributes, all of which it must have if it is
        fitted, but for names of features and the kind of output.
    width : callable
        From a fitted step to the number of columns it gives.
    takes_texts : bool
        Whether its rows are texts, so that it has no number of features.
    parameters : mapping
        Rules of parameters, beyond those that scikit-learn itself checks when it fits.
    words : mapping
        Of parameters that are functions or types: the words that stand for them in a file.
    unset : frozenset
        Parameters that say how to work rather than what the model is; stored as None.
    take, give : callable
        Reads the attributes that the rules are of, and writes them.
    """

    cls: type
    rules: Callable[[Any], dict[str, Rule]]
    width: Callable[[Any], int] = _as_many
    takes_texts: bool = False
    parameters: Mapping[str, Rule] = field(default_factory=dict)
    words: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    take: Callable[[Any, Mapping[str, Rule]], Attributes] = _from_the_object
    give: Callable[[Any, Attributes], None] = _onto_the_object

    def all_rules(self, step: Any) -> dict[str, Rule]:
        """Rules of everything that a fitted step may keep."""
        return {**self.rules(step), OUTPUT: _output}

    def required(self, step: Any) -> set[str]:
        """Names of what a fitted step must keep."""
        return self.all_rules(step).keys() - {"feature_names_in_", OUTPUT}

    def is_fitted(self, step: Any) -> bool:
        """Whether a step, which has all of what it must keep or nothing, has it."""
        required = self.required(step)
        return not required or not required.isdisjoint(vars(step))

    def as_words(self, parameters: Attributes) -> Attributes:
        """Parameters as they are stored."""
        return {name: self._word(name, value) for name, value in parameters.items()}

    def _word(self, name: str, value: Any) -> Any:
        if name in self.unset:
            return None
        if name not in self.words:
            return value
        for word, meaning in self.words[name].items():
            if meaning is value or meaning == value:
                return word
        msg = (
            f"{name} of {self.cls.__name__} is {value!r}; a model file knows {', '.join(self.words[name])}. Use one of "
            "them, or store the model with skops.io.dump."
        )
        raise ModelFileError(msg)

    def from_words(self, parameters: Attributes) -> Attributes:
        """Parameters as the class takes them."""
        found = {}
        for name, value in parameters.items():
            known = self.words.get(name)
            if known is not None and not (isinstance(value, str) and value in known):
                msg = f"{name} of {self.cls.__name__} is not one of {', '.join(known)}."
                raise ModelFileError(msg)
            found[name] = value if known is None else known[value]
        return found


def _output(value: Any, sizes: Sizes) -> None:
    sound = isinstance(value, dict) and value.keys() <= {"transform"}
    expect(sound and value.get("transform") in (None, "default", "pandas"), f"must be default or pandas; got {value!r}")


def columns() -> dict[str, Rule]:
    """Rules of what a step knows of the columns it was fitted on."""
    return {"n_features_in_": count(1, "features"), "feature_names_in_": feature_names}


def any_floats(shape: str, types: str = "f4 f8") -> Rule:
    """Rule of numbers that are only compared or shown: they may be infinite or NaN."""

    def rule(value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, np.ndarray), "must be an array")
        array_of(shape, -np.inf, np.inf, types)(np.nan_to_num(value), sizes)

    return rule


def none_or(rule: Rule) -> Rule:
    """Rule of something that may be absent."""
    return lambda value, sizes: None if value is None else rule(value, sizes)


def one_of(*known: Any) -> Rule:
    """Rule of a parameter with few values; others are sound, but cannot be stored."""

    def rule(value: Any, sizes: Sizes) -> None:
        same = any(type(value) is type(k) and value == k for k in known)
        expect(same, f"must be {' or '.join(map(repr, known))} in a model file; got {value!r}")

    return rule


def two_numbers(value: Any, sizes: Sizes) -> None:
    """Rule of a range."""
    sound = isinstance(value, tuple) and len(value) == 2 and all(map(is_real, value))
    expect(sound and -np.inf < value[0] <= value[1] < np.inf, f"must be two numbers in order; got {value!r}")
