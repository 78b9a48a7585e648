"""Training of label cliques: pairwise Frank-Wolfe against plain Frank-Wolfe and the printed SPDCA; scoring of cliques.

Training. A fixed graph, C = 1 / (lambda n). Synthetic: 2000 rows, 10 features, 10 labels, the four true edges. Scene:
the first of five folds (seed 1), standardised features over the square root of their number, all 15 edges. Norms:
"sum" is the plain sum of squares, "budget 1" the squared sum of the norms of the cliques, which is the paper's problem
(10) with one clique in each group. CPU seconds and passes over the data until the duality gap is at most ``--tol`` of
the objective, one thread, or ``--passes`` passes; objectives with the mean loss and lambda, as in the paper.
SPDCA. Algorithm 2 of the paper as printed, softened where it cannot run: the norm of the difference of features
instead of that of the features, the truth allowed as an answer of the oracle, no step unless the loss is positive.
theta = 2 at first, nu = 1e-3, the better of sigma = lambda and sigma = 5e-4 lambda. "accumulated" keeps the argument of
the conjugate apart from the weights, as the theory asks. There is no certificate: the objective (10), without the
smoothing, after as many passes as ours needed, but at most ``--spdca-passes``.
Scoring. All pairs of 20 labels, 10,000 rows, 4096 features, float32, against one matrix product of that shape, on one
thread; CPU seconds, medians over rounds in which the contestants take turns.
Sizes. All rows of mediamill (standardised features over the square root of their number), and EUR-Lex with its 100 most
frequent labels (5,000 sparse features, unit rows): without edges, with the Chow-Liu tree, and with a learned graph of
at most 100 pairs (budget 4, test of significance), lambda = 1e-3, two threads. Seconds of one run each, and the largest
memory of the process so far, data included.

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
from multimargin.estimators import History
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.allowance import Allowance
from multimargin.estimators.cliques.certifier import CliqueCertifier, CliqueModel
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.frank_wolfe import FrankWolfe
from multimargin.estimators.cliques.graph import CliqueGraph
from multimargin.estimators.cliques.scores import AtomResiduals, clique_scores
from multimargin.estimators.monitor import Monitor

LAMBDAS = (1e-2, 1e-3, 1e-4)
SMOOTHING = (1.0, 5e-4)  # sigma / lambda
DIVERGED = 1e9


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
    history: History


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
    return Run(work.passes, time.process_time() - start, bounds, monitor.history())


class Spdca:
    """Algorithm 2. Indicators are rotated to characters, which leaves all norms as they are."""

    def __init__(self, X, Y, cliques, lam, smoothing, accumulated):
        self.psi = np.column_stack([X, np.ones(len(X))])
        self.lam, self.smoothing, self.accumulated = lam, smoothing, accumulated
        K = Y.shape[1]
        self.every = np.array(list(product([-1.0, 1.0], repeat=K)))
        self.signs = 2.0 * Y - 1.0
        parts = [[(a,), (b,), (a, b)] for a, b in cliques]

        def features(y):
            pairs = [np.prod(y[:, list(t)], axis=1) / 2.0 for clique in parts for t in clique]
            return np.column_stack([y / np.sqrt(2.0), *pairs])

        self.phi, self.truth = features(self.every), features(self.signs)
        self.K, self.groups = K, len(cliques)
        self.w = np.zeros((self.phi.shape[1], self.psi.shape[1]))
        self.z = self.w.copy()
        self.theta = 2.0
        self.norms = np.einsum("ij,ij->i", self.psi, self.psi)

    def losses(self, i):
        """Augmented score of every labelling less that of the truth."""
        scores = self.w @ self.psi[i]
        delta = 0.5 * (self.K - self.every @ self.signs[i])
        return delta + self.phi @ scores - self.truth[i] @ scores

    def objective(self):
        """Objective (10) of the present weights."""
        hinge = np.mean([self.losses(i).max() for i in range(len(self.psi))])
        return self.regulariser() + hinge

    def regulariser(self):
        """Squared norms of the nodes, squared sum of those of the groups."""
        blocks = self.w[self.K :].reshape(self.groups, -1)
        return 0.5 * self.lam * (np.sum(self.w[: self.K] ** 2) + np.linalg.norm(blocks, axis=1).sum() ** 2)

    def proximal(self, z):
        """Algorithm 3."""
        s = 1.0 / self.smoothing
        w = z.copy()
        blocks = s * z[self.K :].reshape(self.groups, -1)
        size = np.linalg.norm(blocks, axis=1)
        ordered = np.sort(size)[::-1]
        level = s * np.cumsum(ordered) / (1.0 + s * np.arange(1, self.groups + 1))
        above = np.flatnonzero(ordered > level)
        cut = level[above[-1]] if len(above) else 0.0
        shrunk = blocks * (np.maximum(size - cut, 0.0) / np.maximum(size, 1e-300))[:, None]
        w[self.K :] = shrunk.reshape(-1, z.shape[1])
        return w

    def run(self, passes, rng):
        """Objective after so many passes."""
        n, last = len(self.psi), np.inf
        for h in range(1, passes + 1):
            total = 0.0
            for i in rng.integers(n, size=n):
                losses = self.losses(i)
                best = int(losses.argmax())
                if not losses[best] < DIVERGED:
                    return np.inf
                if losses[best] <= 1e-12:
                    continue
                total += losses[best]
                d = self.truth[i] - self.phi[best]
                step = losses[best] / (self.theta * (d @ d * self.norms[i] / (self.lam * n) + 1e-3))
                if self.accumulated:
                    self.z += (min(step, 1.0) / (self.lam * n)) * np.outer(d, self.psi[i])
                    self.w = self.proximal(self.z)
                else:
                    self.w = self.proximal(self.w + step * np.outer(d, self.psi[i]))
            f = total / n + self.regulariser()
            if h > 2 and f > last:
                self.theta *= 2.0
            last = f
        return self.objective()


def training(options):
    rows = []
    for name, load in (("synthetic", synthetic), ("scene", scene)):
        if name not in options.sets:
            continue
        X, Y, cliques = load()
        for lam, budget in product(LAMBDAS, (None, 1)):
            row = {"data": name, "lambda": f"{lam:g}", "norm": "budget 1" if budget else "sum"}
            ours = None
            for title, Solver in (("pairwise", FrankWolfe), ("plain", PlainFrankWolfe)):
                run = train(Solver, X, Y, cliques, lam, budget, options)
                bounds = run.bounds
                row[f"{title}: passes"] = run.passes
                row[f"{title}: CPU s"] = run.seconds
                row[f"{title}: objective"] = f"{lam * bounds.primal:.4f}"
                row[f"{title}: gap"] = f"{100 * (1 - bounds.dual / bounds.primal):.2f} %"
                ours = ours or run
            rows.append({**row, **(against_spdca(X, Y, cliques, lam, ours, options) if budget else NO_SPDCA)})
            print(rows[-1], flush=True)
    return rows


NO_SPDCA = dict.fromkeys(["SPDCA passes", "pairwise then", "SPDCA printed", "SPDCA accumulated"], "-")


def against_spdca(X, Y, cliques, lam, ours, options):
    """Objectives after the same number of passes."""
    passes = min(ours.passes, options.spdca_passes)
    history = ours.history
    then = lam * min(history.primal[history.pass_ <= passes], default=np.inf)
    cells = {"SPDCA passes": passes, "pairwise then": f"{then:.4f}"}
    for title, accumulated in (("SPDCA printed", False), ("SPDCA accumulated", True)):
        runs = [Spdca(X, Y, cliques, lam, s, accumulated).run(passes, np.random.default_rng(0)) for s in SMOOTHING]
        cells[title] = f"{min(runs):.4f}" if min(runs) < np.inf else "diverges"
    return cells


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
            seconds, _ = clock(lambda model=model, X=X, Y=Y: model.fit(X, Y))
            rows.append(
                {
                    "set": name,
                    "rows x features x labels": f"{X.shape[0]} x {X.shape[1]} x {Y.shape[1]}",
                    "graph": graph or "none",
                    "cliques": len(model.cliques_),
                    "s": seconds,
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
    parser.add_argument("--spdca-passes", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for part in options.part:
        save(f"clique_{part}", PARTS[part](options), ["multimargin", "numpy"])
