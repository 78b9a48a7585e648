import itertools

import numpy as np
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from multimargin import datasets


def test_signatures_tell_the_digits_apart():
    data = datasets.load_digit_attributes()
    owners = data.signatures.sum(axis=0)
    assert data.signatures.shape == (10, len(data.label_names))
    assert len(set(data.label_names)) == len(data.label_names) >= 12
    assert owners.min() >= 2
    assert owners.max() <= 8
    distances = [np.sum(a != b) for a, b in itertools.combinations(data.signatures, 2)]
    assert min(distances) >= 4
    columns = {tuple(column) for column in data.signatures.T}
    assert len(columns) == data.signatures.shape[1]


def test_strokes_follow_the_digit():
    data = datasets.load_digit_attributes()
    np.testing.assert_array_equal(data.Y, data.signatures[data.digit])
    assert data.X.shape == (1797, 64)
    assert data.X.min() == 0.0
    assert data.X.max() == 1.0
    np.testing.assert_array_equal(data.images.reshape(1797, -1), data.X)


def test_every_stroke_is_present_and_absent_among_the_seen_digits():
    data = datasets.load_digit_attributes()
    assert len(data.splits) >= 6
    assert set(itertools.chain(*(split.unseen for split in data.splits))) == set(range(10))
    for seen, unseen in data.splits:
        assert len(unseen) == 3
        assert sorted(seen + unseen) == list(range(10))
        share = data.signatures[list(seen)].mean(axis=0)
        assert (share > 0).all()
        assert (share < 1).all()


def test_strips_are_reproducible_and_hold_two_to_four_digits():
    first, again = datasets.load_digit_strips(90), datasets.load_digit_strips(90)
    other = datasets.load_digit_strips(90, random_state=1)
    np.testing.assert_array_equal(first.X_train, again.X_train)
    np.testing.assert_array_equal(first.images_test, again.images_test)
    assert not np.array_equal(first.Y_train, other.Y_train)
    sizes = np.vstack([first.Y_train, first.Y_test]).sum(axis=1)
    assert set(sizes) == {2, 3, 4}
    assert first.X_train.min() >= 0
    assert first.X_train.max() <= 1 + 1e-12


def test_friends_appear_together_more_often_than_rivals():
    strips = datasets.load_digit_strips(3000)
    Y = np.vstack([strips.Y_train, strips.Y_test]).astype(float)
    together, alone = Y.T @ Y / len(Y), Y.mean(axis=0)
    lift = together / np.outer(alone, alone)
    assert {J > 0 for _, _, J in strips.edges} == {True, False}
    for a, b, J in strips.edges:
        assert (lift[a, b] > 1.3) if J > 0 else (lift[a, b] < 0.5)


def test_strips_can_be_learned_but_not_perfectly():
    strips = datasets.load_digit_strips()
    model = make_pipeline(StandardScaler(), OneVsRestClassifier(LinearSVC(dual=False)))
    prediction = model.fit(strips.X_train, strips.Y_train).predict(strips.X_test)
    assert 0.75 < f1_score(strips.Y_test, prediction, average="macro") < 0.9
