"""F-score on the official test rows: training for it, against thresholding one-vs-all scores.

Protocol. Features are scaled to unit length (text) or standardised and divided by the root of their number. C (and the
scale of attraction) are chosen by the mean F-score of the rows on 30 % of the training rows held out, then the model is
trained on all of them. "Threshold" is one number for all labels, chosen on the same held-out rows for one-vs-all;
"offset" is ours: while choosing parameters the best one on the rows trained on, in the end ``offset="cv"``.
"Constant" predicts the k most frequent labels, k by training F-score.

    MULTIMARGIN_DATA=... python benchmarks/f_score.py [name of a data set]...
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import scipy.sparse as sp
from _common import cpu_clock, save
from sklearn.preprocessing import StandardScaler, normalize

from multimargin import LinearM3L, SubmodularClassifier, datasets
from multimargin.baselines import MLkNN, RAkEL
from multimargin.metrics import example_f1

NAMES = ["emotions", "scene", "yeast", "medical", "enron", "corel5k"]
COSTS = (0.03, 0.3, 3.0)


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
    rows = [np.isin(np.arange(len(order)), order[:k]).astype(int) for k in range(1, min(len(order), 30) + 1)]
    best = max(rows, key=lambda row: example_f1(Y, np.broadcast_to(row, Y.shape)))
    return example_f1(Y_test, np.broadcast_to(best, Y_test.shape))


def one_vs_all(X, Y, held_out):
    """C by held-out F-score, and C and threshold by the same."""
    plain, cut = [], []
    for C in (0.1, 1.0, 10.0, 100.0):
        model = LinearM3L(C=C, tol=1e-3, random_state=0).fit(X[~held_out], Y[~held_out])
        scores, truth = model.decision_function(X[held_out]), Y[held_out]
        plain.append((example_f1(truth, (scores > 0).astype(int)), C))
        for threshold in np.quantile(scores, np.linspace(0.3, 0.999, 300)):
            cut.append((example_f1(truth, (scores > threshold).astype(int)), C, threshold))
    return max(plain)[1], *max(cut)[1:]


def trained_for_it(X, Y, held_out, pairs, scales):
    """C and the scale of attraction by held-out F-score, without and with offset; C rises from fit to fit."""
    tried = []
    for c in scales:
        model = SubmodularClassifier(
            pairs=pairs, pair_scale=c, offset="train", tol=3e-3, warm_start=True, random_state=0
        )
        for C in COSTS:
            model.set_params(C=C).fit(X[~held_out], Y[~held_out])
            with_offset = example_f1(Y[held_out], model.predict(X[held_out]))
            model.offset_ = 0.0
            tried.append((example_f1(Y[held_out], model.predict(X[held_out])), with_offset, C, c))
    return max(tried, key=lambda t: t[0])[2:], max(tried, key=lambda t: t[1])[2:]


def compare(name):
    X, Y, Y_test, X_test = load(name)
    n_labels = Y.shape[1]
    held_out = np.random.default_rng(0).random(len(Y)) < 0.3
    row = {"data": name, "V": n_labels, "constant": constant(Y, Y_test)}

    C, C_cut, threshold = one_vs_all(X, Y, held_out)
    row["one-vs-all"] = example_f1(Y_test, LinearM3L(C=C, random_state=0).fit(X, Y).predict(X_test))
    scores = LinearM3L(C=C_cut, random_state=0).fit(X, Y).decision_function(X_test)
    row["with threshold"] = example_f1(Y_test, (scores > threshold).astype(int))

    share = 0.5 if n_labels <= 20 else 0.05
    for title, pairs, scales in (("F1, no pairs", 0.0, (1.0,)), ("F1, pairs", share, (1.0, 10.0))):
        chosen = trained_for_it(X, Y, held_out, pairs, scales)
        for (C, c), offset, word in zip(chosen, (None, "cv"), ("", " + offset"), strict=True):
            model = SubmodularClassifier(C=C, pairs=pairs, pair_scale=c, offset=offset, tol=3e-3, random_state=0)
            row[title + word] = example_f1(Y_test, model.fit(X, Y).predict(X_test))
    row["MLkNN"] = example_f1(Y_test, MLkNN().fit(X, Y).predict(X_test))
    size = min(max(n_labels // 2, 2), 7)
    row["RAkEL"] = example_f1(Y_test, RAkEL(size, C=1.0, random_state=0).fit(X, Y).predict(X_test))
    return row


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*[Cc]onstant predictions", category=UserWarning)
    rows = []
    for name in sys.argv[1:] or NAMES:
        seconds, row = cpu_clock(lambda name=name: compare(name))
        rows.append({**row, "CPU s": seconds})
        save("f-score", rows, ("multimargin", "numpy", "scipy", "scikit-learn"))
