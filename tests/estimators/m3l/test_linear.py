import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from every_prior import PRIORS, as_matrix, make_priors
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from multimargin import LinearM3L, priors
from multimargin.errors import InputError

EXACT = {"tol": 1e-9, "max_iter": 200_000, "random_state": 0}
CLOSE = 1e-3  # strong convexity: weights within a gap of 1e-9 P differ by at most about sqrt(4e-9 P |R|), P ~ 100


def make_problem(rng, n=40, d=4, n_labels=5):
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0).astype(int)
    return X, Y


def optimum(X, y, R, cost, margin, bias):
    """Solve the primal by cvxpy, with Z = U F', R = F F', so that a singular R needs no inverse."""
    values, vectors = np.linalg.eigh(R)
    keep = values > 1e-10 * values[-1]
    F = vectors[:, keep] * np.sqrt(values[keep])
    Xb = np.column_stack([X, np.full(len(X), bias)])
    U = cp.Variable((Xb.shape[1], F.shape[1]))
    slack = cp.pos(margin - cp.multiply(y, Xb @ U @ F.T))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(U) + cp.sum(cp.multiply(cost, slack))))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("bias", [0.0, 1.0, 2.5])
def test_equals_cvxpy(rng, name, bias):
    X, Y = make_problem(rng)
    prior = make_priors(rng)[name]
    y = 2 * Y - 1
    model = LinearM3L(C=0.7, prior=prior, fit_intercept=bias > 0, intercept_scaling=bias or 1.0, **EXACT).fit(X, Y)
    best = optimum(X, y, as_matrix(prior, 5), 0.7, 1.0, bias)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert model.certificate_.dual == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("name", PRIORS)
def test_weights_and_missing_labels_equal_cvxpy(rng, name):
    X, Y = make_problem(rng)
    prior = make_priors(rng)[name]
    unknown = rng.random(Y.shape) < 0.2
    cell_weight = rng.random(Y.shape) * 2
    cell_weight[0] = 0.0
    class_weight = [{0: a, 1: b} for a, b in rng.random((5, 2)) + 0.5]
    model = LinearM3L(C=1.3, prior=prior, class_weight=class_weight, **EXACT)
    model.fit(X, np.where(unknown, np.nan, Y), sample_weight=cell_weight)
    factor = np.where(Y == 1, [w[1] for w in class_weight], [w[0] for w in class_weight])
    best = optimum(X, 2 * Y - 1, as_matrix(prior, 5), 1.3 * factor * cell_weight * ~unknown, 1.0, 1.0)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


def test_prior_loss_equals_cvxpy(rng):
    X, Y = make_problem(rng)
    unknown = rng.random(Y.shape) < 0.1
    A = rng.normal(size=(5, 5))
    R = A + A.T
    np.fill_diagonal(R, 0.0)
    R += np.diag(np.abs(R).sum(axis=1) + 0.1)
    y = np.where(unknown, 0, 2 * Y - 1)
    best = optimum(X, y, R, 1.0 * ~unknown, y * (y @ R), 1.0)
    for prior in (R, priors.LowRankPrior(np.linalg.cholesky(R - 0.05 * np.eye(5)), 0.05)):
        model = LinearM3L(C=1.0, prior=prior, loss="prior", **EXACT).fit(X, np.where(unknown, np.nan, Y))
        assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


def test_factor_and_diagonal_multiplied_out_or_not(rng, monkeypatch):
    """Few labels take the dense path, many the factored one: the same answer."""
    X, Y = make_problem(rng)
    prior = make_priors(rng)["factor and diagonal"]
    dense = LinearM3L(prior=prior, **EXACT).fit(X, Y)
    monkeypatch.setattr("multimargin.estimators.m3l.linear_problem.DENSE_PRIOR_LABELS", 0)
    factored = LinearM3L(prior=prior, **EXACT).fit(X, Y)
    assert factored.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(factored.coef_, dense.coef_, atol=CLOSE)


def test_prior_loss_needs_diagonal_dominance(rng):
    X, Y = make_problem(rng)
    with pytest.raises(InputError, match="label 0.*diagonal"):
        LinearM3L(prior=np.full((5, 5), 0.5) + 0.5 * np.eye(5), loss="prior").fit(X, Y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_identity_prior_is_linear_svc_per_label(rng, fit_intercept):
    X, Y = make_problem(rng, n=80)
    model = LinearM3L(C=0.5, fit_intercept=fit_intercept, **EXACT).fit(X, Y)
    for label in range(5):
        svc = LinearSVC(loss="hinge", C=0.5, fit_intercept=fit_intercept, tol=1e-10, max_iter=1_000_000)
        svc.fit(X, Y[:, label])
        np.testing.assert_allclose(model.coef_[label], svc.coef_[0], atol=CLOSE)
        np.testing.assert_allclose(model.intercept_[label], np.ravel(svc.intercept_)[0], atol=CLOSE)


def test_explicit_identity_equals_none(rng):
    X, Y = make_problem(rng)
    reference = LinearM3L(**EXACT).fit(X, Y)
    for prior in (np.eye(5), priors.LowRankPrior(np.eye(5))):
        model = LinearM3L(prior=prior, **EXACT).fit(X, Y)
        assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-8)
        np.testing.assert_allclose(model.coef_, reference.coef_, atol=CLOSE)


@pytest.mark.parametrize("name", PRIORS)
def test_low_rank_and_sparse_and_single_precision_agree(rng, name):
    X, Y = make_problem(rng, n=60)
    X[rng.random(X.shape) < 0.4] = 0.0
    prior = make_priors(rng)[name]
    reference = LinearM3L(prior=prior, **EXACT).fit(X, Y)
    dense = LinearM3L(prior=None if prior is None else as_matrix(prior, 5), **EXACT).fit(X, Y)
    np.testing.assert_allclose(dense.coef_, reference.coef_, atol=CLOSE)
    for kind in (sp.csr_matrix, sp.csr_array, sp.csc_array):
        sparse = LinearM3L(prior=prior, **EXACT).fit(kind(X), Y)
        np.testing.assert_allclose(sparse.coef_, reference.coef_, atol=CLOSE)
        np.testing.assert_allclose(sparse.decision_function(kind(X)), sparse.decision_function(X), atol=1e-12)
    for data in (X.astype(np.float32), sp.csr_array(X.astype(np.float32))):
        single = LinearM3L(prior=prior, tol=1e-5, max_iter=100_000, random_state=0).fit(data, Y)
        assert single.coef_.dtype == np.float32
        assert single.certificate_.converged
        assert single.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=2e-5)


def primal_of(model, X, Y, R, C):
    """The primal objective, computed from the public weights alone."""
    W = np.column_stack([model.coef_, model.intercept_]).astype(float)
    hinge = np.maximum(0, 1 - (2 * Y - 1) * (X @ model.coef_.T + model.intercept_)).sum()
    return 0.5 * np.trace(W.T @ np.linalg.pinv(R) @ W) + C * hinge


@pytest.mark.parametrize("name", PRIORS)
def test_certificate_belongs_to_the_returned_weights(rng, name):
    X, Y = make_problem(rng)
    prior = make_priors(rng)[name]
    model = LinearM3L(C=1.0, prior=prior, tol=1e-3, random_state=0).fit(X, Y)
    value = primal_of(model, X, Y, as_matrix(prior, 5), 1.0)
    assert value == pytest.approx(model.certificate_.primal, rel=1e-9)
    exact = LinearM3L(C=1.0, prior=prior, **EXACT).fit(X, Y).certificate_
    assert model.certificate_.dual <= exact.primal * (1 + 1e-9)
    assert model.certificate_.primal >= exact.dual * (1 - 1e-9)


@pytest.mark.parametrize("name", PRIORS)
def test_weak_duality_at_every_evaluation(rng, name):
    X, Y = make_problem(rng)
    model = LinearM3L(prior=make_priors(rng)[name], **EXACT).fit(X, Y)
    history = model.history_
    assert len(history.pass_) >= 3
    best = model.certificate_
    assert np.all(history.dual <= best.primal * (1 + 1e-12))
    assert np.all(history.primal >= best.dual * (1 - 1e-12))


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize(("dtype", "rounding"), [(np.float32, 5e-5), (np.float64, 1e-11)])
def test_bounds_hold_over_hundreds_of_passes_from_a_warm_start(rng, name, dtype, rounding):
    X = np.abs(rng.normal(size=(60, 90)))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)
    Y = (X @ rng.normal(size=(90, 5)) + 0.1 * rng.normal(size=(60, 5)) > 0).astype(int)
    prior = make_priors(rng)[name]
    model = LinearM3L(prior=prior, warm_start=True, random_state=0).fit(X, Y)
    model.set_params(C=30.0, tol=1e-15, max_iter=600)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, Y)
    best = LinearM3L(C=30.0, prior=prior, **EXACT).fit(X.astype(np.float64), Y).certificate_
    assert np.all(model.history_.dual <= best.primal * (1 + rounding))
    assert np.all(model.history_.primal >= best.dual * (1 - rounding))
    assert model.certificate_.relative_gap <= 1e-3
    value = primal_of(model, X.astype(np.float64), Y, as_matrix(prior, 5), 30.0)
    assert value == pytest.approx(model.certificate_.primal, rel=rounding)


@pytest.mark.parametrize("name", PRIORS)
def test_label_permutation_permutes_the_answer(rng, name):
    X, Y = make_problem(rng)
    prior = make_priors(rng)[name]
    order = rng.permutation(5)
    if isinstance(prior, priors.LowRankPrior):
        diagonal = np.broadcast_to(prior.diagonal, 5)[order]
        permuted = priors.LowRankPrior(prior.factor[order], diagonal)
    else:
        permuted = None if prior is None else prior[np.ix_(order, order)]
    a = LinearM3L(prior=prior, **EXACT).fit(X, Y)
    b = LinearM3L(prior=permuted, **EXACT).fit(X, Y[:, order])
    np.testing.assert_allclose(b.coef_, a.coef_[order], atol=CLOSE)


@pytest.mark.parametrize("name", PRIORS)
def test_result_does_not_depend_on_n_jobs(rng, name):
    X = rng.normal(size=(200, 6))
    Y = (X @ rng.normal(size=(6, 40)) + rng.normal(size=(200, 40)) > 0.5).astype(int)
    prior = make_priors(rng, 40)[name]
    one, two, five = (LinearM3L(prior=prior, n_jobs=k, random_state=0).fit(X, Y) for k in (1, 2, 5))
    for other in (two, five):
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert one.certificate_ == other.certificate_


def test_same_seed_same_bits(rng):
    X, Y = make_problem(rng)
    a, b = (LinearM3L(random_state=7).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("name", PRIORS)
def test_warm_start_continues_also_after_c_changed(rng, name):
    X, Y = make_problem(rng, n=100)
    parameters = {"prior": make_priors(rng)[name], "tol": 1e-6, "max_iter": 100_000, "random_state": 0}
    model = LinearM3L(warm_start=True, **parameters).fit(X, Y)
    cold_passes = model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ < cold_passes
    for C in (0.5, 2.0):
        model.set_params(C=C).fit(X, Y)
        cold = LinearM3L(C=C, **parameters).fit(X, Y)
        assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-6)


def test_single_precision_goes_on_in_double_where_rounding_is_the_limit(rng):
    X, Y = make_problem(rng)
    model = LinearM3L(tol=1e-8, random_state=0).fit(X.astype(np.float32), Y)
    assert model.certificate_.converged
    assert model.coef_.dtype == np.float64


def test_warm_start_refuses_other_rows(rng):
    X, Y = make_problem(rng)
    model = LinearM3L(warm_start=True).fit(X, Y)
    with pytest.raises(InputError, match="warm_start"):
        model.fit(X[:-1], Y[:-1])


def test_zero_rows_and_many_labels(rng):
    """All-zero rows without intercept, and more labels than one block of chunks holds."""
    X = rng.normal(size=(30, 3))
    X[::3] = 0.0
    Y = (rng.random((30, 700)) < 0.5).astype(int)
    Y[0], Y[1] = 0, 1
    model = LinearM3L(C=1.0, fit_intercept=False, tol=1e-4, random_state=0).fit(X, Y)
    assert model.certificate_.converged
    assert primal_of(model, X, Y, np.eye(700), 1.0) == pytest.approx(model.certificate_.primal, rel=1e-9)


def test_balanced_class_weight_is_its_dictionary(rng):
    X, Y = make_problem(rng)
    n, positive = len(Y), Y.sum(axis=0)
    weights = [{0: n / (2 * (n - p)), 1: n / (2 * p)} for p in positive]
    a = LinearM3L(class_weight="balanced", random_state=0).fit(X, Y)
    b = LinearM3L(class_weight=weights, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_integer_weight_repeats_the_row(rng):
    X, Y = make_problem(rng)
    weight = rng.integers(1, 4, size=len(X))
    a = LinearM3L(**EXACT).fit(X, Y, sample_weight=weight)
    b = LinearM3L(**EXACT).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=CLOSE)


def test_real_data_reaches_its_tolerance_on_both_layouts(data_home):
    from multimargin import datasets

    scene = datasets.load("scene")
    dense = LinearM3L(tol=1e-3, random_state=0).fit(scene.X_train, scene.Y_train)
    sparse = LinearM3L(tol=1e-3, random_state=0).fit(sp.csr_array(scene.X_train), scene.Y_train)
    assert dense.certificate_.converged
    assert dense.certificate_.primal == pytest.approx(sparse.certificate_.primal, rel=2e-3)


def impatient(monkeypatch):
    """Hand every problem to the Newton finish as soon as it may take over."""
    monkeypatch.setattr("multimargin.estimators.m3l.linear.NEWTON_PATIENCE", 0.0)


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_both_solvers_find_the_same_optimum(rng, monkeypatch, name, kind):
    X, Y = make_problem(rng, n=90)
    prior = make_priors(rng)[name]
    weight = rng.random(Y.shape) + 0.5
    unknown = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    with monkeypatch.context() as patch:
        patch.setattr("multimargin.estimators.m3l.linear.NEWTON_PATIENCE", np.inf)
        ascent = LinearM3L(prior=prior, **EXACT).fit(kind(X), unknown, sample_weight=weight)
    impatient(monkeypatch)
    newton = LinearM3L(prior=prior, n_jobs=2, **EXACT).fit(kind(X), unknown, sample_weight=weight)
    assert newton.certificate_.converged
    assert newton.n_iter_ < ascent.n_iter_
    assert newton.certificate_.primal == pytest.approx(ascent.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(newton.coef_, ascent.coef_, atol=CLOSE)
    assert np.all(newton.history_.primal[-3:] >= newton.history_.dual[-3:])


def test_labels_that_only_move_together_do_not_stall_the_newton_finish(rng):
    """Label 2 is "0 or 1", which exclude each other: R is singular, and one of the three alone gains nothing."""
    X = rng.normal(size=(900, 12))
    Y = (X @ rng.normal(size=(12, 8)) + 2 * rng.normal(size=(900, 8)) > 1).astype(int)
    kind = rng.integers(3, size=900)
    Y[:, 0] &= kind == 0
    Y[:, 1] &= kind == 1
    Y[:, 2] = Y[:, 0] + Y[:, 1]
    model = LinearM3L(10.0, prior=priors.from_labels(Y), tol=1e-5, max_iter=200, random_state=0).fit(X, Y)
    assert model.certificate_.converged


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_warm_start_after_a_newton_finish_goes_on_from_its_weights(rng, monkeypatch, kind):
    impatient(monkeypatch)
    X, Y = make_problem(rng, n=400, d=10)
    warm = LinearM3L(tol=1e-7, warm_start=True, random_state=0).fit(kind(X), Y)
    warm.set_params(C=100.0).fit(kind(X), Y)
    cold = LinearM3L(100.0, tol=1e-7, random_state=0).fit(kind(X), Y)
    assert warm.certificate_.converged
    assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-7)
    assert warm.n_iter_ < cold.n_iter_


def test_newton_certificate_belongs_to_the_returned_weights(rng, monkeypatch):
    impatient(monkeypatch)
    X, Y = make_problem(rng, n=90)
    for prior in make_priors(rng).values():
        for data, tolerance in ((X, 1e-9), (X.astype(np.float32), 1e-4)):
            model = LinearM3L(C=1.0, prior=prior, tol=1e-3, random_state=0).fit(data, Y)
            value = primal_of(model, data, Y, as_matrix(prior, 5), 1.0)
            assert value == pytest.approx(model.certificate_.primal, rel=tolerance)


def test_limits_and_stops_reach_the_newton_finish(rng, monkeypatch):
    impatient(monkeypatch)
    X, Y = make_problem(rng, n=90)
    seen = []
    model = LinearM3L(tol=1e-14, callback=lambda p: seen.append(p) or p.pass_ == 11).fit(X, Y)
    assert [p.pass_ for p in seen] == list(range(1, 12))
    assert model.n_iter_ == 11
    with pytest.warns(UserWarning, match="after 10 passes"):
        LinearM3L(tol=1e-14, max_iter=10).fit(X, Y)


@pytest.mark.parametrize("newton", [True, False])
@pytest.mark.parametrize("last", [3, 8, 11, 14])
def test_stop_with_a_coupled_prior_leaves_a_certified_model(rng, monkeypatch, newton, last):
    """Also while the problem without coupling is being solved for a start."""
    impatient(monkeypatch)
    if not newton:
        monkeypatch.setattr("multimargin.estimators.m3l.linear.NEWTON_PATIENCE", np.inf)
    X, Y = make_problem(rng, n=90)
    R = 0.3 * make_priors(rng)["dense"] + 0.7 * np.eye(5)
    seen = []
    model = LinearM3L(C=1.0, prior=R, tol=1e-14, callback=lambda p: seen.append(p.pass_) or p.pass_ == last).fit(X, Y)
    assert seen == list(range(1, last + 1))
    assert model.n_iter_ == last
    assert primal_of(model, X, Y, R, 1.0) == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert model.certificate_.gap > 0
    with pytest.warns(UserWarning, match=f"after {last} passes"):
        limited = LinearM3L(C=1.0, prior=R, tol=1e-14, max_iter=last).fit(X, Y)
    assert primal_of(limited, X, Y, R, 1.0) == pytest.approx(limited.certificate_.primal, rel=1e-9)


def test_warm_start_of_a_coupled_prior(rng, monkeypatch):
    """After C, the prior or the features changed, Newton finish included."""
    impatient(monkeypatch)
    X, Y = make_problem(rng, n=90)
    R = make_priors(rng)["dense"]
    model = LinearM3L(prior=R, warm_start=True, tol=1e-8, random_state=0).fit(X, Y)
    changes = [({"C": 3.0}, X), ({"prior": 0.5 * R + 0.5 * np.eye(5)}, X), ({"fit_intercept": False}, X[:, :3])]
    for change, data in changes:
        model.set_params(**change).fit(data, Y)
        cold = LinearM3L(**(model.get_params() | {"warm_start": False})).fit(data, Y)
        assert model.certificate_.converged
        assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-7)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_weights_of_few_and_rare_labels_through_matrices(rng, monkeypatch, n_jobs):
    """Few features for the rows: the coupled Newton finish forms a matrix per label; the same optimum, any threads."""
    impatient(monkeypatch)
    X, Y = make_problem(rng, n=400, d=6, n_labels=40)
    R = 0.5 * priors.from_labels(Y) + 0.5 * np.eye(40)
    models = [LinearM3L(prior=R, tol=1e-7, n_jobs=n_jobs, random_state=0).fit(data, Y) for data in (X, sp.csr_array(X))]
    assert models[0].certificate_.converged
    assert models[0].certificate_.primal == pytest.approx(models[1].certificate_.primal, rel=3e-7)


def test_trains_from_a_matrix_on_disk(rng, tmp_path):
    X, Y = make_problem(rng, n=60, d=12)
    X = sp.csr_matrix(np.where(rng.random(X.shape) < 0.5, X, 0.0).astype(np.float32))
    for part in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{part}.npy", getattr(X, part))
    parts = [np.load(tmp_path / f"{part}.npy", mmap_mode="r") for part in ("data", "indices", "indptr")]
    mapped = sp.csr_matrix(tuple(parts), shape=X.shape, copy=False)
    assert np.shares_memory(mapped.data, parts[0])
    a, b = (LinearM3L(random_state=0).fit(data, Y) for data in (X, mapped))
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_prior_on_few_rows_of_uneven_features_needs_no_newton_finish(rng, monkeypatch, dtype):
    X = np.exp(rng.normal(size=60)) * np.abs(rng.normal(size=(80, 60)))
    Y = (X @ (rng.normal(size=(60, 6)) / X.std(axis=0)[:, None]) + 4 * rng.normal(size=(80, 6)) > 4).astype(int)
    X = X.astype(dtype)
    prior = priors.from_labels(Y)
    ascent = LinearM3L(1.0, prior=prior, warm_start=True, random_state=0).fit(X, Y)
    assert ascent.certificate_.converged
    assert not ascent._last.state["newton"]
    passes = ascent.n_iter_
    ascent.set_params(C=1.1).fit(X, Y)  # goes on where it stood
    assert ascent.certificate_.converged
    assert ascent.n_iter_ < passes
    monkeypatch.setattr("multimargin.estimators.m3l.linear.NEWTON_PATIENCE", 0.0)
    newton = LinearM3L(C=1.1, prior=prior, max_iter=20_000, warm_start=True, random_state=0).fit(X, Y)
    assert newton._last.state["newton"]
    assert newton.certificate_.dual <= ascent.certificate_.primal
    assert ascent.certificate_.dual <= newton.certificate_.primal
