"""How every family grows with rows, features, labels and threads: seconds of complete fits, as a table and a picture.

Generated dense unit rows whose labels follow shared directions (``output_kernels.make_data``). From a common size one
number is varied at a time; threads on a larger one, where there is something to divide. C = 1, relative gap 1e-2,
float64; the least of ``--repeats`` runs, more of short ones. The exponent is the slope of log seconds against log size:
1 is proportional.

    python benchmarks/scaling.py [--repeats 2] [--picture FILE]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _common import RESULTS, clock, save
from output_kernels import make_data
from sklearn.exceptions import ConvergenceWarning

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    KernelM3L,
    LinearM3L,
    OutputKernelClassifier,
    SubmodularClassifier,
)
from multimargin.errors import DecisionWarning

BASE = {"rows": 1000, "features": 100, "labels": 12}
FOR_THREADS = {"rows": 8000, "features": 200, "labels": 48}
SIZES = {
    "rows": (500, 1000, 2000, 4000),
    "features": (50, 100, 200, 400),
    "labels": (6, 12, 24, 48),
}
MODELS: dict[str, Callable[..., Any]] = {
    "LinearM3L": LinearM3L,
    "LinearM3L, prior": partial(LinearM3L, prior="labels"),
    "KernelM3L": KernelM3L,
    "SubmodularClassifier": SubmodularClassifier,
    "CliqueClassifier, tree": partial(CliqueClassifier, graph="chow-liu"),
    "CalibratedSeparation": CalibratedSeparationClassifier,
    "OutputKernel": OutputKernelClassifier,
}
LONG_ENOUGH = 0.3
"""Seconds of fits of a size, so that short ones do not count the memory that the first of them is given."""
PATIENCE = 4.0
"""Seconds of a fit after which no larger size is tried; after twice as many a fit is stopped."""


def fit_seconds(make: Callable[..., Any], size: dict[str, int], threads: int, repeats: int) -> float:
    X, Y = make_data(size["rows"], size["labels"], size["features"])
    model = make(C=1.0, tol=1e-2, n_jobs=threads, time_limit=2 * PATIENCE, random_state=0)
    spent: list[float] = []
    while len(spent) < repeats or sum(spent) < LONG_ENOUGH:
        spent.append(clock(partial(model.fit, X, Y))[0])
    return min(spent)


def measured(repeats: int, threads: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    for name, make in MODELS.items():
        for axis, sizes in {**SIZES, "threads": threads}.items():
            for value in sizes:
                size = FOR_THREADS if axis == "threads" else {**BASE, axis: value}
                spent = fit_seconds(make, size, value if axis == "threads" else 1, repeats)
                rows.append({"model": name, "axis": axis, "value": value, "seconds": spent})
                if spent > PATIENCE:
                    break
        print(name, flush=True)
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each model: the exponent of each size, and what the last thread gains."""
    lines = []
    for name in MODELS:
        line: dict[str, Any] = {"model": name}
        for axis in (*SIZES, "threads"):
            points = [(row["value"], row["seconds"]) for row in rows if (row["model"], row["axis"]) == (name, axis)]
            values, spent = np.array(points).T
            if axis == "threads":
                line["gain of all threads"] = f"{spent[0] / spent[-1]:.2f} ({values[-1]:.0f})"
            else:
                line[f"s (most {axis})"] = f"{spent[-1]:.2g} ({values[-1]:.0f})"
                slope = np.polyfit(np.log(values), np.log(spent), 1)[0] if len(values) > 1 else None
                line[f"exponent of {axis}"] = "" if slope is None else f"{slope:.2f}"
        lines.append(line)
    return lines


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib.pyplot as plt

    axes_names = (*SIZES, "threads")
    figure, axes = plt.subplots(1, len(axes_names), figsize=(15, 4.2), sharey=True, layout="constrained")
    for ax, axis in zip(axes, axes_names, strict=True):
        for k, name in enumerate(MODELS):
            points = [(row["value"], row["seconds"]) for row in rows if (row["model"], row["axis"]) == (name, axis)]
            ax.plot(*np.array(points).T, marker="osD^v<>"[k], markersize=4, label=name)
        ax.set(xscale="log", yscale="log", xlabel=axis)
        ax.set_xticks(sorted({row["value"] for row in rows if row["axis"] == axis}))
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("seconds of a fit")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(MODELS), frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=90)
    print(f"written to {path.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--picture", type=Path, default=RESULTS / "scaling.png")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", DecisionWarning)
    start = time.perf_counter()
    rows = measured(options.repeats, tuple(range(1, min(4, os.cpu_count() or 1) + 1)))
    save("scaling", rows, ["multimargin", "numpy"])
    print()
    save("scaling-summary", summary(rows), ["multimargin", "numpy"])
    draw(rows, options.picture)
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
