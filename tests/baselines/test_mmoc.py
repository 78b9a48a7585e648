from itertools import product

import cvxpy as cp
import numpy as np
import pytest

from multimargin.baselines import MMOC, BinaryRelevance, LeastSquaresLabels
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
    with pytest.raises(InputError, match="at most 20 labels that vary; got 21"):
        MMOC().fit(rng.normal(size=(30, 2)), (rng.random((30, 21)) < 0.5).astype(int))
