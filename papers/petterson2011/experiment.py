"""Petterson and Caetano, 2011: labels that attract each other, and the published oracle against the exact one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from multimargin import LinearM3L, SubmodularClassifier, datasets, metrics
from multimargin.baselines import MLkNN, RAkEL
from papers.measuring import Cell, Settings, Step, as_dense, cell, quiet_about_constants

__all__ = ["few_features", "published_oracle"]

Array = NDArray[Any]

ERROR = "objective error"


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
        for words, value in (
            ("pairs", len(_pairs(data, its["pairs"]))),
            ("constant", data.f_score(_best_constant(data))),
        ):
            cells.append(cell(f"{name}, {words}", value, row=name, column=words))
        rng = np.random.default_rng(0)
        for share in settings["features"]:
            draws = settings["draws"] if share < 1 else 1
            scores: dict[tuple[str, str], list[float]] = {}
            for draw in range(draws):
                step(f"{name}, {share:.0%} of the features, draw {draw + 1} of {draws}")
                n_features = data.X.shape[1]
                columns = np.sort(rng.choice(n_features, max(1, round(share * n_features)), replace=False))
                for method, words, score in _contest(data.with_features(columns), its, draw):
                    scores.setdefault((method, words), []).append(score)
            where = f"{name}, {share:.0%}"
            cells += [
                cell(f"{where}, {method}{words}", values, part="F-score", row=f"{where}{words}", column=method)
                for (method, words), values in scores.items()
            ]
    return cells


def _pairs(data: _Split, share: float) -> Array:
    model = SubmodularClassifier(1.0, pairs=share, tol=0.5, random_state=0)
    return np.asarray(data.fitted(model).pairs_)


def _best_constant(data: _Split) -> Array:
    """Return the same labels for all test rows: the most frequent ones, as many as the training F-score likes best."""
    order = np.argsort(-data.Y.sum(axis=0), kind="stable")
    constants = [np.isin(np.arange(len(order)), order[:k]).astype(int) for k in range(len(order) + 1)]
    best = max(constants, key=lambda row: metrics.example_f1(data.Y, np.broadcast_to(row, data.Y.shape)))
    return np.broadcast_to(best, data.Y_test.shape)


def _contest(data: _Split, settings: Settings, draw: int) -> Iterator[tuple[str, str, float]]:
    """Yield the method, words where it has no intercept, and its score."""
    for intercept, words in ((True, ""), (False, ", no intercept")):
        for method, pairs in (("RML", 0.0), ("SML", settings["pairs"])):
            for offset, score in _selected(data, settings, pairs=pairs, fit_intercept=intercept).items():
                yield f"{method}{offset}", words, score
        one_vs_all = LinearM3L(settings["C"], fit_intercept=intercept, random_state=0)
        yield "BR", words, data.f_score(data.fitted(one_vs_all).predict(data.X_test))
    if draw < settings["rakel_draws"]:
        rakel = RAkEL(settings["labelset_size"], C=settings["C"], random_state=0)
        yield "RAkEL", "", data.f_score(data.fitted(rakel).predict(data.X_test))
    yield "MLkNN", "", data.f_score(data.fitted(MLkNN()).predict(data.X_test))


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
    falling = sorted(lambdas, reverse=True)
    costs = [1.0 / (lam * len(data.Y)) for lam in falling]
    model = SubmodularClassifier(
        costs[0], pair_scale=c, offset="train", warm_start=True, tol=settings["tol"], random_state=0, **parameters
    )
    for lam, C in zip(falling, costs, strict=True):
        data.fitted(model.set_params(C=C))
        calibrated = data.f_score(model.predict(data.X_test))
        model.offset_ = 0.0
        yield lam, {"": data.f_score(model.predict(data.X_test)), ", offset": calibrated}


def published_oracle(settings: Settings, step: Step) -> list[Cell]:
    """How often Algorithm 2 is optimal and proved so, and what the objective loses, at every iterate of training."""
    data = _Split.load("yeast")
    cells = []
    for intercept, lam, oracle in product(settings["intercepts"], settings["lambda"], settings["oracles"]):
        where = f"lambda {lam:g}{'' if intercept else ', no intercept'}{'' if oracle == 'paper' else ', exact oracle'}"
        step(f"{where}: {settings['iterations']} iterations")
        curves, gap = _curves(data, settings, lam, oracle, fit_intercept=intercept)
        late, since = slice(settings["late"] - 1, None), f"from {settings['late']} on"
        for words, value in (
            ("iterations", len(curves["not optimal"])),
            ("relative gap at the end", gap),
            ("not optimal, mean", np.mean(curves["not optimal"])),
            (f"{ERROR}, {since} at most", max(curves[ERROR][late])),
            (f"{ERROR}, {since}, mean", np.mean(curves[ERROR][late])),
            ("not proved, mean", np.mean(curves["not proved"])),
            ("not proved, tighter test, mean", np.mean(curves["not proved, tighter test"])),
            (
                f"correlation of optimal and proved, {since}",
                _correlation(curves["not optimal"][late], curves["not proved"][late]),
            ),
        ):
            cells.append(cell(f"{where}: {words}", float(value), row=where, column=words))
        for k, (quantity, values) in product(settings["shown"], curves.items()):
            if k <= len(values):
                name = f"{where}: {quantity}, iteration {k}"
                shown = _part_of(quantity) if intercept and oracle == "paper" else {}
                cells.append(
                    cell(name, values[k - 1], headline=False, row=f"iteration {k}", column=f"lambda {lam:g}", **shown)
                )
    return cells


def _part_of(quantity: str) -> dict[str, str]:
    """Return the table of the README in which a quantity stands at some iterations, if it does."""
    shown = ("not optimal", "not proved", ERROR)
    return {"part": f"With an intercept, {' / '.join(shown)}"} if quantity in shown else {}


def _correlation(a: list[float], b: list[float]) -> float:
    """Correlation of two curves; 0 where one of them does not move."""
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0


def _curves(
    data: _Split, settings: Settings, lam: float, oracle: str, **parameters: Any
) -> tuple[dict[str, list[float]], float]:
    """Percentages of the rows, and of the objective, at each point where BMRM called its oracle; the gap at the end."""
    curves: dict[str, list[float]] = {}
    n = len(data.Y)

    def look(progress: Any) -> None:
        model = progress.model
        found = model.most_violating(data.X, data.Y)
        assert found.exact.all()
        together = data.Y[:, model.pairs_[:, 0]] * data.Y[:, model.pairs_[:, 1]]
        theta = model.pair_coef_ / (settings["c"] * together.mean(axis=0))
        norm = sum(float(np.sum(part**2)) for part in (model.coef_, model.intercept_, theta))
        objective = 0.5 * lam * norm + float(np.mean(found.slack))
        for quantity, share in {
            "not optimal": np.mean(found.paper_value < found.value - 1e-8),
            "not proved": 1.0 - np.mean(found.paper_certified),
            "not proved, tighter test": 1.0 - np.mean(found.paper_proved),
            ERROR: np.mean(found.value - found.paper_value) / objective,
        }.items():
            curves.setdefault(quantity, []).append(100.0 * float(share))

    model = SubmodularClassifier(
        C=1.0 / (lam * n),
        pairs=0.5,
        pair_scale=settings["c"],
        solver="bmrm",
        oracle=oracle,
        max_iter=settings["iterations"],
        tol=settings["tol"],
        callback=look,
        **parameters,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so many iterations and no more is what is asked for
        data.fitted(model)
    return curves, 100.0 * model.certificate_.relative_gap
