"""The inner problem of training, in public: exact, by the published approximation, and what proves each."""

from contextlib import nullcontext
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from multimargin import CliqueClassifier, LinearM3L, SubmodularClassifier, certify
from multimargin.errors import InputError

ROUNDING = 1e-8
LOSSES = [
    {"loss": "f1"},
    {"loss": "hamming"},
    {"loss": "hamming", "class_weight": {0: 0.5, 1: 3.0}},
]


def make_problem(rng, n=40, n_labels=5):
    """Attracting labels; some rows have none, one has all."""
    X = rng.normal(size=(n, 3))
    Y = (X @ rng.normal(size=(3, n_labels)) + rng.normal(size=(n, 1)) + rng.normal(size=(n, n_labels)) > 0.4) * 1.0
    Y[:4], Y[4] = 0.0, 1.0
    return X, Y


def values_of_all_sets(model, X, Y):
    """Score plus loss of every label set of every row; -inf where an unknown or constant label is on."""
    sets = np.array(list(product((0.0, 1.0), repeat=Y.shape[1])))
    a, b = model.pairs_.T
    U = X @ model.coef_.T + model.intercept_
    out = np.empty((len(X), len(sets)))
    weight = (model.class_weight or {0: 1.0, 1: 1.0}) if model.loss == "hamming" else None
    for n, (u, truth) in enumerate(zip(U, Y, strict=True)):
        off = np.isnan(truth) | np.isin(model.label_names_, model.constant_labels_)
        on = np.where(off, 0.0, truth)
        score = sets @ u + (sets[:, a] * sets[:, b]) @ model.pair_coef_
        if weight is None:
            total = sets.sum(axis=1) + on.sum()
            loss = np.where(total > 0, 1 - 2 * (sets @ on) / np.maximum(total, 1), 0.0)
        else:
            loss = weight[1] * (1 - sets) @ on + weight[0] * sets @ np.where(off, 0.0, 1 - on)
        out[n] = np.where((sets[:, off] > 0).any(axis=1), -np.inf, score + loss)
    return sets.astype(bool), out


def at(values, sets, labels):
    """Values of these sets, one of every row."""
    place = (labels @ (1 << np.arange(sets.shape[1]))[::-1]).astype(int)
    np.testing.assert_array_equal(sets[place], labels)
    return values[np.arange(len(values)), place]


@pytest.mark.parametrize("parameters", LOSSES)
@pytest.mark.parametrize("pairs", [0, 1.0])
@pytest.mark.parametrize("missing", [False, True])
def test_equals_enumeration(rng, parameters, pairs, missing):
    X, Y = make_problem(rng)
    if missing:
        Y[rng.random(Y.shape) < 0.2] = np.nan
    model = SubmodularClassifier(pairs=pairs, pair_scale=10.0, tol=0.1, **parameters).fit(X, Y)
    assert bool(pairs) == bool((model.pair_coef_ > 0).any())
    found = model.most_violating(X, Y)
    sets, values = values_of_all_sets(model, X, Y)
    best = values.max(axis=1)
    np.testing.assert_allclose(found.value, best, atol=ROUNDING)
    np.testing.assert_allclose(at(values, sets, found.labels), best, atol=ROUNDING)
    np.testing.assert_allclose(at(values, sets, np.nan_to_num(Y).astype(bool)), found.truth_value, atol=ROUNDING)
    assert found.exact.all()
    assert np.all(found.upper >= best - 1e-12)
    assert np.all(found.slack >= -ROUNDING)
    if parameters["loss"] == "hamming":
        assert found.paper_labels is found.paper_value is found.paper_certified is found.paper_proved is None
        return
    np.testing.assert_allclose(at(values, sets, found.paper_labels), found.paper_value, atol=ROUNDING)
    assert np.all(found.paper_value <= best + ROUNDING)
    for proved in (found.paper_certified, found.paper_proved):
        np.testing.assert_allclose(found.paper_value[proved], best[proved], atol=ROUNDING)


def test_of_a_hard_problem_the_paper_misses_sets_and_its_certificate_says_less_than_ours():
    """Weights drawn at random: the published algorithm is often wrong, and the tighter test proves more of it."""
    rng = np.random.default_rng(0)
    X, Y = make_problem(rng, n=200, n_labels=7)
    model = SubmodularClassifier(pairs=1.0, pair_scale=10.0, tol=0.5).fit(X, Y)
    model.coef_[:] = 0.4 * rng.normal(size=model.coef_.shape)
    model.pair_coef_[:] = 0.1 * rng.random(len(model.pair_coef_))
    found = model.most_violating(X, Y)
    best = values_of_all_sets(model, X, Y)[1].max(axis=1)
    np.testing.assert_allclose(found.value, best, atol=ROUNDING)
    wrong = found.paper_value < best - ROUNDING
    assert wrong.any()
    assert not (wrong & (found.paper_certified | found.paper_proved)).any()
    assert np.all(found.paper_proved[found.paper_certified])
    assert 0 < found.paper_certified.sum() < found.paper_proved.sum() < (~wrong).sum()


def test_a_search_cut_short_still_bounds_the_maximum():
    """The adversary of the branch and bound: near ties between dense sets of absent labels."""
    rng = np.random.default_rng(3)
    n_labels = 14
    X, Y = rng.normal(size=(60, 3)), (rng.random((60, n_labels)) < 0.3).astype(float)
    model = SubmodularClassifier(pairs=1.0, tol=0.5, node_limit=1).fit(X, Y)
    model.coef_[:] = 0.0
    model.intercept_[:] = -0.12
    model.pair_coef_[:] = 0.01 * (rng.random(len(model.pair_coef_)) < 0.4) * (1 + 0.1 * rng.random())
    found = model.most_violating(X, Y)
    sets, values = values_of_all_sets(model, X, Y)
    best = values.max(axis=1)
    assert not found.exact.all()
    assert np.all(found.upper >= best - 1e-12)
    np.testing.assert_allclose(at(values, sets, found.labels), found.value, atol=ROUNDING)
    np.testing.assert_allclose(found.value[found.exact], best[found.exact], atol=ROUNDING)


@pytest.mark.parametrize("oracle", ["exact", "paper"])
def test_sums_up_to_the_certificate(rng, oracle):
    X, Y = make_problem(rng)
    with pytest.warns(ConvergenceWarning) if oracle == "paper" else nullcontext():
        model = SubmodularClassifier(C=0.3, pairs=1.0, pair_scale=4.0, oracle=oracle, tol=1e-3).fit(X, Y)
    found = model.most_violating(X, Y)
    a, b = model.pairs_.T
    theta = model.pair_coef_ / (4.0 * (Y[:, a] * Y[:, b]).mean(axis=0))
    norm = sum(float(np.sum(part**2)) for part in (model.coef_, model.intercept_, theta))
    primal = 0.5 * norm + 0.3 * (found.upper - found.truth_value).sum()
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-8)
    proved = found.exact if oracle == "exact" else found.paper_proved
    assert model.certificate_.oracle_exact == pytest.approx(proved.mean(), abs=1e-12)


def test_forms_of_rows_and_labels(rng):
    X, Y = make_problem(rng)
    names = list("abcde")
    frame = pd.DataFrame(Y.astype(int), columns=names)
    model = SubmodularClassifier(pairs=1.0, random_state=0).fit(X, frame)
    found = model.most_violating(X, frame)
    table = found.frame()
    assert table["labels"].tolist() == [tuple(np.array(names)[row]) for row in found.labels]
    np.testing.assert_array_equal(table["slack"], found.value - found.truth_value)
    rows = rng.permutation(len(X))[:10]
    part = model.most_violating(sp.csr_array(X)[rows], frame.iloc[rows])
    np.testing.assert_array_equal(part.labels, found.labels[rows])
    np.testing.assert_allclose(part.upper, found.upper[rows], atol=ROUNDING)
    threaded = model.set_params(n_jobs=2).most_violating(X, frame)
    for name in vars(found):
        np.testing.assert_array_equal(getattr(threaded, name), getattr(found, name))
    by_sets = SubmodularClassifier(pairs=1.0, random_state=0).fit(X, [set(frame.columns[r]) for r in Y.astype(bool)])
    np.testing.assert_array_equal(by_sets.most_violating(X[:4], [set(), {"a"}, {"e"}, set()]).label_names, names)
    with pytest.raises(InputError, match="labels the model was trained on"):
        model.most_violating(X, frame[names[::-1]])
    with pytest.raises(NotFittedError):
        SubmodularClassifier().most_violating(X, frame)


def test_a_label_in_a_column_and_a_constant_one(rng):
    X, Y = make_problem(rng)
    column = np.where(Y[:, 0] > 0, "sea", "sun")
    model = SubmodularClassifier(pairs=0).fit(X, column)
    whole = model.most_violating(X, column)
    some = np.flatnonzero(column == "sun")
    np.testing.assert_array_equal(model.most_violating(X[some], column[some]).value, whole.value[some])
    Y[:, 2] = 1.0
    with pytest.warns(UserWarning, match="Constant in training"):
        model = SubmodularClassifier(pairs=1.0).fit(X, Y)
    found = model.most_violating(X, Y)
    np.testing.assert_allclose(found.value, values_of_all_sets(model, X, Y)[1].max(axis=1), atol=ROUNDING)
    assert not found.labels[:, 2].any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["bmrm", "bundle"])
@pytest.mark.parametrize("oracle", ["exact", "paper"])
def test_callbacks_see_the_points_at_which_the_oracle_was_called(rng, solver, oracle):
    """Their lowest objective is the one reported, and they differ from pass to pass."""
    X, Y = make_problem(rng)
    seen = []
    model = SubmodularClassifier(
        C=0.3, pairs=1.0, pair_scale=4.0, solver=solver, oracle=oracle, max_iter=8, tol=1e-9, callback=seen.append
    ).fit(X, Y)
    assert [progress.pass_ for progress in seen] == list(range(1, 9))
    assert not seen[0].model.coef_.any()
    objectives = [certify(progress.model, X, Y).primal for progress in seen]
    np.testing.assert_allclose(np.minimum.accumulate(objectives), [progress.primal for progress in seen], rtol=1e-9)
    assert len(set(objectives)) == 8
    best = seen[int(np.argmin(objectives))].model
    np.testing.assert_array_equal(best.coef_, model.coef_)
    np.testing.assert_array_equal(best.predict(X), model.predict(X))
    assert best.most_violating(X, Y).exact.all()


def test_callbacks_see_the_weights_of_block_ascent(rng):
    X, Y = make_problem(rng)
    Y[:, 1] = 0.0
    seen = []
    with pytest.warns(UserWarning, match="Constant in training"):
        model = SubmodularClassifier(pairs=1.0, offset="train", callback=seen.append, warm_start=True).fit(X, Y)
    last = seen[-1].model
    for name in ("coef_", "intercept_", "pairs_", "pair_coef_", "constant_labels_", "label_names_"):
        np.testing.assert_array_equal(getattr(last, name), getattr(model, name))
    assert last.offset_ == 0.0
    assert not last.predict(X)[:, 1].any()
    assert all(progress.model is not model for progress in seen)


def test_other_solvers_show_no_weights(rng):
    X, Y = make_problem(rng)
    for estimator in (LinearM3L, CliqueClassifier):
        seen = []
        estimator(tol=0.1, callback=seen.append).fit(X, Y)
        assert seen
        assert all(progress.model is None for progress in seen)
