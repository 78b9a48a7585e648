"""C="scale" is one over the mean of K(x, x), and a number still means what it says."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import polynomial_kernel

from multimargin import KernelM3L, LinearM3L, SubmodularClassifier, baselines, certify, estimators, load, save
from multimargin.errors import InputError
from multimargin.kernels import KERNELS, diagonal, make_kernel

FAST = {"tol": 1e-2, "random_state": 0}
FIXED = {"mmoc", "plst"}  # whose C is that of label codes, and that of the authors
NAMES = sorted(
    name
    for name, cls in {**estimators.REGISTRY, **baselines.REGISTRY}.items()
    if "C" in cls().get_params() and name not in FIXED
)


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(40, 5)) * [1.0, 30.0, 0.1, 5.0, 2.0]
    return X, (X @ rng.normal(size=(5, 3)) + rng.normal(size=(40, 3)) > 0).astype(int)


def made(name, **parameters):
    cls = {**estimators.REGISTRY, **baselines.REGISTRY}[name]
    known = cls().get_params()
    return cls(**{key: value for key, value in {**FAST, **parameters}.items() if key in known})


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_default_and_means_its_number(problem, name, tmp_path):
    X, Y = problem
    model = made(name)
    assert model.C == "scale"
    model.fit(X, Y)
    expected = 1.0 if model.get_params().get("kernel") == "rbf" else 1 / np.mean((X**2).sum(axis=1))
    np.testing.assert_allclose(model.C_, expected, rtol=1e-12)
    given = clone(model).set_params(C=model.C_).fit(X, Y)
    assert given.C_ == model.C_
    np.testing.assert_array_equal(given.predict(X), model.predict(X))
    save(model, tmp_path / "model.mm")
    read = load(tmp_path / "model.mm")
    assert (read.C, read.C_) == ("scale", model.C_)


@pytest.mark.parametrize("wrong", [0.0, -1.0, "auto", None])
def test_other_words_and_numbers_are_refused(problem, wrong):
    for name in NAMES:
        with pytest.raises(ValueError, match="'C' parameter"):
            made(name, C=wrong).fit(*problem)


@pytest.mark.parametrize("form", [np.float32, np.float64, sp.csr_array, sp.csr_matrix])
def test_every_form_of_the_rows_has_the_same_scale(problem, form):
    X, Y = problem
    X = np.where(np.abs(X) > 1, X, 0.0).astype(np.float32)  # with empty rows and cells
    weight = np.arange(len(X)) % 3
    for weighted, expected in ((None, (X.astype(float) ** 2).sum(axis=1).mean()), (weight, None)):
        if expected is None:
            expected = np.average((X.astype(float) ** 2).sum(axis=1), weights=weight)
        model = LinearM3L(**FAST).fit(form(X), Y, sample_weight=weighted)
        np.testing.assert_allclose(model.C_, 1 / expected, rtol=1e-12)


@pytest.mark.parametrize("rows", [2, 3000])
def test_blocks_cover_every_row(rng, rows):
    X = rng.normal(size=(rows, 70)) * (rng.random((rows, 70)) < 0.3)
    Y = rng.integers(0, 2, size=(rows, 1))
    Y[:2, 0] = 0, 1
    weight = rng.random(rows)
    expected = 1 / np.average((X**2).sum(axis=1), weights=weight)
    for matrix in (X, sp.csr_array(X)):
        model = LinearM3L(tol=0.5).fit(matrix, Y, sample_weight=weight)
        np.testing.assert_allclose(model.C_, expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", [None, "linear", "poly", "additive_chi2"])
def test_a_weight_of_two_is_two_rows(problem, kernel):
    X, Y = np.abs(problem[0]) / 10, problem[1]
    weight = np.arange(len(X)) % 3
    # gamma is no matter of weights
    model = LinearM3L(tol=1e-8) if kernel is None else KernelM3L(kernel=kernel, gamma=0.1, tol=1e-8)
    weighted = clone(model).fit(X, Y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    np.testing.assert_allclose(weighted.C_, repeated.C_, rtol=1e-12)
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-6)
    tenfold = clone(model).fit(X, Y, sample_weight=10 * weight)
    np.testing.assert_allclose(tenfold.C_, weighted.C_, rtol=1e-12)
    cells = clone(model).fit(X, Y, sample_weight=np.repeat(weight[:, None], 3, axis=1))
    np.testing.assert_allclose(cells.C_, weighted.C_, rtol=1e-12)


def test_rows_without_a_known_label_do_not_count(problem):
    X, Y = problem[0], problem[1].astype(float)
    longer, unknown = np.vstack([X, 1e3 * X[:5]]), np.vstack([Y, np.full((5, 3), np.nan)])
    np.testing.assert_allclose(LinearM3L(**FAST).fit(longer, unknown).C_, LinearM3L(**FAST).fit(X, Y).C_, rtol=1e-12)
    weight = np.ones(unknown.shape)
    np.testing.assert_allclose(
        LinearM3L(**FAST).fit(longer, unknown, weight).C_, LinearM3L(**FAST).fit(X, Y).C_, rtol=1e-12
    )


def test_the_model_does_not_depend_on_the_unit_of_the_features(problem):
    X, Y = problem
    scores = [
        LinearM3L(tol=1e-9, fit_intercept=False).fit(unit * X, Y).decision_function(unit * X)
        for unit in (1e-3, 1.0, 1e3)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)
    np.testing.assert_allclose(scores[2], scores[1], atol=1e-3)


def test_zero_rows_and_rows_of_length_one_have_one(problem):
    X, Y = problem
    np.testing.assert_array_equal(LinearM3L(**FAST).fit(np.zeros_like(X), Y).C_, 1.0)
    np.testing.assert_array_equal(LinearM3L(**FAST).fit(sp.csr_array(X.shape), Y).C_, 1.0)
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(LinearM3L(**FAST).fit(units, Y).C_, 1.0, rtol=1e-12)


@pytest.mark.parametrize("kernel", sorted(KERNELS - {"precomputed"}))
def test_diagonals_are_those_of_the_values(problem, kernel):
    X = np.abs(problem[0]) / 10
    own = make_kernel(kernel, X, np.float64, 0.3, 2, 0.5)
    expected = np.diag(own.values(own.prepare(X)))
    np.testing.assert_allclose(diagonal(kernel, X, 0.3, 2, 0.5), expected, rtol=1e-9)
    np.testing.assert_allclose(diagonal(kernel, sp.csr_array(X), 0.3, 2, 0.5), expected, rtol=1e-9)


def test_precomputed_matrices_and_functions_have_their_diagonal(rng):
    X = rng.normal(size=(150, 4))  # more than a block of rows
    Y = (X[:, :2] + 0.3 * rng.normal(size=(150, 2)) > 0).astype(int)
    K = polynomial_kernel(X, degree=2)
    for model, rows in (
        (KernelM3L(kernel="precomputed"), K),
        (KernelM3L(kernel=lambda a, b: (a @ b.T / 4 + 1) ** 2), X),
    ):
        np.testing.assert_allclose(model.set_params(**FAST).fit(rows, Y).C_, 1 / np.diag(K).mean(), rtol=1e-10)


def test_a_warm_start_goes_on_after_scale(problem):
    X, Y = problem
    model = LinearM3L(tol=1e-6, random_state=0, warm_start=True).fit(X, Y)
    assert certify(model, X, Y) == model.certificate_
    for C in (10 * model.C_, "scale"):
        cold = LinearM3L(C=C, tol=1e-6, random_state=0).fit(X, Y)
        assert model.set_params(C=C).fit(X, Y).certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-5)


def test_certify_takes_the_cost_of_training(problem, tmp_path):
    X, Y = problem
    model = LinearM3L(tol=1e-6).fit(X, Y)
    save(model, tmp_path / "model.mm")
    assert certify(load(tmp_path / "model.mm"), X, Y).primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert certify(model, X, Y, refit=True).converged


def test_messages_show_the_number(problem):
    X, Y = problem
    with pytest.raises(InputError, match=r"C='scale' \(here .*e-1..\).*scale the features"):
        LinearM3L().fit(1e60 * X, Y)
    with pytest.warns(UserWarning, match="C=1.0: the mean squared length"):
        SubmodularClassifier(C=1.0, max_iter=1, callback=lambda _: True).fit(1e4 * X, Y)
    SubmodularClassifier(callback=lambda _: True).fit(1e4 * X, Y)  # no warning beforehand
