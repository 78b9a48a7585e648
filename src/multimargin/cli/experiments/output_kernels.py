"""Guo and Schuurmans, 2013: calibrated separation and output kernels from few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from multimargin import datasets
from multimargin.baselines import OutputKernelLeastSquares, RankSVM
from multimargin.estimators import CalibratedSeparationClassifier, OutputKernelClassifier

from ._common import Cell, Step, as_dense, quiet_about_constants, spread

__all__ = ["label_kernels_compared", "output_kernels", "training_sizes"]


def output_kernels(settings: dict[str, Any], step: Step) -> list[Cell]:
    """Scene images from few rows: ranking, calibrated separation, and output kernels by least squares and margin."""
    X, Y = _pooled("scene")
    scores = _Scores()
    for draw in range(settings["draws"]):
        step(f"draw {draw + 1} of {settings['draws']}")
        trial = _Trial(X, Y, settings["rows"], draw, settings)
        scores.add("", trial, {**trial.without_kernel(), **trial.with_kernel(settings["weights"])})
    return scores.cells()


def label_kernels_compared(settings: dict[str, Any], step: Step) -> list[Cell]:
    """Compare polynomial label kernels of different degree and weight, on subsets with more and more labels."""
    scores = _Scores()
    for n_labels in settings["labels"]:
        X, Y = frequent_labels(settings["data"], n_labels, settings["least_labels"])
        for draw in range(settings["draws"]):
            step(f"{n_labels} labels, draw {draw + 1} of {settings['draws']}")
            trial = _Trial(X, Y, settings["rows"], draw, settings)
            scores.add(f"{n_labels} labels, ", trial, trial.without_kernel())
            for weights in settings["kernels"]:
                name = f"{n_labels} labels, w = ({', '.join(f'{w:g}' for w in weights)}), "
                scores.add(name, trial, trial.with_kernel(weights))
    return scores.cells()


def training_sizes(settings: dict[str, Any], step: Step) -> list[Cell]:
    """All methods against the number of training rows."""
    scores = _Scores()
    for n_labels in settings["labels"]:
        X, Y = frequent_labels(settings["data"], n_labels, settings["least_labels"])
        for rows in settings["rows"]:
            for draw in range(settings["draws"]):
                step(f"{n_labels} labels, {rows} rows, draw {draw + 1} of {settings['draws']}")
                trial = _Trial(X, Y, rows, draw, settings)
                predictions = {**trial.without_kernel(), **trial.with_kernel(settings["weights"])}
                scores.add(f"{n_labels} labels, {rows} rows, ", trial, predictions)
    return scores.cells()


def frequent_labels(name: str, n_labels: int, least_labels: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Rows of a data set, restricted to its most frequent labels, that have at least so many of them."""
    X, Y = _pooled(name)
    Y = Y[:, np.sort(np.argsort(-Y.sum(axis=0), kind="stable")[:n_labels])]
    kept = Y.sum(axis=1) >= least_labels
    return X[kept], Y[kept]


def _pooled(name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    data = datasets.load(name)
    X = np.vstack([as_dense(data.X_train), as_dense(data.X_test)])
    return X, np.vstack([as_dense(data.Y_train), as_dense(data.Y_test)]).astype(np.int64)


class _Trial:
    """One random split into few training rows and the others; raw features, no constant feature."""

    def __init__(self, X: NDArray[Any], Y: NDArray[np.int64], rows: int, draw: int, settings: dict[str, Any]) -> None:
        order = np.random.default_rng(draw).permutation(len(X))
        train, test = order[:rows], order[rows:]
        self.X, self.Y, self.X_test, self.Y_test = X[train], Y[train], X[test], Y[test]
        self._common: dict[str, Any] = {"C": settings["C"], "fit_intercept": False}
        self._exact: dict[str, Any] = {**self._common, "tol": settings["tol"], "max_iter": 30_000, "random_state": 0}
        csrl = self._fit(CalibratedSeparationClassifier(**self._exact))
        self._reference = csrl.threshold_function(self.X_test)[:, None]
        self._scores = csrl.decision_function(self.X_test) + self._reference

    def without_kernel(self) -> dict[str, NDArray[np.bool_]]:
        """Predict by the methods that know no label kernel."""
        rank = self._fit(RankSVM(**self._exact))
        return {"Rank": rank.predict(self.X_test) > 0, "CSRL": self._scores > self._reference}

    def with_kernel(self, weights: list[float]) -> dict[str, NDArray[np.bool_]]:
        """Predict by label kernels, and by calibrated separation with the threshold that their weights imply."""
        factor = sum(weights)
        kernel: dict[str, Any] = {"degree": len(weights), "weights": weights}
        squares = self._fit(OutputKernelLeastSquares(rule="paper", **kernel, **self._common))
        margin = self._fit(OutputKernelClassifier(**kernel, **self._exact))
        above, reference = margin.decision_function(self.X_test), margin.threshold_function(self.X_test)[:, None]
        return {
            "LS-K": squares.predict(self.X_test) > 0,
            "LM-K": factor * (above + reference) > reference,
            "LM-K, consistent": above > 0,
            "CSRL, same threshold": factor * self._scores > self._reference,
        }

    def _fit(self, model: Any) -> Any:
        with quiet_about_constants():
            return model.fit(self.X, self.Y)


class _Scores:
    """Micro and macro F1 of named predictions, over draws."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, prefix: str, trial: _Trial, predictions: dict[str, NDArray[np.bool_]]) -> None:
        """Compare predictions with the test rows of a trial."""
        for name, predicted in predictions.items():
            for average in ("micro", "macro"):
                value = f1_score(trial.Y_test, predicted.astype(int), average=average, zero_division=0.0)
                self._values.setdefault(f"{prefix}{name}, {average}", []).append(100.0 * float(value))

    def cells(self) -> list[Cell]:
        """Mean and spread over the draws."""
        return [
            {"name": name, "setting": "", "ours": float(np.mean(values)), "spread": spread(values), "headline": True}
            for name, values in self._values.items()
        ]
