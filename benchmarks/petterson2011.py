"""Figures 1 and 2 of Petterson and Caetano (NIPS 2011), as far as their text defines them.

Figure 1. Mean F-score of the test rows with 1, 10 and 100 % of the features, drawn at random: without pairs (RML), with
pairs (SML), one-vs-all (BR), MLkNN and the best constant prediction; with and without intercept, raw and with the
offset that is best on the training rows. Lambda is chosen on 30 % of the training rows held out; c is 1 for yeast and
10 for enron.
Figure 2. Along training on yeast by the bundle method: how often Algorithm 2 is optimal, how often Algorithm 3 and the
tighter test prove it, and how much the risk is underestimated.

    MULTIMARGIN_DATA=... python benchmarks/petterson2011.py yeast enron figure2
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import scipy.sparse as sp

from multimargin import LinearM3L, SubmodularClassifier, _core, datasets
from multimargin.baselines import MLkNN

SETTINGS = {"yeast": (0.5, 1.0, (1e-1, 1e-2, 1e-3)), "enron": (0.05, 10.0, (10.0, 1.0, 0.1))}
SUBSETS = 5


def f_score(Y, Z):
    both, total = (Y * Z).sum(axis=1), Y.sum(axis=1) + Z.sum(axis=1)
    return float(np.where(total > 0, 2 * both / np.maximum(total, 1), 1.0).mean())


def load(name):
    data = datasets.load(name)
    X, X_test = (x.toarray() if sp.issparse(x) else np.asarray(x) for x in (data.X_train, data.X_test))
    Y, Y_test = (sp.csr_array(y).toarray().astype(int) for y in (data.Y_train, data.Y_test))
    return X, Y, X_test, Y_test


def constant(Y, Y_test):
    order = np.argsort(-Y.sum(axis=0), kind="stable")
    rows = [np.isin(np.arange(Y.shape[1]), order[:k]).astype(int) for k in range(1, Y.shape[1])]
    best = max(rows, key=lambda row: f_score(Y, np.broadcast_to(row, Y.shape)))
    return f_score(Y_test, np.broadcast_to(best, Y_test.shape))


def submodular(name, pairs, intercept, offset, X, Y, X_test, Y_test):
    _, scale, lambdas = SETTINGS[name]
    held_out = np.random.default_rng(1).random(len(Y)) < 0.3

    def model(lam, n):
        return SubmodularClassifier(
            C=1 / (lam * n),
            pairs=pairs,
            pair_scale=scale,
            fit_intercept=intercept,
            offset=offset,
            tol=2e-3,
            random_state=0,
        )

    def validated(lam):
        fitted = model(lam, int(np.sum(~held_out))).fit(X[~held_out], Y[~held_out])
        return f_score(Y[held_out], fitted.predict(X[held_out]))

    best = max(lambdas, key=validated)
    return f_score(Y_test, model(best, len(Y)).fit(X, Y).predict(X_test))


def figure1(name):
    X, Y, X_test, Y_test = load(name)
    share = SETTINGS[name][0]
    print(f"\nFigure 1, {name}; best constant prediction {constant(Y, Y_test):.3f}\n")
    print("| features | intercept | RML | SML | RML, offset | SML, offset | BR | MLkNN |\n" + "|---" * 8 + "|")
    rng = np.random.default_rng(0)
    for part in (0.01, 0.1, 1.0):
        subsets = [
            np.sort(rng.choice(X.shape[1], max(1, round(part * X.shape[1])), replace=False))
            for _ in range(SUBSETS if part < 1 else 1)
        ]
        for intercept in (False, True):
            cells = []
            for pairs, offset in ((0.0, "none"), (share, "none"), (0.0, "train"), (share, "train")):
                values = [
                    submodular(name, pairs, intercept, offset, X[:, cols], Y, X_test[:, cols], Y_test)
                    for cols in subsets
                ]
                cells.append(f"{np.mean(values):.3f}")
            values = [
                f_score(
                    Y_test, LinearM3L(fit_intercept=intercept, random_state=0).fit(X[:, c], Y).predict(X_test[:, c])
                )
                for c in subsets
            ]
            cells.append(f"{np.mean(values):.3f}")
            values = [f_score(Y_test, MLkNN().fit(X[:, c], Y).predict(X_test[:, c])) for c in subsets]
            cells.append(f"{np.mean(values):.3f}")
            print(f"| {part:.0%} | {'yes' if intercept else 'no'} | " + " | ".join(cells) + " |", flush=True)


def figure2():
    X, Y, *_ = load("yeast")
    lam, truth = 1e-2, Y.astype(np.uint8)
    print("\nFigure 2, yeast, lambda = 0.01\n")
    print("| bundle passes | optimal | proved by Algorithm 3 | proved by the tighter test | risk underestimated by |")
    print("|---|---|---|---|---|")
    for passes in (1, 2, 5, 10, 20, 40, 80):
        model = SubmodularClassifier(C=1 / (lam * len(Y)), solver="bundle", max_iter=passes, tol=1e-9).fit(X, Y)
        u = np.ascontiguousarray(X @ model.coef_.T + model.intercept_)
        y = np.zeros_like(truth)
        approximate = _core.paper_oracle(u, model.pairs_, model.pair_coef_, truth, False, True, y)
        exact = _core.f_score_oracle(u, model.pairs_, model.pair_coef_, truth, 1e-9, 10**6, truth.copy())
        a, b = model.pairs_.T
        own = np.sum(u * Y, axis=1) + (Y[:, a] * Y[:, b]) @ model.pair_coef_
        risk, claimed = np.mean(exact["lower"] - own), np.mean(np.maximum(approximate["value"], own) - own)
        optimal = np.mean(approximate["value"] >= exact["lower"] - 1e-8)
        print(
            f"| {passes} | {optimal:.0%} | {approximate['paper'].mean():.0%} | {approximate['tight'].mean():.0%} | "
            f"{1 - claimed / risk:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:] or ["yeast", "enron", "figure2"]:
        figure2() if part == "figure2" else figure1(part)
