"""Decoding against enumeration of all predictions and all labellings."""

import itertools

import numpy as np
import pandas as pd
import pytest

from multimargin import metrics, tune_thresholds
from multimargin.decisions import decode
from multimargin.decisions._row_rules import best_sets
from multimargin.errors import InputError


def labellings(n_labels):
    return np.array(list(itertools.product([0, 1], repeat=n_labels)))


def f_table(sets, b=1.0):
    """F of every prediction (row) for every truth (column)."""
    hits = sets @ sets.T
    size = sets.sum(axis=1)
    whole = size[:, None] + b * size[None, :]
    return np.where(whole > 0, (1 + b) * hits / np.where(whole > 0, whole, 1), 1.0)


def independent(p, sets):
    return np.prod(np.where(sets == 1, p, 1 - p), axis=1)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("n_labels", [1, 2, 5, 7])
def test_expected_f_equals_enumeration(rng, beta, n_labels):
    sets = labellings(n_labels)
    table = f_table(sets, beta**2)
    for trial in range(60):
        p = rng.random(n_labels) ** rng.choice([0.3, 1.0, 4.0])
        if trial % 5 == 0:
            p[rng.integers(n_labels)] = rng.choice([0.0, 1.0])
        values = table @ independent(p, sets)
        chosen = decode(p[None], "example-fbeta", beta=beta)[0]
        index = int(np.flatnonzero((sets == chosen).all(axis=1))[0])
        assert values[index] == pytest.approx(values.max(), abs=1e-13)


def test_pruning_loses_nothing_where_f_falls_and_rises_again(rng):
    """f(k) is not unimodal: among many draws some fall and rise, and these are decoded exactly, too."""
    sets = labellings(8)
    table = f_table(sets)
    bumpy = 0
    for _ in range(3000):
        p = np.sort(rng.random(8) ** rng.choice([0.5, 1.0, 3.0]))[::-1]
        if rng.random() < 0.5:
            p[1:] *= 0.4
        probability = independent(p, sets)
        firsts = [int(np.flatnonzero((sets == (np.arange(8) < k)).all(axis=1))[0]) for k in range(9)]
        f = table[firsts] @ probability
        steps = np.diff(f)
        if (steps[1:][np.minimum.accumulate(steps)[:-1] < -1e-12] > 1e-12).any():
            bumpy += 1
            assert f[decode(p[None])[0].sum()] == pytest.approx(f.max(), abs=1e-13)
    assert bumpy > 0


@pytest.mark.parametrize("n_labels", [129, 2000])
def test_many_labels_agree_with_sampling(rng, n_labels):
    p = np.sort(rng.beta(0.3, 3.0, size=n_labels))[::-1].copy()
    p *= 8 / p.sum()
    size = int(decode(np.clip(p, 0, 1)[None])[0].sum())
    draws = rng.random((20_000, n_labels)) < p
    total, hits = draws.sum(axis=1), np.cumsum(draws[:, :60], axis=1)
    f = (2 * hits / (total[:, None] + np.arange(1, 61))).mean(axis=0)
    assert f[size - 1] == pytest.approx(f.max(), abs=0.004)


def test_rows_are_decoded_alone_and_labels_can_be_permuted(rng):
    p = rng.random((50, 30)) ** 3
    chosen = decode(p)
    np.testing.assert_array_equal(chosen[7:9], decode(p[7:9]))
    order = rng.permutation(30)
    np.testing.assert_array_equal(chosen[:, order], decode(p[:, order]))
    frame = decode(pd.DataFrame(p, columns=[f"label {j}" for j in range(30)]))
    assert frame.columns[3] == "label 3"
    np.testing.assert_array_equal(frame.to_numpy(), chosen)
    np.testing.assert_array_equal(best_sets(np.asfortranarray(p), 1.0), chosen.astype(bool))


def joint_tables(joint, sets):
    n_labels = sets.shape[1]
    p = sets.T @ joint
    sizes = np.zeros((n_labels, n_labels))
    for probability, labels in zip(joint, sets, strict=True):
        for label in np.flatnonzero(labels):
            sizes[label, labels.sum() - 1] += probability
    return p, sizes


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_any_joint_distribution_equals_enumeration(rng, beta):
    sets = labellings(5)
    table = f_table(sets, beta**2)
    for _ in range(100):
        joint = rng.dirichlet(np.full(len(sets), 0.1))
        p, sizes = joint_tables(joint, sets)
        chosen = decode(p[None], "example-fbeta", beta=beta, sizes=sizes[None])[0]
        values = table @ joint
        assert values[np.flatnonzero((sets == chosen).all(axis=1))[0]] == pytest.approx(values.max(), abs=1e-12)


def test_product_distributions_need_no_joint(rng):
    sets = labellings(6)
    p = rng.random((40, 6))
    sizes = np.stack([joint_tables(independent(row, sets), sets)[1] for row in p])
    np.testing.assert_array_equal(decode(p, sizes=sizes), decode(p))


def test_simple_rules(rng):
    p = rng.random((20, 6))
    np.testing.assert_array_equal(decode(p, "hamming-loss"), (p > 0.5).astype(int))
    np.testing.assert_array_equal(decode(p, "subset-accuracy"), (p > 0.5).astype(int))
    np.testing.assert_array_equal(decode(p, "cost", costs=(1, 3)), (p > 0.25).astype(int))
    top = decode(p, "precision@2")
    assert (top.sum(axis=1) == 2).all()
    np.testing.assert_allclose((p * top).sum(axis=1), np.sort(p, axis=1)[:, -2:].sum(axis=1))


def test_seen_sets(rng):
    Y = (rng.random((30, 5)) < 0.4).astype(int)
    p = rng.random((50, 5))
    chosen = decode(p, "subset-accuracy", sets=Y)
    likelihood = np.array([independent(row, Y) for row in p])
    got = np.array([independent(row, chosen[[i]])[0] for i, row in enumerate(p)])
    np.testing.assert_allclose(got, likelihood.max(axis=1))
    assert {tuple(row) for row in chosen} <= {tuple(row) for row in Y}
    with pytest.raises(InputError, match="5 labels"):
        decode(p, "subset-accuracy", sets=Y[:, :3])


@pytest.mark.parametrize("metric", ["macro-f1", "micro-f1"])
def test_expected_counts_of_certain_labels_are_the_counts(rng, metric):
    """With probabilities of 0 and 1 the best prediction is the truth, as for tuned thresholds."""
    Y = (rng.random((30, 4)) < 0.3).astype(int)
    np.testing.assert_array_equal(decode(Y.astype(float), metric), Y)
    rule = {"macro-f1": {"shrinkage": 0}, "micro-f1": {"rule": "per-label"}}[metric]
    np.testing.assert_array_equal(tune_thresholds(Y.astype(float), Y, metric, **rule).predict(Y.astype(float)), Y)


def test_expected_counts_choose_half_of_f(rng):
    p = rng.random((4000, 3)) ** 2
    Y = (rng.random(p.shape) < p).astype(int)
    for metric, of in (("macro-f1", metrics.macro_f1), ("micro-f1", metrics.micro_f1)):
        chosen = decode(p, metric)
        assert of(Y, chosen) == pytest.approx(2 * p[chosen == 1].min(), abs=0.03)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "example_f1"}, "Did you mean 'example-f1'"),
        ({"metric": "precision"}, "precision@3"),
        ({"metric": "precision@0"}, "precision@3"),
        ({"beta": 2.0}, "-fbeta"),
        ({"metric": "cost"}, "needs costs"),
        ({"sets": [[1, 0]]}, "sets belong"),
        ({"metric": "micro-f1", "sizes": np.zeros((1, 2, 2))}, "sizes belong"),
        ({"sizes": np.zeros((1, 2, 2))}, "sizes must be probabilities"),
        ({"sizes": np.zeros((2, 2))}, "sizes must have shape"),
        ({"metric": "subset-accuracy", "beta": 2.0}, "neither beta nor costs"),
    ],
)
def test_errors_name_what_is_wrong(options, message):
    with pytest.raises(InputError, match=message):
        decode([[0.5, 0.2]], **options)
    with pytest.raises(InputError, match="between 0 and 1"):
        decode([[0.5, 1.2]])
    with pytest.raises(InputError, match="between 0 and 1"):
        decode([[0.5, np.nan]])
