import numpy as np
import pytest

from multimargin.errors import InputError
from multimargin.kernels import gram_factor


@pytest.mark.parametrize(("n", "rank"), [(10, 0), (10, 1), (10, 4), (10, 10), (200, 70), (200, 200)])
def test_factor_has_the_rank_of_the_matrix(rng, n, rank):
    F = rng.normal(size=(n, rank))
    Z = gram_factor(F @ F.T)
    assert Z.shape == (n, rank)
    np.testing.assert_allclose(Z @ Z.T, F @ F.T, atol=1e-11)


def test_matrices_that_are_no_kernels_are_refused(rng):
    with pytest.raises(InputError, match="symmetric"):
        gram_factor(rng.normal(size=(4, 4)))
    with pytest.raises(InputError, match="positive semidefinite"):
        gram_factor(np.diag([1.0, 2.0, -0.5]))
