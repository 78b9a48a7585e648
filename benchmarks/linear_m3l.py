"""LinearM3L against LIBLINEAR and scikit-learn, one-vs-all, at equal quality.

Protocol. The peer trains every label (hinge loss, C = 1, constant feature 1, data already in its format, only its
training calls are timed) and we compute its primal objective from its weights. Our time is that of a complete ``fit``,
checks and certificate included, at the loosest tolerance of a fixed grid whose primal objective is not above the
peer's; the same settings on all sets. Times are medians of interleaved runs. Text (sparse rows) is scaled to unit
length, as is customary and as RCV1 comes; image features (dense rows) are taken as they are. napkinXC (``--napkinxc``)
runs LIBLINEAR's solver on threads of its own and keeps its weights to itself: its time is compared with ours at
LIBLINEAR's objective.

    python benchmarks/linear_m3l.py --repeats 3

``--priors`` compares priors instead: CPU time, on one thread, to a relative gap of 1e-3 with R = I, with the
correlation matrix of the labels, with its ten largest eigenvectors, and with these and the diagonal they leave.

    OPENBLAS_NUM_THREADS=1 python benchmarks/linear_m3l.py --priors --sets mediamill rcv1-pooled --repeats 3

``--path`` trains along C = 2^-7, 2^-6 ... 2^3, each fit on its own and each from the last one (``warm_start``), and
``--pictures`` draws the dual and the gap against time with R = I and with the correlation of the labels.

    python benchmarks/linear_m3l.py --path --sets rcv1-pooled mediamill awa tmc2007 bibtex
    python benchmarks/linear_m3l.py --pictures --sets mediamill rcv1-pooled
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
from _common import RESULTS, clock, geometric_mean, interleaved, save
from sklearn.preprocessing import normalize

from multimargin import LinearM3L, datasets, plots, priors

TUNED = ["rcv1-pooled", "mediamill", "awa", "tmc2007", "bibtex"]
HELD_OUT = ["medical", "eurlex-500"]
GRID = [m * 10.0**-k for k in range(1, 7) for m in (2.0, 1.5, 1.0, 0.7, 0.5, 0.3)]


def load(name):
    """Training part of a set in single precision, labels as a dense 0/1 array without constant columns."""
    data = datasets.load("eurlex-4k" if name == "eurlex-500" else name, dtype=np.float32)
    X = normalize(data.X_train) if sp.issparse(data.X_train) else np.ascontiguousarray(data.X_train)
    Y = sp.csc_array(data.Y_train)
    count = np.asarray(Y.sum(axis=0)).ravel()
    keep = np.flatnonzero((count > 0) & (count < Y.shape[0]))
    if name == "eurlex-500":
        keep = np.sort(keep[np.argsort(-count[keep], kind="stable")[:500]])
    return X, Y[:, keep].toarray().astype(np.int8)


def primal(X, Y, coef, intercept):
    """Objective of one-vs-all weights, in double precision, a block of labels at a time."""
    total = 0.5 * (np.square(coef, dtype=np.float64).sum() + np.square(intercept, dtype=np.float64).sum())
    for first in range(0, Y.shape[1], 64):
        block = slice(first, first + 64)
        scores = np.asarray(X @ coef[block].T.astype(np.float64)) + intercept[block]
        total += np.maximum(0.0, 1.0 - np.where(Y[:, block] > 0, 1.0, -1.0) * scores).sum()
    return float(total)


class Liblinear:
    """One-vs-all with LIBLINEAR's dual coordinate descent (-s 3), in process."""

    def __init__(self, X, Y):
        from liblinear.liblinear import problem

        self.Y = Y
        self.X = sp.csr_matrix(X, dtype=np.float64)
        self.problem = problem(Y[:, 0].astype(float).tolist(), self.X, bias=1)

    def train(self, eps):
        """Return the seconds of all training calls, the weights and the intercepts."""
        from ctypes import c_double

        from liblinear.liblinearutil import train

        n, d = self.X.shape
        weights = np.empty((self.Y.shape[1], d + 1))
        seconds = 0.0
        for label in range(self.Y.shape[1]):
            y = np.where(self.Y[:, label] > 0, 1.0, -1.0)
            self.problem.y = (c_double * n)(*y)
            start = time.perf_counter()
            model = train(self.problem, f"-s 3 -c 1 -B 1 -e {eps} -q")
            seconds += time.perf_counter() - start
            w = np.ctypeslib.as_array(model.w, shape=(d + 1,))
            weights[label] = w if model.label[0] == 1 else -w
        return seconds, weights[:, :-1], weights[:, -1]


def train_sklearn(X, Y):
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    labels = Y.astype(np.int64)  # it numbers labels in the type of Y: int8 mixes up those above 127
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, model = clock(lambda: OneVsRestClassifier(LinearSVC(loss="hinge")).fit(X, labels))
    coef = np.vstack([e.coef_ for e in model.estimators_])
    return seconds, coef, np.array([float(np.ravel(e.intercept_)[0]) for e in model.estimators_])


def train_napkinxc(X, Y, eps, threads):
    """Seconds of napkinXC's binary relevance, LIBLINEAR on its own threads; storing its model is counted."""
    from napkinxc.models import BR

    labels = [np.flatnonzero(row).tolist() for row in Y]
    data = sp.csr_matrix(X)
    with tempfile.TemporaryDirectory() as folder:
        solver = {"liblinear_solver": "L2R_L1LOSS_SVC_DUAL", "liblinear_c": 1, "liblinear_max_iter": 1000}
        model = BR(folder, norm=False, weights_threshold=0, liblinear_eps=eps, threads=threads, **solver)
        return clock(partial(model.fit, data, labels))[0]


def ours(X, Y, tol, n_jobs):
    return clock(lambda: LinearM3L(C=1.0, tol=tol, n_jobs=n_jobs, random_state=0).fit(X, Y))


def loosest_tolerance(X, Y, target):
    for tol in GRID:
        _, model = ours(X, Y, tol, 2)
        if primal(X, Y, model.coef_, model.intercept_) <= target:
            return tol
    msg = "no tolerance of the grid reaches the peer's objective"
    raise RuntimeError(msg)


def race(name, eps, repeats, with_sklearn, with_napkinxc):
    X, Y = load(name)
    peer = Liblinear(X, Y)
    first, coef, intercept = peer.train(eps)
    target = primal(X, Y, coef, intercept)
    tol = loosest_tolerance(X, Y, target)
    done = [first]
    contestants = {
        "liblinear": lambda: done.pop() if done else peer.train(eps)[0],
        "one": lambda: ours(X, Y, tol, 1)[0],
        "two": lambda: ours(X, Y, tol, 2)[0],
    }
    times = interleaved(contestants, repeats)
    row = {
        "set": name,
        "rows x features x labels": f"{X.shape[0]} x {X.shape[1]} x {Y.shape[1]}",
        "eps": eps,
        "LIBLINEAR s": times["liblinear"],
        "tol": tol,
        "ours s": times["one"],
        "ours, 2 threads s": times["two"],
        "ratio": times["liblinear"] / times["one"],
        "ratio, 2 threads": times["liblinear"] / times["two"],
    }
    if with_sklearn:
        seconds, coef, intercept = train_sklearn(X, Y)
        reached = loosest_tolerance(X, Y, primal(X, Y, coef, intercept))
        row["scikit-learn s"] = seconds
        row["ratio to scikit-learn"] = seconds / ours(X, Y, reached, 1)[0]
    if with_napkinxc:
        for threads, key in ((1, "one"), (2, "two")):
            seconds = train_napkinxc(X, Y, eps, threads)
            row[f"napkinXC, {threads} s"] = seconds
            row[f"ratio to napkinXC, {threads}"] = seconds / times[key]
    print(json.dumps(row), flush=True)
    return row


def cpu_seconds(X, Y, prior):
    start = time.process_time()
    LinearM3L(C=1.0, prior=prior, tol=1e-3, n_jobs=1, random_state=0).fit(X, Y)
    return time.process_time() - start


def race_priors(name, repeats):
    X, Y = load(name)
    R = priors.from_labels(Y)
    values, vectors = np.linalg.eigh(R)
    factor = vectors[:, -10:] * np.sqrt(values[-10:])
    rest = np.clip(np.diag(R) - np.square(factor).sum(axis=1), 0.0, None)
    contestants = {
        "R = I": None,
        "dense": R,
        "rank 10": priors.LowRankPrior(factor),
        "rank 10 + diagonal": priors.LowRankPrior(factor, rest),
    }
    times = interleaved({key: lambda p=prior: cpu_seconds(X, Y, p) for key, prior in contestants.items()}, repeats)
    ratios = {f"{key} / I": times[key] / times["R = I"] for key in contestants if key != "R = I"}
    return {"set": name, **{f"{key}, CPU s": value for key, value in times.items()}, **ratios}


def race_path(name, repeats):
    """Seconds along a path of C, two threads: separate fits against a warm start from fit to fit."""
    X, Y = load(name)
    path = [2.0**k for k in range(-7, 4)]

    def separate():
        return sum(clock(partial(LinearM3L(C, n_jobs=2, random_state=0).fit, X, Y))[0] for C in path)

    def warm():
        model = LinearM3L(C=1.0, n_jobs=2, random_state=0, warm_start=True)
        return sum(clock(partial(model.set_params(C=C).fit, X, Y))[0] for C in path)

    times = interleaved({"separate": separate, "warm": warm}, repeats)
    return {
        "set": name,
        "separate fits, s": times["separate"],
        "warm start, s": times["warm"],
        "share": times["warm"] / times["separate"],
    }


def draw(names):
    """One picture: a row for each set, the dual and the gap without and with a dense prior."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(names), 2, figsize=(13, 4.2 * len(names)), squeeze=False, layout="constrained")
    for name, row in zip(names, axes, strict=True):
        X, Y = load(name)
        for ax, (title, prior) in zip(row, {"R = I": None, "dense R": priors.from_labels(Y)}.items(), strict=True):
            model = LinearM3L(C=1.0, prior=prior, tol=1e-4, n_jobs=2, random_state=0).fit(X, Y)
            plots.ConvergenceDisplay.from_estimator(model, ax=ax).ax_.set_title(f"{name}, {title}")
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "convergence.png", dpi=90)
    print(f"written to {RESULTS / 'convergence.png'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=TUNED + HELD_OUT)
    parser.add_argument("--eps", nargs="+", type=float, default=[0.1, 0.01])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sklearn", action="store_true", help="also race scikit-learn (slow)")
    parser.add_argument("--napkinxc", action="store_true", help="also race napkinXC")
    parser.add_argument("--priors", action="store_true", help="compare priors instead")
    parser.add_argument("--path", action="store_true", help="a path over C instead")
    parser.add_argument("--pictures", action="store_true", help="draw convergence instead")
    parser.add_argument("--name", default="linear_m3l", help="name of the result file")
    options = parser.parse_args()
    if options.priors:
        save(f"{options.name}-priors", [race_priors(name, options.repeats) for name in options.sets], ["multimargin"])
        return
    if options.path:
        save(f"{options.name}-path", [race_path(name, options.repeats) for name in options.sets], ["multimargin"])
        return
    if options.pictures:
        draw(options.sets)
        return
    peers = options.sklearn, options.napkinxc
    rows = [race(name, eps, options.repeats, *peers) for eps in options.eps for name in options.sets]
    save(options.name, rows, ["multimargin", "liblinear-official", "scikit-learn", "numpy", "scipy"])
    for eps in options.eps:
        tuned = [row for row in rows if row["eps"] == eps and row["set"] in TUNED]
        if tuned:
            means = [geometric_mean([row[key] for row in tuned]) for key in ("ratio", "ratio, 2 threads")]
            print(f"eps {eps}: geometric mean {means[0]:.1f}x, with two threads {means[1]:.1f}x")
    print(f"written to {RESULTS / options.name}.json")


if __name__ == "__main__":
    main()
