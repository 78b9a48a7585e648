"""F-score on the official test rows: training for it, against thresholding one-vs-all scores.

Protocol. Features are scaled to unit length (text) or standardised and divided by the root of their number. C (and the
scale of attraction) are chosen by the mean F-score of the rows on 30 % of the training rows held out, then the model is
trained on all of them. "Threshold" is one number for all labels, chosen on the same held-out rows for one-vs-all, by
``offset="cv"`` for ours. "Constant" predicts the k most frequent labels, k by training F-score.

    MULTIMARGIN_DATA=... python benchmarks/f_score.py [name of a data set]...
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler, normalize

from multimargin import LinearM3L, SubmodularClassifier, datasets
from multimargin.baselines import MLkNN, RAkEL

NAMES = ["emotions", "scene", "yeast", "medical", "enron", "corel5k"]


def f_score(Y, Z):
    both, total = (Y * Z).sum(axis=1), Y.sum(axis=1) + Z.sum(axis=1)
    return float(np.where(total > 0, 2 * both / np.maximum(total, 1), 1.0).mean())


def load(name):
    data = datasets.load(name)
    if sp.issparse(data.X_train):
        X, X_test = normalize(sp.csr_array(data.X_train)), normalize(sp.csr_array(data.X_test))
    else:
        scaler = StandardScaler().fit(data.X_train)
        root = np.sqrt(data.X_train.shape[1])
        X, X_test = scaler.transform(data.X_train) / root, scaler.transform(data.X_test) / root
    return X, *(sp.csr_array(y).toarray().astype(int) for y in (data.Y_train, data.Y_test)), X_test


def constant(Y, Y_test):
    order = np.argsort(-Y.sum(axis=0), kind="stable")
    rows = np.zeros((Y.shape[1], Y.shape[1]), dtype=int)
    for k in range(Y.shape[1]):
        rows[k, order[: k + 1]] = 1
    best = max(rows, key=lambda row: f_score(Y, np.broadcast_to(row, Y.shape)))
    return f_score(Y_test, np.broadcast_to(best, Y_test.shape))


def best_threshold(scores, Y):
    candidates = np.quantile(scores, np.linspace(0.3, 0.999, 300))
    return max(candidates, key=lambda t: f_score(Y, (scores > t).astype(int)))


def choose(models, X, Y, held_out):
    """Choose the model with the best F-score on held-out rows, and return its scores there."""
    results = []
    for model in models:
        model.fit(X[~held_out], Y[~held_out])
        results.append((f_score(Y[held_out], model.predict(X[held_out])), model))
    best = max(results, key=lambda result: result[0])[1]
    return best, best.decision_function(X[held_out]) if hasattr(best, "certificate_") else None


def compare(name):
    X, Y, Y_test, X_test = load(name)
    n_labels = Y.shape[1]
    held_out = np.random.default_rng(0).random(len(Y)) < 0.3
    row = {"data": name, "V": n_labels, "constant": constant(Y, Y_test)}

    one_vs_all = [LinearM3L(C=C, tol=1e-3, random_state=0) for C in (0.1, 1.0, 10.0, 100.0)]
    best, _ = choose(one_vs_all, X, Y, held_out)
    row["one-vs-all"] = f_score(Y_test, best.fit(X, Y).predict(X_test))
    tried = []
    for model in one_vs_all:
        scores = model.fit(X[~held_out], Y[~held_out]).decision_function(X[held_out])
        threshold = best_threshold(scores, Y[held_out])
        tried.append((f_score(Y[held_out], (scores > threshold).astype(int)), threshold, model))
    _, threshold, model = max(tried, key=lambda t: t[0])
    row["+ threshold"] = f_score(Y_test, (model.fit(X, Y).decision_function(X_test) > threshold).astype(int))

    share = 0.5 if n_labels <= 20 else 0.05
    for title, pairs, scales in (("F1, no pairs", 0.0, (1.0,)), ("F1, pairs", share, (1.0, 10.0))):
        for offset, word in (("none", title), ("cv", "+ offset")):
            models = [
                SubmodularClassifier(C=C, pairs=pairs, pair_scale=c, offset=offset, tol=3e-3, random_state=0)
                for C in (0.03, 0.3, 3.0)
                for c in scales
            ]
            model, _ = choose(models, X, Y, held_out)
            row[word if word not in row else word + " "] = f_score(Y_test, model.fit(X, Y).predict(X_test))
    row["MLkNN"] = f_score(Y_test, MLkNN().fit(X, Y).predict(X_test))
    size = min(max(n_labels // 2, 2), 7)
    row["RAkEL"] = f_score(Y_test, RAkEL(size, random_state=0).fit(X, Y).predict(X_test))
    return row


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or NAMES:
        start = time.perf_counter()
        row = compare(name)
        if name == (sys.argv[1:] or NAMES)[0]:
            print("| " + " | ".join(row) + " | s |\n" + "|---" * (len(row) + 1) + "|")
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()]
        print("| " + " | ".join(cells) + f" | {time.perf_counter() - start:.0f} |", flush=True)
