import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import multimargin
from multimargin import KernelM3L, LinearM3L, ZeroShotClassifier, priors, weights
from multimargin.errors import InputError
from multimargin.zero_shot import (
    CategoryKFold,
    harmonic_mean_scorer,
    per_class_scorer,
)

# Twenty animals, each with its own set of six attributes; four are never seen. Every attribute divides both groups.
CODES = [1, 6, 8, 13, 18, 21, 27, 28, 35, 36, 42, 45, 48, 55, 57, 62, 3, 22, 41, 60]
ANIMALS = pd.DataFrame(
    [[code >> bit & 1 for bit in range(6)] for code in CODES],
    index=[f"animal {code}" for code in CODES],
    columns=["fur", "teeth", "wings", "swims", "eats fish", "sings"],
)
SEEN, UNSEEN = ANIMALS.index[:16].tolist(), ANIMALS.index[16:].tolist()


@pytest.fixture
def animals(rng):
    """Rows whose features are their attributes, mixed and noisy."""
    y = rng.choice(ANIMALS.index, size=300)
    X = (2 * ANIMALS.loc[y].to_numpy() - 1) @ rng.normal(size=(6, 10)) + 0.3 * rng.normal(size=(300, 10))
    seen = np.isin(y, SEEN)
    return X[seen], y[seen], X[~seen], y[~seen]


@pytest.mark.parametrize("rule", ["correlation", "hamming", "dap"])
@pytest.mark.parametrize("Estimator", [LinearM3L, KernelM3L])
def test_unseen_categories_are_recognised(animals, rule, Estimator):
    X, y, X_new, y_new = animals
    model = ZeroShotClassifier(Estimator(random_state=0), ANIMALS, rule=rule).fit(X, y)
    assert model.classes_.tolist() == UNSEEN
    assert sorted(model.seen_categories_) == sorted(SEEN)
    assert model.attribute_names_.tolist() == ANIMALS.columns.tolist()
    assert model.score(X_new, y_new) > 0.9  # a quarter would be chance
    assert np.mean(model.predict_attributes(X_new) == ANIMALS.loc[y_new].to_numpy()) > 0.9
    np.testing.assert_array_equal(model.classes_[model.decision_function(X_new).argmax(axis=1)], model.predict(X_new))


def test_rules_mean_what_they_say(animals):
    X, y, X_new, _ = animals
    signs = 2.0 * ANIMALS.loc[UNSEEN].to_numpy() - 1
    model = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS).fit(X, y)
    scores = model.attribute_scores(X_new)
    expected = [[np.corrcoef(z, s)[0, 1] for s in signs] for z in scores]
    np.testing.assert_allclose(model.decision_function(X_new), expected)
    agree = ((scores[:, None, :] > 0) == (signs > 0)).mean(axis=2)
    np.testing.assert_allclose(model.set_params(rule="hamming").decision_function(X_new), agree)

    chances = dict(zip(UNSEEN, [4.0, 1.0, 2.0, 1.0], strict=True))
    model = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, rule="dap", probabilities=chances).fit(X, y)
    p = 1 / (1 + np.exp(-model.attribute_scores(X_new) * model.calibration_[:, 0] - model.calibration_[:, 1]))
    base = model.attribute_frequencies_
    odds = np.where(signs[:, None, :] > 0, p / base, (1 - p) / (1 - base)).prod(axis=2).T * [0.5, 0.125, 0.25, 0.125]
    np.testing.assert_allclose(np.exp(model.decision_function(X_new)), odds)


def test_the_estimator_gets_the_prior_and_the_weights_of_the_candidates(animals):
    X, y, _, _ = animals
    Y = ANIMALS.loc[y].to_numpy()
    targets = ANIMALS.loc[UNSEEN].to_numpy()
    model = ZeroShotClassifier(LinearM3L(tol=1e-8, max_iter=100_000, random_state=0), ANIMALS).fit(X, y)
    by_hand = LinearM3L(
        prior=priors.from_signatures(targets),
        class_weight=weights.class_weights(Y, weights.signature_frequencies(targets)),
        tol=1e-8,
        max_iter=100_000,
        random_state=0,
    ).fit(X, Y)
    np.testing.assert_allclose(model.attribute_scores(X), by_hand.decision_function(X), atol=1e-4)
    plain = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, use_prior=False, use_frequencies=False).fit(X, y)
    assert plain.estimator_.get_params()["prior"] is None
    assert plain.estimator_.get_params()["class_weight"] is None


def test_signatures_in_every_form(animals):
    X, y, X_new, _ = animals
    expected = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS).fit(X, y).predict(X_new)
    mapping = dict(zip(ANIMALS.index, 2 * ANIMALS.to_numpy() - 1, strict=True))
    np.testing.assert_array_equal(
        ZeroShotClassifier(LinearM3L(random_state=0), mapping).fit(X, y).predict(X_new), expected
    )
    named = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS.to_dict(orient="index")).fit(X, y)
    assert named.attribute_names_.tolist() == named.estimator_.label_names_.tolist() == ANIMALS.columns.tolist()
    np.testing.assert_array_equal(named.predict(X_new), expected)
    numbers = ANIMALS.index.get_indexer(y)
    array = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS.to_numpy()).fit(X, numbers)
    np.testing.assert_array_equal(ANIMALS.index[array.predict(X_new)], expected)
    sparse = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, rule="dap").fit(sp.csr_matrix(X), y)
    assert sparse.predict(sp.csr_matrix(X_new)).shape == (len(X_new),)


def test_new_categories_need_no_training(animals):
    X, y, X_new, _ = animals
    model = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, rule="dap").fit(X, y)
    more = pd.concat([ANIMALS.loc[UNSEEN], pd.DataFrame([[0, 0, 0, 0, 0, 0]], index=["egg"], columns=ANIMALS.columns)])
    assert set(model.predict(X_new, signatures=more)) <= {*UNSEEN, "egg"}
    assert model.decision_function(X_new, signatures=more).shape == (len(X_new), 5)
    never = model.predict(X_new, signatures=more, probabilities={"egg": 1.0})
    assert set(never) == {"egg"}
    np.testing.assert_array_equal(
        model.decision_function(X_new, signatures=more.iloc[:, ::-1]), model.decision_function(X_new, signatures=more)
    )
    with pytest.raises(InputError, match="signatures lack the attribute 'fur', which the model was trained on"):
        model.predict(X_new, signatures=more.rename(columns={"fur": "hair"}))
    with pytest.raises(InputError, match="4 attributes, but the model was trained on 6"):
        model.predict(X_new, signatures=more.iloc[:, :4])
    with pytest.raises(InputError, match="without signatures"):
        model.predict(X_new, probabilities=[1.0])


@pytest.mark.parametrize("Estimator", [LinearM3L, KernelM3L])
def test_a_warm_restart_for_new_categories_gives_the_cold_answer(animals, Estimator):
    X, y, X_new, _ = animals
    estimator = Estimator(tol=1e-6, max_iter=100_000, random_state=0)
    model = ZeroShotClassifier(estimator, ANIMALS.loc[[*SEEN, *UNSEEN[:2]]], warm_start=True).fit(X, y)
    warm = model.set_params(signatures=ANIMALS).fit(X, y)
    cold = ZeroShotClassifier(estimator, ANIMALS).fit(X, y)
    assert warm.estimator_.certificate_.primal == pytest.approx(cold.estimator_.certificate_.primal, rel=1e-5)
    np.testing.assert_array_equal(warm.predict(X_new), cold.predict(X_new))


def test_works_in_pipeline_and_grid_search_on_unseen_categories(animals):
    X, y, X_new, y_new = animals
    pipeline = make_pipeline(StandardScaler(), ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS.loc[SEEN]))
    grid = {"zeroshotclassifier__estimator__C": [0.1, 1.0], "zeroshotclassifier__rule": ["correlation", "hamming"]}
    cv = CategoryKFold(4, random_state=0)
    search = GridSearchCV(pipeline, grid, cv=cv, scoring=per_class_scorer, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.5
    final = search.best_estimator_.set_params(zeroshotclassifier__signatures=ANIMALS).fit(X, y)
    assert final.score(X_new, y_new) > 0.9


def test_estimator_may_be_a_pipeline_or_a_stranger(animals):
    X, y, X_new, y_new = animals
    inner = make_pipeline(StandardScaler(), KernelM3L(random_state=0))
    assert ZeroShotClassifier(inner, ANIMALS).fit(X, y).score(X_new, y_new) > 0.9
    stranger = OneVsRestClassifier(LinearSVC(random_state=0))
    with pytest.raises(InputError, match="one parameter 'prior'; found none.*use_prior=False"):
        ZeroShotClassifier(stranger, ANIMALS).fit(X, y)
    model = ZeroShotClassifier(stranger, ANIMALS, use_prior=False, use_frequencies=False).fit(X, y)
    assert model.score(X_new, y_new) > 0.9


def test_harmonic_mean_over_seen_and_unseen(animals):
    X, y, _, _ = animals
    model = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS.loc[SEEN], candidates="all")
    cv = CategoryKFold(4, seen_share=0.3, random_state=0)
    scores = cross_val_score(model, X, y, cv=cv, scoring=harmonic_mean_scorer, error_score="raise")
    assert np.all((scores >= 0) & (scores <= 1))
    assert scores.mean() > 0.3


def test_all_seen_means_all_are_candidates(animals):
    X, y, _, _ = animals
    model = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS.loc[SEEN]).fit(X, y)
    assert model.classes_.tolist() == SEEN
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("rule", ["correlation", "hamming", "dap"])
def test_rows_may_have_attributes_instead_of_a_category(animals, rule, tmp_path):
    X, y, X_new, y_new = animals
    Y = ANIMALS.loc[y].reset_index(drop=True)
    model = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, rule=rule).fit(X, Y)
    by_category = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, candidates="all", rule=rule).fit(X, y)
    assert model.classes_.tolist() == ANIMALS.index.tolist()
    assert model.seen_categories_.tolist() == []
    np.testing.assert_array_equal(model.attribute_scores(X_new), by_category.attribute_scores(X_new))
    permuted = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, rule=rule).fit(X, Y.iloc[:, ::-1])
    np.testing.assert_array_equal(permuted.decision_function(X_new), model.decision_function(X_new))
    multimargin.save(model, tmp_path / "animals.mm")
    assert np.mean(multimargin.load(tmp_path / "animals.mm").predict(X_new) == y_new) > 0.8


@pytest.mark.parametrize("rule", ["correlation", "dap"])
def test_unknown_attributes_of_rows_are_left_out(animals, rule):
    X, y, X_new, y_new = animals
    Y = ANIMALS.loc[y].to_numpy(dtype=float, copy=True)
    Y[::3, 0] = np.nan
    Y[1::3, 4] = np.nan
    model = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, rule=rule).fit(X, Y)
    np.testing.assert_allclose(model.attribute_frequencies_, np.nanmean(Y, axis=0))
    assert np.mean(model.predict(X_new) == y_new) > 0.8


def test_bad_input_is_refused(animals):
    X, y, _, _ = animals
    wrong = {
        "rule must be one of": ZeroShotClassifier(signatures=ANIMALS, rule="nearest"),
        "candidates must be one of": ZeroShotClassifier(signatures=ANIMALS, candidates="some"),
        "signatures must be given": ZeroShotClassifier(),
        "'animal 1', which has no signature": ZeroShotClassifier(signatures=ANIMALS.drop(index="animal 1")),
        "twice": ZeroShotClassifier(signatures=pd.concat([ANIMALS, ANIMALS])),
        "probabilities must be 20": ZeroShotClassifier(signatures=ANIMALS, probabilities=[1, 2]),
        "0 for every category": ZeroShotClassifier(signatures=ANIMALS, probabilities={"animal 1": 1.0}),
        "NaN cells": ZeroShotClassifier(signatures=ANIMALS.astype(float).replace(0.0, np.nan)),
    }
    for words, model in wrong.items():
        with pytest.raises(InputError, match=words):
            model.fit(X, y)
    with pytest.raises(InputError, match="rows but y has"):
        ZeroShotClassifier(signatures=ANIMALS).fit(X, y[:-1])
    with pytest.raises(InputError, match="rows but y has"):
        ZeroShotClassifier(signatures=ANIMALS).fit(X, ANIMALS.loc[y[:-1]])
    with pytest.raises(InputError, match="columns of y have 4 attributes, but signatures have 6"):
        ZeroShotClassifier(signatures=ANIMALS).fit(X, ANIMALS.loc[y].iloc[:, :4])
    uneven = {"animal 1": {"fur": 1, "wings": 0}, "animal 6": {"fur": 0}}
    with pytest.raises(InputError, match="'animal 1' has 'wings', and 'animal 6' has not"):
        ZeroShotClassifier(signatures=uneven).fit(X, y)


def test_a_model_file_keeps_it(animals, tmp_path):
    X, y, X_new, _ = animals
    model = ZeroShotClassifier(KernelM3L(random_state=0), ANIMALS, rule="dap").fit(X, y)
    multimargin.save(model, tmp_path / "animals.mm")
    again = multimargin.load(tmp_path / "animals.mm")
    np.testing.assert_array_equal(again.predict(X_new), model.predict(X_new))
    np.testing.assert_array_equal(again.decision_function(X_new), model.decision_function(X_new))
