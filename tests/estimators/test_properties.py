"""Promises that every estimator keeps on any data, whether or not training converges.

Two fits of one problem bracket the same optimum: neither dual value is above the other's objective. Where both have
converged, that bounds the difference of their objectives by tol.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from strategies import multilabel_problems

from multimargin import certify
from multimargin.errors import InputError
from multimargin.estimators import REGISTRY, MultilabelClassifier

ROUNDING = 1e-9
# What the data must not choose, so that two fits have the same problem: learned cliques, and the most frequent pairs.
FIXED = {"CliqueClassifier": {"graph": "full"}, "SubmodularClassifier": {"pairs": 1.0}}

few = settings(max_examples=12, deadline=None, derandomize=True)
every_estimator = pytest.mark.parametrize("Estimator", list(REGISTRY.values()), ids=lambda E: E.__name__)


def fitted(Estimator, case, X=None, Y=None, **parameters):
    """Return a model, or None where the data are refused."""
    parameters = {**FIXED.get(Estimator.__name__, {}), **parameters}
    model = Estimator(max_iter=100, random_state=0, **parameters)
    if "gamma" in model.get_params():
        model.set_params(gamma=1.0 / (case.dense.shape[1] * max(case.dense.var(), 1e-300)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return model.fit(case.X if X is None else X, case.Y if Y is None else Y, case.sample_weight)
        except InputError:
            return None


def assert_same_optimum(a, b):
    assert (a is None) == (b is None)
    if a is None:
        return
    a, b = a.certificate_, b.certificate_
    slack = ROUNDING * max(a.primal, b.primal)
    assert a.dual <= b.primal + slack
    assert b.dual <= a.primal + slack


@every_estimator
@few
@given(case=multilabel_problems())
def test_certify_agrees_with_the_certificate(Estimator, case):
    if Estimator._bounds is MultilabelClassifier._bounds:
        pytest.skip(f"{Estimator.__name__} has no certifier")
    model = fitted(Estimator, case, warm_start=True)
    if model is None:
        return
    again, stated = certify(model, case.X, case.Y, case.sample_weight), model.certificate_
    assert again.primal == pytest.approx(stated.primal, rel=ROUNDING)
    assert again.dual == pytest.approx(stated.dual, abs=ROUNDING * stated.primal)
    assert stated.gap >= -ROUNDING * stated.primal


@every_estimator
@few
@given(case=multilabel_problems())
def test_single_and_double_precision_have_one_optimum(Estimator, case):
    X = case.X.astype(np.float32)  # so that both get the same numbers
    assert_same_optimum(fitted(Estimator, case, X), fitted(Estimator, case, X.astype(np.float64)))


@every_estimator
@few
@given(case=multilabel_problems())
def test_dense_and_sparse_rows_have_one_optimum(Estimator, case):
    X = case.X.toarray() if sp.issparse(case.X) else case.X
    assert_same_optimum(fitted(Estimator, case, X), fitted(Estimator, case, sp.csr_array(X)))


@every_estimator
@few
@given(case=multilabel_problems())
def test_labels_in_another_order_have_one_optimum(Estimator, case):
    assert_same_optimum(fitted(Estimator, case), fitted(Estimator, case, Y=case.Y[:, ::-1]))


@every_estimator
@few
@given(case=multilabel_problems())
def test_predictions_have_the_shape_and_form_of_y(Estimator, case):
    model = fitted(Estimator, case)
    if model is None:
        return
    scores, prediction = model.decision_function(case.X), model.predict(case.X)
    assert scores.shape == prediction.shape == case.Y.shape
    assert np.all(np.isfinite(scores))
    assert prediction.dtype == case.Y.dtype
    np.testing.assert_array_equal(prediction == 1, scores > 0)
    assert np.isin(prediction, (0, 1)).all()
    assert [set(labels) for labels in model.predict_sets(case.X)] == [set(np.flatnonzero(row)) for row in prediction]
