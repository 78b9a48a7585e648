import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.baselines import RankSVM
from multimargin.baselines.rank_svm import threshold_targets
from multimargin.errors import InputError


def make_problem(rng, n=25, d=4, n_labels=4):
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0.3).astype(int)
    Y[0], Y[1], X[5] = 0, 1, 0.0
    return X, Y


def optimum(X, Y, C, bias):
    Xb = np.column_stack([X, np.full(len(X), bias)])
    W = cp.Variable((Xb.shape[1], Y.shape[1]))
    loss = 0
    for x, y in zip(Xb, Y, strict=True):
        on, off = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        for k in on:
            for n in off:
                loss += C / (len(on) * len(off)) * cp.pos(1 - x @ (W[:, k] - W[:, n]))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + loss))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_equals_cvxpy(rng, container, bias):
    X, Y = make_problem(rng)
    options = {"fit_intercept": bias > 0, "intercept_scaling": bias or 1.0, "tol": 1e-9, "max_iter": 100_000}
    model = RankSVM(C=0.7, **options).fit(container(X), Y)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(optimum(X, Y, 0.7, bias), rel=1e-6)
    assert np.all(model.history_.primal >= model.history_.dual)


def test_unknown_labels_are_in_no_pair(rng):
    X, Y = make_problem(rng)
    Y = np.where(rng.random(Y.shape) < 0.2, np.nan, Y)
    model = RankSVM(tol=1e-9, max_iter=100_000).fit(X, Y)
    assert model.certificate_.primal == pytest.approx(optimum(X, Y, 1.0, 1.0), rel=1e-6)


def test_decision_is_score_minus_threshold(rng):
    """A least-squares threshold leaves residuals at right angles to the scores."""
    X, Y = make_problem(rng, n=60)
    model = RankSVM(tol=1e-8, max_iter=100_000).fit(X, Y)
    decision, (slope, constant) = model.decision_function(X), (model.threshold_[:-1], model.threshold_[-1])
    # decision = s - slope.s - constant, hence s = decision + t with t = (slope.decision + constant) / (1 - sum(slope))
    t = (decision @ slope + constant) / (1 - slope.sum())
    scores = decision + t[:, None]
    targets = threshold_targets(scores, sp.csr_array(Y), sp.csr_array(1 - Y))
    np.testing.assert_allclose((targets - t).sum(), 0, atol=1e-6)
    np.testing.assert_allclose(scores.T @ (targets - t), 0, atol=1e-5)


def test_targets_split_a_row_with_the_fewest_errors():
    scores = np.array([[3.0, 1.0, 0.0], [3.0, 1.0, 0.0], [3.0, 1.0, 0.0], [3.0, 1.0, 0.0], [3.0, 1.0, 0.0]])
    Y = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    targets = threshold_targets(scores, sp.csr_array(Y), sp.csr_array(1 - Y))
    np.testing.assert_array_equal(targets, [2.0, 0.5, 4.0, -1.0, 0.5])


def test_constant_labels_and_weights(rng):
    X, Y = make_problem(rng)
    Y[:, 2] = 1
    with pytest.warns(UserWarning, match="label 2"):
        model = RankSVM().fit(X, Y)
    assert model.predict(5 * X)[:, 2].all()
    with pytest.raises(InputError, match="a weight per row"):
        RankSVM().fit(X, Y, sample_weight=np.ones(Y.shape))
