"""ThresholdTuner and FixedThresholds around estimators of ours and of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from multimargin import LinearM3L, ThresholdTuner, datasets, metrics, tune_thresholds
from multimargin.decisions import FixedThresholds
from multimargin.errors import InputError
from multimargin.labels import read_labels
from multimargin.model_selection import MultilabelStratifiedKFold

EXPECTED_FAILURES = {
    "check_classifiers_one_label_sample_weights": "weights of 0 leave one class to the estimator, but not to the folds",
}


@parametrize_with_checks(
    [ThresholdTuner(LinearM3L(random_state=0), random_state=0), FixedThresholds(LinearM3L(random_state=0))],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES if isinstance(estimator, ThresholdTuner) else {},
)
@pytest.mark.filterwarnings("ignore:.*[Cc]onstant predictions:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks do not scale their features
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(160, 6))
    Y = (X @ rng.normal(size=(6, 5)) + rng.normal(size=(160, 5)) > np.array([0.0, 1.0, 2.0, 3.0, 4.0])).astype(int)
    return X, Y


ESTIMATORS = {
    "ours": LinearM3L(C=1.0, random_state=0),
    "one-vs-rest": OneVsRestClassifier(LogisticRegression()),
    "multi-output": MultiOutputClassifier(LogisticRegression()),
    "ridge": RidgeClassifier(),
    "forest": RandomForestClassifier(10, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), LinearM3L(random_state=0)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("scoring", ["macro-f1", "micro-f1", "example-f1", "hamming-loss"])
def test_any_classifier_can_be_tuned(problem, name, scoring):
    X, Y = problem
    cv = MultilabelStratifiedKFold(4, random_state=0)
    model = ThresholdTuner(ESTIMATORS[name], scoring=scoring, cv=cv).fit(X, Y)
    predicted = model.predict(X)
    assert predicted.shape == Y.shape
    assert np.array_equal(model.decision_function(X) > 0, predicted == 1)
    assert 0 <= model.nested_score_ <= 1

    # the same as tuning out-of-fold scores by hand
    scores = np.empty(Y.shape)
    for train, test in cv.split(X, Y):
        part = clone(ESTIMATORS[name]).fit(X[train], Y[train])
        if hasattr(part, "decision_function"):
            scores[test] = part.decision_function(X[test])
        else:
            scores[test] = np.stack([p[:, 1] for p in part.predict_proba(X[test])], axis=1)
    if model.response_method_ == "decision_function":
        by_hand = tune_thresholds(scores, Y, scoring)
        assert by_hand.rule == model.rule_
        assert model.best_score_ == pytest.approx(by_hand.score)
        np.testing.assert_allclose(model.thresholds_, by_hand.values)
    elif scoring == "macro-f1":
        np.testing.assert_allclose(model.thresholds_, tune_thresholds(scores, Y, scoring).values)
        assert ((model.thresholds_ >= 0) & (model.thresholds_ <= 1)).all()


def test_labels_come_back_in_the_form_of_y(problem):
    X, Y = problem
    names = ["a", "b", "c", "d", "e"]
    tuner = ThresholdTuner(LinearM3L(random_state=0), random_state=0)
    plain = tuner.fit(X, Y)
    expected = plain.predict(X)
    frame = clone(tuner).fit(X, pd.DataFrame(Y, columns=names))
    assert frame.predict(X).columns.tolist() == names
    np.testing.assert_array_equal(frame.predict(X).to_numpy(), expected)
    assert frame.classes_.tolist() == names
    for kind in (sp.csr_matrix, sp.csc_array):
        found = clone(tuner).fit(X, kind(Y)).predict(X)
        assert type(found) is kind
        np.testing.assert_array_equal(found.toarray(), expected)
    sets = [{names[j] for j in np.flatnonzero(row)} for row in Y]
    model = clone(tuner).fit(X, sets)
    assert model.predict(X) == [{names[j] for j in np.flatnonzero(row)} for row in expected]
    assert model.predict_sets(X)[0] == tuple(names[j] for j in np.flatnonzero(expected[0]))
    assert model.score(X, sets) == pytest.approx(plain.score(X, Y)) == pytest.approx((expected == Y).all(axis=1).mean())
    one = clone(tuner).fit(X, np.where(Y[:, 2], "yes", "no"))
    assert set(one.predict(X)) == {"no", "yes"}
    assert isinstance(one.best_threshold_, float)
    assert one.decision_function(X).shape == (len(X),)


def test_unknown_cells(problem, rng):
    X, Y = problem
    Y = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    model = ThresholdTuner(LinearM3L(random_state=0), random_state=0).fit(X, Y)
    assert model.n_positives_.tolist() == np.nansum(Y, axis=0).tolist()


@pytest.mark.parametrize("name", ["ours", "one-vs-rest", "multi-output"])
def test_labels_constant_in_a_fold_are_masked(problem, name):
    X, Y = problem
    Y = Y.copy()
    Y[:, 3:] = 0
    Y[7, 3] = 1  # once: constant wherever it is held out
    Y[[3, 50, 90], 4] = 1
    model = ThresholdTuner(ESTIMATORS[name], random_state=0).fit(X, Y)
    assert model.n_positives_[3] == 0
    assert model.n_positives_[4] == 3
    assert model.rare_labels_.tolist() == [3, 4]
    assert np.isfinite(model.thresholds_[3])  # the quota: one row of the usable ones
    assert model.decision_.weights[3] == 0
    assert model.decision_.weights[4] == pytest.approx(3 / 33)


def test_prefit_and_single_split(problem):
    X, Y = problem
    fitted = LinearM3L(random_state=0).fit(X[:100], Y[:100])
    prefit = ThresholdTuner(fitted, cv="prefit").fit(X[100:], Y[100:])
    assert prefit.estimator_ is fitted
    by_hand = tune_thresholds(fitted.decision_function(X[100:]), Y[100:])
    np.testing.assert_allclose(prefit.thresholds_, by_hand.values)
    split = [(np.arange(100), np.arange(100, 160))]
    single = ThresholdTuner(LinearM3L(random_state=0), cv=split, refit=False).fit(X, Y)
    np.testing.assert_allclose(single.thresholds_, by_hand.values)
    np.testing.assert_allclose(single.estimator_.coef_, fitted.coef_)
    assert np.isnan(single.nested_score_)


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers the weights it was given."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.arange(y.shape[1])
        self.weights_ = sample_weight
        return self

    def decision_function(self, X):
        return X[:, : len(self.classes_)]


class TopScores(Recorder):
    """Gives the three best scores of each row only, as models with very many labels do."""

    def decision_function(self, X):
        scores = super().decision_function(X)
        kept = scores >= np.sort(scores, axis=1)[:, [-3]]
        rows, columns = np.nonzero(kept)
        return sp.csr_array((scores[rows, columns], (rows, columns)), shape=scores.shape)


@pytest.mark.parametrize("scoring", ["macro-f1", "micro-f1", "example-f1", "subset-accuracy"])
def test_sparse_scores(problem, scoring):
    X, Y = problem
    model = ThresholdTuner(TopScores(), scoring=scoring, cv=KFold(4)).fit(X, Y)
    assert 0 <= model.nested_score_ <= 1
    stored = TopScores().fit(X, Y).decision_function(X)
    with pytest.warns(UserWarning, match="of the positive cells"):
        by_hand = tune_thresholds(stored, Y, scoring)
    assert model.best_score_ == pytest.approx(by_hand.score)
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted, by_hand.predict(stored).toarray())
    np.testing.assert_array_equal(model.decision_function(X) > 0, predicted == 1)
    if scoring != "subset-accuracy":
        assert (predicted.sum(axis=1) <= 3).all()


def test_label_matrices_and_splitters(problem):
    X, Y = problem
    labels = read_labels(Y, names=list("abcde"))
    sets = [set(row) for row in ThresholdTuner(LinearM3L(random_state=0)).fit(X, labels).predict_sets(X)]
    assert set().union(*sets) <= set("abcde")
    for y in (labels, [set(np.flatnonzero(row)) for row in Y]):
        for cv in (KFold(3), MultilabelStratifiedKFold(3, random_state=0)):
            model = ThresholdTuner(LinearM3L(random_state=0), cv=cv).fit(X, y)
            assert len(model.thresholds_) == 5


def test_number_of_jobs_does_not_matter(problem):
    X, Y = problem
    one, two = (ThresholdTuner(LinearM3L(random_state=0), random_state=0, n_jobs=n).fit(X, Y) for n in (1, 2))
    np.testing.assert_array_equal(one.thresholds_, two.thresholds_)


def test_search_over_a_parameter_of_the_estimator(problem):
    X, Y = problem
    search = GridSearchCV(
        ThresholdTuner(LinearM3L(random_state=0), random_state=0, cv=3),
        {"estimator__C": [0.01, 1.0]},
        scoring=metrics.scorer("macro-f1"),
        cv=2,
    ).fit(X, Y)
    assert search.best_params_["estimator__C"] in (0.01, 1.0)


def test_metadata(problem):
    X, Y = problem
    weights = np.arange(len(X), dtype=float)
    model = ThresholdTuner(Recorder()).fit(X, Y, sample_weight=weights)
    assert np.array_equal(model.estimator_.weights_, weights)
    with pytest.raises(InputError, match="takes no 'colour'"):
        ThresholdTuner(Recorder()).fit(X, Y, colour=1)
    groups = np.repeat(np.arange(8), 20)
    grouped = ThresholdTuner(Recorder(), cv=GroupKFold(4)).fit(X, Y, groups=groups)
    assert np.isfinite(grouped.nested_score_)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = ThresholdTuner(Recorder().set_fit_request(sample_weight=True), cv=GroupKFold(4))
        routed.fit(X, Y, sample_weight=weights, groups=groups)
        assert np.array_equal(routed.estimator_.weights_, weights)


class Broken(LinearM3L):
    """Fails in the second fold."""

    def fit(self, X, y, sample_weight=None):
        if X[0, 0] == 7.0:
            raise KeyboardInterrupt
        return super().fit(X, y)


def test_an_interrupted_fit_leaves_the_object_as_it_was(problem):
    X, Y = problem
    model = ThresholdTuner(Broken(random_state=0), cv=KFold(4)).fit(X, Y)
    before = dict(vars(model))
    X = X.copy()
    X[0, 0] = 7.0
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert vars(model) == before


def test_progress_and_results(problem, capsys):
    X, Y = problem
    model = ThresholdTuner(LinearM3L(random_state=0), random_state=0, verbose=1, store_cv_results=True, cv=3).fit(X, Y)
    said = capsys.readouterr().err
    assert said.count("ThresholdTuner: fold") == 3
    assert "nested" in said
    for label, (thresholds, scores) in enumerate(zip(*model.cv_results_.values(), strict=True)):
        assert thresholds[np.argmax(scores)] == model.decision_.best[label]
    assert "threshold" in str(model.decision_)


def test_infeasible_labels_are_named(problem):
    X, Y = problem
    frame = pd.DataFrame(Y, columns=list("abcde"))
    tuner = ThresholdTuner(LinearM3L(random_state=0), scoring=("precision-at-recall", 0.99), confidence=0.99)
    with pytest.warns(UserWarning, match="few positives are never enough for label 'a'"):
        tuner.fit(X, frame)
    assert tuner.infeasible_labels_.tolist() == list("abcde")
    assert not tuner.predict(X).to_numpy().any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": "f1"}, "scoring must name"),
        ({"cv": 2.5}, "cv must be"),
        ({"cv": [(np.arange(80), np.arange(80, 160))] * 2}, "at most once"),
        ({"response_method": "scores"}, "response_method must be"),
        ({"refit": False}, "refit=False needs a single split"),
        ({"estimator": "LinearM3L"}, "estimator must be a classifier"),
    ],
)
def test_errors_come_before_any_work(problem, options, message):
    X, Y = problem

    class Untouched(Recorder):
        def fit(self, X, y):
            raise AssertionError

    with pytest.raises(InputError, match=message):
        ThresholdTuner(**{"estimator": Untouched(), **options}).fit(X, Y)


def test_fixed_thresholds(problem):
    X, Y = problem
    frame = pd.DataFrame(Y, columns=list("abcde"))
    base = LinearM3L(random_state=0).fit(X, frame)
    scores = base.decision_function(X)
    for thresholds in (0.5, np.linspace(-1, 1, 5), {"b": 0.3}):
        model = FixedThresholds(FrozenEstimator(base), thresholds).fit(X, frame)
        values = np.where(np.array(list("abcde")) == "b", 0.3, 0.0) if isinstance(thresholds, dict) else thresholds
        np.testing.assert_array_equal(model.predict(X).to_numpy(), (scores > values).astype(int))
        np.testing.assert_allclose(model.decision_function(X), scores - values)
    tuned = tune_thresholds(scores, Y)
    model = FixedThresholds(FrozenEstimator(base), tuned).fit(X, frame)
    np.testing.assert_array_equal(model.predict(X).to_numpy(), tuned.predict(scores))
    with pytest.raises(InputError, match="name the label 'z'"):
        FixedThresholds(base, {"z": 1.0}).fit(X, frame)
    with pytest.raises(InputError, match="5 numbers"):
        FixedThresholds(base, [1.0, 2.0]).fit(X, frame)


def test_yeast(data_home):
    data = datasets.load("yeast")
    X = StandardScaler().fit(data.X_train)
    scale = np.sqrt(data.X_train.shape[1])
    train, test = X.transform(data.X_train) / scale, X.transform(data.X_test) / scale
    base = LinearM3L(C=1.0, tol=1e-2, random_state=0)
    untuned = metrics.macro_f1(data.Y_test, base.fit(train, data.Y_train).predict(test))
    tuner = ThresholdTuner(base, random_state=0).fit(train, data.Y_train)
    tuned = metrics.macro_f1(data.Y_test, tuner.predict(test))
    assert tuned > max(untuned + 0.05, 0.44)
    assert tuner.nested_score_ == pytest.approx(tuned, abs=0.04)
