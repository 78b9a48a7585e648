"""Named parts of a sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multimargin.errors import InputError

__all__ = ["NOTHING", "NO_ROWS", "Contributions", "SupportContributions", "contributions"]


@dataclass(frozen=True, eq=False)
class Contributions:
    """Named parts of a score.

    Attributes
    ----------
    names : ndarray of shape (n_parts,)
    values : ndarray of shape (n_parts,)
    """

    names: NDArray[Any]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.names)

    def items(self) -> Iterator[tuple[Any, float]]:
        """Return pairs of name and value."""
        return zip(self.names.tolist(), self.values.tolist(), strict=True)

    def sum(self) -> float:
        """Return the sum of the values, rounded once."""
        return fsum(self.values.tolist())

    def top(self, k: int) -> Self:
        """Return the k parts of the largest absolute values."""
        return self._part(np.argsort(-np.abs(self.values), kind="stable")[: _count(k)])

    def _part(self, chosen: NDArray[np.intp]) -> Self:
        return type(self)(**{name: array[chosen] for name, array in vars(self).items()})


@dataclass(frozen=True, eq=False)
class SupportContributions(Contributions):
    """Parts of a score by training rows, whose numbers are their names.

    Attributes
    ----------
    kernel_values : ndarray of shape (n_parts,)
        Kernel values between the explained row and each of them.
    """

    kernel_values: NDArray[np.float64]

    def nearest(self, k: int) -> Self:
        """Return the k rows of the largest kernel values."""
        return self._part(np.argsort(-self.kernel_values, kind="stable")[: _count(k)])


def contributions(names: Sequence[Any] | NDArray[Any], values: ArrayLike) -> Contributions:
    """Return named parts; names may be tuples."""
    if not isinstance(names, np.ndarray):
        array = np.empty(len(names), dtype=object)
        array[:] = names
        names = array
    return Contributions(names, np.asarray(values, dtype=np.float64))


NOTHING = contributions([], [])
NO_ROWS = SupportContributions(np.zeros(0, dtype=np.int64), NOTHING.values, NOTHING.values)


def _count(k: int) -> int:
    if k < 0:
        msg = f"k must be a number of parts, 0 or more; got {k!r}."
        raise InputError(msg)
    return k
