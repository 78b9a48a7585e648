"""Scores of pairs by the labels that are rare, against the plain sums over all label subsets."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import CliqueClassifier, _core
from multimargin.datasets import make_clique_labels
from multimargin.estimators.cliques import scores
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.scores import sees_pairs


def random_atoms(rng, n, K, share=0.3):
    """Up to three labellings of some rows, with weights whose sum is at most one."""
    row = np.sort(rng.choice(n, size=2 * n))
    weight = rng.random(len(row)) / 8
    on = rng.random((len(row), K)) < share
    words = np.zeros((len(row), 64 * (-(-K // 64))), dtype=np.uint8)
    words[:, :K] = on
    bits = np.packbits(words, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return _core.Atoms(row.astype(np.int64), weight, np.ascontiguousarray(bits))


@pytest.mark.parametrize("K", [2, 7, 70])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.float32])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9])
def test_equals_the_sum_over_all_subsets(K, form, scale, share):
    rng = np.random.default_rng(K)
    n = 40
    X = scale * rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.7)
    Y = (rng.random((n, K)) < 0.3).astype(int)
    Y[:2] = [[1], [0]]  # no constant label
    problem = CliqueClassifier(0.7, random_state=0)._problem(form(X), Y, rng.random(n) + 0.1)
    data = CliqueData(problem, bias=2.0)
    residuals = scores.AtomResiduals(random_atoms(rng, n, K, share), data, np.float64)
    pairs = list(combinations(range(K), 2))[::-1]
    assert sees_pairs(data, pairs)
    fast, fast_nodes, fast_loss = scores.clique_scores(data, residuals, pairs)
    plain, nodes, loss = scores.score_any(data, residuals, pairs)
    np.testing.assert_allclose(fast, plain, rtol=1e-12)
    assert fast_nodes == pytest.approx(nodes, rel=1e-12)
    assert fast_loss == pytest.approx(loss, rel=1e-12)
    more = CliqueData(replace(problem, n_jobs=3), bias=2.0)
    np.testing.assert_array_equal(fast, scores.clique_scores(more, residuals, pairs)[0])


def test_constant_labels_are_left_out():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), (rng.random((30, 6)) < 0.4).astype(int)
    Y[:, [1, 4]] = [0, 1]
    data = CliqueData(CliqueClassifier()._problem(X, Y, None), bias=1.0)
    pairs = list(combinations([0, 2, 3, 5], 2))
    residuals = scores.AtomResiduals(random_atoms(rng, 30, 6), data, np.float64)
    assert sees_pairs(data, pairs)
    assert not sees_pairs(data, [(0, 1)])
    for fast, plain in zip(
        scores.clique_scores(data, residuals, pairs), scores.score_any(data, residuals, pairs), strict=True
    ):
        np.testing.assert_allclose(fast, plain, rtol=1e-12)


def test_unknown_labels_and_larger_cliques_take_the_plain_sum():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), (rng.random((30, 4)) < 0.4).astype(float)
    pairs = list(combinations(range(4), 2))
    data = CliqueData(CliqueClassifier()._problem(X, Y, None), bias=1.0)
    assert sees_pairs(data, pairs)
    assert not sees_pairs(data, [*pairs, (0, 1, 2)])
    Y[0, 0] = np.nan
    assert not sees_pairs(CliqueData(CliqueClassifier()._problem(X, Y, None), bias=1.0), pairs)


@pytest.mark.parametrize("stopping", ["significance", "gap", "objective"])
def test_learns_the_same_graph_as_with_plain_sums(stopping, monkeypatch):
    made = make_clique_labels(400, random_state=0)
    model = CliqueClassifier(0.05, stopping=stopping, max_cliques=12, tol=0.1, random_state=0)
    fast = model.fit(made.X, made.Y.astype(int))
    cliques, bounds = list(fast.cliques_), fast.certificate_
    monkeypatch.setattr(scores, "sees_pairs", lambda data, cliques: False)
    plain = model.fit(made.X, made.Y.astype(int))
    assert cliques == list(plain.cliques_)
    assert cliques
    assert bounds.primal == pytest.approx(plain.certificate_.primal, rel=1e-9)
    assert bounds.global_dual == pytest.approx(plain.certificate_.global_dual, rel=1e-9)
