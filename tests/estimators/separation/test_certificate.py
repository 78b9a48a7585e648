"""Certificates of the separation estimators against plain NumPy, at every scale, and what is refused."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from recompute import LABEL_KERNEL, separation
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from multimargin import CalibratedSeparationClassifier, OutputKernelClassifier, certify, load, save
from multimargin.errors import FitError, InputError
from multimargin.estimators.separation import certifier

BOTH = [CalibratedSeparationClassifier, OutputKernelClassifier]


def make_problem(rng, n=24, d=4, n_labels=4):
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0.3).astype(float)
    return X, Y


def silently(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_many_label_sets_are_certified_by_factors_of_their_kernel(rng, monkeypatch, kernel):
    X, Y = make_problem(rng, 60, 4, 7)
    model = silently(OutputKernelClassifier(kernel=kernel, max_iter=20, warm_start=True, random_state=0), X, Y)
    plain = certify(model, X, Y)
    monkeypatch.setattr(certifier, "MANY_ATOMS", 0)
    factored = certify(model, X, Y)
    assert (factored.primal, factored.dual) == pytest.approx((plain.primal, plain.dual), rel=1e-11)


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("solver", ["rows", "admm", "interior", "auto"])
def test_certificates_are_those_of_the_data(rng, Estimator, kernel, solver):
    for case in range(4):
        n_labels = int(rng.integers(1, 9))
        X, Y = make_problem(rng, int(rng.integers(1, 25)), 4, n_labels)
        X *= 10 ** rng.uniform(-6, 6)
        if kernel == "precomputed":
            X = X @ X.T
        if case % 2:
            Y[rng.random(Y.shape) < 0.2] = np.nan
            Y[0, 0] = 1.0
        weight = rng.integers(0, 3, size=len(Y)).astype(float) if case % 3 else np.ones(len(Y))
        weight[0] = 1.0
        X = X.astype([np.float64, np.float32][int(rng.integers(2))])
        X = sp.csr_array(X) if rng.random() < 0.5 else X
        options = {"label_weights": LABEL_KERNEL, "decision": ["paper", "consistent"][case % 2]}
        model = Estimator(
            C=10 ** rng.uniform(-4, 4),
            kernel=kernel,
            gamma=0.2,
            solver=solver,
            max_iter=100,
            fit_intercept=bool(rng.integers(2)),
            intercept_scaling=10 ** rng.uniform(-1, 2),
            warm_start=True,
            random_state=0,
            **(options if Estimator is OutputKernelClassifier else {}),
        )
        silently(model, X, Y, weight)
        stated = model.certificate_
        again = certify(model, X, Y, weight)
        assert again.primal == pytest.approx(stated.primal, rel=1e-9)
        assert again.dual == pytest.approx(stated.dual, rel=1e-9)
        assert (model.history_.primal[-1], model.history_.dual[-1]) == (stated.primal, stated.dual)
        assert model.history_.pass_[-1] == model.n_iter_
        assert stated.gap >= -1e-9 * stated.primal
        assert stated.converged == (-1e-9 <= stated.relative_gap <= model.tol)
        if model.n_atoms_:
            primal, dual, *rounding = separation(model, X, Y, weight)
            assert stated.primal == pytest.approx(primal, rel=1e-8, abs=rounding[0])
            assert stated.dual == pytest.approx(dual, rel=1e-8, abs=rounding[1] + 1e-9 * primal)


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e2, 1e4, 1e6])
def test_every_scale_converges(rng, Estimator, scale):
    X, Y = make_problem(rng, 60, 6, 5)
    for C in (1e-4, 1.0, 1e4):
        model = Estimator(C=C, random_state=0).fit(scale * X, Y)
        assert model.certificate_.converged


def test_mixed_columns_converge(rng):
    X, Y = make_problem(rng, 60, 6, 5)
    X = np.column_stack([X * [1e5, 300.0, 1.0, 1e-3, 0.0, 1.0], X[:, 1]])  # a column of zeros and a copy, too
    model = OutputKernelClassifier(random_state=0).fit(X, Y)
    assert model.certificate_.converged


@pytest.mark.parametrize("Estimator", BOTH)
def test_alternating_directions_take_the_model_from_the_copy_without_cancellation(rng, Estimator):
    """The weights of the feasible copy alone leave a gap near 1 here."""
    X, Y = make_problem(rng, 40, 4, 3)
    model = Estimator(C=1.0, solver="admm", random_state=0).fit(100 * X, Y)
    assert model.certificate_.converged


def test_a_model_too_coarse_in_single_precision_is_kept_in_double(rng):
    X, Y = make_problem(rng, 60, 4, 3)
    K = (1e7 * rbf_kernel(X, gamma=0.5)).astype(np.float32)
    model = silently(CalibratedSeparationClassifier(C=1.0, kernel="precomputed", warm_start=True, random_state=0), K, Y)
    assert model.dual_coef_.dtype == np.float64
    assert model.certificate_.primal == pytest.approx(separation(model, K, Y, np.ones(60))[0], rel=1e-8)
    easy = CalibratedSeparationClassifier(C=1.0, random_state=0).fit(X.astype(np.float32), Y)
    assert easy.coef_.dtype == np.float32


def test_a_kernel_matrix_that_rounding_made_indefinite_gives_no_model(rng):
    X, Y = make_problem(rng, 16, 3, 4)
    K = (1e12 * X @ X.T).astype(np.float32)
    with pytest.raises(InputError, match="positive semidefinite"):
        CalibratedSeparationClassifier(C=10.0, kernel="precomputed", solver="admm", random_state=0).fit(K, Y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_loaded_model_can_be_certified(rng, tmp_path, kernel):
    X, Y = make_problem(rng)
    model = OutputKernelClassifier(kernel=kernel, random_state=0).fit(X, Y)
    save(model, tmp_path / "model.mm")
    again = certify(load(tmp_path / "model.mm"), X, Y)
    assert again.proves == "objective"
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    with pytest.raises(InputError, match="trained on"):
        certify(model, X[:-4], Y[:-4])


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("solver", ["rows", "admm", "interior"])
@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (np.ones((1, 2)), np.array([[1, 0]])),  # one row: every label is constant
        (np.ones((4, 2)), np.array([[1], [0], [1], [0]])),  # all rows the same
        (np.zeros((4, 2)), np.array([[1, 0], [0, 1], [1, 1], [0, 0]])),  # no input at all
        (np.eye(4), np.ones((4, 2))),  # all labels constant
    ],
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_degenerate_problems_are_solved(Estimator, solver, X, Y, fit_intercept):
    model = Estimator(solver=solver, fit_intercept=fit_intercept, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Constant in training")
        model.fit(X, Y)
    assert model.certificate_.converged
    assert np.all(np.isfinite(model.decision_function(X)))


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_kernels_that_are_not_finite_give_no_model(rng, Estimator, value):
    X, Y = make_problem(rng)
    with pytest.raises(InputError, match="'poly' must not exceed 1e"):
        Estimator(kernel="poly", gamma=1.0, degree=9).fit(1e40 * X, Y)
    seen = []

    def later(A, B):
        seen.append(None)
        K = A @ B.T
        K[0, 0] = value if len(seen) > 1 else K[0, 0]
        return K

    with pytest.raises(InputError, match="finite"):
        Estimator(kernel=later).fit(X, Y)
    with pytest.raises(InputError, match="largest C K|must not exceed 1e"):
        Estimator(C=1e50).fit(1e60 * X, Y)
    with pytest.raises(InputError, match="intercept_scaling"):
        Estimator(intercept_scaling=1e160).fit(X, Y)


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("solver", ["rows", "admm", "interior", "auto"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, FitError])
def test_an_interrupted_fit_leaves_the_model_as_it_was(rng, Estimator, solver, error):
    X, Y = make_problem(rng)
    model = Estimator(solver=solver, warm_start=True, random_state=0).fit(X, Y)

    def interrupt(progress):
        if progress.pass_ >= (305 if solver == "auto" else 3):
            raise error

    model.set_params(callback=interrupt, C=300.0, tol=1e-9)
    before, scores = dict(vars(model)), model.decision_function(X)
    with pytest.raises(error):
        model.fit(X + 1, Y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
    np.testing.assert_array_equal(model.decision_function(X), scores)


@pytest.mark.parametrize("solver", ["rows", "admm"])
def test_a_hopeless_scale_is_said_before_the_long_run(rng, solver):
    X, Y = make_problem(rng, 60, 4, 3)
    passes = []
    model = CalibratedSeparationClassifier(
        C=1.0, solver=solver, callback=lambda p: passes.append(p.pass_), random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=r"C K\(x, x\) is .*e\+1.* choose C around .*e-1") as caught:
            model.fit(1e6 * X, Y)
    assert not isinstance(caught.value, ConvergenceWarning)
    assert not passes
    passes.clear()
    model.fit(X, Y)
    assert passes
