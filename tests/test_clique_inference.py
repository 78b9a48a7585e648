"""Inference in label cliques against enumeration of every labelling."""

from itertools import combinations

import numpy as np
import pytest

from multimargin import _core

# Methods that must be exact, with the treewidth limit: at 0 and 1 branch and bound has something to branch on.
EXACT = [
    ("auto", 12),
    ("elimination", 12),
    ("exhaustive", 12),
    *(("branch-and-bound", limit) for limit in (0, 1, 2, 12)),
]


def compile_graph(n_labels, larger, method="auto", treewidth_limit=12, node_limit=10_000, iteration_limit=500):
    """The inference object for the single labels and the larger subsets, and the list of all of them."""
    subsets = [(k,) for k in range(n_labels)] + [tuple(sorted(t)) for t in larger]
    starts = np.cumsum([0] + [len(t) for t in subsets]).astype(np.int64)
    members = np.array([k for t in subsets for k in t], dtype=np.int32)
    limits = treewidth_limit, node_limit, iteration_limit
    return _core.CliqueInference(n_labels, starts, members, method, *limits), subsets


def random_subsets(rng, n_labels, counts):
    """counts: how many subsets of each size, at random."""
    larger = []
    for size, count in counts.items():
        every = list(combinations(range(n_labels), size))
        larger += [every[i] for i in rng.choice(len(every), min(count, len(every)), replace=False)]
    return larger


def labellings(n_labels):
    return (np.arange(2**n_labels)[:, None] >> np.arange(n_labels)) & 1


def parities(subsets, y):
    """chi_T of every labelling (rows) and subset (columns)."""
    signs = 2 * np.asarray(y, dtype=float) - 1
    return np.column_stack([signs[:, list(t)].prod(axis=1) for t in subsets])


GRAPHS = {
    "no pairs": (5, {}),
    "one label": (1, {}),
    "sparse pairs": (9, {2: 5}),
    "pairs": (8, {2: 14}),
    "all pairs": (6, {2: 15}),
    "pairs and triples": (9, {2: 8, 3: 5}),
    "order four": (8, {2: 4, 3: 3, 4: 3}),
    "triples only": (9, {3: 5}),
    "order six": (7, {6: 2, 2: 3}),
}


@pytest.fixture(params=GRAPHS, ids=str)
def problem(request, rng):
    n_labels, counts = GRAPHS[request.param]
    return n_labels, random_subsets(rng, n_labels, counts)


def scores_of(rng, n_subsets, n=40):
    """Random rows, small integers (ties), and zeros."""
    scores = 2 * rng.normal(size=(n, n_subsets))
    scores[n // 2 :] = rng.integers(-2, 3, size=scores[n // 2 :].shape)
    scores[-1] = 0
    return scores


@pytest.mark.parametrize(("method", "limit"), EXACT)
def test_maximum_equals_enumeration(rng, problem, method, limit):
    n_labels, larger = problem
    inference, subsets = compile_graph(n_labels, larger, method, limit)
    scores = scores_of(rng, len(subsets))
    y, value, bound, exact = inference.maximize(scores, 1)
    best = (scores @ parities(subsets, labellings(n_labels)).T).max(axis=1)
    np.testing.assert_allclose(value, best, atol=1e-12)
    np.testing.assert_allclose((scores * parities(subsets, y)).sum(axis=1), best, atol=1e-12)
    np.testing.assert_allclose(bound, best, atol=1e-9)
    assert exact.all()
    assert not y[-1].any()  # all scores zero: every label off


@pytest.mark.parametrize(("method", "limit"), EXACT)
def test_max_marginals_equal_clamping(rng, problem, method, limit):
    n_labels, larger = problem
    inference, subsets = compile_graph(n_labels, larger, method, limit)
    scores = scores_of(rng, len(subsets))
    y = labellings(n_labels)
    values = scores @ parities(subsets, y).T
    expected = np.column_stack(
        [values[:, y[:, k] == 1].max(axis=1) - values[:, y[:, k] == 0].max(axis=1) for k in range(n_labels)]
    )
    np.testing.assert_allclose(inference.max_marginals(scores, 1), expected, atol=1e-11)


@pytest.mark.parametrize("method", ["auto", "exhaustive"])
def test_sums_equal_enumeration(rng, problem, method):
    n_labels, larger = problem
    inference, subsets = compile_graph(n_labels, larger, method)
    assert inference.has_sums
    assert inference.has_covariances
    scores = scores_of(rng, len(subsets))
    chi = parities(subsets, labellings(n_labels))
    values = scores @ chi.T
    top = values.max(axis=1, keepdims=True)
    p = np.exp(values - top)
    log_z = np.log(p.sum(axis=1)) + top[:, 0]
    p /= p.sum(axis=1, keepdims=True)
    found, moments = inference.log_partition(scores, 1)
    np.testing.assert_allclose(found, log_z, atol=1e-12)
    np.testing.assert_allclose(moments, p @ chi, atol=1e-13)
    again, covariance = inference.covariances(scores, 1)
    np.testing.assert_allclose(again, moments, atol=1e-13)
    expected = np.einsum("ny,ys,yt->nst", p, chi, chi) - moments[:, :, None] * moments[:, None, :]
    np.testing.assert_allclose(covariance, expected, atol=1e-12)
