"""What every baseline promises. A new baseline is one line in multimargin.baselines.REGISTRY."""

import inspect

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from multimargin import certify, load, save
from multimargin.baselines import REGISTRY
from multimargin.baselines._base import Baseline
from multimargin.errors import InputError
from multimargin.estimators.contract import MultilabelClassifier

METHODS = list(REGISTRY.values())
MASKS_UNKNOWN = {"BinaryRelevance", "CategoryRanking", "CuttingPlaneM3L", "RankSVM"}
SEES_THE_ORDER_OF_LABELS = {"ClassifierChain", "LEAD", "RAkEL", "RandomForestLabels"}
NAMES = ["a", "b", "c", "d"]


def make(Method, **parameters):
    """Make a baseline with a seed and a small gap, where it has them, and what is quick."""
    known = inspect.signature(Method).parameters
    wanted = {"random_state": 0, "tol": 1e-5, "max_iter": 100_000, "strategy": "ovr", "n_estimators": 10, **parameters}
    return Method(**{name: value for name, value in wanted.items() if name in known})


@pytest.fixture(params=METHODS, ids=lambda M: M.__name__)
def Method(request):
    return request.param


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(60, 5))
    Y = (X @ rng.normal(size=(5, 4)) + 0.5 * rng.normal(size=(60, 4)) > 0).astype(int)
    Y[:3] = 0  # rows without labels
    Y[3] = 1
    return X, Y


def test_predictions_take_the_form_of_y(Method, problem):
    X, Y = problem
    reference = make(Method).fit(X, Y).predict(X)
    assert np.mean(reference == Y) > 0.8
    frame = make(Method).fit(X, pd.DataFrame(Y, columns=NAMES)).predict(X)
    np.testing.assert_array_equal(frame[NAMES].to_numpy(), reference)
    sparse = make(Method).fit(X, sp.csc_matrix(Y)).predict(X)
    assert type(sparse) is sp.csc_matrix
    np.testing.assert_array_equal(sparse.toarray(), reference)
    sets = [{NAMES[j] for j in np.flatnonzero(row)} for row in Y]
    model = make(Method).fit(X, sets)
    assert model.predict_sets(X) == [tuple(NAMES[j] for j in np.flatnonzero(row)) for row in reference]
    np.testing.assert_array_equal(model.decision_function(X) > 0, reference == 1)


def test_one_label(Method, problem):
    X, Y = problem
    model = make(Method).fit(X, np.where(Y[:, 0], "yes", "no"))
    assert set(model.predict(X)) <= {"yes", "no"}
    assert model.decision_function(X).shape == (60,)
    column = make(Method).fit(X, Y[:, :1])
    np.testing.assert_array_equal(model.predict(X) == "yes", column.predict(X)[:, 0] == 1)


def test_dense_sparse_and_single_precision_agree(Method, problem):
    X, Y = problem
    X = np.round(X, 3)
    X[np.abs(X) < 0.3] = 0.0
    scores = make(Method).fit(X, Y).decision_function(X)
    sparse = make(Method).fit(sp.csr_array(X), Y).decision_function(sp.csr_matrix(X))
    np.testing.assert_allclose(sparse, scores, atol=0.01 * np.abs(scores).max())
    single = make(Method).fit(X.astype(np.float32), Y).decision_function(X.astype(np.float32))
    assert np.mean(np.abs(single - scores) < 0.01 * np.abs(scores).max()) > 0.97  # trees and neighbours may jump


def test_unknown_labels_are_masked_or_refused(Method, problem, rng):
    X, Y = problem
    unknown = np.vstack([Y.astype(float), np.full((5, 4), np.nan)])
    rows = np.vstack([X, rng.normal(size=(5, 5))])
    if Method.__name__ in MASKS_UNKNOWN:
        scores = make(Method).fit(rows, unknown).decision_function(X)
        np.testing.assert_allclose(scores, make(Method).fit(X, Y).decision_function(X), atol=2e-2)
    else:
        with pytest.raises(InputError, match="unknown"):
            make(Method).fit(rows, unknown)


def test_constant_labels_leave_the_problem(Method, problem):
    X, Y = problem
    with_constants = np.column_stack([np.ones(60, int), Y[:, :2], np.zeros(60, int), Y[:, 2:]])
    with pytest.warns(UserWarning, match="labels 0, 3"):
        model = make(Method).fit(X, with_constants)
    assert model.constant_labels_.tolist() == [0, 3]
    scores = model.decision_function(3.0 * X)
    assert np.all(scores[:, 0] > 0)
    assert np.all(scores[:, 3] < 0)
    without = make(Method).fit(X, Y).decision_function(3.0 * X)
    np.testing.assert_allclose(scores[:, [1, 2, 4, 5]], without, atol=1e-3 * np.abs(without).max())


def test_only_constant_labels(Method, problem, tmp_path):
    X, _ = problem
    with pytest.warns(UserWarning, match="labels 0, 1"):
        model = make(Method).fit(X, np.tile([1, 0], (60, 1)))
    np.testing.assert_array_equal(model.predict(X[:7]), np.tile([1, 0], (7, 1)))
    if Method._storable:
        save(model, tmp_path / "model.mm")
        np.testing.assert_array_equal(load(tmp_path / "model.mm").predict(X), model.predict(X))


def test_more_features_than_rows(Method, rng):
    X = rng.normal(size=(20, 50))
    Y = (X[:, :3] > 0).astype(int)
    model = make(Method).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()


def test_permuted_labels_permute_the_answer(Method, problem):
    X, Y = problem
    if Method.__name__ in SEES_THE_ORDER_OF_LABELS:
        pytest.skip("the order of the labels, or chance, is part of the method")
    order = [2, 0, 3, 1]
    scores = make(Method).fit(X, Y).decision_function(X)
    permuted = make(Method).fit(X, Y[:, order]).decision_function(X)
    np.testing.assert_allclose(permuted, scores[:, order], atol=1e-2 * np.abs(scores).max())


def test_models_are_kept_in_files_or_not_storable(Method, problem, tmp_path):
    X, Y = problem
    model = make(Method).fit(pd.DataFrame(X, columns=list("vwxyz")), pd.DataFrame(Y, columns=NAMES))
    if not Method._storable:
        with pytest.raises(ValueError, match="stores estimators"):
            save(model, tmp_path / "model.mm")
        return
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    rows = pd.DataFrame(X[::-1], columns=list("vwxyz"))
    np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))
    pd.testing.assert_frame_equal(again.predict(rows), model.predict(rows))
    public = {name for name in vars(model) if not name.startswith("_")}
    assert public == {name for name in vars(again) if not name.startswith("_")}


def test_the_same_seed_gives_the_same_model(Method, problem):
    X, Y = problem
    scores = [make(Method).fit(X, Y).decision_function(X) for _ in range(2)]
    np.testing.assert_array_equal(*scores)


def test_certificates_hold_and_are_found_again(Method, problem):
    if not issubclass(Method, MultilabelClassifier):
        pytest.skip("has no certificate")
    X, Y = problem
    model = make(Method, tol=1e-5).fit(X, Y)
    assert model.certificate_.converged
    assert model.certificate_.dual <= model.certificate_.primal * (1 + 1e-12)
    again = certify(model, X, Y)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    if again.proves == "gap":
        assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-9)


def test_rows_twice_at_half_the_weight_are_the_same_rows(Method, problem):
    if not issubclass(Method, MultilabelClassifier):
        pytest.skip("takes no weights")
    X, Y = problem
    once = make(Method).fit(X, Y)
    twice = make(Method).fit(np.vstack([X, X]), np.vstack([Y, Y]), sample_weight=np.full(120, 0.5))
    assert twice.certificate_.primal == pytest.approx(once.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(twice.decision_function(X), once.decision_function(X), atol=2e-2)


def test_only_a_fit_that_succeeds_changes_the_model(Method, problem, monkeypatch):
    X, Y = problem
    model = make(Method).fit(pd.DataFrame(X, columns=list("abcde")), Y)
    before = dict(vars(model))
    scores = model._scores(X)
    with pytest.raises(ValueError, match="rows"):
        model.fit(X[:, :3], Y[:-1])

    def fails(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "_fit" if issubclass(Method, Baseline) else "_solve", fails)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:, :3], Y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
    np.testing.assert_array_equal(model._scores(X), scores)
    model.fit(X[:, :3], Y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3


def test_score_is_the_share_of_rows_that_are_all_right(Method, problem):
    X, Y = problem
    model = make(Method).fit(X, Y)
    assert model.score(X, Y) == np.mean((model.predict(X) == Y).all(axis=1))
    labels, scores = model.predict_with_scores(X)
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_array_equal(scores, model.decision_function(X))


def test_fit_leaves_parameters_and_data_alone(Method, problem):
    X, Y = problem
    X0, Y0 = X.copy(), Y.copy()
    model = make(Method)
    before = clone(model).get_params()
    model.fit(X, Y)
    assert model.get_params() == before
    np.testing.assert_array_equal(X, X0)
    np.testing.assert_array_equal(Y, Y0)


def test_every_parameter_and_attribute_is_documented(Method, problem):
    model = make(Method).fit(*problem)
    public = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    parameters, attributes = Method.__doc__.split("\nAttributes\n")
    for name in model.get_params():
        assert name in parameters, name
    for name in public:
        assert attributes.count(f"\n{name} : ") == 1, name
