"""LinearM3L against LIBLINEAR and scikit-learn, one-vs-all, at equal quality.

Protocol. The peer trains every label (hinge loss, C = 1, constant feature 1, data already in its format, only its
training calls are timed) and we compute its primal objective from its weights. Our time is that of a complete ``fit``,
checks and certificate included, at the loosest tolerance of a fixed grid whose primal objective is not above the
peer's; the same settings on all sets. LIBLINEAR works in double precision; ours is given the rows in single and in
double (``--dtype``), in the same run. Times are medians of interleaved runs, of the clock, or of the CPU (``--cpu``:
threads summed; for a machine with other work). Text (sparse rows) is scaled to unit
length, as is customary and as RCV1 comes; image features (dense rows) are taken as they are. napkinXC (``--napkinxc``)
runs LIBLINEAR's solver on threads of its own and keeps its weights to itself: its time is compared with ours at
LIBLINEAR's objective.

    python benchmarks/linear_m3l.py --repeats 3

The five sets the solver was tuned on, LIBLINEAR's own tolerance, both precisions:

    python benchmarks/linear_m3l.py --sets rcv1-pooled mediamill awa tmc2007 bibtex --eps 0.1 --repeats 3

``--priors`` compares priors instead: CPU time, on one thread, to a relative gap of 1e-3 with R = I, with the
correlation matrix of the labels, with its ten largest eigenvectors, and with these and the diagonal they leave.

    OPENBLAS_NUM_THREADS=1 python benchmarks/linear_m3l.py --priors --sets mediamill rcv1-pooled --repeats 3

``--precisions`` compares our CPU time on one thread on float32 and on float64 rows, without a peer, at the tolerances
of the table against LIBLINEAR; ``--small`` that of a prior from labels with that of none on few rows with features as
they are, gap 1e-3 (birds-like: generated, columns of uneven scale).

    OPENBLAS_NUM_THREADS=1 python benchmarks/linear_m3l.py --precisions --repeats 3
    OPENBLAS_NUM_THREADS=1 python benchmarks/linear_m3l.py --small --repeats 3

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
from _common import RESULTS, clock, cpu_clock, geometric_mean, interleaved, save
from sklearn.preprocessing import normalize

from multimargin import LinearM3L, datasets, plots, priors

TUNED = ["rcv1-pooled", "mediamill", "awa", "tmc2007", "bibtex"]
HELD_OUT = ["medical", "eurlex-500"]
AT_ITS_OBJECTIVE = {"rcv1-pooled": 3e-3, "mediamill": 2e-2, "awa": 1e-3, "tmc2007": 7e-4, "bibtex": 1e-2}  # eps 0.1
DTYPES = {"float32": np.float32, "float64": np.float64}
GRID = [m * 10.0**-k for k in range(1, 7) for m in (2.0, 1.5, 1.0, 0.7, 0.5, 0.3)]


def load(name, dtype=np.float32):
    """Training part of a set, labels as a dense 0/1 array without constant columns."""
    data = datasets.load("eurlex-4k" if name == "eurlex-500" else name, dtype=dtype)
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

    def train(self, eps, timed=clock):
        """Return the seconds of all training calls, the weights and the intercepts."""
        from ctypes import c_double

        from liblinear.liblinearutil import train

        n, d = self.X.shape
        weights = np.empty((self.Y.shape[1], d + 1))
        seconds = 0.0
        for label in range(self.Y.shape[1]):
            y = np.where(self.Y[:, label] > 0, 1.0, -1.0)
            self.problem.y = (c_double * n)(*y)
            took, model = timed(partial(train, self.problem, f"-s 3 -c 1 -B 1 -e {eps} -q"))
            seconds += took
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


def ours(X, Y, tol, n_jobs, timed=clock):
    return timed(lambda: LinearM3L(C=1.0, tol=tol, n_jobs=n_jobs, random_state=0).fit(X, Y))


def seconds_of_ours(*race):
    return ours(*race)[0]


def loosest_tolerance(X, Y, target):
    for tol in GRID:
        _, model = ours(X, Y, tol, 2)
        if primal(X, Y, model.coef_, model.intercept_) <= target:
            return tol
    msg = "no tolerance of the grid reaches the peer's objective"
    raise RuntimeError(msg)


def race(name, eps, repeats, dtypes, timed, with_sklearn, with_napkinxc):
    """Return a row for each precision of ours; all contestants take turns."""
    data = {dtype: load(name, DTYPES[dtype])[0] for dtype in dtypes}
    X, Y = load(name, np.float64)
    peer = Liblinear(X, Y)
    first, coef, intercept = peer.train(eps, timed)
    target = primal(X, Y, coef, intercept)
    tols = {dtype: loosest_tolerance(rows, Y, target) for dtype, rows in data.items()}
    done = [first]
    contestants = {"liblinear": lambda: done.pop() if done else peer.train(eps, timed)[0]}
    for dtype, rows in data.items():
        for jobs in (1, 2):
            contestants[dtype, jobs] = partial(seconds_of_ours, rows, Y, tols[dtype], jobs, timed)
    times = interleaved(contestants, repeats)
    rows = []
    for dtype in dtypes:
        one, two = times[dtype, 1], times[dtype, 2]
        row = {
            "set": name,
            "rows x features x labels": f"{X.shape[0]} x {X.shape[1]} x {Y.shape[1]}",
            "eps": eps,
            "LIBLINEAR (float64) s": times["liblinear"],
            "ours": dtype,
            "tol": tols[dtype],
            "ours s": one,
            "ours, 2 threads s": two,
            "ratio": times["liblinear"] / one,
            "ratio, 2 threads": times["liblinear"] / two,
        }
        if with_sklearn:
            seconds, coef, intercept = train_sklearn(data[dtype], Y)
            reached = loosest_tolerance(data[dtype], Y, primal(X, Y, coef, intercept))
            row["scikit-learn s"] = seconds
            row["ratio to scikit-learn"] = seconds / ours(data[dtype], Y, reached, 1)[0]
        if with_napkinxc:
            for threads, ours_took in ((1, one), (2, two)):
                seconds = train_napkinxc(data[dtype], Y, eps, threads)
                row[f"napkinXC, {threads} s"] = seconds
                row[f"ratio to napkinXC, {threads}"] = seconds / ours_took
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


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


def race_precisions(name, repeats):
    data = {key: load(name, dtype) for key, dtype in DTYPES.items()}
    tol = AT_ITS_OBJECTIVE[name]
    times = interleaved(
        {key: partial(seconds_of_ours, *rows, tol, 1, cpu_clock) for key, rows in data.items()}, repeats
    )
    seconds = {f"{key}, CPU s": value for key, value in times.items()}
    return {"set": name, "tol": tol, **seconds, "float64 / float32": times["float64"] / times["float32"]}


def birds_like(rows, spread):
    """Correlated positive features whose scales differ by factors of exp(spread), 19 rare labels."""
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(rows, 40))
    X = causes @ rng.normal(size=(40, 271)) * 0.5 + rng.normal(size=(rows, 271))
    X = np.exp(rng.normal(0, spread, 271)) * np.abs(X)
    scores = causes @ rng.normal(size=(40, 19)) / 6 + rng.normal(size=(rows, 19))
    cuts = [np.quantile(column, rng.uniform(0.8, 0.97)) for column in scores.T]
    return X, (scores > cuts).astype(np.int8)


def small_sets():
    """Few rows of raw features in double precision: name, X, Y."""
    for rows, spread in ((322, 0.3), (322, 1.0), (200, 0.3)):
        yield f"birds-like, scales exp({spread})", *birds_like(rows, spread)
    for name, rows in (("emotions", None), ("enron", None), ("enron", 500), ("medical", None)):
        data = datasets.load(name, dtype=np.float64)
        Y = sp.csr_array(data.Y_train)[:rows].toarray().astype(np.int8)
        yield name, data.X_train[:rows], Y[:, (Y.min(axis=0) == 0) & (Y.max(axis=0) == 1)]


def race_small(repeats):
    rows = []
    for name, X, Y in small_sets():
        contestants = {"R = I": None, "labels": "labels"}
        times = interleaved({key: partial(cpu_seconds, X, Y, prior) for key, prior in contestants.items()}, repeats)
        shape = f"{X.shape[0]} x {X.shape[1]} x {Y.shape[1]}"
        seconds = {f"{key}, CPU s": value for key, value in times.items()}
        rows.append(
            {"set": name, "rows x features x labels": shape, **seconds, "ratio": times["labels"] / times["R = I"]}
        )
    return rows


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
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=list(DTYPES), help="precision of our rows")
    parser.add_argument("--cpu", action="store_true", help="seconds of the CPU instead of the clock")
    parser.add_argument("--sklearn", action="store_true", help="also race scikit-learn (slow)")
    parser.add_argument("--napkinxc", action="store_true", help="also race napkinXC")
    parser.add_argument("--priors", action="store_true", help="compare priors instead")
    parser.add_argument("--precisions", action="store_true", help="compare float32 and float64 rows instead")
    parser.add_argument("--small", action="store_true", help="compare priors on few raw rows instead")
    parser.add_argument("--path", action="store_true", help="a path over C instead")
    parser.add_argument("--pictures", action="store_true", help="draw convergence instead")
    parser.add_argument("--name", default="linear_m3l", help="name of the result file")
    options = parser.parse_args()
    if options.priors:
        save(f"{options.name}-priors", [race_priors(name, options.repeats) for name in options.sets], ["multimargin"])
        return
    if options.precisions:
        names = [name for name in options.sets if name in AT_ITS_OBJECTIVE]
        rows = [race_precisions(name, options.repeats) for name in names]
        save(f"{options.name}-precisions", rows, ["multimargin"])
        return
    if options.small:
        save(f"{options.name}-small", race_small(options.repeats), ["multimargin"])
        return
    if options.path:
        save(f"{options.name}-path", [race_path(name, options.repeats) for name in options.sets], ["multimargin"])
        return
    if options.pictures:
        draw(options.sets)
        return
    timed = cpu_clock if options.cpu else clock
    common = options.repeats, options.dtype, timed, options.sklearn, options.napkinxc
    rows = [row for eps in options.eps for name in options.sets for row in race(name, eps, *common)]
    save(options.name, rows, ["multimargin", "liblinear-official", "scikit-learn", "numpy", "scipy"])
    print("seconds of the CPU, threads summed" if options.cpu else "seconds of the clock")
    for eps in options.eps:
        for dtype in options.dtype:
            tuned = [row for row in rows if (row["eps"], row["ours"]) == (eps, dtype) and row["set"] in TUNED]
            if tuned:
                means = [geometric_mean([row[key] for row in tuned]) for key in ("ratio", "ratio, 2 threads")]
                least = min(row["ratio"] for row in tuned)
                print(
                    f"eps {eps}, {dtype} against LIBLINEAR in float64: geometric mean {means[0]:.1f}x, least "
                    f"{least:.1f}x, with two threads {means[1]:.1f}x"
                )
    print(f"written to {RESULTS / options.name}.json")


if __name__ == "__main__":
    main()
