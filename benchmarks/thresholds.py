"""Time to find the best thresholds of a score matrix, on one thread, as ratios to sorting every column in NumPy.

The rival sorts each column, takes cumulative sums of the labels and the largest F: what a loop over scikit-learn's
precision_recall_curve does, without its overhead. Both find the same thresholds; the run checks that.

    python benchmarks/thresholds.py [labels]...
"""

from __future__ import annotations

import sys

import numpy as np
import scipy.sparse as sp
from _common import cpu_clock, interleaved, save

from multimargin.decisions import tune_thresholds
from multimargin.decisions.calibration import calibrate

ROWS = 100_000


def problem(n_labels):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(ROWS, n_labels))
    cutoffs = rng.uniform(1.5, 4.0, size=n_labels)
    columns = [sp.csr_array((scores[:, [j]] + rng.normal(size=(ROWS, 1))) > cutoffs[j]) for j in range(n_labels)]
    return scores, sp.csr_array(sp.hstack(columns))


def full_sort(scores, Y):
    """Best F1 of every label, by a full sort of its column."""
    best = np.empty(scores.shape[1])
    columns = sp.csc_array(Y)
    for label in range(scores.shape[1]):
        truth = np.zeros(len(scores), dtype=bool)
        truth[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]] = True
        order = np.argsort(-scores[:, label])
        hits = np.cumsum(truth[order])
        best[label] = np.max(2 * hits / (truth.sum() + np.arange(1, len(scores) + 1)))
    return best


def main(sizes):
    rows = []
    for n_labels in sizes:
        scores, Y = problem(n_labels)
        works = {
            "full sort in NumPy": lambda s=scores, y=Y: full_sort(s, y),
            "macro-f1, best per label": lambda s=scores, y=Y: tune_thresholds(s, y, shrinkage=0),
            "macro-f1": lambda s=scores, y=Y: tune_thresholds(s, y),
            "micro-f1, best per label": lambda s=scores, y=Y: tune_thresholds(s, y, "micro-f1", rule="per-label"),
            "calibration": lambda s=scores, y=Y: calibrate(s, y),
        }
        if n_labels <= 100:
            works["micro-f1"] = lambda s=scores, y=Y: tune_thresholds(s, y, "micro-f1")
            works["example-f1, offset"] = lambda s=scores, y=Y: tune_thresholds(s, y, "example-f1", rule="offset")
            works["example-f1"] = lambda s=scores, y=Y: tune_thresholds(s, y, "example-f1")
        found = tune_thresholds(scores, Y, shrinkage=0)
        assert abs(found.score - full_sort(scores, Y).mean()) < 1e-12
        seconds = interleaved(
            {name: lambda w=work: cpu_clock(w)[0] for name, work in works.items()}, 1 + 2 * (n_labels < 500)
        )
        base = seconds["full sort in NumPy"]
        for name, value in seconds.items():
            rows.append({"labels": n_labels, "what": name, "seconds": value, "full sort / this": base / value})
    save("thresholds", rows, ["multimargin", "numpy", "scipy", "scikit-learn"])


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [100, 1000])
