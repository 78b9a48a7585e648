"""Inference in label cliques against enumeration of every labelling."""

from itertools import combinations

import numpy as np
import pytest
from interrupts import assert_answers_ctrl_c

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
    inference = _core.CliqueInference(
        _core.LabelSubsets(n_labels, starts, members),
        method=method,
        treewidth_limit=treewidth_limit,
        node_limit=node_limit,
        iteration_limit=iteration_limit,
    )
    return inference, subsets


def maximize(inference, scores, threads=1):
    best = inference.maximize(scores, threads)
    return best.y, best.value, best.bound, best.exact


def sums(inference, scores):
    found = inference.sums(scores, 1)
    return found.log_partition, found.moments


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
    y, value, bound, exact = maximize(inference, scores)
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
    scores = scores_of(rng, len(subsets))
    chi = parities(subsets, labellings(n_labels))
    values = scores @ chi.T
    top = values.max(axis=1, keepdims=True)
    p = np.exp(values - top)
    log_z = np.log(p.sum(axis=1)) + top[:, 0]
    p /= p.sum(axis=1, keepdims=True)
    found, moments = sums(inference, scores)
    np.testing.assert_allclose(found, log_z, atol=1e-12)
    np.testing.assert_allclose(moments, p @ chi, atol=1e-13)


def test_moments_are_the_gradient_of_the_log_partition(rng):
    inference, subsets = compile_graph(70, [(k, k + 1) for k in range(69)] + [(k, k + 1, k + 2) for k in range(68)])
    scores = rng.normal(size=(1, len(subsets)))
    step = 1e-5 * np.eye(len(subsets))
    above, below = (sums(inference, scores + sign * step)[0] for sign in (1, -1))
    _, moments = sums(inference, scores)
    np.testing.assert_allclose(moments[0], (above - below) / 2e-5, atol=1e-8)


def test_large_scores_neither_overflow_nor_lose_precision(rng):
    inference, subsets = compile_graph(6, list(combinations(range(6), 2)))
    scores = 1e4 * rng.normal(size=(5, len(subsets)))
    log_z, moments = sums(inference, scores)
    y, value, *_ = maximize(inference, scores)
    np.testing.assert_allclose(log_z, value, rtol=1e-12)
    np.testing.assert_allclose(moments, parities(subsets, y), atol=1e-12)


def windows(n_labels):
    """Subsets of at most three neighbours in a row."""
    return [(k, k + 1) for k in range(n_labels - 1)] + [(k, k + 1, k + 2) for k in range(n_labels - 2)]


def window_values(scores, n_labels, combine):
    """F over the values of the last two labels, the others combined by max or log-sum-exp; subsets as in `windows`."""
    sign = np.array([-1.0, 1.0])
    single = scores[:n_labels]
    pair = scores[n_labels : 2 * n_labels - 1]
    triple = scores[2 * n_labels - 1 :]
    table = single[0] * sign[:, None] + single[1] * sign + pair[0] * np.outer(sign, sign)
    for k in range(2, n_labels):
        three = table[:, :, None] + single[k] * sign + pair[k - 1] * np.outer(sign, sign)
        three = three + triple[k - 2] * np.einsum("a,b,c->abc", sign, sign, sign)
        table = combine(three)
    return table


@pytest.mark.parametrize("n_labels", [64, 65, 150])
def test_many_labels_equal_dynamic_programming(rng, n_labels):
    larger = windows(n_labels)
    name = rng.permutation(n_labels)  # neighbours get numbers far apart
    inference, subsets = compile_graph(n_labels, [[name[k] for k in t] for t in larger])
    assert inference.treewidth == 2
    scores = rng.normal(size=(20, len(subsets)))
    renamed = scores.copy()
    renamed[:, name] = scores[:, :n_labels]
    y, value, _, exact = maximize(inference, renamed)
    assert exact.all()
    best = [window_values(row, n_labels, lambda t: t.max(axis=0)).max() for row in scores]
    np.testing.assert_allclose(value, best, atol=1e-10)
    np.testing.assert_allclose((renamed * parities(subsets, y)).sum(axis=1), best, atol=1e-10)
    log_z, _ = sums(inference, renamed)
    total = [np.logaddexp.reduce(window_values(row, n_labels, np.logaddexp.reduce), axis=None) for row in scores]
    np.testing.assert_allclose(log_z, total, atol=1e-10)


@pytest.mark.parametrize("method", ["auto", "mplp", "branch-and-bound"])
def test_many_components_add_up(rng, method):
    """Twenty components of four labels each, their numbers mixed: 80 labels, two words."""
    name = rng.permutation(80).reshape(20, 4)
    larger = [(row[a], row[b]) for row in name for a, b in combinations(range(4), 2)]
    whole, subsets = compile_graph(80, larger, method, 1)
    scores = rng.normal(size=(10, len(subsets)))
    y, value, bound, exact = maximize(whole, scores)
    difference = whole.max_marginals(scores, 1)
    best = np.zeros(10)
    small, few = compile_graph(4, list(combinations(range(4), 2)), "exhaustive")
    for c, row in enumerate(name):
        own = np.hstack([scores[:, row], scores[:, 80 + 6 * c : 86 + 6 * c]])
        best += maximize(small, own)[1]
        if method != "mplp":
            np.testing.assert_allclose(difference[:, row], small.max_marginals(own, 1), atol=1e-10)
    assert len(few) == 10
    assert len(whole.components) == 20
    assert (bound >= best - 1e-9).all()
    assert (value <= best + 1e-9).all()
    np.testing.assert_allclose((scores * parities(subsets, y)).sum(axis=1), value, atol=1e-10)
    np.testing.assert_allclose(value[exact], best[exact], atol=1e-7)
    if method != "mplp":
        assert exact.all()


def test_mplp_brackets_the_maximum_and_its_bound_never_rises(rng, problem):
    n_labels, larger = problem
    _, subsets = compile_graph(n_labels, larger)
    scores = scores_of(rng, len(subsets))
    best = (scores @ parities(subsets, labellings(n_labels)).T).max(axis=1)
    before = np.full(len(scores), np.inf)
    for passes in (0, 1, 2, 3, 5, 10, 500):
        inference, _ = compile_graph(n_labels, larger, "mplp", iteration_limit=passes)
        y, value, bound, exact = maximize(inference, scores)
        assert (bound >= best - 1e-10).all()
        assert (value <= best + 1e-10).all()
        assert (bound <= before + 1e-10).all()
        np.testing.assert_allclose((scores * parities(subsets, y)).sum(axis=1), value, atol=1e-12)
        np.testing.assert_allclose(value[exact], best[exact], atol=1e-6)
        before = bound


def random_forest(rng, n_labels, n_pairs):
    pairs = [(int(rng.integers(k)), k) for k in range(1, n_labels)]
    return [pairs[i] for i in rng.permutation(n_labels - 1)[:n_pairs]]


def test_mplp_certifies_forests(rng):
    for n_labels, n_pairs in [(8, 7), (20, 15), (90, 89)]:
        larger = random_forest(rng, n_labels, n_pairs)
        inference, subsets = compile_graph(n_labels, larger, "mplp", iteration_limit=100_000)
        exact_method, _ = compile_graph(n_labels, larger, "elimination")
        scores = rng.normal(size=(50, len(subsets)))
        y, value, _, exact = maximize(inference, scores)
        expected, best, *_ = maximize(exact_method, scores)
        assert exact_method.treewidth == 1
        assert exact.all()
        np.testing.assert_allclose(value, best, atol=1e-7)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("attraction", [False, True])
def test_roof_duality_fixes_no_label_wrongly(rng, attraction):
    n_labels = 8
    told = 0
    y = labellings(n_labels)
    for n_pairs in (5, 12, 28):
        larger = random_subsets(rng, n_labels, {2: n_pairs})
        subsets = [(k,) for k in range(n_labels)] + larger
        scores = scores_of(rng, len(subsets), 60)
        scores[:, n_labels:] *= 0.3
        if attraction:
            scores[:, n_labels:] = np.abs(scores[:, n_labels:])
        pairs = np.array(larger, dtype=np.int32)
        unary, coupling = (np.ascontiguousarray(part) for part in (scores[:, :n_labels], scores[:, n_labels:]))
        found = _core.testing.roof_duality(unary, pairs, coupling)
        fixed, bound = found.fixed, found.bound
        values = scores @ parities(subsets, y).T
        best = values.max(axis=1)
        assert (bound >= best - 1e-10).all()
        agrees = ((2 * y[None] - 1) * fixed[:, None, :] >= 0).all(axis=2)
        np.testing.assert_allclose(np.where(agrees, values, -np.inf).max(axis=1), best, atol=1e-10)
        told += np.count_nonzero(fixed)
        if attraction:
            np.testing.assert_allclose(bound, best, atol=1e-9)
            assert (fixed[:30] != 0).all()  # rows without ties
    assert told > 0


def test_a_search_cut_short_reports_a_bracket(rng):
    larger = list(combinations(range(12), 2))
    full, subsets = compile_graph(12, larger, "exhaustive")
    scores = rng.normal(size=(30, len(subsets)))
    best = maximize(full, scores)[1]
    open_rows = 0
    for nodes in (1, 4, 30):
        short, _ = compile_graph(12, larger, "branch-and-bound", 2, node_limit=nodes)
        y, value, bound, exact = maximize(short, scores)
        assert (value <= best + 1e-9).all()
        assert (bound >= best - 1e-9).all()
        np.testing.assert_allclose((scores * parities(subsets, y)).sum(axis=1), value, atol=1e-10)
        np.testing.assert_allclose(value[exact], best[exact], atol=1e-6)
        open_rows += np.count_nonzero(~exact)
    assert open_rows > 0


@pytest.mark.parametrize(("method", "limit"), EXACT)
def test_renaming_labels_renames_the_answer(rng, method, limit):
    n_labels = 9
    larger = random_subsets(rng, n_labels, {2: 8, 3: 4})
    name = rng.permutation(n_labels)
    inference, subsets = compile_graph(n_labels, larger, method, limit)
    renamed, _ = compile_graph(n_labels, [[name[k] for k in t] for t in larger], method, limit)
    scores = rng.normal(size=(30, len(subsets)))
    moved = scores.copy()
    moved[:, name] = scores[:, :n_labels]
    y, value, *_ = maximize(inference, scores)
    y_renamed, value_renamed, *_ = maximize(renamed, moved)
    np.testing.assert_array_equal(y_renamed[:, name], y)
    np.testing.assert_allclose(value_renamed, value, atol=1e-12)
    np.testing.assert_allclose(renamed.max_marginals(moved, 1)[:, name], inference.max_marginals(scores, 1), atol=1e-10)


@pytest.mark.parametrize("method", ["auto", "mplp", "branch-and-bound"])
def test_threads_do_not_change_the_answer(rng, method):
    inference, subsets = compile_graph(10, random_subsets(rng, 10, {2: 20}), method, 2)
    scores = rng.normal(size=(1000, len(subsets)))
    for one, three in zip(maximize(inference, scores), maximize(inference, scores, 3), strict=True):
        np.testing.assert_array_equal(one, three)
    empty = inference.maximize(scores[:0], 2)
    assert empty.y.shape == (0, 10)


def test_components_and_capabilities_are_reported():
    pairs = [(0, 1), (1, 2), *combinations(range(4, 20), 2)]
    inference, subsets = compile_graph(20, pairs, treewidth_limit=8)
    assert [(part.labels, part.treewidth, part.method) for part in inference.components] == [
        ([0, 1, 2], 1, "elimination"),
        ([3], 0, "elimination"),
        (list(range(4, 20)), 15, "branch-and-bound"),
    ]
    assert inference.treewidth == 15
    assert not inference.has_sums
    with pytest.raises(ValueError, match="within treewidth_limit = 8"):
        inference.sums(np.zeros((1, len(subsets))), 1)


@pytest.mark.parametrize(
    ("larger", "options", "message"),
    [
        ([(0, 1), (0, 1)], {}, "label subset 21 is listed twice"),
        ([(0, 20)], {}, "names label 20, but there are only 20 labels"),
        ([(1, 1)], {}, "once each, in rising order"),
        ([(3,)], {}, "two labels or more"),
        ([], {"method": "guess"}, "method must be one of auto, elimination, .*; got guess"),
        ([], {"treewidth_limit": 25}, "treewidth_limit must be between 0 and 24; got 25"),
        ([], {"node_limit": 0}, "node_limit must be between 1 and"),
        (list(combinations(range(20), 2)), {"method": "elimination"}, "treewidth_limit = 12; got 19. Raise"),
        ([tuple(range(17))], {"method": "mplp"}, "has 17 labels; message passing takes at most 16"),
    ],
)
def test_bad_graphs_are_refused_with_a_reason(larger, options, message):
    with pytest.raises(ValueError, match=message):
        compile_graph(20, larger, **options)


def test_bad_scores_are_refused_with_a_reason():
    inference, _ = compile_graph(3, [(0, 1)])
    with pytest.raises(ValueError, match="one column per label subset, 4; got 3"):
        inference.maximize(np.zeros((1, 3)), 1)
    with pytest.raises(ValueError, match="finite"):
        inference.maximize(np.array([[0.0, np.nan, 0, 0]]), 1)


ENDLESS = """
import numpy as np
from itertools import combinations
from multimargin import _core
subsets = [(k,) for k in range(60)] + list(combinations(range(60), 2))
starts = np.cumsum([0] + [len(t) for t in subsets]).astype(np.int64)
members = np.array([k for t in subsets for k in t], dtype=np.int32)
inference = _core.CliqueInference(_core.LabelSubsets(60, starts, members), treewidth_limit=8, node_limit=10**9)
scores = np.random.default_rng(0).normal(size=(3, len(subsets)))
"""


def test_ctrl_c_ends_an_endless_search():
    assert_answers_ctrl_c("inference.maximize(scores, 2)", setup=ENDLESS)
