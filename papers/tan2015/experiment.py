"""Tan et al., 2015: which labels depend on each other, learned from features and labels together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score, hamming_loss, precision_score, recall_score
from sklearn.model_selection import KFold

from multimargin import datasets
from multimargin.model_selection import MultilabelStratifiedShuffleSplit
from papers.measuring import Cell, Settings, Step, cell, dense_parts, hamming_percent, within

from .methods import CLIQUES, Choice, choices, model_of

__all__ = [
    "clique_count",
    "clique_objective",
    "clique_recovery",
    "folds_of",
    "label_graphs",
    "measured",
    "measures",
]

MEASURES = ("Hamming loss", "macro-F1", "micro-F1", "precision", "recall")


def clique_recovery(settings: Settings, step: Step) -> list[Cell]:
    """Labels with known cliques: loss on new rows, and how many of the true edges are found."""
    losses: dict[str, list[float]] = {name: [] for name in settings["methods"]}
    true: dict[str, list[float]] = {name: [] for name in ("CGM", "Chow-Liu") if name in losses}
    other: dict[str, list[float]] = {name: [] for name in true}
    for seed in range(settings["seeds"]):
        problem = _Synthetic(settings, seed)
        for name in losses:
            model = problem.fit(name, within(step, f"seed {seed + 1} of {settings['seeds']}"))
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
    curves: dict[tuple[str, str], list[float]] = {}
    for seed in range(settings["seeds"]):
        problem = _Synthetic(settings, seed)
        for name in settings["methods"]:
            model = problem.fit(name, within(step, f"seed {seed + 1} of {settings['seeds']}"))
            history = model.history_
            for epochs in settings["epochs"]:
                seen = settings["lambda"] * history.primal[history.pass_ <= epochs]
                # Weights of zero cost one for each label.
                lowest = min(seen, default=float(problem.Y.shape[1]))
                curves.setdefault((name, f"{epochs} epochs"), []).append(lowest)
            for words, value in (
                ("at the end", settings["lambda"] * model.certificate_.primal),
                ("lower bound", settings["lambda"] * model.certificate_.dual),
                ("epochs in all", float(model.n_iter_)),
            ):
                curves.setdefault((name, words), []).append(value)
    means = [cell(f"{name}, {words}", draws, row=words, column=name) for (name, words), draws in curves.items()]
    each = [
        cell(f"{name}, {words}, seed {seed}", value, part="Each seed", row=f"{name}, {words}", column=f"seed {seed}")
        for (name, words), draws in curves.items()
        if words in ("at the end", "lower bound")
        for seed, value in enumerate(draws)
    ]
    return [*means, *each]


def label_graphs(settings: Settings, step: Step) -> list[Cell]:
    """Compare methods on real data; each chooses its parameters on rows held out of the training rows."""
    scores: dict[str, list[NDArray[np.float64]]] = {name: [] for name in settings["methods"]}
    chosen: dict[str, list[str]] = {name: [] for name in scores}
    folds = list(folds_of(settings))
    for fold, (X, Y, X_test, Y_test) in enumerate(folds):
        for name in scores:
            choice = _chosen(name, X, Y, settings, fold, within(step, f"fold {fold + 1} of {len(folds)}"))
            model = model_of(name, choice, len(X)).fit(X, Y)
            scores[name].append(measures(Y_test, model.predict(X_test)))
            chosen[name].append(", ".join(f"{key} = {value}" for key, value in choice.items()))
    cells = [cell for name in scores for cell in measured(name, scores[name], chosen[name])]
    for one, other in settings.get("differences", []):
        cells += measured(f"{one} minus {other}", [a - b for a, b in zip(scores[one], scores[other], strict=True)])
    return cells


def _chosen(
    name: str, X: NDArray[Any], Y: NDArray[Any], settings: Settings, seed: int, step: Step, scaled: bool = True
) -> Choice:
    """Choose what is best on a share of the rows, by micro-F1 minus Hamming loss."""
    candidates = choices(name, settings)
    if len(candidates) == 1:
        return candidates[0]
    split = MultilabelStratifiedShuffleSplit(1, test_size=settings["held_out"], random_state=seed)
    rows, held = next(split.split(X, Y))
    values = []
    for at, choice in enumerate(candidates):
        step(f"{name}, {at + 1} of {len(candidates)}")
        model = model_of(name, choice, len(rows), scaled).fit(X[rows], Y[rows])
        loss, _, micro, *_ = measures(Y[held], model.predict(X[held]))
        values.append(micro - loss)
    return candidates[int(np.argmax(values))]


def clique_count(settings: Settings, step: Step) -> list[Cell]:
    """Measure performance against the number of cliques, with one model that goes on growing."""
    scores: dict[int, list[NDArray[np.float64]]] = {count: [] for count in settings["counts"]}
    folds = list(folds_of(settings))
    for fold, (X, Y, X_test, Y_test) in enumerate(folds):
        model = model_of(
            "CGM",
            {"lambda": settings["lambda"], "budget": settings["budget"], "stopping": "limit"},
            len(X),
            batch=1,
            prune=0.0,
            warm_start=True,
        )
        for count in settings["counts"]:
            step(f"fold {fold + 1} of {len(folds)}, {count} cliques")
            model.set_params(cliqueclassifier__max_cliques=count).fit(X, Y)
            scores[count].append(measures(Y_test, model.predict(X_test)))
    return [cell for count, values in scores.items() for cell in measured(f"{count} edges", values)]


class _Synthetic:
    """Rows to train on and to test, labels with four true edges."""

    def __init__(self, settings: Settings, seed: int) -> None:
        n = settings["rows"]
        data = datasets.make_clique_labels(n + settings["test_rows"], settings["features"], random_state=seed)
        self.X, self.Y, self.X_test, self.Y_test = data.X[:n], data.Y[:n], data.X[n:], data.Y[n:]
        self.edges = set(data.cliques)
        self.settings = settings

    def fit(self, name: str, step: Step) -> Any:
        """Train a variant of CGM with the settings of the table, or a rival with what it chooses on rows held out."""
        settings, n = self.settings, len(self.X)
        step(name)
        if name not in CLIQUES:
            choice = _chosen(name, self.X, self.Y, settings, 0, step, scaled=False)
            return model_of(name, choice, n, scaled=False).fit(self.X, self.Y)
        graph = {"graph": sorted(self.edges)} if name == "true edges" else {}
        keys = ("budget", "tol", "max_iter")
        model = model_of(
            name, {"lambda": settings["lambda"]}, n, scaled=False, **graph, **{key: settings[key] for key in keys}
        )
        return model.fit(self.X, self.Y)


def folds_of(settings: Settings) -> Iterator[tuple[NDArray[Any], ...]]:
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


def measures(truth: NDArray[Any], predicted: Any) -> NDArray[np.float64]:
    """``MEASURES`` in percent."""
    predicted = np.asarray(predicted).astype(int)
    f1 = [f1_score(truth, predicted, average=average, zero_division=0.0) for average in ("macro", "micro")]
    rates = [score(truth, predicted, average="micro", zero_division=0.0) for score in (precision_score, recall_score)]
    return 100.0 * np.array([hamming_loss(truth, predicted), *f1, *rates])


def measured(name: str, scores: list[NDArray[np.float64]], chosen: list[str] | None = None) -> list[Cell]:
    """Cells of what `measures` returned for each fold."""
    return [
        cell(
            f"{name}, {measure}",
            draws,
            values=draws,
            row=name,
            column=measure,
            measure=measure,
            higher_is_better=measure != "Hamming loss",
            chosen=chosen or [],
        )
        for measure, draws in zip(MEASURES, np.transpose(scores).tolist(), strict=True)
    ]
