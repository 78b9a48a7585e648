from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from multimargin import certify
from multimargin.baselines import MMOC, BinaryRelevance, LeastSquaresLabels
from multimargin.baselines._mean_field import mean_field
from multimargin.baselines._metric_oracles import BoxOracle, SetOracle
from multimargin.errors import InputError

SETS = np.array(list(product((0.0, 1.0), repeat=3)))


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(25, 2))
    return X, (X @ rng.normal(size=(2, 3)) + rng.normal(size=(25, 3)) > 0).astype(int)


def optimum(predicted, truth, cost):
    """The problem with a constraint for every row and label set, by a general solver."""
    Q = cp.Variable((3, 3), PSD=True)
    slack = cp.Variable(len(truth), nonneg=True)
    constraints = []
    for i, (r, y) in enumerate(zip(predicted, truth, strict=True)):
        for other in SETS:
            P = np.outer(r - other, r - other) - np.outer(r - y, r - y)
            constraints.append(cp.sum(cp.multiply(Q, P)) >= np.abs(other - y).sum() - slack[i])
    value = 0.5 * cp.sum_squares(Q) + cost @ slack
    return cp.Problem(cp.Minimize(value), constraints).solve(solver=cp.CLARABEL), Q.value


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_the_metric_is_the_optimum(problem, rng, C):
    X, Y = problem
    weight = rng.uniform(0.5, 1.5, 25)
    model = MMOC(C=C, regression_C=2.0, tol=1e-5).fit(X, Y, sample_weight=weight)
    ridge = LeastSquaresLabels(C=2.0).fit(X, Y, sample_weight=weight)
    best, Q = optimum(ridge.decision_function(X) + 0.5, Y.astype(float), C * weight)
    assert model.certificate_.converged
    assert model.certificate_.oracle_exact == 1.0
    assert model.certificate_.dual <= best * (1 + 1e-6)
    assert model.certificate_.primal == pytest.approx(best, rel=2e-5)
    np.testing.assert_allclose(model.metric_, Q, atol=0.02 * np.abs(Q).max())


@pytest.mark.parametrize("decoding", ["combined", "nearest"])
def test_decoding_is_the_best_of_all_label_sets(problem, decoding):
    X, Y = problem
    model = MMOC(C=1.0, decoding=decoding).fit(X, Y)
    r = LeastSquaresLabels(C=1.0).fit(X, Y).decision_function(X) + 0.5
    Q = model.metric_
    if decoding == "combined":
        values, vectors = np.linalg.eigh(Q)
        kept = values > 1e-6 * values.max()
        V = vectors[:, kept] * np.sqrt(values[kept])
        A = (V / np.mean(((Y - r) @ V) ** 2, axis=0)) @ V.T
        logits = BinaryRelevance(C=1.0, loss="logistic", tol=1e-9).fit(X, Y).decision_function(X)
    else:
        A, logits = Q, np.zeros(r.shape)
    for i, row in enumerate(r):
        energy = 0.5 * np.sum((SETS - row) @ A * (SETS - row), axis=1) - SETS @ logits[i]
        expected = [energy[SETS[:, k] == 0].min() - energy[SETS[:, k] == 1].min() for k in range(3)]
        np.testing.assert_allclose(model.decision_function(X[i : i + 1])[0], expected, atol=1e-2)


@pytest.mark.parametrize("decoding", ["combined", "nearest"])
def test_a_metric_of_zero_leaves_the_label_classifiers(decoding):
    """Predictions near zero are nearer to the wrong label sets, in any metric."""
    X, Y = np.zeros((10, 1)), np.repeat([[1], [0]], [6, 4], axis=0)
    with pytest.warns(UserWarning, match="metric is zero at C=0.1: label classifiers alone decide"):
        model = MMOC(regression_C=1e-3, decoding=decoding).fit(X, Y)
    assert model.predict(X).all()


def test_held_out_predictions_and_limits(problem, rng):
    X, Y = problem
    a, b = MMOC(folds=5).fit(X, Y), MMOC().fit(X, Y)
    assert not np.allclose(a.metric_, b.metric_)
    with pytest.raises(InputError, match="folds must be 0, or between 2 and the number of rows, 25; got 1"):
        MMOC(folds=1).fit(X, Y)
    with pytest.raises(InputError, match='at most 20 labels that vary; got 21. Choose inference="box"'):
        MMOC(inference="exact").fit(rng.normal(size=(30, 2)), (rng.random((30, 21)) < 0.5).astype(int))


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_box_is_searched_to_its_bound(rng, rank, scale):
    """Against a general solver, row by row, and never below the best label set."""
    V = rng.normal(size=(3, rank))
    Q, predicted, truth = scale * V @ V.T, rng.normal(0.5, 0.7, size=(12, 3)), (rng.random((12, 3)) < 0.4).astype(float)
    found = BoxOracle(1e-6).find(Q, predicted, truth)
    sets = SetOracle(3, 1).find(Q, predicted, truth)
    for i, (r, t) in enumerate(zip(predicted, truth, strict=True)):

        def value(y, r=r, t=t):
            return np.abs(y - t).sum() - (r - y) @ Q @ (r - y)

        y = cp.Variable(3)
        objective = (1 - 2 * t) @ y - scale * cp.sum_squares(V.T @ (r - y))
        best = cp.Problem(cp.Maximize(objective), [y >= 0, y <= 1]).solve(solver=cp.CLARABEL) + t.sum()
        size = 1 + abs(best)
        assert value(found.chosen[i]) <= best + 1e-6 * size
        assert value(found.chosen[i]) + found.slack[i] >= best - 1e-6 * size
        assert (
            scale > 1 or found.slack[i] <= 1e-4 * size
        )  # a metric that no data ask for: many sweeps, bounds that hold
        assert value(found.chosen[i]) + found.slack[i] >= value(sets.chosen[i]) - 1e-9
        if found.exact[i]:
            assert value(sets.chosen[i]) == pytest.approx(value(found.chosen[i]), abs=1e-9 * size)
    assert rank or found.exact.all()


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_the_relaxed_metric_is_the_optimum(problem, rng, C):
    """Minimum over metrics of maxima over boxes: the maximum over a point for each row of the minimum over metrics."""
    X, Y = problem
    weight = rng.uniform(0.5, 1.5, 25)
    model = MMOC(C=C, regression_C=2.0, tol=1e-5, inference="box").fit(X, Y, sample_weight=weight)
    r = LeastSquaresLabels(C=2.0).fit(X, Y, sample_weight=weight).decision_function(X) + 0.5

    def negative(flat):
        other, own = r - flat.reshape(Y.shape), r - Y
        cost = C * weight[:, None]
        values, vectors = np.linalg.eigh((cost * other).T @ other - (cost * own).T @ own)
        Q = (vectors * np.maximum(values, 0)) @ vectors.T
        value = np.sum(cost * np.abs(flat.reshape(Y.shape) - Y)) - 0.5 * np.sum(Q**2)
        return -value, -(cost * ((1 - 2 * Y) + 2 * other @ Q)).ravel()

    found = minimize(
        negative, 0.5 * np.ones(Y.size), jac=True, method="L-BFGS-B", bounds=[(0, 1)] * Y.size, options={"ftol": 1e-14}
    )
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(-found.fun, rel=2e-5)
    assert model.certificate_.dual <= -found.fun * (1 + 1e-6)
    exact = MMOC(C=C, regression_C=2.0, tol=1e-5).fit(X, Y, sample_weight=weight)
    assert model.certificate_.primal >= exact.certificate_.dual
    assert certify(model, X, Y, weight).primal == pytest.approx(model.certificate_.primal, rel=1e-9)


def test_the_order_of_labels_and_the_layout_do_not_matter_in_the_box(problem):
    X, Y = problem
    model, turned = (
        MMOC(C=0.5, inference="box", tol=1e-6).fit(x, y) for x, y in ((X, Y), (sp.csr_array(X), Y[:, ::-1]))
    )
    assert turned.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-6)
    np.testing.assert_allclose(turned.metric_[::-1, ::-1], model.metric_, atol=1e-2 * np.abs(model.metric_).max())


def test_more_labels_than_can_be_searched(rng):
    X = rng.normal(size=(80, 4))
    Y = (X @ rng.normal(size=(4, 24)) + rng.normal(size=(80, 24)) > 0).astype(int)
    Y = np.column_stack([Y, np.zeros(80, dtype=int)])
    with pytest.warns(UserWarning, match="[Cc]onstant predictions"):
        model = MMOC(C=0.02).fit(X, Y)
    assert model.certificate_.converged
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores[:7], model.decision_function(X[:7]), atol=1e-6)
    assert np.mean((scores > 0)[:, :24] == Y[:, :24]) > 0.75
    means, single = np.tanh(scores / 2), X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(scores[:, :24], 2 * (single + means @ model.pair_weights_)[:, :24], atol=1e-6)


def test_the_mean_field_without_pairs_is_the_distribution(rng):
    single = rng.normal(size=(5, 3))
    np.testing.assert_array_equal(mean_field(single, np.zeros((0, 2), int), np.zeros((1, 0))), 2 * single)


def test_the_mean_field_is_no_worse_than_it_began(rng):
    """Divergence from the distribution, by enumeration; it began where labels ignore each other."""
    single, weights = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    signs = 2 * SETS - 1
    scores = signs @ single.T + (signs[:, pairs[:, 0]] * signs[:, pairs[:, 1]]) @ weights.T

    def divergence(log_odds):
        p = np.prod(1 / (1 + np.exp(-signs[:, None, :] * log_odds)), axis=2)
        return np.sum(p * (np.log(p) - scores), axis=0)

    assert np.all(divergence(mean_field(single, pairs, weights)) <= divergence(2 * single) + 1e-12)
