import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from every_prior import PRIORS, as_matrix, make_priors
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import (
    CliqueClassifier,
    CPath,
    KernelM3L,
    LabelCalibrator,
    LinearM3L,
    OutputKernelClassifier,
    SubmodularClassifier,
    ThresholdTuner,
    priors,
)
from multimargin.errors import InputError
from multimargin.inspection import explain, top_features
from multimargin.inspection.explain import explain_rows
from multimargin.priors import _forms

NAMES = ["sea", "sun", "sand", "snow", "ski"]
M3L = [LinearM3L, KernelM3L]


def some_rows(rng, n=60, n_features=4, n_labels=5):
    X = rng.normal(size=(n, n_features))
    common = rng.normal(size=(n, 1))
    Y = X @ rng.normal(size=(n_features, n_labels)) + 2 * common + rng.normal(size=(n, n_labels)) > 0.3
    return X, pd.DataFrame(Y.astype(int), columns=NAMES[:n_labels])


def both_sums(why):
    by_label = why.own + why.borrowed.sum() + why.pairs.sum()
    by_input = why.baseline + why.features.sum() + why.support.sum() + why.pairs.sum()
    return by_label, by_input


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("family", M3L)
def test_the_parts_sum_to_the_score(family, kind, scale, rng):
    X, Y = some_rows(rng)
    X = X * scale
    prior = make_priors(rng)[kind]
    model = family(C=1 / scale**2 if family is LinearM3L else 1.0, prior=prior, tol=5e-4).fit(X, Y)
    R = as_matrix(prior, 5)
    for i in range(3):
        scores = model.decision_function(X[[i]])[0]
        evidence = np.linalg.pinv(R, rcond=1e-12, hermitian=True) @ scores
        for k, name in enumerate(NAMES):
            why = explain(model, X[i], name)
            assert why.score == why.decision == scores[k]
            np.testing.assert_allclose(both_sums(why), scores[k], rtol=1e-9, atol=1e-9)
            assert abs(why.remainder) <= 1e-9 * (1 + abs(why.score))
            assert why.own == pytest.approx(R[k, k] * evidence[k], rel=1e-6, abs=1e-9)
            borrowed = dict(why.borrowed.items())
            assert name not in borrowed
            for j in {*range(5)} - {k}:
                expected = pytest.approx(R[k, j] * evidence[j], rel=1e-6, abs=1e-9)
                assert borrowed.get(NAMES[j], 0.0) == expected


@pytest.mark.parametrize("family", M3L)
def test_without_a_prior_nothing_is_borrowed(family, rng):
    X, Y = some_rows(rng)
    for prior in (None, np.eye(5), 2 * np.eye(5)):
        why = explain(family(prior=prior).fit(X, Y), X[0], "sun")
        assert len(why.borrowed) == 0
        assert why.own == pytest.approx(why.score, rel=1e-12)


def test_evidence_is_that_of_the_dual_variables(rng):
    X, Y = some_rows(rng)
    R = make_priors(rng)["dense"]
    model = KernelM3L(prior=R, gamma=0.5, tol=1e-8, warm_start=True).fit(X, Y)
    beta = model._last.state["beta"]
    for i in range(5):
        values = np.exp(-0.5 * np.square(X - X[i]).sum(axis=1)) + 1.0
        evidence = values @ beta
        for k, name in enumerate(NAMES):
            why = explain(model, X[i], name)
            parts = [dict(why.borrowed.items()).get(other, 0.0) if other != name else why.own for other in NAMES]
            np.testing.assert_allclose(parts, R[k] * evidence, rtol=1e-3, atol=1e-3)


def test_many_labels_with_a_factor_are_solved_alike(rng, monkeypatch):
    factor, diagonal, Z = rng.normal(size=(30, 3)), 0.1 + rng.random(30), rng.normal(size=(30, 4))
    for low_rank in (priors.LowRankPrior(factor, diagonal), priors.LowRankPrior(factor, diagonal * (diagonal > 0.5))):
        checked = priors.check_prior(low_rank, range(30))
        inside = low_rank.toarray() @ Z
        whole = _forms.PriorForms(checked).solve(inside)
        with monkeypatch.context() as patch:
            patch.setattr(_forms, "DECOMPOSED_LABELS", 2)
            np.testing.assert_allclose(_forms.PriorForms(checked).solve(inside), whole, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(whole, np.linalg.pinv(low_rank.toarray(), rcond=1e-12) @ inside, atol=1e-8)


@pytest.mark.parametrize("family", M3L)
def test_single_precision(family, rng):
    X, Y = some_rows(rng)
    X = X.astype(np.float32)
    model = family(prior=make_priors(rng)["singular"], tol=1e-2).fit(X, Y)
    for name in NAMES:
        why = explain(model, X[0], name)
        np.testing.assert_allclose(both_sums(why), why.score, rtol=1e-4, atol=1e-4)
        assert abs(why.remainder) <= 1e-4 * (1 + abs(why.score))


@pytest.mark.parametrize("family", [LinearM3L, KernelM3L, SubmodularClassifier, CliqueClassifier])
def test_every_form_of_a_row_says_the_same(family, rng):
    X, Y = some_rows(rng)
    X[:, 1] *= rng.random(60) > 0.5
    frame = pd.DataFrame(X, columns=list("abcd"))
    plain, named = family(random_state=0).fit(X, Y), family(random_state=0).fit(frame, Y)
    row = X[7]
    first = explain(plain, row)
    assert first.decision == plain.decision_function(row[None]).max()
    rows = [row.tolist(), X[[7]], sp.csr_array(X)[[7]], sp.csr_matrix(X)[7]]
    same = [explain(plain, form) for form in rows]
    same += [explain(named, frame.iloc[[7]]), explain(named, frame.iloc[7])]
    for why in same:
        assert why.label == first.label
        assert why.score == pytest.approx(first.score, rel=1e-9)
        np.testing.assert_allclose(why.features.values, first.features.values, rtol=1e-9)
        np.testing.assert_allclose(why.support.values, first.support.values, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(both_sums(why), why.score, rtol=1e-9, atol=1e-9)
    assert set(same[-1].features.names) <= set("abcd")


@pytest.mark.parametrize("family", [LinearM3L, KernelM3L, SubmodularClassifier, CliqueClassifier])
def test_several_rows_are_explained_as_one_by_one(family, rng):
    X, Y = some_rows(rng)
    options = {"prior": np.full((5, 5), 0.4) + 0.6 * np.eye(5)} if family in M3L else {}
    model = family(random_state=0, **options).fit(X, Y)
    labels = ["sun", None, "ski"]
    for k, why in enumerate(explain_rows(model, X[3:6], labels)):
        alone = explain(model, X[3 + k], labels[k])
        assert (why.label, why.borrowed.names.tolist()) == (alone.label, alone.borrowed.names.tolist())
        np.testing.assert_allclose(both_sums(why), both_sums(alone), rtol=1e-9)
        np.testing.assert_allclose(why.borrowed.values, alone.borrowed.values, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(why.pairs.values, alone.pairs.values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", M3L)
def test_permuted_labels_permute_the_loans(family, rng):
    X, Y = some_rows(rng)
    R = pd.DataFrame(make_priors(rng)["dense"], index=NAMES, columns=NAMES)
    order = list(rng.permutation(NAMES))
    plain, permuted = family(prior=R, tol=1e-9).fit(X, Y), family(prior=R, tol=1e-9).fit(X, Y[order])
    for name in NAMES:
        one, other = explain(plain, X[3], name), explain(permuted, X[3], name)
        assert other.own == pytest.approx(one.own, rel=1e-2, abs=1e-2)
        assert dict(other.borrowed.items()) == pytest.approx(dict(one.borrowed.items()), rel=1e-2, abs=1e-2)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "laplacian", "precomputed"])
def test_training_rows_sum_to_the_score(kernel, rng):
    X, Y = some_rows(rng)
    data = X @ X.T if kernel == "precomputed" else X
    model = KernelM3L(kernel=kernel).fit(data, Y)
    why = explain(model, data[4], "sand")
    np.testing.assert_allclose(both_sums(why), model.decision_function(data[[4]])[0, 2], rtol=1e-9)
    assert set(why.support.names) <= set(model.support_)
    nearest = why.support.nearest(3)
    assert sorted(nearest.kernel_values, reverse=True) == nearest.kernel_values.tolist()
    assert nearest.kernel_values[0] == why.support.kernel_values.max()
    if kernel == "rbf" and 4 in why.support.names:
        assert nearest.names[0] == 4
    if kernel == "linear":
        np.testing.assert_allclose(why.support.kernel_values, X[why.support.names] @ X[4], rtol=1e-9)


def test_attraction_by_the_score_of_label_sets(rng):
    X, Y = some_rows(rng, 80)
    model = SubmodularClassifier(C=1.0, pairs=1.0, pair_scale=5.0, offset="train", random_state=0).fit(X, Y)
    assert np.count_nonzero(model.pair_coef_)

    def score(x, y):
        unary = sum(y[k] * (model.coef_[k] @ x + model.intercept_[k] + model.offset_) for k in range(5))
        return unary + sum(a * y[i] * y[j] for (i, j), a in zip(model.pairs_, model.pair_coef_, strict=True))

    check_against_sets(model, X, score)


@pytest.mark.parametrize("graph", [[("sea", "sun", "sand"), ("sand", "ski")], "full", None])
def test_cliques_by_the_score_of_label_sets(graph, rng):
    X, Y = some_rows(rng, 80)
    model = CliqueClassifier(C=0.3, graph=graph, random_state=0, tol=1e-2).fit(X, Y)

    def score(x, y):
        signs = 2.0 * np.asarray(y) - 1
        parts = zip(model.subsets_, model.subset_coef_, model.subset_intercept_, strict=True)
        return sum((w @ x + b) * np.prod(signs[list(subset)]) for subset, w, b in parts)

    check_against_sets(model, X, score)
    why = explain(model, X[0], "sand")
    subsets = {frozenset(names) for names in why.pairs.names.tolist()}
    expected = {frozenset(NAMES[k] for k in s if k != 2) for s in model.subsets_ if 2 in s and len(s) > 1}
    assert subsets == expected


def check_against_sets(model, X, score):
    predicted = model.predict(X).to_numpy()
    for i in range(6):
        for k, name in enumerate(NAMES):
            why = explain(model, X[i], name)
            with_it, without = predicted[i].copy(), predicted[i].copy()
            with_it[k], without[k] = 1, 0
            assert why.score == pytest.approx(score(X[i], with_it) - score(X[i], without), rel=1e-9, abs=1e-9)
            np.testing.assert_allclose(both_sums(why), why.score, rtol=1e-9, atol=1e-12)
            assert why.decision == pytest.approx(model.decision_function(X[[i]])[0, k])
            assert abs(why.score) >= abs(why.decision) - 1e-9
            assert why.score * why.decision >= -1e-12


@pytest.mark.parametrize("prior", [None, np.eye(5) + 0.5 * np.diag([1, 0, 0, 0], 1) + 0.5 * np.diag([1, 0, 0, 0], -1)])
@pytest.mark.parametrize("family", M3L)
def test_constant_labels_have_a_baseline_only(family, prior, rng):
    X, Y = some_rows(rng)
    Y["ski"] = 1
    with pytest.warns(UserWarning, match="Constant"):
        model = family(prior=prior).fit(X, Y)
    why = explain(model, X[0], "ski")
    assert why.own == why.baseline == why.score == 1.0
    assert len(why.borrowed) == 0
    for name in NAMES:
        np.testing.assert_allclose(both_sums(explain(model, X[0], name)), explain(model, X[0], name).score, rtol=1e-9)


@pytest.mark.parametrize("family", [LinearM3L, SubmodularClassifier, CliqueClassifier])
def test_a_background_moves_the_baseline(family, rng):
    X, Y = some_rows(rng)
    model = family(random_state=0).fit(X + 3.0, Y)
    for rows in (X + 3.0, sp.csr_array(X + 3.0)):
        plain, moved = explain(model, X[5] + 3.0, "sun"), explain(model, X[5] + 3.0, "sun", background=rows)
        assert moved.score == pytest.approx(plain.score)
        np.testing.assert_allclose(both_sums(moved), moved.score, rtol=1e-9)
        expected = model.coef_[1] * (X[5] - X.mean(axis=0))
        np.testing.assert_allclose(moved.features.values, expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(InputError, match="background is for linear models"):
        explain(KernelM3L().fit(X, Y), X[0], background=X)


def test_a_pipeline_is_walked_to_its_last_step(rng):
    X, Y = some_rows(rng)
    frame = pd.DataFrame(100 * X, columns=["a", "b", "c", "d"])
    model = make_pipeline(StandardScaler(), LinearM3L()).fit(frame, Y)
    why = explain(model, frame.iloc[[3]], "snow")
    assert why.score == model.decision_function(frame.iloc[[3]])[0, 3]
    assert list(why.features.names) == ["a", "b", "c", "d"]
    np.testing.assert_allclose(both_sums(why), why.score, rtol=1e-9)
    assert set(top_features(model, "snow", X=frame).names) == set("abcd")


def test_words_of_a_text():
    texts = ["sea and sun", "snow and ski", "sun and sand", "ski in the snow", "sea", "snow", "sand by the sea"]
    Y = [{"beach"}, {"mountain"}, {"beach"}, {"mountain"}, {"beach"}, {"mountain"}, {"beach"}]
    model = make_pipeline(TfidfVectorizer(), LinearM3L(C=10)).fit(texts, Y)
    for text in ("sun in the sand", ["sun in the sand"], np.array(["sun in the sand"])):
        why = explain(model, text, "beach")
        assert set(why.features.names) == {"sun", "in", "the", "sand"}
        assert why.score == pytest.approx(model.decision_function(["sun in the sand"])[0, 0])
        np.testing.assert_allclose(both_sums(why), why.score, rtol=1e-9)
    assert top_features(model, "mountain", 1).names[0] in {"snow", "ski", "sea"}


def test_top_features_by_weight_and_by_spread(rng):
    X, Y = some_rows(rng, n_features=6)
    X *= [1, 10, 0.1, 1, 5, 1]
    model = LinearM3L().fit(X, Y)
    plain = top_features(model, "sun", k=4)
    assert plain.measure == "|weight|"
    expected = sorted(range(6), key=lambda j: -abs(model.coef_[1, j]))[:4]
    assert plain.names.tolist() == expected
    np.testing.assert_array_equal(plain.weights, model.coef_[1, expected])
    for rows in (X, sp.csr_matrix(X), sp.csr_array(X), X.astype(np.float32)):
        spread = top_features(model, "sun", k=100, X=rows)
        size = np.abs(model.coef_[1]) * X.std(axis=0)
        assert spread.names.tolist() == np.argsort(-size).tolist()
        np.testing.assert_allclose(spread.importance, np.sort(size)[::-1], rtol=1e-4)
    assert spread.frame().shape == (6, 3)
    assert "standard deviation" in str(spread)


def test_tables(rng):
    X, Y = some_rows(rng)
    why = explain(LinearM3L(prior=make_priors(rng)["dense"]).fit(X, Y), X[0], "sea")
    frame = why.frame()
    parts = frame[frame["part"].isin(["own", "borrowed", "pairs", "remainder"])]
    assert parts["value"].sum() == pytest.approx(why.score)
    assert "borrowed from" in str(why)
    assert "own evidence" in str(why)
    assert "together with" in str(explain(CliqueClassifier(graph="full").fit(X, Y), X[0]))
    assert "training row" in str(explain(KernelM3L().fit(X, Y), X[0]))


def test_one_label_in_a_column(rng):
    X, Y = some_rows(rng)
    model = LinearM3L().fit(X, np.where(Y["sun"] == 1, "yes", "no"))
    why = explain(model, X[0])
    assert why.score == model.decision_function(X[[0]])[0]
    np.testing.assert_allclose(both_sums(why), why.score, rtol=1e-9)


def test_what_cannot_be_explained(rng):
    X, Y = some_rows(rng)
    model = LinearM3L().fit(X, Y)
    with pytest.raises(InputError, match="no label 'rain'"):
        explain(model, X[0], "rain")
    with pytest.raises(InputError, match="no label 'rain'"):
        top_features(model, "rain")
    with pytest.raises(InputError, match=r"one row; got shape \(60, 4\)"):
        explain(model, X)
    for k in (0, 1.5, True, "all"):
        with pytest.raises(InputError, match="k must be a number of features"):
            top_features(model, "sun", k)
    with pytest.raises(InputError, match="does not have"):
        top_features(KernelM3L().fit(X, Y), "sun")
    with pytest.raises(InputError, match="got OutputKernelClassifier"):
        explain(OutputKernelClassifier(), X[0])
    with pytest.raises(NotFittedError):
        explain(LinearM3L(), X[0])
    with pytest.raises(InputError, match="k must be"):
        explain(model, X[0]).features.top(-1)


@pytest.mark.parametrize("wrap", [ThresholdTuner, LabelCalibrator, lambda model: CPath(model, Cs=[0.1, 1.0])])
def test_a_wrapper_is_explained_by_what_it_wraps(rng, wrap):
    X = rng.normal(size=(80, 4))
    Y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(80, 3)) > 0).astype(int)
    model = wrap(make_pipeline(StandardScaler(), LinearM3L())).fit(X, Y)
    why = explain(model, X[0], 1)
    inside = explain(model.estimator_, X[0], 1)
    assert why.score == inside.score == pytest.approx(model.estimator_.decision_function(X[:1])[0, 1])
    if hasattr(model, "thresholds_"):
        assert why.threshold == model.thresholds_[1]
        assert (why.score > why.threshold) == model.predict(X[:1])[0, 1]
        assert "threshold" in str(why)
    else:
        assert why.threshold is None
    np.testing.assert_array_equal(top_features(model, 1).weights, top_features(model.estimator_, 1).weights)
