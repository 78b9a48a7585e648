"""What the experiments share: the shape of a result, and small helpers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cell", "Step", "as_dense", "hamming_percent", "quiet_about_constants", "spread"]

Cell = dict[str, Any]
"""One measured number: ``name``, ``ours``, ``spread`` over draws, and whether it is part of the ``headline``."""

Step = Callable[[str], None]
"""Told what is being worked on."""


def as_dense(table: Any) -> NDArray[Any]:
    """Array of a matrix that may be sparse."""
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table)


def hamming_percent(predicted: Any, truth: Any) -> float:
    """Hamming loss in percent."""
    return 100.0 * float(np.mean(np.asarray(predicted) != np.asarray(truth)))


def spread(values: list[float]) -> float | None:
    """Return the standard deviation between draws, if there are several."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


class quiet_about_constants(warnings.catch_warnings):  # noqa: N801
    """Without the warning that a label is constant in a small draw."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings("ignore", message=".*[Cc]onstant predictions", category=UserWarning)
