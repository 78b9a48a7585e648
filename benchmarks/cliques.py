"""Inference in label cliques: how many maximisations a second.

Inference. Random graphs over K labels, in the form h_i y_i + J_ij y_i y_j with h ~ N(0, 1), J ~ N(0, 4), four graphs
of each shape and fresh scores for every call. Elimination (exact) against MPLP (a bracket; ``certified`` if it
closes, ``right`` if its labelling is a maximiser all the same) and against enumeration of all labellings by a fast
Walsh-Hadamard transform. One thread, CPU time of batch calls, checks of the input included; medians over rounds in
which the contestants take turns.
Wide. Graphs beyond the treewidth limit of 12: roof duality and branch and bound with at most 1000 nodes. Some with
theta_i ~ N(0, 1), theta_ij ~ N(0, 0.49) instead, where no linear bound is good (spin glasses).

    python benchmarks/cliques.py --part inference wide
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations

import numpy as np
from _common import interleaved, save

from multimargin import _core

SHAPES = [(6, 15), (10, 9), (10, 15), (10, 25), (14, 91), (20, 18), (20, 30), (20, 50), (40, 37), (40, 60), (40, 100)]
WIDE = [(20, 190), (60, 150), (60, 240), (101, 250), (101, 400), (60, 240, 0.7), (101, 400, 0.7)]
GRAPHS = 4
LARGEST_ENUMERATION = 20


def random_pairs(rng, n_labels, n_pairs):
    """Pairs at random; a forest where there are fewer than labels."""
    if n_pairs < n_labels:
        tree = [(int(rng.integers(k)), k) for k in range(1, n_labels)]
        return [tree[i] for i in rng.permutation(n_labels - 1)[:n_pairs]]
    every = list(combinations(range(n_labels), 2))
    return [every[i] for i in rng.choice(len(every), n_pairs, replace=False)]


def compile_pairs(n_labels, pairs, method):
    starts = np.concatenate([np.arange(n_labels), n_labels + 2 * np.arange(len(pairs) + 1)]).astype(np.int64)
    members = np.concatenate([np.arange(n_labels), np.ravel(pairs)]).astype(np.int32)
    return _core.CliqueInference(_core.LabelSubsets(n_labels, starts, members), method=method)


def random_scores(rng, n_labels, pairs, rows):
    """Scores theta_T of h_i y_i + J_ij y_i y_j, up to a constant."""
    h, J = rng.normal(size=(rows, n_labels)), 2 * rng.normal(size=(rows, len(pairs)))
    single = h / 2
    for e, (a, b) in enumerate(pairs):
        single[:, a] += J[:, e] / 4
        single[:, b] += J[:, e] / 4
    return np.hstack([single, J / 4])


def seconds_per_row(inference, scores):
    start = time.process_time()
    inference.maximize(scores, 1)
    return (time.process_time() - start) / len(scores)


def contest(rng, repeats, n_labels, n_pairs):
    """Medians of each method over four graphs, and the rates of MPLP."""
    methods = ["elimination", "mplp"] + ["exhaustive"] * (n_labels <= LARGEST_ENUMERATION)
    graphs = [random_pairs(rng, n_labels, n_pairs) for _ in range(GRAPHS)]
    compiled = {name: [compile_pairs(n_labels, pairs, name) for pairs in graphs] for name in methods}
    width = [inference.treewidth for inference in compiled["elimination"]]
    rows = {
        "elimination": 20_000 if max(width) <= 8 else 500,
        "mplp": 1000,
        "exhaustive": 1000 if n_labels <= 14 else 5,
    }
    scores = [random_scores(rng, n_labels, pairs, max(rows.values())) for pairs in graphs]

    def run(name):
        return lambda: np.mean(
            [seconds_per_row(g, s[: rows[name]]) for g, s in zip(compiled[name], scores, strict=True)]
        )

    times = interleaved({name: run(name) for name in methods}, repeats)
    certified, right = [], []
    for k in range(GRAPHS):
        s = scores[k][:1000]
        best, found = (compiled[name][k].maximize(s, 1) for name in ("elimination", "mplp"))
        certified.append(found.exact)
        right.append(found.value >= best.value - 1e-9)
    us = {name: 1e6 * t for name, t in times.items()}
    return {
        "labels": n_labels,
        "pairs": n_pairs,
        "treewidth": f"{min(width)}-{max(width)}" if min(width) < max(width) else str(width[0]),
        "elimination, us": us["elimination"],
        "calls/s": f"{1 / times['elimination']:,.0f}".replace(",", " "),
        "MPLP, us": us["mplp"],
        "certified": f"{100 * np.mean(certified):.1f} %",
        "right": f"{100 * np.mean(right):.1f} %",
        "enumeration, us": us.get("exhaustive", "-"),
        "MPLP / elimination": us["mplp"] / us["elimination"],
    }


def contest_wide(rng, repeats, n_labels, n_pairs, coupling=None):
    pairs = random_pairs(rng, n_labels, n_pairs)
    compiled = {name: compile_pairs(n_labels, pairs, name) for name in ("auto", "mplp")}
    scores = random_scores(rng, n_labels, pairs, 50)
    if coupling is not None:
        scores = rng.normal(size=scores.shape)
        scores[:, n_labels:] *= coupling
    times = interleaved({n: lambda g=g: seconds_per_row(g, scores) for n, g in compiled.items()}, repeats)
    row = {"labels": n_labels, "pairs": n_pairs, "scores": "h, J" if coupling is None else "spin glass"}
    row["width (min-degree)"] = compiled["auto"].treewidth
    for name, title in [("auto", "branch and bound"), ("mplp", "MPLP")]:
        found = compiled[name].maximize(scores, 1)
        row[f"{title}, ms"] = 1e3 * times[name]
        row[f"{title}: proved"] = f"{100 * np.mean(found.exact):.0f} %"
        row[f"{title}: mean gap"] = float(np.mean((found.bound - found.value) / np.abs(found.bound)))
    return row


PARTS = {"inference": (SHAPES, contest), "wide": (WIDE, contest_wide)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for part in options.part:
        shapes, measure = PARTS[part]
        rng = np.random.default_rng(0)
        table = [measure(rng, options.repeats, *shape) for shape in shapes]
        save(f"cliques_{part}", table, ["multimargin", "numpy"])
