"""Scores, predicted labels and best labels of new rows, whatever the form of the rows and the number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from interrupts import assert_answers_ctrl_c

from multimargin import KernelM3L, LinearM3L, ThresholdTuner
from multimargin.baselines import MLkNN
from multimargin.errors import InputError
from multimargin.labels import LabelForm

KERNELS = ["linear", "rbf", "poly", "sigmoid", "laplacian", "chi2", "additive_chi2", "precomputed", "callable"]
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-12}


def linear(coef, intercept, **params):
    """Return a model with these weights, as a fit would leave it."""
    model = LinearM3L(**params)
    n_labels, n_features = coef.shape
    names = np.arange(n_labels)
    fitted = {"coef_": coef, "intercept_": intercept, "n_features_in_": n_features, "label_names_": names}
    model.__dict__.update(fitted, classes_=names, label_form_=LabelForm("array", dtype="int64"))
    return model


def drawn(rng, n_rows, n_features, n_labels, dtype, share=0.3):
    """Rows with many zeros and a model; the numbers of both are exact in either precision."""
    X = np.where(rng.random((n_rows, n_features)) < share, rng.normal(size=(n_rows, n_features)), 0.0)
    coef, intercept = rng.normal(size=(n_labels, n_features)), rng.normal(size=n_labels)
    return X.astype(np.float32).astype(np.float64), linear(coef.astype(dtype), intercept.astype(dtype))


def wide_indices(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


FORMS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "single": lambda X: X.astype(np.float32),
    "every other": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "CSR": sp.csr_array,
    "CSR single": lambda X: sp.csr_matrix(X.astype(np.float32)),
    "CSR int64": wide_indices,
    "CSC": sp.csc_array,
}


def assert_close(scores, X, coef, intercept):
    """Compare with the product in double, relative to the sum of its terms without their signs."""
    coef, intercept = coef.astype(np.float64), intercept.astype(np.float64)
    size = abs(X) @ abs(coef).T + abs(intercept)
    assert (abs(scores - (X @ coef.T + intercept)) <= TOLERANCE[scores.dtype.type] * size).all()


def best_first(scores, k):
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_labels", [1, 7, 103, 129, 2000])
def test_linear_scores_are_products(rng, dtype, n_labels):
    X, model = drawn(rng, 150, 45, n_labels, dtype)
    X[7] = 0.0
    expected = model.decision_function(X)
    assert expected.dtype == dtype
    assert_close(expected, X, model.coef_, model.intercept_)
    np.testing.assert_array_equal(expected[7], model.intercept_)
    for form in FORMS.values():
        np.testing.assert_array_equal(model.decision_function(form(X)), expected)
        np.testing.assert_array_equal(model.predict(form(X)), expected > 0)


def test_whole_numbers_and_frames(rng):
    pd = pytest.importorskip("pandas")
    X, model = drawn(rng, 20, 6, 5, np.float64)
    X = np.round(3 * X).astype(np.int64)
    for form in (X, pd.DataFrame(X.astype(float)), X.tolist()):
        np.testing.assert_array_equal(model.decision_function(form), model.decision_function(X.astype(float)))
        assert model.predict_top(form, 2).shape == (20, 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["C", "F", "CSR"])
@pytest.mark.parametrize(("n_features", "n_labels"), [(3, 2), (40, 103), (600, 30), (5000, 60)])
def test_bits_depend_on_the_row_alone(rng, dtype, form, n_features, n_labels):
    X, model = drawn(rng, 130, n_features, n_labels, dtype, share=0.05)
    rows = FORMS[form](X)
    scores, predicted = model.decision_function(rows), model.predict(rows)
    for size in (1, 3, 50):
        parts = [model.decision_function(rows[a : a + size]) for a in range(0, 130, size)]
        np.testing.assert_array_equal(np.vstack(parts), scores)
    model.set_params(n_jobs=2)
    np.testing.assert_array_equal(model.decision_function(rows), scores)
    np.testing.assert_array_equal(model.predict(rows), predicted)
    np.testing.assert_array_equal(model.predict_top(rows, 2).indices.reshape(130, 2), best_first(scores, 2))


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e9, 1e30])
def test_scores_scale_with_the_rows(rng, scale):
    X, model = drawn(rng, 60, 40, 20, np.float64)
    model.intercept_[:] = 0.0
    power = 2.0 ** round(np.log2(scale))
    np.testing.assert_array_equal(model.decision_function(X * power), model.decision_function(X) * power)


def kernel_problem(rng, kernel, dtype, sparse):
    share = 0.08 if sparse else 1.0
    rows = abs(rng.normal(size=(310, 60))) * (rng.random((310, 60)) < share)
    X, new = rows[:250].astype(dtype), rows[250:].astype(dtype)
    Y = (X @ rng.normal(size=(60, 9)) + 0.2 * rng.normal(size=(250, 9)) > 0).astype(int)
    if kernel == "precomputed":
        X, new = X @ X.T, new @ X.T
    elif kernel == "callable":
        kernel = inner_products
    model = KernelM3L(kernel=kernel, C=10.0, gamma=0.01, random_state=0, max_iter=200)
    if sparse:
        X, new = sp.csr_array(X), sp.csr_array(new)
    return model, X, Y, new


def inner_products(A, B):
    """Return inner products whose bits, other than those of BLAS, do not depend on the number of rows."""
    return (A @ B.T).toarray() if sp.issparse(A) else np.einsum("ij,kj->ik", A, B)


def kernel_values(model, new, Z):
    A, Z = (np.asarray(M.toarray() if sp.issparse(M) else M, dtype=np.float64) for M in (new, Z))
    if model.kernel == "precomputed":
        return A[:, model.support_]
    dots, gamma = A @ Z.T, model.gamma_
    a, b = A[:, None, :], Z[None, :, :]
    total = np.where(a + b > 0, a + b, 1.0)
    return {
        "linear": lambda: dots,
        "rbf": lambda: np.exp(-gamma * np.square(a - b).sum(axis=2)),
        "poly": lambda: (gamma * dots + model.coef0) ** model.degree,
        "sigmoid": lambda: np.tanh(gamma * dots + model.coef0),
        "laplacian": lambda: np.exp(-gamma * abs(a - b).sum(axis=2)),
        "chi2": lambda: np.exp(-gamma * (np.square(a - b) / total).sum(axis=2)),
        "additive_chi2": lambda: (2 * a * b / total).sum(axis=2),
    }[model.kernel if isinstance(model.kernel, str) else "linear"]()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*predicts")
def test_kernel_scores_are_sums_over_support_rows(rng, kernel, dtype, sparse):
    model, X, Y, new = kernel_problem(rng, kernel if kernel != "sigmoid" else "linear", dtype, sparse)
    model.fit(X, Y)
    if kernel == "sigmoid":  # no kernel of a fit here, but one of a model all the same
        model.set_params(kernel=kernel)
    values = kernel_values(model, new, model.support_vectors_)
    coef = model.dual_coef_.astype(np.float64)
    size = abs(values) @ abs(coef) + abs(model.intercept_)
    scores = model.decision_function(new)
    assert scores.dtype == model.dual_coef_.dtype
    error = abs(scores - (values @ coef + model.intercept_)) / size
    assert error.max() <= TOLERANCE[scores.dtype.type]
    for size in (1, 7):
        parts = [model.decision_function(new[a : a + size]) for a in range(0, new.shape[0], size)]
        np.testing.assert_array_equal(np.vstack(parts), scores)
    model.set_params(n_jobs=2)
    np.testing.assert_array_equal(model.decision_function(new), scores)
    np.testing.assert_array_equal(model.predict(new), scores > 0)
    np.testing.assert_array_equal(model.predict_top(new, 4).indices.reshape(-1, 4), best_first(scores, 4))


@pytest.mark.parametrize("degree", [1, 2, 2.5, 7])
def test_degrees(rng, degree):
    X = abs(rng.normal(size=(60, 5)))
    model = KernelM3L(kernel="poly", degree=degree, gamma=0.3, random_state=0).fit(X, X[:, :3] > 0.7)
    scores = kernel_values(model, X, model.support_vectors_) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-9, atol=1e-9)


def test_dense_rows_of_a_sparse_model_and_the_other_way_round(rng):
    model, X, Y, new = kernel_problem(rng, "rbf", np.float64, True)
    expected = model.fit(X, Y).decision_function(new)
    np.testing.assert_array_equal(model.decision_function(new.toarray()), expected)
    dense = KernelM3L(C=10.0, gamma=0.01, random_state=0, max_iter=200).fit(X.toarray(), Y)
    np.testing.assert_array_equal(dense.decision_function(new), dense.decision_function(new.toarray()))


@pytest.mark.filterwarnings("ignore:Constant")
def test_no_support_at_all():
    model = KernelM3L().fit(np.eye(3), np.ones((3, 2), dtype=int))
    np.testing.assert_array_equal(model.predict(np.eye(3)), 1)
    assert model.predict_top(np.eye(3), 1).indices.tolist() == [0, 0, 0]


@pytest.mark.parametrize("n_labels", [1, 5, 129, 2000])
@pytest.mark.parametrize("form", ["C", "CSR"])
def test_the_best_labels(rng, n_labels, form):
    X, model = drawn(rng, 70, 30, n_labels, np.float64)
    model.coef_[:, :] = np.round(model.coef_)
    model.intercept_[:] = np.round(model.intercept_)
    X = np.round(X)  # many ties, zeros among them
    rows = FORMS[form](X)
    scores = model.decision_function(rows)
    for k in {1, 3, n_labels - 1, n_labels, n_labels + 10} - {0}:
        top = model.predict_top(rows, k)
        width = min(k, n_labels)
        assert isinstance(top, sp.csr_array)
        assert top.shape == scores.shape
        np.testing.assert_array_equal(top.indptr, np.arange(0, 70 * width + 1, width))
        ranked = best_first(scores, width)
        np.testing.assert_array_equal(top.indices.reshape(70, width), ranked)
        np.testing.assert_array_equal(top.data.reshape(70, width), np.take_along_axis(scores, ranked, axis=1))
        if width < n_labels:
            cut = -np.partition(-scores, width - 1, axis=1)[:, width - 1]
            assert (top.data.reshape(70, width).min(axis=1) == cut).all()


@pytest.mark.parametrize("model", [MLkNN(), ThresholdTuner(LinearM3L(random_state=0)), LinearM3L(), KernelM3L()])
def test_everything_with_scores_has_best_labels(rng, model):
    X = rng.normal(size=(80, 6))
    names = np.array(["b", "a", "c"])
    sets = [set(names[row]) for row in X[:, :3] > 0]
    model.fit(X, sets)
    scores = model.decision_function(X)
    top = model.predict_top(X, 2)
    np.testing.assert_array_equal(top.indices.reshape(-1, 2), best_first(scores, 2))
    np.testing.assert_array_equal(top.data.reshape(-1, 2), -np.sort(-scores, axis=1)[:, :2])
    assert model.label_names_[top.indices[0]] in {"a", "b", "c"}


def test_best_label_of_one(rng):
    X = rng.normal(size=(30, 3))
    model = LinearM3L().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    top = model.predict_top(X, 4)
    assert top.shape == (30, 1)
    np.testing.assert_array_equal(top.toarray()[:, 0], model.decision_function(X))


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None, "2"])
def test_a_number_of_labels_that_is_none(rng, k):
    X, model = drawn(rng, 5, 4, 3, np.float64)
    with pytest.raises(InputError, match="k is the number of labels"):
        model.predict_top(X, k)


def test_scores_beyond_floating_point(rng):
    X, model = drawn(rng, 40, 4, 3, np.float32)
    X[30] = 1e60
    for form in (X, sp.csr_array(X)):
        for use in (model.decision_function, model.predict, lambda X: model.predict_top(X, 2)):
            with pytest.raises(InputError, match="largest entry is 1e"):
                use(form)


def test_no_rows_are_refused(rng):
    X, model = drawn(rng, 5, 4, 3, np.float64)
    for form in (X[:0], sp.csr_array(X[:0])):
        for use in (model.decision_function, model.predict, lambda X: model.predict_top(X, 2)):
            with pytest.raises(ValueError, match="0 sample"):
                use(form)


def test_repeated_and_unsorted_entries(rng):
    X, model = drawn(rng, 30, 9, 5, np.float64)
    rows = sp.csr_array(X)
    twice = sp.csr_array(
        (np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), shape=rows.shape, copy=True
    )
    assert_close(model.decision_function(twice), X, model.coef_, model.intercept_)
    backwards = sp.csr_array(
        (rows.data[::-1].copy(), rows.indices[::-1].copy(), rows.nnz - rows.indptr[::-1]), shape=rows.shape
    )
    assert_close(model.decision_function(backwards), X[::-1], model.coef_, model.intercept_)


def test_a_subclass_with_scores_of_its_own(rng):
    X, model = drawn(rng, 30, 9, 5, np.float64)

    class Opposite(LinearM3L):
        def _scores(self, X):
            return -super()._scores(X)

    other = Opposite()
    other.__dict__.update(model.__dict__)
    np.testing.assert_array_equal(other.decision_function(X), -model.decision_function(X))
    np.testing.assert_array_equal(other.predict(X), 1 - model.predict(X))
    np.testing.assert_array_equal(other.predict_top(X, 1).indices, model.decision_function(X).argmin(axis=1))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("model", ["linear", "kernel"])
def test_ctrl_c(model, n_jobs):
    setup = f"""
import numpy as np
from multimargin import KernelM3L, LinearM3L
rng = np.random.default_rng(0)
if {model!r} == "linear":
    X, Y = rng.normal(size=(40, 4000)), rng.integers(0, 2, size=(40, 400))
    model = LinearM3L(n_jobs={n_jobs}, tol=0.5).fit(X, Y)
    new = np.broadcast_to(X[:1], (100_000, 4000))
else:
    X, Y = rng.normal(size=(2000, 300)), rng.integers(0, 2, size=(2000, 50))
    model = KernelM3L(n_jobs={n_jobs}, tol=0.5).fit(X, Y)
    new = np.broadcast_to(X[:1], (200_000, 300))
model._check_X = lambda X, **options: X
"""
    assert_answers_ctrl_c("model.predict_top(new, 3)", setup=setup, after=0.5)
