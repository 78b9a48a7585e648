"""Hariharan et al., 2012: the other columns of Table 3, methods that M3L is compared with, on the same draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from multimargin.baselines import BoosTexter, CategoryRanking, KNNLabels, LabelPowerset, LeastSquaresLabels
from papers.measuring import Cell, Settings, Step, cell, hamming_percent, quiet_about_constants

from .shifted_labels import draw_rows, load_rows
from .unseen_animals import Animals

__all__ = ["other_methods"]

FOLDS = 3
UNSEEN = ("awa", "fmri-words")  # sets whose test rows are of other categories
METHODS: dict[str, Callable[[Any, int], Any]] = {
    "BoosTexter": lambda rounds, _: BoosTexter(rounds),
    "Power Set": lambda C, _: LabelPowerset(C, strategy="ovr", random_state=0),
    "Regression": lambda C, _: LeastSquaresLabels(C),
    "Compressed sensing": lambda C, labels: LeastSquaresLabels(C, n_codes=(labels + 1) // 2, random_state=0),
    "Ranking": lambda C, _: CategoryRanking(C, tol=0.01, random_state=0),
    "5-NN": lambda k, _: KNNLabels(k),
}
"""Each from the one parameter that is chosen, and the number of labels."""

Draw = tuple[Any, NDArray[Any], Any, NDArray[Any]]
"""X and Y to train on, X and Y to test."""


def other_methods(settings: Settings, step: Step) -> list[Cell]:
    """Test loss of every method on the draws of `shifted_labels` and of `unseen_attributes`."""
    losses: dict[tuple[str, str], list[float]] = {}
    for entry in settings["sets"]:
        for draw, (X, Y, X_test, Y_test) in enumerate(_draws(entry)):
            for method, make in METHODS.items():
                step(f"{entry['name']}, draw {draw + 1} of {entry['draws']}, {method}")
                value = _validated(make, settings["grids"][method], X, Y, draw)
                predicted = _trained(make(value, Y.shape[1]), X, Y).predict(X_test)
                losses.setdefault((entry["name"], method), []).append(hamming_percent(predicted, Y_test))
            constant = np.broadcast_to(Y.mean(axis=0) > 0.5, Y_test.shape)
            losses.setdefault((entry["name"], "constant"), []).append(hamming_percent(constant, Y_test))
    return [cell(f"{name}, {method}", v, row=name, column=method) for (name, method), v in losses.items()]


def _draws(entry: dict[str, Any]) -> Iterator[Draw]:
    if entry["data"] in UNSEEN:
        animals = Animals(entry["data"])
        for rows in animals.draws(entry["rows"], entry["draws"]):
            yield animals.X[rows], animals.Y[rows], animals.X_test, animals.Y_test
        return
    data = load_rows(entry["data"])
    for draw in range(entry["draws"]):
        rows, _ = draw_rows(data, entry, draw, shifted=True)
        yield data.X[rows], data.Y[rows], data.X_test, data.Y_test


def _validated(make: Callable[[Any, int], Any], grid: list[Any], X: Any, Y: NDArray[Any], draw: int) -> Any:
    """Return the value with the lowest loss on training rows left out in turn; the first of equals."""
    if len(grid) == 1:
        return grid[0]
    losses = np.zeros(len(grid))
    for train, test in KFold(FOLDS, shuffle=True, random_state=draw).split(Y):
        for place, value in enumerate(grid):
            predicted = _trained(make(value, Y.shape[1]), X[train], Y[train]).predict(X[test])
            losses[place] += np.sum(np.asarray(predicted) != Y[test])
    return grid[int(np.argmin(losses))]


def _trained(model: Any, X: Any, Y: NDArray[Any]) -> Any:
    with quiet_about_constants():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a gap of a few hundredths moves no loss here
        warnings.filterwarnings("ignore", message=".*differ in their label sets")  # of the power set, as published
        return model.fit(X, Y)
