"""Rows in parts: how many rounds parts need, and training from files that do not fit the memory.

``rounds`` cuts the training rows of a set at random into K equal parts, works on them side by side in one process, and
counts rounds to a relative gap of 1e-3 (C = 1), beside the passes of an ordinary fit. As in the simulation from which
the constants come, 32 labels are taken, spread evenly over the label frequencies; its counts on rcv1-pooled and
eurlex-500 are printed beside ours.

    python benchmarks/scale_out.py rounds --sets rcv1-pooled eurlex-500 bibtex tmc2007

``files`` generates rows of RCV1's shape (scale.py), writes them to part files in a folder one by one, and trains from
there in a process of its own within a memory limit; it prints passes, seconds and the peak memory of that process.
Generating 10 million rows takes a while and 7 GB; training takes as much again for its copy, and 4 GB for the dual
variables. The folder is kept: with the same number of rows it is not generated again.

    python benchmarks/scale_out.py files --rows 1000000 --folder /tmp/parts --limit 4
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from _common import cpu_clock, memory, save

ROWS_A_FILE = 200_000
SIMULATED = {
    "rcv1-pooled": {2: 35, 4: 42, 8: 47, 16: 54, 32: 67},
    "eurlex-500": {2: 36, 4: 42, 8: 46, 16: 57, 32: 63},
}


def some_labels(Y, count):
    """Columns spread evenly over the label frequencies."""
    order = np.argsort(-Y.sum(axis=0), kind="stable")
    return Y[:, order[np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)]]


def rounds(options):
    from linear_m3l import load

    from multimargin import LinearM3L
    from multimargin.estimators.m3l.parted import train_on_parts
    from multimargin.estimators.m3l.parts import Block
    from multimargin.fleets import LocalFleet

    rows = []
    for name in options.sets:
        X, Y = load(name)
        Y = some_labels(Y, options.labels)
        passes = LinearM3L(random_state=0, max_iter=100_000, C=options.C, tol=options.tol).fit(X, Y).n_iter_
        for K in options.parts:
            order = np.random.default_rng(options.seed).permutation(len(Y))
            blocks = [Block(X[np.sort(part)], Y[np.sort(part)]) for part in np.array_split(order, K)]
            fleet = LocalFleet(blocks, options.jobs)
            model = LinearM3L(random_state=options.seed, C=options.C, tol=options.tol, max_iter=options.most)
            seconds, _ = cpu_clock(lambda model=model, fleet=fleet: train_on_parts(model, fleet))
            features = [len(part.features) for part in fleet.parts]
            rows.append(
                {
                    "set": name,
                    "K": K,
                    "rounds": model.n_iter_,
                    "simulated": SIMULATED.get(name, {}).get(K, "") if options.tol == 1e-3 and options.C == 1 else "",
                    "relative gap": model.certificate_.relative_gap,
                    "passes of one machine": passes,
                    "CPU seconds": seconds,
                    "CPU seconds a round": seconds / model.n_iter_,
                    "MB a part and way": 4e-6 * (np.mean(features) + 1) * Y.shape[1],
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    save(f"scale-out-rounds{options.name}", rows, ["multimargin", "numpy", "scipy"])


def write_parts(folder, n_rows):
    """Write part files of rows of RCV1's shape; label thresholds differ a little between blocks, as in scale.py."""
    from scale import generate

    folder.mkdir(parents=True, exist_ok=True)
    for k, first in enumerate(range(0, n_rows, ROWS_A_FILE)):
        path = folder / f"part{k:04d}-of-{n_rows}.npz"
        if path.exists():
            continue
        X, Y = generate(min(ROWS_A_FILE, n_rows - first), seed=k, directions_seed=0)
        arrays = {f"{name}_{key}": getattr(M, key) for name, M in (("X", X), ("Y", Y)) for key in ("indices", "indptr")}
        draft = folder / ".draft.npz"
        with draft.open("wb") as file:
            np.savez(file, X_data=X.data, X_shape=X.shape, Y_data=Y.data.astype(np.int8), Y_shape=Y.shape, **arrays)
        draft.rename(path)
        print(f"{path.name}: {X.shape[0]} rows", file=sys.stderr, flush=True)


def train(options):
    """Train from the folder in this process and print what it took."""
    from multimargin import LinearM3L, datasets, fit_parts

    files = datasets.PartFiles(options.folder, f"*-of-{options.rows}.npz")
    before, cpu, wall = memory("VmRSS"), time.process_time(), time.perf_counter()
    model = LinearM3L(C=options.C, n_jobs=options.jobs, random_state=0, verbose=1, tol=options.tol)
    fit_parts(
        model, files, memory_limit=int(options.limit * 2**30), scratch=options.folder, local_passes=options.passes
    )
    print(
        json.dumps(
            {
                "rows": options.rows,
                "parts": len(files),
                "limit GiB": options.limit,
                "passes": model.n_iter_,
                "local passes": options.passes or 1,
                "relative gap": model.certificate_.relative_gap,
                "seconds": time.perf_counter() - wall,
                "CPU seconds": time.process_time() - cpu,
                "files MB": sum(path.stat().st_size for path in files.paths) / 1e6,
                "peak MB": memory("VmHWM") / 1e6,
                "peak MB before training": before / 1e6,
            }
        )
    )


def files(options):
    write_parts(options.folder, options.rows)
    command = [sys.executable, __file__, "train", *sys.argv[2:]]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    save("scale-out-files", [json.loads(run.stdout)], ["multimargin", "numpy", "scipy"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rounds", "files", "train"])
    parser.add_argument("--sets", nargs="+", default=["rcv1-pooled", "eurlex-500", "bibtex", "tmc2007"])
    parser.add_argument("--parts", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--labels", type=int, default=32)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--most", type=int, default=400, help="rounds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="", help="added to the name of the file of results")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("parts"))
    parser.add_argument("--limit", type=float, default=4.0, help="GiB")
    parser.add_argument("--passes", type=int, help="over a part each time it is in memory")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    {"rounds": rounds, "files": files, "train": train}[options.what](options)


if __name__ == "__main__":
    main()
