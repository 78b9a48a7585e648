"""Training of label cliques: pairwise Frank-Wolfe against plain Frank-Wolfe; scoring of cliques.

Training. A fixed graph, C = 1 / (lambda n). Synthetic: 2000 rows, 10 features, 10 labels, the four true edges. Scene:
the first of five folds (seed 1), standardised features over the square root of their number, all 15 edges. Norms:
"sum" is the plain sum of squares, "budget 1" the squared sum of the norms of the cliques, which is the paper's problem
(10) with one clique in each group. CPU seconds and passes over the data until the duality gap is at most ``--tol`` of
the objective, one thread, or ``--passes`` passes; objectives with the mean loss and lambda, as in the paper.
Scoring. All pairs of 20 labels, 10,000 rows, 4096 features, float32, against one matrix product of that shape, on one
thread; CPU seconds, medians over rounds in which the contestants take turns.
Sizes. All rows of mediamill (standardised features over the square root of their number), and EUR-Lex with its 100 most
frequent labels (5,000 sparse features, unit rows): without edges, with the Chow-Liu tree, and with a learned graph of
at most 100 pairs (budget 4, test of significance), lambda = 1e-3, two threads. Seconds and CPU seconds of one run each,
and the largest memory of the process so far, data included.

    MULTIMARGIN_DATA=... python benchmarks/clique_training.py --part training scoring
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from _common import clock, interleaved, memory, save
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler, normalize

from multimargin import CliqueClassifier, _core, datasets
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.allowance import Allowance
from multimargin.estimators.cliques.certifier import CliqueCertifier, CliqueModel
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.frank_wolfe import FrankWolfe
from multimargin.estimators.cliques.graph import CliqueGraph
from multimargin.estimators.cliques.scores import AtomResiduals, clique_scores
from multimargin.estimators.monitor import Monitor

LAMBDAS = (1e-2, 1e-3, 1e-4)


def synthetic():
    data = datasets.make_clique_labels(2000, random_state=0)
    return data.X, data.Y.astype(int), data.cliques


def scene():
    data = datasets.load("scene")
    X = np.vstack([np.asarray(data.X_train), np.asarray(data.X_test)])
    Y = np.vstack([y.toarray() if hasattr(y, "toarray") else np.asarray(y) for y in (data.Y_train, data.Y_test)])
    train, _ = next(KFold(5, shuffle=True, random_state=1).split(X))
    X = StandardScaler().fit_transform(X[train])
    return X / np.sqrt(X.shape[1]), Y[train].astype(int), list(combinations(range(Y.shape[1]), 2))


class PlainFrankWolfe(FrankWolfe):
    """One step towards the answer of the oracle."""

    def native(self, **arguments):
        """Make plain visits."""
        return _core.testing.fit_cliques_plainly(**arguments)


@dataclass(frozen=True)
class Run:
    """How a solver fared."""

    passes: int
    seconds: float
    bounds: Bounds


def problem_of(X, Y, C):
    return CliqueClassifier(C, n_jobs=1, random_state=0)._problem(X, Y, None)


def train(Solver, X, Y, cliques, lam, budget, options):
    """Start from equal shares within the budget, and let the certifier speak at the end."""
    data = CliqueData(problem_of(X, Y, 1.0 / (lam * len(X))), bias=1.0)
    budget = budget or len(cliques)
    eta = np.full(len(cliques), min(1.0, budget / len(cliques)))
    monitor = Monitor(None, 0, Solver.__name__)
    work = Allowance.of(data.problem, monitor, options.passes, None)
    start = time.process_time()
    found = Solver(data, budget).solve(CliqueGraph(Y.shape[1], tuple(cliques)), eta, None, options.tol, work)
    bounds = CliqueCertifier(data, budget).bounds(CliqueModel.of(found, data.bias), found.atoms)
    return Run(work.passes, time.process_time() - start, bounds)


def training(options):
    rows = []
    for name, load in (("synthetic", synthetic), ("scene", scene)):
        if name not in options.sets:
            continue
        X, Y, cliques = load()
        for lam, budget in product(LAMBDAS, (None, 1)):
            row = {"data": name, "lambda": f"{lam:g}", "norm": "budget 1" if budget else "sum"}
            for title, Solver in (("pairwise", FrankWolfe), ("plain", PlainFrankWolfe)):
                run = train(Solver, X, Y, cliques, lam, budget, options)
                bounds = run.bounds
                row[f"{title}: passes"] = run.passes
                row[f"{title}: CPU s"] = run.seconds
                row[f"{title}: objective"] = f"{lam * bounds.primal:.4f}"
                row[f"{title}: gap"] = f"{100 * (1 - bounds.dual / bounds.primal):.2f} %"
            rows.append(row)
            print(rows[-1], flush=True)
    return rows


def scoring(options):
    n, D, K = 10_000, 4096, 20
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D), dtype=np.float32)
    Y = rng.random((n, K)) < 0.1
    atoms = _core.Atoms(
        np.repeat(np.arange(n), 3), np.full(3 * n, 0.2), rng.integers(2**K, size=(3 * n, 1)).astype(np.uint64)
    )
    data = CliqueData(problem_of(X, Y, 1.0 / n), bias=1.0)
    residuals = AtomResiduals(atoms, data, np.float32)
    pairs = list(combinations(range(K), 2))
    subsets = [*((k,) for k in range(K)), *pairs]
    R = residuals.panel(subsets)

    def seconds(work):
        start = time.process_time()
        work()
        return time.process_time() - start

    times = interleaved(
        {
            "product": lambda: seconds(lambda: R.T @ X),
            "residuals": lambda: seconds(lambda: residuals.panel(subsets)),
            "scores": lambda: seconds(lambda: clique_scores(data, residuals, pairs)),
        },
        options.repeats,
    )
    return [
        {
            "one matrix product, CPU s": times["product"],
            "residuals, CPU s": times["residuals"],
            "scores of all pairs, CPU s": times["scores"],
            "ratio": times["scores"] / times["product"],
        }
    ]


def mediamill():
    data = datasets.load("mediamill")
    X = StandardScaler().fit_transform(np.asarray(data.X_train, dtype=np.float64))
    return X / np.sqrt(X.shape[1]), data.Y_train


def eurlex():
    data = datasets.load("eurlex-4k")
    frequent = np.argsort(-np.asarray(data.Y_train.sum(axis=0)).ravel(), kind="stable")[:100]
    return normalize(data.X_train), data.Y_train[:, frequent]


def sizes(options):
    rows = []
    graphs = {None: {}, "chow-liu": {}, "learned": {"budget": 4, "max_cliques": 100}}
    for name, load in (("mediamill", mediamill), ("eurlex-4k", eurlex)):
        X, Y = load()
        for graph, settings in graphs.items():
            model = CliqueClassifier(1e3 / X.shape[0], graph=graph, tol=0.01, n_jobs=2, random_state=0, **settings)
            before = time.process_time()
            seconds, _ = clock(lambda model=model, X=X, Y=Y: model.fit(X, Y))
            rows.append(
                {
                    "set": name,
                    "rows x features x labels": f"{X.shape[0]} x {X.shape[1]} x {Y.shape[1]}",
                    "graph": graph or "none",
                    "cliques": len(model.cliques_),
                    "s": seconds,
                    "CPU s": time.process_time() - before,
                    "passes": model.n_iter_,
                    "gap": model.certificate_.relative_gap,
                    "global gap": model.certificate_.global_relative_gap,
                    "oracle exact": model.certificate_.oracle_exact,
                    "peak memory, MB": memory("VmHWM") / 1e6,
                }
            )
            print(rows[-1], flush=True)
    return rows


PARTS = {"training": training, "scoring": scoring, "sizes": sizes}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=["training", "scoring"])
    parser.add_argument("--sets", nargs="+", choices=["synthetic", "scene"], default=["synthetic", "scene"])
    parser.add_argument("--tol", type=float, default=0.01)
    parser.add_argument("--passes", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for part in options.part:
        save(f"clique_{part}", PARTS[part](options), ["multimargin", "numpy"])
