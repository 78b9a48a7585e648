"""float64 rows are worked on in single precision where that suffices, and certified in double: the same solutions."""

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import LinearM3L, certify
from multimargin.priors import LowRankPrior

pytestmark = pytest.mark.filterwarnings("ignore::multimargin.errors.DecisionWarning")


def make_problem(rows=90, features=12, labels=5, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)) * scale
    X[rng.random(X.shape) < 0.3] = 0.0
    X[0] = 0.0
    Y = (X @ rng.normal(size=(features, labels)) + np.mean(scale) * rng.normal(size=(rows, labels)) > 0).astype(int)
    Y[0], Y[1] = 0, 1  # no label is constant
    return X, Y


def a_prior(name, labels):
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(labels, 2))
    dense = 0.7 * np.eye(labels) + 0.3
    return {
        "identity": None,
        "dense": dense,
        "low rank": LowRankPrior(factor),
        "factor": LowRankPrior(factor, np.ones(labels)),
    }[name]


def bounds(model, X, Y):
    """P of the weights and D of the dual variables, in plain NumPy."""
    labels = Y.shape[1]
    prior = model.prior
    R = np.eye(labels) if prior is None else prior.toarray() if isinstance(prior, LowRankPrior) else prior
    y = np.where(Y > 0, 1.0, -1.0)
    Xb = np.column_stack([X.toarray() if sp.issparse(X) else X, np.ones(X.shape[0])]).astype(float)
    Z = np.column_stack([model.coef_, model.intercept_]).astype(float)
    hinge = np.maximum(0.0, 1.0 - y * (Xb @ Z.T)).sum()
    beta = y * np.clip(y * model._last.state["beta"].astype(float), 0.0, model.C_)
    V = Xb.T @ beta
    primal = 0.5 * np.sum(Z * (np.linalg.pinv(R, rcond=1e-10, hermitian=True) @ Z)) + model.C_ * hinge
    return primal, np.sum(y * beta) - 0.5 * np.sum(V * (V @ R))


def worked_in_single(model):
    return bool((model.coef_ == model.coef_.astype(np.float32)).all())


def in_double(monkeypatch):
    monkeypatch.setattr(LinearM3L, "_in_single", lambda self, task: False)


@pytest.mark.parametrize("prior", ["identity", "dense", "low rank", "factor"])
@pytest.mark.parametrize(("rows", "features", "labels"), [(90, 12, 5), (40, 70, 3), (60, 9, 129), (300, 6, 1)])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_both_precisions_and_work_in_both_find_the_same(monkeypatch, prior, rows, features, labels, sparse):
    X, Y = make_problem(rows, features, labels)
    X = X.astype(np.float32).astype(np.float64)  # the same problem in either
    rows_of = sp.csr_matrix if sparse else np.asarray

    def make():
        R = a_prior(prior, labels)
        return LinearM3L(C=0.3, prior=R, tol=1e-4, max_iter=20_000, warm_start=True, random_state=0)

    mixed = make().fit(rows_of(X), Y)
    single = make().fit(rows_of(X.astype(np.float32)), Y)
    in_double(monkeypatch)
    double = make().fit(rows_of(X), Y)
    assert mixed.coef_.dtype == mixed.intercept_.dtype == np.float64
    assert not worked_in_single(double)
    for model in (mixed, single, double):
        stated = model.certificate_
        assert stated.converged
        assert (stated.primal, stated.dual) == pytest.approx(bounds(model, X, Y), rel=1e-9)
        assert stated.primal == pytest.approx(double.certificate_.primal, rel=2e-4)
        assert stated.dual <= double.certificate_.primal * (1 + 1e-9)


@pytest.mark.parametrize("prior", ["identity", "dense"])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_certified_are_the_rows_in_double(prior, sparse):
    X, Y = make_problem(labels=20)
    model = LinearM3L(prior=a_prior(prior, 20), warm_start=True, random_state=0).fit(
        sp.csr_matrix(X) if sparse else X, Y
    )
    assert worked_in_single(model)
    stated = model.certificate_
    assert (stated.primal, stated.dual) == pytest.approx(bounds(model, X, Y), rel=1e-11)
    again = certify(model, sp.csr_matrix(X) if sparse else X, Y)
    assert (again.primal, again.dual) == pytest.approx((stated.primal, stated.dual), rel=1e-11)


@pytest.mark.parametrize("prior", ["identity", "dense"])
@pytest.mark.parametrize("tol", [1e-5, 1e-9])
def test_what_single_precision_cannot_reach_is_found_in_double(prior, tol):
    # Far from the origin scores are small differences of large numbers: single precision has lost them.
    X, Y = make_problem(rows=60, features=3)
    model = LinearM3L(1.0, prior=a_prior(prior, 5), tol=tol, max_iter=200_000, warm_start=True, random_state=0).fit(
        X + 3000, Y
    )
    assert model.certificate_.converged
    assert not worked_in_single(model)
    assert (model.certificate_.primal, model.certificate_.dual) == pytest.approx(bounds(model, X + 3000, Y), rel=1e-7)


def test_numbers_beyond_single_precision_are_solved_in_double():
    X, Y = make_problem(features=6)
    for factor, C in ((1e-20, 1e35), (1e20, 1e-40), (1.0, 1e-13)):
        model = LinearM3L(C=C, fit_intercept=False, random_state=0).fit(X * factor, Y)
        assert model.certificate_.converged
        assert not worked_in_single(model)


def test_features_that_differ_by_twelve_decades():
    rng = np.random.default_rng(3)
    X, Y = make_problem(features=13, scale=10.0 ** np.arange(-6, 7)[rng.permutation(13)])
    model = LinearM3L(C=1e-6, warm_start=True, random_state=0, max_iter=100_000).fit(X, Y)
    assert (model.certificate_.primal, model.certificate_.dual) == pytest.approx(bounds(model, X, Y), rel=1e-9)
    assert model.certificate_.converged


@pytest.mark.parametrize("prior", ["identity", "dense"])
def test_a_warm_start_goes_from_one_precision_to_the_other(prior):
    X, Y = make_problem()
    model = LinearM3L(prior=a_prior(prior, 5), max_iter=20_000, warm_start=True, random_state=0)
    for tol, C, single in ((1e-3, 1.0, True), (1e-8, 1.0, False), (1e-3, 2.0, True), (1e-8, 0.5, False)):
        model.set_params(tol=tol, C=C).fit(X, Y)
        assert model.certificate_.converged
        assert worked_in_single(model) == single
        assert (model.certificate_.primal, model.certificate_.dual) == pytest.approx(bounds(model, X, Y), rel=1e-9)


@pytest.mark.parametrize("prior", ["identity", "dense"])
@pytest.mark.parametrize("sparse", [False, True])
def test_threads_change_no_bit(prior, sparse):
    X, Y = make_problem(rows=500, features=70, labels=129)  # enough for two threads
    rows = sp.csr_matrix(X) if sparse else X
    one, two = (LinearM3L(prior=a_prior(prior, 129), n_jobs=n, tol=0.2, random_state=0).fit(rows, Y) for n in (1, 2))
    assert (one.coef_ == two.coef_).all()
    assert (one.intercept_ == two.intercept_).all()
    assert one.certificate_ == two.certificate_
