"""Class weights of the structured and of the separation estimators, against cvxpy and plain recomputation."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from recompute import LABEL_KERNEL, ListedSets, separation

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    OutputKernelClassifier,
    SubmodularClassifier,
    certify,
    weights,
)
from multimargin.errors import InputError

EXACT = {"tol": 1e-8, "max_iter": 100_000, "random_state": 0}
MODELS = {
    "submodular": lambda **p: SubmodularClassifier(loss="hamming", **EXACT, **p),
    "cliques": lambda **p: CliqueClassifier(graph="full", **{**EXACT, "tol": 1e-4}, **p),
    "softmax": lambda **p: CliqueClassifier(graph="full", loss="softmax-margin", **EXACT, **p),
    "calibrated-separation": lambda **p: CalibratedSeparationClassifier(**EXACT, **p),
    "output-kernel": lambda **p: OutputKernelClassifier(label_weights=LABEL_KERNEL, **EXACT, **p),
}
EVERY = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
WEIGHTS = ["balanced", {0: 0.5, 1: 3.0}, weights.LabelFrequencies([0.5, 0.3, 0.6, 0.4])]


@pytest.fixture
def problem(rng):
    """Rows with an empty and a full label set, and unknown cells among them."""
    X = rng.normal(size=(40, 3))
    Y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(40, 4)) > 0.4).astype(float)
    Y[0], Y[1] = 0.0, 1.0
    Y[rng.random(Y.shape) < 0.1] = np.nan
    return X, Y


@EVERY
def test_weights_of_one_change_nothing(make, problem):
    X, Y = problem
    plain = make().fit(X, Y)
    for ones in ({0: 1.0, 1: 1.0}, [{0: 1, 1: 1}] * 4):
        model = make(class_weight=ones).fit(X, Y)
        np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
        assert (model.certificate_.primal, model.certificate_.dual) == (
            plain.certificate_.primal,
            plain.certificate_.dual,
        )


@EVERY
def test_weights_change_the_model_and_every_form_means_the_same(make, problem):
    X, Y = problem
    positive, negative = (Y == 1).sum(axis=0), (Y == 0).sum(axis=0)
    total = positive + negative
    by_hand = [{0: t / (2 * n), 1: t / (2 * p)} for t, n, p in zip(total, negative, positive, strict=True)]
    balanced, listed = (make(class_weight=w).fit(X, Y).decision_function(X) for w in ("balanced", by_hand))
    np.testing.assert_allclose(balanced, listed, atol=1e-10)
    assert np.abs(balanced - make().fit(X, Y).decision_function(X)).max() > 1e-2


@EVERY
def test_permuted_labels_permute_the_answer(make, problem, rng):
    X, Y = problem
    order = rng.permutation(4)
    pairs = [{0: a, 1: b} for a, b in rng.uniform(0.5, 3.0, size=(4, 2))]
    one = make(class_weight=pairs).fit(X, Y)
    other = make(class_weight=[pairs[k] for k in order]).fit(X, Y[:, order])
    gaps = one.certificate_.gap + other.certificate_.gap
    assert other.certificate_.primal == pytest.approx(one.certificate_.primal, abs=gaps)
    near = 4 * np.linalg.norm(X, axis=1).max() * np.sqrt(2 * gaps)  # by strong convexity
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X)[:, order], atol=near)


@EVERY
@pytest.mark.parametrize("weight", WEIGHTS, ids=str)
def test_certify_agrees(make, problem, weight):
    X, Y = problem
    model = make(class_weight=weight, warm_start=True).fit(X, Y)
    assert model.certificate_.converged
    again = certify(model, X, Y)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-12)


@pytest.mark.parametrize("weight", WEIGHTS[:2], ids=str)
@pytest.mark.parametrize("pairs", [0.0, 1.0])
@pytest.mark.parametrize("solver", ["blocks", "bundle"])
def test_submodular_certificate_is_recomputed(problem, weight, pairs, solver):
    X, Y = problem
    model = SubmodularClassifier(
        loss="hamming", pairs=pairs, solver=solver, class_weight=weight, warm_start=solver == "blocks", tol=1e-4
    ).fit(X, Y)
    sets = ListedSets(model, X, Y, None)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(sets.primal(model), rel=1e-9)
    if solver == "blocks":
        assert model.certificate_.dual == pytest.approx(sets.dual(model._last.state), rel=1e-9)


@pytest.mark.parametrize("weight", WEIGHTS[:2], ids=str)
@pytest.mark.parametrize("solver", ["rows", "admm", "interior"])
@pytest.mark.parametrize("name", ["calibrated-separation", "output-kernel"])
def test_separation_certificate_is_recomputed(problem, weight, solver, name):
    X, Y = problem
    model = MODELS[name](class_weight=weight, solver=solver, warm_start=True).fit(X, Y)
    primal, dual, *_ = separation(model, X, Y, np.ones(len(X)))
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    assert model.certificate_.dual == pytest.approx(dual, rel=1e-9)
    assert model.certificate_.converged


def test_calibrated_separation_is_the_problem_of_the_docstring(problem):
    X, Y = problem
    pairs = [{0: 0.5 + k, 1: 3.0 - 0.5 * k} for k in range(4)]
    C, n_labels, Z = 0.7, 4, np.column_stack([X, np.ones(len(X))])
    W, u = cp.Variable((4, n_labels)), cp.Variable(4)
    loss = 0
    for x, y in zip(Z, Y, strict=True):
        for label, sign in ((1, 1.0), (0, -1.0)):
            own = np.flatnonzero(y == label)
            if len(own):
                cost = C * np.mean([pairs[k][label] for k in own])
                loss += cost * cp.pos(cp.max(cp.hstack([1 - sign * (x @ (W[:, k] - u)) for k in own])))
    optimum = cp.Problem(cp.Minimize(0.5 * (cp.sum_squares(W) + cp.sum_squares(u)) + loss)).solve(solver="CLARABEL")
    for solver in ("rows", "admm", "interior"):
        model = MODELS["calibrated-separation"](C=C, class_weight=pairs, solver=solver).fit(X, Y)
        assert model.certificate_.primal == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("name", ["calibrated-separation", "output-kernel"])
def test_both_sides_weighted_alike_are_rows_weighted(problem, name):
    X, Y = problem
    twice = MODELS[name](C=1.0, class_weight={0: 2.0, 1: 2.0}).fit(X, Y)
    other = MODELS[name](C=2.0).fit(X, Y)
    assert twice.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-7)


@pytest.mark.parametrize("solver", ["rows", "admm", "interior"])
def test_a_side_without_weight_is_not_there(problem, solver):
    X, Y = problem
    present_alone = MODELS["calibrated-separation"](C=1.0, class_weight={0: 0.0, 1: 1.0}, solver=solver).fit(X, Y)
    Z = np.column_stack([X, np.ones(len(X))])
    W, u = cp.Variable((4, 4)), cp.Variable(4)
    loss = 0
    for x, y in zip(Z, Y, strict=True):
        if (y == 1).any():
            loss += cp.pos(cp.max(cp.hstack([1 - x @ (W[:, k] - u) for k in np.flatnonzero(y == 1)])))
    optimum = cp.Problem(cp.Minimize(0.5 * (cp.sum_squares(W) + cp.sum_squares(u)) + loss)).solve(solver="CLARABEL")
    assert present_alone.certificate_.converged
    assert present_alone.certificate_.primal == pytest.approx(optimum, rel=1e-6)


def test_without_pairs_the_structured_models_are_svms_with_margins_by_class(problem):
    """One SVM per label: max(0, c - y f); the two states of a label share its norm in CliqueClassifier."""
    X, Y = problem
    pairs = [{0: 0.5 + k, 1: 3.0 - 0.5 * k} for k in range(4)]
    Z = np.column_stack([X, np.ones(len(X))])
    W = cp.Variable((4, 4))
    loss = 0
    for k, pair in enumerate(pairs):
        known = ~np.isnan(Y[:, k])
        sign = 2 * Y[known, k] - 1
        loss += cp.sum(cp.pos(np.where(sign > 0, pair[1], pair[0]) - cp.multiply(sign, Z[known] @ W[:, k])))
    plain = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + loss)).solve(solver="CLARABEL")
    model = MODELS["submodular"](C=1.0, class_weight=pairs, pairs=0.0).fit(X, Y)
    assert model.certificate_.primal == pytest.approx(plain, rel=1e-6)
    half = cp.Problem(cp.Minimize(0.25 * cp.sum_squares(W) + loss)).solve(solver="CLARABEL")
    model = CliqueClassifier(C=1.0, graph=None, class_weight=pairs, **EXACT).fit(X, Y)
    assert model.certificate_.primal == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "softmax-margin"])
def test_objective_of_cliques_by_enumeration(problem, loss):
    X, Y = problem
    pair = {0: 0.5, 1: 3.0}
    model = CliqueClassifier(graph="full", loss=loss, class_weight=pair, C=0.7, **EXACT).fit(X, Y)
    kappa = np.array([0.5 + 3 / 4 if len(t) == 1 else 1 / 4 for t in model.subsets_])  # three pairs hold a label
    coef = np.column_stack([model.subset_coef_, model.subset_intercept_])
    value = 0.5 * np.sum(coef**2 / kappa[:, None])
    for x, y in zip(X, Y, strict=True):
        known = ~np.isnan(y)
        scores = coef @ np.append(x, 1.0) * np.array([known[list(t)].all() for t in model.subsets_])
        listed = np.array(list(product(*[(-1.0, 1.0) if k else (1.0,) for k in known])))
        chi = np.array([listed[:, list(t)].prod(axis=1) for t in model.subsets_]).T
        truth = np.where(known, 2 * y - 1, 1.0)
        own = np.array([truth[list(t)].prod() for t in model.subsets_])
        delta = (listed != truth) @ np.where(truth > 0, pair[1], pair[0])
        gains = delta + (chi - own) @ scores
        value += 0.7 * (gains.max() if loss == "hinge" else np.log(np.exp(gains).sum()))
    assert model.certificate_.primal == pytest.approx(value, rel=1e-9)


def test_learned_cliques_are_certified_over_all_candidates(problem):
    X, Y = problem
    model = CliqueClassifier(class_weight="balanced", stopping="gap", tol=1e-3, warm_start=True, random_state=0).fit(
        X, Y
    )
    assert model.certificate_.converged
    assert certify(model, X, Y).dual == pytest.approx(model.certificate_.dual, rel=1e-9)


def test_the_f_score_takes_no_class_weights(problem):
    with pytest.raises(InputError, match=r"class_weight needs loss='hamming': .* ThresholdTuner, or weigh rows"):
        SubmodularClassifier(class_weight="balanced").fit(*problem)
