"""The exact F-score oracle against the published one on PyMaxflow, and training against bundle methods.

Oracle. Scores and attractions of trained models, near the optimum where calls are hardest (yeast, enron, corel5k), and
random sparse label graphs. Ours is exact; the peer is the published Algorithm 2 as printed: up to V + 1 graphs of the
pairs with positive weight, built and cut with PyMaxflow, label by label or with its calls for arrays, whichever is
faster on the instances. Medians over interleaved rounds.
Training. A complete ``fit`` to a certified relative gap of 1e-3: block dual ascent, the bundle method with short steps
and BMRM, in turn, medians of three rounds; BMRM gets one round, of at most 30 s of wall time.
Scale. Hundreds of labels with 5 % of their pairs, to a certified relative gap of 1e-2, each in a process of its own.
Defaults. A complete ``fit`` with all defaults but the tolerance, within 120 s of wall time; with one and with two
threads, which must give the same bits.
Pairs. ``pairs="auto"`` beside half of the pairs and none: 1,500 rows and the 100 most frequent labels of sets with more
than 20 labels, a third held out, gap 1e-2; mean F-score of the rows held out, CPU seconds.
All times are CPU time, of all threads together; those of the defaults are of the clock, too.

    MULTIMARGIN_DATA=... python benchmarks/submodular.py [oracle] [training] [scale] [defaults] [pairs]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import warnings

import numpy as np
import scipy.sparse as sp
from _common import clock, cpu_clock, memory, save
from sklearn.exceptions import ConvergenceWarning

from multimargin import SubmodularClassifier, _core, datasets, metrics
from multimargin.model_selection import train_test_split

SETTINGS = {  # name: share of pairs, scale of pairs, lambda of the mean loss
    "yeast": (0.5, 1.0, (1e-2, 1e-3)),
    "enron": (0.05, 10.0, (1.0, 0.1)),
    "corel5k": (0.05, 10.0, (0.1,)),
    "delicious": (0.05, 10.0, (0.1,)),
}
PACKAGES = ("multimargin", "PyMaxflow", "numpy", "scipy")


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


def cut_by_label(supply, pairs, half):
    """Largest side of the minimum cut, every node and edge added by a call of its own."""
    import maxflow

    graph = maxflow.Graph[float](len(supply), len(half))
    graph.add_nodes(len(supply))
    for i, t in enumerate(supply.tolist()):
        graph.add_tedge(i, max(t, 0.0), max(-t, 0.0))
    for (i, j), c in zip(pairs.tolist(), half.tolist(), strict=True):
        graph.add_edge(i, j, c, c)
    graph.maxflow()
    return np.array([1 - graph.get_segment(i) for i in range(len(supply))], dtype=np.uint8)


def cut_by_arrays(supply, pairs, half):
    import maxflow

    graph = maxflow.Graph[float](len(supply), len(half))
    nodes = graph.add_grid_nodes((len(supply),))
    graph.add_grid_tedges(nodes, np.maximum(supply, 0.0), np.maximum(-supply, 0.0))
    graph.add_edges(pairs[:, 0], pairs[:, 1], half, half)
    graph.maxflow()
    return 1 - graph.get_grid_segments(nodes).astype(np.uint8)


def published_oracle(cut, u, pairs, w, truth):
    """Algorithm 2 of Petterson and Caetano for one row, every cut from scratch."""
    n_labels, m = len(u), int(truth.sum())
    degree = np.bincount(pairs[:, 0], w, n_labels) + np.bincount(pairs[:, 1], w, n_labels)
    best, k = np.zeros(n_labels, dtype=np.uint8), 0
    while k <= n_labels:
        y = cut(u - (2 * truth / (k + m) if k + m else 0.0) + degree / 2, pairs, w / 2)
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
    pairs, w = pairs[w > 0].astype(np.int64), w[w > 0]
    ours, peers = [], {cut_by_label: [], cut_by_arrays: []}
    for k in range(rounds):
        work = (u, np.ascontiguousarray(pairs, dtype=np.int32), w, truth, 1e-7, 500, 12, truth.copy())
        seconds, answer = cpu_clock(lambda work=work: _core.testing.f_score_oracle(*work))
        ours.append(seconds / len(u))
        rows = range(k * peer_rows, (k + 1) * peer_rows)
        for cut, times in peers.items():
            seconds, found = cpu_clock(
                lambda rows=rows, cut=cut: [published_oracle(cut, u[n], pairs, w, truth[n]) for n in rows]
            )
            times.append(seconds / peer_rows)
    optimal = [
        value(u[n], pairs, w, truth[n], y) >= answer["lower"][n] - 1e-7 for n, y in zip(rows, found, strict=True)
    ]
    y = np.empty_like(truth)
    predict, _ = cpu_clock(lambda: _core.predict_cut(u, np.ascontiguousarray(pairs, dtype=np.int32), w, False, y))
    mine, peer = statistics.median(ours), min(statistics.median(times) for times in peers.values())
    return {
        "instances": title,
        "V": u.shape[1],
        "pairs > 0": len(w),
        "exact, us": 1e6 * mine,
        "calls/s": round(1 / mine, -2),
        "cuts": float(answer["cuts"].mean()),
        "proved": float(np.mean(answer["upper"] <= answer["lower"] + 1e-7)),
        "PyMaxflow, us": 1e6 * peer,
        "ratio": peer / mine,
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
    save("submodular-oracle", rows, PACKAGES)


def fitted(name, lam, tol, solver, time_limit):
    X, Y = training_rows(name)
    model = model_for(name, lam, Y.shape[0], tol=tol, solver=solver, time_limit=time_limit, max_iter=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cpu_clock(lambda: model.fit(X, Y))


def training(rounds=3):
    rows = []
    for name, lam in [("yeast", 1e-2), ("yeast", 1e-3), ("enron", 1.0), ("enron", 0.1)]:
        times, models = {}, {}
        for k in range(rounds):
            for solver in ("blocks", "bundle", "bmrm") if k == 0 else ("blocks", "bundle"):
                seconds, models[solver] = fitted(name, lam, 1e-3, solver, 30.0 if solver == "bmrm" else 600.0)
                times.setdefault(solver, []).append(seconds)
        row = {"data": name, "V": len(models["blocks"].classes_), "lambda": lam}
        row["objective"] = models["blocks"].certificate_.primal * lam
        for solver, seconds in times.items():
            row |= {f"{solver}, s": statistics.median(seconds), f"{solver}, passes": models[solver].n_iter_}
            row |= {f"{solver}, gap": models[solver].certificate_.relative_gap}
        for solver in ("bundle", "bmrm"):
            row[f"{solver} / blocks"] = row[f"{solver}, s"] / row["blocks, s"]
        rows.append(row)
    save("submodular-training", rows, PACKAGES)


def scale_row(name):
    (lam,) = SETTINGS[name][2]
    Y = training_rows(name)[1]
    before = memory("VmRSS")
    seconds, model = fitted(name, lam, 1e-2, "blocks", 3600.0)
    return {
        "data": name,
        "rows": Y.shape[0],
        "V": Y.shape[1],
        "pairs": len(model.pairs_),
        "lambda": lam,
        "s": seconds,
        "passes": model.n_iter_,
        "gap": model.certificate_.relative_gap,
        "oracle exact": model.certificate_.oracle_exact,
        "memory beyond X and Y, MB": (memory("VmHWM") - before) / 1e6,
    }


def scale():
    rows = []
    for name in ("corel5k", "delicious"):
        code = f"import json, submodular; print(json.dumps(submodular.scale_row({name!r})))"
        folder = sys.path[0]
        out = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
        rows.append(json.loads(out.stdout.strip().splitlines()[-1]))
    save("submodular-scale", rows, PACKAGES)


def many_labels_a_row(rows=502, features=68, labels=174, each=36):
    """Standardised noise, of whose labels every row has so many: as many oracle calls as a label set can need."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, features))
    scores = X @ rng.normal(size=(features, labels)) / np.sqrt(features) + rng.normal(size=(rows, labels))
    Y = np.zeros((rows, labels), dtype=np.int8)
    np.put_along_axis(Y, np.argpartition(-scores, each, axis=1)[:, :each], 1, axis=1)
    return X, sp.csr_array(Y)


def defaults():
    rows = []
    tolerances = {
        "scene": 1e-3,
        "yeast": 1e-3,
        "enron": 1e-3,
        "36 of 174 labels": 1e-2,
        "corel5k": 1e-2,
        "delicious": 1e-2,
    }
    for name, tol in tolerances.items():
        X, Y = many_labels_a_row() if name == "36 of 174 labels" else training_rows(name)
        row, models = {"data": name, "rows": Y.shape[0], "V": Y.shape[1], "tol": tol}, []
        for threads in (1, 2):
            model = SubmodularClassifier(tol=tol, n_jobs=threads, time_limit=120.0, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wall, (seconds, model) = clock(lambda model=model, X=X, Y=Y: cpu_clock(lambda: model.fit(X, Y)))
            row[f"s, {threads} threads"], row[f"CPU s, {threads} threads"] = wall, seconds
            models.append(model)
        one, two = models
        converged = one.certificate_.converged and two.certificate_.converged
        row |= {"pairs": len(one.pairs_), "passes": one.n_iter_, "gap": one.certificate_.relative_gap}
        row["same bits"] = bool(np.array_equal(one.coef_, two.coef_)) if converged else "cut short"
        rows.append(row)
        print(rows[-1], flush=True)
    save("submodular-defaults", rows, PACKAGES)


def pairs():
    rows = []
    for name in ("enron", "medical", "bibtex", "mediamill", "rcv1", "corel5k", "delicious", "eurlex-4k"):
        data = datasets.load(name)
        chosen = np.random.default_rng(0).permutation(data.X_train.shape[0])[:1500]
        X, Y = data.X_train[chosen], sp.csr_array(data.Y_train)[chosen]
        Y = Y[:, np.sort(np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[:100])].toarray().astype(np.int8)
        Y = Y[:, Y.any(axis=0)]
        train, test = train_test_split(np.arange(len(Y)), test_size=1 / 3, random_state=0, stratify=Y)
        row = {"data": name, "V": Y.shape[1]}
        for share in ("auto", 0.5, 0.0):
            model = SubmodularClassifier(pairs=share, tol=1e-2, time_limit=60.0, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, model = cpu_clock(lambda model=model, X=X[train], Y=Y[train]: model.fit(X, Y))
            row[f"{share}: pairs"] = len(model.pairs_)
            row[f"{share}: F"] = f"{metrics.example_f1(Y[test], model.predict(X[test])):.3f}"
            row[f"{share}: CPU s"] = seconds
        rows.append(row)
        print(rows[-1], flush=True)
    save("submodular-pairs", rows, PACKAGES)


PARTS = {"oracle": oracle, "training": training, "scale": scale, "defaults": defaults, "pairs": pairs}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
