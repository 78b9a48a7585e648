import pytest

from multimargin.errors import InputError
from multimargin.model_selection import CategoryKFold


def test_category_folds_are_disjoint_in_categories(rng):
    y = rng.choice(list("abcdefg"), size=200)
    tested = []
    for train, test in CategoryKFold(3, random_state=1).split(y, y):
        assert not set(y[train]) & set(y[test])
        assert len(train) + len(test) == 200
        tested.extend(test)
    assert sorted(tested) == list(range(200))
    for train, test in CategoryKFold(3, seen_share=0.5, random_state=1).split(y, y):
        assert set(y[train]) & set(y[test])
        assert not set(train) & set(test)
    with pytest.raises(InputError, match="between 2 and the 7 categories"):
        next(CategoryKFold(8).split(y, y))
