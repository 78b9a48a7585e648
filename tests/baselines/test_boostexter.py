import time

import numpy as np
import pytest
import scipy.sparse as sp
from interrupts import assert_answers_ctrl_c

from multimargin import load, save
from multimargin.baselines import BoosTexter
from multimargin.errors import InputError


def problem(rng, n, d, n_labels, values=None):
    """Rows with some structure; with few distinct values, if so many are given."""
    X = rng.normal(size=(n, d)) if values is None else rng.integers(values, size=(n, d)).astype(float)
    signal = X @ rng.normal(size=(d, n_labels)) / np.sqrt(d) + 0.5 * rng.normal(size=(n, n_labels))
    middle = np.clip(0.3, np.partition(signal, 1, axis=0)[1], np.partition(signal, -2, axis=0)[-2])
    return X, (signal >= middle).astype(int)  # no label is constant


def splits(X):
    """Every feature and middle between neighbouring values."""
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        yield from ((j, v) for v in (values[:-1] + values[1:]) / 2)


def boost(X, Y, rounds, smoothing=1.0):
    """AdaBoost.MH by looking at every split: features, thresholds, scores of the rows and normalisers."""
    sign = 2 * Y - 1
    D, f, eps = np.full(Y.shape, 1 / Y.size), np.zeros(Y.shape), smoothing / Y.size
    found, normalisers = [], []
    for _ in range(rounds):
        best = (np.inf, None)
        for j, v in splits(X):
            sides = X[:, j] <= v, X[:, j] > v
            weights = [((D * (sign > 0))[side].sum(axis=0), (D * (sign < 0))[side].sum(axis=0)) for side in sides]
            z = 2 * sum(np.sqrt(a * b).sum() for a, b in weights)
            if z < best[0] - 1e-12:
                best = (z, (j, v, sides, weights))
        if best[0] >= 1 - 1e-12:
            break
        j, v, sides, weights = best[1]
        h = sum(np.outer(s, 0.5 * np.log((a + eps) / (b + eps))) for s, (a, b) in zip(sides, weights, strict=True))
        D = D * np.exp(-sign * h)
        normalisers.append(D.sum())
        D, f = D / D.sum(), f + h
        found.append((j, v))
    return found, f, normalisers


def loss(model, X, Y):
    return np.exp(-(2 * Y - 1) * model.decision_function(X).reshape(Y.shape)).mean()


@pytest.mark.parametrize("n_labels", [1, 6, 129])
@pytest.mark.parametrize(("n", "values"), [(15, None), (15, 3), (100, None)])
def test_every_round_takes_the_best_split(rng, n_labels, n, values):
    X, Y = problem(rng, n, 4, n_labels, values)
    smoothing = 0.7
    model = BoosTexter(6, smoothing=smoothing).fit(X, Y)
    found, f, normalisers = boost(X, Y, 6, smoothing)
    np.testing.assert_array_equal(model.features_, [j for j, _ in found])
    np.testing.assert_allclose(model.cuts_, [v for _, v in found])
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-9)
    np.testing.assert_allclose(model.history_.primal, np.cumprod(normalisers), rtol=1e-9)


@pytest.mark.parametrize(("n", "n_labels"), [(300, 6), (900, 1), (120, 129)])
def test_the_product_of_normalisers_is_the_exponential_loss(rng, n, n_labels):
    """More rows than bins: cuts between quantiles."""
    X, Y = problem(rng, n, 7, n_labels)
    model = BoosTexter(150).fit(X, Y)
    history = model.history_.primal
    assert len(history) == model.n_iter_ == 150
    assert history[-1] == pytest.approx(loss(model, X, Y), rel=1e-9)
    assert np.all(np.diff(history) <= 0)
    assert np.mean(model.predict(X) != Y) <= history[-1]
    assert np.array_equal(model.history_.pass_, np.arange(1, 151))


@pytest.mark.parametrize("scale", [1e-12, 1.0])
def test_tiny_weights_keep_their_splits(rng, scale):
    """Rows learned long ago weigh next to nothing: roots of numbers near the smallest of single precision, and of 0."""
    X, Y = problem(rng, 40, 3, 2)
    Y[:, 0] = X[:, 0] > 0  # separated in the first rounds, and again in every later one
    model = BoosTexter(12, smoothing=scale).fit(X, Y)
    found, f, _ = boost(X, Y, 12, scale)
    np.testing.assert_array_equal(model.features_, [j for j, _ in found])
    np.testing.assert_allclose(model.decision_function(X), f, rtol=1e-6, atol=1e-9)


def test_stages_are_shorter_fits(rng):
    X, Y = problem(rng, 80, 5, 4)
    model = BoosTexter(20).fit(X, Y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == 20
    for rounds in (1, 7, 20):
        short = BoosTexter(rounds).fit(X, Y)
        np.testing.assert_allclose(stages[rounds - 1], short.decision_function(X), atol=1e-10)
    one = BoosTexter(3).fit(sp.csr_array(X), Y[:, 0])
    assert [s.shape for s in one.staged_decision_function(sp.csr_array(X))] == 3 * [(80,)]


def test_separable_rows_are_learned(rng):
    X = rng.normal(size=(200, 6))
    y = (X[:, 2] > 0.1).astype(int)
    model = BoosTexter(5).fit(X, y)
    assert model.score(X, y) == 1
    assert model.features_[0] == 2


def test_more_values_than_bins_lose_little(rng):
    """The best of all thresholds is at most a 256th of the rows away."""
    X, Y = problem(rng, 1000, 1, 3)
    model = BoosTexter(1).fit(X, Y)
    _, exact = boost(X, Y, 1)[0][0]
    between = np.sum((X[:, 0] > min(exact, model.cuts_[0])) & (X[:, 0] <= max(exact, model.cuts_[0])))
    assert between <= 4


@pytest.mark.parametrize("split", ["threshold", "presence"])
@pytest.mark.parametrize("n_labels", [3, 130])
def test_layouts_and_precisions_agree(rng, split, n_labels):
    X, Y = problem(rng, 400, 30, n_labels, 4)
    X[rng.random(X.shape) < 0.7] = 0.0
    models = [
        BoosTexter(40, split=split).fit(x, Y)
        for x in (X, sp.csr_array(X), X.astype(np.float32), sp.csr_matrix(X.astype(np.float32)), np.asfortranarray(X))
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.features_, models[0].features_)
        np.testing.assert_allclose(model.cuts_, models[0].cuts_)
        np.testing.assert_allclose(model.above_, models[0].above_, atol=1e-9)
        np.testing.assert_allclose(
            model.decision_function(sp.csr_array(X)), models[0].decision_function(X), rtol=1e-9, atol=1e-9
        )
    if split == "presence":
        assert not models[0].cuts_.any()


def test_sparse_rows_with_negative_entries_and_duplicates(rng):
    X, Y = problem(rng, 300, 20, 5)
    X[rng.random(X.shape) < 0.6] = 0.0
    rows = sp.csr_array(X)
    doubled = sp.csr_array((np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), rows.shape)
    dense = BoosTexter(30).fit(X, Y)
    for x in (rows, doubled):
        model = BoosTexter(30).fit(x, Y)  # "auto" looks at thresholds
        np.testing.assert_array_equal(model.features_, dense.features_)
        np.testing.assert_allclose(model.cuts_, dense.cuts_)
    with pytest.raises(InputError, match='must not be negative; its least entry is .* Use split="threshold"'):
        BoosTexter(split="presence").fit(rows, Y)


def test_presence_asks_for_words_only(rng):
    counts = rng.poisson(0.3, size=(200, 12))
    Y = np.column_stack([counts[:, 3] > 0, counts[:, 5] > 0])
    model = BoosTexter(50).fit(sp.csr_array(counts.astype(float)), Y)
    assert not model.cuts_.any()
    assert set(model.features_[:2]) == {3, 5}
    assert model.score(sp.csr_array(counts.astype(float)), Y) == 1
    # the same as a matrix of 0 and 1 whose only threshold is one half
    binary = BoosTexter(50).fit((counts > 0).astype(float), Y)
    np.testing.assert_array_equal(model.features_, binary.features_)
    np.testing.assert_allclose(model.above_, binary.above_)


def test_threads_do_not_matter(rng):
    X, Y = problem(rng, 1500, 120, 20)
    for x in (X, sp.csr_array(np.maximum(X, 0))):
        a, b = (BoosTexter(8, n_jobs=n_jobs).fit(x, Y) for n_jobs in (1, 2))
        for name in ("features_", "cuts_", "below_", "above_"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        np.testing.assert_array_equal(a.history_.primal, b.history_.primal)


def test_permuted_labels_permute_the_answer(rng):
    X, Y = problem(rng, 200, 8, 11)
    order = rng.permutation(11)
    a, b = BoosTexter(60).fit(X, Y), BoosTexter(60).fit(X, Y[:, order])
    np.testing.assert_allclose(a.decision_function(X)[:, order], b.decision_function(X), atol=1e-9)


def test_scales_do_not_matter(rng):
    X, Y = problem(rng, 150, 6, 4)
    scale = 10.0 ** np.array([-90.0, -3.0, 0.0, 3.0, 50.0, 90.0])
    a, b = BoosTexter(30).fit(X, Y), BoosTexter(30).fit(X * scale, Y)
    np.testing.assert_array_equal(a.features_, b.features_)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X * scale))


def test_neighbouring_numbers_are_told_apart():
    low = 1.0
    high = np.nextafter(low, 2.0)
    X, y = np.array([[low], [high], [low], [high]]), np.array([0, 1, 0, 1])
    assert BoosTexter(3).fit(X, y).score(X, y) == 1


def test_constant_features_and_labels(rng):
    X, Y = problem(rng, 100, 3, 3)
    wide = np.column_stack([np.ones(100), X, np.zeros(100)])
    a, b = BoosTexter(20).fit(X, Y), BoosTexter(20).fit(wide, Y)
    np.testing.assert_array_equal(a.features_ + 1, b.features_)
    with pytest.warns(UserWarning, match="labels 0, 4"):
        more = BoosTexter(20).fit(X, np.column_stack([np.ones(100, int), Y, np.zeros(100, int)]))
    prediction = more.predict(X)
    assert prediction[:, 0].all()
    assert not prediction[:, 4].any()
    np.testing.assert_array_equal(more.features_, a.features_)
    stage = list(more.staged_decision_function(X))[-1]
    np.testing.assert_allclose(stage, more.decision_function(X), atol=1e-9)
    # nothing to split by: the frequencies decide
    frequent = np.column_stack([np.arange(100) < 60, np.arange(100) < 40, np.arange(100) < 50]).astype(int)
    for x in (np.ones((100, 2)), sp.csr_array((100, 2))):
        model = BoosTexter(5).fit(x, frequent)
        assert model.n_iter_ == len(model.history_.time) == 0
        np.testing.assert_allclose(model.decision_function(x[:1])[0], 0.5 * np.log([61 / 41, 41 / 61, 1]))
        assert list(model.staged_decision_function(x)) == []


def test_it_ends_where_no_tree_helps():
    """Exclusive or: no single feature tells anything."""
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    model = BoosTexter(50).fit(X, np.array([0, 1, 1, 0]))
    assert model.n_iter_ == 0
    np.testing.assert_array_equal(model.decision_function(X), 0.0)


def test_unknown_labels_are_refused(rng):
    X, Y = problem(rng, 20, 2, 3)
    with pytest.raises(InputError, match="BoosTexter needs every label of every row; Y has 1 unknown cells"):
        BoosTexter().fit(X, np.where(np.arange(60).reshape(20, 3) == 7, np.nan, Y))


def test_a_model_file_keeps_the_trees(rng, tmp_path):
    X, Y = problem(rng, 60, 4, 3)
    for model in (BoosTexter(15).fit(X, Y), BoosTexter(2).fit(np.ones((60, 4)), Y)):
        save(model, tmp_path / "model.mm")
        kept = load(tmp_path / "model.mm")
        np.testing.assert_array_equal(kept.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(kept.history_.primal, model.history_.primal)


def test_limits(rng, capsys):
    X, Y = problem(rng, 200, 5, 4)
    seen = []
    model = BoosTexter(100, callback=lambda p: seen.append(p) or p.pass_ == 7, verbose=1).fit(X, Y)
    assert model.n_iter_ == len(seen) == 7
    assert [p.primal for p in seen] == model.history_.primal.tolist()
    assert seen[-1].dual is None
    assert "round     7" in capsys.readouterr().err
    began = time.monotonic()
    model = BoosTexter(10**9, time_limit=0.3).fit(X, Y)
    assert time.monotonic() - began < 3
    assert model.n_iter_ > 0
    assert loss(model, X, Y) == pytest.approx(model.history_.primal[-1], rel=1e-6)


def test_ctrl_c():
    setup = """
import numpy as np
from multimargin.baselines import BoosTexter
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(20000, 60)), rng.random((20000, 30)) < 0.3
model = BoosTexter(10**9, n_jobs=2)
"""
    assert (
        assert_answers_ctrl_c("model.fit(X, Y)", setup=setup, after=1.0, state="hasattr(model, 'features_')") == "False"
    )
