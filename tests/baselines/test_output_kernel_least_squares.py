import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from multimargin import certify
from multimargin.baselines import OutputKernelLeastSquares
from multimargin.errors import InputError


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(40, 5))
    return X, (X @ rng.normal(size=(5, 4)) + rng.normal(size=(40, 4)) > 0).astype(int)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0), (0.2, 0.5, 2.0)])
def test_scores_are_ridge_regression_whatever_the_polynomial(problem, weights):
    X, Y = problem
    model = OutputKernelLeastSquares(
        C=5.0, label_degree=len(weights), label_weights=weights, decision="paper", fit_intercept=False
    ).fit(X, Y)
    ridge = Ridge(alpha=0.2, fit_intercept=False).fit(X, Y).predict(X)
    np.testing.assert_allclose(model.decision_function(X) + 0.5, sum(weights) * ridge, atol=1e-10)
    model.set_params(decision="ridge").fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), ridge > 0.5)


def test_objective_is_that_of_ridge_regression(problem):
    X, Y = problem
    model = OutputKernelLeastSquares(C=5.0, label_degree=1, fit_intercept=False).fit(X, Y)
    W = Ridge(alpha=0.2, fit_intercept=False).fit(X, Y).coef_
    value = 0.5 * np.sum(W**2) + 2.5 * np.sum((Y - X @ W.T) ** 2)
    assert model.certificate_.primal == pytest.approx(value)
    assert model.certificate_.dual == pytest.approx(value)


def test_preimage_is_the_nearest_training_set(problem):
    X, Y = problem
    model = OutputKernelLeastSquares(C=5.0, label_weights=(1.0, 1.0), decision="preimage", fit_intercept=False)
    model.fit(X, Y)

    def phi(S):
        pairs = np.stack([S[:, a] * S[:, b] for a in range(4) for b in range(a)], axis=1)
        return np.column_stack([np.sqrt(2) * S, np.sqrt(2) * pairs])

    predicted = Ridge(alpha=0.2, fit_intercept=False).fit(X, phi(Y)).predict(X)
    distance = ((predicted[:, None] - phi(Y)[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(model.predict(X), Y[distance.argmin(axis=1)])
    np.testing.assert_array_equal(model.predict_with_scores(X)[0], model.predict(X))


def test_kernels_and_sparse_inputs_agree(problem):
    X, Y = problem
    a = OutputKernelLeastSquares(kernel="rbf", gamma=0.1).fit(X, Y).decision_function(X)
    K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    b = OutputKernelLeastSquares(kernel="precomputed").fit(K, Y).decision_function(K)
    c = OutputKernelLeastSquares(kernel="rbf", gamma=0.1).fit(sp.csr_array(X), Y).decision_function(sp.csr_array(X))
    np.testing.assert_allclose(a, b)
    np.testing.assert_allclose(a, c)


@pytest.mark.parametrize("decision", ["ridge", "paper", "preimage"])
def test_constant_labels_are_predicted_constant(problem, decision):
    X, Y = problem
    Y = np.column_stack([Y, np.zeros(40, int), np.ones(40, int)])
    with pytest.warns(UserWarning, match="labels 4, 5"):
        model = OutputKernelLeastSquares(decision=decision).fit(X, Y)
    assert not model.predict(3 * X)[:, 4].any()
    assert model.predict(3 * X)[:, 5].all()


def test_unknown_labels_are_refused(problem):
    X, Y = problem
    with pytest.raises(InputError, match="unknown cells"):
        OutputKernelLeastSquares().fit(X, np.where(Y == 1, np.nan, Y))


@pytest.mark.parametrize("decision", ["ridge", "paper", "preimage"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
def test_certificate_is_that_of_the_data(problem, decision, scale):
    X, Y = problem
    X, weight = scale * X, np.arange(40.0)
    model = OutputKernelLeastSquares(C=5.0, label_weights=(1.0, 1.0), decision=decision).fit(X, Y, weight)
    again, told = certify(model, X, Y, weight), model.certificate_
    assert (again.primal, again.dual) == pytest.approx((told.primal, told.dual), rel=1e-12)
    Z, cost, T = np.column_stack([X, np.ones(40)])[1:], 5.0 * weight[1:], Y[1:]
    sets = np.unique(T, axis=0) if decision == "preimage" else np.eye(4)
    primal = 0.0
    for s in sets:
        common = T @ s
        target, length = common + common**2, s.sum() + s.sum() ** 2
        w = np.linalg.solve(Z.T @ (cost[:, None] * Z) + np.eye(6), Z.T @ (cost * target))
        primal += (0.5 * w @ w + 0.5 * cost @ (target - Z @ w) ** 2) / max(length, 1)
    # C |x|^2 is 1e9 at the largest scale: the certifier's sums lose up to 5e-8 there (six draws)
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-8 if scale <= 1 else 1e-7)
    assert model.certificate_.converged


def test_what_cannot_be_solved_is_refused(problem):
    X, Y = problem
    with pytest.raises(InputError, match="must not exceed 1e"):
        OutputKernelLeastSquares(kernel="poly", degree=9, gamma=1.0).fit(1e40 * X, Y)
    with pytest.raises(InputError, match="plus the ridge"):
        OutputKernelLeastSquares(C=1e9).fit(1e9 * X, Y)
