"""The certifier of kernel M3L against its formulas in NumPy, for coefficients that no solver proposed."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise

from multimargin import KernelM3L, _core, priors
from multimargin.estimators.m3l import kernel_certifier
from multimargin.estimators.m3l.kernel import KernelTask


def native(C):
    by_label = sp.csc_array(C)
    return _core.kernel_coefficients(
        by_label.indptr.astype(np.int64), by_label.indices.astype(np.int32), by_label.data, len(C)
    )


@pytest.mark.parametrize("n_labels", [1, 5, 129])
@pytest.mark.parametrize("rows", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_products_with_few_coefficients_are_those_with_all(rng, n_labels, rows, share):
    n = 700
    C = rng.normal(size=(n, n_labels)) * (rng.random((n, n_labels)) < share)
    coefficients = native(C)
    for start, stop, first in ((0, 600, 0), (0, 600, 100), (3, 17, 680), (40, 40, 0), (7, 300, 211)):
        K = rng.normal(size=(rows, 600))
        out = rng.normal(size=(n_labels, rows))
        expected = out + (K[:, start:stop] @ C[first : first + stop - start]).T
        coefficients.add_to_rows(K, start, stop, first, out)
        np.testing.assert_allclose(out, expected, atol=1e-11)
        out = rng.normal(size=(n_labels, 650))
        expected = out.copy()
        expected[:, 20 : 20 + stop - start] += C[first : first + rows].T @ K[: len(C[first : first + rows]), start:stop]
        if first + rows <= n:
            coefficients.add_to_columns(K, start, stop, first, out, 20)
            np.testing.assert_allclose(out, expected, atol=1e-11)


def test_products_that_do_not_fit_are_refused(rng):
    C = native(np.eye(4))
    K, out = np.ones((2, 4)), np.zeros((4, 2))
    for start, stop, first in ((0, 5, 0), (-1, 2, 0), (3, 2, 0), (0, 4, 1), (0, 4, -1)):
        with pytest.raises(ValueError, match="kernel"):
            C.add_to_rows(K, start, stop, first, out)
    for first, at, shape in ((3, 0, (4, 4)), (0, 1, (4, 4)), (0, -1, (4, 6)), (0, 0, (3, 4))):
        with pytest.raises(ValueError, match="kernel products"):
            C.add_to_columns(K, 0, 4, first, np.zeros(shape), at)
    starts, rows = np.array([0, 2]), np.array([0, 3], np.int32)
    for wrong in (
        (starts, rows[::-1].copy(), 4),
        (starts, rows, 3),
        (np.array([0, 3]), rows, 4),
        (starts[:0], rows, 4),
    ):
        with pytest.raises(ValueError, match="coefficients"):
            _core.kernel_coefficients(wrong[0], wrong[1], np.ones(2), wrong[2])


KERNELS = {
    "rbf": lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.4),
    "laplacian": lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.4),
    "linear": pairwise.linear_kernel,
}


@pytest.mark.parametrize("kernel", [*KERNELS, "precomputed", "callable"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("share", [0.1, 1.0])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.filterwarnings("ignore::multimargin.errors.DecisionWarning")  # labels that are mostly noise
def test_bounds_are_the_formulas(rng, monkeypatch, kernel, layout, share, tied):
    """Few and many coefficients, dual variables of their own and outside their box, rows without weight or use."""
    monkeypatch.setattr(kernel_certifier, "BLOCK_ROWS", 16)
    n, n_labels, s = 130, 6, 1.7
    X = np.abs(rng.normal(size=(n, 7))) * (rng.random((n, 7)) < 0.5)
    Y = (rng.random((n, n_labels)) < 0.4).astype(float)
    Y[0], Y[1] = 0, 1
    known = rng.random(Y.shape) < 0.9
    known[:2] = True
    weight = rng.random(n) * (rng.random(n) < 0.8)
    weight[:2] = 1.0
    function = KERNELS.get(kernel, KERNELS["rbf"])
    K = function(X, X)
    R = priors.from_embeddings(rng.normal(size=(n_labels, n_labels))) if tied else np.eye(n_labels)
    data = K if kernel == "precomputed" else X
    data = sp.csr_array(data) if layout == "csr" else data
    if kernel == "callable":
        kernel = function
    margin = rng.exponential(size=Y.shape)
    options = {"prior": R if tied else None, "intercept_scaling": s, "margin": margin, "max_iter": 1, "tol": 0.9}
    model = KernelM3L(kernel=kernel, gamma=0.4, C=2.0, **options).fit(data, np.where(known, Y, np.nan), weight)
    problem = model._problem(data, np.where(known, Y, np.nan), weight, reset=False)
    task = KernelTask(problem, model._margins(problem), model.gamma_, problem.dtype)

    used = np.sort(rng.choice(n, 60, replace=False))
    A, beta = np.zeros((2, n, n_labels))
    A[used] = rng.normal(size=(60, n_labels)) * (rng.random((60, n_labels)) < share)
    beta[used] = 3 * rng.normal(size=(60, n_labels)) * (rng.random((60, n_labels)) < share)
    w = rng.normal(size=n_labels)
    y, cost = 2 * Y - 1, 2.0 * weight[:, None] * known
    inverse = np.linalg.inv(R)
    primal = 0.5 * np.trace(A @ inverse @ (K @ A).T) + w @ inverse @ w / (2 * s**2)
    primal += (cost * np.maximum(0, margin - y * (K @ A + w))).sum()
    inside = np.clip(beta, np.minimum(y * cost, 0), np.maximum(y * cost, 0))
    t = inside.sum(axis=0)
    dual = (margin * y * inside).sum() - 0.5 * np.trace(inside @ R @ (K @ inside).T) - 0.5 * s**2 * t @ R @ t

    for n_jobs in (1, 3):
        threaded = replace(task, problem=replace(problem, n_jobs=n_jobs))
        found = model._certifier(threaded, used).bounds(A[used], w, beta[used])
        assert (found.primal, found.dual) == pytest.approx((primal, dual), rel=1e-10)
        if n_jobs == 1:
            first = found
        assert found == first
    same = model._certifier(task, used).bounds((inside @ R)[used], w, beta[used])
    assert same.dual == pytest.approx(dual, rel=1e-10)
    assert model._certifier(task, used).bounds(A[used], w, None).dual is None
