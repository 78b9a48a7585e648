from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from multimargin import certify, datasets, load, metrics, save
from multimargin.baselines import BinaryRelevance, GroupSparseLogLinear
from multimargin.datasets import make_clique_labels
from multimargin.errors import InputError


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(40, 3))
    Y = (X + rng.normal(size=(40, 3)) > 0).astype(int)
    Y[:, 1] = np.where(rng.random(40) < 0.7, Y[:, 0], Y[:, 1])
    return X, Y


def characters(sets):
    signs = 2.0 * np.asarray(sets) - 1.0
    pairs = [(a, b) for a in range(signs.shape[1]) for b in range(a + 1, signs.shape[1])]
    return np.column_stack([signs, *(signs[:, a] * signs[:, b] for a, b in pairs)])


def optimum(X, Y, C, penalty, weight):
    """The problem over all label sets, by a general solver."""
    psi, n_labels = np.column_stack([X, np.ones(len(X))]), Y.shape[1]
    chi = characters(list(product((0, 1), repeat=n_labels)))
    own = characters(Y)
    W = cp.Variable((own.shape[1], psi.shape[1]))
    scores = psi @ W.T
    loss = sum(w * (cp.log_sum_exp(chi @ scores[i]) - own[i] @ scores[i]) for i, w in enumerate(weight))
    edges = sum(cp.norm(W[k]) for k in range(n_labels, own.shape[1]))
    value = 0.5 * cp.sum_squares(W[:n_labels]) + C * (loss + penalty * weight.sum() * edges)
    return cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL), W.value


@pytest.mark.parametrize("penalty", [0.01, 0.1])
def test_it_is_the_optimum(problem, rng, penalty):
    X, Y = problem
    weight = rng.uniform(0.5, 2.0, 40)
    model = GroupSparseLogLinear(C=0.5, edge_penalty=penalty, tol=1e-6, max_iter=10_000)
    model.fit(X, Y, sample_weight=weight)
    best, W = optimum(X, Y, 0.5, penalty, weight)
    assert model.certificate_.converged
    assert model.certificate_.dual <= best * (1 + 1e-6)
    assert model.certificate_.primal == pytest.approx(best, rel=2e-6)
    np.testing.assert_allclose(model.coef_, W[:3, :-1], atol=5e-3)
    norms = np.linalg.norm(W[3:], axis=1)
    kept = [(0, 1), (0, 2), (1, 2)]
    assert {tuple(edge) for edge in model.edges_} == {
        pair for pair, norm in zip(kept, norms, strict=True) if norm > 1e-4
    }
    again = certify(model, X, Y, weight)
    assert (again.primal, again.dual) == pytest.approx((model.certificate_.primal, model.certificate_.dual), rel=1e-12)


@pytest.mark.parametrize("rule", ["map", "marginal"])
def test_predictions_are_those_of_the_enumerated_distribution(problem, rule):
    X, Y = problem
    model = GroupSparseLogLinear(rule=rule).fit(X, Y)
    assert len(model.edges_)
    sets = np.array(list(product((0, 1), repeat=3)))
    signs = 2.0 * sets - 1.0
    for x in X:
        values = signs @ (model.coef_ @ x + model.intercept_)
        for (a, b), coef, intercept in zip(model.edges_, model.edge_coef_, model.edge_intercept_, strict=True):
            values += signs[:, a] * signs[:, b] * (coef @ x + intercept)
        p = np.exp(values - np.logaddexp.reduce(values))
        scores = model.decision_function(x[None])[0]
        if rule == "map":
            np.testing.assert_array_equal(model.predict(x[None])[0], sets[p.argmax()])
            expected = [values[sets[:, k] == 1].max() - values[sets[:, k] == 0].max() for k in range(3)]
        else:
            expected = [np.log(p @ sets[:, k]) - np.log(p @ (1 - sets[:, k])) for k in range(3)]
        np.testing.assert_allclose(scores, expected, atol=1e-8)


def test_without_edges_it_is_logistic_regression(problem):
    """Signs count twice: w of a label here is half of that of a logistic regression at four times C."""
    X, Y = problem
    model = GroupSparseLogLinear(C=0.5, edge_penalty=10.0, tol=1e-9, max_iter=10_000).fit(X, Y)
    logistic = BinaryRelevance(C=2.0, loss="logistic", tol=1e-9).fit(X, Y)
    assert model.edges_.shape == (0, 2)
    np.testing.assert_allclose(model.decision_function(X), logistic.decision_function(X), atol=1e-3)
    assert model.certificate_.primal == pytest.approx(logistic.certificate_.primal / 4, rel=1e-6)
    given = GroupSparseLogLinear(C=0.5, candidates=[], tol=1e-9, max_iter=10_000).fit(X, Y)
    np.testing.assert_allclose(given.coef_, model.coef_, atol=1e-4)


def test_candidates_are_named_pairs(problem):
    X, Y = problem
    sets = [{"abc"[j] for j in np.flatnonzero(row)} for row in Y]
    model = GroupSparseLogLinear(candidates=[("b", "a")], edge_penalty=1e-3).fit(X, sets)
    assert model.edges_.tolist() == [[0, 1]]
    with pytest.raises(InputError, match="pairs of labels; got one of 3"):
        GroupSparseLogLinear(candidates=[("a", "b", "c")]).fit(X, sets)
    with pytest.raises(InputError, match='treewidth above 16.*likelihood="pseudo"'):
        GroupSparseLogLinear().fit(np.eye(40), np.eye(40, 30, dtype=int))
    chain = [(k, k + 1) for k in range(29)]
    labels = np.eye(40, 30, dtype=int)
    assert GroupSparseLogLinear(candidates=chain, tol=1e-2).fit(np.eye(40), labels).certificate_.converged


def pseudo_optimum(X, Y, C, penalty, weight):
    """Each label given the others, by a general solver."""
    psi, n_labels = np.column_stack([X, np.ones(len(X))]), Y.shape[1]
    signs = 2.0 * Y - 1.0
    pairs = [(a, b) for a in range(n_labels) for b in range(a + 1, n_labels)]
    W = cp.Variable((n_labels + len(pairs), psi.shape[1]))
    scores = psi @ W.T
    loss = 0
    for k in range(n_labels):
        field = scores[:, k]
        for place, pair in enumerate(pairs, start=n_labels):
            if k in pair:
                field = field + cp.multiply(signs[:, sum(pair) - k], scores[:, place])
        loss = loss + weight @ cp.logistic(-2 * cp.multiply(signs[:, k], field))
    edges = sum(cp.norm(W[place]) for place in range(n_labels, n_labels + len(pairs)))
    value = 0.5 * cp.sum_squares(W[:n_labels]) + C * (loss + penalty * weight.sum() * edges)
    return cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("penalty", [0.01, 0.1])
def test_the_pseudo_likelihood_is_at_its_optimum(problem, rng, penalty):
    X, Y = problem
    weight = rng.uniform(0.5, 2.0, 40)
    seen = []
    model = GroupSparseLogLinear(
        C=0.5,
        edge_penalty=penalty,
        likelihood="pseudo",
        tol=1e-6,
        max_iter=10_000,
        callback=lambda p: seen.append(p) and None,
    )
    model.fit(X, Y, sample_weight=weight)
    best = pseudo_optimum(X, Y, 0.5, penalty, weight)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(best, rel=2e-6)
    assert all(p.dual <= best * (1 + 1e-6) and p.primal >= best * (1 - 1e-6) for p in seen)
    again = certify(model, X, Y, weight)
    assert (again.primal, again.dual) == pytest.approx((model.certificate_.primal, model.certificate_.dual), rel=1e-12)


def test_without_pairs_both_likelihoods_are_the_same(problem):
    X, Y = problem
    full, pseudo = (
        GroupSparseLogLinear(C=0.5, candidates=[], likelihood=kind, tol=1e-9, max_iter=10_000).fit(X, Y)
        for kind in ("full", "pseudo")
    )
    np.testing.assert_allclose(pseudo.coef_, full.coef_, atol=1e-6)
    assert pseudo.certificate_.primal == pytest.approx(full.certificate_.primal, rel=1e-8)


def test_pseudo_likelihood_takes_any_graph(rng, tmp_path):
    """More labels than can be summed over: predictions are those of the mean field, from a model file as well."""
    X = rng.normal(size=(60, 3))
    Y = (X @ rng.normal(size=(3, 22)) + rng.normal(size=(60, 22)) > 0).astype(int)
    Y[:, 1] = Y[:, 0]
    model = GroupSparseLogLinear(C=0.1, edge_penalty=1e-3, likelihood="pseudo", tol=0.05).fit(X, Y)
    assert model.certificate_.converged
    assert np.linalg.norm(model.edge_coef_, axis=1).size > 150
    scores = model.decision_function(X)
    around = 2.0 * (X @ model.coef_.T + model.intercept_)
    for (a, b), coef, intercept in zip(model.edges_, model.edge_coef_, model.edge_intercept_, strict=True):
        around[:, a] += 2.0 * (X @ coef + intercept) * np.tanh(scores[:, b] / 2)
        around[:, b] += 2.0 * (X @ coef + intercept) * np.tanh(scores[:, a] / 2)
    np.testing.assert_allclose(scores, around, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(X[:5]), scores[:5], atol=1e-6)
    save(model, tmp_path / "wide.mm")
    np.testing.assert_array_equal(load(tmp_path / "wide.mm").predict(X), model.predict(X))
    sparse = GroupSparseLogLinear(C=0.1, edge_penalty=0.3, likelihood="pseudo", rule="marginal", tol=0.05).fit(X, Y)
    assert np.isfinite(sparse.decision_function(X)).all()


def test_every_pass_has_bounds_that_hold(problem):
    X, Y = problem
    best, _ = optimum(X, Y, 1.0, 0.02, np.ones(40))
    seen = []
    GroupSparseLogLinear(
        C=1.0, edge_penalty=0.02, tol=1e-6, max_iter=10_000, callback=lambda p: seen.append(p) and None
    ).fit(X, Y)
    assert len(seen) > 5
    assert all(p.dual <= best * (1 + 1e-6) and p.primal >= best * (1 - 1e-6) for p in seen)


@pytest.mark.parametrize("likelihood", ["full", "pseudo"])
def test_sparse_rows_of_any_scale(problem, likelihood):
    X, Y = problem
    X = X * [1.0, 1e-2, 30.0]
    dense, sparse = (
        GroupSparseLogLinear(likelihood=likelihood, tol=1e-4, max_iter=20_000).fit(x, Y) for x in (X, sp.csr_matrix(X))
    )
    assert dense.certificate_.converged
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-6)


def test_it_finds_the_graph_of_synthetic_labels():
    """The four true edges have the longest weights."""
    data = make_clique_labels(n_samples=800, n_labels=7, random_state=0)
    model = GroupSparseLogLinear(C=5.0, tol=2e-2).fit(data.X, data.Y)
    length = np.linalg.norm(model.edge_coef_, axis=1)
    order = np.argsort(-length)
    assert {tuple(edge) for edge in model.edges_[order[:4]]} == {(0, k) for k in range(1, 5)}
    assert length[order[3]] > 3 * length[order[4]]


def test_emotions_are_as_measured(data_home):
    """Hamming losses of a prototype on standardised features over the root of their number, to half a point."""
    data = datasets.load("emotions")
    scaler = StandardScaler().fit(data.X_train)
    train, test = (scaler.transform(X) / np.sqrt(72) for X in (data.X_train, data.X_test))
    C = 1 / (1e-3 * len(train))
    for penalty, rule, value in ((0.03, "map", 20.9), (0.01, "marginal", 20.4)):
        model = GroupSparseLogLinear(C=C, edge_penalty=penalty, rule=rule).fit(train, data.Y_train)
        assert model.certificate_.converged
        assert 100 * metrics.hamming_loss(data.Y_test, model.predict(test)) == pytest.approx(value, abs=0.5)
