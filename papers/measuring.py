"""What the experiments share: the shape of a result, and small helpers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import datasets

__all__ = [
    "Cell",
    "Settings",
    "Step",
    "as_dense",
    "cell",
    "dense_parts",
    "hamming_percent",
    "quiet_about_constants",
    "within",
]

Settings = dict[str, Any]
"""What the table says in its file."""

Step = Callable[[str], None]
"""Told what is being worked on."""

Cell = dict[str, Any]
"""One measured number: see `cell`."""


def cell(name: str, draws: Sequence[float] | float, *, setting: str = "", headline: bool = True, **more: Any) -> Cell:
    """Return the mean of a measured number and its standard deviation over draws, if there are several.

    Parameters
    ----------
    name : str
        What it is compared by with the published values.
    draws : float or sequence of float
        The number in each draw.
    setting : str
        In what setting, where the name does not say.
    headline : bool
        Whether it is what the table is about, and not one of many settings tried.
    **more
        ``judged=False`` for numbers of another machine; ``measure`` and ``higher_is_better`` where a table has several
        measures; ``row`` and ``column`` of its place in the README, ``part`` for the title of a table of its own there,
        which also shows what is no headline; whatever else a reader of the JSON form may want.
    """
    numbers = np.atleast_1d(np.asarray(draws, dtype=float))
    spread = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    ours = float(np.mean(numbers))
    return {"name": name, "setting": setting, "ours": ours, "spread": spread, "headline": headline, **more}


def within(step: Step, where: str) -> Step:
    """Tell, before what is being worked on, in which fold or draw."""
    return lambda words: step(f"{where}, {words}")


def dense_parts(name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """X and Y of the training part of a data set, X and Y of the test part."""
    data = datasets.load(name)
    return as_dense(data.X_train), as_dense(data.Y_train), as_dense(data.X_test), as_dense(data.Y_test)


def as_dense(table: Any) -> NDArray[Any]:
    """Array of a matrix that may be sparse."""
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table)


def hamming_percent(predicted: Any, truth: Any) -> float:
    """Hamming loss in percent."""
    return 100.0 * float(np.mean(np.asarray(predicted) != np.asarray(truth)))


class quiet_about_constants(warnings.catch_warnings):  # noqa: N801
    """Without the warning that a label is constant in a small draw."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings("ignore", message=".*[Cc]onstant predictions", category=UserWarning)
