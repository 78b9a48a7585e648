"""How good the predictions are: TunedM3L beside what users reach for, on real data.

Protocol. Of each set at most 1,500 rows and its 50 most frequent labels are kept (drawn once, seed 0). The rows are
split anew ``--splits`` times, a third for testing, with the share of every label. Everything is chosen on the training
rows alone. Metrics are those of ``multimargin.metrics`` on the test rows; macro-F1 is the mean over labels that occur
there. All methods see the same features: dense columns with variance 1, divided by the root of their number; sparse
rows with length 1.

* TunedM3L(metric): its defaults, one model for each metric.
* LinearM3L: C = 1, its default for rows of length 1.
* logistic + thresholds: one-vs-rest logistic regression, C in 1, 10, 100; C and the decision (``tune_thresholds`` with
  its defaults) chosen for each metric on the scores of five folds.
* extra trees + thresholds: scikit-learn's ExtraTreesClassifier with its defaults, the decision likewise.
* chain: scikit-learn's ClassifierChain of logistic regressions, C = 10, order of the labels as given.
* BOOMER: ``BoomerClassifier()`` with its defaults (boosted multi-label rules), where it is installed; it wants an older
  scikit-learn than ours, so that the figures come from an environment of its own.

Mean ranks: of all methods on a set (mean over its splits), 1 is best, ties share; averaged over sets. Seconds are CPU
time of training for one metric, everything that is chosen included.

    MULTIMARGIN_DATA=... python benchmarks/quality.py [--splits 1] [name of a data set]...
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from _common import save
from scipy.stats import rankdata
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import StandardScaler, normalize

from multimargin import LinearM3L, TunedM3L, datasets, metrics, tune_thresholds
from multimargin.decisions._held_out import scores_of
from multimargin.model_selection import MultilabelStratifiedKFold, train_test_split

SETS = (
    "emotions", "scene", "yeast", "enron", "medical", "bibtex", "tmc2007", "corel5k", "mediamill", "delicious",
    "rcv1", "eurlex-4k",
)  # fmt: skip
MOST_ROWS, MOST_LABELS = 1500, 50
METRICS = ("hamming-loss", "subset-accuracy", "example-f1", "micro-f1", "macro-f1")


def load(name):
    data = datasets.load(name)
    stack = sp.vstack if sp.issparse(data.X_train) else np.vstack
    X = stack([data.X_train, data.X_test])
    X = sp.csr_array(X) if sp.issparse(X) else X
    Y = sp.csr_array(sp.vstack([sp.csr_array(data.Y_train), sp.csr_array(data.Y_test)]))
    rows = np.random.default_rng(0).permutation(X.shape[0])[:MOST_ROWS]
    X, Y = X[rows], Y[rows]
    frequent = np.sort(np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[:MOST_LABELS])
    Y = Y[:, frequent].toarray().astype(np.int64)
    return X, Y[:, Y.any(axis=0)]


def scaled(X, train):
    if sp.issparse(X):
        return normalize(X)
    return StandardScaler().fit(X[train]).transform(X) / np.sqrt(X.shape[1])


def values(Y, predicted):
    present = Y.any(axis=0)
    return {
        "hamming-loss": metrics.hamming_loss(Y, predicted),
        "subset-accuracy": metrics.subset_accuracy(Y, predicted),
        "example-f1": metrics.example_f1(Y, predicted),
        "micro-f1": metrics.micro_f1(Y, predicted),
        "macro-f1": metrics.macro_f1(Y[:, present], predicted[:, present]),
    }


def each_metric(predictions, Y):
    """Judge the prediction that was made for each metric by that metric."""
    return {metric: values(Y, predicted)[metric] for metric, predicted in predictions.items()}


def log_odds(model, X, n_labels, method):
    scores = scores_of(model, X, method, n_labels)
    if method == "predict_proba":
        p = np.clip(scores, 1e-4, 1 - 1e-4)
        scores = np.log(p / (1 - p))
    return scores


def with_thresholds(candidates, method, X, Y, train, test):
    """Candidate and decision for each metric, on the scores of five folds."""
    n_labels, X_train, Y_train = Y.shape[1], X[train], Y[train]
    held_out = []
    for make in candidates:
        scores = np.full(Y_train.shape, np.nan)
        for inner, outer in MultilabelStratifiedKFold(5, random_state=0).split(None, Y_train):
            varies = Y_train[inner].any(axis=0) & ~Y_train[inner].all(axis=0)
            model = make().fit(X_train[inner], Y_train[inner][:, varies])
            scores[np.ix_(outer, np.flatnonzero(varies))] = log_odds(model, X_train[outer], int(varies.sum()), method)
        held_out.append(np.nan_to_num(scores, nan=scores[~np.isnan(scores)].min()))
    varies = Y_train.any(axis=0) & ~Y_train.all(axis=0)
    trained, predictions = {}, {}
    for metric in METRICS:
        tuned = [tune_thresholds(scores, Y_train, metric) for scores in held_out]
        sign = -1 if metric == "hamming-loss" else 1
        best = int(np.argmax([sign * found.score for found in tuned]))
        if best not in trained:
            model = candidates[best]().fit(X_train, Y_train[:, varies])
            trained[best] = np.full((len(test), n_labels), held_out[best].min())
            trained[best][:, varies] = log_odds(model, X[test], int(varies.sum()), method)
        predictions[metric] = tuned[best].predict(trained[best])
    return predictions


def logistic(C):
    return lambda: OneVsRestClassifier(LogisticRegression(C=C, max_iter=300))


def trees():
    return ExtraTreesClassifier(random_state=0)


def chain(X, Y, train, test):
    varies = Y[train].any(axis=0) & ~Y[train].all(axis=0)
    model = ClassifierChain(LogisticRegression(C=10.0, max_iter=300)).fit(X[train], Y[train][:, varies])
    predicted = np.tile(Y[train].all(axis=0).astype(np.int64), (len(test), 1))
    predicted[:, varies] = model.predict(X[test]).astype(np.int64)
    return dict.fromkeys(METRICS, predicted)


def boomer(X, Y, train, test):
    from mlrl.boosting import BoomerClassifier

    model = BoomerClassifier(random_state=1).fit(X[train], Y[train])
    predicted = model.predict(X[test])
    predicted = predicted.toarray() if sp.issparse(predicted) else np.asarray(predicted)
    return dict.fromkeys(METRICS, predicted.astype(np.int64))


def out_of_the_box(X, Y, train, test):
    return dict.fromkeys(METRICS, LinearM3L(C=1.0, random_state=0).fit(X[train], Y[train]).predict(X[test]))


def tuned(X, Y, train, test):
    found = {}
    for metric in METRICS:
        found[metric] = TunedM3L(metric, scale=False, random_state=0).fit(X[train], Y[train]).predict(X[test])
    return found


METHODS = {
    "TunedM3L": tuned,
    "LinearM3L": out_of_the_box,
    "logistic + thresholds": lambda *data: with_thresholds([logistic(C) for C in (1, 10, 100)], "predict_proba", *data),
    "extra trees + thresholds": lambda *data: with_thresholds([trees], "predict_proba", *data),
    "chain": chain,
    "BOOMER": boomer,
}
MODELS_TRAINED = {"TunedM3L": len(METRICS)}
"""Models of a method that serve one metric each, by which its seconds are divided."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    data = {name: load(name) for name in options.sets}
    for seed in range(options.splits):
        for name, (X, Y) in data.items():
            train, test = train_test_split(np.arange(len(Y)), test_size=1 / 3, random_state=seed, stratify=Y)
            features = scaled(X, train)
            for method in options.methods:
                start = time.process_time()
                try:
                    predictions = METHODS[method](features, Y, train, test)
                except ImportError:
                    continue
                seconds = (time.process_time() - start) / MODELS_TRAINED.get(method, 1)
                found = each_metric(predictions, Y[test])
                rows.append({"set": name, "split": seed, "method": method, "seconds": seconds, **found})
                print(name, seed, method, f"{seconds:.2f} s", {k: round(v, 4) for k, v in found.items()}, flush=True)
        # after each split, so that what is measured survives the end of a long run
        save("quality-rows", rows, ["scikit-learn", "numpy", "multimargin"])
        save("quality", summary(rows), ["scikit-learn", "numpy", "multimargin"])


def summary(rows):
    """Mean value, standard error over sets, and mean rank of each method for each metric."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    sets = list(dict.fromkeys(row["set"] for row in rows))

    def mean(name, method, what):
        return float(np.mean([row[what] for row in rows if row["set"] == name and row["method"] == method]))

    table = [
        {"method": method, "seconds": float(np.median([mean(s, method, "seconds") for s in sets]))}
        for method in methods
    ]
    for metric in METRICS:
        grid = np.array([[mean(name, method, metric) for method in methods] for name in sets])
        ranks = rankdata(grid if metric == "hamming-loss" else -grid, axis=1)
        for k, row in enumerate(table):
            error = ranks[:, k].std(ddof=1) / np.sqrt(len(sets)) if len(sets) > 1 else float("nan")
            row[metric] = f"{grid[:, k].mean():.4f}, rank {ranks[:, k].mean():.2f} ± {error:.2f}"
    return table


if __name__ == "__main__":
    main()
