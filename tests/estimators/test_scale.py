"""Fits over twelve decades of feature scale and of C: what they state is true, and no constant feature is lost."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from multimargin import KernelM3L, LinearM3L, certify
from multimargin.errors import FitError, InputError
from multimargin.priors import LowRankPrior

pytestmark = pytest.mark.filterwarnings("ignore::multimargin.errors.DecisionWarning")  # tiny features tell little
SCALES = [1e-6, 1e-3, 1e-2, 1.0, 1e3, 1e6]
COUPLED = 0.7 * np.eye(4) + 0.3


def problem(scale, rows=120, features=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    Y = (X @ rng.normal(size=(features, 4)) + 2 * rng.normal(size=(rows, 4)) > 0.7).astype(int)
    return scale * X, Y


def linear_objective(model, X, Y, R):
    """P of the returned weights in plain NumPy."""
    bias = model.intercept_scaling
    coef, intercept = model.coef_.astype(float), model.intercept_.astype(float)
    Z = np.column_stack([coef, intercept / bias])
    scores = X.astype(float) @ coef.T + intercept
    hinge = np.maximum(0.0, 1.0 - np.where(Y > 0, 1, -1) * scores).sum()
    return 0.5 * np.sum(Z * np.linalg.solve(R, Z)) + model.C_ * hinge


@pytest.mark.parametrize("scale", SCALES[:-1])  # at 1e6, C |x|^2 is 5e12: not every problem is solved in 1000 passes
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("prior", [None, COUPLED])
def test_linear_fits_reach_the_tolerance_at_every_scale_of_the_features(scale, dtype, prior):
    X, Y = problem(scale)
    X = X.astype(dtype)
    model = LinearM3L(prior=prior, random_state=0).fit(X, Y)  # a warning would be an error
    R = np.eye(4) if prior is None else prior
    assert model.certificate_.primal == pytest.approx(linear_objective(model, X, Y, R), rel=1e-9)
    assert model.certificate_.converged


@pytest.mark.parametrize("C", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("prior", [None, COUPLED, LowRankPrior(np.ones((4, 1)))])
def test_what_is_stated_is_true_for_every_C(C, prior):
    for scale in (1e-6, 1.0, 1e6):
        X, Y = problem(scale)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LinearM3L(C=C, prior=prior, warm_start=True, random_state=0).fit(X.astype(np.float32), Y)
        stated, again = model.certificate_, certify(model, X.astype(np.float32), Y)
        assert (stated.primal, stated.dual) == pytest.approx((again.primal, again.dual), rel=1e-9)
        assert stated.dual <= stated.primal * (1 + 1e-6)
        assert stated.converged == (stated.relative_gap <= model.tol)


@pytest.mark.parametrize("scale", SCALES[:4])
@pytest.mark.parametrize("prior", [None, COUPLED])
@pytest.mark.parametrize("features", [5, 150])
def test_an_intercept_takes_about_as_many_passes_as_a_column_of_ones(scale, prior, features):
    X, Y = problem(scale, features=features)
    own = LinearM3L(1.0, prior=prior, random_state=0).fit(X, Y)
    column = LinearM3L(1.0, prior=prior, fit_intercept=False, random_state=0).fit(np.column_stack([X, np.ones(120)]), Y)
    assert own.certificate_.dual <= column.certificate_.primal
    assert column.certificate_.dual <= own.certificate_.primal
    assert own.n_iter_ <= 4 * column.n_iter_


@pytest.mark.parametrize(
    ("scaling", "scale"), [(1e-3, 1e-6), (1e-3, 1.0), (1.0, 1e-6), (10.0, 1e-5), (1e3, 1e-3), (1e3, 1.0), (1e6, 1.0)]
)
@pytest.mark.parametrize("prior", [None, COUPLED])
def test_an_intercept_of_any_scaling_is_found(scaling, scale, prior):
    X, Y = problem(scale, rows=30, features=40)
    model = LinearM3L(prior=prior, intercept_scaling=scaling, random_state=0).fit(X, Y)
    R = np.eye(4) if prior is None else prior
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(linear_objective(model, X, Y, R), rel=1e-9)


def test_the_newton_finish_never_states_a_dual_value_above_the_objective():
    rng = np.random.default_rng(1)
    for seed in range(8):
        X, Y = problem(3000.0, rows=60, features=3, seed=seed)
        prior = LowRankPrior(rng.normal(size=(4, 1)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            certificate = LinearM3L(C=1e5, prior=prior, tol=1e-9, random_state=0).fit(X, Y).certificate_
        assert certificate.gap >= -1e-9 * certificate.primal or not certificate.converged


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize("prior", [None, COUPLED])
def test_kernel_models_are_certified_as_they_are_returned(kernel, C, prior):
    for scale in (1e-3, 1.0, 1e3):
        X, Y = problem(scale, rows=50)
        X = X.astype(np.float32)
        model = KernelM3L(C=C, kernel=kernel, prior=prior, time_limit=5, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, Y)
        Z = X.astype(float)
        K = Z @ Z.T
        if kernel == "rbf":
            K = np.exp(-model.gamma_ * (np.diag(K)[:, None] + np.diag(K) - 2 * K))
        A = np.zeros((50, 4))
        A[model.support_] = model.dual_coef_
        w, R = model.intercept_.astype(float), np.eye(4) if prior is None else prior
        loss = C * np.maximum(0.0, 1.0 - np.where(Y > 0, 1, -1) * (K @ A + w)).sum()
        norm = np.sum(A * (K @ A @ np.linalg.inv(R))) + w @ np.linalg.solve(R, w)
        assert model.certificate_.primal == pytest.approx(0.5 * norm + loss, rel=1e-6)
        assert certify(model, X, Y).primal == pytest.approx(model.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("Estimator", [LinearM3L, KernelM3L])
def test_numbers_beyond_floating_point_give_no_model(Estimator):
    X, Y = problem(1.0)
    huge = X.copy()
    huge[3, 2] = 1e160
    with pytest.raises(InputError, match="column 2 of X reaches 1e[+]160"):
        Estimator().fit(huge, Y)
    with pytest.raises(InputError, match="cost of a cell"):
        Estimator(C=1e300).fit(X, Y)
    with pytest.raises(InputError, match="cost of a cell"):
        Estimator(C=1e-155).fit(X, Y)
    with pytest.raises(InputError, match="cost of a cell"):
        Estimator().fit(X, Y, sample_weight=np.full(len(X), 1e200))


def test_a_solution_that_is_not_finite_is_an_error_and_leaves_the_model_as_it_was(monkeypatch):
    X, Y = problem(1.0)
    model = LinearM3L(random_state=0).fit(X, Y)
    before = dict(vars(model))
    solve = LinearM3L._solve

    def broken(self, task, last, monitor):
        found = solve(self, task, last, monitor)
        return replace(found, bounds=replace(found.bounds, primal=np.nan))

    monkeypatch.setattr(LinearM3L, "_solve", broken)
    with pytest.raises(FitError, match="no finite solution"):
        model.fit(2 * X, Y)
    assert vars(model).keys() == before.keys()
    assert model.coef_ is before["coef_"]
