import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from multimargin import datasets, metrics, save
from multimargin.baselines import KNNLabels, LabelPowerset, MLkNN, RAkEL
from multimargin.errors import InputError, ModelFileError
from multimargin.estimators import predictor


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(60, 5))
    return X, (X @ rng.normal(size=(5, 4)) + 0.5 * rng.normal(size=(60, 4)) > 0).astype(int)


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
    model = RAkEL(9, C=1.0, random_state=0).fit(X, Y)
    assert len(model.labelsets_) == 1
    np.testing.assert_array_equal(model.predict(X), LabelPowerset(C=1.0, strategy="ovr").fit(X, Y).predict(X))
    code = Y @ [8, 4, 2, 1]
    powerset = LinearSVC(dual=False, tol=1e-8).fit(X, code).predict(X)
    assert np.mean(powerset == model.predict(X) @ [8, 4, 2, 1]) > 0.95  # the intercept of LIBLINEAR's is the same


@pytest.mark.parametrize("size", [2, 3])
def test_rakel_members_are_scikit_learns_one_vs_rest(problem, size):
    """Members share binary classifiers; each must still be the one of its own."""
    X, Y = problem
    ours = RAkEL(size, C=1.0, n_models=4, random_state=0).fit(X, Y)
    theirs = RAkEL(size, C=1.0, n_models=4, random_state=0, estimator=LinearSVC(dual=False, tol=1e-8)).fit(X, Y)
    np.testing.assert_array_equal(ours.labelsets_, theirs.labelsets_)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.99
    assert len(ours.coef_) <= len(ours.columns_)


def test_rakel_of_other_classifiers_is_not_stored(problem, tmp_path):
    with pytest.raises(ModelFileError, match="RAkEL.estimator is a LogisticRegression"):
        save(RAkEL(estimator=LogisticRegression()).fit(*problem), tmp_path / "model.mm")


def test_rakel_draws_distinct_labelsets_and_leaves_constant_labels_out(problem):
    X, Y = problem
    Y = np.column_stack([Y, np.zeros(60, int), np.ones(60, int)])
    with pytest.warns(UserWarning, match="labels 4, 5"):
        model = RAkEL(2, n_models=100, random_state=0).fit(X, Y)
    assert len(model.labelsets_) == 6
    prediction = model.predict(X)
    assert not prediction[:, 4].any()
    assert prediction[:, 5].all()


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("k", [1, 4, 5])
def test_knn_is_scikit_learns(problem, rng, k, weights, metric):
    X, Y = problem
    rows = np.vstack([rng.normal(size=(40, 5)), X[:3]])
    model = KNNLabels(k, weights=weights, metric=metric).fit(X, Y)
    theirs = KNeighborsClassifier(k, weights=weights, metric=metric, algorithm="brute").fit(X, Y)
    share = np.column_stack([p[:, 1] for p in theirs.predict_proba(rows)])
    np.testing.assert_allclose(model.decision_function(rows), share - 0.5, atol=1e-9)
    np.testing.assert_array_equal(model.predict(rows), theirs.predict(rows))
    np.testing.assert_allclose(model.decision_function(sp.csr_array(rows)), share - 0.5, atol=1e-7)


def test_equally_near_rows_count_in_their_order(monkeypatch):
    X = np.zeros((6, 2)) + 1e3
    Y = np.array([[1], [1], [0], [0], [0], [0]])
    for form in (np.asarray, sp.csr_array):
        assert KNNLabels(3).fit(form(X), Y).decision_function(form(X[:1]))[0, 0] == pytest.approx(2 / 3 - 0.5)
    assert KNNLabels(4).fit(X, Y).predict(X[:1])[0, 0] == 0  # half of the votes is not enough


def test_neighbours_are_found_by_blocks_of_rows(problem, rng, monkeypatch):
    X, Y = problem
    rows = rng.normal(size=(30, 5))
    whole = KNNLabels().fit(X, Y).decision_function(rows)
    monkeypatch.setattr(predictor, "BLOCK_BYTES", 8 * 60 * 7)
    np.testing.assert_array_equal(KNNLabels().fit(X, Y).decision_function(rows), whole)


def test_neighbours_far_from_zero_are_still_exact(rng):
    """Products would lose the differences to cancellation."""
    X = 1e6 + rng.normal(size=(50, 3)) * 1e-2
    Y = (rng.random((50, 2)) < 0.5).astype(int)
    model = KNNLabels(1).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), Y)


def test_too_few_rows_are_refused(problem):
    X, Y = problem
    with pytest.raises(InputError, match="n_neighbors=9 needs at least 9 training rows"):
        KNNLabels(9).fit(X[:8], Y[:8])


def test_knn_on_real_data_is_as_measured(data_home):
    for name, published in (("emotions", 20.4), ("yeast", 20.8)):
        data = datasets.load(name)
        scaler = StandardScaler().fit(data.X_train)
        model = KNNLabels().fit(scaler.transform(data.X_train), data.Y_train)
        loss = 100 * metrics.hamming_loss(data.Y_test, model.predict(scaler.transform(data.X_test)))
        assert loss == pytest.approx(published, abs=0.06)


def crammer_singer(X, code, n_classes, C):
    """The optimum, by a general solver."""
    psi = np.column_stack([X, np.ones(len(X))])
    W = cp.Variable((n_classes, psi.shape[1]))
    scores = psi @ W.T
    loss = 0
    for i, k in enumerate(code):
        wrong = 1.0 - np.eye(n_classes)[k]
        loss += cp.max(wrong + scores[i] - scores[i, k])
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + C * loss)).solve(solver=cp.CLARABEL)


def test_powerset_of_crammer_and_singer_is_the_optimum(rng):
    X = rng.normal(size=(30, 4))
    X[0] = 0.0
    Y = (X[:, :2] + 0.5 * rng.normal(size=(30, 2)) > 0).astype(int)
    code = Y @ [2, 1]
    model = LabelPowerset(C=0.5, tol=1e-5, max_iter=10_000).fit(X, Y)
    assert model.certificate_.converged
    optimum = crammer_singer(X, code, 4, 0.5)
    assert model.certificate_.dual <= optimum * (1 + 1e-7)
    assert optimum <= model.certificate_.primal * (1 + 1e-7)
    sparse = LabelPowerset(C=0.5, tol=1e-5, max_iter=10_000).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(sparse.decision_function(X), model.decision_function(X), atol=1e-2)
    without = LabelPowerset(fit_intercept=False, tol=1e-3).fit(X, Y)  # a row of zeros has no say
    assert without.certificate_.converged


@pytest.mark.parametrize("strategy", ["crammer_singer", "ovr"])
def test_powerset_predicts_the_best_set_it_has_seen(problem, strategy):
    X, Y = problem
    model = LabelPowerset(strategy=strategy, tol=1e-2).fit(X, Y)
    best = (X @ model.coef_.T + model.intercept_).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.sets_[best])
    np.testing.assert_array_equal(model.sets_, np.unique(Y, axis=0))
    assert model.counts_.sum() == 60


def test_powerset_one_vs_rest_is_scikit_learns(problem):
    X, Y = problem
    model = LabelPowerset(C=1.0, strategy="ovr", tol=1e-9).fit(X, Y)
    _, code = np.unique(Y, axis=0, return_inverse=True)
    theirs = OneVsRestClassifier(LinearSVC(dual=False, tol=1e-10)).fit(X, code)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, theirs.decision_function(X), atol=1e-3)


def test_powerset_warns_of_sets_with_a_single_row(rng):
    X, Y = rng.normal(size=(20, 3)), np.unpackbits(np.arange(20, dtype=np.uint8)[:, None], axis=1)[:, 3:].astype(int)
    with pytest.warns(UserWarning, match="20 of 20 training rows differ"):
        LabelPowerset(strategy="ovr").fit(X, Y)
