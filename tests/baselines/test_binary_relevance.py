import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from multimargin import LinearM3L, certify
from multimargin.baselines import BinaryRelevance, binary_relevance
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._smooth_losses import SMOOTH_LOSSES, SmoothProblem, _NewtonSystem
from multimargin.estimators import predictor

SMOOTH = sorted(SMOOTH_LOSSES)


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(80, 6)) + 0.5
    return X, (X @ rng.normal(size=(6, 5)) + rng.normal(size=(80, 5)) > 0.5).astype(int)


def objective(model, X, Y, cost, loss):
    """P in plain NumPy."""
    margins = np.where(Y == 1, 1.0, -1.0) * model.decision_function(X)
    values = {"squared_hinge": np.maximum(0, 1 - margins) ** 2, "logistic": np.log1p(np.exp(-margins))}[loss]
    norm = np.sum(model.coef_**2) + np.sum((model.intercept_ / model.intercept_scaling) ** 2)
    return 0.5 * norm + np.sum(cost * values)


def test_hinge_is_linear_m3l_without_a_prior(problem):
    X, Y = problem
    ours, m3l = BinaryRelevance(C=2.0, random_state=0).fit(X, Y), LinearM3L(C=2.0, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(ours.coef_, m3l.coef_)
    assert ours.certificate_ == m3l.certificate_
    assert certify(ours, X, Y).primal == ours.certificate_.primal


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
def test_squared_hinge_is_liblinear(problem, scale):
    X, Y = problem
    X = X * scale
    model = BinaryRelevance(C=0.7 / scale**2, loss="squared_hinge", tol=1e-10, intercept_scaling=scale).fit(X, Y)
    for label in range(5):
        svm = LinearSVC(C=0.7 / scale**2, dual=False, tol=1e-12, intercept_scaling=scale, max_iter=10_000)
        svm.fit(X, Y[:, label])
        np.testing.assert_allclose(model.decision_function(X)[:, label], svm.decision_function(X), atol=2e-4)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_logistic_is_scikit_learns_with_the_constant_as_a_feature(problem, form):
    X, Y = problem
    model = BinaryRelevance(C=0.7, loss="logistic", tol=1e-12, intercept_scaling=2.0).fit(form(X), Y)
    psi = np.column_stack([X, np.full(80, 2.0)])
    for label in range(5):
        regression = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-12, max_iter=1000).fit(psi, Y[:, label])
        scores = model.decision_function(form(X))[:, label]
        np.testing.assert_allclose(scores, regression.decision_function(psi), atol=1e-4)


@pytest.mark.parametrize("loss", SMOOTH)
def test_costs_of_cells_and_unknown_labels(problem, rng, loss):
    X, Y = problem
    cells = rng.uniform(0.2, 2.0, Y.shape)
    unknown = rng.random(Y.shape) < 0.2
    weights = [{0: 1.0, 1: 1.0 + label} for label in range(5)]
    model = BinaryRelevance(loss=loss, C=0.5, class_weight=weights, tol=1e-9)
    model.fit(X, np.where(unknown, np.nan, Y), sample_weight=cells)
    cost = 0.5 * cells * np.where(Y == 1, 1.0 + np.arange(5), 1.0) * ~unknown
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(objective(model, X, Y, cost, loss), rel=1e-12)
    again = certify(model, X, np.where(unknown, np.nan, Y), cells)
    assert again.proves == "gap"
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-12)
    better = BinaryRelevance(loss=loss, C=0.5, class_weight=weights, tol=1e-13)
    better.fit(X, np.where(unknown, np.nan, Y), sample_weight=cells)
    assert model.certificate_.dual <= better.certificate_.primal <= model.certificate_.primal


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("shape", [(90, 12), (15, 40)])
def test_features_of_any_scale_converge(rng, loss, shape):
    X = rng.normal(size=shape) * 10.0 ** rng.uniform(-4, 4, shape[1])
    Y = (rng.random((shape[0], 3)) < 0.4).astype(int)
    model = BinaryRelevance(loss=loss, tol=1e-6).fit(X, Y)
    assert model.certificate_.converged
    assert model.n_iter_ < 100


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_newton_systems_are_solved_in_every_way(rng, shape, form):
    inputs = Inputs(form(rng.normal(size=shape)), 2.0)
    curvature, right = rng.random((shape[0], 3)), rng.normal(size=(3, shape[1] + 1))
    curvature[:3] = 0.0
    expected = [
        np.linalg.solve(np.eye(shape[1] + 1) + inputs.gram(h), r) for h, r in zip(curvature.T, right, strict=True)
    ]
    system = _NewtonSystem(inputs, 3)
    system.direct = True
    np.testing.assert_allclose(system.solve(curvature, right), expected, atol=1e-10)
    values, vectors = inputs.spectrum()
    np.testing.assert_allclose((vectors * values) @ vectors.T, inputs.gram(np.ones(shape[0])), atol=1e-9)
    for spectrum in (None, inputs.spectrum()):
        system = _NewtonSystem(inputs, 3)
        system.spectrum = spectrum
        stepwise, converged = system._by_conjugate_gradients(curvature, right, 200)
        assert converged
        distance = np.linalg.norm(stepwise - expected, axis=1)
        assert np.all(distance < 0.3 * np.linalg.norm(expected, axis=1))
    equal = np.full((shape[0], 3), 0.7)  # the eigenvectors then solve the systems themselves
    exact = [np.linalg.solve(np.eye(shape[1] + 1) + inputs.gram(h), r) for h, r in zip(equal.T, right, strict=True)]
    np.testing.assert_allclose(system._by_conjugate_gradients(equal, right, 1)[0], exact, atol=1e-9)


def test_labels_are_solved_in_blocks(problem, monkeypatch):
    X, Y = problem
    whole = BinaryRelevance(loss="logistic", tol=1e-8).fit(X, Y)
    monkeypatch.setattr(predictor, "BLOCK_BYTES", 8 * 80 * 2)  # two labels at a time
    seen = []
    blocks = BinaryRelevance(loss="logistic", tol=1e-8, callback=lambda p: seen.append(p) and None).fit(X, Y)
    np.testing.assert_allclose(blocks.coef_, whole.coef_, atol=1e-3)
    assert blocks.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-7)
    assert len(list(binary_relevance.BinaryRelevance._label_blocks(whole._problem(X, Y, None)))) == 3
    assert [p.pass_ for p in seen] == list(range(1, len(seen) + 1))
    assert all(p.primal is None for p in seen)


@pytest.mark.parametrize("loss", SMOOTH)
def test_limits_and_callback(problem, loss):
    X, Y = problem
    with pytest.warns(ConvergenceWarning, match="after 1 passes .* Increase max_iter"):
        BinaryRelevance(loss=loss, C=100, tol=1e-12, max_iter=1).fit(X, Y)
    seen = []
    model = BinaryRelevance(loss=loss, C=100, tol=1e-12, callback=lambda p: seen.append(p) or len(seen) == 2)
    model.fit(X, Y)
    assert model.n_iter_ == 2
    assert all(p.dual <= p.primal for p in seen)
    assert not model.certificate_.converged


def test_any_weights_have_a_certificate(problem, rng):
    """The dual variables of arbitrary weights are feasible: their value never exceeds the optimum."""
    X, Y = problem
    sign = np.where(Y == 1, 1.0, -1.0)
    for loss in SMOOTH:
        best = BinaryRelevance(loss=loss, tol=1e-10).fit(X, Y).certificate_.primal
        smooth = SmoothProblem(Inputs(X, 1.0), sign, np.ones((80, 1)), SMOOTH_LOSSES[loss])
        for scale in (0.1, 1.0, 5.0):
            bounds = smooth.bounds(scale * rng.normal(size=(5, 7)))
            assert bounds.dual <= best * (1 + 1e-9) <= bounds.primal * (1 + 1e-8)
