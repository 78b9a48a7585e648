"""CalibratedSeparationClassifier and OutputKernelClassifier against exact cases, cvxpy and each other."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from multimargin import CalibratedSeparationClassifier, OutputKernelClassifier, _core, load, save
from multimargin.errors import InputError
from multimargin.estimators.separation.problem import SeparationProblem
from multimargin.estimators.separation.solvers import solve_separation
from multimargin.kernels import KERNELS
from multimargin.label_kernels import ExpMinusOne, Jaccard, Polynomial, label_atoms, single_labels

EXACT = {"tol": 1e-10, "max_iter": 200_000, "random_state": 0}
SOLVERS = ["rows", "admm", "interior"]
TIGHTEST = {"rows": 1e-13, "admm": 1e-13, "interior": 1e-10}
BOTH = [CalibratedSeparationClassifier, OutputKernelClassifier]


def make_problem(rng, n=24, d=4, n_labels=4):
    """Rows with an empty, a full and a duplicate label set among them, and a row without input."""
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0.3).astype(int)
    Y[0], Y[1], Y[2] = 0, 1, Y[3]
    X[5] = 0.0
    return X, Y


def solve(X, Y, atoms, C, solver, K=None, tol=1e-12):
    problem = SeparationProblem(X, K, 0.0, sp.csr_array(Y == 1), None, np.full((len(Y), 2), float(C)), atoms)
    limits = _core.Limits(tol=tol, max_iter=200_000, threads=1)
    found = solve_separation(problem, solver, limits)
    return found.D, found


def tight(model, X, label_length=1.0):
    """Bound of the error of a score that strong convexity gives: |x| |phi| sqrt(2 gap)."""
    return np.linalg.norm(X, axis=1).max() * label_length * np.sqrt(2 * max(model.certificate_.gap, 0)) + 1e-9


def scores(model, X):
    threshold = model.threshold_function(X)
    return model.decision_function(X) + threshold[:, None], threshold


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("alpha", [0.25, 1.0, 3.0])
def test_one_row_one_label(solver, alpha):
    D, solution = solve(np.ones((1, 1)), np.ones((1, 1)), single_labels(1), 1 / alpha, solver)
    m = min(1.0, alpha / 2)
    assert solution.primal * alpha == pytest.approx(m - m**2 / alpha, abs=1e-9)
    assert D.toarray()[0, 0] * alpha == pytest.approx(m, abs=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_row_two_labels(solver):
    X, Y = np.ones((1, 1)), np.array([[1, 0]])
    D, solution = solve(X, Y, single_labels(2), 4.0, solver)
    assert solution.primal / 4 == pytest.approx(0.25, abs=1e-9)
    np.testing.assert_allclose(D.toarray(), [[1.0, -1.0]], atol=1e-5)
    atoms = label_atoms(sp.csr_array(Y), sp.csr_array(1 - Y), Polynomial((1.0, 1.0)))
    np.testing.assert_array_equal(atoms.multiplicity, [2, 2])
    np.testing.assert_allclose(atoms.a, [2, 2])
    np.testing.assert_allclose(atoms.coupling(), [[1.5, 1], [1, 1.5]])
    D, solution = solve(X, Y, atoms, 4.0, solver)
    assert solution.primal / 4 == pytest.approx(0.5, abs=1e-9)
    np.testing.assert_allclose((D @ atoms.label_scores()).toarray(), [[2, -2]], atol=1e-5)
    assert D.sum() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_three_rows_three_labels(solver):
    X, Y = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1, 1, 0], [0, 0, 1], [1, 0, 1]])
    options = {"C": 2.0, "fit_intercept": False, "solver": solver, **EXACT, "tol": TIGHTEST[solver]}
    csrl = CalibratedSeparationClassifier(**options).fit(X, Y)
    assert csrl.certificate_.primal / 2 == pytest.approx(2.875, abs=1e-6)
    label, threshold = scores(csrl, np.eye(2))
    atol = tight(csrl, np.eye(2)) + 1e-6
    np.testing.assert_allclose(label, [[1, 0.5, -1], [-0.5, -1.5, 1.5]], atol=atol)
    np.testing.assert_allclose(threshold, [-0.5, 0.5], atol=atol)
    kernel = OutputKernelClassifier(label_weights=(1, 1), decision="paper", **options).fit(X, Y)
    assert kernel.certificate_.primal / 2 == pytest.approx(4.142944039, abs=1e-6)
    label, threshold = scores(kernel, np.eye(2))
    atol = tight(kernel, np.eye(2), 2.0) + 1e-6
    expected = [[1.42822384, 0.07785888, -1.45498783], [-0.57177616, -1.92214112, 2.31143552]]
    np.testing.assert_allclose(label, expected, atol=atol)
    np.testing.assert_allclose(threshold, [-0.07785888, 0.15571776], atol=atol)


@pytest.mark.parametrize("solver", SOLVERS)
def test_duplicate_empty_and_full_rows(solver):
    X = np.array([[1, 0], [0, 2], [1, 1], [-1, 1], [0.5, 0.5]])
    Y = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
    options = {"C": 5.0, "fit_intercept": False, "solver": solver, **EXACT, "tol": TIGHTEST[solver]}
    csrl = CalibratedSeparationClassifier(**options).fit(X, Y)
    assert csrl.certificate_.primal / 5 == pytest.approx(5.2375, abs=1e-6)
    label, threshold = scores(csrl, np.eye(2))
    atol = tight(csrl, np.eye(2)) + 1e-6
    np.testing.assert_allclose(label, [[-0.375, -0.375, -0.375], [0.375, 0.375, -0.625]], atol=atol)
    np.testing.assert_allclose(threshold, [1.125, -0.125], atol=atol)
    kernel = OutputKernelClassifier(label_weights=(1, 0.5), decision="paper", **options).fit(X, Y)
    assert kernel.certificate_.primal / 5 == pytest.approx(5.299103139, abs=1e-6)
    label, threshold = scores(kernel, np.eye(2))
    atol = tight(kernel, np.eye(2), 2.0) + 1e-6
    expected = [[-0.3632287] * 3, [0.48430493, 0.48430493, -1.01569507]]
    np.testing.assert_allclose(label, expected, atol=atol)
    np.testing.assert_allclose(threshold, [1.25784754, -0.17713005], atol=atol)


@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
def test_a_row_of_calibrated_separation_is_solved_exactly_in_one_visit(rng, cost):
    for _ in range(20):
        x, y = rng.normal(size=(1, 3)), rng.integers(0, 2, size=(1, 6))
        solution = solve(x, y, single_labels(6), cost, "rows")[1]
        assert solution.passes == 1
        assert solution.primal - solution.dual <= 1e-12 * solution.primal


def separation_optimum(X, Y, C, bias):
    """Calibrated separation by cvxpy; NaN cells of Y are in no set."""
    Xb = np.column_stack([X, np.full(len(X), bias)])
    W, u = cp.Variable((Xb.shape[1], Y.shape[1])), cp.Variable(Xb.shape[1])
    slack = 0
    for x, y in zip(Xb, Y, strict=True):
        on, off = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        slack += cp.pos(cp.max(1 + x @ u - (x @ W)[on])) if len(on) else 0
        slack += cp.pos(cp.max(1 + (x @ W)[off] - x @ u)) if len(off) else 0
    problem = cp.Problem(cp.Minimize(0.5 * (cp.sum_squares(W) + cp.sum_squares(u)) + C * slack))
    problem.solve(solver=cp.CLARABEL)
    return problem.value, W.value, u.value


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("bias", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_separation_equals_cvxpy(rng, solver, bias, unknown):
    X, Y = make_problem(rng)
    Y = np.where(rng.random(Y.shape) < unknown, np.nan, Y)
    model = CalibratedSeparationClassifier(
        C=0.7, fit_intercept=bias > 0, intercept_scaling=bias or 1.0, solver=solver, **EXACT
    ).fit(X, Y)
    value, W, u = separation_optimum(X, Y, 0.7, bias)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-6)
    label, threshold = scores(model, X)
    np.testing.assert_allclose(label, X @ W[:-1] + bias * W[-1], atol=1e-4)
    np.testing.assert_allclose(threshold, X @ u[:-1] + bias * u[-1], atol=1e-4)
    np.testing.assert_allclose(threshold, -label.sum(axis=1), atol=1e-9)  # at the optimum u = -W 1


def literal_output_kernel(X, Y, alpha, kernel):
    """The authors' dual (10) with every label set as often as it occurs, by cvxpy: value, label scores, reference."""
    t, n_labels = Y.shape
    S = np.vstack([np.eye(n_labels), Y, 1 - Y])
    Q = kernel(sp.csr_array(S), sp.csr_array(S))
    q = Q.sum(axis=1)
    M, N = cp.Variable((t, len(S)), nonneg=True), cp.Variable((t, len(S)), nonneg=True)
    values, vectors = np.linalg.eigh((t + 1) * Q + np.outer(q, q) / (t + 1))
    root = vectors * np.sqrt(np.maximum(values, 0))
    within, without = (1 - Y) @ S.T == 0, Y @ S.T == 0
    quadratic = cp.sum_squares(X.T @ (M - N) @ root)
    used = q > 0  # the empty set has no part in anything
    constraints = [M @ q <= t + 1, N @ q <= t + 1, M[:, ~used] == 0, N[:, ~used] == 0]
    constraints += [cp.multiply(M, ~within) == 0, cp.multiply(N, ~without) == 0]
    problem = cp.Problem(cp.Maximize(cp.sum((M + N) @ q) - quadratic / (2 * alpha)), constraints)
    problem.solve(solver=cp.CLARABEL)
    D = (M.value - N.value) / alpha
    return problem.value, X.T @ D @ kernel(sp.csr_array(S), sp.csr_array(np.eye(n_labels))), -X.T @ D @ q / (t + 1)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "kernel", [Polynomial((1.0, 1.0)), Polynomial((1.0, 0.5, 0.25)), Jaccard(), ExpMinusOne(0.5)], ids=str
)
def test_output_kernel_equals_the_problem_as_published(rng, solver, kernel):
    X, Y = make_problem(rng, n=10, d=3, n_labels=4)
    model = OutputKernelClassifier(
        C=2.0, label_kernel=kernel, decision="paper", fit_intercept=False, solver=solver, **EXACT
    ).fit(X, Y)
    value, W, u = literal_output_kernel(X, Y, 0.5, kernel)
    assert model.certificate_.primal / 2 == pytest.approx(value / 11, rel=1e-6)
    label, threshold = scores(model, np.eye(3))
    np.testing.assert_allclose(label, W, atol=1e-4)
    np.testing.assert_allclose(threshold, u, atol=1e-4)


def test_linear_label_kernel_is_calibrated_separation(rng):
    X, Y = make_problem(rng)
    a = CalibratedSeparationClassifier(**EXACT).fit(X, Y)
    for solver in SOLVERS:
        b = OutputKernelClassifier(label_degree=1, solver=solver, **EXACT).fit(X, Y)
        assert b.n_atoms_ > a.n_atoms_ == 4
        assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-9)
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=4 * tight(b, X))


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_dense_equals_sparse_and_single_precision_is_close(rng, Estimator, solver):
    X, Y = make_problem(rng)
    X[rng.random(X.shape) < 0.4] = 0.0
    options = {"solver": solver, **EXACT}
    a = Estimator(**options).fit(X, Y)
    b = Estimator(**options).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(sp.csr_array(X)), atol=4 * tight(a, X))
    c = Estimator(**{**options, "tol": 1e-6}).fit(X.astype(np.float32), Y)
    assert c.coef_.dtype == np.float32
    assert c.certificate_.converged
    np.testing.assert_allclose(a.decision_function(X), c.decision_function(X.astype(np.float32)), atol=4 * tight(c, X))


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_order_of_labels_rows_and_visits_does_not_matter(rng, Estimator, solver):
    X, Y = make_problem(rng)
    labels, rows = rng.permutation(4), rng.permutation(len(X))
    a = Estimator(solver=solver, **EXACT).fit(X, Y)
    b = Estimator(solver=solver, **EXACT).fit(X, Y[:, labels])
    c = Estimator(solver=solver, **{**EXACT, "random_state": 7}).fit(X[rows], Y[rows])
    expected, slack = a.decision_function(X), 8 * tight(a, X)
    np.testing.assert_allclose(b.decision_function(X), expected[:, labels], atol=slack)
    np.testing.assert_allclose(c.decision_function(X), expected, atol=slack)


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_number_of_threads_does_not_matter(rng, Estimator, container):
    X, Y = make_problem(rng, n=150, d=6, n_labels=9)
    models = [Estimator(solver="rows", random_state=0, n_jobs=n, tol=1e-5).fit(container(X), Y) for n in (1, 2, 5)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        assert model.certificate_ == models[0].certificate_


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_bounds_hold_and_dual_rises_between_certificates(rng, Estimator, solver):
    X, Y = make_problem(rng, n=60)
    model = Estimator(solver=solver, tol=1e-8, max_iter=100_000).fit(X, Y)
    history = model.history_
    assert np.all(history.primal >= history.dual)
    assert history.primal.min() >= model.certificate_.dual
    assert history.dual.max() <= model.certificate_.primal
    if solver == "rows":  # every visit is an exact ascent
        assert np.all(np.diff(history.dual) >= -1e-9 * history.dual[-1])
    assert model.certificate_.converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_twice_the_rows_is_half_the_cost(rng, solver):
    X, Y = make_problem(rng)
    a = CalibratedSeparationClassifier(C=1.0, solver=solver, **EXACT).fit(X, Y)
    b = CalibratedSeparationClassifier(C=0.5, solver=solver, **EXACT).fit(np.vstack([X, X]), np.vstack([Y, Y]))
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=8 * tight(a, X))


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_weight_two_is_two_rows(rng, Estimator, solver):
    X, Y = make_problem(rng)
    weight = rng.integers(0, 3, size=len(X))
    a = Estimator(solver=solver, **EXACT).fit(X, Y, sample_weight=weight)
    rows = np.repeat(np.arange(len(X)), weight)
    b = Estimator(solver=solver, **EXACT).fit(X[rows], Y[rows])
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=8 * tight(a, X))


def test_rules_agree_when_the_weights_sum_to_one(rng):
    X, Y = make_problem(rng)
    decisions = {
        (decision, weights): OutputKernelClassifier(decision=decision, label_weights=weights, **EXACT)
        .fit(X, Y)
        .decision_function(X)
        for decision in ("consistent", "paper")
        for weights in ((0.7, 0.3), (1.0, 1.0))
    }
    np.testing.assert_allclose(decisions["paper", (0.7, 0.3)], decisions["consistent", (0.7, 0.3)], atol=1e-9)
    # otherwise the label scores differ by the sum of the weights
    model = OutputKernelClassifier(label_weights=(1.0, 1.0), **EXACT).fit(X, Y)
    threshold = model.threshold_function(X)[:, None]
    paper = 2 * (model.decision_function(X) + threshold) - threshold
    np.testing.assert_allclose(paper, decisions["paper", (1.0, 1.0)], atol=1e-6)


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_input_kernels_agree_with_their_matrix(rng, Estimator, solver):
    X, Y = make_problem(rng)
    Z = rng.normal(size=(7, 4))
    options = {"solver": solver, **EXACT}
    linear = Estimator(**options).fit(X, Y)
    same = Estimator(kernel=lambda A, B: A @ B.T, **options).fit(X, Y)
    np.testing.assert_allclose(same.decision_function(Z), linear.decision_function(Z), atol=8 * tight(linear, Z))
    np.testing.assert_allclose(same.threshold_function(Z), linear.threshold_function(Z), atol=8 * tight(linear, Z))

    named = Estimator(kernel="rbf", gamma=0.3, **options).fit(X, Y)
    given = Estimator(kernel="precomputed", **options).fit(rbf_kernel(X, gamma=0.3), Y)
    expected = named.decision_function(Z)
    np.testing.assert_allclose(given.decision_function(rbf_kernel(Z, X, gamma=0.3)), expected, atol=1e-6)
    assert named.dual_coef_.shape == (len(named.support_), 4)
    np.testing.assert_array_equal(named.support_vectors_, X[named.support_])
    sparse = Estimator(kernel="rbf", gamma=0.3, **options).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(Z)), expected, atol=1e-4)


FORMULAS = {
    "linear": lambda x, z: x @ z,
    "rbf": lambda x, z: np.exp(-0.3 * np.sum((x - z) ** 2)),
    "poly": lambda x, z: (0.3 * x @ z + 0.5) ** 2,
    "laplacian": lambda x, z: np.exp(-0.3 * np.sum(np.abs(x - z))),
    "chi2": lambda x, z: np.exp(-0.3 * np.sum((x - z) ** 2 / (x + z))),
    "additive_chi2": lambda x, z: np.sum(2 * x * z / (x + z)),
}


@pytest.mark.parametrize("kernel", FORMULAS)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_every_input_kernel_equals_its_formula(rng, kernel, container):
    X, Y = rng.random((12, 3)) + 0.01, make_problem(rng, n=12)[1]
    Z = rng.random((7, 3)) + 0.01

    def formula(A, B):
        return np.array([[FORMULAS[kernel](a, b) for b in B] for a in A])

    options = {"gamma": 0.3, "degree": 2, "coef0": 0.5, **EXACT, "tol": 1e-8}
    named = CalibratedSeparationClassifier(kernel=kernel, **options).fit(container(X), Y)
    given = CalibratedSeparationClassifier(kernel="precomputed", **options).fit(formula(X, X), Y)
    assert named.certificate_.primal == pytest.approx(given.certificate_.primal, rel=1e-7)
    decisions = named.decision_function(container(Z)), given.decision_function(formula(Z, X))
    np.testing.assert_allclose(*decisions, atol=2e-3)


def test_input_kernels_are_those_of_the_kernel_estimator():
    assert set(FORMULAS) | {"precomputed", "sigmoid"} == KERNELS  # sigmoid: refused where it is not a kernel


def test_predictions_by_kernel_come_in_blocks(rng, monkeypatch):
    X, Y = make_problem(rng)
    model = OutputKernelClassifier(kernel="laplacian").fit(X, Y)
    expected = model.decision_function(X)
    monkeypatch.setattr("multimargin.estimators.predictor.BLOCK_BYTES", 8 * 50)
    np.testing.assert_allclose(model.decision_function(X), expected)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_saved_models_predict_the_same(rng, tmp_path, kernel):
    X, Y = make_problem(rng)
    X = X @ X.T if kernel == "precomputed" else X
    model = OutputKernelClassifier(kernel=kernel, label_kernel=Polynomial((1.0, 2.0))).fit(X, Y)
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.threshold_function(X), model.threshold_function(X))


@pytest.mark.parametrize("Estimator", BOTH)
def test_refit_with_another_kernel_leaves_nothing_behind(rng, Estimator):
    X, Y = make_problem(rng)
    model = Estimator(kernel="rbf").fit(X, Y)
    assert not hasattr(model, "coef_")
    model.set_params(kernel="linear").fit(X, Y)
    assert not hasattr(model, "dual_coef_")
    assert model.coef_.shape == (4, 4)


@pytest.mark.parametrize("Estimator", BOTH)
def test_fallback_gives_every_row_a_label(rng, Estimator):
    X, Y = make_problem(rng)
    Y[:, 3] = 0  # constant: never the fallback
    with pytest.warns(UserWarning, match="label 3"):
        plain = Estimator(C=0.01, random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match="label 3"):
        model = Estimator(C=0.01, fallback="top1", random_state=0).fit(X, Y)
    empty = ~plain.predict(X).any(axis=1)
    assert empty.any()
    prediction = model.predict(X)
    np.testing.assert_array_equal(model.predict_with_scores(X)[0], prediction)
    np.testing.assert_array_equal(prediction[~empty], plain.predict(X)[~empty])
    assert np.all(prediction[empty].sum(axis=1) == 1)
    np.testing.assert_array_equal(
        prediction[empty].argmax(axis=1), model.decision_function(X)[empty, :3].argmax(axis=1)
    )


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start_continues_after_C_changed(rng, Estimator, solver):
    X, Y = make_problem(rng, n=80)
    warm = Estimator(C=1.0, warm_start=True, solver=solver, tol=1e-6, max_iter=100_000, random_state=0).fit(X, Y)
    passes = warm.n_iter_
    again = warm.fit(X, Y)
    assert again.n_iter_ <= (passes if solver == "interior" else 2)  # interior points cannot begin at a solution
    warm.set_params(C=2.0).fit(X, Y)
    cold = Estimator(C=2.0, solver=solver, tol=1e-6, max_iter=100_000, random_state=0).fit(X, Y)
    assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-6)
    with pytest.raises(InputError, match="warm_start=True"):
        warm.fit(X[:-1], Y[:-1])


@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start_survives_other_labels(rng, solver):
    """Dual variables of other label sets are no use, but do no harm."""
    X, Y = make_problem(rng)
    warm = CalibratedSeparationClassifier(solver=solver, warm_start=True, **EXACT).fit(X, Y)
    warm.fit(X, Y[:, ::-1])
    cold = CalibratedSeparationClassifier(solver=solver, **EXACT).fit(X, Y[:, ::-1])
    assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-9)


def test_many_labels_keep_pairs_of_complements_right(rng):
    """More labels than bits in a word, and complements of label sets as atoms."""
    X = rng.normal(size=(30, 4))
    Y = (rng.random((30, 70)) < 0.08).astype(int)
    Y[0], Y[1] = 0, 1
    options = {"label_weights": (1.0, 1.0), **EXACT, "tol": 1e-4}
    a = OutputKernelClassifier(solver="rows", **options).fit(X, Y)
    b = OutputKernelClassifier(solver="admm", **options).fit(X, Y)
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=2e-4)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=tight(a, X) + tight(b, X, 2.0))


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("second", ["admm", "interior"])
def test_small_problems_are_handed_over_without_a_break(rng, monkeypatch, Estimator, second):
    X, Y = make_problem(rng)
    if second == "admm":
        monkeypatch.setattr("multimargin.estimators.separation.solvers.fits_interior", lambda problem: False)
    monkeypatch.setattr("multimargin.estimators.separation.solvers.ROW_PASSES", 5)
    monkeypatch.setattr("multimargin.estimators.separation.solvers.passes_before", lambda *sizes: 5)
    seen = []
    model = Estimator(callback=lambda p: seen.append(p.pass_), **EXACT).fit(X, Y)
    assert seen == list(range(1, model.n_iter_ + 1))
    assert model.n_iter_ > 5
    history = model.history_
    assert history.pass_[-1] == model.n_iter_
    assert np.all(np.diff(history.time) >= 0)
    assert np.all(history.primal >= history.dual)
    rows = Estimator(solver="rows", **EXACT).fit(X, Y)
    assert model.certificate_.primal == pytest.approx(rows.certificate_.primal, rel=1e-9)


def test_projection_is_the_nearest_point(rng):
    values, signs = rng.normal(size=(40, 9)), rng.integers(-1, 2, size=(40, 9)).astype(np.int8)
    costs = rng.random((40, 2)) + 0.1
    found = values.copy()
    _core.project_signed(found, signs, costs)
    assert np.all(found * signs >= 0)
    assert not found[signs == 0].any()
    for side, cost in zip((1, -1), costs.T, strict=True):
        part = np.where(signs == side, side * found, 0.0)
        assert np.all(part.sum(axis=1) <= cost * (1 + 1e-12))
        # no feasible direction to a vertex comes nearer
        residual = np.where(signs == side, side * values - part, -np.inf)
        toward = np.maximum(residual.max(axis=1), 0.0) * cost
        held = np.sum(part * np.where(part > 0, residual, 0.0), axis=1)
        np.testing.assert_allclose(toward, held, atol=1e-12)


@pytest.mark.parametrize(
    ("Estimator", "parameters", "words"),
    [
        (OutputKernelClassifier, {"label_kernel": "rbf"}, "share nothing"),
        (OutputKernelClassifier, {"label_kernel": lambda A, B: A @ B.T + 1}, "share nothing"),
        (OutputKernelClassifier, {"label_weights": (1.0, -1.0)}, "not negative"),
        (OutputKernelClassifier, {"label_degree": 0}, "'label_degree' parameter"),
        (OutputKernelClassifier, {"decision": "mine"}, "'decision' parameter"),
        (CalibratedSeparationClassifier, {"kernel": "precomputed"}, "square Gram matrix"),
        (CalibratedSeparationClassifier, {"kernel": "sigmoid", "coef0": -1.0}, "not positive semidefinite"),
        (CalibratedSeparationClassifier, {"kernel": "chi2"}, "non-negative features"),
        (CalibratedSeparationClassifier, {"kernel": "tree"}, "'kernel' parameter"),
        (CalibratedSeparationClassifier, {"kernel": lambda A, B: -A @ B.T, "solver": "rows"}, "semidefinite"),
        (CalibratedSeparationClassifier, {"kernel": lambda A, B: -A @ B.T, "solver": "admm"}, "semidefinite"),
        (CalibratedSeparationClassifier, {"solver": "newton"}, "'solver' parameter"),
    ],
)
def test_what_cannot_work_is_refused(rng, Estimator, parameters, words):
    X, Y = make_problem(rng)
    with pytest.raises(ValueError, match=words):
        Estimator(**parameters).fit(X, Y)


def test_what_does_not_fit_is_refused(rng, monkeypatch):
    X, Y = make_problem(rng)
    monkeypatch.setattr("multimargin.estimators.separation.model.MOST_ROWS", 10)
    with pytest.raises(InputError, match="all 24 training rows"):
        CalibratedSeparationClassifier(kernel="rbf").fit(X, Y)
    monkeypatch.setattr("multimargin.label_kernels.MOST_ATOMS", 3)
    with pytest.raises(InputError, match="distinct label sets"):
        OutputKernelClassifier(label_kernel="jaccard").fit(X, Y)
    OutputKernelClassifier(solver="rows").fit(X, Y)


@pytest.mark.parametrize("label_kernel", ["poly", "jaccard"])
def test_more_weights_than_rows_makes_no_difference(rng, monkeypatch, label_kernel):
    """Many features: the solver works with a factor of the Gram matrix instead."""
    X, Y = rng.normal(size=(12, 40)), make_problem(rng, n=12)[1]
    options = {"label_kernel": label_kernel, "solver": "rows", **EXACT}
    a = OutputKernelClassifier(**options).fit(X, Y)
    monkeypatch.setattr("multimargin.estimators.separation.solvers.MOST_WEIGHTS", 10)
    b = OutputKernelClassifier(**options).fit(sp.csr_array(X), Y)
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=8 * tight(a, X))


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("fallback", [None, "top1"])
def test_a_row_without_input_gets_no_label_but_the_fallback(rng, Estimator, fallback):
    """All its scores and the reference are 0: nothing is above the reference."""
    X, Y = make_problem(rng)
    model = Estimator(fit_intercept=False, fallback=fallback).fit(X, Y)
    assert model.predict(np.zeros((1, 4))).sum() == (fallback == "top1")


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_labels_that_are_all_constant_leave_nothing_to_solve(rng, Estimator, kernel):
    X, Y = rng.normal(size=(5, 3)), np.tile([1, 0], (5, 1))
    with pytest.warns(UserWarning, match="labels 0, 1"):
        model = Estimator(kernel=kernel).fit(X, Y)
    assert model.n_atoms_ == 0
    assert model.certificate_.converged
    np.testing.assert_array_equal(model.predict(X), Y)
    np.testing.assert_array_equal(model.threshold_function(X), np.zeros(5))


def test_admm_is_refused_where_its_matrices_do_not_fit(rng, monkeypatch):
    X, Y = make_problem(rng)
    monkeypatch.setattr("multimargin.estimators.separation.admm.MOST_BYTES", 1000)
    with pytest.raises(InputError, match="solver='rows'"):
        CalibratedSeparationClassifier(solver="admm").fit(X, Y)


def test_fallback_needs_several_labels(rng):
    X, Y = make_problem(rng)
    with pytest.raises(InputError, match="only label everywhere"):
        CalibratedSeparationClassifier(fallback="top1").fit(X, Y[:, 0])


@pytest.mark.parametrize("Estimator", BOTH)
@pytest.mark.parametrize("n_labels", [1, 64, 129, 2000])
def test_any_number_of_labels_and_unknown_cells(rng, Estimator, n_labels):
    """The certifier, which knows nothing of the bits of the native core, confirms every model."""
    X = rng.normal(size=(25, 4))
    Y = (rng.random((25, n_labels)) < 0.3).astype(float)
    Y[0], Y[1] = 0, 1
    Y[rng.random(Y.shape) < 0.1] = np.nan
    Y[:2, 0] = 0, 1
    models = [Estimator(solver="rows", random_state=0).fit(x, Y) for x in (X, sp.csr_array(X), X.astype(np.float32))]
    for model in models:
        assert model.certificate_.converged
        assert model.certificate_.primal == pytest.approx(models[0].certificate_.primal, rel=2e-3)
