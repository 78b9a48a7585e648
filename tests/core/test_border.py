"""The border to the native core takes arrays as they are, and refuses what does not fit before any work."""

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import CliqueClassifier, KernelM3L, LinearM3L, SubmodularClassifier, _core
from multimargin.errors import InputError


def test_an_array_of_another_type_is_refused_not_copied():
    rows = _core.dense_rows(np.ones((3, 2)))
    cells = np.array([0, 1, 2, 3]), np.zeros(3, np.int32)
    options = {
        "rows": rows,
        "n_labels": 1,
        "positives": cells,
        "missing": None,
        "bias": 1.0,
        "weights": np.zeros((1, 3)),
        "beta": None,
        "threads": 1,
    }
    costs = np.ones(3), np.ones(1), np.ones(1), None
    assert _core.certify_linear_m3l(certifier=(costs, None, None), **options) == (3.0, 0.0)
    for wrong in (
        {"certifier": ((np.ones(3, np.float32), *costs[1:]), None, None)},
        {"positives": (cells[0], cells[1].astype(np.int64))},
        {"weights": np.asfortranarray(np.zeros((2, 3)))[:1]},
        {"weights": np.zeros((1, 3), np.float32)},
        {"beta": np.zeros(3)},
    ):
        with pytest.raises(TypeError, match="another type, layout or number of dimensions"):
            _core.certify_linear_m3l(**{"certifier": (costs, None, None), **options, **wrong})
    for wrong in (
        {"weights": np.zeros((2, 3))},
        {"beta": np.zeros((2, 1))},
        {"certifier": ((np.ones(2), *costs[1:]), None, None)},
        {"positives": (np.array([0, 1, 2, 4]), cells[1])},
        {"positives": (np.array([0, 2, 1, 3]), cells[1])},
        {"positives": (cells[0], np.array([0, 1, 0], np.int32))},
        {"missing": (cells[0], np.array([0, -1, 0], np.int32))},
    ):
        with pytest.raises(ValueError, match="fit|shape|range"):
            _core.certify_linear_m3l(**{"certifier": (costs, None, None), **options, **wrong})


def broken_matrices():
    X = sp.random_array((20, 6), density=0.4, format="csr", rng=np.random.default_rng(0))
    for change in ("falls", "long", "first", "column", "negative", "overflow"):
        bad = X.copy()
        if change == "falls":
            bad.indptr[5] = bad.indptr[7] + 2
        elif change == "long":
            bad.indptr[-1] = 10**6
        elif change == "first":
            bad.indptr[0] = 3
        elif change == "column":
            bad.indices[4] = 10**6
        elif change == "negative":
            bad.indices[4] = -7
        else:
            bad.indptr[3:6] = [2**31 - 1, -(2**31), 0]
        yield pytest.param(bad, id=change)


@pytest.mark.parametrize("bad", list(broken_matrices()))
@pytest.mark.parametrize("Estimator", [LinearM3L, KernelM3L, SubmodularClassifier, CliqueClassifier])
def test_a_corrupt_sparse_matrix_is_an_error_in_fit_and_in_predict(Estimator, bad, rng):
    X = rng.normal(size=(20, 6))
    Y = (X[:, :2] + rng.normal(size=(20, 2)) > 0).astype(int)
    model = Estimator(random_state=0).fit(X, Y)
    for use in (lambda: Estimator().fit(bad, Y), lambda: model.predict(bad), lambda: model.decision_function(bad)):
        with pytest.raises((InputError, ValueError)):
            use()


def test_more_threads_than_cores_are_not_started(rng):
    X, Y = rng.normal(size=(30, 3)), rng.integers(0, 2, size=(30, 4))
    one = LinearM3L(random_state=0, n_jobs=1).fit(X, Y)
    many = LinearM3L(random_state=0, n_jobs=10**7).fit(X, Y)
    np.testing.assert_array_equal(one.coef_, many.coef_)
    with pytest.raises(InputError, match="n_jobs must not be 0"):
        LinearM3L(n_jobs=0).fit(X, Y)
