"""Choosing C: CPath beside GridSearchCV over the same values of C and the same folds.

GridSearchCV trains folds x values + 1 models and judges each by micro-F1 of its own predictions; CPath trains as many
at most (by default it ends after three values of C that are worse than the best), tunes the decision for micro-F1 as
well, judges it nested, and fits probabilities. One thread, float64 features (dense columns of variance 1 divided by the
root of their number, sparse rows of length 1), 9 values of C from 0.01 to 100, five folds, tol 1e-3 on both sides. CPU
seconds, medians of interleaved runs.

    MULTIMARGIN_DATA=... python benchmarks/c_path.py [--repeats 3] [name of a data set]...
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from _common import cpu_clock, interleaved, save
from decisions import load, scaled
from sklearn.model_selection import GridSearchCV

from multimargin import CPath, KernelM3L, LinearM3L, metrics
from multimargin.model_selection import MultilabelStratifiedKFold

SETS = ("emotions", "yeast", "scene", "medical", "enron", "bibtex", "tmc2007")
KERNEL_SETS = ("emotions", "yeast", "scene", "medical", "enron")
CS = np.logspace(-2, 2, 9)
ROWS = 5000


def contest(name, estimator, repeats):
    X, Y = load(name)
    X, Y = scaled(X, np.arange(X.shape[0]))[:ROWS], Y[:ROWS].toarray().astype(np.int64)
    folds = list(MultilabelStratifiedKFold(5, random_state=0).split(None, Y))
    found = {}

    def grid():
        search = GridSearchCV(estimator, {"C": CS}, scoring=metrics.scorer("micro_f1"), cv=folds)
        seconds, found["grid"] = cpu_clock(lambda: search.fit(X, Y))
        return seconds

    def path(patience):
        model = CPath(estimator, Cs=CS, scoring="micro-f1", cv=folds, patience=patience)
        seconds, found["path"] = cpu_clock(lambda: model.fit(X, Y))
        return seconds

    seconds = interleaved({"grid": grid, "whole": lambda: path(None), "path": lambda: path(3)}, repeats)
    return {
        "set": name,
        "model": type(estimator).__name__,
        "rows x labels": f"{Y.shape[0]} x {Y.shape[1]}",
        "GridSearchCV, s": seconds["grid"],
        "CPath, all values, s": seconds["whole"],
        "CPath, s": seconds["path"],
        "ratio, all values": seconds["grid"] / seconds["whole"],
        "ratio": seconds["grid"] / seconds["path"],
        "its best micro-F1": float(found["grid"].best_score_),
        "nested micro-F1 of CPath": float(found["path"].nested_score_),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.sets:
        rows.append(contest(name, LinearM3L(random_state=0), options.repeats))
        if name in KERNEL_SETS:
            rows.append(contest(name, KernelM3L(random_state=0), options.repeats))
        print(rows[-1], flush=True)
    save("c_path", rows, ["scikit-learn", "numpy", "multimargin"])


if __name__ == "__main__":
    main()
