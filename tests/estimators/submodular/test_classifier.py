from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearM3L, SubmodularClassifier
from multimargin.errors import InputError

EXACT = {"tol": 1e-8, "max_iter": 100_000, "random_state": 0}


def make_problem(rng, n=40, d=4, n_labels=5):
    """Labels that come together more often than their features say; the first row has none."""
    X = rng.normal(size=(n, d))
    common = rng.normal(size=(n, 1))
    Y = (X @ rng.normal(size=(d, n_labels)) + common + rng.normal(size=(n, n_labels)) > 0.3).astype(int)
    Y[0] = 0
    return X, Y


def frequencies(Y, weight):
    known = ~np.isnan(Y)
    filled = np.where(known, Y, 0.0)
    together = (filled * weight[:, None]).T @ filled
    both_known = (known * weight[:, None]).T @ known.astype(float)
    return together / np.maximum(both_known, 1e-300)


def losses(y, truth, kind):
    """Loss of labelling y of a row; NaN in the truth is unknown."""
    known = ~np.isnan(truth)
    if kind == "hamming":
        return float(np.sum(y[known] != truth[known]))
    total = y[known].sum() + truth[known].sum()
    return 1 - 2 * float(y[known] @ truth[known]) / total if total else 0.0


def optimum(X, Y, pairs, *, C=1.0, scale=1.0, bias=1.0, loss="f1", weight=None):
    """The whole problem, one constraint for every row and labelling, by cvxpy."""
    Y = Y.astype(float)
    weight = np.ones(len(X)) if weight is None else weight
    Xb = np.column_stack([X, np.full(len(X), bias)])
    n_labels = Y.shape[1]
    a, b = np.array(pairs, dtype=int).reshape(-1, 2).T
    factor = scale * frequencies(Y, weight)[a, b]
    W, theta = cp.Variable((n_labels, Xb.shape[1])), cp.Variable(max(len(a), 1), nonneg=True)
    slack = cp.Variable(len(X))
    constraints = [slack >= 0]
    for n, (x, truth) in enumerate(zip(Xb, Y, strict=True)):
        on = np.nan_to_num(truth)
        for labels in product(*[(0.0, 1.0) if known else (0.0,) for known in ~np.isnan(truth)]):
            y = np.array(labels)
            margin = (y - on) @ (W @ x)
            if len(a):
                margin += (factor * (y[a] * y[b] - on[a] * on[b])) @ theta
            constraints.append(slack[n] >= margin + losses(y, truth, loss))
    objective = 0.5 * cp.sum_squares(W) + 0.5 * cp.sum_squares(theta) + C * weight @ slack
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    return problem.value, W.value, factor * theta.value[: len(a)]


def primal_of(model, X, Y, *, C=1.0, scale=1.0, loss="f1"):
    """The primal objective from public attributes, by enumeration."""
    Y = Y.astype(float)
    a, b = model.pairs_.T
    factor = scale * frequencies(Y, np.ones(len(X)))[a, b]
    theta = model.pair_coef_ / factor
    U = X @ model.coef_.T + model.intercept_

    def score(u, y):
        return u @ y + model.pair_coef_ @ (y[a] * y[b])

    labellings = [np.array(y, dtype=float) for y in product((0, 1), repeat=Y.shape[1])]
    risk = sum(
        max(score(u, y) + losses(y, truth, loss) for y in labellings) - score(u, truth)
        for u, truth in zip(U, Y, strict=True)
    )
    squares = np.sum(model.coef_**2) + np.sum(model.intercept_**2) + np.sum(theta**2)
    return 0.5 * squares + C * risk


ALL = list(combinations(range(4), 2))


@pytest.mark.parametrize("loss", ["f1", "hamming"])
@pytest.mark.parametrize("pairs", [[], ALL, [(0, 2), (1, 3)]])
@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_equals_cvxpy(rng, loss, pairs, bias):
    X, Y = make_problem(rng, n=10, d=3, n_labels=4)
    best, W, attraction = optimum(X, Y, pairs, C=0.7, scale=3.0, bias=bias, loss=loss)
    model = SubmodularClassifier(
        C=0.7, pairs=pairs, pair_scale=3.0, loss=loss, fit_intercept=bias > 0, intercept_scaling=bias or 1.0, **EXACT
    ).fit(X, Y)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert model.certificate_.dual == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(model.coef_, W[:, :-1], atol=1e-3)
    np.testing.assert_allclose(model.pair_coef_, attraction, atol=1e-3)
    assert model.certificate_.oracle_exact == 1.0


@pytest.mark.parametrize("solver", ["bundle", "bmrm"])
def test_bundle_equals_cvxpy(rng, solver):
    X, Y = make_problem(rng, n=10, d=3, n_labels=4)
    best, *_ = optimum(X, Y, ALL, scale=3.0)
    model = SubmodularClassifier(C=1.0, pairs=ALL, pair_scale=3.0, solver=solver, tol=1e-5, max_iter=5000).fit(X, Y)
    assert model.certificate_.converged
    assert model.certificate_.dual <= best * (1 + 1e-7)
    assert model.certificate_.primal == pytest.approx(best, rel=2e-5)


@pytest.mark.parametrize("loss", ["f1", "hamming"])
def test_missing_labels_and_weights_equal_cvxpy(rng, loss):
    X, Y = make_problem(rng, n=12, d=3, n_labels=4)
    Y = np.where(rng.random(Y.shape) < 0.2, np.nan, Y)
    weight = rng.random(12) * 2
    weight[3] = 0.0
    best, *_ = optimum(X, Y, ALL, scale=3.0, loss=loss, weight=weight)
    model = SubmodularClassifier(C=1.0, pairs=ALL, pair_scale=3.0, loss=loss, **EXACT).fit(X, Y, sample_weight=weight)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


def test_hamming_without_pairs_is_one_vs_all(rng):
    X, Y = make_problem(rng, n=80)
    a = SubmodularClassifier(C=0.5, pairs=0, loss="hamming", **EXACT).fit(X, Y)
    b = LinearM3L(C=0.5, tol=1e-9, max_iter=100_000, random_state=0).fit(X, Y)
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-3)
    assert a.pairs_.shape == (0, 2)
    np.testing.assert_allclose(a.decision_function(X), X @ a.coef_.T + a.intercept_)


@pytest.mark.parametrize("loss", ["f1", "hamming"])
def test_certificate_belongs_to_the_returned_weights(rng, loss):
    X, Y = make_problem(rng)
    model = SubmodularClassifier(C=1.0, pairs=1.0, pair_scale=5.0, loss=loss, random_state=0).fit(X, Y)
    assert np.any(model.pair_coef_ > 0)
    assert model.certificate_.converged
    value = primal_of(model, X, Y, scale=5.0, loss=loss)
    assert value <= model.certificate_.primal * (1 + 1e-9)
    assert value == pytest.approx(model.certificate_.primal, rel=1e-4)  # the oracle's tolerance
    exact = SubmodularClassifier(C=1.0, pairs=1.0, pair_scale=5.0, loss=loss, **EXACT).fit(X, Y).certificate_
    assert model.certificate_.dual <= exact.primal * (1 + 1e-9)
    assert model.certificate_.primal >= exact.dual * (1 - 1e-9)


@pytest.mark.parametrize("solver", ["blocks", "bundle"])
def test_dual_never_decreases_and_stays_below(rng, solver):
    X, Y = make_problem(rng)
    history = SubmodularClassifier(pairs=1.0, tol=1e-4, max_iter=3000, solver=solver, random_state=0).fit(X, Y).history_
    assert len(history.pass_) >= 3
    assert np.all(np.diff(history.dual) >= -1e-9 * history.dual[-1])
    assert np.all(history.dual[:, None] <= history.primal[None, :] * (1 + 1e-12))


def test_pairs_pay_only_if_useful(rng):
    """More pairs can only lower the optimum; a scale of zero is no pairs."""
    X, Y = make_problem(rng)
    none, some, every, zero = (
        SubmodularClassifier(pairs=p, pair_scale=c, **EXACT).fit(X, Y).certificate_.primal
        for p, c in ((0, 1.0), (0.5, 5.0), (1.0, 5.0), (1.0, 0.0))
    )
    assert every <= some * (1 + 1e-7) <= none * (1 + 2e-7)
    assert zero == pytest.approx(none, rel=1e-7)


def test_dense_sparse_and_single_precision_agree(rng):
    X, Y = make_problem(rng, n=60)
    X[rng.random(X.shape) < 0.4] = 0.0
    reference = SubmodularClassifier(pairs=1.0, **EXACT).fit(X, Y)
    for kind in (sp.csr_matrix, sp.csr_array, sp.csc_array):
        sparse = SubmodularClassifier(pairs=1.0, **EXACT).fit(kind(X), Y)
        assert sparse.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-7)
        np.testing.assert_allclose(sparse.coef_, reference.coef_, atol=1e-3)
        np.testing.assert_array_equal(sparse.predict(kind(X)), sparse.predict(X))
    for data in (X.astype(np.float32), sp.csr_array(X.astype(np.float32))):
        single = SubmodularClassifier(pairs=1.0, **EXACT).fit(data, Y)
        assert single.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-5)


def test_label_permutation_keeps_the_optimum(rng):
    X, Y = make_problem(rng)
    order = rng.permutation(5)
    a = SubmodularClassifier(pairs=1.0, pair_scale=5.0, **EXACT).fit(X, Y)
    b = SubmodularClassifier(pairs=1.0, pair_scale=5.0, **EXACT).fit(X, Y[:, order])
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(b.coef_, a.coef_[order], atol=1e-3)


@pytest.mark.parametrize(("solver", "n_labels"), [("blocks", 8), ("bundle", 8), ("blocks", 400)])
def test_result_does_not_depend_on_n_jobs(rng, solver, n_labels):
    X, Y = make_problem(rng, n=150 if n_labels < 100 else 30, n_labels=n_labels)  # many labels: threads share a batch
    one, two, five = (
        SubmodularClassifier(n_jobs=k, random_state=0, tol=0.05, solver=solver, pair_scale=5.0).fit(X, Y)
        for k in (1, 2, 5)
    )
    for other in (two, five):
        np.testing.assert_array_equal(one.coef_, other.coef_)
        np.testing.assert_array_equal(one.pair_coef_, other.pair_coef_)
        assert one.certificate_ == other.certificate_


def test_integer_weight_repeats_the_row(rng):
    X, Y = make_problem(rng, n=30)
    weight = rng.integers(1, 4, size=len(X))
    a = SubmodularClassifier(pairs=1.0, **EXACT).fit(X, Y, sample_weight=weight)
    b = SubmodularClassifier(pairs=1.0, **EXACT).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-7)


def test_warm_start_continues_also_after_c_changed(rng):
    X, Y = make_problem(rng, n=100)
    parameters = {"pairs": 1.0, "pair_scale": 5.0, "tol": 1e-5, "max_iter": 10_000, "random_state": 0}
    model = SubmodularClassifier(warm_start=True, **parameters).fit(X, Y)
    cold_passes = model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ < cold_passes
    for C in (0.5, 2.0):
        model.set_params(C=C).fit(X, Y)
        cold = SubmodularClassifier(C=C, **parameters).fit(X, Y)
        assert model.certificate_.converged
        assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-5)
    with pytest.raises(InputError, match="warm_start"):
        model.fit(X[:-1], Y[:-1])


def test_chosen_pairs(rng):
    Y = np.array([[1, 1, 0, 0], [1, 1, 0, 1], [1, 1, 1, 0], [0, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1]])
    X = rng.normal(size=(6, 2))
    names = ["a", "b", "c", "d"]

    def chosen(pairs, Y=Y):
        sets = [{names[j] for j in np.flatnonzero(row)} for row in Y]
        return SubmodularClassifier(pairs=pairs).fit(X, sets).pairs_.tolist()

    assert chosen(0.34) == [[0, 1], [0, 2]]  # together 3, 2, 1, 1, 1, 0 times
    assert chosen(1.0) == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    assert chosen("auto") == chosen(0.5)
    assert chosen([("b", "a"), ("c", "d"), ("a", "b")]) == [[0, 1], [2, 3]]
    model = SubmodularClassifier(pairs=[("c", "d")]).fit(X, [{names[j] for j in np.flatnonzero(row)} for row in Y])
    assert model.pair_coef_.tolist() == [0.0]  # never together, so no evidence of attraction


@pytest.mark.parametrize(("n_labels", "most"), [(20, 95), (40, 100), (60, 120)])
def test_automatic_pairs_are_two_for_each_of_many_labels(rng, n_labels, most):
    X, Y = rng.normal(size=(30, 2)), (rng.random((30, n_labels)) < 0.5).astype(int)
    assert len(SubmodularClassifier(tol=0.1).fit(X, Y).pairs_) == most


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"pairs": "all"}, "'pairs' parameter"),
        ({"pairs": 1.5}, "'pairs' parameter"),
        ({"pairs": [(0, 9)]}, "pairs names the label 9"),
        ({"pairs": [(1, 1)]}, "two different labels"),
        ({"pairs": [1, 2]}, "two different labels"),
        ({"pair_scale": -1.0}, "'pair_scale' parameter"),
        ({"loss": "f2"}, "'loss' parameter"),
        ({"loss": "hamming", "oracle": "paper"}, "Use oracle='exact', or loss='f1'"),
        ({"solver": "bundle", "warm_start": True}, "needs solver='blocks'"),
        ({"offset": "test"}, "'offset' parameter"),
        ({"node_limit": 0}, "'node_limit' parameter"),
    ],
)
def test_bad_parameters_are_refused(rng, parameters, words):
    X, Y = make_problem(rng)
    with pytest.raises(ValueError, match=words):
        SubmodularClassifier(**parameters).fit(X, Y)


def test_scores_are_what_labels_are_worth(rng):
    X, Y = make_problem(rng)
    model = SubmodularClassifier(pairs=1.0, pair_scale=10.0, random_state=0).fit(X, Y)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(scores > 0, model.predict(X) == 1)
    a, b = model.pairs_.T
    labellings = np.array(list(product((0, 1), repeat=5)))
    values = (X @ model.coef_.T + model.intercept_) @ labellings.T + model.pair_coef_ @ (
        labellings[:, a] * labellings[:, b]
    ).T
    np.testing.assert_allclose(
        scores[:, 2], values[:, labellings[:, 2] == 1].max(1) - values[:, labellings[:, 2] == 0].max(1), atol=1e-9
    )


def test_published_oracle_is_honest_about_itself(rng):
    """Its training ends elsewhere; the certificate uses the exact oracle and says so."""
    X, Y = make_problem(rng, n=60, n_labels=8)
    parameters = {"pairs": 1.0, "pair_scale": 10.0, "tol": 1e-4, "max_iter": 2000, "random_state": 0}
    exact = SubmodularClassifier(**parameters).fit(X, Y).certificate_
    with pytest.warns(ConvergenceWarning, match="Use oracle='exact'"):
        approximate = SubmodularClassifier(oracle="paper", **parameters).fit(X, Y).certificate_
    assert approximate.primal > exact.primal * (1 + 1e-4)
    assert approximate.dual <= exact.primal
    assert approximate.oracle_exact < 1.0


def test_limited_oracle_keeps_the_certificate_valid():
    X, Y = make_problem(np.random.default_rng(2), n=60, n_labels=24)  # some calls need more than one node
    parameters = {"pairs": 1.0, "pair_scale": 5.0, "random_state": 0}
    exact = SubmodularClassifier(tol=1e-2, **parameters).fit(X, Y).certificate_
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        limited = SubmodularClassifier(tol=1e-4, node_limit=1, max_iter=40, **parameters).fit(X, Y).certificate_
    assert limited.oracle_exact < 1.0
    assert limited.dual <= exact.primal
    assert limited.primal >= exact.dual


def f_score(Y, Z):
    total = Y.sum(axis=1) + Z.sum(axis=1)
    return np.where(total > 0, 2 * (Y * Z).sum(axis=1) / np.maximum(total, 1), 1.0)


def test_offset_is_the_best_one(rng):
    X, Y = make_problem(rng, n=80)
    X = X[:, :1]
    model = SubmodularClassifier(C=0.05, pairs=1.0, offset="train", random_state=0).fit(X, Y)
    plain = SubmodularClassifier(C=0.05, pairs=1.0, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert plain.offset_ == 0.0
    reached = f_score(Y, model.predict(X)).mean()
    assert reached > f_score(Y, plain.predict(X)).mean()
    intercept = plain.intercept_
    for offset in np.linspace(-0.5, 0.5, 201):
        plain.intercept_ = intercept + offset
        assert f_score(Y, plain.predict(X)).mean() <= reached + 1e-12


def test_offset_by_cross_validation(rng):
    X, Y = make_problem(rng, n=80)
    a, b = (SubmodularClassifier(C=0.05, offset="cv", random_state=0).fit(X[:, :1], Y) for _ in range(2))
    assert a.offset_ == b.offset_ != 0.0
    Y = np.column_stack([Y, np.zeros(80, int), np.ones(80, int)])
    with pytest.warns(UserWarning, match="labels 5, 6"):
        model = SubmodularClassifier(C=0.05, offset="cv", random_state=0).fit(X[:, :1], Y)
    prediction = model.predict(X[:, :1])
    assert not prediction[:, 5].any()
    assert prediction[:, 6].all()


def test_real_data_reaches_the_known_optimum(data_home):
    """Objective of the yeast training split at lambda = 0.01, with the 45 most frequent pairs."""
    from multimargin import datasets

    yeast = datasets.load("yeast")
    C = 1 / (0.01 * 1500)
    for X in (yeast.X_train, sp.csr_array(yeast.X_train)):
        model = SubmodularClassifier(C=C, pairs=0.5, tol=1e-4, random_state=0).fit(X, yeast.Y_train)
        assert len(model.pairs_) == 45
        assert model.certificate_.converged
        assert model.certificate_.primal * 0.01 == pytest.approx(0.73989, abs=1e-4)


@pytest.mark.parametrize(
    ("lam", "low", "high", "tol"), [(1e-3, 0.71052, 0.71075, 5e-3), (1e-4, 0.70199, 0.70288, 0.05)]
)
def test_real_data_brackets_the_known_optimum(data_home, lam, low, high, tol):
    """An independent program found the optimum between these bounds."""
    from multimargin import datasets

    yeast = datasets.load("yeast")
    model = SubmodularClassifier(C=1 / (lam * 1500), tol=tol, random_state=0).fit(yeast.X_train, yeast.Y_train)
    assert model.certificate_.converged
    assert model.certificate_.dual * lam <= high
    assert model.certificate_.primal * lam >= low


def test_published_oracle_goes_wrong_on_real_data(data_home):
    from multimargin import datasets

    yeast = datasets.load("yeast")
    C = 1 / (0.01 * 1500)
    with pytest.warns(ConvergenceWarning, match="approximate"):
        model = SubmodularClassifier(C=C, oracle="paper", random_state=0).fit(yeast.X_train, yeast.Y_train)
    assert model.certificate_.primal * 0.01 > 0.75
