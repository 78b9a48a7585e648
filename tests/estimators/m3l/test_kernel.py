import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from every_prior import PRIORS, as_matrix, make_priors
from sklearn.metrics import pairwise
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from multimargin import KernelM3L, LinearM3L, certify, priors
from multimargin.errors import InputError
from multimargin.kernels import KERNELS

EXACT = {"tol": 1e-9, "max_iter": 200_000, "random_state": 0}


def make_problem(rng, n=40, d=4, n_labels=5):
    X = rng.normal(size=(n, d))
    Y = (np.sin(2 * X @ rng.normal(size=(d, n_labels))) + rng.normal(size=(n, n_labels)) > 0).astype(int)
    return X, Y


def psd_root(M, tolerance=1e-12):
    values, vectors = np.linalg.eigh(M)
    keep = values > tolerance * values[-1]
    return vectors[:, keep] * np.sqrt(values[keep])


def optimum(K, y, R, cost, margin):
    """Solve the primal by cvxpy: with K = A A' and R = F F', scores are A U F' and the regulariser is |U|^2 / 2."""
    A, F = psd_root(K), psd_root(R)
    U = cp.Variable((A.shape[1], F.shape[1]))
    slack = cp.pos(margin - cp.multiply(y, A @ U @ F.T))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(U) + cp.sum(cp.multiply(cost, slack))))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("bias", [0.0, 1.0, 2.5])
def test_equals_cvxpy(rng, name, bias):
    X, Y = make_problem(rng)
    prior = make_priors(rng)[name]
    model = KernelM3L(C=0.7, gamma=0.3, prior=prior, fit_intercept=bias > 0, intercept_scaling=bias or 1.0, **EXACT)
    model.fit(X, Y)
    K = pairwise.rbf_kernel(X, gamma=0.3) + bias**2
    best = optimum(K, 2 * Y - 1, as_matrix(prior, 5), 0.7, 1.0)
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
    model = KernelM3L(C=1.3, gamma=0.3, prior=prior, class_weight=class_weight, **EXACT)
    model.fit(X, np.where(unknown, np.nan, Y), sample_weight=cell_weight)
    factor = np.where(Y == 1, [w[1] for w in class_weight], [w[0] for w in class_weight])
    K = pairwise.rbf_kernel(X, gamma=0.3) + 1.0
    best = optimum(K, 2 * Y - 1, as_matrix(prior, 5), 1.3 * factor * cell_weight * ~unknown, 1.0)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


def test_prior_loss_equals_cvxpy(rng):
    X, Y = make_problem(rng)
    unknown = rng.random(Y.shape) < 0.1
    A = rng.normal(size=(5, 5))
    R = A + A.T
    np.fill_diagonal(R, 0.0)
    R += np.diag(np.abs(R).sum(axis=1) + 0.1)
    y = np.where(unknown, 0, 2 * Y - 1)
    best = optimum(pairwise.rbf_kernel(X, gamma=0.3) + 1.0, y, R, 1.0 * ~unknown, y * (y @ R))
    for prior in (R, priors.LowRankPrior(np.linalg.cholesky(R - 0.05 * np.eye(5)), 0.05)):
        model = KernelM3L(gamma=0.3, prior=prior, loss="prior", **EXACT).fit(X, np.where(unknown, np.nan, Y))
        assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("name", PRIORS)
def test_linear_kernel_is_linear_m3l(rng, name):
    X, Y = make_problem(rng, n=60)
    prior = make_priors(rng)[name]
    kernel = KernelM3L(C=0.5, kernel="linear", prior=prior, intercept_scaling=1.5, **EXACT).fit(X, Y)
    linear = LinearM3L(C=0.5, prior=prior, intercept_scaling=1.5, **EXACT).fit(X, Y)
    assert kernel.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-8)
    new = rng.normal(size=(20, 4))
    np.testing.assert_allclose(kernel.decision_function(new), linear.decision_function(new), atol=1e-4)


def test_identity_prior_is_svc_per_label(rng):
    """SVC asks for sum(y b) = 0; two rows of their own, of tiny norm and large weight, lift that: K + 1 is our bias."""
    X, Y = make_problem(rng, n=80)
    model = KernelM3L(C=2.0, gamma=0.5, **EXACT).fit(X, Y)
    K = np.zeros((82, 82))
    K[:80, :80] = pairwise.rbf_kernel(X, gamma=0.5) + 1.0
    K[80, 80] = K[81, 81] = 1e-6
    weight = np.append(np.ones(80), [1e7, 1e7])
    for label in range(5):
        svc = SVC(kernel="precomputed", C=2.0, tol=1e-9).fit(K, np.append(Y[:, label], [0, 1]), sample_weight=weight)
        beta = np.zeros(82)
        beta[svc.support_] = svc.dual_coef_[0]
        np.testing.assert_allclose(K[:80] @ beta, model.decision_function(X)[:, label], atol=1e-4)


KERNEL_VALUES = {
    "rbf": lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.4),
    "poly": lambda A, B: pairwise.polynomial_kernel(A, B, gamma=0.4, degree=3, coef0=1.0),
    "linear": pairwise.linear_kernel,
    "laplacian": lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.4),
    "chi2": lambda A, B: pairwise.chi2_kernel(A, B, gamma=0.4),
    # scikit-learn's additive kernel is only conditionally positive: ours adds what makes it so
    "additive_chi2": lambda A, B: (A.sum(1)[:, None] + B.sum(1) + pairwise.additive_chi2_kernel(A, B)) / 2,
}


@pytest.mark.parametrize("name", KERNEL_VALUES)
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_every_kernel_equals_its_precomputed_and_callable_form(rng, name, layout):
    X, Y = make_problem(rng, n=50, d=19)
    X = np.abs(X) * (rng.random(X.shape) < 0.15)
    new = np.abs(rng.normal(size=(30, 19))) * (rng.random((30, 19)) < 0.15)
    function = KERNEL_VALUES[name]
    data = sp.csr_array(X) if layout == "csr" else X
    model = KernelM3L(kernel=name, gamma=0.4, **EXACT).fit(data, Y)
    given = KernelM3L(kernel="precomputed", **EXACT).fit(function(X, X), Y)
    called = KernelM3L(kernel=function, **EXACT).fit(X, Y)
    for other in (given, called):
        assert model.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-8)
    expected = given.decision_function(function(new, X))
    np.testing.assert_allclose(called.decision_function(new), expected, atol=1e-7)
    np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-3)
    np.testing.assert_allclose(model.decision_function(sp.csr_array(new)), expected, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("held", [True, False])
def test_a_function_is_asked_once_for_every_pair_if_the_cache_holds_them(rng, dtype, held):
    X, Y = make_problem(rng, n=500)
    X, asked = X.astype(dtype), []

    def function(A, B):
        asked.append(len(A) * len(B))
        return KERNEL_VALUES["rbf"](A, B)

    model = KernelM3L(kernel=function, C=1.0, cache_size=4 if held else 2, random_state=0)
    model._prepare(model._problem(X, Y, None))
    checks = sum(asked)
    model.fit(X, Y)
    looked_at = model._rows_to_look_at * len(model.support_)
    once = sum(asked) - 2 * checks - looked_at == 500 * 500
    assert once == held
    assert model.certificate_.converged
    assert certify(model, X, Y).gap == pytest.approx(model.certificate_.gap, rel=1e-4)


def test_every_named_kernel_is_tested():
    assert set(KERNEL_VALUES) == set(KERNELS) - {"precomputed", "sigmoid"}  # sigmoid: refused where it is no kernel


@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_means_what_it_means_in_svc(rng, gamma):
    X, Y = make_problem(rng)
    X = 3.0 * X * (rng.random(X.shape) < 0.5)
    svc = SVC(gamma=gamma).fit(X, Y[:, 0])
    assert KernelM3L(gamma=gamma).fit(X, Y).gamma_ == pytest.approx(svc._gamma)
    assert KernelM3L(gamma=gamma).fit(sp.csr_array(X), Y).gamma_ == pytest.approx(svc._gamma)


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("tol", [1e-3, 2e-5])
def test_cached_rows_give_the_answer_of_the_whole_matrix(rng, name, tol):
    X, Y = make_problem(rng, n=1500, n_labels=3)
    prior = make_priors(rng, 3)[name]
    parameters = {"prior": prior, "tol": tol, "random_state": 0}
    whole = KernelM3L(**parameters).fit(X, Y)
    for rows in (100, 1100):
        cached = KernelM3L(cache_size=rows * 1536 * (4 if tol == 1e-3 else 8) / 2**20, **parameters).fit(X, Y)
        assert cached.certificate_.converged
        assert cached.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=2 * tol)


def test_a_cache_without_room_for_a_few_rows_is_refused(rng):
    X, Y = make_problem(rng, n=1000)
    with pytest.raises(InputError, match="cache_size=0.1 MiB holds 25 rows .* Set cache_size to 0.25 or more"):
        KernelM3L(cache_size=0.1).fit(X, Y)


def certificate_by_hand(model, X, Y, R, C, K):
    """Primal of the returned model, from its public attributes alone."""
    coef = np.zeros(Y.shape)
    coef[model.support_] = model.dual_coef_
    W = K @ coef  # beta R, seen through K
    root = np.linalg.pinv(R, rcond=1e-6)
    hinge = np.maximum(0, 1 - (2 * Y - 1) * (W + model.intercept_)).sum()
    return 0.5 * np.trace(coef.T @ W @ root) + 0.5 * model.intercept_ @ root @ model.intercept_ + C * hinge


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-5, 1e-8])
def test_certificate_belongs_to_the_returned_model(rng, name, tol):
    X, Y = make_problem(rng, n=300)
    prior = make_priors(rng)[name]
    model = KernelM3L(gamma=0.3, prior=prior, tol=tol, random_state=0).fit(X, Y)
    value = certificate_by_hand(model, X, Y, as_matrix(prior, 5), 1.0, pairwise.rbf_kernel(X, gamma=0.3))
    assert value == pytest.approx(model.certificate_.primal, rel=max(1e-2 * tol, 1e-9))
    exact = KernelM3L(gamma=0.3, prior=prior, **EXACT).fit(X, Y).certificate_
    assert model.certificate_.dual <= exact.primal * (1 + 1e-2 * tol)
    assert model.certificate_.primal >= exact.dual * (1 - 1e-2 * tol)


@pytest.mark.parametrize("name", PRIORS)
def test_weak_duality_at_every_evaluation(rng, name):
    X, Y = make_problem(rng, n=100)
    history = KernelM3L(prior=make_priors(rng)[name], **EXACT).fit(X, Y).history_
    assert len(history.pass_) >= 3
    assert np.all(history.dual <= history.primal.min() * (1 + 1e-12))
    assert np.all(np.diff(history.dual) >= -1e-9 * history.primal[:-1])  # exact ascent


@pytest.mark.parametrize("name", PRIORS)
def test_label_permutation_permutes_the_answer(rng, name):
    X, Y = make_problem(rng)
    prior = make_priors(rng)[name]
    order = rng.permutation(5)
    if isinstance(prior, priors.LowRankPrior):
        permuted = priors.LowRankPrior(prior.factor[order], np.broadcast_to(prior.diagonal, 5)[order])
    else:
        permuted = None if prior is None else prior[np.ix_(order, order)]
    a = KernelM3L(prior=prior, **EXACT).fit(X, Y)
    b = KernelM3L(prior=permuted, **EXACT).fit(X, Y[:, order])
    np.testing.assert_allclose(b.decision_function(X), a.decision_function(X)[:, order], atol=1e-3)


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("cache_size", [1024, 3])
@pytest.mark.filterwarnings("ignore::multimargin.errors.DecisionWarning")  # labels that are mostly noise
def test_result_does_not_depend_on_n_jobs(rng, name, cache_size):
    X = rng.normal(size=(1500, 6))
    Y = (np.sin(X @ rng.normal(size=(6, 7))) + rng.normal(size=(1500, 7)) > 0.5).astype(int)
    prior = make_priors(rng, 7)[name]
    one, two, five = (
        KernelM3L(prior=prior, n_jobs=k, cache_size=cache_size, random_state=0).fit(X, Y) for k in (1, 2, 5)
    )
    for other in (two, five):
        np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(one.intercept_, other.intercept_)
        assert one.certificate_ == other.certificate_
        np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("name", PRIORS)
def test_warm_start_continues_also_after_c_changed(rng, name):
    X, Y = make_problem(rng, n=100)
    parameters = {"prior": make_priors(rng)[name], "tol": 1e-6, "random_state": 0}
    model = KernelM3L(warm_start=True, **parameters).fit(X, Y)
    model.fit(X, Y)
    assert model.n_iter_ == 1  # already optimal: the first evaluation says so
    assert model.certificate_.converged
    for C in (0.5, 2.0):
        model.set_params(C=C).fit(X, Y)
        cold = KernelM3L(C=C, **parameters).fit(X, Y)
        assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-6)


def test_only_support_rows_are_kept(rng):
    X = np.vstack([rng.normal(size=(100, 2)) - 3, rng.normal(size=(100, 2)) + 3])
    Y = np.repeat([[0], [1]], 100, axis=0)
    model = KernelM3L(C=10.0, gamma=0.1, random_state=0).fit(X, Y)
    assert 0 < len(model.support_) < 100
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (len(model.support_), 1)
    values = pairwise.rbf_kernel(X, model.support_vectors_, gamma=0.1) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(values, model.decision_function(X), atol=1e-10)


def test_prediction_in_small_blocks_is_the_same(rng, monkeypatch):
    X, Y = make_problem(rng, n=300)
    K = pairwise.rbf_kernel(X)
    models = [(KernelM3L(random_state=0).fit(X, Y), X), (KernelM3L(kernel="precomputed", random_state=0).fit(K, Y), K)]
    whole = [model.decision_function(rows) for model, rows in models]
    monkeypatch.setattr("multimargin.estimators.m3l.kernel.BLOCK_BYTES", 10_000)
    for (model, rows), expected in zip(models, whole, strict=True):
        np.testing.assert_allclose(model.decision_function(rows), expected, atol=1e-12)


def test_kernels_that_are_not_positive_semidefinite_are_refused(rng):
    X, Y = make_problem(rng)
    with pytest.raises(InputError, match="smallest eigenvalue is -"):
        KernelM3L(kernel="sigmoid", gamma=1.0).fit(X, Y)
    with pytest.raises(InputError, match="smallest eigenvalue is -1 "):
        KernelM3L(kernel="precomputed").fit(-np.eye(40), Y)
    with pytest.raises(InputError, match="smallest eigenvalue"):
        KernelM3L(kernel="poly", coef0=-2.0).fit(X, Y)
    with pytest.raises(InputError, match="symmetric"):
        KernelM3L(kernel=lambda A, B: A[:, :1] + 0 * B[:, 0]).fit(X, Y)


def test_unfit_data_are_refused_by_name(rng):
    X, Y = make_problem(rng)
    with pytest.raises(InputError, match="kernel='chi2' is defined for non-negative features"):
        KernelM3L(kernel="chi2").fit(X, Y)
    with pytest.raises(InputError, match=r"square Gram matrix .* got shape \(40, 4\)"):
        KernelM3L(kernel="precomputed").fit(X, Y)
    with pytest.raises(InputError, match=r"values of shape \(40, 40\)"):
        KernelM3L(kernel=lambda A, B: np.ones((3, 3))).fit(X, Y)


def test_precomputed_kernel_is_cut_both_ways_in_cross_validation(rng):
    X, Y = make_problem(rng, n=60)
    K = pairwise.rbf_kernel(X, gamma=0.3)
    grid = {"C": [0.1, 1.0]}
    given = GridSearchCV(KernelM3L(kernel="precomputed", tol=1e-6, random_state=0), grid, cv=3).fit(K, Y)
    named = GridSearchCV(KernelM3L(gamma=0.3, tol=1e-6, random_state=0), grid, cv=3).fit(X, Y)
    np.testing.assert_allclose(given.cv_results_["mean_test_score"], named.cv_results_["mean_test_score"])


def test_duplicated_rows_and_zero_rows(rng):
    """A singular Gram matrix, with and without the constant."""
    X, Y = make_problem(rng, n=30)
    X = np.vstack([X, X, np.zeros((5, 4))])
    Y = np.vstack([Y, 1 - Y, Y[:5]])
    for fit_intercept in (True, False):
        model = KernelM3L(kernel="linear", fit_intercept=fit_intercept, **EXACT).fit(X, Y)
        linear = LinearM3L(fit_intercept=fit_intercept, **EXACT).fit(X, Y)
        assert model.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-8)


def test_single_precision_data(rng):
    X, Y = make_problem(rng, n=100)
    model = KernelM3L(tol=1e-4, random_state=0).fit(X.astype(np.float32), Y)
    assert model.dual_coef_.dtype == np.float32
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32
    reference = KernelM3L(tol=1e-6, random_state=0).fit(X, Y)
    assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=2e-4)


def test_real_data_with_many_rounds(data_home):
    """More rows than a block: the rounds meet, and the float32 certificate is true in float64."""
    from multimargin import datasets

    yeast = datasets.load("yeast")
    X, Y = yeast.X_train, np.asarray(yeast.Y_train.toarray() if sp.issparse(yeast.Y_train) else yeast.Y_train)
    model = KernelM3L(C=10.0, tol=1e-4, random_state=0).fit(X, Y)
    assert model.certificate_.converged
    K = pairwise.rbf_kernel(X, gamma=model.gamma_)
    value = certificate_by_hand(model, X, Y, np.eye(Y.shape[1]), 10.0, K)
    assert value == pytest.approx(model.certificate_.primal, rel=1e-6)


def test_a_singular_prior_and_a_large_cost_have_a_true_certificate(rng):
    """Scores are small differences of large sums here: single precision alone would certify too much."""
    X, Y = make_problem(rng, n=200, n_labels=12)
    R = (lambda F: F @ F.T)(rng.choice([-1.0, 1.0], size=(12, 2)))
    for tol in (1e-3, 1e-4):
        model = KernelM3L(10.0, gamma=0.05, prior=R, tol=tol, random_state=0).fit(X, Y)
        value = certificate_by_hand(model, X, Y, R, 10.0, pairwise.rbf_kernel(X, gamma=0.05))
        assert value == pytest.approx(model.certificate_.primal, rel=0.1 * tol)
        assert (value - model.certificate_.dual) / value <= 1.1 * tol


@pytest.mark.parametrize("name", ["identity", "dense"])
@pytest.mark.parametrize(("C", "gamma"), [(1e3, 1.0), (1e4, 0.01)])
def test_large_costs_are_certified_truly_although_single_precision_cannot(rng, name, C, gamma):
    """The first stalls in single precision; in the second, rounding the Gram matrix alone moves the gap by its size."""
    X, Y = make_problem(rng, n=400)
    prior = make_priors(rng)[name]
    model = KernelM3L(C, gamma=gamma, prior=prior, tol=1e-3, random_state=0).fit(X, Y)
    value = certificate_by_hand(model, X, Y, as_matrix(prior, 5), C, pairwise.rbf_kernel(X, gamma=gamma))
    assert model.certificate_.converged
    assert value == pytest.approx(model.certificate_.primal, rel=1e-4)
    assert (value - model.certificate_.dual) / value <= 1.1e-3
