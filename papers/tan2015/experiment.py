"""Tan et al., 2015: which labels depend on each other, learned from features and labels together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score, hamming_loss, recall_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from multimargin import CliqueClassifier, datasets
from multimargin.model_selection import MultilabelStratifiedShuffleSplit
from papers.measuring import Cell, Settings, Step, cell, dense_parts, hamming_percent

__all__ = ["clique_count", "clique_objective", "clique_recovery", "label_graphs"]

GRAPHS: dict[str, dict[str, Any]] = {
    "CGM": {"graph": "learned"},
    "no edge": {"graph": None},
    "full edge": {"graph": "full"},
    "Chow-Liu": {"graph": "chow-liu"},
    "true edges": {},
}
"""Of the synthetic experiments."""

GRIDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "CGM": ({"graph": "learned"}, ("budget", "stopping")),
    "CGM with triples": ({"graph": "learned", "max_order": 3}, ("budget", "stopping")),
    "full edge": ({"graph": "full"}, ()),
    "Chow-Liu": ({"graph": "chow-liu"}, ()),
    "no edge": ({"graph": None}, ()),
    "full edge, softmax margin": ({"graph": "full", "loss": "softmax-margin"}, ("temperature",)),
    "BR": ({}, ()),
}
"""Of the real data: parameters of each method, and which ones are chosen, besides lambda."""

MEASURES = ("Hamming loss", "macro-F1", "micro-F1", "recall")


def clique_recovery(settings: Settings, step: Step) -> list[Cell]:
    """Labels with known cliques: loss on new rows, and how many of the true edges are found."""
    losses: dict[str, list[float]] = {name: [] for name in settings["methods"]}
    true: dict[str, list[float]] = {name: [] for name in ("CGM", "Chow-Liu") if name in losses}
    other: dict[str, list[float]] = {name: [] for name in true}
    for seed in range(settings["seeds"]):
        problem = _Synthetic(settings, seed)
        for name in losses:
            step(f"seed {seed + 1} of {settings['seeds']}, {name}")
            model = problem.fit(name)
            losses[name].append(hamming_percent(model.predict(problem.X_test), problem.Y_test))
            if name in true:
                found = {tuple(sorted(clique)) for clique in model.cliques_}
                true[name].append(len(found & problem.edges))
                other[name].append(len(found - problem.edges))
    return [
        *(cell(name, draws, values=draws) for name, draws in losses.items()),
        *(cell(f"{name}, true edges, fewest of all seeds", min(v), values=v) for name, v in true.items()),
        *(cell(f"{name}, other edges, most of all seeds", max(v), values=v) for name, v in other.items()),
    ]


def clique_objective(settings: Settings, step: Step) -> list[Cell]:
    """Lowest objective seen after so many epochs, with the mean loss and lambda as in the paper; bounds at the end."""
    curves: dict[str, list[float]] = {}
    for seed in range(settings["seeds"]):
        problem = _Synthetic(settings, seed)
        for name in settings["methods"]:
            step(f"seed {seed + 1} of {settings['seeds']}, {name}")
            model = problem.fit(name)
            history = model.history_
            for epochs in settings["epochs"]:
                seen = settings["lambda"] * history.primal[history.pass_ <= epochs]
                # Weights of zero cost one for each label.
                lowest = min(seen, default=float(problem.Y.shape[1]))
                curves.setdefault(f"{name}, {epochs} epochs", []).append(lowest)
            for words, value in (
                ("at the end", settings["lambda"] * model.certificate_.primal),
                ("lower bound", settings["lambda"] * model.certificate_.dual),
                ("epochs in all", float(model.n_iter_)),
            ):
                curves.setdefault(f"{name}, {words}", []).append(value)
    return [cell(name, draws, values=draws) for name, draws in curves.items()]


def label_graphs(settings: Settings, step: Step) -> list[Cell]:
    """Compare graphs on real data; each method chooses its parameters on rows held out of the training rows."""
    scores: dict[str, list[NDArray[np.float64]]] = {name: [] for name in settings["methods"]}
    chosen: dict[str, list[str]] = {name: [] for name in scores}
    folds = list(_folds(settings))
    for fold, (X, Y, X_test, Y_test) in enumerate(folds):
        split = MultilabelStratifiedShuffleSplit(1, test_size=settings["held_out"], random_state=fold)
        rows, held = next(split.split(X, Y))
        for name in scores:
            best: tuple[float, float, dict[str, Any]] = (-np.inf, settings["lambda"][0], {})
            grid = _grid(name, settings)
            for at, (lam, params) in enumerate(grid):
                step(f"fold {fold + 1} of {len(folds)}, {name}, {at + 1} of {len(grid)}")
                model = _model(name, lam, params, len(rows)).fit(X[rows], Y[rows])
                loss, _, micro, _ = _measures(Y[held], model.predict(X[held]))
                if micro - loss > best[0]:
                    best = (micro - loss, lam, params)
            _, lam, params = best
            model = _model(name, lam, params, len(X)).fit(X, Y)
            scores[name].append(_measures(Y_test, model.predict(X_test)))
            words = [f"lambda = {lam:g}", *(f"{key} = {value}" for key, value in params.items() if key in settings)]
            chosen[name].append(", ".join(words))
    return [cell for name in scores for cell in _measured(name, scores[name], chosen[name])]


def clique_count(settings: Settings, step: Step) -> list[Cell]:
    """Measure performance against the number of cliques, with one model that goes on growing."""
    scores: dict[int, list[NDArray[np.float64]]] = {count: [] for count in settings["counts"]}
    folds = list(_folds(settings))
    for fold, (X, Y, X_test, Y_test) in enumerate(folds):
        model = _clique_model(
            {"graph": "learned", "budget": settings["budget"], "stopping": "limit", "batch": 1, "prune": 0.0},
            settings["lambda"],
            len(X),
        ).set_params(cliqueclassifier__warm_start=True)
        for count in settings["counts"]:
            step(f"fold {fold + 1} of {len(folds)}, {count} cliques")
            model.set_params(cliqueclassifier__max_cliques=count).fit(X, Y)
            scores[count].append(_measures(Y_test, model.predict(X_test)))
    return [cell for count, values in scores.items() for cell in _measured(f"{count} edges", values)]


class _Synthetic:
    """Rows to train on and to test, labels with four true edges."""

    def __init__(self, settings: Settings, seed: int) -> None:
        n = settings["rows"]
        data = datasets.make_clique_labels(n + settings["test_rows"], settings["features"], random_state=seed)
        self.X, self.Y, self.X_test, self.Y_test = data.X[:n], data.Y[:n], data.X[n:], data.Y[n:]
        self.edges = set(data.cliques)
        self.settings = settings

    def fit(self, name: str) -> CliqueClassifier:
        settings = self.settings
        return CliqueClassifier(
            1.0 / (settings["lambda"] * len(self.X)),
            budget=settings["budget"],
            tol=settings["tol"],
            max_iter=settings["max_iter"],
            random_state=0,
            **{"graph": sorted(self.edges), **GRAPHS[name]},
        ).fit(self.X, self.Y)


def _folds(settings: Settings) -> Iterator[tuple[NDArray[Any], ...]]:
    """Training and test rows: folds of all rows for each seed, or the official split if ``folds`` is 0."""
    parts = dense_parts(settings["set"])
    if not settings["folds"]:
        yield parts
        return
    X, Y = np.vstack(parts[0::2]), np.vstack(parts[1::2])
    if settings["rows"]:
        rows = np.random.default_rng(0).permutation(len(X))[: settings["rows"]]
        X, Y = X[rows], Y[rows]
    for seed in settings["seeds"]:
        for train, test in KFold(settings["folds"], shuffle=True, random_state=seed).split(X):
            yield X[train], Y[train], X[test], Y[test]


def _grid(name: str, settings: Settings) -> list[tuple[float, dict[str, Any]]]:
    fixed, keys = GRIDS[name]
    choices = [dict(zip(keys, values, strict=True)) for values in product(*(settings[key] for key in keys))]
    return [(lam, {**fixed, **choice}) for lam in settings["lambda"] for choice in choices]


def _model(name: str, lam: float, params: dict[str, Any], n: int) -> Any:
    if name != "BR":
        return _clique_model(params, lam, n)
    # Squared hinge loss: with the plain one this would be "no edge".
    return make_pipeline(*_scaling(), OneVsRestClassifier(LinearSVC(C=1.0 / (lam * n), dual=False, max_iter=10_000)))


def _clique_model(params: dict[str, Any], lam: float, n: int) -> Any:
    return make_pipeline(*_scaling(), CliqueClassifier(1.0 / (lam * n), tol=0.01, random_state=0, **params))


def _scaling() -> tuple[Any, Any]:
    """Standardised features, divided by the square root of their number."""
    return StandardScaler(), FunctionTransformer(_divide)


def _divide(X: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(X / np.sqrt(X.shape[1]))


def _measures(truth: NDArray[Any], predicted: Any) -> NDArray[np.float64]:
    """``MEASURES`` in percent."""
    predicted = np.asarray(predicted).astype(int)
    f1 = [f1_score(truth, predicted, average=average, zero_division=0.0) for average in ("macro", "micro")]
    recall = recall_score(truth, predicted, average="micro", zero_division=0.0)
    return 100.0 * np.array([hamming_loss(truth, predicted), *f1, recall])


def _measured(name: str, scores: list[NDArray[np.float64]], chosen: list[str] | None = None) -> list[Cell]:
    return [
        cell(
            f"{name}, {measure}",
            draws,
            values=draws,
            measure=measure,
            higher_is_better=measure != "Hamming loss",
            chosen=chosen or [],
        )
        for measure, draws in zip(MEASURES, np.transpose(scores).tolist(), strict=True)
    ]
