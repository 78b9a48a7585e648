"""Tens of thousands of labels: fit in blocks, prune, save, load, the best labels of new rows, metrics at k.

Generates sparse text-like rows of unit length and labels whose frequencies follow a power law: each label has some
words of its own, its rows have half of them beside words that anyone has. What is measured runs in a process of its
own; with ``--set eurlex-4k`` the real set is read instead.

    python benchmarks/many_labels.py --labels 100000 --rows 100000 --memory "4 GiB"
    MULTIMARGIN_DATA=... python benchmarks/many_labels.py --set eurlex-4k --tol 0.02 --prune -1 0.01 0.05
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _common import clock, cpu_clock, memory, save

LABELS_A_ROW, OWN_WORDS, COMMON_WORDS, WORDS_OF_LABEL = 3, 6, 10, 12


def generate(n_rows, n_labels, n_features, seed=0):
    """Rows with a few labels each; label l is drawn with a probability that falls as l to the power 0.7."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, n_labels + 1) ** 0.7
    cumulative = np.cumsum(share / share.sum())
    own = rng.integers(0, n_features, size=(n_labels, WORDS_OF_LABEL), dtype=np.int32)
    labels = np.searchsorted(cumulative, rng.random((n_rows, LABELS_A_ROW))).astype(np.int32)
    labels = np.minimum(labels, n_labels - 1)
    picks = rng.integers(0, WORDS_OF_LABEL, size=(n_rows, LABELS_A_ROW, OWN_WORDS))
    of_labels = own[labels[:, :, None], picks].reshape(n_rows, -1)
    of_anyone = (n_features * rng.random((n_rows, COMMON_WORDS)) ** 3).astype(np.int32)
    columns = np.hstack([of_labels, of_anyone])
    values = 0.5 + rng.random(columns.shape, dtype=np.float32)
    X = _csr(values, columns, n_features)
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(norms, np.diff(X.indptr)).astype(np.float32)
    Y = _csr(np.ones(labels.shape, dtype=np.int8), labels, n_labels)
    Y.data[:] = 1
    return X, Y


def _csr(values, columns, width):
    n, k = columns.shape
    matrix = sp.csr_array((values.ravel(), columns.ravel(), np.arange(0, n * k + 1, k)), shape=(n, width))
    matrix.sum_duplicates()
    return matrix


def store(folder, options):
    """Write training and test rows, so that the process that is measured does not make them."""
    if options.set:
        from multimargin import datasets

        data = datasets.load(options.set)
        parts = (data.X_train, data.Y_train), (data.X_test, data.Y_test)
        parts = [(sp.csr_array(X).astype(np.float32), sp.csr_array(Y)) for X, Y in parts]
    else:
        X, Y = generate(options.rows + options.test_rows, options.labels, options.features)
        parts = (X[: options.rows], Y[: options.rows]), (X[options.rows :], Y[options.rows :])
    for name, (X, Y) in zip(("train", "test"), parts, strict=True):
        sp.save_npz(folder / f"X_{name}.npz", X, compressed=False)
        sp.save_npz(folder / f"Y_{name}.npz", Y, compressed=False)


def run(folder, options, prune):
    import multimargin
    from multimargin import LinearM3L, metrics

    X, Y = (sp.load_npz(folder / f"{name}_train.npz") for name in "XY")
    X_test, Y_test = (sp.load_npz(folder / f"{name}_test.npz") for name in "XY")
    before = memory("VmRSS")
    warnings.simplefilter("ignore")
    shared = {"C": options.C, "tol": options.tol, "n_jobs": options.jobs, "random_state": 0, "verbose": options.verbose}
    model = LinearM3L(prune=prune, memory_limit=options.memory, **shared)
    seconds, (cpu, model) = clock(lambda: cpu_clock(lambda: model.fit(X, Y)))
    fit_memory = memory("VmHWM") - before
    path = folder / "model.mm"
    save_seconds, _ = clock(lambda: multimargin.save(model, path))
    load_seconds, model = clock(lambda: multimargin.load(path))
    model.set_params(n_jobs=options.jobs)
    top_cpu, top = cpu_clock(lambda: model.predict_top(X_test, 5))
    certificate, pruning = model.certificate_, getattr(model, "pruning_", None)
    propensities = metrics.propensities(Y)
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "labels": Y.shape[1],
        "tol": options.tol,
        "prune": "none" if prune is None else prune,
        "fit CPU s": cpu,
        "fit s": seconds,
        "passes": model.n_iter_,
        "relative gap": certificate.relative_gap,
        "objective + %": None if pruning is None else 100 * pruning.loss,
        "weights %": None if pruning is None else 100 * pruning.kept / pruning.weights,
        "fit memory beyond data MB": fit_memory / 1e6,
        "file MB": path.stat().st_size / 1e6,
        "save s": save_seconds,
        "load s": load_seconds,
        "top 5 CPU ms a row": 1e3 * top_cpu / X_test.shape[0],
        **{f"P@{k}": 100 * metrics.precision_at_k(Y_test, top, k) for k in (1, 3, 5)},
        "nDCG@5": 100 * metrics.ndcg_at_k(Y_test, top, 5),
        **{f"PSP@{k}": 100 * metrics.psp_at_k(Y_test, top, k, propensities) for k in (1, 3, 5)},
        "peak MB": memory("VmHWM") / 1e6,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", help="a real set of the catalogue, in place of a generated one")
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--test-rows", type=int, default=10_000)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--prune", nargs="+", type=float, default=[0.01], help="-1: not at all")
    parser.add_argument("--memory", default="4 GiB", help="memory_limit of the fit")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    prunes = [None if p < 0 else p for p in options.prune]
    if options.folder:
        print(json.dumps(run(options.folder, options, prunes[0])))
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        store(Path(folder), options)
        for prune in prunes:
            arguments = ["--folder", folder, "--prune", str(-1 if prune is None else prune), "--memory", options.memory]
            arguments += ["--jobs", str(options.jobs), "--C", str(options.C), "--verbose", str(options.verbose)]
            arguments += ["--tol", str(options.tol)]
            found = subprocess.run(
                [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True
            )
            rows.append(json.loads(found.stdout))
            print(json.dumps(rows[-1]), flush=True)
    save(f"many_labels-{options.set or options.labels}", rows, ["multimargin", "numpy", "scipy"])


if __name__ == "__main__":
    main()
