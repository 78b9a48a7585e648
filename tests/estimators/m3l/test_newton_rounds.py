"""Newton rounds over parts of the rows: the sums of a part against NumPy, and the model against one machine."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import LinearM3L
from multimargin.estimators.m3l.blocks import Block, describe_block
from multimargin.estimators.m3l.newton_rounds import LENGTHS, newton_direction, newton_pays
from multimargin.estimators.m3l.parted import train_on_parts
from multimargin.estimators.m3l.parts import Part
from multimargin.estimators.m3l.plans import make_plan
from multimargin.fleets import LocalFleet


def make_problem(rng, n=400, d=7, n_labels=19, dtype=np.float64):
    X = rng.normal(size=(n, d)) * rng.lognormal(size=d)
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0.3).astype(float)
    return X.astype(dtype), Y


def cut(X, Y, K, weight=None):
    edges = np.linspace(0, len(Y), K + 1).astype(int)
    return [Block(X[a:b], Y[a:b], None if weight is None else weight[a:b]) for a, b in pairwise(edges)]


def fitted(blocks, newton=True, n_jobs=1, **parameters):
    model, fleet = LinearM3L(random_state=0, **parameters), LocalFleet(blocks, n_jobs)
    train_on_parts(model, fleet, newton=newton)
    return model, fleet


def recomputed(model, fleet, X, Y, cost):
    """P and D in plain NumPy, from the weights and the dual variables of the parts, which are in their box."""
    y = np.where(Y == 1, 1.0, -1.0) * (cost > 0)
    beta = np.concatenate([part.beta for part in fleet.parts]).astype(float)
    assert np.all(beta * y >= 0)
    assert np.all(np.abs(beta) <= cost * (1 + 1e-6))
    features = np.column_stack([X, np.ones(len(X))]).astype(float)
    Z = np.column_stack([model.coef_, model.intercept_]).astype(float)
    primal = 0.5 * np.sum(Z**2) + np.sum(cost * np.maximum(0, 1 - y * (features @ Z.T)))
    return primal, np.sum(y * beta) - 0.5 * np.sum((features.T @ beta) ** 2)


def opened(X, Y, C):
    """A Newton part of all rows, and X with the constant feature."""
    block = Block(X, Y)
    plan = make_plan(LinearM3L(C=C), [describe_block(block)])
    part = Part(replace(plan, newton=True), block)
    return part, np.column_stack([X, np.ones(len(X))]).astype(float)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_a_part(rng, dtype):
    X, Y = make_problem(rng, n=4300, d=9, dtype=dtype)  # more rows than are added up in single precision
    C, exact = 0.3, 1e-5 if dtype == np.float32 else 1e-12
    part, features = opened(X, Y, C)
    y, n_labels = np.where(Y == 1, 1.0, -1.0), Y.shape[1]
    low, high = np.where(y > 0, 0, -C), np.where(y > 0, C, 0)
    centre = rng.uniform(low, high).astype(dtype)
    part.beta = centre
    U, tau = 0.1 * rng.normal(size=(10, n_labels)), rng.uniform(0.1, 2, size=n_labels)
    beta = np.clip(centre + (y - features @ U) * C / tau, low, high)

    def smoothed(U):
        z = features @ U
        b = np.clip(centre + (y - z) * C / tau, low, high)
        return ((y - z) * b - tau / (2 * C) * (b - centre) ** 2).sum(axis=0)

    found = part.value(U, tau, number=1)
    assert found.H is None
    np.testing.assert_allclose(found.V, features.T @ beta, atol=exact * np.abs(features).sum())
    np.testing.assert_allclose(found.linear, (y * beta).sum(axis=0), rtol=exact)
    np.testing.assert_allclose(found.hinge, C * np.maximum(0, 1 - y * (features @ U)).sum(axis=0), rtol=exact)

    direction = rng.normal(size=U.shape)
    losses = part.search(U, direction, tau, LENGTHS)
    expected = [smoothed(U + a * direction) - smoothed(U) for a in LENGTHS]
    np.testing.assert_allclose(losses, expected, atol=exact * np.abs(expected).max(), rtol=10 * exact)

    marked = rng.random(n_labels) < 0.5
    system = part.system(U, tau, marked)
    free = (beta > low) & (beta < high)
    for H, label in zip(system.H, np.flatnonzero(marked), strict=True):
        rows = features[free[:, label]]
        square = C * rows.T @ rows
        np.testing.assert_allclose(H, square[np.triu_indices(10)], atol=exact * np.abs(square).max())


def test_the_centre_moves_when_the_driver_says_so(rng):
    X, Y = make_problem(rng)
    part, features = opened(X, Y, 0.5)
    U, tau, theta = 0.1 * rng.normal(size=(8, 19)), np.full(19, 0.7), rng.random(19)
    y = np.where(Y == 1, 1.0, -1.0)
    beta = np.clip((y - features @ U) * 0.5 / tau, np.minimum(0, 0.5 * y), np.maximum(0, 0.5 * y))
    part.value(U, tau, number=1)
    assert part.settle(0, None)  # the round was void
    assert not part.beta.any()
    part.value(U, tau, number=2)
    part.value(U, tau, number=3)  # asked again
    assert part.settle(3, theta)
    np.testing.assert_allclose(part.beta, theta * beta, atol=1e-14)
    assert part.settle(3, theta)  # once more: nothing happens
    np.testing.assert_allclose(part.beta, theta * beta, atol=1e-14)
    assert not part.settle(4, theta)
    assert not part.sum(4, theta, np.zeros((19, 8))).V.any()  # a round was missed: at zero again
    assert part.committed == 4


def test_directions_solve_the_systems(rng):
    rows, r = rng.normal(size=(20, 6)), rng.normal(size=6)
    H = rows.T @ rows
    expected = np.linalg.solve(np.eye(6) + H / 0.3, r)
    np.testing.assert_allclose(newton_direction(H[np.triu_indices(6)], 0.3, r), expected, rtol=1e-10)
    H = np.diag([1e9, -1e3, 1.0])  # what rounding makes of badly scaled features
    d = newton_direction(H[np.triu_indices(3)], 1.0, np.ones(3))
    assert np.isfinite(d).all()
    assert d.sum() > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [1, 3, 8])
def test_same_optimum_as_one_machine(rng, K, dtype):
    X, Y = make_problem(rng, dtype=dtype)
    one = LinearM3L(random_state=0).fit(X, Y)
    model, fleet = fitted(cut(X, Y, K))
    assert model.certificate_.converged
    assert model.coef_.dtype == dtype
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 1e-3 * one.certificate_.primal
    primal, dual = recomputed(model, fleet, X, Y, np.full(Y.shape, model.C_))
    exact = 1e-6 if dtype == np.float32 else 1e-12
    assert model.certificate_.primal == pytest.approx(primal, rel=exact)
    assert model.certificate_.dual == pytest.approx(dual, rel=exact)


def test_rounds_do_not_depend_on_the_parts_nor_bits_on_threads(rng):
    X, Y = make_problem(rng)
    models = [fitted(cut(X, Y, K), n_jobs=n_jobs)[0] for K, n_jobs in ((1, 1), (2, 1), (2, 2), (7, 1))]
    assert len({model.n_iter_ for model in models}) == 1
    np.testing.assert_array_equal(models[1].coef_, models[2].coef_)
    for model in models:
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-6)


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_weights_and_unknown_labels(rng, tol):
    X, Y = make_problem(rng, n_labels=5)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    Y[:, 3] = np.where(np.isnan(Y[:, 3]), np.nan, 1.0)
    weight = rng.random(Y.shape) + 0.1
    with pytest.warns(UserWarning, match="Constant in training: label 3"):
        model, fleet = fitted(cut(X, Y, 3, weight), tol=tol)
    with pytest.warns(UserWarning, match="Constant in training: label 3"):
        one = LinearM3L(random_state=0, tol=tol).fit(X, Y, sample_weight=weight)
    assert model.constant_labels_.tolist() == [3]
    assert model.certificate_.converged
    assert abs(model.certificate_.primal - one.certificate_.primal) <= tol * one.certificate_.primal
    cost = np.where(np.isnan(Y), 0, model.C_ * weight)
    cost[:, 3] = 0
    model.intercept_[3] = 0
    assert recomputed(model, fleet, X, Y, cost) == pytest.approx(
        (model.certificate_.primal, model.certificate_.dual), rel=1e-10
    )


@pytest.mark.parametrize(
    "options",
    [
        {"class_weight": "balanced"},
        {"fit_intercept": False},
        {"margin": [4.0, {0: 1.0, 1: 2.0}, 0.5, 1.0]},
        {"C": 1e-4},
        {"C": 30.0},
    ],
)
def test_options(rng, options):
    X, Y = make_problem(rng, n_labels=4)
    weight = rng.random(len(Y)) + 0.1
    model, _ = fitted(cut(X, Y, 3, weight), **options)
    one = LinearM3L(random_state=0, **options).fit(X, Y, sample_weight=weight)
    assert model.certificate_.converged
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 1e-3 * one.certificate_.primal


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_badly_scaled_features(rng, dtype):
    X, Y = make_problem(rng, n_labels=3)
    X = (X * np.logspace(-3, 3, 7)).astype(dtype)
    one = LinearM3L(random_state=0).fit(X, Y)
    model, _ = fitted(cut(X, Y, 3))
    assert model.certificate_.converged
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 1e-3 * one.certificate_.primal


def test_what_single_precision_cannot_reach_is_reached_in_double(rng):
    X, Y = make_problem(rng, n_labels=3, dtype=np.float32)
    model, _ = fitted(cut(X, Y, 2), tol=1e-9)
    assert model.certificate_.converged
    assert model.coef_.dtype == np.float64


def test_sparse_rows_that_are_nearly_full_and_a_part_without_rows(rng):
    X, Y = make_problem(rng, n_labels=3)
    X[rng.random(X.shape) < 0.2] = 0
    dense, _ = fitted(cut(X, Y, 2), C=0.5)
    sparse = sp.csr_matrix(X)
    blocks = [Block(sparse[a:b], Y[a:b]) for a, b in ((0, 200), (200, 200), (200, 400))]
    model, _ = fitted(blocks, newton=None, C=0.5)
    np.testing.assert_array_equal(model.coef_, dense.coef_)


@pytest.mark.parametrize(
    ("n", "d", "n_labels", "prior", "sparse", "pays"),
    [
        (400, 7, 3, None, False, True),
        (24, 7, 3, None, False, False),  # n < 4 D
        (400, 7, 3, np.eye(3) / 2 + 0.5, False, False),
        (400, 7, 3, None, True, False),
        (2100, 501, 1, None, False, False),
        (1700, 400, 900, None, False, False),  # the systems would be too large
    ],
)
def test_where_newton_rounds_pay(rng, n, d, n_labels, prior, sparse, pays):
    X, Y = make_problem(rng, n=n, d=d, n_labels=n_labels, dtype=np.float32)
    if sparse:
        X[rng.random(X.shape) < 0.7] = 0
    facts = [describe_block(Block(sp.csr_matrix(X) if sparse else X, Y))]
    assert newton_pays(make_plan(LinearM3L(prior=prior), facts), facts, 1) == pays


def test_the_choice_is_made_and_told(rng, capsys):
    X, Y = make_problem(rng, n_labels=3)
    told = []
    chosen, _ = fitted(cut(X, Y, 2), newton=None, verbose=1, callback=lambda progress: told.append(progress.pass_))
    assert "Newton rounds" in capsys.readouterr().err
    newton, _ = fitted(cut(X, Y, 2), newton=True)
    held, _ = fitted(cut(X, Y, 2), newton=False)
    np.testing.assert_array_equal(chosen.coef_, newton.coef_)
    assert not np.array_equal(chosen.coef_, held.coef_)
    assert told[-1] == chosen.n_iter_


def test_limits(rng):
    X, Y = make_problem(rng, n_labels=3)
    for limit, told in (
        *(({"max_iter": most}, pytest.warns(UserWarning, match="max_iter")) for most in (1, 2, 3, 4, 5, 6)),
        ({"time_limit": 1e-9}, pytest.warns(UserWarning, match="time_limit")),
        ({"callback": lambda progress: True}, nullcontext()),
    ):
        with told:
            model, fleet = fitted(cut(X, Y, 2), tol=1e-12, **limit)
        assert not model.certificate_.converged
        assert 1 <= model.n_iter_ <= limit.get("max_iter", 4)
        primal, dual = recomputed(model, fleet, X, Y, np.full(Y.shape, model.C_))
        assert (model.certificate_.primal, model.certificate_.dual) == pytest.approx((primal, dual), rel=1e-10)


def test_lost_parts_begin_again(rng):
    """A part that is lost before every kind of round: the fit goes on from the sums, to the same optimum."""
    X, Y = make_problem(rng, n_labels=3)
    one = LinearM3L(random_state=0).fit(X, Y)

    class Leaky(LocalFleet):
        asked = 0

        def newton(self, order):
            Leaky.asked += 1
            if Leaky.asked in (5, 9, 13):  # a system, a search, a value
                old = self.parts[1]
                self.parts[1] = Part(self.plan, self._blocks[1])
                assert self.parts[1].committed != old.committed
            return super().newton(order)

        def open(self, plan):
            self.plan = plan
            return super().open(plan)

    model = LinearM3L(random_state=0)
    fleet = Leaky(cut(X, Y, 3))
    train_on_parts(model, fleet, newton=True)
    assert Leaky.asked > 13
    assert model.certificate_.converged
    assert abs(model.certificate_.primal - one.certificate_.primal) <= 1e-3 * one.certificate_.primal
    assert recomputed(model, fleet, X, Y, np.full(Y.shape, model.C_)) == pytest.approx(
        (model.certificate_.primal, model.certificate_.dual), rel=1e-10
    )
