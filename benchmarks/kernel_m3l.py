"""KernelM3L against LIBSVM: RBF kernel, C = 1, at a relative gap of 1e-3 and at the primal value LIBSVM reaches.

LIBSVM (scikit-learn's SVC, the faster of dense and CSR input, cache 1 GiB, default tolerance) trains one label at a
time. It is timed on a sample of labels, one from each equal part of the labels ordered by frequency, and scaled to all
of them. Its solutions on those labels are put into our primal with the best intercept; "same primal" is the loosest
tolerance of a grid at which KernelM3L is at least as good on the same labels. Our times are medians of complete fits,
Gram matrix included. LIBSVM works in double precision; ours is given rows in double, or single (``--dtype float32``).
LIBSVM's seconds are CPU time of its one thread; ours are wall time, which a busy machine makes longer, and CPU time of
all threads.

    MULTIMARGIN_DATA=folder python benchmarks/kernel_m3l.py [--sets awa mediamill] [--labels 6] [--n-jobs 2]
    MULTIMARGIN_DATA=folder python benchmarks/kernel_m3l.py --priors    # a dense prior against R = I
    MULTIMARGIN_DATA=folder python benchmarks/kernel_m3l.py --forms     # the same kernel as a matrix and as a function
    MULTIMARGIN_DATA=folder python benchmarks/kernel_m3l.py --memory    # all rows, within several cache sizes
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from _common import clock, geometric_mean, memory, save
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from multimargin import KernelM3L, datasets, priors

SETS = {"mediamill": 10_000, "awa": 10_000, "rcv1-pooled": 6_000, "tmc2007": 10_000}
TOLERANCES = (1e-3, 7e-4, 5e-4, 3e-4, 2e-4, 1.5e-4, 1e-4, 7e-5, 5e-5, 3e-5, 2e-5, 1e-5)
WHOLE_SETS = {"mediamill": (256.0, 4096.0), "awa": (1024.0, 4096.0)}
CACHE_MIB = 1024
MIB = 2**20
DENSE_FEATURES = 5000  # with more, LIBSVM is only given CSR
PACKAGES = ["multimargin", "scikit-learn", "numpy"]


def load(name: str, n: int, dtype: str = "float32") -> tuple[Any, np.ndarray]:
    data = datasets.load(name, dtype=np.dtype(dtype).type)
    rows = np.sort(np.random.default_rng(0).choice(data.X_train.shape[0], n, replace=False))
    X, Y = data.X_train[rows], data.Y_train[rows].toarray()
    return X, Y[:, (Y.sum(axis=0) > 0) & (Y.sum(axis=0) < n)]


def stratified_labels(Y: np.ndarray, count: int) -> np.ndarray:
    """One label from the middle of each equal part of the labels, ordered by frequency."""
    order = np.argsort(Y.sum(axis=0), kind="stable")
    return order[[(2 * k + 1) * len(order) // (2 * count) for k in range(count)]]


def primal(f: np.ndarray, quadratic: float, y: np.ndarray, intercept: float | None) -> float:
    """Objective of a label with a regularised intercept; None finds the best one."""
    if intercept is not None:
        return quadratic / 2 + intercept**2 / 2 + np.maximum(0, 1 - y * (f + intercept)).sum()
    low, high = -10.0, 10.0
    for _ in range(80):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if primal(f, quadratic, y, a) < primal(f, quadratic, y, b) else (a, high)
    return primal(f, quadratic, y, (low + high) / 2)


def libsvm(X: Any, y: np.ndarray, gamma: float, layouts: list[str]) -> tuple[float, SVC, str]:
    """CPU seconds of the fastest of the layouts still considered, its model and its name."""
    best = None
    for layout in layouts:
        data = sp.csr_matrix(X) if layout == "csr" else (X.toarray() if sp.issparse(X) else X)
        model = SVC(C=1.0, gamma=gamma, cache_size=CACHE_MIB)
        start = time.process_time()
        model.fit(data, y)
        seconds = time.process_time() - start
        if best is None or seconds < best[0]:
            best = seconds, model, layout
    assert best is not None
    return best


def libsvm_labels(X: Any, Y: np.ndarray, K: np.ndarray, gamma: float, sample: np.ndarray) -> tuple[float, float, str]:
    """Mean CPU seconds of LIBSVM on the sampled labels, the sum of its primal values, and the layout it was given."""
    layouts = ["csr"] if X.shape[1] > DENSE_FEATURES else ["dense", "csr"]
    seconds, value = [], 0.0
    for label in sample:
        spent, svc, layout = libsvm(X, Y[:, label], gamma, layouts)
        layouts = [layout]  # the layout that won on the first label
        seconds.append(spent)
        beta = np.zeros(len(K))
        beta[svc.support_] = svc.dual_coef_.toarray()[0] if sp.issparse(svc.dual_coef_) else svc.dual_coef_[0]
        f = K @ beta
        value += primal(f, float(beta @ f), 2.0 * Y[:, label] - 1, None)
    return float(np.mean(seconds)), value, layouts[0]


def our_value(model: KernelM3L, Y: np.ndarray, K: np.ndarray, sample: np.ndarray) -> float:
    """Sum of our primal values on the sampled labels."""
    coef = np.zeros((len(K), len(sample)))
    coef[model.support_] = model.dual_coef_[:, sample]
    F = K @ coef
    return sum(
        primal(F[:, j], float(coef[:, j] @ F[:, j]), 2.0 * Y[:, s] - 1, float(model.intercept_[s]))
        for j, s in enumerate(sample)
    )


def against_libsvm(name: str, n: int, n_sample: int, n_jobs: int, repeats: int, dtype: str) -> dict[str, Any]:
    X, Y = load(name, n, dtype)
    sample = stratified_labels(Y, n_sample)
    gamma = KernelM3L(C=1.0, random_state=0, callback=lambda _: True).fit(X, Y).gamma_
    K = rbf_kernel(X, gamma=gamma).astype(np.float32)
    mean, target, layout = libsvm_labels(X, Y, K, gamma, sample)
    estimate = mean * Y.shape[1]  # each sampled label stands for its part of them

    def fit(tol: float) -> tuple[float, float, KernelM3L]:
        cpu = time.process_time()
        wall, model = clock(partial(KernelM3L(C=1.0, gamma=gamma, tol=tol, n_jobs=n_jobs, random_state=0).fit, X, Y))
        return wall, time.process_time() - cpu, model

    above = {}
    for tol in TOLERANCES:
        above[tol] = our_value(fit(tol)[2], Y, K, sample) / target - 1
        if above[tol] <= 0:
            break
    same = tol if above[tol] <= 0 else None
    times: dict[float, list[tuple[float, float]]] = {t: [] for t in dict.fromkeys((1e-3, same)) if t is not None}
    for _ in range(repeats):
        for t in times:
            times[t].append(fit(t)[:2])
    median = {t: np.median(np.array(values), axis=0) for t, values in times.items()}
    row: dict[str, Any] = {
        "set": name,
        "rows": n,
        "labels": Y.shape[1],
        "ours": dtype,
        "LIBSVM input (float64)": layout,
        "LIBSVM s": estimate,
        "primal above LIBSVM at 1e-3": above[1e-3],
        "tol for same primal": same,
    }
    for which, t in (("at 1e-3", 1e-3), ("at same primal", same)):
        wall, cpu = (float(v) for v in median[t]) if t is not None else (np.nan, np.nan)
        row[f"wall s {which}"], row[f"CPU s {which}"] = wall, cpu
        row[f"wall ratio {which}"], row[f"CPU ratio {which}"] = estimate / wall, estimate / cpu
    return {**row, "load": os.getloadavg()[0]}


def dense_prior(name: str, n: int, n_jobs: int, repeats: int) -> dict[str, Any]:
    """Time fits with the correlation of the labels as prior and with R = I, in turns."""
    X, Y = load(name, n)
    spent: dict[str, list[tuple[float, float]]] = {"identity": [], "correlation": []}
    R = priors.from_labels(Y)
    for _ in range(repeats):
        for which, prior in (("identity", None), ("correlation", R)):
            cpu = time.process_time()
            wall, _ = clock(partial(KernelM3L(C=1.0, prior=prior, n_jobs=n_jobs, random_state=0).fit, X, Y))
            spent[which].append((wall, time.process_time() - cpu))
    identity, dense = (np.median(np.array(values), axis=0) for values in spent.values())
    return {
        "set": name,
        "identity, wall s": float(identity[0]),
        "dense, wall s": float(dense[0]),
        "wall ratio": float(dense[0] / identity[0]),
        "identity, CPU s": float(identity[1]),
        "dense, CPU s": float(dense[1]),
        "CPU ratio": float(dense[1] / identity[1]),
        "load": os.getloadavg()[0],
    }


def forms(name: str, n: int, n_jobs: int, repeats: int) -> dict[str, Any]:
    """Time fits with the kernel by name, as a matrix in double and as a function, and that function alone."""
    X, Y = load(name, n, "float64")
    gamma = KernelM3L(C=1.0, random_state=0, callback=lambda _: True).fit(X, Y).gamma_
    function = partial(rbf_kernel, gamma=gamma)
    K = function(X, X)
    settings = {"C": 1.0, "n_jobs": n_jobs, "random_state": 0, "cache_size": 2 * CACHE_MIB}
    ways = {
        "by name": partial(KernelM3L(gamma=gamma, **settings).fit, X, Y),
        "matrix": partial(KernelM3L(kernel="precomputed", **settings).fit, K, Y),
        "function": partial(KernelM3L(kernel=function, **settings).fit, X, Y),
        "function alone": partial(function, X, X),
    }
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, fit in ways.items():
            cpu = time.process_time()
            fit()
            spent[way].append(time.process_time() - cpu)
    median = {way: float(np.median(values)) for way, values in spent.items()}
    return {
        "set": name,
        "rows": n,
        "labels": Y.shape[1],
        **{f"{way}, CPU s": value for way, value in median.items()},
        "matrix / by name": median["matrix"] / median["by name"],
        "function / (alone + matrix)": median["function"] / (median["function alone"] + median["matrix"]),
        "load": os.getloadavg()[0],
    }


def memory_of(name: str, cache_size: float, n_jobs: int) -> dict[str, Any]:
    """Peak memory of one fit on all rows beyond what the process held before, in MiB."""
    data = datasets.load(name, dtype=np.float32)
    X, Y = np.ascontiguousarray(data.X_train), data.Y_train
    del data
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = memory("VmRSS")
    cpu = time.process_time()
    wall, model = clock(partial(KernelM3L(C=1.0, cache_size=cache_size, n_jobs=n_jobs, random_state=0).fit, X, Y))
    n, labels = Y.shape
    return {
        "set": name,
        "rows x labels": f"{n} x {labels}",
        "cache_size": cache_size,
        "share of Gram": min(1.0, cache_size * MIB / (4.0 * n * n)),
        "wall s": wall,
        "CPU s": time.process_time() - cpu,
        "rounds": model.n_iter_,
        "relative gap": model.certificate_.relative_gap,
        "before": before / MIB,
        "grown by": (memory("VmHWM") - before) / MIB,
        "cache_size + 4 numbers a cell": min(cache_size, 4.0 * n * n / MIB) + 16.0 * n * labels / MIB,
        "load": os.getloadavg()[0],
    }


def in_own_process(name: str, cache_size: float, n_jobs: int) -> dict[str, Any]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(memory_of, name, cache_size, n_jobs).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--labels", type=int, default=6, help="labels on which LIBSVM is timed")
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64", help="precision of our rows")
    parser.add_argument("--priors", action="store_true", help="time a dense prior against R = I instead")
    parser.add_argument("--forms", action="store_true", help="time a matrix and a function as kernel instead")
    parser.add_argument("--memory", action="store_true", help="measure peak memory on all rows instead")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each of our fits")
    arguments = parser.parse_args()
    n_jobs, repeats = arguments.n_jobs, arguments.repeats
    if arguments.memory:
        rows = []
        for name, sizes in WHOLE_SETS.items():
            for size in sizes:
                rows.append(in_own_process(name, size, n_jobs))
                save("kernel_m3l-memory", rows, PACKAGES)
        return
    rows = []
    for name in arguments.sets:
        if arguments.forms:
            rows.append(forms(name, min(SETS[name], 6000), n_jobs, repeats))
        elif arguments.priors:
            rows.append(dense_prior(name, SETS[name], n_jobs, repeats))
        else:
            rows.append(against_libsvm(name, SETS[name], arguments.labels, n_jobs, repeats, arguments.dtype))
        which = "-forms" if arguments.forms else "-priors" if arguments.priors else ""
        save(f"kernel_m3l{which}", rows, PACKAGES)
    for column in (name for name in rows[0] if "ratio" in name):
        print(f"geometric mean, {column}: {geometric_mean([row[column] for row in rows]):.3g}")


if __name__ == "__main__":
    main()
