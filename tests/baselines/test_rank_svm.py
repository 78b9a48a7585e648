import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from recompute import label_pairs, rank_svm

from multimargin import certify
from multimargin.baselines import RankSVM
from multimargin.baselines._rank_svm_certifier import RankProblem
from multimargin.baselines._rank_thresholds import threshold_targets
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
    np.testing.assert_allclose(W.value.sum(axis=1), 0, atol=1e-4)  # what the certifier relies on
    return problem.value


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_certificates_are_those_of_the_data(rng, monkeypatch, container, dtype):
    monkeypatch.setattr(RankSVM, "warm_start", True)  # keeps the dual variables
    for case in range(12):
        X, Y = make_problem(rng, int(rng.integers(2, 30)) + 5, 4, int(rng.integers(2, 7)))
        X = container((X * 10 ** rng.uniform(-6, 6)).astype(dtype))
        Y = Y.astype(float)
        if case % 2:
            Y[rng.random(Y.shape) < 0.2] = np.nan
        weight = rng.integers(1, 3, size=len(Y)).astype(float)
        model = RankSVM(C=10 ** rng.uniform(-4, 4), max_iter=[20, 500][case % 2], random_state=0)
        model.set_params(fit_intercept=case % 3 > 0, intercept_scaling=10 ** rng.uniform(-1, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, Y, weight)
        stated = model.certificate_
        expected = rank_svm(model, X, Y, model.C_ * weight, model._last.state)
        assert stated.primal == pytest.approx(expected[0], rel=1e-8, abs=expected[2])
        assert stated.dual == pytest.approx(expected[1], rel=1e-8, abs=1e-9 * stated.primal)
        assert stated.gap >= -1e-9 * stated.primal
        again = certify(model, X, Y, weight)
        assert (again.primal, again.dual) == pytest.approx((stated.primal, stated.dual), rel=1e-9)
        assert (model.history_.primal[-1], model.history_.dual[-1]) == (stated.primal, stated.dual)


def test_dual_variables_are_moved_between_their_bounds(rng):
    X, Y = make_problem(rng)
    problem = RankProblem(X, 2.0, sp.csr_array(Y), sp.csr_array(1 - Y), np.ones(len(X)))
    count = len(list(label_pairs(Y)))
    inside = np.concatenate([np.full(len(on) * len(off), bound) for _, on, off, bound in problem.pairs()])
    assert problem.dual(inside) == pytest.approx(problem.dual(inside + 7.0), rel=1e-12)
    assert problem.dual(np.full(count, -1.0)) == 0.0


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e2, 1e4, 1e6])
def test_every_scale_converges(rng, scale):
    X, Y = make_problem(rng, n=60, d=6, n_labels=5)
    for C in (1e-4, 1.0, 1e4):
        assert RankSVM(C=C, random_state=0).fit(scale * X, Y).certificate_.converged


def test_many_features_go_through_a_smaller_factor(rng):
    X, Y = make_problem(rng, n=12, d=30)
    options = {"C": 100.0, "tol": 1e-8, "random_state": 0}
    rows = RankSVM(max_iter=59, **{**options, "tol": 1e-3}).fit(X, Y)  # too few passes for a second method
    both = RankSVM(max_iter=100, **options).fit(X, Y)
    assert both.certificate_.converged
    assert both.certificate_.primal <= rows.certificate_.primal


def test_degenerate_problems_are_solved():
    for X, Y in [
        (np.ones((1, 2)), [[1, 0]]),
        (np.ones((4, 2)), [[1], [0], [1], [0]]),
        (np.zeros((4, 2)), [[1, 0], [0, 1], [1, 1], [0, 0]]),
    ]:
        for fit_intercept in (True, False):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Constant in training")
                model = RankSVM(fit_intercept=fit_intercept, random_state=0).fit(X, np.array(Y))
            assert model.certificate_.converged
            assert np.all(np.isfinite(model.decision_function(X)))


def test_a_hopeless_scale_is_said_before_the_long_run(rng, monkeypatch):
    monkeypatch.setattr("multimargin.baselines._ranking.rank_fits_interior", lambda problem: False)
    X, Y = make_problem(rng)
    passes = []
    with pytest.raises(UserWarning, match=r"C \|x\|\^2 is .* choose C around"):
        RankSVM(C=1.0, callback=lambda p: passes.append(p.pass_)).fit(1e6 * X, Y)
    assert not passes
    with pytest.raises(InputError, match="largest C"):
        RankSVM(C=1e50).fit(1e60 * X, Y)


def test_an_interrupted_fit_leaves_the_model_as_it_was(rng):
    X, Y = make_problem(rng)
    model = RankSVM(random_state=0).fit(X, Y)
    for stop in (2, 305):

        def interrupt(progress, stop=stop):
            if progress.pass_ >= stop:
                raise KeyboardInterrupt

        model.set_params(callback=interrupt, C=1e6, tol=1e-9)
        before = dict(vars(model))
        with pytest.raises(KeyboardInterrupt):
            model.fit(X + 1, Y)
        assert all(vars(model)[name] is before[name] for name in before)
        assert vars(model).keys() == before.keys()


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
    model = RankSVM(C=1.0, tol=1e-9, max_iter=100_000).fit(X, Y)
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


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_constant_labels_have_no_part_in_the_ranking(rng, container):
    X, Y = make_problem(rng, n_labels=5)
    more = np.column_stack([np.zeros(len(Y), int), Y[:, :2], np.ones(len(Y), int), Y[:, 2:]])
    a = RankSVM(random_state=0).fit(container(X), Y)
    with pytest.warns(UserWarning, match="labels 0, 3"):
        b = RankSVM(random_state=0).fit(container(X), more)
    np.testing.assert_allclose(b.decision_function(X)[:, [1, 2, 4, 5, 6]], a.decision_function(X), atol=1e-10)
    assert b.certificate_.primal == pytest.approx(a.certificate_.primal)
    assert a.n_iter_ == b.n_iter_


@pytest.mark.parametrize("n_labels", [2, 129])
def test_any_number_of_labels(rng, n_labels):
    X, Y = make_problem(rng, n=40, n_labels=n_labels)
    Y = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    models = [RankSVM(random_state=0).fit(x, Y) for x in (X, sp.csr_array(X), X.astype(np.float32))]
    for model in models:
        assert model.certificate_.converged
        assert model.certificate_.primal == pytest.approx(models[0].certificate_.primal, rel=2e-3)
