"""Minimum cuts and loss-augmented oracles against enumeration of every labelling."""

from itertools import combinations

import numpy as np
import pytest

from multimargin import _core

FAMILIES = ["dense", "sparse", "complete", "integers", "near ties", "no pairs", "weak"]


def all_pairs(n_labels):
    return np.array(list(combinations(range(n_labels), 2)), dtype=np.int32).reshape(-1, 2)


def instances(rng, family, n_labels, n=60):
    """Scores, pairs, weights and true labels; some rows have no true label, some have all."""
    pairs = all_pairs(n_labels)
    share = {"dense": 0.5, "sparse": 0.15, "no pairs": 0.0}.get(family, 1.0)
    pairs = pairs[rng.random(len(pairs)) < share]
    u = rng.normal(size=(n, n_labels))
    w = rng.exponential(size=len(pairs)) * 0.5
    if family == "integers":
        u, w = rng.integers(-3, 4, u.shape).astype(float), rng.integers(0, 3, w.shape).astype(float)
    elif family == "near ties":
        u, w = -0.05 + 1e-3 * rng.normal(size=u.shape), np.full(len(w), 0.01)
    elif family == "weak":
        u, w = 0.2 * u - 0.1, 0.05 * w
    truth = (rng.random((n, n_labels)) < 0.4).astype(np.uint8)
    truth[: n // 6] = 0
    truth[n // 6 : n // 5] = 1
    return np.ascontiguousarray(u), pairs, w, truth


def value_of(u, pairs, w, truth, y, loss="f1"):
    known = truth != 2
    assert not np.any(y[~known])
    score = float(u @ y + np.sum(w * y[pairs[:, 0]] * y[pairs[:, 1]]))
    if loss == "none":
        return score
    if loss == "hamming":
        return score + float(np.sum((y != truth)[known]))
    both = int(np.sum((y == 1) & (truth == 1)))
    total = int(y.sum()) + int(np.sum(truth == 1))
    return score + (1 - 2 * both / total if total else 0.0)


def enumerate_all(u, pairs, w, truth, loss="f1", tie=1e-9):
    smallest, largest = np.empty_like(truth), np.empty_like(truth)
    return _core.testing.exhaustive_oracle(u, pairs, w, truth, loss, tie, smallest, largest), smallest, largest


def exact(u, pairs, w, truth, tol=1e-9, node_limit=10**6, start=None, group_limit=0):
    """With a limit, bounds decide labels and groups up to it are listed; without, cuts do all the work."""
    y = np.zeros_like(truth) if start is None else start.copy()
    return _core.testing.f_score_oracle(u, pairs, w, truth, tol, node_limit, group_limit, y), y


def paper(u, pairs, w, truth, *, upwards=False):
    y = np.zeros_like(truth)
    return _core.testing.paper_oracle(u, pairs, w, truth, upwards, True, y), y


def test_enumeration_is_what_it_says(rng):
    u, pairs, w, truth = instances(rng, "dense", 5, n=20)
    truth[:, 2] = 2
    labellings = np.array(list(np.ndindex(*(2,) * 5)))
    labellings = labellings[labellings[:, 2] == 0]
    for loss in ("f1", "hamming", "none"):
        best, *_ = enumerate_all(u, pairs, w, truth, loss)
        for n in range(20):
            values = [value_of(u[n], pairs, w, truth[n], y, loss) for y in labellings]
            assert best[n] == pytest.approx(max(values), abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_labels", [1, 2, 5, 8])
def test_prediction_is_the_smallest_or_largest_maximiser(rng, family, n_labels):
    u, pairs, w, truth = instances(rng, family, n_labels)
    best, smallest, largest = enumerate_all(u, pairs, w, np.zeros_like(truth), "none")
    for ties, expected in ((False, smallest), (True, largest)):
        y = np.empty_like(truth)
        _core.predict_cut(u, pairs, w, ties, y)
        np.testing.assert_array_equal(y, expected)
        for n in range(len(u)):
            assert value_of(u[n], pairs, w, truth[n], y[n], "none") == pytest.approx(best[n], abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_marginals_are_differences_of_maxima(rng, family):
    u, pairs, w, truth = instances(rng, family, 6, n=20)
    worth, y = np.empty_like(u), np.empty_like(truth)
    _core.cut_marginals(u, pairs, w, worth)
    _core.predict_cut(u, pairs, w, False, y)
    np.testing.assert_array_equal(worth > 0, y == 1)
    labellings = np.array(list(np.ndindex(*(2,) * 6)))
    for n in range(20):
        values = np.array([value_of(u[n], pairs, w, truth[n], z, "none") for z in labellings])
        for i in range(6):
            with_i, without = values[labellings[:, i] == 1].max(), values[labellings[:, i] == 0].max()
            assert worth[n, i] == pytest.approx(with_i - without, abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_labels", [1, 3, 7, 10, 12])
def test_exact_oracle_equals_enumeration(rng, family, n_labels):
    u, pairs, w, truth = instances(rng, family, n_labels, n=120 if n_labels < 12 else 40)
    best, *_ = enumerate_all(u, pairs, w, truth)
    starts = (None, truth, (rng.random(truth.shape) < 0.5).astype(np.uint8))
    for start, limit in [(start, 0) for start in starts] + [(None, 1), (None, 12)]:
        answer, y = exact(u, pairs, w, truth, start=start, group_limit=limit)
        np.testing.assert_allclose(answer["lower"], best, atol=1e-8)
        assert np.all(answer["upper"] >= best - 1e-9)
        assert np.all(answer["upper"] <= best + 1e-8)
        values = [value_of(u[n], pairs, w, truth[n], y[n]) for n in range(len(u))]
        np.testing.assert_allclose(values, answer["lower"], atol=1e-9)


def test_exact_oracle_equals_enumeration_with_fourteen_labels(rng):
    u, pairs, w, truth = instances(rng, "near ties", 14, n=12)
    best, *_ = enumerate_all(u, pairs, w, truth)
    for limit in (0, 14):
        answer, _ = exact(u, pairs, w, truth, group_limit=limit)
        np.testing.assert_allclose(answer["lower"], best, atol=1e-8)


def test_many_small_groups_of_attraction(rng):
    """Chains and triangles: listed group by group, the counts added up."""
    pairs = np.array([(0, 1), (1, 2), (3, 4), (4, 5), (3, 5), (6, 7), (8, 9), (9, 10), (10, 11)], dtype=np.int32)
    u = 0.2 * rng.normal(size=(150, 13)) - 0.1
    w = rng.random(len(pairs)) * 0.2
    truth = (rng.random(u.shape) < 0.3).astype(np.uint8)
    truth[rng.random(u.shape) < 0.05] = 2
    best, *_ = enumerate_all(u, pairs, w, truth)
    answer, y = exact(u, pairs, w, truth, group_limit=4)
    assert not answer["cuts"].any()
    np.testing.assert_allclose(answer["lower"], best, atol=1e-12)
    np.testing.assert_array_equal(answer["upper"], answer["lower"])
    np.testing.assert_allclose(
        [value_of(u[n], pairs, w, truth[n], y[n]) for n in range(len(u))], answer["lower"], atol=1e-12
    )
    cut, _ = exact(u, pairs, w, truth)
    assert cut["cuts"].sum() > 150
    np.testing.assert_allclose(cut["lower"], best, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_unknown_labels_stay_off_and_out_of_the_loss(rng, family):
    u, pairs, w, truth = instances(rng, family, 8)
    truth[rng.random(truth.shape) < 0.3] = 2
    truth[5] = 2
    best, *_ = enumerate_all(u, pairs, w, truth)
    for limit in (0, 12):
        answer, y = exact(u, pairs, w, truth, start=np.ones_like(truth), group_limit=limit)
        assert not np.any(y[truth == 2])
        np.testing.assert_allclose(answer["lower"], best, atol=1e-8)
    assert best[5] == 0.0
    _, z = paper(u, pairs, w, truth)
    assert not np.any(z[truth == 2])


def test_pairs_of_weight_zero_change_nothing(rng):
    u, _, _, truth = instances(rng, "no pairs", 9)
    pairs = all_pairs(9)
    none, _ = exact(u, pairs[:0], np.zeros(0), truth)
    zeros, _ = exact(u, pairs, np.zeros(len(pairs)), truth)
    tiny, _ = exact(u, pairs, np.full(len(pairs), 1e-12), truth)
    listed, _ = exact(u, pairs, np.full(len(pairs), 1e-12), truth, group_limit=12)
    best, *_ = enumerate_all(u, pairs[:0], np.zeros(0), truth)
    np.testing.assert_array_equal(none["lower"], zeros["lower"])
    np.testing.assert_allclose(none["lower"], best, atol=1e-12)  # sorting alone
    np.testing.assert_allclose(tiny["lower"], best, atol=1e-8)  # the envelope of planes
    np.testing.assert_allclose(listed["lower"], best, atol=1e-10)
    assert not none["cuts"].any()
    assert not listed["cuts"].any()
    assert tiny["cuts"].all()


def densest_subgraph_gadget(rng, n_false, k, m=3):
    """Scores for which the oracle must find the densest subgraph on k of the false labels."""
    n_labels = m + n_false
    inner = [(m + a, m + b) for a, b in combinations(range(n_false), 2) if rng.random() < 0.5]
    pairs = np.array(inner, dtype=np.int32).reshape(-1, 2)

    def h(f):
        return 1 - 2 * m / (2 * m + f)

    up, down = h(k + 1) - h(k), h(k) - h(k - 1)
    w = np.full(len(pairs), 0.4 * (down - up) / max(len(pairs), 1))
    u = np.full((1, n_labels), -(up + down) / 2)
    u[0, :m] = 5.0
    truth = np.zeros((1, n_labels), dtype=np.uint8)
    truth[0, :m] = 1
    return u, pairs, w, truth


def test_solves_densest_subgraph(rng):
    for k in (2, 3, 4, 5):
        u, pairs, w, truth = densest_subgraph_gadget(rng, 9, k)
        _, y = exact(u, pairs, w, truth, tol=1e-12)
        chosen = set(np.flatnonzero(y[0]).tolist()) - {0, 1, 2}

        def edges(nodes, pairs=pairs):
            return sum(a in nodes and b in nodes for a, b in pairs.tolist())

        assert len(chosen) == k
        assert edges(chosen) == max(edges(set(c)) for c in combinations(range(3, 12), k))


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
def test_bracket_of_a_limited_search_is_valid(rng, limit):
    cases = [instances(rng, family, 10, n=40) for family in ("dense", "near ties", "integers")]
    cases += [densest_subgraph_gadget(rng, 9, k) for k in (2, 3, 4)]
    open_brackets = 0
    for case in cases:
        best, *_ = enumerate_all(*case)
        answer, y = exact(*case, node_limit=limit)
        assert np.all(answer["lower"] <= best + 1e-9)
        assert np.all(answer["upper"] >= best - 1e-9)
        assert np.all(answer["nodes"] <= limit)
        open_brackets += np.sum(answer["upper"] > answer["lower"] + 1e-8)
        for n in range(len(y)):
            value = value_of(case[0][n], case[1], case[2], case[3][n], y[n])
            assert value == pytest.approx(answer["lower"][n], abs=1e-9)
    assert open_brackets > 0


def test_published_algorithm(rng):
    """Both directions agree, some optimum contains the answer, and no test certifies a wrong one."""
    optimal = certified_paper = certified_tight = total = 0
    for family in FAMILIES:
        for n_labels in (1, 4, 8):
            u, pairs, w, truth = instances(rng, family, n_labels)
            truth[truth.sum(axis=1) == 0, 0] = 1  # it has no answer for rows without a true label
            best, _, largest = enumerate_all(u, pairs, w, truth)
            down, y = paper(u, pairs, w, truth)
            up, z = paper(u, pairs, w, truth, upwards=True)
            np.testing.assert_array_equal(y, z)
            assert down["cuts"].sum() <= up["cuts"].sum()
            assert np.all(y <= largest)
            values = [value_of(u[n], pairs, w, truth[n], y[n]) for n in range(len(u))]
            np.testing.assert_allclose(values, down["value"], atol=1e-9)
            wrong = down["value"] < best - 1e-8
            assert not np.any(wrong & (down["paper"] == 1))
            assert not np.any(wrong & (down["tight"] == 1))
            optimal += np.sum(~wrong)
            certified_paper += down["paper"].sum()
            certified_tight += down["tight"].sum()
            total += len(u)
    assert certified_paper <= certified_tight <= optimal < total


def test_partial_optimality_is_a_common_optimum(rng):
    """Theorem 1: fixing the answer's labels to present does not lower the maximum."""
    u, pairs, w, truth = instances(rng, "dense", 8)
    truth[truth.sum(axis=1) == 0, 0] = 1
    _, y = paper(u, pairs, w, truth)
    best, *_ = enumerate_all(u, pairs, w, truth)
    forced, *_ = enumerate_all(np.where(y == 1, u + 1e3, u), pairs, w, truth)
    np.testing.assert_allclose(forced - 1e3 * y.sum(axis=1), best, atol=1e-8)


def test_published_algorithm_misses_the_jump_of_an_empty_truth():
    u, pairs, w, truth = np.full((1, 3), -0.5), all_pairs(3), np.full(3, 0.1), np.zeros((1, 3), dtype=np.uint8)
    down, y = paper(u, pairs, w, truth)
    assert not y.any()
    assert not down["tight"][0]
    answer, z = exact(u, pairs, w, truth)
    assert answer["lower"][0] == pytest.approx(0.5)  # loss 1, one label of score -0.5
    assert z.sum() == 1


def test_scores_of_zero_give_loss_one(rng):
    truth = (rng.random((30, 7)) < 0.4).astype(np.uint8)
    truth[truth.sum(axis=1) == 0, 3] = 1
    truth[truth.sum(axis=1) == 7, 0] = 0
    answer, y = exact(np.zeros((30, 7)), all_pairs(7), np.zeros(21), truth)
    np.testing.assert_array_equal(answer["lower"], 1.0)
    assert not np.any(y & truth)


@pytest.mark.parametrize("family", FAMILIES)
def test_permuting_labels_keeps_the_value(rng, family):
    u, pairs, w, truth = instances(rng, family, 9)
    order = rng.permutation(9)
    place = np.argsort(order).astype(np.int32)
    a, _ = exact(u, pairs, w, truth)
    b, _ = exact(np.ascontiguousarray(u[:, order]), place[pairs], w, np.ascontiguousarray(truth[:, order]))
    np.testing.assert_allclose(a["lower"], b["lower"], atol=1e-8)


def test_larger_tolerance_needs_no_more_nodes(rng):
    nodes = []
    for tol in (1e-9, 1e-6, 1e-3, 1e-1):
        total = 0
        for k in (2, 3, 4, 5, 6):
            total += exact(*densest_subgraph_gadget(np.random.default_rng(k), 14, k), tol=tol)[0]["nodes"].sum()
        for family in ("dense", "near ties"):
            total += exact(*instances(np.random.default_rng(5), family, 12), tol=tol)[0]["nodes"].sum()
        nodes.append(total)
    assert nodes == sorted(nodes, reverse=True)


def mean_f(u, pairs, w, truth, offset):
    y = np.empty_like(truth)
    _core.predict_cut(np.ascontiguousarray(u + offset), pairs, w, False, y)
    known = truth != 2
    both = np.sum((y == 1) & (truth == 1), axis=1)
    total = np.sum((y == 1) & known, axis=1) + np.sum(truth == 1, axis=1)
    return np.where(total > 0, 2 * both / np.maximum(total, 1), 1.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_path_of_offsets_equals_prediction_at_each(rng, family):
    u, pairs, w, truth = instances(rng, family, 8)
    truth[rng.random(truth.shape) < 0.1] = 2
    start, offsets, changes, ends = _core.f_score_path(u, pairs, w, truth, np.zeros(8, dtype=np.uint8), -1.0, 1.5)
    row = np.repeat(np.arange(len(u)), np.diff(ends, prepend=0))
    np.testing.assert_allclose(start, mean_f(u, pairs, w, truth, -1.0), atol=1e-12)
    for offset in rng.uniform(-1, 1.5, size=20):
        passed = offsets < offset
        value = start + np.bincount(row[passed], changes[passed], minlength=len(u))
        np.testing.assert_allclose(value, mean_f(u, pairs, w, truth, offset), atol=1e-9)
