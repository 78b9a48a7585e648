"""Chains, label networks and trees of label pairs."""

from itertools import permutations, product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain as TheirChain
from sklearn.svm import LinearSVC

from multimargin.baselines import LEAD, PLEM, BinaryRelevance, ClassifierChain
from multimargin.baselines import _label_network as network
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._softmax import SoftmaxProblem
from multimargin.errors import InputError


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(80, 5))
    noise = rng.normal(size=(80, 4))
    noise[:, 1] += noise[:, 0]
    return X, (X @ rng.normal(size=(5, 4)) + noise > 0.3).astype(int)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_a_chain_is_scikit_learns(problem, order):
    X, Y = problem
    ours = ClassifierChain(C=1.0, order=order, tol=1e-10).fit(X, Y)
    theirs = TheirChain(LinearSVC(dual=False, tol=1e-10), order=order).fit(X, Y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


def test_constant_labels_leave_a_given_order(problem):
    X, Y = problem
    with_constant = np.insert(Y, 1, 1, axis=1)
    with pytest.warns(UserWarning, match="label 1"):
        model = ClassifierChain(order=[3, 1, 0, 4, 2]).fit(X, with_constant)
    assert model.orders_.tolist() == [[2, 0, 3, 1]]
    assert model.order == [3, 1, 0, 4, 2]
    alone = ClassifierChain(order=[2, 0, 3, 1]).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X)[:, [0, 2, 3, 4]], alone.predict(X))


def test_several_chains_vote(problem):
    X, Y = problem
    model = ClassifierChain(order="random", n_chains=5, random_state=0).fit(X, Y)
    votes = []
    for order in model.orders_:
        votes.append(ClassifierChain(order=order.tolist()).fit(X, Y).predict(X))
    np.testing.assert_allclose(model.decision_function(X), np.mean(votes, axis=0) - 0.5)
    assert len({tuple(order) for order in model.orders_}) > 1


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"order": [0, 1, 2]}, "each of the columns 0 to 3"),
        ({"order": [0, 1, 2, 2]}, "each of the columns 0 to 3"),
        ({"order": [3, 2, 1, 0], "n_chains": 2}, "for a single chain"),
        ({"n_chains": 3}, "order='random'"),
    ],
)
def test_orders_that_are_none_are_refused(problem, parameters, words):
    with pytest.raises(InputError, match=words):
        ClassifierChain(**parameters).fit(*problem)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_lead_without_parents_is_binary_relevance(problem, loss):
    X, Y = problem
    lead = LEAD(max_parents=0, loss=loss, tol=1e-9).fit(X, Y)
    binary = BinaryRelevance(loss=loss, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(lead.decision_function(X), binary.decision_function(X), atol=1e-3)


def test_lead_finds_the_dependent_pair_and_links_it(problem):
    X, Y = problem
    model = LEAD(C=1.0, tol=1e-8).fit(X, Y)
    parents = model.parent_coef_ != 0
    assert parents[0, 1] != parents[1, 0]  # they share noise: one is the parent of the other
    position = np.argsort(model.order_)
    assert all(position[p] < position[c] for c, p in zip(*np.nonzero(parents), strict=True))
    assert 0 <= model.link_gap_ <= 1e-8
    child = 0 if parents[0, 1] else 1
    given = np.flatnonzero(parents[child])
    svm = LinearSVC(dual=False, tol=1e-10).fit(np.column_stack([X, Y[:, given]]), Y[:, child])
    np.testing.assert_allclose(model.coef_[child], svm.coef_[0, :5], atol=1e-3)
    np.testing.assert_allclose(model.parent_coef_[child, given], svm.coef_[0, 5:], atol=1e-3)


def test_lead_parent_scale_is_that_of_the_feature(problem):
    X, Y = problem
    model = LEAD(C=1.0, parent_scale=10.0, tol=1e-8).fit(X, Y)
    child = int(np.flatnonzero(np.any(model.parent_coef_ != 0, axis=1))[0])
    given = np.flatnonzero(model.parent_coef_[child])
    svm = LinearSVC(dual=False, tol=1e-12).fit(np.column_stack([X, 10 * Y[:, given]]), Y[:, child])
    np.testing.assert_allclose(model.parent_coef_[child, given], 10 * svm.coef_[0, 5:], atol=1e-2)


def all_networks(n_labels, max_parents):
    """Every acyclic choice of parents, through every order."""
    for order in permutations(range(n_labels)):
        before = [list(order[: order.index(label)]) for label in range(n_labels)]
        choices = [
            [[k for k, used in zip(b, keep, strict=True) if used] for keep in product((0, 1), repeat=len(b))]
            for b in before
        ]
        for parents in product(*choices):
            if all(len(given) <= max_parents for given in parents):
                yield list(parents)


@pytest.mark.parametrize("max_parents", [1, 2])
def test_the_network_is_the_best_of_all(rng, max_parents):
    errors = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    best = max(network.network_score(errors, parents) for parents in all_networks(4, max_parents))
    order, parents = network.best_network(errors, max_parents)
    assert network.network_score(errors, parents) == pytest.approx(best, abs=1e-8)
    assert all(set(given) <= set(order[: order.index(label)]) for label, given in enumerate(parents))
    permuted = network.best_network(errors[:, [2, 0, 3, 1]], max_parents)[1]
    assert network.network_score(errors[:, [2, 0, 3, 1]], permuted) == pytest.approx(best, abs=1e-8)


def test_many_labels_are_linked_greedily(rng, monkeypatch):
    errors = rng.normal(size=(300, 24))
    errors[:, 1::2] += errors[:, ::2]
    order, parents = network.best_network(errors, 3)
    linked = {frozenset((label, p)) for label, given in enumerate(parents) for p in given}
    assert {frozenset((k, k + 1)) for k in range(0, 24, 2)} <= linked
    assert all(set(given) <= set(order[: order.index(label)]) for label, given in enumerate(parents))
    few = errors[:, :6]
    exact = network.network_score(few, network.best_network(few, 2)[1])
    monkeypatch.setattr(network, "EXACT_LABELS", 1)
    greedy = network.network_score(few, network.best_network(few, 2)[1])
    empty = network.network_score(few, [[]] * 6)
    assert empty < greedy <= exact + 1e-9


def test_a_copied_label_and_fewer_rows_than_labels(rng):
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
    model = LEAD().fit(X, np.column_stack([y, y, 1 - y]))
    assert np.isfinite(model.decision_function(X)).all()
    LEAD().fit(X[:5], (rng.permuted(np.tile([0, 1, 1, 0, 1], (9, 1)), axis=1)).T)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_softmax_is_scikit_learns(rng, form):
    X, code = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    softmax = SoftmaxProblem(Inputs(form(X), 1.0), code, 3, np.full(60, 0.7))
    W, gap = softmax.solve(1e-10)
    assert 0 <= gap <= 1e-10
    psi = np.column_stack([X, np.ones(60)])
    theirs = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-10, max_iter=2000).fit(psi, code)
    np.testing.assert_allclose(W - W.mean(axis=0), theirs.coef_ - theirs.coef_.mean(axis=0), atol=1e-3)
    bounds = softmax.bounds(rng.normal(size=W.shape))
    assert bounds.dual <= softmax.bounds(W).primal <= bounds.primal


@pytest.mark.parametrize(("pair", "normalised"), [("joint", False), ("joint", True), ("and", False)])
@pytest.mark.parametrize("tree", ["counts", "mutual_information"])
def test_plem_is_the_best_of_all_label_sets(problem, normalised, pair, tree):
    X, Y = problem
    model = PLEM(normalised=normalised, pair=pair, tree=tree).fit(X, Y)
    assert 0 <= model.piece_gap_ <= 1e-3
    nodes = X @ model.coef_.T + model.intercept_
    sets = np.array(list(product((0, 1), repeat=4)))
    degree = np.bincount(model.edges_.ravel(), minlength=4)
    share = 1.0 - degree if normalised else np.ones(4)
    for i, x in enumerate(X[:20]):
        values = -np.logaddexp(0.0, -(2 * sets - 1) * nodes[i]) @ share
        for edge, (a, b) in enumerate(model.edges_):
            logs = model._pair_logs(x[None], edge)[0]
            values += logs[2 * sets[:, a] + sets[:, b]]
        np.testing.assert_array_equal(model.predict(x[None])[0], sets[values.argmax()])


def test_plem_needs_joint_pairs_to_be_normalised(problem):
    with pytest.raises(InputError, match="needs the distributions of pairs"):
        PLEM(pair="and", normalised=True).fit(*problem)


def test_plem_pairs_are_probabilities_and_never_seen_states_are_rare(problem):
    X, Y = problem
    Y[:, 3] = Y[:, 3] * (1 - Y[:, 2])  # never together
    model = PLEM().fit(X, Y)
    for edge, (a, b) in enumerate(model.edges_):
        logs = model._pair_logs(X, edge)
        seen = model.pair_seen_[edge]
        np.testing.assert_allclose(np.exp(logs[:, seen]).sum(axis=1), 1.0, atol=1e-2)
        np.testing.assert_allclose(logs[:, ~seen], np.log(1e-4))
        np.testing.assert_array_equal(seen, np.isin([0, 1, 2, 3], Y[:, [a, b]] @ [2, 1]))


def test_plem_of_one_label_is_logistic_regression_and_its_tree_counts(problem):
    X, Y = problem
    single = PLEM(tol=1e-8).fit(X, Y[:, :1])
    logistic = BinaryRelevance(loss="logistic", tol=1e-8).fit(X, Y[:, :1])
    np.testing.assert_allclose(single.decision_function(X), logistic.decision_function(X), atol=1e-3)
    together = Y.T @ Y
    weight = sum(together[a, b] for a, b in PLEM().fit(X, Y).edges_)
    pairs = [(a, b) for b in range(4) for a in range(b)]
    trees = [t for t in product(pairs, repeat=3) if len(set(t)) == 3 and is_tree(t)]
    assert weight == max(sum(together[a, b] for a, b in t) for t in trees)


def is_tree(edges):
    group = list(range(4))
    for a, b in edges:
        if group[a] == group[b]:
            return False
        group = [group[a] if g == group[b] else g for g in group]
    return True
