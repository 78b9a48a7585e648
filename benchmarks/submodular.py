"""The exact F-score oracle against the published one on PyMaxflow, and training against the bundle method.

Oracle. Scores and attractions of trained models, near the optimum where calls are hardest (yeast, enron, corel5k), and
random sparse label graphs. Ours is exact; the peer is the published Algorithm 2 as printed: up to V + 1 graphs built
and cut with PyMaxflow, from Python. Times are CPU time, medians over interleaved rounds on the same rows.
Training. A complete ``fit`` to a certified relative gap of 1e-3, ours by block dual ascent and by the bundle method.
Scale. Hundreds of labels with 5 % of their pairs, to a certified relative gap of 1e-2.

    MULTIMARGIN_DATA=... python benchmarks/submodular.py [oracle] [training] [scale]
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from multimargin import SubmodularClassifier, _core, datasets

SETTINGS = {  # name: share of pairs, scale of pairs, lambda of the mean loss
    "yeast": (0.5, 1.0, (1e-2, 1e-3)),
    "enron": (0.05, 10.0, (1.0, 0.1)),
    "corel5k": (0.05, 10.0, (0.1,)),
    "delicious": (0.05, 10.0, (0.1,)),
}


def table(title, rows):
    print(f"\n{title}\n")
    names = list(rows[0])
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in rows:
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
        print("| " + " | ".join(cells) + " |", flush=True)


def clock(work):
    """CPU seconds of this process: everything here runs on one thread, and machines are shared."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def training_rows(name):
    data = datasets.load(name)
    keep = np.asarray(data.Y_train.sum(axis=0)).ravel() > 0
    return data.X_train, sp.csr_array(data.Y_train)[:, np.flatnonzero(keep)]


def model_for(name, lam, n, **more):
    share, scale, _ = SETTINGS[name]
    return SubmodularClassifier(C=1 / (lam * n), pairs=share, pair_scale=scale, random_state=0, **more)


def trained_instances(name, lam, tol, n_rows):
    """Scores, pairs, attractions and truth of the first rows at a trained model."""
    X, Y = training_rows(name)
    model = model_for(name, lam, Y.shape[0], tol=tol).fit(X, Y)
    u = np.ascontiguousarray((X @ model.coef_.T + model.intercept_)[:n_rows])
    return u, model.pairs_, model.pair_coef_, Y[:n_rows].toarray().astype(np.uint8)


def random_instances(n_labels, n_pairs, n_rows):
    """Random scores around the margin on a random sparse graph of attraction."""
    rng = np.random.default_rng(n_labels)
    every = np.column_stack(np.triu_indices(n_labels, 1)).astype(np.int32)
    pairs = np.ascontiguousarray(every[rng.choice(len(every), n_pairs, replace=False)])
    truth = (rng.random((n_rows, n_labels)) < 4 / n_labels).astype(np.uint8)
    u = np.where(truth == 1, 0.1, -0.15) + 0.1 * rng.normal(size=truth.shape)
    return np.ascontiguousarray(u), pairs, 0.1 * rng.random(n_pairs), truth


def published_oracle(u, pairs, w, truth):
    """Algorithm 2 of Petterson and Caetano for one row, every cut built from scratch by PyMaxflow."""
    import maxflow

    n_labels, m = len(u), int(truth.sum())
    degree = np.bincount(pairs[:, 0], w, n_labels) + np.bincount(pairs[:, 1], w, n_labels)
    best, k = np.zeros(n_labels, dtype=np.uint8), 0
    while k <= n_labels:
        supply = u - (2 * truth / (k + m) if k + m else 0.0) + degree / 2
        graph = maxflow.Graph[float](n_labels, len(w))
        graph.add_nodes(n_labels)
        for i, t in enumerate(supply.tolist()):
            graph.add_tedge(i, max(t, 0.0), max(-t, 0.0))
        for (i, j), c in zip(pairs.tolist(), (w / 2).tolist(), strict=True):
            graph.add_edge(i, j, c, c)
        graph.maxflow()
        y = np.array([1 - graph.get_segment(i) for i in range(n_labels)], dtype=np.uint8)
        found = int(y.sum())
        if found >= k:
            best = y
        k = found if found > k else k + 1
    return best


def value(u, pairs, w, truth, y):
    total = int(y.sum()) + int(truth.sum())
    score = u @ y + w @ (y[pairs[:, 0]] * y[pairs[:, 1]])
    return score + (1 - 2 * int((y & truth).sum()) / total if total else 0.0)


def oracle_row(title, instances, peer_rows, rounds=5):
    u, pairs, w, truth = instances
    positive = w > 0
    pairs, w = np.ascontiguousarray(pairs[positive]), np.ascontiguousarray(w[positive])
    ours, peers = [], []
    for k in range(rounds):
        seconds, answer = clock(lambda: _core.f_score_oracle(u, pairs, w, truth, 1e-7, 500, 12, truth.copy()))
        ours.append(seconds / len(u))
        rows = range(k * peer_rows, (k + 1) * peer_rows)
        seconds, found = clock(lambda rows=rows: [published_oracle(u[n], pairs, w, truth[n]) for n in rows])
        peers.append(seconds / peer_rows)
    optimal = [
        value(u[n], pairs, w, truth[n], y) >= answer["lower"][n] - 1e-7 for n, y in zip(rows, found, strict=True)
    ]
    y = np.empty_like(truth)
    predict, _ = clock(lambda: _core.predict_cut(u, pairs, w, False, y))
    return {
        "instances": title,
        "V": u.shape[1],
        "pairs > 0": len(w),
        "exact, us": 1e6 * float(np.median(ours)),
        "calls/s": round(1 / float(np.median(ours))),
        "cuts": float(answer["cuts"].mean()),
        "proved": float(np.mean(answer["upper"] <= answer["lower"] + 1e-7)),
        "PyMaxflow, us": 1e6 * float(np.median(peers)),
        "ratio": float(np.median(peers) / np.median(ours)),
        "its share optimal": float(np.mean(optimal)),
        "predict, us": 1e6 * predict / len(u),
    }


def oracle():
    rows = [
        oracle_row("yeast, near optimum", trained_instances("yeast", 1e-2, 1e-3, 1500), 60),
        oracle_row("enron, near optimum", trained_instances("enron", 0.1, 1e-3, 1123), 20),
        oracle_row("random", random_instances(101, 102, 1000), 6),
        oracle_row("random", random_instances(374, 1402, 400), 1),
        oracle_row("corel5k, near optimum", trained_instances("corel5k", 0.1, 1e-2, 500), 1),
    ]
    table("Oracle calls", rows)


def fit_row(name, lam, tol, solvers, time_limit):
    X, Y = training_rows(name)
    row = {"data": name, "V": Y.shape[1], "lambda": lam}
    for solver in solvers:
        model = model_for(name, lam, Y.shape[0], tol=tol, solver=solver, time_limit=time_limit, max_iter=10_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            seconds, _ = clock(lambda model=model: model.fit(X, Y))
        row |= {
            f"{solver}, s": seconds,
            f"{solver}, passes": model.n_iter_,
            f"{solver}, gap": model.certificate_.relative_gap,
        }
        if solver == solvers[0]:
            row |= {"objective": model.certificate_.primal * lam, "oracle exact": model.certificate_.oracle_exact}
    return row


def training():
    cases = [(name, lam) for name in ("yeast", "enron") for lam in SETTINGS[name][2]]
    rows = [fit_row(name, lam, 1e-3, ("blocks", "bundle"), 60.0) for name, lam in cases]
    for row in rows:
        row["ratio"] = row["bundle, s"] / row["blocks, s"]
    table("Training to relative gap 1e-3 (bundle limited to 60 s)", rows)


def scale():
    rows = [
        fit_row(name, lam, 1e-2, ("blocks",), 600.0) for name in ("corel5k", "delicious") for lam in SETTINGS[name][2]
    ]
    table("Training to relative gap 1e-2 with 5 % of the pairs", rows)


if __name__ == "__main__":
    for part in sys.argv[1:] or ["oracle", "training", "scale"]:
        {"oracle": oracle, "training": training, "scale": scale}[part]()
