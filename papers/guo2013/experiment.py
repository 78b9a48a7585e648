"""Guo and Schuurmans, 2013: calibrated separation and output kernels from few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler, normalize

from multimargin import CalibratedSeparationClassifier, KernelM3L, LinearM3L, OutputKernelClassifier
from multimargin.baselines import OutputKernelLeastSquares, RankSVM
from papers.measuring import Cell, Settings, Step, as_dense, cell, dense_parts, quiet_about_constants

__all__ = ["kernel_or_threshold", "label_kernels_compared", "output_kernels", "training_sizes"]


def output_kernels(settings: Settings, step: Step) -> list[Cell]:
    """Scene images from few rows: ranking, calibrated separation, and output kernels by least squares and margin."""
    X, Y = _pooled("scene")
    scores = _Scores()
    for draw in range(settings["draws"]):
        step(f"draw {draw + 1} of {settings['draws']}")
        trial = _Trial(X, Y, settings["rows"], draw, settings)
        scores.add("", trial, {**trial.without_kernel(), **trial.with_kernel(settings["weights"])})
    return scores.cells()


def label_kernels_compared(settings: Settings, step: Step) -> list[Cell]:
    """Compare polynomial label kernels of different degree and weight, on subsets with more and more labels."""
    scores = _Scores()
    for n_labels in settings["labels"]:
        X, Y = frequent_labels(settings["data"], n_labels, settings["least_labels"])
        for draw in range(settings["draws"]):
            step(f"{n_labels} labels, draw {draw + 1} of {settings['draws']}")
            trial = _Trial(X, Y, settings["rows"], draw, settings)
            scores.add(f"{n_labels} labels", trial, trial.without_kernel())
            for weights in settings["kernels"]:
                name = f"{n_labels} labels, w = ({', '.join(f'{w:g}' for w in weights)})"
                scores.add(name, trial, trial.with_kernel(weights))
    return scores.cells()


def training_sizes(settings: Settings, step: Step) -> list[Cell]:
    """All methods against the number of training rows."""
    scores = _Scores()
    for n_labels in settings["labels"]:
        X, Y = frequent_labels(settings["data"], n_labels, settings["least_labels"])
        for rows in settings["rows"]:
            for draw in range(settings["draws"]):
                step(f"{n_labels} labels, {rows} rows, draw {draw + 1} of {settings['draws']}")
                trial = _Trial(X, Y, rows, draw, settings)
                predictions = {**trial.without_kernel(), **trial.with_kernel(settings["weights"])}
                scores.add(f"{n_labels} labels, {rows} rows", trial, predictions)
    return scores.cells()


def kernel_or_threshold(settings: Settings, step: Step) -> list[Cell]:
    """Separate what a label kernel gains from what its threshold gains, on several data sets."""
    scores = _Scores(empty=True)
    for entry in settings["sets"]:
        X, Y = _pooled(entry["data"])
        for draw in range(settings["draws"]):
            step(f"{entry['data']}, {entry['scaling']}, draw {draw + 1} of {settings['draws']}")
            trial = _Trial(X, Y, settings["rows"], draw, settings, entry["scaling"], entry["constant"])
            predictions = {**trial.with_kernel(settings["weights"]), **trial.decided_otherwise(settings["weights"])}
            scores.add(f"{entry['data']}, {entry['scaling']}", trial, predictions)
    return scores.cells()


def frequent_labels(name: str, n_labels: int, least_labels: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Rows of a data set, restricted to its most frequent labels, that have at least so many of them."""
    X, Y = _pooled(name)
    Y = Y[:, np.sort(np.argsort(-Y.sum(axis=0), kind="stable")[:n_labels])]
    kept = Y.sum(axis=1) >= least_labels
    return X[kept], Y[kept]


def second_moment(Y: Any) -> NDArray[np.float64]:
    """Return the prior of M3L from the training labels in {-1, 1}, with a little of the identity so that it inverts."""
    signs = 2.0 * as_dense(Y) - 1.0
    return np.asarray(signs.T @ signs / len(signs) + 1e-3 * np.eye(signs.shape[1]))


def _pooled(name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    X, Y, X_test, Y_test = dense_parts(name)
    return np.vstack([X, X_test]), np.vstack([Y, Y_test])


class _Trial:
    """One random split into few training rows and the others."""

    def __init__(
        self,
        X: NDArray[Any],
        Y: NDArray[np.int64],
        rows: int,
        draw: int,
        settings: Settings,
        scaling: str = "raw",
        constant: bool = False,
    ) -> None:
        order = np.random.default_rng(draw).permutation(len(X))
        train, test = order[:rows], order[rows:]
        self.Y, self.Y_test = Y[train], Y[test]
        self.X, self.X_test = _scaled(scaling, X[train], X[test])
        self._common: dict[str, Any] = {"C": settings["C"], "fit_intercept": constant}
        self._exact: dict[str, Any] = {**self._common, "tol": settings["tol"], "max_iter": 30_000, "random_state": 0}
        csrl = self._fit(CalibratedSeparationClassifier(**self._exact))
        self._reference = csrl.threshold_function(self.X_test)[:, None]
        self._scores = csrl.decision_function(self.X_test) + self._reference

    def without_kernel(self) -> dict[str, NDArray[np.bool_]]:
        """Predict by the methods that know no label kernel."""
        models = {
            "Rank": RankSVM(**self._exact),
            # few rows and a prior that ties all labels: the kernel solver takes dozens of passes to the same optimum
            "M3L": KernelM3L(kernel="linear", prior=second_moment, **self._exact),
            "one-vs-all": LinearM3L(**self._exact),
        }
        predictions = {name: self._fit(model).predict(self.X_test) > 0 for name, model in models.items()}
        return {**predictions, "CSRL": self._scores > self._reference}

    def with_kernel(self, weights: list[float]) -> dict[str, NDArray[np.bool_]]:
        """Predict by label kernels, and by calibrated separation with the threshold that their weights imply."""
        factor = sum(weights)
        kernel: dict[str, Any] = {"label_degree": len(weights), "label_weights": weights}
        squares = self._fit(OutputKernelLeastSquares(decision="paper", **kernel, **self._common))
        margin = self._fit(OutputKernelClassifier(**kernel, **self._exact))
        above, reference = margin.decision_function(self.X_test), margin.threshold_function(self.X_test)[:, None]
        return {
            "LS-K": squares.predict(self.X_test) > 0,
            "LM-K": factor * (above + reference) > reference,
            "LM-K, consistent": above > 0,
            "CSRL, same threshold": factor * self._scores > self._reference,
        }

    def decided_otherwise(self, weights: list[float]) -> dict[str, NDArray[np.bool_]]:
        """Predict with the best label where there is none, and by the nearest training set."""
        kernel: dict[str, Any] = {"label_degree": len(weights), "label_weights": weights}
        models = {
            "CSRL, top-1": CalibratedSeparationClassifier(fallback="top1", **self._exact),
            "LM-K, consistent, top-1": OutputKernelClassifier(fallback="top1", **kernel, **self._exact),
            "LS-K, ridge": OutputKernelLeastSquares(**kernel, **self._common),
            "LS-K, preimage": OutputKernelLeastSquares(decision="preimage", **kernel, **self._common),
        }
        predictions = {name: self._fit(model).predict(self.X_test) > 0 for name, model in models.items()}
        return {"CSRL": self._scores > self._reference, **predictions}

    def _fit(self, model: Any) -> Any:
        with quiet_about_constants():
            return model.fit(self.X, self.Y)


def _scaled(scaling: str, X: NDArray[Any], X_test: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows as they are, of length 1, or of length 1 after standardising the features by the training rows."""
    if scaling == "raw":
        return X, X_test
    if scaling == "standardised, unit":
        scale = StandardScaler().fit(X)
        X, X_test = scale.transform(X), scale.transform(X_test)
    return normalize(X), normalize(X_test)


class _Scores:
    """Micro and macro F1 of named predictions, and if wanted the share of rows without any label, over draws."""

    def __init__(self, empty: bool = False) -> None:
        self._empty = empty
        self._values: dict[tuple[str, str, str], list[float]] = {}

    def add(self, where: str, trial: _Trial, predictions: dict[str, NDArray[np.bool_]]) -> None:
        """Compare predictions with the test rows of a trial."""
        for name, predicted in predictions.items():
            for average in ("micro", "macro"):
                value = f1_score(trial.Y_test, predicted.astype(int), average=average, zero_division=0.0)
                self._values.setdefault((where, name, average), []).append(100.0 * float(value))
            if self._empty:
                share = 100.0 * float(np.mean(~predicted.any(axis=1)))
                self._values.setdefault((where, name, "no label"), []).append(share)

    def cells(self) -> list[Cell]:
        """Mean and spread over the draws; methods side by side where they were tried in several places."""
        return [
            cell(
                ", ".join(filter(None, (where, name, measure))),
                values,
                row=where or name,
                column=name if where else measure,
            )
            for (where, name, measure), values in self._values.items()
        ]
