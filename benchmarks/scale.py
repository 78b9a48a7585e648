"""How LinearM3L grows: RCV1-shaped data of many sizes, trained to a relative gap of 1e-3.

Generates sparse text-like rows (47,236 features, about 76 stored entries a row, unit length), 103 labels of skewed
frequency that depend linearly on the features, in single precision, in a process of its own for each size, so that the
peak memory is that of one run.

    python benchmarks/scale.py --rows 20000 80000 200000 781265
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _common import clock, memory, save

N_FEATURES, N_LABELS, ENTRIES = 47_236, 103, 76


def text_rows(rng, n):
    """Rows of Zipf-distributed words, each of unit length."""
    frequency = 1.0 / np.arange(1, N_FEATURES + 1) ** 0.8
    cumulative = np.cumsum(frequency / frequency.sum())
    length = rng.poisson(ENTRIES * 1.13, size=n) + 1  # repeated words are merged below
    columns = np.searchsorted(cumulative, rng.random(length.sum())).astype(np.int32)
    X = sp.csr_array(
        (rng.random(len(columns), dtype=np.float32) + 0.1, columns, np.concatenate([[0], np.cumsum(length)])),
        shape=(n, N_FEATURES),
    )
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(norms, np.diff(X.indptr))
    return X


def generate(n_rows, seed=0, directions_seed=None):
    """Text-like rows; a label is on where its direction scores highest."""
    rng = np.random.default_rng(seed)
    source = rng if directions_seed is None else np.random.default_rng((1, directions_seed))
    directions = source.normal(size=(N_FEATURES, N_LABELS)).astype(np.float32)
    share = np.clip(0.3 / np.arange(1, N_LABELS + 1) ** 0.7, 2e-3, None)
    blocks, labels = [], []
    for first in range(0, n_rows, 20_000):
        n = min(20_000, n_rows - first)
        X = text_rows(rng, n)
        scores = X @ directions + 0.3 * rng.normal(size=(n, N_LABELS)).astype(np.float32)
        threshold = np.array([np.quantile(scores[:, j], 1 - share[j]) for j in range(N_LABELS)])
        blocks.append(X)
        labels.append(sp.csr_array(scores > threshold))
    return sp.csr_matrix(sp.vstack(blocks, format="csr")), sp.csr_matrix(sp.vstack(labels, format="csr"))


def store(folder, n_rows):
    """Write the arrays of X and Y to files of their own, so that a process can load them without any more memory."""
    for name, matrix in zip("XY", generate(n_rows), strict=True):
        for part in ("data", "indices", "indptr"):
            np.save(folder / f"{name}_{part}.npy", getattr(matrix, part))


def fetch(folder, name, width, mode):
    parts = [np.load(folder / f"{name}_{part}.npy", mmap_mode=mode) for part in ("data", "indices", "indptr")]
    return sp.csr_matrix(tuple(parts), shape=(len(parts[2]) - 1, width), copy=False)


def run(folder, n_jobs, mode):
    from multimargin import LinearM3L

    X, Y = fetch(folder, "X", N_FEATURES, mode), fetch(folder, "Y", N_LABELS, None)
    x_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    before = memory("VmRSS")
    seconds, model = clock(lambda: LinearM3L(C=1.0, tol=1e-3, n_jobs=n_jobs, random_state=0).fit(X, Y))
    n_rows = X.shape[0]
    return {
        "rows": n_rows,
        "entries a row": X.nnz / n_rows,
        "labels a row": Y.nnz / n_rows,
        "threads": n_jobs,
        "seconds": seconds,
        "passes": model.n_iter_,
        "relative gap": model.certificate_.relative_gap,
        "microseconds a row": 1e6 * seconds / n_rows,
        "X MB": x_bytes / 1e6,
        "memory beyond X MB": (memory("VmHWM") - before) / 1e6,
        "1.5 (4 N L + 8 D L) MB": 1.5 * (4 * n_rows * N_LABELS + 8 * N_FEATURES * N_LABELS) / 1e6,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[20_000, 80_000, 200_000, 781_265])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--mapped", action="store_true", help="leave X on disk, memory-mapped")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    mode = "r" if options.mapped else None
    if options.folder:
        print(json.dumps(run(options.folder, options.jobs, mode)))
        return
    rows = []
    for n in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            store(Path(folder), n)
            command = [sys.executable, __file__, "--folder", folder, "--jobs", str(options.jobs)]
            command += ["--mapped"] if options.mapped else []
            rows.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(json.dumps(rows[-1]), flush=True)
    save("scale-mapped" if options.mapped else "scale", rows, ["multimargin", "numpy", "scipy"])


if __name__ == "__main__":
    main()
