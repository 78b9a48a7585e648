"""Prediction against what the memory allows and against SciPy, scikit-learn and LIBSVM.

Linear: generated RCV1-shaped rows (47,236 features, about 75 entries a row) and 103 labels, single and double
precision: ``decision_function``, ``predict`` (sparse labels) and ``predict_top(X, 5)`` on one and two threads, checks
of X included, beside SciPy's product ``X @ coef.T`` on its one thread, which is given the weights in its layout. Two
yardsticks, from rates measured in the same run:

    streaming   bytes of X and of the scores, divided by the rate at which np.copyto moves bytes (read and written), on
                as many threads
    gathering   bytes of the weights that the entries of X ask for, a row of L numbers each, divided by the rate at
                which np.take reads such rows, for the columns of X in their order, into a buffer that stays in cache

The first is a bound; the second says what a plain loop reaches where weights are read at random, which prefetching and
the first-level cache can beat.

Kernel: an RBF model of rows of mediamill against scikit-learn's ``SVC`` with the same C and gamma, one label at a time,
timed on a few labels spread over the frequencies and scaled to all of them by the number of support rows.

Contestants take turns; medians of wall time and of CPU time of all threads. On a busy machine wall time says little;
the yardsticks are made of CPU time, divided by the threads.

    python benchmarks/prediction.py --part linear [--rows 1000000] [--repeats 5]
    MULTIMARGIN_DATA=folder python benchmarks/prediction.py --part kernel
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from _common import save
from kernel_m3l import load, stratified_labels
from scale import N_FEATURES, N_LABELS, text_rows
from sklearn.svm import SVC

from multimargin import KernelM3L, LinearM3L

PACKAGES = ["multimargin", "numpy", "scipy", "scikit-learn"]
COPIED = 2**28  # bytes


def timed(work: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def medians(contestants: dict[str, Any], repeats: int) -> dict[str, tuple[float, float]]:
    """Median wall and CPU seconds of each contestant; they take turns."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, work in contestants.items():
            times[name].append(timed(work))
    return {
        name: (statistics.median(wall for wall, _ in seconds), statistics.median(cpu for _, cpu in seconds))
        for name, seconds in times.items()
    }


def copy_of(threads: int) -> Any:
    """Return work that moves 2 * COPIED bytes on so many threads."""
    parts = [(np.ones(COPIED // threads, np.uint8), np.ones(COPIED // threads, np.uint8)) for _ in range(threads)]

    def work() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda pair: np.copyto(*pair), parts))

    return work


def gathers(X: Any, W: Any) -> Any:
    """Return work that reads rows of W for entries of X, 256 at a time."""
    columns = X.indices[: 256 * 4000]
    out = np.empty((256, W.shape[1]), W.dtype)

    def work() -> None:
        for first in range(0, len(columns) - 255, 256):
            np.take(W, columns[first : first + 256], axis=0, out=out, mode="clip")

    return work, len(columns) // 256 * 256


def linear(n_rows: int, repeats: int, threads: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    blocks = [text_rows(rng, min(20_000, n_rows - first)) for first in range(0, n_rows, 20_000)]
    single = sp.csr_matrix(sp.vstack(blocks, format="csr"))
    del blocks
    coef = rng.normal(size=(N_LABELS, N_FEATURES))
    rows = []
    for dtype in (np.float32, np.float64):
        X = single.astype(dtype)
        few = rng.choice(n_rows, 200, replace=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LinearM3L(max_iter=1).fit(X[few], sp.csr_matrix(rng.random((200, N_LABELS)) < 0.5))
        model.coef_, model.intercept_ = coef.astype(dtype), np.full(N_LABELS, -1.0, dtype)
        W = np.ascontiguousarray(model.coef_.T)
        gather, gathered = gathers(X, W)

        def on(count: int, method: str, *more: Any, model: Any = model, X: Any = X) -> Any:
            return lambda: getattr(model.set_params(n_jobs=count), method)(X, *more)

        contestants = {"SciPy": lambda X=X, W=W: X @ W, "take": gather}
        counts = sorted({1, threads})
        for count in counts:
            contestants |= {
                f"copy {count}": copy_of(count),
                f"decision_function {count}": on(count, "decision_function"),
                f"predict {count}": on(count, "predict"),
                f"predict_top {count}": on(count, "predict_top", 5),
            }
        found = medians(contestants, repeats)
        moved = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + n_rows * N_LABELS * X.dtype.itemsize
        asked = X.nnz * N_LABELS * X.dtype.itemsize
        scipy_wall, scipy_cpu = found["SciPy"]
        for count in counts:
            streaming = moved * found[f"copy {count}"][1] / count / (2 * COPIED)
            gathering = X.nnz * found["take"][1] / gathered / count
            for method in ("decision_function", "predict", "predict_top"):
                wall, cpu = found[f"{method} {count}"]
                rows.append(
                    {
                        "precision": X.dtype.name,
                        "method": method,
                        "threads": count,
                        "s": wall,
                        "CPU s": cpu,
                        "SciPy, s": scipy_wall,
                        "SciPy, CPU s": scipy_cpu,
                        "SciPy / ours": scipy_wall / wall,
                        "the same, CPU": scipy_cpu / cpu,
                        "streaming, s": streaming,
                        "gathering, s": gathering,
                        "GB of weights": asked / 1e9,
                        "load": os.getloadavg()[0],
                    }
                )
    return rows


def kernel(n_rows: int, n_new: int, repeats: int, threads: int, n_labels: int) -> list[dict[str, Any]]:
    rows = []
    for dtype in (np.float32, np.float64):
        X, Y = load("mediamill", n_rows + n_new)
        X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=dtype)
        X, new, Y = X[:n_rows], X[n_rows:], Y[:n_rows]
        varies = (Y.sum(axis=0) > 1) & (Y.sum(axis=0) < n_rows)
        Y = Y[:, varies]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = KernelM3L(C=1.0, n_jobs=threads).fit(X, Y)
        labels = stratified_labels(Y, n_labels)
        rivals = [SVC(C=1.0, gamma=model.gamma_).fit(X, Y[:, label]) for label in labels]
        support = (model.dual_coef_ != 0).sum(axis=0)
        found = medians(
            {
                "SVC": lambda rivals=rivals, new=new: [rival.decision_function(new) for rival in rivals],
                "one": lambda model=model, new=new: model.set_params(n_jobs=1).decision_function(new),
                "more": lambda model=model, new=new: model.set_params(n_jobs=threads).decision_function(new),
            },
            repeats,
        )
        # of all labels, with as many support rows as ours have
        scale = support.sum() / sum(len(rival.support_) for rival in rivals)
        svc_wall, svc_cpu = (scale * seconds for seconds in found["SVC"])
        for count, name in ((1, "one"), (threads, "more")):
            wall, cpu = found[name]
            rows.append(
                {
                    "precision": np.dtype(dtype).name,
                    "threads": count,
                    "rows x features x labels": f"{n_new} x {X.shape[1]} x {Y.shape[1]}",
                    "support rows": len(model.support_),
                    "a label": float(support.mean()),
                    "s": wall,
                    "CPU s": cpu,
                    "SVC, CPU s": svc_cpu,
                    "SVC / ours": svc_wall / wall,
                    "the same, CPU": svc_cpu / cpu,
                    "load": os.getloadavg()[0],
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["linear", "kernel"], default="linear")
    parser.add_argument("--rows", type=int, help="new rows; by default 1,000,000, with a kernel 4000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--labels", type=int, default=4, help="labels on which SVC is timed")
    options = parser.parse_args()
    if options.part == "linear":
        rows = linear(options.rows or 1_000_000, options.repeats, options.threads)
    else:
        rows = kernel(6000, options.rows or 4000, options.repeats, options.threads, options.labels)
    save(f"prediction-{options.part}", rows, PACKAGES)


if __name__ == "__main__":
    main()
