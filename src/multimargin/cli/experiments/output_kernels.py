"""Guo and Schuurmans, 2013: calibrated separation and output kernels from few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from multimargin import datasets
from multimargin.baselines import OutputKernelLeastSquares, RankSVM
from multimargin.estimators import CalibratedSeparationClassifier, OutputKernelClassifier

from ._common import Cell, Step, as_dense, spread

__all__ = ["output_kernels"]


def output_kernels(settings: dict[str, Any], step: Step) -> list[Cell]:
    """Scene images from few rows: ranking, calibrated separation, and output kernels by least squares and margin."""
    scene = datasets.load("scene")
    X = np.vstack([as_dense(scene.X_train), as_dense(scene.X_test)])
    Y = np.vstack([as_dense(scene.Y_train), as_dense(scene.Y_test)]).astype(int)
    common = {"C": settings["C"], "fit_intercept": False}
    exact = {**common, "tol": 1e-3, "max_iter": 30_000, "random_state": 0}
    scores: dict[str, list[float]] = {}
    for draw in range(settings["draws"]):
        step(f"draw {draw + 1} of {settings['draws']}")
        order = np.random.default_rng(draw).permutation(len(X))
        train, test = order[: settings["rows"]], order[settings["rows"] :]
        csrl = CalibratedSeparationClassifier(**exact).fit(X[train], Y[train])
        above, reference = csrl.decision_function(X[test]), csrl.threshold_function(X[test])[:, None]
        kernel = OutputKernelClassifier(weights=settings["weights"], **exact).fit(X[train], Y[train])
        kernel_above, kernel_reference = kernel.decision_function(X[test]), kernel.threshold_function(X[test])[:, None]
        factor = sum(settings["weights"])
        squares = OutputKernelLeastSquares(weights=settings["weights"], rule="paper", **common)
        predictions = {
            "Rank": RankSVM(**exact).fit(X[train], Y[train]).predict(X[test]),
            "CSRL": above > 0,
            "LS-K": squares.fit(X[train], Y[train]).predict(X[test]),
            "LM-K": factor * (kernel_above + kernel_reference) > kernel_reference,
            "LM-K, consistent": kernel_above > 0,
            "CSRL, same threshold": factor * (above + reference) > reference,
        }
        for name, predicted in predictions.items():
            for average in ("micro", "macro"):
                value = f1_score(Y[test], np.asarray(predicted).astype(int), average=average, zero_division=0.0)
                scores.setdefault(f"{name}, {average}", []).append(100.0 * float(value))
    return [
        {"name": name, "setting": "", "ours": float(np.mean(values)), "spread": spread(values), "headline": True}
        for name, values in scores.items()
    ]
