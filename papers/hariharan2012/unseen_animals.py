"""Hariharan et al., 2012: attributes of categories never seen in training, animals or nouns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from multimargin import KernelM3L, LinearM3L, datasets, priors
from multimargin.weights import LabelFrequencies, signature_frequencies
from papers.measuring import Cell, Settings, Step, cell, hamming_percent, quiet_about_constants

from .kernels import median_grams

__all__ = ["Animals", "pair_correlation", "unseen_attributes"]

METHODS = {
    "one-vs-all": (False, False),
    "M3L": (True, False),
    "one-vs-all + weights": (False, True),
    "M3L + weights": (True, True),
}


class Animals:
    """Animals with attributes: images of seen animals to train on, images of unseen ones to test; or nouns likewise."""

    def __init__(self, name: str = "awa") -> None:
        awa = datasets.load(name)
        self.X, self.X_test = normalize(awa.X_train), normalize(awa.X_test)
        self.Y, self.Y_test = awa.Y_train.toarray(), awa.Y_test.toarray()
        self.names = list(awa.label_names)
        self.signatures = awa.signatures[awa.unseen]
        self.shares = np.array([np.mean(awa.class_test == c) for c in awa.unseen])

    def draws(self, rows: int, count: int) -> Iterator[NDArray[np.int64]]:
        """Training rows of each draw; all of them if ``rows`` is 0."""
        for seed in range(count):
            n = len(self.X)
            yield np.random.default_rng(seed).choice(n, rows, replace=False) if rows else np.arange(n)

    def constant_loss(self, columns: Any = slice(None)) -> float:
        """Loss of predicting each attribute as most of the unseen animals have it."""
        frequency = signature_frequencies(self.signatures, self.shares)[columns]
        return hamming_percent(np.broadcast_to(frequency > 0.5, self.Y_test[:, columns].shape), self.Y_test[:, columns])


def unseen_attributes(settings: Settings, step: Step) -> list[Cell]:
    """All attributes of unseen animals: one-vs-all and M3L, with and without class weights, on a grid."""
    animals = Animals(settings.get("set", "awa"))
    losses: dict[tuple[str, float, str], list[float]] = {}
    for draw, rows in enumerate(animals.draws(settings["rows"], settings["draws"])):
        X, Y = animals.X[rows], animals.Y[rows]
        weights = LabelFrequencies(signature_frequencies(animals.signatures, animals.shares))
        R = priors.from_signatures(animals.signatures, animals.shares)
        for kernel in settings["kernels"]:
            step(f"draw {draw + 1} of {settings['draws']}, {kernel}")
            train, test = (X, animals.X_test) if kernel == "linear" else median_grams(kernel, X, animals.X_test)
            for C in settings["C"]:
                for method, (with_prior, with_weights) in METHODS.items():
                    model: Any = LinearM3L(C) if kernel == "linear" else KernelM3L(C, kernel="precomputed")
                    model.set_params(
                        prior=R if with_prior else None,
                        class_weight=weights if with_weights else None,
                        random_state=0,
                    )
                    with quiet_about_constants():
                        predicted = model.fit(train, Y).predict(test)
                    losses.setdefault((kernel, C, method), []).append(hamming_percent(predicted, animals.Y_test))
    means = {key: float(np.mean(values)) for key, values in losses.items()}
    best = min((key for key in means if key[2] == "M3L"), key=lambda key: means[key])[:2]
    setting = f"{best[0]}, C = {best[1]:g}"
    headline = [cell(method, losses[(*best, method)], setting=setting) for method in METHODS]
    grid = [
        cell(
            f"{method}, {kernel}, C = {C:g}",
            values,
            headline=False,
            part="The whole grid",
            row=f"{kernel}, C = {C:g}",
            column=method,
        )
        for (kernel, C, method), values in losses.items()
    ]
    return [*headline, cell("constant", animals.constant_loss()), *grid]


def pair_correlation(settings: Settings, step: Step) -> list[Cell]:
    """Two attributes of unseen animals against the correlation r that the prior gives them."""
    animals = Animals()
    columns = [animals.names.index(name) for name in settings["labels"]]
    truth = animals.Y_test[:, columns]
    losses: dict[float, list[float]] = {r: [] for r in settings["r"]}
    for draw, rows in enumerate(animals.draws(settings["rows"], settings["draws"])):
        step(f"draw {draw + 1} of {settings['draws']}")
        train, test = median_grams("rbf", animals.X[rows], animals.X_test)
        for r in settings["r"]:
            model = KernelM3L(settings["C"], kernel="precomputed", prior=np.array([[1.0, r], [r, 1.0]]), random_state=0)
            with quiet_about_constants():
                losses[r].append(hamming_percent(model.fit(train, animals.Y[rows][:, columns]).predict(test), truth))
    constant = cell("constant", animals.constant_loss(columns))
    return [*(cell(f"r = {r:+.1f}", values) for r, values in losses.items()), constant]
