"""Hariharan et al., 2012, Table 3: training rows whose labels are distributed otherwise than those of the test rows.

The prior knows the labels, not the features, of the training rows that were left out. Beside it stand the controls that
tell what it gains by: label frequencies alone (as weights, as a prior, as a constant prediction), the labels of the
rows trained on, a prior with its labels mixed up, and a draw without any shift.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.preprocessing import normalize

from multimargin import KernelM3L, datasets, priors
from multimargin.weights import LabelFrequencies
from papers.measuring import Cell, Settings, Step, as_dense, cell, hamming_percent, quiet_about_constants

from .kernels import median_grams

__all__ = ["Rows", "draw_rows", "load_rows", "shifted_labels"]

FIRST_SEED = 1000
FOLDS = 3
Labels = NDArray[np.int8]
Losses = dict[str, dict[float, list[float]]]


@dataclass(frozen=True)
class _Knowledge:
    """What a method is told about the labels: a prior, and the label frequencies to expect."""

    prior: NDArray[np.float64] | None = None
    frequencies: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Rows:
    """One data set: rows of length 1, labels 0/1."""

    X: Any
    Y: Labels
    X_test: Any
    Y_test: Labels


@dataclass(frozen=True)
class _Grams:
    """Kernel values of one draw: among the training rows, and from the test rows to them."""

    train: NDArray[np.float64]
    test: NDArray[np.float64]


def shifted_labels(settings: Settings, step: Step) -> list[Cell]:
    """Test loss after training on rows with many labels: the prior of the other rows, and its controls."""
    cells: list[Cell] = []
    for entry in settings["sets"]:
        data = load_rows(entry["data"])
        for kernel in settings["kernels"]:
            cells += _compared(data, entry, kernel, settings, step)
        cells += _shift(data, entry, min(entry["draws"], settings["draws"]))
    return cells


def load_rows(name: str) -> Rows:
    """Load a data set."""
    data = datasets.load(name)
    Y, Y_test = as_dense(data.Y_train).astype(np.int8), as_dense(data.Y_test).astype(np.int8)
    return Rows(normalize(data.X_train), Y, normalize(data.X_test), Y_test)


def draw_rows(data: Rows, entry: dict[str, Any], draw: int, shifted: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on and the other rows; of the rows with most labels, or of all."""
    rng = np.random.default_rng(FIRST_SEED + draw)
    n = len(data.Y)
    order = np.lexsort((rng.random(n), -data.Y.sum(axis=1)))
    pool = order[: max(entry["rows"], n * entry["top"] // 100)] if shifted else order
    chosen = rng.choice(pool, entry["rows"], replace=False)
    return chosen, np.setdiff1d(np.arange(n), chosen)


def _compared(data: Rows, entry: dict[str, Any], kernel: str, settings: Settings, step: Step) -> list[Cell]:
    """All methods on one data set with one kernel."""
    where = f"{entry['name']}, {kernel}"
    chosen_losses: dict[str, list[float]] = {}
    grid: Losses = {}
    draws = min(entry["draws"], settings["draws"])
    for draw in range(draws):
        for shifted in (True, False):
            step(f"{where}, draw {draw + 1} of {draws}")
            rows, rest = draw_rows(data, entry, draw, shifted)
            grams = _grams(kernel, data.X[rows], data.X_test)
            methods = _methods(data.Y[rows], data.Y[rest], draw)
            if not shifted:
                methods = {f"{name}, no shift": methods[name] for name in ("one-vs-all", "M3L")}
            best: dict[str, float] = {}
            losses: dict[str, dict[float, float]] = {}
            for name, knowledge in methods.items():
                losses[name] = _test_losses(knowledge, settings["C"], grams, data.Y[rows], data.Y_test)
                best[name] = _validated_C(knowledge, settings["C"], grams.train, data.Y[rows], draw)
                chosen_losses.setdefault(name, []).append(losses[name][best[name]])
                for C, value in losses[name].items():
                    grid.setdefault(name, {}).setdefault(C, []).append(value)
            if shifted:
                for name in ("M3L", "one-vs-all + weights", "M3L + weights"):
                    at_same_C = losses[name][best["one-vs-all"]]
                    chosen_losses.setdefault(f"{name}, at the C of one-vs-all", []).append(at_same_C)
                for name, labels in (("the other rows", data.Y[rest]), ("the training rows", data.Y[rows])):
                    constant = np.broadcast_to(labels.mean(axis=0) > 0.5, data.Y_test.shape)
                    chosen_losses.setdefault(f"constant of {name}", []).append(hamming_percent(constant, data.Y_test))
    return [*_headline(where, chosen_losses), *_grid(where, grid)]


def _methods(Y: Labels, Y_rest: Labels, draw: int) -> dict[str, _Knowledge]:
    frequencies = Y_rest.mean(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", priors.FrequencyPriorWarning)  # what it says is what is measured here
        M = priors.from_labels(Y_rest, kind="second-moment")
        own = priors.from_labels(Y, kind="second-moment")
    mixed = np.random.default_rng(draw).permutation(len(M))
    return {
        "one-vs-all": _Knowledge(),
        "M3L": _Knowledge(M),
        "one-vs-all + weights": _Knowledge(None, frequencies),
        "M3L + weights": _Knowledge(M, frequencies),
        "prior of frequencies only": _Knowledge(priors.from_frequencies(frequencies)),
        "prior of the training rows": _Knowledge(own),
        "prior with mixed-up labels": _Knowledge(M[np.ix_(mixed, mixed)]),
    }


def _grams(kernel: str, X: Any, X_test: Any) -> _Grams:
    """Linear kernel, or RBF with the median of the squared distances as its width."""
    if kernel == "linear":
        return _Grams(as_dense(X @ X.T), as_dense(X_test @ X.T))
    return _Grams(*median_grams("rbf", X, X_test))


def _fits(knowledge: _Knowledge, grid: list[float], K: NDArray[np.float64], Y: Labels) -> Iterator[KernelM3L]:
    """Models for every C, each started from the last."""
    weights = None if knowledge.frequencies is None else LabelFrequencies(knowledge.frequencies)
    model = KernelM3L(grid[0], kernel="precomputed", prior=knowledge.prior, class_weight=weights, random_state=0)
    model.set_params(warm_start=True, max_iter=2000)
    for C in grid:
        with quiet_about_constants():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a gap of a few thousandths moves no loss here
            yield model.set_params(C=C).fit(K, Y)


def _test_losses(
    knowledge: _Knowledge, grid: list[float], grams: _Grams, Y: Labels, Y_test: Labels
) -> dict[float, float]:
    models = zip(grid, _fits(knowledge, grid, grams.train, Y), strict=True)
    return {C: hamming_percent(model.predict(grams.test), Y_test) for C, model in models}


def _validated_C(knowledge: _Knowledge, grid: list[float], K: NDArray[np.float64], Y: Labels, draw: int) -> float:
    """Return the C with the lowest loss on rows of the training set left out in turn; the smallest of equals."""
    losses = np.zeros(len(grid))
    for train, test in KFold(FOLDS, shuffle=True, random_state=draw).split(K):
        for k, model in enumerate(_fits(knowledge, grid, K[np.ix_(train, train)], Y[train])):
            losses[k] += np.sum(model.predict(K[np.ix_(test, train)]) != Y[test])
    return grid[int(np.argmin(losses))]


def _headline(where: str, losses: dict[str, list[float]]) -> list[Cell]:
    gain = np.subtract(losses["M3L"], losses["one-vs-all"])
    gains = {"M3L minus one-vs-all": gain.tolist(), "share of draws won by M3L, %": [100.0 * float(np.mean(gain < 0))]}
    setting = "C by 3-fold cross-validation on the training rows, each method its own"
    return [
        cell(f"{where}: {name}", values, setting=setting, row=where, column=name, **_part_of(name))
        for name, values in {**losses, **gains}.items()
    ]


def _part_of(name: str) -> dict[str, Any]:
    """Return the table of the README in which a number stands, where it is not the first."""
    if "weights" in name:
        return {"part": "With class weights"}
    if name.startswith(("prior", "constant")) or name.endswith("no shift"):
        return {"part": "Controls"}
    return {}


def _grid(where: str, grid: Losses) -> list[Cell]:
    compared = ("one-vs-all", "M3L", "one-vs-all + weights")
    shown = {"part": f"The whole grid, {' / '.join(compared)}"}
    return [
        cell(
            f"{where}, C = {C:g}: {name}",
            values,
            headline=False,
            row=where,
            column=f"C = {C:g}",
            **(shown if name in compared else {}),
        )
        for name, by_C in grid.items()
        for C, values in by_C.items()
    ]


def _shift(data: Rows, entry: dict[str, Any], draws: int) -> list[Cell]:
    """How far the labels of the drawn rows are from those of the test rows."""
    measured: dict[str, list[float]] = {}
    above = np.triu_indices(data.Y.shape[1], 1)
    test_covariance = np.cov(data.Y_test.T)[above]
    for draw in range(draws):
        rows, _ = draw_rows(data, entry, draw, shifted=True)
        Y = data.Y[rows]
        off = np.abs(Y.mean(axis=0) - data.Y_test.mean(axis=0)).mean()
        alike = np.corrcoef(np.cov(Y.T)[above], test_covariance)[0, 1]
        for name, value in (
            ("labels per training row", Y.sum(axis=1).mean()),
            ("labels per test row", data.Y_test.sum(axis=1).mean()),
            ("mean difference of label frequencies, points", 100.0 * off),
            ("correlation of label covariances with the test rows'", alike),
        ):
            measured.setdefault(name, []).append(float(value))
    return [cell(f"{entry['name']}: {name}", values, headline=False) for name, values in measured.items()]
