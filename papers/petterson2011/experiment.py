"""Petterson and Caetano, 2011: labels that attract each other, and the published oracle against the exact one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from multimargin import LinearM3L, SubmodularClassifier, datasets, metrics
from multimargin.baselines import MLkNN, RAkEL
from papers.measuring import Cell, Settings, Step, as_dense, cell, quiet_about_constants

from .oracles import AllLabelSets

__all__ = ["few_features", "published_oracle"]

Array = NDArray[Any]


@dataclass(frozen=True)
class _Split:
    """Training and test rows; features dense or sparse."""

    X: Any
    Y: Array
    X_test: Any
    Y_test: Array

    @classmethod
    def load(cls, name: str) -> _Split:
        data = datasets.load(name)
        return cls(data.X_train, as_dense(data.Y_train).astype(int), data.X_test, as_dense(data.Y_test).astype(int))

    def with_features(self, columns: Array) -> _Split:
        return _Split(self.X[:, columns].copy(), self.Y, self.X_test[:, columns].copy(), self.Y_test)

    def folds(self, n_folds: int) -> Iterator[_Split]:
        """Training rows split into more training rows and held-out ones."""
        for train, held_out in KFold(n_folds, shuffle=True, random_state=0).split(self.X):
            yield _Split(self.X[train], self.Y[train], self.X[held_out], self.Y[held_out])

    def fitted(self, model: Any) -> Any:
        with quiet_about_constants():
            return model.fit(self.X, self.Y)

    def f_score(self, predicted: Any) -> float:
        """Mean F-score of the test rows in percent; 100 where truth and prediction are both empty."""
        return 100.0 * metrics.example_f1(self.Y_test, predicted)


def few_features(settings: Settings, step: Step) -> list[Cell]:
    """F-score with shares of the features drawn at random: with and without attraction, intercept and offset."""
    cells: list[Cell] = []
    for name in settings["sets"]:
        data, its = _Split.load(name), {**settings, **settings[name]}
        cells.append(cell(f"{name}, pairs", len(_pairs(data, its["pairs"]))))
        cells.append(cell(f"{name}, constant", data.f_score(_best_constant(data))))
        rng = np.random.default_rng(0)
        for share in settings["features"]:
            draws = settings["draws"] if share < 1 else 1
            scores: dict[str, list[float]] = {}
            for draw in range(draws):
                step(f"{name}, {share:.0%} of the features, draw {draw + 1} of {draws}")
                n_features = data.X.shape[1]
                columns = np.sort(rng.choice(n_features, max(1, round(share * n_features)), replace=False))
                for method, score in _contest(data.with_features(columns), its, draw):
                    scores.setdefault(f"{name}, {share:.0%}, {method}", []).append(score)
            cells += [cell(method, values) for method, values in scores.items()]
    return cells


def _pairs(data: _Split, share: float) -> Array:
    model = SubmodularClassifier(pairs=share, tol=0.5, random_state=0)
    return np.asarray(data.fitted(model).pairs_)


def _best_constant(data: _Split) -> Array:
    """Return the same labels for all test rows: the most frequent ones, as many as the training F-score likes best."""
    order = np.argsort(-data.Y.sum(axis=0), kind="stable")
    constants = [np.isin(np.arange(len(order)), order[:k]).astype(int) for k in range(len(order) + 1)]
    best = max(constants, key=lambda row: metrics.example_f1(data.Y, np.broadcast_to(row, data.Y.shape)))
    return np.broadcast_to(best, data.Y_test.shape)


def _contest(data: _Split, settings: Settings, draw: int) -> Iterator[tuple[str, float]]:
    for intercept, words in ((True, ""), (False, ", no intercept")):
        for method, pairs in (("RML", 0.0), ("SML", settings["pairs"])):
            for offset, score in _selected(data, settings, pairs=pairs, fit_intercept=intercept).items():
                yield f"{method}{offset}{words}", score
        one_vs_all = LinearM3L(fit_intercept=intercept, random_state=0)
        yield f"BR{words}", data.f_score(data.fitted(one_vs_all).predict(data.X_test))
    if draw < settings["rakel_draws"]:
        rakel = RAkEL(settings["labelset_size"], random_state=0)
        yield "RAkEL", data.f_score(data.fitted(rakel).predict(data.X_test))
    yield "MLkNN", data.f_score(data.fitted(MLkNN()).predict(data.X_test))


def _selected(data: _Split, settings: Settings, **parameters: Any) -> dict[str, float]:
    """Test F-scores, without and with offset, at the lambda and c that are best for each in cross-validation."""
    scales = settings["c"] if parameters["pairs"] > 0 else [1.0]
    held_out: dict[tuple[float, float], list[dict[str, float]]] = {}
    for fold in data.folds(settings["folds"]):
        for c in scales:
            for lam, scores in _path(fold, settings, c, settings["lambda"], **parameters):
                held_out.setdefault((c, lam), []).append(scores)
    result = {}
    for offset in ("", ", offset"):
        c, lam = max(held_out, key=lambda key: float(np.mean([scores[offset] for scores in held_out[key]])))
        ((_, scores),) = _path(data, settings, c, [lam], **parameters)
        result[offset] = scores[offset]
    return result


def _path(
    data: _Split, settings: Settings, c: float, lambdas: list[float], **parameters: Any
) -> Iterator[tuple[float, dict[str, float]]]:
    """Test F-scores without and with offset for falling lambda, each fit started from the last."""
    model = SubmodularClassifier(
        pair_scale=c, offset="train", warm_start=True, tol=settings["tol"], random_state=0, **parameters
    )
    for lam in sorted(lambdas, reverse=True):
        data.fitted(model.set_params(C=1.0 / (lam * len(data.Y))))
        calibrated = data.f_score(model.predict(data.X_test))
        model.offset_ = 0.0
        yield lam, {"": data.f_score(model.predict(data.X_test)), ", offset": calibrated}


def published_oracle(settings: Settings, step: Step) -> list[Cell]:
    """How often the published oracle is optimal, proved so, and what the objective loses, along training."""
    data = _Split.load("yeast")
    cells = []
    for oracle in settings["oracles"]:
        prefix = "" if oracle == "paper" else f"{oracle} oracle: "
        shares = []
        for iteration in settings["iterations"]:
            step(f"{oracle} oracle, iteration {iteration}")
            shares.append(_quality(data, settings, oracle, iteration))
        for quantity in shares[0]:
            values = [share[quantity] for share in shares]
            late = [value for value, k in zip(values, settings["iterations"], strict=True) if k >= settings["late"]]
            cells.append(cell(f"{prefix}{quantity}, mean", float(np.mean(values))))
            cells.append(cell(f"{prefix}{quantity}, from {settings['late']} on at most", max(late)))
        cells += [
            cell(f"{prefix}{quantity}, iteration {k}", share[quantity], headline=False)
            for k, share in zip(settings["iterations"], shares, strict=True)
            for quantity in share
        ]
    return cells


def _quality(data: _Split, settings: Settings, oracle: str, iteration: int) -> dict[str, float]:
    """Shares in percent, at the best point of so many iterations of the bundle method."""
    lam = settings["lambda"]
    model = SubmodularClassifier(
        C=1.0 / (lam * len(data.Y)), pairs=0.5, solver="bundle", oracle=oracle, max_iter=iteration, tol=1e-9
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so many iterations and no more is what is asked for
        data.fitted(model)
    u = np.asarray(data.X @ model.coef_.T + model.intercept_)
    sets = AllLabelSets(data.Y.shape[1], model.pairs_, model.pair_coef_)
    answers = sets.answers(u, data.Y)
    together = data.Y[:, model.pairs_[:, 0]] * data.Y[:, model.pairs_[:, 1]]
    own = np.sum(u * data.Y, axis=1) + together @ model.pair_coef_
    theta = model.pair_coef_ / together.mean(axis=0)
    norm = sum(float(np.sum(part**2)) for part in (model.coef_, model.intercept_, theta))
    objective = 0.5 * lam * norm + float(np.mean(answers["exact"] - own))
    return {
        "not optimal": 100.0 * float(np.mean(answers["published"] < answers["exact"] - 1e-8)),
        "not proved": 100.0 * (1.0 - float(np.mean(answers["proved"]))),
        "not proved, tighter test": 100.0 * (1.0 - float(np.mean(answers["proved_tighter"]))),
        "objective error": 100.0 * float(np.mean(answers["exact"] - answers["published"])) / objective,
    }
