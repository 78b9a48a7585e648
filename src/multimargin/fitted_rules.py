"""Rules of fitted attributes: what a model file may hold, whoever wrote it.

An estimator lists its attributes with a rule each in ``_fitted_rules``; those it only declares in its class
(``centre_: NDArray[np.float64]``) are held to being finite numbers; other attributes are neither written to model files
nor read. A shape is a text such as ``"labels features"``: the first array with a word in its shape says how many that
is, and all others must agree. The rules are what predictions rely on, in Python and in the native core, so that no file
can make them read outside an array or answer with numbers that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

__all__ = [
    "BrokenRuleError",
    "Rule",
    "Sizes",
    "array_of",
    "count",
    "declared",
    "exactly",
    "expect",
    "feature_names",
    "is_real",
    "last_step",
    "names",
    "number",
]

LARGEST = 1e100
"""Of features and parameters: squares and products stay far from the ends of the range of double precision."""
# Features reach LARGEST; times such a coefficient they are still far from the largest double, 1.8e308.
LARGEST_COEFFICIENT = LARGEST**2

Sizes: TypeAlias = dict[str, int]
Rule: TypeAlias = Callable[[Any, Sizes], None]


class BrokenRuleError(Exception):
    """Says which rule a value breaks."""


def expect(condition: Any, rule: str) -> None:
    """Raise unless a condition holds."""
    if not condition:
        raise BrokenRuleError(rule)


def _fits(actual: tuple[int, ...], shape: str, sizes: Sizes) -> bool:
    """Whether a shape is as it should be; a word that is new takes the size found."""
    words = shape.split()
    if len(actual) != len(words):
        return False
    for size, word in zip(actual, words, strict=True):
        name, _, more = word.partition("+")
        wanted = int(name) if name.isdigit() else sizes.setdefault(name, size) + int(more or 0)
        if size != wanted:
            return False
    return True


def array_of(
    shape: str,
    low: float = -LARGEST_COEFFICIENT,
    high: float | str = LARGEST_COEFFICIENT,
    types: str = "f4 f8",
    sparse: bool = False,
) -> Rule:
    """Rule of an array; ``high`` may be a word of the shape that the numbers are to be below."""

    def rule(value: Any, sizes: Sizes) -> None:
        dense = isinstance(value, np.ndarray) and (value.dtype.kind == "f" or value.flags.c_contiguous)
        expect(dense or (sparse and isinstance(value, sp.csr_array | sp.csr_matrix)), "must be an array")
        expect(value.dtype.str[1:] in types.split(), f"must have a dtype of {types}; it has {value.dtype}")
        expect(_fits(value.shape, shape, sizes), f"must have the shape ({shape}) where {sizes}; it has {value.shape}")
        numbers = value if dense else value.data
        if numbers.size:
            smallest, largest = float(numbers.min()), float(numbers.max())  # NaN if there is one, and so refused
            most = sizes[high] - 1 if isinstance(high, str) else high
            expect(low <= smallest and largest <= most, f"must be in [{low}, {most}]; it is in [{smallest}, {largest}]")

    return rule


def number(low: float = -LARGEST_COEFFICIENT, high: float = LARGEST_COEFFICIENT) -> Rule:
    """Rule of a single number."""

    def rule(value: Any, sizes: Sizes) -> None:
        expect(is_real(value) and low <= value <= high, f"must be a number in [{low}, {high}]; got {value!r}")

    return rule


def count(low: int, word: str | None = None) -> Rule:
    """Rule of an integer, which may be the size that a word stands for."""

    def rule(value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, Integral) and not isinstance(value, bool), f"must be an integer; got {value!r}")
        expect(low <= value < 2**62, f"must be at least {low}; got {value}")
        if word is not None:
            expect(sizes.setdefault(word, int(value)) == value, f"is {value}; elsewhere it is {sizes[word]}")

    return rule


def names(shape: str, low: int = 1, high: int | None = None) -> Rule:
    """Rule of names of labels or categories: distinct, whatever they are."""

    def rule(value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, np.ndarray) and _fits(value.shape, shape, sizes), f"must be an array of {shape}")
        expect(low <= len(value) <= (len(value) if high is None else high), f"has {len(value)} names")
        expect(len(set(value.tolist())) == len(value), "must name everything once")

    return rule


def feature_names(value: Any, sizes: Sizes) -> None:
    """Rule of the names of the features."""
    names("features")(value, sizes)
    expect(all(isinstance(name, str) for name in value.tolist()), "must be texts")


def exactly(cls: type) -> Rule:
    """Rule of a result: an object of this class, with fields of the types it declares and arrays of one length."""

    def rule(value: Any, sizes: Sizes) -> None:
        expect(type(value) is cls, f"must be a {cls.__name__}; it is a {type(value).__name__}")
        hints = get_type_hints(cls)
        for field in fields(value):
            item = getattr(value, field.name)
            expect(_is_of(item, hints[field.name]), f"has a wrong {field.name}: {type(item).__name__}")
        lengths = {len(item) for item in vars(value).values() if isinstance(item, np.ndarray)}
        expect(len(lengths) <= 1, f"has arrays of different lengths {lengths}")

    assert is_dataclass(cls)
    return rule


def _is_array(hint: Any) -> bool:
    return get_origin(hint) in (np.ndarray, NDArray)  # from Python 3.12 and NumPy 2.5 on, NDArray is a type of its own


def _is_of(value: Any, hint: Any) -> bool:
    if hint is float:
        return is_real(value)
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool) and 0 <= value < 2**62
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if _is_array(hint):
        return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "if"
    return value in get_args(hint)  # a Literal


def is_real(value: Any) -> bool:
    """Whether a value is a number, and not a truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def last_step(model: Any) -> Any:
    """Return the model at the end of a pipeline, or the model itself."""
    while isinstance(model, Pipeline) and len(model.steps):
        model = model.steps[-1][1]
    return model


def _array(value: Any, sizes: Sizes) -> None:
    expect(isinstance(value, np.ndarray) and value.dtype.kind in "biuf", "must be an array of numbers")
    expect(np.isfinite(value).all(), "must be finite")


def declared(cls: type) -> dict[str, Rule]:
    """Rules of the attributes that a class and its bases annotate as numbers or arrays, of whatever shape."""
    hints = {name: hint for name, hint in get_type_hints(cls).items() if name.endswith("_") and name[0] != "_"}
    simple = {float: number(), int: count(0)}
    arrays = {name: _array for name, hint in hints.items() if _is_array(hint)}
    return arrays | {name: simple[hint] for name, hint in hints.items() if hint in simple}
