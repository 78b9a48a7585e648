import numpy as np
import pandas as pd
import pytest

from multimargin import KernelM3L, LinearM3L, priors
from multimargin.errors import InputError
from multimargin.weights import LabelFrequencies, class_weights


def test_class_weights_move_the_weighted_frequencies(rng):
    Y = (rng.random((300, 4)) < [0.1, 0.4, 0.6, 0.5]).astype(float)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    q = np.array([0.3, 0.4, 0.1, 0.0])
    for j, weight in enumerate(class_weights(Y, q)):
        known = Y[~np.isnan(Y[:, j]), j]
        w = np.where(known == 1, weight[1], weight[0])
        assert np.average(known, weights=w) == pytest.approx(q[j])
        assert w.mean() == pytest.approx(1.0)
    by_name = class_weights(pd.DataFrame(Y, columns=list("dcba")), dict(zip("abcd", q[::-1], strict=True)))
    assert by_name == class_weights(Y, q)


@pytest.mark.parametrize("Estimator", [LinearM3L, KernelM3L])
def test_label_frequencies_are_class_weights_of_the_rows_of_a_fit(rng, Estimator):
    X = rng.normal(size=(60, 3))
    Y = pd.DataFrame(X @ rng.normal(size=(3, 3)) + rng.normal(size=(60, 3)) > 0.5, columns=list("abc"))
    q = {"c": 0.7, "a": 0.2, "b": 0.5}
    R = priors.from_labels(Y)
    for rows in (slice(0, 60), slice(0, 40)):
        told = Estimator(prior=R, class_weight=LabelFrequencies(q), random_state=0).fit(X[rows], Y[rows])
        weights = class_weights(Y[rows], q)
        weighted = Estimator(prior=R, class_weight=weights, random_state=0).fit(X[rows], Y[rows])
        np.testing.assert_array_equal(told.decision_function(X), weighted.decision_function(X))
    column = (Y["a"].to_numpy(), np.where(Y["a"], "yes", "no"))
    of_column = [Estimator(class_weight=LabelFrequencies([0.9]), random_state=0).fit(X, y) for y in column]
    np.testing.assert_array_equal(*(model.decision_function(X) for model in of_column))
    with pytest.raises(InputError, match="label_frequencies must be 3 numbers"):
        Estimator(class_weight=LabelFrequencies([0.5])).fit(X, Y)


def test_class_weights_of_constant_labels_are_one():
    assert class_weights([[1, 0], [1, 0]], [0.2, 0.2]) == [{0: 1.0, 1: 1.0}] * 2


def test_frequencies_may_be_off_by_rounding():
    assert class_weights([[1], [0]], np.nextafter([1.0], 2)) == [{0: 0.0, 1: 2.0}]


def test_bad_frequencies_are_refused():
    with pytest.raises(InputError, match=r"range from -0.5 to 0.2"):
        class_weights([[1, 0], [0, 1]], [0.2, -0.5])
    with pytest.raises(InputError, match=r"2 numbers, one per label; got shape \(3,\)"):
        class_weights([[1, 0], [0, 1]], [0.2, 0.5, 0.1])
    with pytest.raises(InputError, match="no entry for label 1"):
        class_weights([[1, 0], [0, 1]], {0: 0.5})
