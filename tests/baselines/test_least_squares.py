"""Ridge regression of labels, of random codes, and of principal components."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge, orthogonal_mp

from multimargin import certify, datasets, metrics
from multimargin.baselines import PLST, LeastSquaresLabels, _ridge
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._matching_pursuit import matching_pursuit
from multimargin.errors import InputError


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(50, 7)) * 10.0 ** rng.uniform(-2, 2, 7)
    return X, (rng.random((50, 6)) < 0.3).astype(int)


def assert_same_bounds(one, other):
    """Products of matrices may round otherwise where arrays lie elsewhere in memory."""
    assert (one.primal, one.dual) == pytest.approx((other.primal, other.dual), rel=1e-12)


@pytest.mark.parametrize("shape", [(50, 7), (12, 30)])
def test_plain_ridge_is_scikit_learns_with_the_constant_as_a_feature(rng, shape):
    X, weight = rng.normal(size=shape), rng.uniform(0.5, 2, shape[0])
    Y = (rng.random((shape[0], 4)) < 0.5).astype(int)
    model = LeastSquaresLabels(C=3.0, intercept_scaling=2.0).fit(X, Y, sample_weight=weight)
    psi = np.column_stack([X, np.full(len(X), 2.0)])
    ridge = Ridge(alpha=1 / 3, fit_intercept=False).fit(psi, Y, sample_weight=weight)
    np.testing.assert_allclose(model.decision_function(X), ridge.predict(psi) - 0.5, atol=1e-9)
    assert model.certificate_.converged
    assert_same_bounds(certify(model, X, Y, weight), model.certificate_)


def test_rows_of_no_weight_and_no_intercept(problem, rng):
    X, Y = problem
    weight = (rng.random(50) < 0.7).astype(float)
    a = LeastSquaresLabels(fit_intercept=False).fit(X, Y, sample_weight=weight)
    b = LeastSquaresLabels(fit_intercept=False).fit(X[weight > 0], Y[weight > 0])
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(a.intercept_, -0.5)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_large_systems_by_conjugate_gradients_have_a_certificate(rng, monkeypatch, form):
    X, Y = rng.normal(size=(60, 20)), (rng.random((60, 5)) < 0.4).astype(int)
    factored = LeastSquaresLabels(C=10).fit(form(X), Y)
    monkeypatch.setattr(_ridge, "LARGEST_SYSTEM", 3)
    stepwise = LeastSquaresLabels(C=10).fit(form(X), Y)
    assert stepwise.certificate_.converged
    np.testing.assert_allclose(stepwise.coef_, factored.coef_, atol=1e-3)
    monkeypatch.setattr(_ridge, "MOST_STEPS", 3)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        stopped = LeastSquaresLabels(C=10).fit(form(X), Y).certificate_
    assert stopped.dual < factored.certificate_.primal < stopped.primal  # no solution, and it knows
    assert not stopped.converged


@pytest.mark.parametrize("code", ["hadamard", "gaussian", "bernoulli"])
def test_regression_of_codes_is_codes_of_the_regression(problem, code):
    X, Y = problem
    plain = LeastSquaresLabels(C=0.1).fit(X, Y)
    coded = LeastSquaresLabels(C=0.1, n_codes=4, code=code, random_state=0).fit(X, Y)
    np.testing.assert_allclose(coded.coef_, coded.codes_ @ plain.coef_, atol=1e-9)
    np.testing.assert_allclose(coded.intercept_, coded.codes_ @ (plain.intercept_ + 0.5), atol=1e-9)
    assert_same_bounds(certify(coded, X, Y), coded.certificate_)


def test_as_many_codes_as_labels_lose_nothing(problem):
    X, Y = problem
    plain = LeastSquaresLabels().fit(X, Y).decision_function(X)
    coded = LeastSquaresLabels(n_codes=8, sparsity=6, random_state=0).fit(X, Y)
    np.testing.assert_allclose(coded.decision_function(X), plain, atol=1e-8)


def test_matching_pursuit_is_scikit_learns(rng):
    A, signals = rng.normal(size=(8, 15)), rng.normal(size=(40, 8))
    signals[0] = 0.0
    signals[1] = 2.0 * A[:, 3]  # ends after one step
    found = matching_pursuit(A, signals, 4)
    np.testing.assert_allclose(found[2:], orthogonal_mp(A, signals[2:].T, n_nonzero_coefs=4).T, atol=1e-9)
    assert not found[0].any()
    np.testing.assert_allclose(found[1], 2.0 * (np.arange(15) == 3), atol=1e-12)
    twins = np.column_stack([A[:, :3], A[:, :3]])
    assert np.isfinite(matching_pursuit(twins, signals, 6)).all()


def test_sparsity_is_the_mean_number_of_labels_and_codes_must_exist(problem):
    X, Y = problem
    model = LeastSquaresLabels(n_codes=5, random_state=0).fit(X, Y)
    assert model.sparsity_ == np.ceil(Y.sum(axis=1).mean())
    np.testing.assert_allclose(np.abs(model.codes_), 1 / np.sqrt(5))
    with pytest.raises(InputError, match="at most 8, the rows of the Hadamard matrix for 6 labels"):
        LeastSquaresLabels(n_codes=9).fit(X, Y)


def by_hand(X, Y, n_codes, ridge, conditional):
    """The authors' steps with dense matrices: scores of PLST or CPLST."""
    S = 2.0 * Y - 1.0
    mu = S.mean(axis=0)
    hat = X @ np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T) if conditional else np.eye(len(X))
    _, vectors = np.linalg.eigh((S - mu).T @ hat @ (S - mu))
    V = vectors[:, ::-1][:, :n_codes]
    psi = np.column_stack([X, np.ones(len(X))])
    W = np.linalg.solve(psi.T @ psi + ridge * np.eye(psi.shape[1]), psi.T @ (S - mu) @ V)
    return psi @ W @ V.T + mu


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("n_codes", [1, 3, 6])
def test_plst_is_its_formula(problem, n_codes, conditional):
    X, Y = problem
    model = PLST(C=5.0, n_codes=n_codes, conditional=conditional).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), by_hand(X, Y, n_codes, 0.2, conditional), atol=1e-8)
    assert model.certificate_.converged
    assert certify(model, X, Y).primal == pytest.approx(model.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("n_codes", [1, 3, 6])
def test_plst_bounds_its_training_errors(problem, n_codes):
    X, Y = problem
    model = PLST(n_codes=n_codes).fit(X, Y)
    S = 2.0 * Y - 1.0
    residual = (S - model.decision_function(X)) @ model.codes_
    _, singular, _ = np.linalg.svd(S - S.mean(axis=0))
    assert model.discarded_ == pytest.approx(np.sum(singular[n_codes:] ** 2), abs=1e-9)
    assert np.mean(model.predict(X) != Y) <= (np.sum(residual**2) + model.discarded_) / Y.size + 1e-12


def test_plst_takes_a_share_and_says_when_a_direction_is_arbitrary(rng):
    X = rng.normal(size=(40, 3))
    Y = np.tile(np.vstack([np.eye(3, dtype=int), np.zeros((1, 3), dtype=int)]), (10, 1))  # equal eigenvalues
    assert PLST(n_codes=0.9).fit(X, Y).codes_.shape == (3, 3)
    with pytest.warns(UserWarning, match="codes 1 and 2 hold equally much"):
        PLST(n_codes=1).fit(X, np.eye(4, dtype=int)[rng.permutation(40) % 4])
    with pytest.raises(InputError, match="number of labels, 3; got 4"):
        PLST(n_codes=4).fit(X, Y)


def test_plst_on_yeast_is_as_measured(data_home):
    """Hamming losses of the reference code's algorithm and ridge on the official split, to 0.02."""
    data = datasets.load("yeast")
    for conditional, published in ((False, (22.49, 20.58, 20.21)), (True, (21.79, 20.17, 20.30))):
        for n_codes, value in zip((1, 5, 10), published, strict=True):
            model = PLST(C=10, n_codes=n_codes, conditional=conditional).fit(data.X_train, data.Y_train)
            loss = 100 * metrics.hamming_loss(data.Y_test, model.predict(data.X_test))
            assert loss == pytest.approx(value, abs=0.02)


def test_inputs_are_rows_with_a_constant(rng):
    X, weight = rng.normal(size=(9, 4)), rng.random(9)
    psi = np.column_stack([X, np.full(9, 3.0)])
    for inputs in (Inputs(X, 3.0), Inputs(sp.csr_array(X), 3.0)):
        np.testing.assert_allclose(inputs.gram(weight), psi.T * weight @ psi)
        np.testing.assert_allclose(inputs.row_gram(), psi @ psi.T)
        np.testing.assert_allclose(inputs.squares(weight), weight @ psi**2)
        np.testing.assert_allclose(inputs.combined(X), X.T @ psi)
        np.testing.assert_allclose(inputs.scores(psi[:2]), psi @ psi[:2].T)
