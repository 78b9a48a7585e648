"""The border to the native core takes arrays as they are, and refuses what does not fit before any work."""

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import CliqueClassifier, KernelM3L, LinearM3L, SubmodularClassifier, _core
from multimargin.errors import InputError

ROWS = np.array([0, 1, 2, 3]), np.zeros(3, np.int32)


def certify(**changes):
    """Bounds of three rows of ones with one positive label each, at weights 0, but for what is changed."""
    given = {
        "positives": ROWS,
        "missing": None,
        "left_out": np.zeros(1, np.uint8),
        "row": np.ones(3),
        "positive": np.ones(1),
        "negative": np.ones(1),
        "cells": None,
        "weights": np.zeros((1, 3)),
        "beta": None,
        "margins": (np.ones(1), np.ones(1), None),
        **changes,
    }
    weights, beta, margins = (given.pop(name) for name in ("weights", "beta", "margins"))
    for name in ("positives", "missing"):
        given[name] = None if given[name] is None else _core.Cells(*given[name], 1)
    problem = _core.LinearM3LProblem(
        rows=_core.dense_rows(np.ones((3, 2))),
        labels=_core.Labels(**given),
        margins=_core.Margins(**dict(zip(("positive", "negative", "cells"), margins, strict=True))),
        bias=1.0,
        prior=None,
        eigenbasis=lambda single: None,
    )
    return _core.certify_linear_m3l(problem, weights, beta, 1)


def test_an_array_of_another_type_is_refused_not_copied():
    assert certify() == (3.0, 0.0)
    assert certify(margins=(np.full(1, 2.0), np.ones(1), np.array([[1.0], [0.0], [0.5]]))) == (3.0, 0.0)
    for wrong in (
        {"row": np.ones(3, np.float32)},
        {"positives": (ROWS[0], ROWS[1].astype(np.int64))},
        {"weights": np.asfortranarray(np.zeros((2, 6)))[:1, ::2]},
        {"weights": np.zeros((1, 3), np.float32)},
        {"beta": np.zeros(3)},
        {"margins": (np.ones(1), np.ones(1), np.ones((3, 1), np.float32))},
        {"margins": (np.ones(1, np.float32), np.ones(1), None)},
    ):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            certify(**wrong)
    for wrong in (
        {"weights": np.zeros((2, 3))},
        {"beta": np.zeros((2, 1))},
        {"margins": (np.ones(1), np.ones(1), np.zeros((3, 2)))},
        {"margins": (np.ones(1), np.ones(2), None)},
        {"row": np.ones(2)},
        {"left_out": np.zeros(2, np.uint8)},
        {"cells": np.ones((3, 2))},
        {"positives": (np.array([0, 1, 2, 4]), ROWS[1])},
        {"positives": (np.array([0, 2, 1, 3]), ROWS[1])},
        {"positives": (ROWS[0], np.array([0, 1, 0], np.int32))},
        {"missing": (ROWS[0], np.array([0, -1, 0], np.int32))},
    ):
        with pytest.raises(ValueError, match="fit|rise|range"):
            certify(**wrong)


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
