"""Every family in one table: time beside a peer, and beside what the machine can do.

Data are generated, so that the table is the same everywhere, and so small that all of it takes some minutes. A ratio is
the peer's time divided by ours, medians of interleaved runs in wall time; both precisions are those of the column.

The limits of the machine are measured first: bytes copied from memory to memory (STREAM's role) and floating-point
operations of a matrix product (GEMM), on as many threads. "Of STREAM" is the time to move the bytes that the work must
touch once per pass (X, the dual variables or scores), "of GEMM" the time for its multiplications and additions, both
divided by the time taken. Operations are counted as if no row rested, so solvers that leave rows out gain a little.
What is limited by random access to weights in the caches is far from both.

    python benchmarks/overview.py [--threads 2] [--repeats 3] [--families linear kernel ...]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from _common import clock, interleaved, save
from output_kernels import generic, make_data
from scale import generate
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    KernelM3L,
    LinearM3L,
    OutputKernelClassifier,
    SubmodularClassifier,
    datasets,
    tune_thresholds,
)
from multimargin.baselines import BoosTexter
from multimargin.errors import DecisionWarning

PACKAGES = ["multimargin", "liblinear-official", "PyMaxflow", "scikit-learn", "numpy", "scipy"]
COPIED = 2**28  # bytes
ORDER = 2048  # of the matrices of a product


@dataclass(frozen=True)
class Work:
    """One line of the table: our work and a peer's, and what ours must move and compute."""

    what: str
    size: str
    precision: str
    peer: str
    ours: Callable[[], float]
    theirs: Callable[[], float]
    moved: float = 0.0
    computed: float = 0.0


@dataclass(frozen=True)
class Machine:
    """What the machine can do on so many threads: bytes and operations in a second."""

    moved: float
    computed: dict[str, float]

    @classmethod
    def measured(cls, threads: int) -> Machine:
        """Measure copies of large arrays and matrix products, the best of five each."""
        parts = [(np.ones(COPIED // threads, np.uint8), np.ones(COPIED // threads, np.uint8)) for _ in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            copy = min(clock(lambda: list(pool.map(lambda pair: np.copyto(*pair), parts)))[0] for _ in range(5))
        computed = {}
        with threadpool_limits(threads):
            for precision in ("float32", "float64"):
                A = np.ones((ORDER, ORDER), precision)
                computed[precision] = 2 * ORDER**3 / min(clock(partial(np.matmul, A, A))[0] for _ in range(5))
        return cls(2 * COPIED / copy, computed)


def seconds(work: Callable[[], Any]) -> Callable[[], float]:
    return lambda: clock(work)[0]


def linear(threads: int) -> Iterator[Work]:
    from linear_m3l import Liblinear, loosest_tolerance, primal

    X, Y = generate(10_000)
    cells = Y.toarray().astype(np.int8)
    peer = Liblinear(X, cells)
    _, coef, intercept = peer.train(0.1)
    tol = loosest_tolerance(X, cells, primal(X, cells, coef, intercept))
    for precision in ("float32", "float64"):
        rows = X.astype(precision)
        model = LinearM3L(1.0, tol=tol, n_jobs=threads, random_state=0)
        passes = model.fit(rows, Y).n_iter_
        n, L = Y.shape
        yield Work(
            "LinearM3L, R = I",
            f"{n} x {X.shape[1]} x {L}, sparse",
            precision,
            "LIBLINEAR (float64), its objective",
            seconds(partial(model.fit, rows, Y)),
            lambda: peer.train(0.1)[0],
            moved=passes * (rows.data.nbytes + rows.indices.nbytes + 8.0 * n * L),
            computed=4.0 * passes * X.nnz * L,
        )


def prediction(threads: int) -> Iterator[Work]:
    X, Y = generate(50_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearM3L(1.0, max_iter=1, n_jobs=threads).fit(X[:500], Y[:500])
    for precision in ("float32", "float64"):
        rows = X.astype(precision)
        model.coef_, model.intercept_ = model.coef_.astype(precision), model.intercept_.astype(precision)
        W = np.ascontiguousarray(model.coef_.T)
        scores = rows.shape[0] * W.shape[1] * np.dtype(precision).itemsize
        yield Work(
            "linear scores",
            f"{rows.shape[0]} x {rows.shape[1]} x {W.shape[1]}, sparse",
            precision,
            "SciPy's X @ W, one thread",
            seconds(partial(model.decision_function, rows)),
            seconds(lambda a=rows, b=W: a @ b),
            moved=rows.data.nbytes + rows.indices.nbytes + scores,
            computed=2.0 * rows.nnz * W.shape[1],
        )


def kernel(threads: int) -> Iterator[Work]:
    from sklearn.svm import SVC

    X, Y = make_data(3000, 40, 200)
    n, D = X.shape
    sample = [0, 20]

    def libsvm() -> float:
        return sum(clock(partial(SVC(C=1.0).fit, X, Y[:, label]))[0] for label in sample) * Y.shape[1] / len(sample)

    for precision in ("float32", "float64"):
        model = KernelM3L(1.0, n_jobs=threads, random_state=0)
        yield Work(
            "KernelM3L, RBF",
            f"{n} x {D} x {Y.shape[1]}",
            precision,
            "LIBSVM (float64), two labels scaled to all",
            seconds(partial(model.fit, X.astype(precision), Y)),
            libsvm,
            moved=4.0 * n * n,
            computed=1.0 * n * n * D,
        )


def prior(threads: int) -> Iterator[Work]:
    X, Y = make_data(5000, 40, 200)
    single = X.astype(np.float32)
    with_prior = LinearM3L(1.0, prior="labels", n_jobs=threads, random_state=0)
    without = LinearM3L(1.0, n_jobs=threads, random_state=0)
    passes, (n, D), L = with_prior.fit(single, Y).n_iter_, X.shape, Y.shape[1]
    yield Work(
        "LinearM3L, prior from labels",
        f"{n} x {D} x {L}",
        "float32",
        "LinearM3L without a prior",
        seconds(partial(with_prior.fit, single, Y)),
        seconds(partial(without.fit, single, Y)),
        moved=passes * (single.nbytes + 8.0 * n * L),
        computed=passes * n * L * (4.0 * D + 2.0 * L),
    )


def submodular(threads: int) -> Iterator[Work]:
    from submodular import cut_by_arrays, cut_by_label, published_oracle, random_instances

    from multimargin import _core

    u, pairs, w, truth = random_instances(101, 102, 2000)
    few = range(4)

    def exact() -> float:
        work = (u, pairs, w, truth, 1e-7, 500, 12, truth.copy())
        return clock(lambda: _core.testing.f_score_oracle(*work))[0] / len(u)

    def published() -> float:
        times = [
            clock(lambda cut=cut: [published_oracle(cut, u[n], pairs.astype(np.int64), w, truth[n]) for n in few])[0]
            for cut in (cut_by_label, cut_by_arrays)
        ]
        return min(times) / len(few)

    yield Work(
        "F-score oracle, a call",
        "101 labels, 102 pairs",
        "float64",
        "published oracle on PyMaxflow",
        exact,
        published,
        moved=float(u[0].nbytes + 16 * len(w)),
    )
    X, Y = make_data(1000, 14, 100)
    n, D = X.shape
    model = SubmodularClassifier(1.0, tol=1e-2, n_jobs=threads, random_state=0)
    bmrm = SubmodularClassifier(1.0, tol=1e-2, solver="bmrm", time_limit=20, random_state=0)
    passes = model.fit(X, Y).n_iter_
    yield Work(
        "SubmodularClassifier",
        f"{n} x {D} x 14",
        "float64",
        "BMRM, the paper's solver, ours",
        seconds(partial(model.fit, X, Y)),
        seconds(partial(bmrm.fit, X, Y)),
        moved=1.0 * passes * X.nbytes,
        computed=4.0 * passes * X.size * 14,
    )


def cliques(threads: int) -> Iterator[Work]:
    from cliques import compile_pairs, random_pairs, random_scores, seconds_per_row

    rng = np.random.default_rng(0)
    pairs = random_pairs(rng, 20, 30)
    scores = random_scores(rng, 20, pairs, 20_000)
    ours, mplp = (compile_pairs(20, pairs, method) for method in ("elimination", "mplp"))
    yield Work(
        "clique inference, a row",
        "20 labels, 30 pairs",
        "float64",
        "MPLP, ours, not always exact",
        partial(seconds_per_row, ours, scores),
        partial(seconds_per_row, mplp, scores[:4000]),
        moved=float(scores[0].nbytes),
    )
    data = datasets.make_clique_labels(2000, random_state=0)
    X, Y = data.X, data.Y.astype(int)
    model = CliqueClassifier(1.0, graph=data.cliques, tol=1e-2, n_jobs=threads, random_state=0)
    full = CliqueClassifier(1.0, graph="full", tol=1e-2, n_jobs=threads, random_state=0)
    passes = model.fit(X, Y).n_iter_
    atoms = Y.shape[1] + len(data.cliques)
    yield Work(
        "CliqueClassifier, four true pairs",
        f"{X.shape[0]} x {X.shape[1]} x {Y.shape[1]}",
        "float64",
        "all 45 pairs, ours",
        seconds(partial(model.fit, X, Y)),
        seconds(partial(full.fit, X, Y)),
        moved=1.0 * passes * X.nbytes,
        computed=4.0 * passes * X.size * atoms,
    )


def separation(threads: int) -> Iterator[Work]:
    for name, Estimator, rows in (
        ("csrl", CalibratedSeparationClassifier, 200),
        ("output-kernel", OutputKernelClassifier, 50),
    ):
        n_labels = 20 if name == "csrl" else 10
        X, Y = make_data(rows, n_labels, 50)
        model = Estimator(10.0, tol=1e-4, n_jobs=threads, random_state=0, fit_intercept=False, max_iter=10**6)
        passes = model.fit(X, Y).n_iter_
        theirs = partial(generic, X, Y, model=name, C=10.0, tol=1e-4, backend="CLARABEL")
        yield Work(
            Estimator.__name__,
            f"{rows} x 50 x {n_labels}",
            "float64",
            "Clarabel by cvxpy",
            seconds(partial(model.fit, X, Y)),
            lambda work=theirs: float(work()["seconds"]),
            moved=1.0 * passes * X.nbytes,
            computed=4.0 * passes * X.size * model.n_atoms_,
        )


def boosting(threads: int) -> Iterator[Work]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.multiclass import OneVsRestClassifier

    X, Y = make_data(2000, 10, 100)
    rounds, some = 200, 20
    trees = HistGradientBoostingClassifier(max_depth=1, max_iter=some, early_stopping=False, min_samples_leaf=1)
    yield Work(
        "BoosTexter, a round",
        "2000 x 100 x 10",
        "float64",
        "histogram trees of scikit-learn",
        lambda: clock(partial(BoosTexter(rounds).fit, X, Y))[0] / rounds,
        lambda: clock(partial(OneVsRestClassifier(trees).fit, X, Y))[0] / some,
        moved=float(X.size + 8 * Y.size),
        computed=2.0 * X.size * Y.shape[1],
    )


def thresholds(threads: int) -> Iterator[Work]:
    from thresholds import full_sort, problem

    scores, Y = problem(50)
    yield Work(
        "thresholds for macro-F1",
        "100000 x 50",
        "float64",
        "a full sort of each column in NumPy",
        seconds(partial(tune_thresholds, scores, Y)),
        seconds(partial(full_sort, scores, Y)),
        moved=float(scores.nbytes),
    )


FAMILIES = {
    "linear": linear,
    "prior": prior,
    "prediction": prediction,
    "kernel": kernel,
    "submodular": submodular,
    "cliques": cliques,
    "separation": separation,
    "boosting": boosting,
    "thresholds": thresholds,
}


def row(work: Work, machine: Machine, repeats: int) -> dict[str, Any]:
    work.ours()  # what a first call loads is not counted
    times = interleaved({"ours": work.ours, "theirs": work.theirs}, repeats)
    spent = times["ours"]

    def share(amount: float, speed: float) -> str:
        return f"{100 * amount / speed / spent:.2g} %" if amount else ""

    return {
        "what": work.what,
        "rows x features x labels": work.size,
        "precision": work.precision,
        "ours, s": spent,
        "beside": work.peer,
        "its time / ours": times["theirs"] / spent,
        "of STREAM": share(work.moved, machine.moved),
        "of GEMM": share(work.computed, machine.computed[work.precision]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", DecisionWarning)
    start = time.perf_counter()
    machine = Machine.measured(options.threads)
    computed = ", ".join(f"{speed / 1e9:.0f} GFLOP/s in {name}" for name, speed in machine.computed.items())
    print(
        f"{options.threads} threads: {machine.moved / 1e9:.1f} GB/s copied, {computed}; load {os.getloadavg()[0]:.1f}\n"
    )
    rows = []
    for name in options.families:
        for work in FAMILIES[name](options.threads):
            rows.append(row(work, machine, options.repeats))
            print(f"{rows[-1]['what']} ({rows[-1]['precision']}): {rows[-1]['its time / ours']:.3g}", flush=True)
    print()
    save("overview", rows, PACKAGES)
    middle = statistics.median(row["its time / ours"] for row in rows)
    print(f"\n{time.perf_counter() - start:.0f} s in all; median ratio {middle:.3g}")


if __name__ == "__main__":
    main()
