"""CliqueClassifier against cvxpy, enumeration and identities."""

import pickle
from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from multimargin import CliqueClassifier, _core, certify
from multimargin._rows import native_rows
from multimargin.datasets import make_clique_labels
from multimargin.errors import InputError
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.graph import CliqueGraph, candidate_cliques
from multimargin.estimators.cliques.scores import AtomResiduals, clique_scores
from multimargin.estimators.cliques.solution import Solution
from multimargin.estimators.contract import MultilabelClassifier
from multimargin.estimators.label_rates import fit_for_scores

PAIRS = [(0, 1), (0, 2), (1, 2)]
EXACT = {"tol": 1e-8, "max_iter": 100_000, "random_state": 0}


@pytest.fixture
def tiny(rng):
    X = rng.normal(size=(15, 3))
    Y = (X @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(15, 3)) > 0).astype(int)
    return X, Y


@pytest.fixture
def small(rng):
    data = make_clique_labels(n_samples=150, n_features=6, n_labels=5, random_state=3)
    return data.X, data.Y.astype(int)


def indicator_optimum(X, Y, cliques, C, budget):
    """Optimal value with one weight vector for each state of each label and clique, as the paper writes it."""
    n, K = Y.shape
    nodes = [[cp.Variable(X.shape[1]) for _ in range(2)] for _ in range(K)]
    tables = [{s: cp.Variable(X.shape[1]) for s in product([0, 1], repeat=len(c))} for c in cliques]
    slack = cp.Variable(n)

    def score(x, y):
        unary = sum(nodes[k][y[k]] @ x for k in range(K))
        return unary + sum(t[tuple(y[k] for k in c)] @ x for t, c in zip(tables, cliques, strict=True))

    constraints = [
        slack[i] >= sum(a != b for a, b in zip(y, Y[i], strict=True)) + score(X[i], y) - score(X[i], tuple(Y[i]))
        for i in range(n)
        for y in product([0, 1], repeat=K)
    ]
    norm = sum(cp.sum_squares(v) for pair in nodes for v in pair)
    stacked = [cp.hstack(list(t.values())) for t in tables]
    if budget >= len(cliques):
        norm += sum(cp.sum_squares(v) for v in stacked)
    else:
        eta = cp.Variable(len(cliques))
        constraints += [eta >= 0, eta <= 1, cp.sum(eta) <= budget]
        norm += sum(cp.quad_over_lin(v, eta[c]) for c, v in enumerate(stacked))
    problem = cp.Problem(cp.Minimize(0.5 * norm + C * cp.sum(slack)), constraints)
    problem.solve(solver="CLARABEL")
    return problem.value


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_learned_over_all_pairs_is_the_relaxation_of_the_paper(tiny, budget):
    """Certified over all candidates, the optimum is that of the problem with literal indicator features."""
    model = CliqueClassifier(C=1.0, budget=budget, stopping="gap", fit_intercept=False, **{**EXACT, "tol": 1e-6})
    certificate = model.fit(*tiny).certificate_
    optimum = indicator_optimum(*tiny, PAIRS, 1.0, budget)
    assert certificate.converged
    assert certificate.global_relative_gap <= 1e-6
    assert certificate.primal == pytest.approx(optimum, rel=3e-6)
    assert certificate.global_dual <= optimum * (1 + 1e-7) <= certificate.primal * (1 + 2e-7)


@pytest.mark.parametrize("cliques", [[], [(0, 1)], PAIRS, [(0, 1, 2)], [(0, 1, 2), (1, 2)]])
def test_given_graph_equals_cvxpy(tiny, cliques):
    model = CliqueClassifier(C=0.7, graph=cliques, fit_intercept=False, **EXACT).fit(*tiny)
    assert model.certificate_.primal == pytest.approx(indicator_optimum(*tiny, cliques, 0.7, 9), rel=1e-6)
    assert sorted(model.cliques_) == sorted(cliques)


def test_without_cliques_it_is_one_linear_svm_per_label(small):
    X, Y = small
    model = CliqueClassifier(C=0.5, graph=None, **EXACT).fit(X, Y)
    for k in range(Y.shape[1]):
        svm = LinearSVC(C=1.0, loss="hinge", tol=1e-9, max_iter=10**6, random_state=0).fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], svm.coef_[0], atol=2e-3)
        np.testing.assert_allclose(model.intercept_[k], svm.intercept_[0], atol=2e-3)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, atol=1e-10)


def test_a_large_budget_is_the_full_graph(small):
    full = CliqueClassifier(graph="full", **EXACT).fit(*small)
    learned = CliqueClassifier(stopping="limit", budget=10, prune=0.0, **EXACT).fit(*small)
    assert sorted(learned.cliques_) == sorted(full.cliques_)
    assert learned.certificate_.primal == pytest.approx(full.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(learned.clique_shares_, 1.0)


def test_labels_in_another_order_give_the_same_model(small, rng):
    X, Y = small
    order = rng.permutation(5)
    a = CliqueClassifier(graph="full", **EXACT).fit(X, Y)
    b = CliqueClassifier(graph="full", **EXACT).fit(X, Y[:, order])
    np.testing.assert_allclose(b.decision_function(X), a.decision_function(X)[:, order], atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"max_order": 3}, {"budget": 1, "graph": "learned"}])
def test_dense_sparse_and_single_precision_agree(small, options):
    X, Y = small
    models = [
        CliqueClassifier(tol=1e-7, max_iter=100_000, random_state=0, **options).fit(kind(X), Y)
        for kind in (np.asarray, sp.csr_array, np.float32)
    ]
    for other in models[1:]:
        assert other.certificate_.primal == pytest.approx(models[0].certificate_.primal, rel=1e-5)
        assert sorted(other.cliques_) == sorted(models[0].cliques_)


def test_nothing_depends_on_the_number_of_threads(small):
    X, Y = small
    a, b = (CliqueClassifier(random_state=0, n_jobs=n).fit(X, Y) for n in (1, 3))
    np.testing.assert_array_equal(a.subset_coef_, b.subset_coef_)
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


def test_row_weights_are_repetitions(small):
    X, Y = small
    repeats = np.arange(len(X)) % 3
    a = CliqueClassifier(graph="full", **EXACT).fit(X, Y, sample_weight=repeats)
    b = CliqueClassifier(graph="full", **EXACT).fit(np.repeat(X, repeats, axis=0), np.repeat(Y, repeats, axis=0))
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-7)


def test_unknown_labels_are_averaged_over(rng):
    """A label known nowhere but in two rows that fix nothing: the others train as if it did not exist."""
    X = rng.normal(size=(40, 3))
    Y = (X @ rng.normal(size=(3, 3)) > 0).astype(float)
    Y[:, 2] = np.nan
    with pytest.warns(UserWarning, match="Constant"):
        a = CliqueClassifier(graph="full", **EXACT).fit(X, Y)
    b = CliqueClassifier(graph="full", **EXACT).fit(X, Y[:, :2])
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-7)
    np.testing.assert_array_equal(a.predict(X)[:, :2], b.predict(X))


# Scores, graphs, norms


def atoms_of(rng, Y, each=2):
    """Random distributions: two labellings for each row, with weights below one in all."""
    n, K = Y.shape
    labellings = rng.integers(0, 2, size=(n * each, K))
    bits = (labellings << np.arange(K)).sum(axis=1).astype(np.uint64)[:, None]
    weight = rng.random(n * each) / (2 * each)
    return labellings, _core.Atoms(np.repeat(np.arange(n), each), weight, bits)


def data_of(X, Y, cost):
    model = CliqueClassifier(C=cost)
    return CliqueData(model._problem(X, Y, None), 0.0)


def test_scores_are_norms_of_indicator_weights(rng):
    """s_c from characters equals the squared norm of the gradient in the 2^|c| states of the clique."""
    Y = rng.integers(0, 2, size=(12, 4))
    X = rng.normal(size=(12, 3))
    labellings, atoms = atoms_of(rng, Y)
    data = data_of(X, Y, 0.3)
    cliques = [(0, 1), (1, 3), (0, 2, 3), (0, 1, 2, 3)]
    found, _, _ = clique_scores(data, AtomResiduals(atoms, data, np.float64), cliques)
    for clique, value in zip(cliques, found, strict=True):
        gradient = {s: np.zeros(3) for s in product([0, 1], repeat=len(clique))}
        for row, weight, y in zip(atoms.row, atoms.weight, labellings, strict=True):
            gradient[tuple(Y[row, list(clique)])] += 0.3 * weight * X[row]
            gradient[tuple(y[list(clique)])] -= 0.3 * weight * X[row]
        assert value == pytest.approx(sum(g @ g for g in gradient.values()), rel=1e-12)


def test_complements_are_blind_to_pairs(rng):
    """All mass on the complement of the truth, the printed start, says nothing about any pair of labels."""
    Y = rng.integers(0, 2, size=(20, 4))
    bits = ((1 - Y) << np.arange(4)).sum(axis=1).astype(np.uint64)[:, None]
    atoms = _core.Atoms(np.arange(20), np.ones(20), bits)
    residuals = AtomResiduals(atoms, data_of(rng.normal(size=(20, 3)), Y, 1.0), np.float64)
    R = residuals.panel([(0,), (0, 1), (0, 1, 2)])
    assert np.all(np.abs(R[:, 0]) == 2)
    assert not R[:, 1].any()
    assert np.all(np.abs(R[:, 2]) == 2)


@pytest.mark.parametrize("budget", [1, 2, 4, 7])
def test_k_support_norm_equals_its_definition(rng, budget):
    for a in (rng.random(6), np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), np.zeros(6), np.array([5.0, 1, 1, 1, 0.1, 0])):
        value, eta = _core.k_support(a, budget)
        assert np.all((eta >= 0) & (eta <= 1))
        assert eta.sum() <= budget + 1e-12
        assert value == pytest.approx(np.sum(a[a > 0] ** 2 / eta[a > 0]), rel=1e-12, abs=1e-15)
        for _ in range(50):  # no other eta is better
            other = rng.random(6) ** 3
            other *= min(1.0, budget / other.sum())
            assert np.sum(a[a > 0] ** 2 / other[a > 0]) >= value - 1e-12
        z = rng.random(6)
        largest = np.sort(z**2)[::-1][:budget].sum()
        assert a @ z <= np.sqrt(value * largest) + 1e-12  # the dual norm


def test_chow_liu_is_the_best_of_all_trees(rng):
    X = rng.normal(size=(80, 3))
    Y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(80, 4)) > 0.3).astype(int)

    def information(a, b):
        joint = np.histogram2d(Y[:, a], Y[:, b], bins=2)[0] / len(Y)
        expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        return np.sum(joint[joint > 0] * np.log(joint[joint > 0] / expected[joint > 0]))

    def connects(edges):
        reached = {0}
        for _ in range(3):
            reached |= {k for e in edges if reached & set(e) for k in e}
        return len(reached) == 4

    trees = [edges for edges in combinations(combinations(range(4), 2), 3) if connects(edges)]
    best = max(trees, key=lambda edges: sum(information(*e) for e in edges))
    model = CliqueClassifier(graph="chow-liu", random_state=0).fit(X, Y)
    assert sorted(model.cliques_) == sorted(best)


def test_triples_of_many_labels_grow_out_of_cliques(rng):
    labels = np.arange(50)
    found = candidate_cliques(labels, [(3, 7), (1, 2, 9)], 4, rng)
    assert set(combinations(range(50), 2)) <= set(found)
    assert {tuple(sorted((3, 7, k))) for k in range(50) if k not in (3, 7)} <= set(found)
    assert {tuple(sorted((1, 2, 9, k))) for k in range(50) if k not in (1, 2, 9)} <= set(found)
    assert max(map(len, found)) == 4
    assert len(found) < 4000  # not all 19,600 triples


# Learning the graph


@pytest.mark.parametrize("seed", [0, 3])
def test_true_edges_are_found(seed):
    data = make_clique_labels(n_samples=3000, random_state=seed)
    model = CliqueClassifier(C=5.0, random_state=0).fit(data.X[:2000], data.Y[:2000])
    assert sorted(model.cliques_) == data.cliques
    assert np.mean(model.predict(data.X[2000:]) != data.Y[2000:]) <= 0.012


def test_a_pure_triple_is_invisible_to_pairs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6))
    signs = rng.choice([-1, 1], size=(1500, 3))
    third = np.where(X @ rng.normal(size=6) > 0, 1, -1) * signs[:, 0] * signs[:, 1]
    Y = (np.column_stack([signs, third]) > 0).astype(int)
    triple = CliqueClassifier(C=0.1, max_order=3, batch=1, budget=1, random_state=0).fit(X, Y)
    assert triple.cliques_ == [(0, 1, 3)]
    pairs = CliqueClassifier(C=0.1, batch=1, budget=1, random_state=0).fit(X, Y)
    assert not pairs.cliques_


def test_the_path_tells_how_the_model_grew(small):
    model = CliqueClassifier(stopping="limit", max_cliques=5, batch=2, prune=0.0, random_state=0).fit(*small)
    path = model.path_
    assert path.n_cliques.tolist() == [0, 2, 4, 5]
    assert np.all(path.global_dual <= path.dual * (1 + 1e-9))  # a maximum over more cliques
    assert np.all(path.dual <= path.primal)
    assert np.isnan(path.validation_loss).all()
    assert path.training_loss[-1] <= path.training_loss[0]
    assert len(model.cliques_) == 5


def test_validation_holds_rows_out(small):
    X, Y = small
    model = CliqueClassifier(stopping="validation", C=0.3, random_state=0).fit(X, Y)
    path = model.path_
    assert np.isfinite(path.validation_loss).all()
    chosen = path.n_cliques[np.argmin(path.validation_loss)]
    assert len(model.cliques_) <= chosen  # some may be pruned
    assert model.certificate_.relative_gap <= model.tol


def still(primal, change):
    """The rounds t > 2 after which the paper's rule would end, in its own words."""
    f = np.asarray(primal)
    return [t for t in range(3, len(f)) if abs(f[t] - f[t - 2]) / f[t - 2] <= change]


@pytest.mark.parametrize("change", [0.02, 0.05, 0.3])
def test_the_paper_stops_when_two_rounds_change_the_objective_by_little(small, change):
    options = {"C": 0.3, "budget": 1, "batch": 1, "prune": 0.0, "random_state": 0}
    model = CliqueClassifier(stopping="objective", objective_change=change, **options).fit(*small)
    path = model.path_
    assert still(path.primal, change)[:1] == [len(path.primal) - 1]  # at the first of them
    assert path.n_cliques.tolist() == list(range(len(path.primal)))
    assert np.all(1 - path.dual / path.primal <= 0.1 * change * (1 + 1e-9))
    assert model.certificate_.converged
    longer = CliqueClassifier(stopping="limit", tol=0.1 * change, **options).fit(*small).path_
    assert len(longer.primal) > len(path.primal)


def test_the_paper_stops_too_late_and_pruning_makes_up_for_it():
    """It keeps what two rounds brought that hardly helped: the four true edges are there, with small others."""
    data = make_clique_labels(n_samples=2000, random_state=0)
    model = CliqueClassifier(C=5.0, stopping="objective", prune=0.0, tol=0.01, random_state=0).fit(data.X, data.Y)
    true = {(0, 1), (0, 2), (0, 3), (0, 4)}
    assert true < set(model.cliques_)
    share = dict(zip(model.cliques_, model.clique_shares_, strict=True))
    assert min(share[c] for c in true) > max(share[c] for c in share if c not in true)


@pytest.mark.parametrize("options", [{"stopping": "validation"}, {"loss": "softmax-margin"}, {"stopping": "gap"}])
def test_a_fit_cut_short_still_has_a_certificate_of_all_rows(small, options):
    X, Y = small
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        model = CliqueClassifier(max_iter=3, tol=1e-9, random_state=0, **options).fit(X, Y)
    assert model.n_iter_ == model.history_.pass_[-1]
    assert model.certificate_.primal == model.history_.primal[-1]
    optimum = CliqueClassifier(graph=model.cliques_, tol=1e-6, random_state=0, max_iter=20_000)
    if "loss" not in options and len(model.cliques_) <= model.budget:
        assert (
            model.certificate_.dual <= optimum.fit(X, Y).certificate_.primal <= model.certificate_.primal * (1 + 1e-5)
        )
    assert model.predict(X).shape == Y.shape


def test_pruning_drops_small_shares(small):
    kept = CliqueClassifier(stopping="limit", budget=1, prune=0.0, tol=1e-3, random_state=0).fit(*small)
    pruned = CliqueClassifier(stopping="limit", budget=1, prune=0.5, tol=1e-3, random_state=0).fit(*small)
    assert len(kept.cliques_) == 10
    largest = kept.clique_shares_ >= 0.5 * kept.clique_shares_.max()
    assert set(pruned.cliques_) == {c for c, keep in zip(kept.cliques_, largest, strict=True) if keep}


def test_warm_start_continues_with_its_cliques(small):
    X, Y = small
    warm = CliqueClassifier(stopping="limit", warm_start=True, prune=0.0, tol=1e-4, random_state=0)
    sizes, passes = [], []
    for limit in (2, 4, 6):
        warm.set_params(max_cliques=limit).fit(X, Y)
        sizes.append(len(warm.cliques_))
        passes.append(warm.n_iter_)
    assert sizes == [2, 4, 6]
    again = warm.set_params(tol=1e-3).fit(X, Y)
    assert again.n_iter_ < passes[0]
    assert len(warm.set_params(max_cliques=3).fit(X, Y).cliques_) == 3
    with pytest.raises(InputError, match="same rows"):
        warm.fit(X[:50], Y[:50])


def test_a_warm_start_keeps_the_weights_of_the_cliques_it_keeps(small):
    X, Y = small
    model = CliqueClassifier(graph="full", warm_start=True, random_state=0).fit(X, Y)
    last = model._last.state
    kept = last.largest(2)
    graph = last.graph.with_cliques(kept)
    eta = np.array([0.5, 1.0])
    start = Solution.start(graph, eta, last, X.shape[1] + 1)
    before, after = last.graph.kappa(last.eta), graph.kappa(eta)
    assert len(start.weights) == 5 + 2
    for subset in graph.subsets:
        old, new = last.graph.positions[subset], graph.positions[subset]
        np.testing.assert_allclose(start.weights[new] / after[new], last.weights[old] / before[old], rtol=1e-12)


def test_a_warm_start_with_other_features_finds_the_same_optimum(small):
    X, Y = small
    options = {"graph": "full", "tol": 1e-5, "max_iter": 50_000, "random_state": 0}
    model = CliqueClassifier(warm_start=True, **options).fit(X, Y)
    other = np.column_stack([X, X[:, 0] * X[:, 1]])
    warm = model.fit(other, Y).certificate_
    cold = CliqueClassifier(**options).fit(other, Y).certificate_
    assert warm.converged
    assert max(warm.dual, cold.dual) <= min(warm.primal, cold.primal) * (1 + 1e-9)


def test_a_model_that_can_be_continued_can_be_pickled(small):
    X, Y = small
    model = CliqueClassifier(graph="full", warm_start=True, random_state=0).fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    assert certify(copy, X, Y) == certify(model, X, Y)
    assert copy.fit(X, Y).n_iter_ == model.fit(X, Y).n_iter_


@pytest.mark.parametrize(
    "options",
    [
        {"graph": "full"},
        {"graph": "chow-liu", "loss": "softmax-margin"},
        {"stopping": "limit", "max_cliques": 4, "batch": 2},
        {"stopping": "validation"},
        {"stopping": "gap"},
    ],
)
def test_inference_is_compiled_once_for_every_graph(small, options, monkeypatch):
    native, graphs = _core.CliqueInference, []

    def compiling(subsets, **settings):
        graphs.append(None)
        return native(subsets, **settings)

    monkeypatch.setattr(_core, "CliqueInference", compiling)
    model = fit_for_scores(CliqueClassifier(C=0.1, prune=0.0, tol=0.01, random_state=0, **options), *small)
    grown = 1 if model.path_ is None else len(set(model.path_.n_cliques.tolist()))
    assert len(graphs) == grown


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"eta": np.ones(3)}, "do not fit the label subsets or the shares"),
        ({"cliques": [(9,)]}, "do not fit the label subsets or the shares"),
        ({"atoms": (np.array([99]), np.ones(1), np.zeros((1, 1), np.uint64))}, "atoms do not fit the labels"),
        ({"atoms": (np.array([0]), np.ones(1), np.zeros((1, 2), np.uint64))}, "atoms do not fit the labels"),
        ({"atoms": (np.array([1, 0]), np.ones(2), np.zeros((2, 1), np.uint64))}, "in the order of the rows"),
        ({"centre": np.zeros((3, 2))}, "one row per subset"),
        ({"group": (np.ones((15, 1), np.float32), [0], [1])}, "of another kind"),
        ({"group": (np.ones((14, 1)), [0], [1])}, "of another kind"),
        ({"group": (np.ones((15, 1)), [0, 1], [1])}, "columns or the cliques of a group"),
        ({"group": (np.ones((15, 1)), [4], [1])}, "columns or the cliques of a group"),
        ({"group": (np.ones((15, 1)), [0], [1, 1])}, "columns or the cliques of a group"),
    ],
)
def test_the_native_solver_refuses_what_does_not_fit(tiny, spoil, message):
    data = data_of(*tiny, 1.0)
    graph = CliqueGraph(3, ((0, 1),))
    members = np.array(spoil.get("cliques", [(0, 1, 3)]), dtype=np.int32)[0]
    groups = []
    if "group" in spoil:
        X, columns, cliques = spoil["group"]
        seen = np.array(cliques, dtype=np.uint8)
        groups = [_core.FeatureGroup(rows=native_rows(X), columns=np.array(columns), nodes=True, cliques=seen)]
    with pytest.raises(ValueError, match=message):
        _core.fit_cliques(
            rows=data.problem.rows,
            labels=data.bits,
            bias=0.0,
            inference=graph.inference,
            cliques=_core.Cliques(np.array([0, len(members)]), members, np.array([0.25]), 1),
            eta=spoil.get("eta", np.ones(1)),
            groups=groups,
            start=_core.Atoms(*spoil["atoms"]) if "atoms" in spoil else None,
            step=_core.ProximalStep(spoil["centre"], 1.0) if "centre" in spoil else None,
            limits=_core.Limits(tol=0.1, max_iter=1, threads=1),
        )


# Predictions


@pytest.mark.parametrize("inference", ["auto", "elimination", "exhaustive", "mplp", "branch-and-bound"])
def test_predictions_are_the_best_of_all_labellings(small, inference):
    X, Y = small
    model = CliqueClassifier(stopping="limit", max_order=3, random_state=0).fit(X, Y).set_params(inference=inference)
    signs = np.array(list(product([-1.0, 1.0], repeat=5)))
    characters = np.column_stack([signs[:, list(t)].prod(axis=1) for t in model.subsets_])
    scores = (X @ model.subset_coef_.T + model.subset_intercept_) @ characters.T
    prediction, exact = model.predict_exact(X)
    best = (signs[scores.argmax(axis=1)] > 0).astype(int)
    np.testing.assert_array_equal(prediction[exact], best[exact])
    np.testing.assert_array_equal(prediction, model.predict(X))
    if inference != "mplp":
        assert exact.all()
        present = signs > 0
        for k in range(5):
            difference = scores[:, present[:, k]].max(axis=1) - scores[:, ~present[:, k]].max(axis=1)
            np.testing.assert_allclose(model.decision_function(X)[:, k], difference, atol=1e-9)


def test_predictions_have_the_form_of_the_labels_and_one_signature(small):
    X, Y = small
    frame = pd.DataFrame(Y, columns=list("abcde"), index=range(100, 250))
    model = CliqueClassifier(graph="chow-liu", random_state=0).fit(X, frame)
    labels, exact = model.predict_exact(pd.DataFrame(X, index=range(100, 250)))
    pd.testing.assert_frame_equal(labels, model.predict(pd.DataFrame(X, index=range(100, 250))))
    assert exact.dtype == bool
    assert exact.shape == (150,)
    assert CliqueClassifier.predict is MultilabelClassifier.predict


def test_softmax_margin_equals_enumeration(tiny):
    """Value, gap and probabilities against sums over all labellings."""
    X, Y = tiny
    mu, C = 0.5, 0.8
    model = CliqueClassifier(C=C, graph=PAIRS, loss="softmax-margin", temperature=mu, fit_intercept=False, **EXACT)
    model.fit(X, Y)
    labellings = np.array(list(product([0, 1], repeat=3)))
    graph = CliqueGraph(3, tuple(PAIRS))
    signs = 2.0 * labellings - 1.0
    characters = np.column_stack([signs[:, list(t)].prod(axis=1) for t in graph.subsets])
    scores = X @ model.subset_coef_.T @ characters.T
    own = (labellings[None] == Y[:, None]).all(axis=2).argmax(axis=1)
    wrong = (labellings[None] != Y[:, None]).sum(axis=2)
    losses = mu * np.log(np.exp((scores + wrong) / mu).sum(axis=1)) - scores[np.arange(15), own]
    kappa = graph.kappa(np.ones(3))
    value = 0.5 * np.sum(model.subset_coef_**2 / kappa) + C * losses.sum()
    assert model.certificate_.primal == pytest.approx(value, rel=1e-10)
    assert model.certificate_.relative_gap <= 1e-8
    p = np.exp(scores / mu)
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), p @ labellings, atol=1e-10)


def test_softmax_margin_tends_to_the_hinge(tiny):
    hinge = CliqueClassifier(C=1.0, graph=PAIRS, **EXACT).fit(*tiny).certificate_.primal
    values = [
        CliqueClassifier(C=1.0, graph=PAIRS, loss="softmax-margin", temperature=mu, tol=1e-6, max_iter=50_000)
        .fit(*tiny)
        .certificate_.primal
        for mu in (0.3, 0.03)
    ]
    bound = 15 * np.log(8)
    assert hinge * (1 - 1e-6) <= values[1] <= hinge + 0.03 * bound
    assert values[1] < values[0] <= hinge + 0.3 * bound


def test_a_learned_graph_gives_probabilities(small):
    X, Y = small
    model = CliqueClassifier(loss="softmax-margin", random_state=0).fit(X, Y)
    probability = model.predict_proba(X)
    assert probability.shape == Y.shape
    assert np.all((probability > 0) & (probability < 1))
    assert np.mean((probability > 0.5) != Y) < 0.2
    assert np.isnan(model.certificate_.global_gap)
    assert not hasattr(CliqueClassifier(), "predict_proba")


def test_more_labels_than_a_machine_word(rng):
    X = rng.normal(size=(60, 4))
    Y = (X @ rng.normal(size=(4, 70)) + rng.normal(size=(60, 70)) > 0).astype(int)
    model = CliqueClassifier(graph="chow-liu", tol=1e-4, random_state=0).fit(X, Y)
    assert model.certificate_.converged
    assert len(model.cliques_) == 69
    prediction, exact = model.predict_exact(X)
    assert exact.all()
    np.testing.assert_array_equal(prediction == 1, model.decision_function(X) > 0)


# The graph, and bad input


def test_label_graph_names_labels_and_couplings(small):
    networkx = pytest.importorskip("networkx")
    X, Y = small
    names = ["sea", "sun", "sky", "sand", "tree"]
    sets = [{names[k] for k in np.flatnonzero(row)} for row in Y]
    model = CliqueClassifier(graph=[("sea", "sun"), ("sky", "sand", "tree")], random_state=0).fit(X, sets)
    graph = model.label_graph_
    assert isinstance(graph, networkx.Graph)
    assert set(graph.nodes) == set(names)
    assert {frozenset(e) for e in graph.edges} == {
        frozenset(e) for e in [("sea", "sun"), ("sky", "sand"), ("sky", "tree"), ("sand", "tree")]
    }
    assert graph.edges["sea", "sun"]["weight"] == pytest.approx(model.clique_weights_[0])


def test_couplings_have_the_sign_of_the_dependence(rng):
    X = rng.normal(size=(400, 2))
    first = (rng.random(400) < 0.5).astype(int)
    Y = np.column_stack([first, np.where(rng.random(400) < 0.9, first, 1 - first), np.where(first, 0, 1)])
    model = CliqueClassifier(graph=[(0, 1), (0, 2)], random_state=0).fit(X, Y)
    assert model.clique_couplings_[0] > 0 > model.clique_couplings_[1]
    scores = X @ model.subset_coef_.T + model.subset_intercept_
    pair = scores[:, model.subsets_.index((0, 1))]
    np.testing.assert_allclose(
        [model.clique_couplings_[0], model.clique_coupling_spreads_[0]], [pair.mean(), pair.std()], atol=1e-12
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": [(0,)]}, "at least two different labels"),
        ({"graph": [(0, 0)]}, "at least two different labels"),
        ({"graph": [(0, 9)]}, "label 9"),
    ],
)
def test_bad_graphs_are_refused(small, options, message):
    with pytest.raises(InputError, match=message):
        CliqueClassifier(**options).fit(*small)


def test_sums_need_a_narrow_graph(rng):
    X = rng.normal(size=(30, 2))
    Y = rng.integers(0, 2, size=(30, 16))
    model = CliqueClassifier(graph="full", loss="softmax-margin", treewidth_limit=12)
    with pytest.raises(InputError, match="treewidth_limit=12; this graph has 15"):
        model.fit(X, Y)


def test_too_many_labels_to_enumerate(rng):
    X = rng.normal(size=(30, 2))
    Y = rng.integers(0, 2, size=(30, 26))
    with pytest.raises(InputError, match="at most 20 labels; Y has 26"):
        CliqueClassifier(inference="exhaustive").fit(X, Y)


def test_too_few_rows_to_hold_any_out(small):
    X, Y = small
    with pytest.raises(InputError, match=r"validation_fraction=0.999 of 150 rows"):
        CliqueClassifier(stopping="validation", validation_fraction=0.999).fit(X, Y)


def test_too_few_cliques_for_the_global_gap(small):
    with pytest.warns(
        ConvergenceWarning, match="over all candidate cliques the relative duality gap is .* max_cliques"
    ):
        model = CliqueClassifier(stopping="gap", max_cliques=1, random_state=0).fit(*small)
    assert model.certificate_.relative_gap <= model.tol < model.certificate_.global_relative_gap


def test_cells_are_not_weighted(small):
    X, Y = small
    with pytest.raises(InputError, match="a weight per row"):
        CliqueClassifier().fit(X, Y, sample_weight=np.ones(Y.shape))


def test_stops_with_a_certificate_when_time_is_up(small):
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = CliqueClassifier(graph="full", C=100.0, tol=1e-12, time_limit=0.05, max_iter=10**7).fit(*small)
    assert 0 < model.certificate_.relative_gap < 1
