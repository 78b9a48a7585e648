"""Rounds over parts of the rows: the identities behind them, and the model against one machine and cvxpy."""

import warnings
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from every_prior import PRIORS, as_matrix, make_priors

from multimargin import LinearM3L
from multimargin.errors import InputError
from multimargin.estimators.m3l.blocks import Block, describe_block
from multimargin.estimators.m3l.parted import train_on_parts
from multimargin.estimators.m3l.parts import Part
from multimargin.estimators.m3l.plans import make_plan
from multimargin.estimators.m3l.rounds import HeldBackRounds, Limits
from multimargin.estimators.monitor import Monitor
from multimargin.fleets import LocalFleet


def make_problem(rng, n=60, d=6, n_labels=5, sparse=False, dtype=np.float64):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) * rng.lognormal(size=d)
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0.3).astype(int)
    X = X.astype(dtype)
    return (sp.csr_matrix(X) if sparse else X), Y


def cut(X, Y, K, weight=None):
    edges = np.linspace(0, len(Y), K + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(edges)]
    return [Block(X[p], Y[p], None if weight is None else weight[p], name=f"part {k}") for k, p in enumerate(parts)]


def fitted(blocks, n_jobs=1, **parameters):
    model, fleet = LinearM3L(random_state=0, **parameters), LocalFleet(blocks, n_jobs)
    train_on_parts(model, fleet, newton=False)
    return model, fleet


def recomputed(model, fleet, X, Y, weight=None):
    """P and D in plain NumPy, from the weights and the dual variables of the parts."""
    X = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    n, n_labels = Y.shape
    R, bias = as_matrix(model.prior_, n_labels), model._constant_feature()
    known = ~np.isnan(Y)
    y = np.where(known, np.where(Y == 1, 1.0, -1.0), 0.0)
    cost = model.C_ * known * (1.0 if weight is None else weight.reshape(n, -1))
    cost[:, np.isin(model.label_names_, model.constant_labels_)] = 0.0
    margin = y * (y @ R) if model.loss == "prior" else np.ones_like(y)
    Z = model.coef_.astype(float), model.intercept_.astype(float)
    hinge = cost * np.maximum(0, margin - y * (X @ Z[0].T + Z[1]))
    full = np.column_stack([Z[0], Z[1] / bias if bias else 0 * Z[1]])
    full[np.isin(model.label_names_, model.constant_labels_)] = 0.0
    primal = 0.5 * np.sum(np.linalg.pinv(R, hermitian=True, rcond=1e-12) @ full * full) + hinge.sum()
    beta = np.concatenate([part.beta for part in fleet.parts]).astype(float)
    assert np.all(beta * y >= 0)
    assert np.all(np.abs(beta) <= cost * (1 + 1e-6))
    V = np.column_stack([X, np.full(n, bias)]).T @ beta
    return primal, np.sum(y * margin * beta) - 0.5 * np.sum(V @ R * V)


@pytest.mark.parametrize("K", [1, 2, 5])
@pytest.mark.parametrize("name", PRIORS)
def test_same_optimum_as_one_machine(rng, name, K):
    sparse, dtype = K != 2, np.float32 if K == 5 else np.float64
    X, Y = make_problem(rng, sparse=sparse, dtype=dtype)
    prior = make_priors(rng)[name]
    tol = 1e-3
    model, fleet = fitted(cut(X, Y, K), prior=prior, tol=tol)
    one = LinearM3L(prior=prior, tol=tol, random_state=0).fit(X, Y)
    assert model.certificate_.converged
    assert model.coef_.dtype == dtype
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 2 * tol * one.certificate_.primal
    primal, dual = recomputed(model, fleet, X, Y)
    exact = 1e-6 if dtype == np.float32 else 1e-10
    assert model.certificate_.primal == pytest.approx(primal, rel=exact)
    assert model.certificate_.dual == pytest.approx(dual, rel=exact)


@pytest.mark.parametrize("C", ["scale", 0.7])
def test_weights_missing_and_constant_labels(rng, C):
    X, Y = make_problem(rng, sparse=True)
    Y = Y.astype(float)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    Y[:, 3] = np.where(np.isnan(Y[:, 3]), np.nan, 1.0)
    weight = rng.random(Y.shape) + 0.1
    with pytest.warns(UserWarning, match="Constant in training: label 3"):
        model, fleet = fitted(cut(X, Y, 3, weight), C=C)
    with pytest.warns(UserWarning, match="Constant in training: label 3"):
        one = LinearM3L(C=C, random_state=0).fit(X, Y, sample_weight=weight)
    assert pytest.approx(one.C_, rel=1e-14) == model.C_
    assert model.constant_labels_.tolist() == [3]
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 2e-3 * one.certificate_.primal
    assert np.array_equal(model.predict(X)[:, 3], np.ones(len(Y)))
    assert model.certificate_.primal == pytest.approx(recomputed(model, fleet, X, Y, weight)[0], rel=1e-10)


def test_row_weights_class_weights_and_prior_loss(rng):
    X, Y = make_problem(rng)
    weight = rng.random(len(Y)) + 0.1
    R = np.full((5, 5), 0.2) + 0.8 * np.eye(5)
    for options in ({"class_weight": "balanced"}, {"loss": "prior", "prior": R}, {"fit_intercept": False}):
        model, _ = fitted(cut(X, Y, 3, weight), **options)
        one = LinearM3L(random_state=0, **options).fit(X, Y, sample_weight=weight)
        assert pytest.approx(one.C_, rel=1e-14) == model.C_
        assert abs(model.certificate_.primal - one.certificate_.primal) <= 2e-3 * one.certificate_.primal


def test_the_scale_of_features_and_margins_does_not_matter(rng):
    """Features a x at C / a^2, and margins a m at a C, are the same problem: the same rounds."""
    X, Y = make_problem(rng)
    plain, _ = fitted(cut(X, Y, 3), C=1.0)
    scaled, _ = fitted(cut(64 * X, Y, 3), C=1 / 64**2, intercept_scaling=64.0)
    margins, _ = fitted(cut(X, Y, 3), C=4.0, margin=[4.0, {0: 4.0, 1: 4.0}, 4.0, 4.0, 4.0])
    assert plain.n_iter_ == scaled.n_iter_ == margins.n_iter_
    assert np.allclose(plain.coef_, 64 * scaled.coef_)
    assert np.allclose(plain.coef_, margins.coef_ / 4)


def test_odd_parts(rng):
    """A part without rows, one without positives, one with a single feature, empty rows."""
    X, Y = make_problem(rng, n=90, sparse=True)
    X = X.tolil()
    X[30:60, 1:] = 0
    X[70:80] = 0
    X = X.tocsr()
    Y[:30] = 0
    blocks = [Block(X[a:b], Y[a:b]) for a, b in ((0, 30), (30, 30), (30, 60), (60, 90))]
    model, fleet = fitted(blocks)
    one = LinearM3L(random_state=0).fit(X, Y)
    assert len(fleet.parts[2].features) == 1
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 2e-3 * one.certificate_.primal


@pytest.mark.parametrize("n_labels", [1, 129])
def test_bits_do_not_depend_on_threads(rng, n_labels):
    X, Y = make_problem(rng, n=80, n_labels=n_labels, sparse=True, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two = (fitted(cut(X, Y, 3), n_jobs=n_jobs)[0] for n_jobs in (1, 2))
    assert np.array_equal(one.coef_, two.coef_)
    assert one.certificate_ == two.certificate_
    assert one.n_iter_ == two.n_iter_


def test_label_names_are_the_union_of_the_parts(rng):
    X, Y = make_problem(rng, n_labels=3)
    names = np.array(["sea", "sun", "air"])
    sets = [set(names[row == 1].tolist()) for row in Y]
    order = np.argsort([("air" in s) for s in sets], kind="stable")  # the first part has no "air"
    X, sets = X[order], [sets[i] for i in order]
    half = sum("air" not in s for s in sets)
    with pytest.warns(UserWarning, match="not alike"):
        model, _ = fitted([Block(X[:half], sets[:half]), Block(X[half:], sets[half:])])
    one = LinearM3L(random_state=0).fit(X, sets)
    assert model.label_names_.tolist() == ["air", "sea", "sun"]
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 2e-3 * one.certificate_.primal
    assert model.predict(X[:2]) == one.predict(X[:2])


def test_one_dimensional_y(rng):
    X, Y = make_problem(rng, n_labels=1)
    y = np.where(Y[:, 0] == 1, 7, 3)
    X, y = X[np.argsort(y)], np.sort(y)
    blocks = [Block(X[y == 3], y[y == 3]), Block(X[y == 7], y[y == 7])]
    model, _ = fitted(blocks)
    one = LinearM3L(random_state=0).fit(X, y)
    assert model.classes_.tolist() == [3, 7]
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 2e-3 * one.certificate_.primal


def test_history_brackets_the_optimum_of_cvxpy(rng):
    X, Y = make_problem(rng, n=40, n_labels=3)
    y = 2 * Y - 1
    Z, b = cp.Variable((3, X.shape[1])), cp.Variable(3)
    slack = cp.pos(1 - cp.multiply(y, X @ Z.T + np.ones((40, 1)) @ cp.reshape(b, (1, 3), order="C")))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(Z) + 0.5 * cp.sum_squares(b) + cp.sum(slack)))
    best = problem.solve(solver=cp.CLARABEL)
    model, _ = fitted(cut(X, Y, 4), C=1.0, tol=1e-5)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-5)
    assert np.all(model.history_.primal >= best * (1 - 1e-8))
    assert np.all(model.history_.dual <= best * (1 + 1e-8))
    assert model.n_iter_ == model.history_.pass_[-1]


def test_permuted_labels_permute_the_answer(rng):
    X, Y = make_problem(rng)
    order = rng.permutation(5)
    model, other = (fitted(cut(X, labels, 3))[0] for labels in (Y, Y[:, order]))
    assert model.n_iter_ == other.n_iter_
    assert np.allclose(model.coef_[order], other.coef_, rtol=1e-9, atol=1e-12)


def opened(rng, name="identity", K=3, n_jobs=1):
    """A fleet with its rounds, and the dense problem it stands for."""
    X, Y = make_problem(rng)
    fleet = LocalFleet(cut(X, Y, K), n_jobs)
    plan = make_plan(LinearM3L(1.0, prior=make_priors(rng)[name]), fleet.describe())
    rounds = HeldBackRounds(plan, fleet, *fleet.open(plan), Limits(1e-12, 100, None, 0), Monitor(None, 0, "test"))
    return fleet, rounds, np.column_stack([X, np.ones(len(X))]), np.where(Y == 1, 1.0, -1.0)


def betas(fleet):
    return np.concatenate([part.beta for part in fleet.parts])


@pytest.mark.parametrize("name", PRIORS)
def test_identities_of_a_round(rng, name):
    """W, V and the growth of the held-back dual are what a dense computation gives; theta is best on a grid."""
    fleet, rounds, X, y = opened(rng, name)
    R = as_matrix(rounds.plan.prior, 5)
    for _ in range(6):
        before = betas(fleet)
        centre = rounds.V.copy()
        answer = rounds._round()
        shares = rounds.shares[:, None]
        assert np.allclose(rounds.V, shares * rounds.W + (1 - shares) * centre, rtol=0, atol=1e-12)
        for part in fleet.parts:
            part.settle(rounds.committed, rounds.theta)
        assert np.allclose(rounds.W, rounds.forms.state(X.T @ betas(fleet)), atol=1e-10)

        def held_back_dual(beta, centre=centre, shares=shares):
            """min over V of P + 1/2 sum k |V - centre|^2, by its dual."""
            V = X.T @ beta
            middle = shares * V + (1 - shares) * centre
            k = 1 / shares - 1
            squares = np.sum(middle @ R * middle * (1 + k)) - np.sum(centre @ R * centre * k)
            return np.sum(y * beta) - 0.5 * squares

        if rounds.forms.factor is None:
            grown = held_back_dual(betas(fleet)) - held_back_dual(before)
            U, theta = answer.change, rounds.theta
            a = answer.change_linear - rounds.forms.product(rounds.V - shares * theta * U, U)
            d = rounds.forms.square(U, rounds.shares)
            gain = theta * a - 0.5 * theta**2 * d
            assert gain.sum() == pytest.approx(grown, abs=1e-9)
            grid = np.linspace(0, 1, 1001)[:, None]
            assert np.all(gain >= (grid * a - 0.5 * grid**2 * d).max(axis=0) - 1e-12)


def test_safe_aggregation(rng):
    """|sum U_k|^2 <= sigma sum |U_k|^2 with sigma the number of parts, and not with 1."""
    U = rng.normal(size=(4, 7, 3)) + 1
    together, apart = np.square(U.sum(axis=0)).sum(axis=-1), np.square(U).sum(axis=(0, 2))
    assert np.all(together <= 4 * apart + 1e-12)
    assert np.any(together > apart)
    _, rounds, *_ = opened(rng)
    assert rounds._round() is not None
    assert np.all(rounds.coherence <= rounds.counts + 1e-9)


@pytest.mark.parametrize("name", ["identity", "dense"])
def test_settling_is_idempotent(rng, name):
    fleet, rounds, X, _ = opened(rng, name)
    steps = iter(rng.integers(0, 4, size=12))
    for step in steps:
        if step == 0:  # a void round: its answer is thrown away
            W, V, state = rounds.W.copy(), rounds.V.copy(), (rounds.committed, rounds.theta)
            rounds._round()
            rounds.W[...], rounds.V[...] = W, V
            rounds.committed, rounds.theta = state
        elif step == 1:  # duplicates
            rounds._round()
            for part in fleet.parts:
                assert part.settle(rounds.committed, rounds.theta)
                assert part.settle(rounds.committed, rounds.theta)
        else:
            rounds._round()
    for part in fleet.parts:
        assert part.settle(rounds.committed, rounds.theta)
    assert np.allclose(rounds.W, rounds.forms.state(X.T @ betas(fleet)), atol=1e-10)


def test_a_part_that_missed_a_round_begins_again(rng):
    fleet, rounds, X, _ = opened(rng)
    for _ in range(3):
        rounds._round()
    lost = fleet.parts[1]
    lost.settle(rounds.committed, rounds.theta)
    lost.committed = 1
    assert rounds._round() is None
    weights = rounds._candidate()
    bounds, sums = rounds._sums(weights)
    assert not np.any(lost.beta)
    rounds._take(sums)
    assert np.allclose(rounds.W, X.T @ betas(fleet))
    assert bounds.dual <= bounds.primal
    assert rounds.run().bounds.within(1e-6) or rounds.t == 100


def test_goes_on_in_double_where_single_precision_does_not_suffice(rng):
    X, Y = make_problem(rng)
    X = (X + 300).astype(np.float32)
    model, _ = fitted(cut(X, Y, 2), C=1e-3, tol=1e-5, max_iter=3000)
    assert model.certificate_.converged
    assert model.coef_.dtype == np.float64
    assert np.all(np.diff(model.history_.pass_) > 0)


@pytest.mark.parametrize("name", PRIORS)
def test_local_gap_of_a_row(rng, name):
    """Of a single row it is what its losses exceed the dual's linear terms by, at the state given."""
    X, Y = make_problem(rng)
    plan = make_plan(LinearM3L(C=2.0, prior=make_priors(rng)[name]), [describe_block(Block(X, Y))])
    part = Part(plan, Block(X[:1], Y[:1]), renumber=False)
    width = part._native.width
    state = rng.normal(size=(plan.n_features + 1, width))
    part.beta = rng.random((1, 5)) * 2 * np.where(Y[:1] == 1, 1.0, -1.0)
    row = np.append(X[0], plan.bias)
    R = as_matrix(plan.prior, 5)
    F = np.eye(5) if width == 5 else np.asarray(plan.prior.factor)
    scores = (row @ state) @ (R if width == 5 else F.T)
    beta = part.beta[0]
    found = part.visit(state, np.ones(plan.n_features + 1), number=1, passes=3, seed=0)
    if plan.prior is None:
        expected = found.hinge.sum() - found.linear.sum() + beta @ scores
        assert found.local_gap == pytest.approx(expected, rel=1e-10)
    assert found.local_gap >= -1e-9


def test_warns_of_parts_that_differ(rng):
    X, Y = make_problem(rng, n=400)
    order = np.argsort(Y[:, 1], kind="stable")
    with pytest.warns(UserWarning, match="not alike: the frequency of label 1"):
        model, _ = fitted(cut(X[order], Y[order], 2))
    assert model.certificate_.converged


def test_wrong_parts(rng):
    X, Y = make_problem(rng)
    with pytest.raises(InputError, match="same features"):
        fitted([Block(X, Y), Block(X[:, :3], Y)])
    with pytest.raises(InputError, match="same labels"):
        fitted([Block(X, Y), Block(X, Y[:, :3])])
    with pytest.raises(InputError, match="a recipe"):
        fitted([Block(X, Y)], prior="labels")
    with pytest.raises(InputError, match="part 1: X has 30 rows"):
        fitted([*cut(X, Y, 2)[:1], Block(X[:30], Y[:20], name="part 1")])
    with pytest.raises(InputError, match="warm_start"):
        fitted([Block(X, Y)], warm_start=True)
    with pytest.raises(InputError, match="prune must be None"):
        fitted([Block(X, Y)], prune=0.1)
    facts = describe_block(Block(X, Y))
    plan = make_plan(LinearM3L(), [facts])
    part = Part(plan, Block(X, Y))
    with pytest.raises(TypeError):
        part._native.visit(np.zeros((7, 5), np.float32), np.ones(7), passes=1, seed=0)
    part.stop()
    with pytest.raises(InterruptedError):
        part.sum(0, None, np.zeros((5, 7)))
