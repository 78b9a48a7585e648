"""KernelM3L against LIBSVM: RBF kernel, C = 1, at a relative gap of 1e-3 and at the primal value LIBSVM reaches.

LIBSVM (scikit-learn's SVC, the faster of dense and CSR input, cache 1 GiB, default tolerance) trains one label at a
time. It is timed on a sample of labels, one from each equal part of the labels ordered by frequency, and scaled to all
of them. Its solutions on those labels are put into our primal with the best intercept; "same primal" is the loosest of
three tolerances at which KernelM3L is at least as good on the same labels. Fits of the two are interleaved. LIBSVM's
seconds are CPU time of its one thread; ours are wall time, which a busy machine makes longer, and CPU time of all
threads.

    MULTIMARGIN_DATA=folder python benchmarks/kernel_m3l.py [--sets awa mediamill] [--labels 6] [--n-jobs 2] [--priors]
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from _common import clock, geometric_mean, interleaved, save
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from multimargin import KernelM3L, datasets, priors

SETS = {"mediamill": 10_000, "awa": 10_000, "rcv1-pooled": 6_000, "tmc2007": 10_000}
TOLERANCES = (1e-3, 3e-4, 1e-4)
CACHE_MIB = 1024
DENSE_FEATURES = 5000  # with more, LIBSVM is only given CSR
PACKAGES = ["multimargin", "scikit-learn", "numpy"]


def load(name: str, n: int) -> tuple[Any, np.ndarray]:
    data = datasets.load(name, dtype=np.float32)
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


def against_libsvm(name: str, n: int, n_sample: int, n_jobs: int) -> dict[str, Any]:
    X, Y = load(name, n)
    sample = stratified_labels(Y, n_sample)
    gamma = KernelM3L(random_state=0, callback=lambda _: True).fit(X, Y).gamma_
    K = rbf_kernel(X, gamma=gamma).astype(np.float32)

    ours: dict[float, list[tuple[float, float]]] = {tol: [] for tol in TOLERANCES}
    values: dict[float, np.ndarray] = {}
    peer_seconds, peer_values = [], []
    layouts = ["csr"] if X.shape[1] > DENSE_FEATURES else ["dense", "csr"]
    for k, label in enumerate(sample):
        seconds, svc, layout = libsvm(X, Y[:, label], gamma, layouts)
        layouts = [layout]  # the layout that won on the first label
        peer_seconds.append(seconds)
        beta = np.zeros(n)
        beta[svc.support_] = svc.dual_coef_.toarray()[0] if sp.issparse(svc.dual_coef_) else svc.dual_coef_[0]
        f = K @ beta
        peer_values.append(primal(f, float(beta @ f), 2.0 * Y[:, label] - 1, None))
        tol = TOLERANCES[k % len(TOLERANCES)]
        cpu = time.process_time()
        wall, model = clock(partial(KernelM3L(gamma=gamma, tol=tol, n_jobs=n_jobs, random_state=0).fit, X, Y))
        ours[tol].append((wall, time.process_time() - cpu))
        coef = np.zeros((n, len(sample)))
        coef[model.support_] = model.dual_coef_[:, sample]
        F = K @ coef
        values[tol] = np.array(
            [
                primal(F[:, j], float(coef[:, j] @ F[:, j]), 2.0 * Y[:, s] - 1, float(model.intercept_[s]))
                for j, s in enumerate(sample)
            ]
        )
    enough = next((tol for tol in TOLERANCES if values[tol].sum() <= np.sum(peer_values)), None)
    estimate = float(np.mean(peer_seconds) * Y.shape[1])  # each sampled label stands for its part of them
    wall_at = {tol: float(np.median([w for w, _ in times])) for tol, times in ours.items()}
    cpu_at = {tol: float(np.median([c for _, c in times])) for tol, times in ours.items()}
    return {
        "set": name,
        "rows": n,
        "labels": Y.shape[1],
        "LIBSVM input": layouts[0],
        "LIBSVM s": estimate,
        "ours s at 1e-3": wall_at[1e-3],
        "ratio at 1e-3": estimate / wall_at[1e-3],
        "ours CPU s at 1e-3": cpu_at[1e-3],
        "CPU ratio at 1e-3": estimate / cpu_at[1e-3],
        "primal above LIBSVM at 1e-3": float(values[1e-3].sum() / np.sum(peer_values) - 1),
        "tol for same primal": enough,
        "CPU ratio at same primal": None if enough is None else estimate / cpu_at[enough],
        "load": os.getloadavg()[0],
    }


def dense_prior(name: str, n: int, n_jobs: int, repeats: int) -> dict[str, Any]:
    """Time with the correlation of the labels as prior, against R = I."""
    X, Y = load(name, n)
    R = priors.from_labels(Y)

    def seconds(prior: Any) -> float:
        return clock(lambda: KernelM3L(prior=prior, n_jobs=n_jobs, random_state=0).fit(X, Y))[0]

    times = interleaved({"identity": lambda: seconds(None), "correlation": lambda: seconds(R)}, repeats)
    return {"set": name, **times, "ratio": times["correlation"] / times["identity"], "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--labels", type=int, default=6, help="labels on which LIBSVM is timed")
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--priors", action="store_true", help="time a dense prior against R = I instead")
    parser.add_argument("--repeats", type=int, default=3, help="runs with each prior")
    arguments = parser.parse_args()
    if arguments.priors:
        rows = [dense_prior(name, SETS[name], arguments.n_jobs, arguments.repeats) for name in arguments.sets]
        save("kernel_m3l-priors", rows, PACKAGES)
        return
    rows = []
    for name in arguments.sets:
        rows.append(against_libsvm(name, SETS[name], arguments.labels, arguments.n_jobs))
        save("kernel_m3l", rows, PACKAGES)
    for column in ("ratio at 1e-3", "CPU ratio at 1e-3"):
        print(f"geometric mean, {column}: {geometric_mean([row[column] for row in rows]):.0f}")


if __name__ == "__main__":
    main()
