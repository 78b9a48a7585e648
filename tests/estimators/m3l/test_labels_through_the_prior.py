"""Labels without a training example, or with a single value in training, and a prior that ties them to others."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

from multimargin import KernelM3L, LinearM3L, ZeroShotClassifier, certify
from multimargin.priors import LowRankPrior

TIED = np.array([[1.0, 0.4, -0.3], [0.4, 1.0, 0.2], [-0.3, 0.2, 1.0]])


@pytest.fixture
def data(rng):
    X = rng.normal(size=(50, 4))
    Y = (X @ rng.normal(size=(4, 3)) > 0).astype(float)
    return X, Y


@pytest.mark.parametrize("Estimator", [LinearM3L, lambda **k: KernelM3L(kernel="linear", **k)])
def test_a_label_never_observed_gets_its_score_from_the_others(Estimator, data):
    """z_l = R_lo v_o and z_o = R_oo v_o, so z_l is a fixed mixture of the others' scores."""
    X, Y = data
    Y[:, 1] = np.nan
    model = Estimator(prior=TIED, tol=1e-6, random_state=0).fit(X, Y)
    scores = model.decision_function(X)
    others = [0, 2]
    mixture = np.linalg.solve(TIED[np.ix_(others, others)], TIED[others, 1])
    np.testing.assert_allclose(scores[:, 1], scores[:, others] @ mixture, atol=1e-5)
    assert not len(model.constant_labels_)
    assert certify(model, X, Y).primal == pytest.approx(model.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("low_rank", [False, True])
def test_the_terms_of_a_constant_label_stay_in_the_problem(data, value, low_rank):
    X, Y = data
    Y[:, 2] = value
    prior = LowRankPrior(np.array([[1.0, 0.0], [0.6, 0.8], [-0.3, 0.7]]), 0.1) if low_rank else TIED
    R = prior.toarray() if low_rank else prior
    model = LinearM3L(C=0.1, prior=prior, tol=1e-7, random_state=0).fit(X, Y)
    Z, sign = cp.Variable((5, 3)), np.where(Y > 0, 1.0, -1.0)
    whitened = Z @ np.linalg.inv(np.linalg.cholesky(R)).T
    scores = np.column_stack([X, np.ones(50)]) @ Z
    objective = 0.5 * cp.sum_squares(whitened) + 0.1 * cp.sum(cp.pos(1 - cp.multiply(sign, scores)))
    optimum = cp.Problem(cp.Minimize(objective)).solve()
    assert model.certificate_.primal == pytest.approx(optimum, rel=1e-5)
    assert not len(model.constant_labels_)


@pytest.mark.parametrize("Estimator", [LinearM3L, KernelM3L])
@pytest.mark.parametrize("prior", [None, np.eye(3), np.array([[1.0, 0.5, 0], [0.5, 1.0, 0], [0, 0, 2.0]])])
def test_without_a_tie_a_constant_label_is_predicted_constant(Estimator, data, prior):
    X, Y = data
    Y[:, 2] = 1.0
    with pytest.warns(UserWarning, match="Constant in training: label 2"):
        model = Estimator(prior=prior, random_state=0).fit(X, Y)
    assert model.constant_labels_.tolist() == [2]
    assert (model.decision_function(X)[:, 2] == 1.0).all()
    assert certify(model, X, Y).primal == pytest.approx(model.certificate_.primal, rel=1e-9)


def test_a_tie_to_labels_of_which_nothing_is_known_is_none(data):
    X, Y = data
    Y[:, 1:] = np.nan
    prior = np.array([[1.0, 0, 0], [0, 1.0, 0.5], [0, 0.5, 1.0]])
    with pytest.warns(UserWarning, match="Constant in training: labels 1, 2"):
        model = LinearM3L(prior=prior, random_state=0).fit(X, Y)
    assert (model.predict(X)[:, 1:] == 0).all()


def test_attributes_constant_over_the_seen_categories_are_not_constant_in_zero_shot(rng):
    signatures = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]])
    category = rng.integers(0, 2, size=80)  # the third attribute is 1 in both
    X = signatures[category] @ rng.normal(size=(4, 6)) + 0.3 * rng.normal(size=(80, 6))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*frequen")
        model = ZeroShotClassifier(LinearM3L(C=1.0, random_state=0), signatures).fit(X, category)
    assert not len(model.estimator_.constant_labels_)
    assert len(np.unique(model.decision_function(X).round(6), axis=0)) > 1
