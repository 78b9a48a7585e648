"""What tuned thresholds, calibrated probabilities and decoding are worth on real data.

Protocol. The pooled rows of each set are split anew several times, test rows drawn with the share of every label. Dense
features are standardised and divided by the root of their number, sparse rows scaled to length 1. LinearM3L with C = 1,
not tuned; decisions are made on five-fold out-of-fold scores of the training rows, and judged on the test rows. Every
number is a mean over the splits; the last column of a table is the standard error of the paired difference between the
default and no tuning. Splits share rows, so that it measures the noise of splitting only.

    MULTIMARGIN_DATA=... python benchmarks/decisions.py [--splits 3] [name of a data set]...
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import scipy.sparse as sp
from _common import save
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler, normalize

from multimargin import LabelCalibrator, LinearM3L, ThresholdTuner, datasets, metrics
from multimargin.model_selection import train_test_split

NAMES = [
    "emotions", "scene", "yeast", "enron", "medical", "bibtex", "tmc2007", "corel5k", "mediamill", "rcv1", "delicious",
    "eurlex-4k",
]  # fmt: skip
MOST_ROWS = 10_000
MOST_LABELS = 1000  # the most frequent ones, of eurlex-4k
RARE = 10


class Remembering(ClassifierMixin, BaseEstimator):
    """LinearM3L on rows given by their numbers; the same rows are trained on once."""

    def __init__(self, data=None):
        self.data = data

    def fit(self, rows, Y):
        """Train on these rows, or take the model trained on them before."""
        X, models = self.data
        key = np.asarray(rows).tobytes()
        if key not in models:
            models[key] = LinearM3L(C=1.0, tol=1e-2, random_state=0).fit(X[np.asarray(rows).ravel()], Y)
        self.model_ = models[key]
        self.classes_ = self.model_.classes_
        self.label_names_, self.constant_labels_ = self.model_.label_names_, self.model_.constant_labels_
        return self

    def decision_function(self, rows):
        """Scores of these rows."""
        return self.model_.decision_function(self.data[0][np.asarray(rows).ravel()])

    def predict(self, rows):
        """Labels of these rows, not tuned."""
        return self.model_.predict(self.data[0][np.asarray(rows).ravel()])

    def __sklearn_clone__(self):
        return Remembering(self.data)


def load(name):
    data = datasets.load(name)
    stack = sp.vstack if sp.issparse(data.X_train) else np.vstack
    X = stack([data.X_train, data.X_test])
    Y = sp.csr_array(sp.vstack([sp.csr_array(data.Y_train), sp.csr_array(data.Y_test)]))
    X = sp.csr_array(X) if sp.issparse(X) else X
    rows = np.random.default_rng(0).permutation(X.shape[0])[:MOST_ROWS]
    X, Y = X[rows], Y[rows]
    return X, Y[:, np.sort(np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[:MOST_LABELS])]


def scaled(X, train):
    if sp.issparse(X):
        return normalize(X)
    return StandardScaler().fit(X[train]).transform(X) / np.sqrt(X.shape[1])


def one_split(X, Y, seed):
    """Values of every decision on the test rows."""
    train, test = train_test_split(np.arange(Y.shape[0]), test_size=1 / 3, random_state=seed, stratify=Y)
    rows = np.arange(Y.shape[0])[:, None]
    base = Remembering((scaled(X, train), {}))
    Y_train, Y_test = Y[train].toarray().astype(int), Y[test].toarray().astype(int)
    plain = base.fit(rows[train], Y_train).predict(rows[test])
    of = {"macro": metrics.macro_f1, "micro": metrics.micro_f1, "example": metrics.example_f1}
    judged = {"macro": judge_macro, "micro": metrics.micro_f1, "example": metrics.example_f1}
    values = {(kind, "untuned"): judged[kind](Y_test, plain) for kind in of}

    def tuned(kind, name, **options):
        model = ThresholdTuner(base, scoring=f"{kind}-f1", random_state=0, **options).fit(rows[train], Y_train)
        values[kind, name] = judged[kind](Y_test, model.predict(rows[test]))
        return model

    tuned("macro", "best per label", shrinkage=0)
    tuned("macro", "quota", rule="pcut")
    default = tuned("macro", "default")
    values["macro", "nested"], values["macro", "apparent"] = default.nested_score_, default.best_score_
    values["micro", "tuned for macro"] = metrics.micro_f1(Y_test, default.predict(rows[test]))
    tuned("micro", "best per label", rule="per-label")
    values["micro", "nested"] = tuned("micro", "default").nested_score_
    for rule in ("offset", "at-least-one", "rcut", "decode"):
        tuned("example", rule, rule=rule)
    values["example", "nested"] = tuned("example", "default").nested_score_
    values["subset", "untuned"] = metrics.subset_accuracy(Y_test, plain)
    for name, rule in {"p > 1/2": "decode", "seen sets": "seen-sets", "default": "auto"}.items():
        model = ThresholdTuner(base, scoring="subset-accuracy", rule=rule, random_state=0).fit(rows[train], Y_train)
        values["subset", name] = metrics.subset_accuracy(Y_test, model.predict(rows[test]))

    frequency = np.clip((Y_train.sum(axis=0) + 0.5) / (len(train) + 1), 1e-12, 1 - 1e-12)
    rare = (Y_train.sum(axis=0) <= RARE) & (Y_train.sum(axis=0) > 0)
    chances = {"frequency": np.tile(frequency, (len(test), 1))}
    for name, options in {
        "Platt": {"pooling": None},
        "default": {},
        "one line": {"pooling": "all"},
        "isotonic": {"method": "isotonic"},
    }.items():
        model = LabelCalibrator(base, random_state=0, **options).fit(rows[train], Y_train)
        chances[name] = model.predict_proba(rows[test])
    for name, p in chances.items():
        values["log-loss", name] = metrics.log_loss(Y_test, p)
        values["rare log-loss", name] = metrics.log_loss(Y_test[:, rare], p[:, rare]) if rare.any() else np.nan
        values["ece", name] = metrics.calibration_error(Y_test, p)
    return values


def judge_macro(Y, predicted):
    """Macro F1 over the labels that occur in the test rows."""
    occurs = Y.sum(axis=0) > 0
    return metrics.macro_f1(Y[:, occurs], np.asarray(predicted)[:, occurs], undefined=0)


def main(names, splits):
    found = {}
    for name in names:
        X, Y = load(name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Cc]onstant predictions")
            found[name] = [one_split(X, Y, seed) for seed in range(splits)]
        print(name, flush=True)
    tables = {
        "macro": ["untuned", "best per label", "quota", "default", "nested", "apparent"],
        "micro": ["untuned", "tuned for macro", "best per label", "default", "nested"],
        "example": ["untuned", "offset", "at-least-one", "rcut", "decode", "default", "nested"],
        "subset": ["untuned", "p > 1/2", "seen sets", "default"],
        "log-loss": ["frequency", "one line", "Platt", "isotonic", "default"],
        "rare log-loss": ["frequency", "one line", "Platt", "isotonic", "default"],
        "ece": ["frequency", "one line", "Platt", "isotonic", "default"],
    }
    for kind, columns in tables.items():
        rows = []
        for name, values in found.items():
            means = {column: float(np.mean([v[kind, column] for v in values])) for column in columns}
            gains = np.array([v[kind, "default"] - v[kind, columns[0]] for v in values])
            error = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("nan")
            rows.append({"data": name, **means, "SE of gain": error})
        print(f"\n{kind}")
        save(f"decisions_{kind.replace(' ', '_')}", rows, ["multimargin", "numpy", "scipy", "scikit-learn"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.names or NAMES, arguments.splits)
