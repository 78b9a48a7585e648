"""Rows in parts: how many rounds parts need, and training from files that do not fit the memory.

``rounds`` cuts the training rows of a set at random into K equal parts, works on them side by side in one process, and
counts rounds to a relative gap of 1e-3 (C = 1), beside the passes of an ordinary fit. As in the simulation from which
the constants come, 32 labels are taken, spread evenly over the label frequencies; its counts on rcv1-pooled and
eurlex-500 are printed beside ours.

    python benchmarks/scale_out.py rounds --sets rcv1-pooled eurlex-500 bibtex tmc2007

``files`` generates rows of RCV1's shape (scale.py), writes them to part files in a folder one by one, and trains from
there in a process of its own within a memory limit; it prints passes, seconds and the peak memory of that process.
Generating 10 million rows takes a while and 10 GB; training takes 7 GB for its copy of them. The folder is kept: with
the same number of rows it is not generated again.

    python benchmarks/scale_out.py files --rows 1000000 --folder parts --limit 4

``cluster`` trains a set on a LocalCluster of two worker processes, by label blocks and by row parts, and prints wall
seconds beside those of one process, rounds beside those of parts in one process (and of the simulation), and bytes
that go through the driver in a round, computed from the shapes and counted by the fleet, which counts what certificates
move, too. Two processes on one machine are no cluster: this measures what rounds cost.

    python benchmarks/scale_out.py cluster --sets bibtex --parts 2

``model`` prints the cost model for 100 million rows and 1,000 labels on 64 machines; its assumptions are in the code.

    python benchmarks/scale_out.py model
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from _common import clock, cpu_clock, memory, save

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
    from multimargin.estimators.m3l.blocks import Block
    from multimargin.estimators.m3l.parted import train_on_parts
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


def traffic(kind):
    """Bytes that this process has moved from or to the disk: ``read_bytes``, ``write_bytes``."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(kind)))


def train(options):
    """Train from the folder in this process and print what it took."""
    from multimargin import LinearM3L, datasets, fit_parts

    files = datasets.PartFiles(options.folder, f"*-of-{options.rows}.npz")
    before, cpu, wall = memory("VmRSS"), time.process_time(), time.perf_counter()
    settings = {"C": options.C, "tol": options.tol, "n_jobs": options.jobs, "time_limit": options.seconds}
    model = LinearM3L(**settings, random_state=0, verbose=1, max_iter=options.most)
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
                "MB from disk": traffic("read_bytes") / 1e6,
                "MB to disk": traffic("write_bytes") / 1e6,
                "peak MB": memory("VmHWM") / 1e6,
                "MB before training": before / 1e6,
            }
        )
    )


def files(options):
    write_parts(options.folder, options.rows)
    command = [sys.executable, __file__, "train", *sys.argv[2:]]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    save("scale-out-files", [json.loads(run.stdout)], ["multimargin", "numpy", "scipy"])


def cluster(options):
    import dask
    from distributed import Client, LocalCluster
    from linear_m3l import load

    from multimargin import LinearM3L
    from multimargin.dask import DaskLinearM3L, _rounds
    from multimargin.estimators.m3l.parted import train_on_parts
    from multimargin.fleets import Block, LocalFleet

    fleets = []

    class CountedFleet(_rounds.DaskFleet):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            fleets.append(self)

    _rounds.DaskFleet = CountedFleet
    rows = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers, Client(workers):
        for name in options.sets:
            X, Y = load(name)
            Y = some_labels(Y, options.labels)
            order = np.random.default_rng(options.seed).permutation(len(Y))
            X, Y = X[order], Y[order]
            settings = {"random_state": options.seed, "C": options.C, "tol": options.tol, "max_iter": options.most}
            seconds, one = clock(lambda X=X, Y=Y, settings=settings: LinearM3L(**settings).fit(X, Y))
            for layout in [(1, 2), *((K, 1) for K in options.parts if K > 1)]:
                cuts = np.linspace(0, len(Y), layout[0] + 1).round().astype(int)
                parts = [slice(a, b) for a, b in pairwise(cuts)]
                blocks = [dask.delayed(X[part]) for part in parts], [dask.delayed(Y[part]) for part in parts]
                model = DaskLinearM3L(**settings, layout=layout)
                fleets.clear()
                wall, _ = clock(lambda model=model, blocks=blocks: model.fit(*blocks))
                local = one
                if layout[0] > 1:
                    local = LinearM3L(**settings)
                    train_on_parts(local, LocalFleet([Block(X[part], Y[part]) for part in parts]))
                rows.append(
                    {
                        "set": name,
                        "layout": str(layout),
                        "rounds or passes": model.n_iter_,
                        "in one process": local.n_iter_,
                        "simulated": SIMULATED.get(name, {}).get(layout[0], ""),
                        "relative gap": model.certificate_.relative_gap,
                        "wall seconds": wall,
                        "ordinary fit, wall seconds": seconds,
                        "MB through the driver a round": 12e-6 * (X.shape[1] + 1) * Y.shape[1]
                        if layout[0] > 1
                        else 0.0,
                        "counted, certificates included": sum(fleet.bytes for fleet in fleets) * 1e-6 / model.n_iter_,
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    save(f"scale-out-cluster{options.name}", rows, ["multimargin", "dask", "distributed", "numpy", "scipy"])


def model(options):
    """Print seconds of a fit: rounds times (visits + network + latency).

    Assumptions: 80 entries a row; 0.25 ns per entry, label and thread for a pass while the state is in the caches, 1 ns
    beyond (100,000 features and a million); evaluation 0.6 of a pass; shrinking left out; 16 cores a machine, of which
    a label block uses one per 8 labels; a line of 1.25 GB/s, or the 0.4 GB/s seen through one Python process; 15 ms of
    latency; 30 K^0.22 rounds for K row parts (text, C = 1, gap 1e-3, measured for K <= 32 and 200,000 rows), 13 passes
    for one. Rows and labels as below; loading and the last certificate are not counted.

    Network and minutes are given twice. "Meeting" is what the code does: for each label block, the state, 4 bytes per
    feature and label, goes from one worker to the other cells of the block, and the changes of its row parts meet
    there, 4 bytes each, blocks side by side; the driver exchanges 12 bytes per feature and label with the cluster, all
    labels on its own line; one after the other (workers that take the state from each other make it less). The worker
    of a block holds 8 bytes per feature, label and row part while it adds up a certificate, and 16 of its sum and the
    weights, all features in every part. "Shards" is what state and sums divided among all workers, without a driver,
    would take, 8 bytes per feature and label of a cell and machine; it is not written.
    """
    n, labels, entries, cores, latency = 100e6, 1000, 80, 16, 0.015
    rows = []
    for features, per_entry in ((1e5, 0.25e-9), (1e6, 1e-9)):
        for K_r, K_l in ((2, 32), (8, 8), (64, 1)):
            each = labels / K_l
            busy = min(cores, max(each / 8, 1))
            fast = per_entry if features * each * 4 > 3e7 else 0.25e-9
            compute = n / K_r * entries * each * 1.6 * fast / busy
            rounds = 30 * K_r**0.22
            ways = {
                "meeting": 12 * features * labels + 4 * features * each * (2 * K_r - 1),
                "shards": 8 * features * each,
            }
            cell = n / K_r * (8 * entries + 8 * each) + 12 * features * each
            row = {
                "features": int(features),
                "row parts x label blocks": f"{K_r} x {K_l}",
                "GB a machine": cell / 1e9,
                "GB more where changes meet": 8 * features * each * (K_r + 2) / 1e9,
                "rounds": rounds,
                "visits a round, s": compute,
            }
            for way, moved in ways.items():
                network = [moved / line for line in (1.25e9, 0.4e9)]
                total = [rounds * (compute + wire + 2 * latency * np.log2(K_r)) for wire in network]
                row[f"GB a round one after the other, {way}"] = moved / 1e9
                row[f"network a round, s, {way}"] = " / ".join(f"{wire:.2f}" for wire in network)
                row[f"minutes, {way}"] = " / ".join(f"{seconds / 60:.1f}" for seconds in total)
            rows.append(row)
            print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rounds", "files", "train", "cluster", "model"])
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
    parser.add_argument("--seconds", type=float, help="time limit of training from files, reading included")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    {"rounds": rounds, "files": files, "train": train, "cluster": cluster, "model": model}[options.what](options)


if __name__ == "__main__":
    main()
