"""Means with their error, and words that say no more than the numbers do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Mean", "compare", "percent"]

CLEAR = 2.0  # standard errors


@dataclass(frozen=True)
class Mean:
    """A mean over repetitions and its standard error.

    Attributes
    ----------
    value, error : float
    """

    value: float
    error: float

    @classmethod
    def of(cls, values: ArrayLike) -> Mean:
        """Average over repetitions; at least two are needed for an error."""
        array = np.asarray(values, dtype=float)
        return cls(float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array))))

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {"mean": self.value, "standard_error": self.error}


def percent(mean: Mean) -> str:
    """Write a share as per cent with its error.

    Examples
    --------
    >>> percent(Mean(0.2157, 0.0131))
    '21.6 ± 1.3%'
    """
    return f"{100 * mean.value:.1f} ± {100 * mean.error:.1f}%"


def compare(what: str, name: str, values: ArrayLike, other: str, others: ArrayLike) -> str:
    """Say in one sentence how one method compares with another over the same repetitions.

    The difference is paired; below two standard errors it is called noise.

    Examples
    --------
    >>> compare("Errors", "A", [0.1, 0.2, 0.3], "B", [0.2, 0.3, 0.4])
    'Errors: 20.0% with A, 30.0% with B. That is 10.0 points lower (standard error 0.0).'
    >>> compare("Errors", "A", [0.1, 0.4], "B", [0.2, 0.3])
    'Errors: 25.0% with A, 25.0% with B. The difference of 0.0 ± 10.0 points is within noise.'
    """
    first, second = np.asarray(values, dtype=float), np.asarray(others, dtype=float)
    difference = Mean.of(first - second)
    levels = f"{what}: {100 * first.mean():.1f}% with {name}, {100 * second.mean():.1f}% with {other}."
    decimals = 2 if 0.00005 <= difference.error < 0.001 else 1  # so that a small error does not read as none
    points, error = (f"{abs(100 * x):.{decimals}f}" for x in (difference.value, difference.error))
    if abs(difference.value) < CLEAR * difference.error or difference.value == 0:
        return f"{levels} The difference of {points} ± {error} points is within noise."
    direction = "lower" if difference.value < 0 else "higher"
    return f"{levels} That is {points} points {direction} (standard error {error})."
