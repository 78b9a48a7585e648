"""What two of the rivals leave open, and how much hangs on it: the arrows of LEAD, the thresholds of BoosTexter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin.baselines import BoosTexter
from papers.measuring import Cell, Settings, Step

from .experiment import folds_of, measured, measures
from .methods import model_of

__all__ = ["open_choices"]

Array = NDArray[Any]
Cuts = Callable[[Array], Array]


def open_choices(settings: Settings, step: Step) -> list[Cell]:
    """LEAD with its labels in either order, BoosTexter with thresholds in other places; the folds of Table 3."""
    folds = list(folds_of(settings))
    cells: list[Cell] = []
    for words, turn in (("as they are", 1), ("in reverse order", -1)):
        step(f"LEAD, labels {words}")
        scores = []
        for X, Y, X_test, Y_test in folds:
            model = model_of("LEAD", {"lambda": settings["lambda"]}, len(X)).fit(X, Y[:, ::turn])
            scores.append(measures(Y_test[:, ::turn], model.predict(X_test)))
        cells += measured(f"LEAD, labels {words}", scores)
    for name, cuts in _thresholds(settings).items():
        step(f"BoosTexter, {name}")
        scores = []
        for X, Y, X_test, Y_test in folds:
            binned, binned_test = _binned(X, X_test, cuts) if cuts else (X, X_test)
            model = BoosTexter(settings["n_rounds"]).fit(binned, Y)
            scores.append(measures(Y_test, model.predict(binned_test)))
        cells += measured(f"BoosTexter, {name}", scores)
    return cells


def _thresholds(settings: Settings) -> dict[str, Cuts | None]:
    """Functions from a feature's values to its thresholds; None for BoosTexter's own."""
    rng = np.random.default_rng(0)
    choices: dict[str, Cuts | None] = {"its own 255 thresholds": None}
    choices["255 thresholds at equal distances"] = lambda x: np.linspace(x.min(), x.max(), 257)[1:-1]
    for bins in settings["bins"]:
        choices[f"{bins - 1} quantiles"] = partial(_quantiles, bins)
    for draw in range(settings["draws"]):
        choices[f"200 values at random, draw {draw + 1}"] = lambda x: np.unique(rng.choice(x, 200))
    return choices


def _quantiles(bins: int, x: Array) -> Array:
    return np.unique(np.quantile(x, np.arange(1, bins) / bins))


def _binned(X: Array, X_test: Array, cuts: Cuts) -> tuple[Array, Array]:
    """Return numbers of bins in place of values; thresholds are those of the training rows."""
    pairs = [(column, tested, cuts(column)) for column, tested in zip(X.T, X_test.T, strict=True)]
    train = np.column_stack([np.searchsorted(at, column) for column, _, at in pairs])
    return train.astype(float), np.column_stack([np.searchsorted(at, tested) for _, tested, at in pairs]).astype(float)
