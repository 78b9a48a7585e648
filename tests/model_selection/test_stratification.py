import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.multiclass import OneVsRestClassifier

from multimargin.errors import InputError
from multimargin.model_selection import (
    MultilabelStratifiedKFold,
    MultilabelStratifiedShuffleSplit,
    fold_balance,
    train_test_split,
)

label_arrays = st.tuples(st.integers(2, 40), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int8, shape, elements=st.integers(0, 1))
)


def correlated_labels(n=1000, labels=30, seed=0):
    """Labels from common to rare that tend to appear together."""
    rng = np.random.default_rng(seed)
    frequency = np.geomspace(0.4, 0.01, labels)
    return (rng.random((n, labels)) < frequency * 2 * rng.random((n, 1))).astype(int)


def deviation(Y, splitter):
    return fold_balance(Y, splitter.split(Y, Y)).deviation


@settings(max_examples=150, deadline=None)
@given(label_arrays, st.integers(2, 6), st.integers(0, 5), st.booleans())
def test_folds_partition_the_rows(Y, folds, seed, shuffle):
    n = len(Y)
    if folds > n:
        return
    splitter = MultilabelStratifiedKFold(folds, shuffle=shuffle, random_state=seed if shuffle else None)
    tests = []
    for train, test in splitter.split(Y, Y):
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(n))
        assert (np.diff(train) > 0).all()
        assert (np.diff(test) > 0).all()
        assert n // folds <= len(test) <= -(-n // folds)
        tests.append(test)
    assert len(tests) == splitter.get_n_splits() == folds
    np.testing.assert_array_equal(np.sort(np.concatenate(tests)), np.arange(n))


@settings(max_examples=100, deadline=None)
@given(label_arrays, st.integers(1, 20), st.integers(1, 20), st.integers(0, 5))
def test_shuffle_splits_have_the_sizes_asked_for(Y, n_train, n_test, seed):
    n = len(Y)
    if n_train + n_test > n:
        return
    splitter = MultilabelStratifiedShuffleSplit(3, train_size=n_train, test_size=n_test, random_state=seed)
    for train, test in splitter.split(Y, Y):
        assert (len(train), len(test)) == (n_train, n_test)
        assert len(np.union1d(train, test)) == n_train + n_test


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(0, 60), st.integers(2, 5), st.integers(0, 3))
def test_one_label_is_dealt_evenly(positive, negative, folds, seed):
    y = np.r_[np.ones(positive, dtype=int), np.zeros(negative, dtype=int)]
    if folds > len(y):
        return
    balance = fold_balance(y, MultilabelStratifiedKFold(folds, random_state=seed).split(None, y))
    assert np.ptp(balance.counts) <= 2
    assert np.ptp(balance.sizes) <= 1


def test_balance_beats_random_folds():
    Y = correlated_labels()
    random = np.mean([deviation(Y, KFold(5, shuffle=True, random_state=s)) for s in range(5)], axis=0)
    ours = np.mean([deviation(Y, MultilabelStratifiedKFold(5, random_state=s)) for s in range(5)], axis=0)
    rare = Y.sum(axis=0) < 50
    assert rare.sum() > 5
    assert ours[rare].max() < 1.5
    assert ours[rare].mean() < random[rare].mean() / 2
    assert ours.mean() < random.mean() / 4


def test_rows_without_labels_are_spread_evenly():
    Y = correlated_labels()
    none = Y.sum(axis=1) == 0
    folds = MultilabelStratifiedKFold(5, random_state=0).split(None, Y)
    counts = [none[test].sum() for _, test in folds]
    assert none.sum() > 20
    assert np.ptp(counts) <= 2


def test_rare_labels_are_not_drawn_to_the_larger_folds():
    Y = np.vstack([np.eye(30, dtype=int), np.zeros((31, 30), dtype=int)])
    balance = fold_balance(Y, MultilabelStratifiedKFold(5, random_state=0).split(None, Y))
    assert np.ptp(balance.counts.sum(axis=1)) <= 2


def test_permuted_labels_are_balanced_as_well():
    Y = correlated_labels()
    permuted = Y[:, np.random.default_rng(1).permutation(Y.shape[1])]
    seeds = range(5)
    one = np.mean([deviation(Y, MultilabelStratifiedKFold(5, random_state=s)).mean() for s in seeds])
    other = np.mean([deviation(permuted, MultilabelStratifiedKFold(5, random_state=s)).mean() for s in seeds])
    assert other == pytest.approx(one, rel=0.15)


def test_seeds_decide():
    Y = correlated_labels()

    def first_test(seed, shuffle=True):
        return next(MultilabelStratifiedKFold(5, shuffle=shuffle, random_state=seed).split(None, Y))[1].tolist()

    assert first_test(3) == first_test(3)
    assert first_test(3) != first_test(4)
    assert first_test(None, shuffle=False) == first_test(None, shuffle=False)
    splitter = MultilabelStratifiedShuffleSplit(2, test_size=0.2, random_state=0)
    one, other = (test.tolist() for _, test in splitter.split(None, Y))
    assert one != other
    assert [test.tolist() for _, test in splitter.split(None, Y)] == [one, other]


def test_seeded_folds_are_the_same_on_every_platform():
    Y = (np.arange(60).reshape(12, 5) * 7919 % 11 < 4).astype(int)
    folds = [test.tolist() for _, test in MultilabelStratifiedKFold(3, random_state=0).split(None, Y)]
    assert folds == [[2, 5, 8, 11], [1, 3, 6, 9], [0, 4, 7, 10]]


def test_every_form_gives_the_same_folds():
    pd = pytest.importorskip("pandas")
    Y = correlated_labels(200, 8)
    names = np.array(list("abcdefgh"))
    forms = [Y.astype(bool), 2 * Y - 1, Y.tolist(), sp.csr_matrix(Y), sp.csc_array(Y), sp.coo_array(Y)]
    forms += [pd.DataFrame(Y, columns=names), [set(names[row == 1]) for row in Y]]

    def folds(form):
        return [test.tolist() for _, test in MultilabelStratifiedKFold(4, random_state=0).split(None, form)]

    for form in forms:
        assert folds(form) == folds(Y)


def test_unknown_cells_count_as_absent():
    Y = correlated_labels(100, 5).astype(float)
    Y[::7, 2] = np.nan
    splitter = MultilabelStratifiedKFold(4, random_state=0)
    for (_, a), (_, b) in zip(splitter.split(None, Y), splitter.split(None, np.nan_to_num(Y)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_train_test_split_keeps_types():
    pd = pytest.importorskip("pandas")
    Y = correlated_labels(100, 6)
    frame = pd.DataFrame({"x": np.arange(100)}, index=np.arange(100) + 1000)
    numbers = [str(i) for i in range(100)]
    parts = train_test_split(frame, sp.coo_matrix(np.arange(100)[:, None]), numbers, sp.csr_array(Y), random_state=0)
    X_train, X_test, S_train, _, n_train, n_test, Y_train, Y_test = parts
    assert isinstance(X_train, pd.DataFrame)
    assert isinstance(S_train, sp.coo_matrix)
    assert isinstance(Y_test, sp.csr_array)
    assert n_train == [str(i) for i in X_train["x"]]
    assert (len(X_train), len(X_test), len(n_test), Y_train.shape[0]) == (75, 25, 25, 75)
    np.testing.assert_array_equal(Y_test.toarray(), Y[X_test["x"]])
    np.testing.assert_array_equal(X_test.index, X_test["x"] + 1000)


def test_train_test_split_can_stratify_by_something_else():
    Y = correlated_labels(400, 6)
    (train, test) = train_test_split(np.arange(400), stratify=Y, test_size=0.2, random_state=0)
    assert (len(train), len(test)) == (320, 80)
    assert fold_balance(Y, [test]).deviation.max() <= 2


def test_sizes():
    Y = correlated_labels(100, 3)
    sizes = [({"test_size": 0.07}, (93, 7)), ({"train_size": 0.5}, (50, 50)), ({"test_size": 10}, (90, 10))]
    sizes += [
        ({"train_size": 20, "test_size": 0.3}, (20, 30)),
        ({"test_size": np.int64(5)}, (95, 5)),
        ({}, (75, 25)),
    ]
    for given_sizes, expected in sizes:
        train, test = train_test_split(Y, random_state=0, **given_sizes)
        assert (len(train), len(test)) == expected
    train, test = next(MultilabelStratifiedShuffleSplit(random_state=0).split(None, Y))
    assert (len(train), len(test)) == (90, 10)


def test_works_in_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    Y = (X[:, :3] + rng.normal(size=(90, 3)) > 0).astype(int)
    model = OneVsRestClassifier(LogisticRegression())
    cv = MultilabelStratifiedKFold(3, random_state=0)
    assert len(cross_validate(model, X, Y, cv=cv)["test_score"]) == 3
    splits = MultilabelStratifiedShuffleSplit(2, test_size=0.3, random_state=0)
    assert len(cross_validate(model, X, Y, cv=splits)["test_score"]) == 2
    search = GridSearchCV(model, {"estimator__C": [0.1, 1.0]}, cv=cv).fit(X, sp.csr_matrix(Y))
    assert search.n_splits_ == 3
    assert clone(search).cv.n_splits == 3
    assert repr(cv) == "MultilabelStratifiedKFold(n_splits=3, random_state=0, shuffle=True)"


Y_SMALL = np.array([[1, 0], [0, 1], [1, 1]])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: next(MultilabelStratifiedKFold(4).split(None, Y_SMALL)), "4 for 3 rows"),
        (lambda: next(MultilabelStratifiedKFold(1).split(None, Y_SMALL)), "at least 2"),
        (lambda: next(MultilabelStratifiedKFold(2.5).split(None, Y_SMALL)), "integer"),
        (lambda: next(MultilabelStratifiedKFold(2).split(Y_SMALL)), "None"),
        (lambda: next(MultilabelStratifiedKFold(2).split(np.ones(5), Y_SMALL)), "5 rows"),
        (lambda: next(MultilabelStratifiedKFold(2).split(None, np.empty((0, 2)))), "no rows"),
        (lambda: next(MultilabelStratifiedKFold(2).split(None, np.empty((3, 0)))), "no label"),
        (
            lambda: next(MultilabelStratifiedKFold(2, shuffle=False, random_state=1).split(None, Y_SMALL)),
            "no effect",
        ),
        (lambda: next(MultilabelStratifiedShuffleSplit(0).split(None, Y_SMALL)), "at least 1"),
        (lambda: train_test_split(Y_SMALL, test_size=1.0), "test_size must be a share"),
        (lambda: train_test_split(Y_SMALL, test_size=0), "test_size must be a share"),
        (lambda: train_test_split(Y_SMALL, test_size=3), "from 1 to 2"),
        (lambda: train_test_split(Y_SMALL, test_size=True), "got True"),
        (lambda: train_test_split(Y_SMALL, train_size=0.1), "0 training rows"),
        (lambda: train_test_split(Y_SMALL, train_size=2, test_size=2), "at most 3"),
        (lambda: train_test_split(np.ones(4), Y_SMALL), "same number of rows"),
        (lambda: train_test_split(None, Y_SMALL), "must have rows"),
        (lambda: train_test_split(), "at least one array"),
        (lambda: train_test_split(np.ones((1, 2)), np.ones((1, 2))), "at least one row"),
    ],
)
def test_bad_input_is_refused(action, message):
    with pytest.raises(InputError, match=message):
        action()
