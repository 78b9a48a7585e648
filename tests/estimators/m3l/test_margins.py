"""Margins of M3L by label, class and cell, against cvxpy, identities and plain recomputation."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import recompute
import scipy.sparse as sp
from every_prior import PRIORS, as_matrix, make_priors
from problems import Case, margins
from sklearn.base import clone
from sklearn.metrics import pairwise

from multimargin import KernelM3L, LinearM3L, certify, load, save
from multimargin.errors import InputError

EXACT = {"tol": 1e-9, "max_iter": 200_000, "random_state": 0}
N, N_LABELS = 40, 5
MODELS = {
    "linear": lambda **p: LinearM3L(**{"C": 1.0, **EXACT, **p}),
    "kernel": lambda **p: KernelM3L(gamma=0.3, **{"C": 1.0, **EXACT, **p}),
}
AGAIN = {"linear": recompute.linear_m3l, "kernel": recompute.kernel_m3l}
BOTH = pytest.mark.parametrize("kind", MODELS)
EVERY_PRIOR = pytest.mark.parametrize("name", PRIORS)


@pytest.fixture
def case(rng):
    X = rng.normal(size=(N, 4))
    sign = np.where(X @ rng.normal(size=(4, N_LABELS)) + rng.normal(size=(N, N_LABELS)) > 0, 1.0, -1.0)
    known = rng.random(sign.shape) < 0.9
    weight = 2 * rng.random(sign.shape)
    return Case(X, np.where(known, sign > 0, np.nan), weight, X, sign, known)


def of_every_form(rng):
    pairs = [{0: a, 1: b} for a, b in 2 * rng.random((N_LABELS, 2))]
    cells = rng.exponential(size=(N, N_LABELS)) * (rng.random((N, N_LABELS)) < 0.8)
    return {
        "number": 0.3,
        "labels": rng.exponential(size=N_LABELS),
        "classes": {0: 0.5, 1: 2.0},
        "labels and classes": [*pairs[:-1], 0.7],
        "one class": {0: 0.0, 1: 1.0},
        "cells": cells,
    }


FORMS = list(of_every_form(np.random.default_rng(0)))


def inner_products(kind, X, bias=1.0):
    return (pairwise.rbf_kernel(X, gamma=0.3) if kind == "kernel" else X @ X.T) + bias**2


def optimum(K, y, R, cost, margin):
    """Solve the primal by cvxpy: with K = A A' and R = F F', scores are A U F' and the regulariser is |U|^2 / 2."""

    def root(M):
        values, vectors = np.linalg.eigh(M)
        keep = values > 1e-12 * values[-1]
        return vectors[:, keep] * np.sqrt(values[keep])

    A, F = root(K), root(R)
    U = cp.Variable((A.shape[1], F.shape[1]))
    slack = cp.pos(margin - cp.multiply(y, A @ U @ F.T))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(U) + cp.sum(cp.multiply(cost, slack))))
    return problem.solve(solver=cp.CLARABEL)


def dominant_prior(rng):
    A = rng.normal(size=(N_LABELS, N_LABELS))
    R = A + A.T
    return R + np.diag(np.abs(R).sum(axis=1) - 2 * np.diag(R) + 0.1)


@BOTH
@EVERY_PRIOR
@pytest.mark.parametrize("form", FORMS)
def test_equals_cvxpy_and_is_recomputed(rng, case, kind, name, form):
    margin, prior = of_every_form(rng)[form], make_priors(rng)[name]
    model = MODELS[kind](C=0.7, prior=prior, margin=margin, warm_start=True)
    model.fit(case.X, case.Y, case.sample_weight)
    K, R = inner_products(kind, case.X), as_matrix(prior, N_LABELS)
    best = optimum(K, case.sign, R, case.costs(0.7), margins(case.sign, margin))
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert model.certificate_.dual == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert AGAIN[kind](model, case) == pytest.approx((model.certificate_.primal, model.certificate_.dual), rel=1e-8)
    assert certify(model, case.X, case.Y, case.sample_weight) == model.certificate_


@BOTH
@pytest.mark.parametrize("form", ["labels and classes", "cells"])
def test_margins_multiply_those_of_the_prior_loss(rng, case, kind, form):
    margin, R = of_every_form(rng)[form], dominant_prior(rng)
    y = np.where(case.known, case.sign, 0.0)
    best = optimum(
        inner_products(kind, case.X), case.sign, R, case.costs(1.0), y * (y @ R) * margins(case.sign, margin)
    )
    model = MODELS[kind](prior=R, loss="prior", margin=margin).fit(case.X, case.Y, case.sample_weight)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


@EVERY_PRIOR
@pytest.mark.parametrize("patience", [0.0, np.inf], ids=["Newton", "ascent"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_every_linear_engine_finds_the_same(rng, case, monkeypatch, name, patience, dtype, layout):
    prior, margin = make_priors(rng)[name], of_every_form(rng)["cells"]
    X = (case.X * (rng.random(case.X.shape) < 0.6)).astype(dtype)
    tol = 1e-4 if dtype == np.float32 else 1e-7
    monkeypatch.setattr("multimargin.estimators.m3l.linear.NEWTON_PATIENCE", patience)
    model = MODELS["linear"](prior=prior, margin=margin, tol=tol).fit(layout(X), case.Y, case.sample_weight)
    K, R = inner_products("linear", X.astype(float)), as_matrix(prior, N_LABELS)
    best = optimum(K, case.sign, R, case.costs(1.0), margin)
    assert model.certificate_.converged
    assert model.coef_.dtype == dtype
    assert model.certificate_.dual - 1e-6 * best <= best <= model.certificate_.primal + 1e-6 * best


@BOTH
@EVERY_PRIOR
@pytest.mark.parametrize("patience", [0.0, np.inf], ids=["Newton", "ascent"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_margins_are_scaled_costs_to_the_last_bit(rng, case, monkeypatch, kind, name, patience, dtype):
    """With margins a m at C, scores and objective are a and a^2 times those of margins m at C / a."""
    monkeypatch.setattr("multimargin.estimators.m3l.linear.NEWTON_PATIENCE", patience)
    prior, margin, X = make_priors(rng)[name], of_every_form(rng)["cells"] + 0.01, case.X.astype(dtype)
    options = {"prior": prior, "tol": 1e-3, "random_state": 0}
    for a in (2.0**-15, 2.0**15):
        scaled = MODELS[kind](C=a, margin=a * margin, **options).fit(X, case.Y)
        plain = MODELS[kind](C=1.0, margin=margin, **options).fit(X, case.Y)
        assert scaled.n_iter_ == plain.n_iter_
        assert scaled.certificate_.primal == a**2 * plain.certificate_.primal
        assert scaled.certificate_.dual == a**2 * plain.certificate_.dual
        np.testing.assert_array_equal(scaled.decision_function(X), a * plain.decision_function(X))


@BOTH
@pytest.mark.parametrize("decades", [-9, -4, 4, 9])
def test_margins_and_features_of_every_scale(rng, case, kind, decades):
    """Margins a m at C = a are margins m at 1, but for the scale; so are margins a m of rows a x at 1 / a."""
    a = 10.0**decades
    margin = of_every_form(rng)["labels and classes"]
    scaled = [a * m if isinstance(m, float) else {k: a * v for k, v in m.items()} for m in margin]
    options = {"kernel": "linear"} if kind == "kernel" else {}
    options |= {"fit_intercept": False, "tol": 1e-4}
    plain = MODELS[kind](margin=margin, **options).fit(case.X, case.Y)
    by_cost = MODELS[kind](C=a, margin=scaled, **options).fit(case.X, case.Y)
    by_rows = MODELS[kind](C=1 / a, margin=scaled, **options).fit(a * case.X, case.Y)
    for model, factor in ((by_cost, a**2), (by_rows, 1.0)):
        assert model.certificate_.converged
        assert model.certificate_.primal == pytest.approx(factor * plain.certificate_.primal, rel=2e-4)


@BOTH
@EVERY_PRIOR
def test_forms_that_mean_the_same_give_the_same(rng, case, kind, name):
    prior, a, Y = make_priors(rng)[name], 0.75, case.sign > 0  # a mean of such numbers is exact
    fits = [
        MODELS[kind](prior=prior, margin=margin, tol=1e-3).fit(case.X, Y)
        for margin in (a, [a] * N_LABELS, {0: a, 1: a}, [{0: a, 1: a}] * N_LABELS, np.full((N, N_LABELS), a))
    ]
    for model in fits[1:]:
        np.testing.assert_array_equal(model.decision_function(case.X), fits[0].decision_function(case.X))
    pair = {0: 0.4, 1: 1.3}
    by_class, by_cell = (
        MODELS[kind](prior=prior, margin=margin).fit(case.X, case.Y)
        for margin in (pair, margins(case.sign, pair) * case.known)
    )
    assert by_cell.certificate_.primal == pytest.approx(by_class.certificate_.primal, rel=1e-8)


@BOTH
@EVERY_PRIOR
def test_margins_of_one_change_nothing(rng, case, kind, name):
    prior, Y = make_priors(rng)[name], case.sign > 0
    plain, ones = (
        MODELS[kind](prior=prior, tol=1e-3, **margin).fit(case.X, Y)
        for margin in ({}, {"margin": np.ones((N, N_LABELS))})
    )
    np.testing.assert_array_equal(ones.decision_function(case.X), plain.decision_function(case.X))
    assert ones.certificate_ == plain.certificate_


@BOTH
def test_margins_by_class_scale_and_shift_the_scores(rng, case, kind):
    """With an intercept that costs nothing, margins (p, q) are a scale (p + q) / 2 and a shift (p - q) / 2."""
    p, q, options = 1.7, 0.3, {"intercept_scaling": 100.0, "tol": 1e-7}
    a, b = (p + q) / 2, (p - q) / 2
    by_class = MODELS[kind](C=a, margin={0: q, 1: p}, **options).fit(case.X, case.Y)
    plain = MODELS[kind](C=1.0, **options).fit(case.X, case.Y)
    assert by_class.certificate_.primal == pytest.approx(a**2 * plain.certificate_.primal, rel=1e-5)
    scores = a * plain.decision_function(case.X) + b
    np.testing.assert_allclose(by_class.decision_function(case.X), scores, atol=2e-2)


@BOTH
@EVERY_PRIOR
def test_permuted_labels_and_rows_permute_the_answer(rng, case, kind, name):
    margin, prior = of_every_form(rng)["cells"], as_matrix(make_priors(rng)[name], N_LABELS)
    rows, columns = rng.permutation(N), rng.permutation(N_LABELS)
    one = MODELS[kind](prior=prior, margin=margin).fit(case.X, case.Y, case.sample_weight)
    other = MODELS[kind](prior=prior[np.ix_(columns, columns)], margin=margin[np.ix_(rows, columns)]).fit(
        case.X[rows], case.Y[np.ix_(rows, columns)], case.sample_weight[np.ix_(rows, columns)]
    )
    assert other.certificate_.primal == pytest.approx(one.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(other.decision_function(case.X), one.decision_function(case.X)[:, columns], atol=1e-3)


@BOTH
@EVERY_PRIOR
def test_without_margins_there_is_nothing_to_learn(rng, case, kind, name):
    for nothing in (0.0, np.zeros((N, N_LABELS))):
        model = MODELS[kind](prior=make_priors(rng)[name], margin=nothing).fit(case.X, case.Y)
        assert (model.certificate_.primal, model.certificate_.dual, model.certificate_.converged) == (0.0, 0.0, True)
        assert not model.decision_function(case.X).any()


@BOTH
def test_margins_of_unknown_cells_do_not_matter(rng, case, kind):
    margin = of_every_form(rng)["cells"]
    one = MODELS[kind](margin=margin).fit(case.X, case.Y)
    other = MODELS[kind](margin=np.where(case.known, margin, 1e9)).fit(case.X, case.Y)
    np.testing.assert_array_equal(other.decision_function(case.X), one.decision_function(case.X))


@BOTH
@EVERY_PRIOR
def test_warm_start_goes_on_to_other_margins(rng, case, kind, name):
    model = MODELS[kind](prior=make_priors(rng)[name], warm_start=True).fit(case.X, case.Y)
    for margin in (1e-3, *of_every_form(rng).values(), 1e3):
        warm = model.set_params(margin=margin).fit(case.X, case.Y).certificate_
        cold = clone(model).fit(case.X, case.Y).certificate_
        assert warm.converged
        assert warm.primal == pytest.approx(cold.primal, rel=1e-7, abs=1e-12)


@BOTH
def test_the_number_of_threads_does_not_matter(rng, case, kind):
    options = {"margin": of_every_form(rng)["cells"], "tol": 1e-3}
    one, two = (MODELS[kind](n_jobs=jobs, **options).fit(case.X, case.Y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.decision_function(case.X), two.decision_function(case.X))


@BOTH
@pytest.mark.parametrize("form", FORMS)
def test_a_file_keeps_the_margins(rng, case, kind, form, tmp_path):
    model = MODELS[kind](margin=of_every_form(rng)[form], tol=1e-3).fit(case.X, case.Y, case.sample_weight)
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    np.testing.assert_equal(again.get_params()["margin"], model.margin)
    np.testing.assert_equal(clone(model).get_params()["margin"], model.margin)
    primal = certify(again, case.X, case.Y, case.sample_weight).primal
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-12)


@BOTH
def test_classes_go_by_their_names(rng, case, kind):
    y = np.where(case.sign[:, 0] > 0, "yes", "no")
    named, numbered = (
        MODELS[kind](margin=margin).fit(case.X, y) for margin in ({"no": 0.5, "yes": 2.0}, {0: 0.5, 1: 2.0})
    )
    np.testing.assert_array_equal(named.decision_function(case.X), numbered.decision_function(case.X))
    frame = pd.DataFrame(case.Y, columns=list("abcde"))
    margin = of_every_form(rng)["cells"]
    of_frame = MODELS[kind](margin=pd.DataFrame(margin, columns=list("abcde"))[list("dbeca")]).fit(case.X, frame)
    of_array = MODELS[kind](margin=margin).fit(case.X, case.Y)
    np.testing.assert_array_equal(of_frame.decision_function(case.X), of_array.decision_function(case.X))
    for columns in ("abcdf", "abcd", "abcdd", "abcdee"):
        with pytest.raises(InputError, match="columns of margin must be the 5 labels, each once; got"):
            MODELS[kind](margin=pd.DataFrame(np.ones((N, len(columns))), columns=list(columns))).fit(case.X, frame)


@BOTH
@pytest.mark.parametrize(
    ("margin", "message"),
    [
        (np.inf, "'margin' parameter"),
        (-1.0, "'margin' parameter"),
        ([np.inf] * N_LABELS, "margin must be finite and not negative; it goes from inf to inf"),
        ("wide", "'margin' parameter"),
        (None, "'margin' parameter"),
        ([1.0, 2.0], r"5 numbers or mappings .* one per label, or a matrix of shape \(40, 5\).*got shape \(2,\)"),
        (np.ones((7, N_LABELS)), r"got shape \(7, 5\)"),
        ([{0: 1.0}] * 3, "margin has 3 entries for 5 labels"),
        ({2: 1.0}, "margin names the class 2, but the classes are"),
        ({0: -1.0}, "margin of label 0 must be finite and not negative"),
        ([1.0, 1.0, 1.0, 1.0, "x"], "margin must be made of numbers"),
        (np.full((N, N_LABELS), -0.5), "finite and not negative; it goes from -0.5 to -0.5"),
        (np.full((N, N_LABELS), np.nan), "finite and not negative"),
        (1e200, r"margin must be 0 or lie between 1e-100 and 1e\+100"),
    ],
)
def test_bad_margins_are_refused(case, kind, margin, message):
    with pytest.raises((InputError, ValueError), match=message):
        MODELS[kind](margin=margin).fit(case.X, case.Y)
