import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.errors import InputError
from multimargin.grams import gram_factor
from multimargin.kernels import KERNELS, input_kernel


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "precomputed"])
def test_formulas(rng, kernel):
    X, Z = rng.random((6, 3)), rng.random((4, 3))
    gamma = 1 / (3 * X.var())
    formulas = {
        "linear": lambda x, z: x @ z,
        "rbf": lambda x, z: np.exp(-gamma * np.sum((x - z) ** 2)),
        "poly": lambda x, z: (gamma * x @ z + 1) ** 3,
        "laplacian": lambda x, z: np.exp(-gamma * np.sum(np.abs(x - z))),
        "chi2": lambda x, z: np.exp(-gamma * np.sum((x - z) ** 2 / (x + z))),
        "additive_chi2": lambda x, z: np.sum(2 * x * z / (x + z)),
    }
    expected = [[formulas[kernel](x, z) for z in Z] for x in X]
    np.testing.assert_allclose(input_kernel(kernel, X)(X, Z), expected)
    sparse = input_kernel(kernel, sp.csr_array(X))
    np.testing.assert_allclose(sparse(sp.csr_array(X), sp.csr_array(Z)), expected)


def test_a_function_must_give_a_value_for_each_pair(rng):
    X = rng.random((6, 3))
    np.testing.assert_allclose(input_kernel(lambda A, B: A @ B.T, X)(X, X[:2]), X @ X[:2].T)
    with pytest.raises(InputError, match=r"shape \(6, 2\)"):
        input_kernel(lambda A, B: A @ A.T, X)(X, X[:2])


@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
def test_chi2_kernels_refuse_negative_features_on_either_side(rng, kernel):
    X = rng.random((3, 2))
    for A, B in ((X, X - 1), (X - 1, X)):
        with pytest.raises(InputError, match="Negative values in data"):
            input_kernel(kernel, X)(A, B)


@pytest.mark.parametrize("rank", [0, 1, 4, 10])
def test_factor_has_the_rank_of_the_matrix(rng, rank):
    F = rng.normal(size=(10, rank))
    Z = gram_factor(F @ F.T)
    assert Z.shape == (10, rank)
    np.testing.assert_allclose(Z @ Z.T, F @ F.T, atol=1e-12)


def test_matrices_that_are_no_kernels_are_refused(rng):
    with pytest.raises(InputError, match="symmetric"):
        gram_factor(rng.normal(size=(4, 4)))
    with pytest.raises(InputError, match="positive semidefinite"):
        gram_factor(np.diag([1.0, 2.0, -0.5]))
