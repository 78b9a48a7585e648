import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from recompute import category_ranking
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state

from multimargin import certify, load, save
from multimargin.baselines import CategoryRanking, RankSVM
from multimargin.baselines._category_certifier import CategoryProblem
from multimargin.errors import InputError


def make_problem(rng, n=25, d=4, n_labels=4):
    """A row without labels, one with all, and one without features."""
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0.3).astype(int)
    Y[0], Y[1], X[5] = 0, 1, 0.0
    return X, Y


def ranking_weights(model):
    """Weights of a model without what its threshold has taken from all labels."""
    W = np.column_stack([model.coef_, model.intercept_])
    return W - W.mean(axis=0)


def optimum(X, Y, cost, bias):
    Xb = np.column_stack([X, np.full(len(X), bias)])
    W = cp.Variable((Xb.shape[1], Y.shape[1]))
    loss = 0
    for x, y, c in zip(Xb, Y, cost, strict=True):
        on, off = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        if len(on) and len(off):
            loss += c * cp.pos(1 + cp.max(x @ W[:, off]) - cp.min(x @ W[:, on]))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + loss))
    problem.solve(solver=cp.CLARABEL)
    return problem.value, W.value


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("interior", [False, True])
def test_equals_cvxpy(rng, monkeypatch, container, bias, interior):
    """By visits to the rows alone, and by the method that follows after some."""
    monkeypatch.setattr("multimargin.baselines._ranking.rank_fits_interior", lambda problem: interior)
    monkeypatch.setattr("multimargin.baselines._ranking.passes_before", lambda *sizes: 3)
    X, Y = make_problem(rng)
    Y = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    weight = rng.uniform(0.5, 2.0, size=len(X))
    options = {"fit_intercept": bias > 0, "intercept_scaling": bias or 1.0, "tol": 1e-9, "max_iter": 100_000}
    model = CategoryRanking(C=3.0, random_state=0, **options).fit(container(X), Y, weight)
    assert model.certificate_.converged
    assert (model.n_iter_ < 40) == interior
    value, W = optimum(X, Y, 3.0 * weight, bias)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-6)
    assert model.certificate_.dual == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(W.sum(axis=1), 0, atol=1e-4)
    np.testing.assert_allclose(ranking_weights(model)[:, :-1], W[:-1].T, atol=1e-3)
    assert np.all(model.history_.primal >= model.history_.dual)


def test_one_label_a_row_is_the_multi_class_svm(rng):
    X = rng.normal(size=(80, 5))
    y = np.argmax(X @ rng.normal(size=(5, 4)) + rng.normal(size=(80, 4)), axis=1)
    model = CategoryRanking(C=0.5, fit_intercept=False, tol=1e-8, max_iter=100_000).fit(X, np.eye(4, dtype=int)[y])
    peer = LinearSVC(C=0.5, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        W = peer.fit(X, y).coef_
    margins = X @ W.T - (X @ W.T)[np.arange(80), y][:, None] + 1
    margins[np.arange(80), y] = 0.0
    assert model.certificate_.primal == pytest.approx(0.5 * np.sum(W**2) + 0.5 * margins.max(axis=1).sum(), rel=1e-5)
    np.testing.assert_array_equal(np.argmax(model.decision_function(X), axis=1), peer.predict(X))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_certificates_are_those_of_the_data(rng, monkeypatch, container, dtype):
    monkeypatch.setattr(CategoryRanking, "warm_start", True, raising=False)  # keeps the dual variables
    for case in range(12):
        X, Y = make_problem(rng, int(rng.integers(2, 30)) + 5, 4, int(rng.integers(2, 7)))
        X = container((X * 10 ** rng.uniform(-6, 6)).astype(dtype))
        Y = Y.astype(float)
        if case % 2:
            Y[rng.random(Y.shape) < 0.2] = np.nan
        weight = rng.integers(0, 3, size=len(Y)).astype(float)
        model = CategoryRanking(C=10 ** rng.uniform(-4, 4), max_iter=[20, 500][case % 2], random_state=0)
        model.set_params(fit_intercept=case % 3 > 0, intercept_scaling=10 ** rng.uniform(-1, 2))
        model.set_params(threshold=["least-squares", "constant", "auto"][case % 3])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, Y, weight)
        stated = model.certificate_
        expected = category_ranking(model, X, Y, model.C_ * weight, model._last.state)
        assert stated.primal == pytest.approx(expected[0], rel=1e-8, abs=expected[2])
        assert stated.dual == pytest.approx(expected[1], rel=1e-8, abs=1e-9 * stated.primal)
        assert stated.gap >= -1e-9 * stated.primal
        again = certify(model, X, Y, weight)
        assert (again.primal, again.dual) == pytest.approx((stated.primal, stated.dual), rel=1e-9)


def test_dual_variables_are_moved_into_their_feasible_set(rng):
    X, Y = make_problem(rng)
    problem = CategoryProblem(X, 2.0, sp.csr_array(Y), sp.csr_array(1 - Y), np.ones(len(X)))
    has = Y.any(axis=1) & ~Y.all(axis=1)
    share = Y / np.maximum(Y.sum(axis=1, keepdims=True), 1) - (1 - Y) / np.maximum(
        (1 - Y).sum(axis=1, keepdims=True), 1
    )
    feasible = share * has[:, None]
    assert problem.dual(7.0 * share) == pytest.approx(problem.dual(feasible), rel=1e-12)  # at most the cost
    assert problem.dual(np.where(Y == 1, feasible, 5 * feasible)) == pytest.approx(problem.dual(feasible), rel=1e-12)
    assert problem.dual(-feasible) == 0.0


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e2, 1e4, 1e6])
def test_every_scale_converges(rng, scale):
    X, Y = make_problem(rng, n=60, d=6, n_labels=5)
    for C in (1e-4, 1.0, 1e4):
        assert CategoryRanking(C=C, random_state=0).fit(scale * X, Y).certificate_.converged


def test_degenerate_problems_are_solved():
    for X, Y in [
        (np.ones((1, 2)), [[1, 0]]),
        (np.ones((4, 2)), [[1], [0], [1], [0]]),
        (np.zeros((4, 2)), [[1, 0], [0, 1], [1, 1], [0, 0]]),
    ]:
        for solver in ("batch", "perceptron"):
            for fit_intercept in (True, False):
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Constant in training")
                    model = CategoryRanking(solver=solver, fit_intercept=fit_intercept).fit(X, np.array(Y))
                assert solver == "perceptron" or model.certificate_.converged
                assert np.all(np.isfinite(model.decision_function(X)))


@pytest.mark.parametrize("solver", ["batch", "perceptron"])
@pytest.mark.parametrize("n_labels", [2, 129])
def test_layouts_precisions_and_order_of_labels(rng, solver, n_labels):
    X, Y = make_problem(rng, n=40, n_labels=n_labels)
    Y = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    options = {"solver": solver, "tol": 1e-6, "max_iter": 20_000, "random_state": 0}
    model = CategoryRanking(**options).fit(X, Y)
    np.testing.assert_allclose(ranking_weights(model).sum(axis=0), 0, atol=1e-9)
    order = rng.permutation(n_labels)
    permuted = CategoryRanking(**options).fit(X, Y[:, order])
    near = {"atol": 3e-3 * np.abs(model.coef_).max()}
    np.testing.assert_allclose(ranking_weights(permuted), ranking_weights(model)[order], **near)
    for x in (sp.csr_array(X), X.astype(np.float32)):
        other = CategoryRanking(**options).fit(x, Y)
        np.testing.assert_allclose(ranking_weights(other), ranking_weights(model), **near)
    if solver == "batch":
        assert model.certificate_.converged


def splitmix(seed):
    """The core's generator of random numbers (core/base/rng.hpp)."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        yield z ^ (z >> 31)


@pytest.mark.parametrize("update", ["uniform", "max"])
def test_the_perceptron_is_its_rule(rng, update):
    """Pair by pair, and with the mean taken over the weights after each row."""
    X, Y = make_problem(rng, n=30, n_labels=5)
    model = CategoryRanking(solver="perceptron", update=update, epochs=3, random_state=4, C=7.0).fit(X, Y)
    psi = np.column_stack([X, np.ones(30)])
    numbers = splitmix(int(check_random_state(4).randint(np.iinfo(np.int32).max)))
    W, mean, order = np.zeros((5, 5)), [], np.arange(30)
    for _ in range(3):
        for i in range(30, 1, -1):
            j = next(numbers) * i >> 64
            order[[i - 1, j]] = order[[j, i - 1]]
        for i in order:
            f = W @ psi[i]
            on, off = np.flatnonzero(Y[i]), np.flatnonzero(1 - Y[i])
            if not len(on) or not len(off):
                continue
            wrong = [(r, s) for r in on for s in off if f[r] <= f[s]]
            loss = len(wrong) / (len(on) * len(off))
            if wrong and update == "max":
                wrong = [(on[np.argmin(f[on])], off[np.argmax(f[off])])]
            for r, s in wrong:
                W[r] += loss / len(wrong) * psi[i]
                W[s] -= loss / len(wrong) * psi[i]
            mean.append(W.copy())
    np.testing.assert_allclose(ranking_weights(model)[:, :-1], np.mean(mean, axis=0)[:, :-1], atol=1e-12)
    assert model.n_iter_ == 3
    with pytest.raises(InputError, match='solver="batch"'):
        certify(model, X, Y)


def test_threshold_rules(rng):
    """One constant has the fewest errors of all; too few rows for a regression get the constant."""
    X, Y = make_problem(rng, n=45)
    model = CategoryRanking(threshold="constant").fit(X, Y)
    assert not model.threshold_[:-1].any()
    scores = model.decision_function(X) + model.threshold_[-1]
    errors = [np.sum((scores > t) != Y) for t in np.append(np.unique(scores), -1e9)]
    assert np.sum(model.predict(X) != Y) == min(errors)
    few, many = (CategoryRanking().fit(X[:n], Y[:n]).threshold_ for n in (40, 41))
    assert not few[:-1].any()
    assert many[:-1].any()
    for Estimator in (RankSVM, CategoryRanking):
        models = [Estimator(threshold=rule, random_state=0).fit(X, Y) for rule in ("constant", "least-squares", "auto")]
        assert models[0].certificate_.primal == pytest.approx(models[1].certificate_.primal)
        np.testing.assert_allclose(models[1].coef_, models[2].coef_)


@pytest.mark.parametrize("solver", ["batch", "perceptron"])
def test_constant_labels_and_files(rng, solver, tmp_path):
    X, Y = make_problem(rng)
    more = np.column_stack([np.zeros(len(Y), int), Y, np.ones(len(Y), int)])
    a = CategoryRanking(solver=solver, random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match="labels 0, 5"):
        b = CategoryRanking(solver=solver, random_state=0).fit(X, more)
    np.testing.assert_allclose(b.decision_function(X)[:, 1:-1], a.decision_function(X), atol=1e-10)
    assert b.predict(X)[:, -1].all()
    save(b, tmp_path / "model.mm")
    kept = load(tmp_path / "model.mm")
    np.testing.assert_array_equal(kept.decision_function(X), b.decision_function(X))
    assert hasattr(kept, "certificate_") == (solver == "batch")


def test_limits_and_warnings(rng):
    X, Y = make_problem(rng)
    with pytest.warns(UserWarning, match="CategoryRanking stopped after 1 passes"):
        CategoryRanking(C=100.0, max_iter=1).fit(X, Y)
    with pytest.raises(InputError, match="largest C"):
        CategoryRanking(C=1e50).fit(1e60 * X, Y)
    seen = []
    CategoryRanking(solver="perceptron", callback=lambda p: seen.append(p.primal) or len(seen) == 2).fit(X, Y)
    assert seen == [None, None]
