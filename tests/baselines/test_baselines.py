import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from multimargin.baselines import MLkNN, RAkEL
from multimargin.errors import InputError

BASELINES = [MLkNN(), RAkEL(random_state=0)]


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(60, 5))
    return X, (X @ rng.normal(size=(5, 4)) + 0.5 * rng.normal(size=(60, 4)) > 0).astype(int)


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda b: type(b).__name__)
def test_predictions_take_the_form_of_y(baseline, problem):
    X, Y = problem
    reference = clone(baseline).fit(X, Y).predict(X)
    assert np.mean(reference == Y) > 0.8
    names = ["a", "b", "c", "d"]
    frame = clone(baseline).fit(X, pd.DataFrame(Y, columns=names)).predict(X)
    np.testing.assert_array_equal(frame[names].to_numpy(), reference)
    np.testing.assert_array_equal(clone(baseline).fit(sp.csr_array(X), sp.csr_array(Y)).predict(X).toarray(), reference)
    sets = [{names[j] for j in np.flatnonzero(row)} for row in Y]
    model = clone(baseline).fit(X, sets)
    assert model.predict_sets(X) == [tuple(names[j] for j in np.flatnonzero(row)) for row in reference]
    np.testing.assert_array_equal(model.decision_function(X) > 0, reference == 1)
    one = clone(baseline).fit(X, np.where(Y[:, 0], "yes", "no"))
    assert set(one.predict(X)) == {"yes", "no"}


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda b: type(b).__name__)
def test_unknown_labels_are_refused(baseline, problem):
    X, Y = problem
    Y = Y.astype(float)
    Y[0, 0] = np.nan
    with pytest.raises(InputError, match="1 unknown cells"):
        clone(baseline).fit(X, Y)


def test_mlknn_is_its_formula(problem):
    """Every probability counted by hand."""
    X, Y = problem
    k, s = 3, 0.7
    model = MLkNN(k, smoothing=s).fit(X, Y)
    distance = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1)[:, :k]
    x = X.mean(axis=0) + 0.1
    asked = np.argsort(np.linalg.norm(X - x, axis=1))[:k]
    for label in range(4):
        y = Y[:, label]
        count = y[near].sum(axis=1)
        seen = y[asked].sum()
        weight = []
        for value in (0, 1):
            prior = (s + np.sum(y == value)) / (2 * s + len(y))
            given = (s + np.sum((count == seen) & (y == value))) / (s * (k + 1) + np.sum(y == value))
            weight.append(prior * given)
        assert model.decision_function([x])[0, label] == pytest.approx(np.log(weight[1] / weight[0]))


def test_mlknn_needs_enough_rows(problem):
    X, Y = problem
    with pytest.raises(InputError, match="Lower n_neighbors"):
        MLkNN(10).fit(X[:10], Y[:10])


def test_rakel_with_single_labels_is_one_vs_all(problem):
    X, Y = problem
    model = RAkEL(1, n_models=4, estimator=LogisticRegression(), random_state=0).fit(X, Y)
    assert [labels.tolist() for labels in model.labelsets_] == [[0], [1], [2], [3]]
    for label in range(4):
        single = LogisticRegression().fit(X, Y[:, label])
        np.testing.assert_array_equal(single.predict(X), model.predict(X)[:, label])


def test_rakel_with_all_labels_is_the_label_powerset(problem):
    X, Y = problem
    model = RAkEL(9, random_state=0).fit(X, Y)
    assert len(model.labelsets_) == 1
    code = Y @ [8, 4, 2, 1]
    powerset = LinearSVC(random_state=0).fit(X, code).predict(X)
    assert np.mean(powerset == model.predict(X) @ [8, 4, 2, 1]) > 0.95


def test_rakel_draws_distinct_labelsets_and_takes_constant_labels(problem):
    X, Y = problem
    Y = np.column_stack([Y, np.zeros(60, int), np.ones(60, int)])
    model = RAkEL(2, n_models=100, random_state=0).fit(X, Y)
    assert len(model.labelsets_) == 15
    prediction = model.predict(X)
    assert not prediction[:, 4].any()
    assert prediction[:, 5].all()


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda b: type(b).__name__)
def test_only_a_fit_that_succeeds_changes_the_model(baseline, problem, monkeypatch):
    X, Y = problem
    model = clone(baseline).fit(pd.DataFrame(X, columns=list("abcde")), Y)
    before = dict(vars(model))
    scores = model._scores(X)
    with pytest.raises(InputError, match="unknown cells"):
        model.fit(X[:, :3], np.where(np.arange(4) > 0, Y, np.nan))

    def fails(X, Y):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "_fit", lambda self, X, Y: fails(X, Y))
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:, :3], Y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
    np.testing.assert_array_equal(model._scores(X), scores)
    model.fit(X[:, :3], Y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda b: type(b).__name__)
def test_score_is_the_share_of_rows_that_are_all_right(baseline, problem):
    X, Y = problem
    model = clone(baseline).fit(X, Y)
    assert model.score(X, Y) == np.mean((model.predict(X) == Y).all(axis=1))
    labels, scores = model.predict_with_scores(X)
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_array_equal(scores, model.decision_function(X))
