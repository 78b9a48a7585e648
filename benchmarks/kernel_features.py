"""Features of a kernel in front of LinearM3L, against the exact KernelM3L: objective, test errors, CPU seconds.

RBF kernel, C = 1, tol 1e-3, random training rows and as many others to test on (of AwA rows of the animals seen in
training). Nystroem restricts the exact problem to the span of its landmarks: its objective is at least the exact
optimum. Random features (RBFSampler) approximate the kernel itself. Seconds are CPU time of fit and transformation.

    MULTIMARGIN_DATA=folder python benchmarks/kernel_features.py [--sets mediamill awa] [--components 200 1000 2000]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp
from _common import cpu_clock, save
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline

from multimargin import KernelM3L, LinearM3L, datasets, metrics

GAMMAS = {"mediamill": None, "awa": 2.0}


def load(name, n):
    data = datasets.load(name, dtype=np.float32)
    rows = np.random.default_rng(0).permutation(data.X_train.shape[0])[: 2 * n]
    X, Y = data.X_train[rows], data.Y_train[rows]
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    Y = Y.toarray() if sp.issparse(Y) else np.asarray(Y)
    varies = (Y[:n].sum(axis=0) > 0) & (Y[:n].sum(axis=0) < n)
    return X[:n], Y[:n, varies], X[n:], Y[n:, varies]


def contestants(gamma, components, n_jobs):
    shared = {"C": 1.0, "tol": 1e-3, "random_state": 0, "n_jobs": n_jobs}
    yield "exact", None, KernelM3L(kernel="rbf", gamma=gamma, **shared)
    yield "linear", None, LinearM3L(**shared)
    for step in (Nystroem, RBFSampler):
        for count in components:
            features = step(gamma=gamma, n_components=count, random_state=0)
            yield step.__name__, count, make_pipeline(features, LinearM3L(**shared))


def measure(name, n, components, n_jobs):
    X, Y, X_test, Y_test = load(name, n)
    gamma = GAMMAS[name] or 1 / (X.shape[1] * X.var())
    exact, rows = None, []
    for kind, count, model in contestants(gamma, components, n_jobs):
        seconds, _ = cpu_clock(lambda model=model: model.fit(X, Y))
        certificate = (model[-1] if count else model).certificate_
        exact = certificate.primal if exact is None else exact
        start = time.process_time()
        predicted = model.predict(X_test)
        rows.append(
            {
                "set": name,
                "features": kind,
                "components": count or "",
                "objective": certificate.primal,
                "above exact %": "" if kind == "linear" else 100 * (certificate.primal / exact - 1),
                "Hamming %": f"{100 * metrics.hamming_loss(Y_test, predicted):.2f}",
                "micro-F1": f"{metrics.micro_f1(Y_test, predicted):.3f}",
                "fit CPU s": seconds,
                "predict CPU s": time.process_time() - start,
            }
        )
        print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(GAMMAS), choices=list(GAMMAS))
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--components", nargs="+", type=int, default=[200, 1000, 2000])
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    rows = [row for name in options.sets for row in measure(name, options.rows, options.components, options.jobs)]
    save("kernel_features", rows, ["multimargin", "scikit-learn", "numpy"])


if __name__ == "__main__":
    main()
