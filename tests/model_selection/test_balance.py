import numpy as np
import pytest

from multimargin.errors import InputError
from multimargin.model_selection import fold_balance


def test_fold_balance_counts():
    Y = np.array([[1, 0], [1, 0], [1, 1], [0, 0]])
    balance = fold_balance(Y, [[0, 1], np.array([2, 3])])
    np.testing.assert_array_equal(balance.counts, [[2, 0], [1, 1]])
    np.testing.assert_array_equal(balance.expected, [[1.5, 0.5], [1.5, 0.5]])
    np.testing.assert_array_equal(balance.deviation, [0.5, 0.5])
    np.testing.assert_array_equal(balance.absent, [0, 1])
    many = fold_balance(np.eye(30), [np.arange(15), np.arange(15, 30)])
    assert "10 labels with smaller deviations" in str(many)


@pytest.mark.parametrize(("folds", "message"), [([], "empty"), ([[0, 3]], "from 0 to 2"), ([[0.5]], "row numbers")])
def test_what_is_no_fold_is_refused(folds, message):
    with pytest.raises(InputError, match=message):
        fold_balance(np.array([[1, 0], [0, 1], [1, 1]]), folds)
