from itertools import combinations
from math import log, prod, sqrt

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib import pyplot
from scipy.stats import chi2_contingency, hypergeom

from multimargin.datasets import load
from multimargin.errors import InputError
from multimargin.inspection import dependence, describe
from multimargin.inspection.dependence import benjamini_hochberg
from multimargin.labels import read_labels


def some_labels(n=120, n_labels=6, seed=0, unknown=0.0):
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, 2)) @ rng.normal(size=(2, n_labels)) + rng.normal(size=(n, n_labels))
    Y = (hidden > rng.uniform(-0.5, 2.5, n_labels)).astype(float)
    Y[rng.random(Y.shape) < unknown] = np.nan
    return Y


def rows_of(Y):
    return [[k for k in range(Y.shape[1]) if row[k] == 1] for row in Y]


def slow_imbalance(Y):
    counts = [sum(row[k] == 1 for row in Y) for k in range(Y.shape[1])]
    return [max(counts) / count if count else np.nan for count in counts]


def slow_scumble(Y):
    imbalance, found = slow_imbalance(Y), []
    for row in rows_of(Y):
        values = [imbalance[k] for k in row]
        found.append(1 - prod(values) ** (1 / len(row)) / (sum(values) / len(row)) if row else 0.0)
    return found


def slow_table(Y, first, second):
    known = [(row[first], row[second]) for row in Y if not np.isnan(row[first]) and not np.isnan(row[second])]
    return np.array([[sum(pair == (a, b) for pair in known) for b in (1, 0)] for a in (1, 0)])


def slow_p_value(table):
    n, a, b = table.sum(), table[0].sum(), table[:, 0].sum()
    if np.outer(table.sum(axis=1), table.sum(axis=0)).min() / n >= 5:
        return chi2_contingency(table, correction=False).pvalue
    half = 0.5 * hypergeom.pmf(table[0, 0], n, a, b)
    upper = sum(hypergeom.pmf(k, n, a, b) for k in range(table[0, 0] + 1, min(a, b) + 1)) + half
    lower = sum(hypergeom.pmf(k, n, a, b) for k in range(table[0, 0])) + half
    return min(1.0, 2 * upper, 2 * lower)


@pytest.mark.parametrize("unknown", [0.0, 0.2])
@pytest.mark.parametrize("n_labels", [1, 2, 7])
def test_numbers_equal_their_formulas_in_plain_loops(n_labels, unknown):
    Y = some_labels(n_labels=n_labels, unknown=unknown, seed=n_labels)
    found = describe(Y)
    shares = [np.nanmean(column) for column in Y.T]
    assert found.cardinality == pytest.approx(sum(shares))
    assert found.density == pytest.approx(np.mean(shares))
    assert found.unknown == pytest.approx(np.isnan(Y).mean())
    complete = [tuple(row) for row in Y if not np.isnan(row).any()]
    assert found.n_sets == len(set(complete))
    assert found.n_sets_once == sum(complete.count(row) == 1 for row in set(complete))
    assert found.largest_set_share == pytest.approx(max(map(complete.count, complete)) / len(complete))
    assert found.n_empty_rows == complete.count((0.0,) * n_labels)
    imbalance, scumble = slow_imbalance(Y), slow_scumble(Y)
    np.testing.assert_allclose(found.imbalance, imbalance)
    assert found.mean_imbalance == pytest.approx(np.nanmean(imbalance))
    assert found.max_imbalance == np.nanmax(imbalance)
    if n_labels > 1:
        assert found.imbalance_variation == pytest.approx(np.nanstd(imbalance, ddof=1) / np.nanmean(imbalance))
    assert found.scumble == pytest.approx(np.mean(scumble))
    for k in range(n_labels):
        own = [value for value, row in zip(scumble, rows_of(Y), strict=True) if k in row]
        assert found.scumble_of_label[k] == pytest.approx(np.mean(own), abs=1e-12)


@pytest.mark.parametrize("unknown", [0.0, 0.3])
@pytest.mark.parametrize("n", [14, 150])
def test_pairs_equal_a_test_of_every_table(n, unknown, monkeypatch):
    monkeypatch.setattr(dependence, "BLOCK", 4)
    Y = some_labels(n, 6, seed=n, unknown=unknown)
    pairs = describe(Y).dependence
    listed = {tuple(columns): k for k, columns in enumerate(pairs.columns.tolist())}
    tables = {pair: slow_table(Y, *pair) for pair in combinations(range(6), 2)}
    testable = {pair for pair, t in tables.items() if t.sum(axis=0).all() and t.sum(axis=1).all()}
    assert set(listed) == testable
    assert pairs.n_tests == len(testable) > 0
    for pair, k in listed.items():
        (both, only_first), (only_second, neither) = table = tables[pair]
        a, b, total = both + only_first, both + only_second, table.sum()
        assert pairs.together[k] == both
        phi = (both * neither - only_first * only_second) / sqrt(a * b * (total - a) * (total - b))
        assert pairs.phi[k] == pytest.approx(phi, abs=1e-12)
        assert pairs.lift[k] == pytest.approx(both * total / (a * b))
        assert pairs.p_value[k] == pytest.approx(slow_p_value(table), rel=1e-8, abs=1e-300)
    assert (np.diff(np.abs(pairs.phi)) <= 1e-12).all()


def test_the_sample_has_both_kinds_of_tests():
    few = describe(some_labels(14, 6, seed=14)).dependence
    assert few.n_tests
    Y = some_labels(150, 6, seed=150)
    smallest = [
        np.outer(t.sum(axis=1), t.sum(axis=0)).min() / t.sum()
        for t in (slow_table(Y, *p) for p in combinations(range(6), 2))
    ]
    assert max(smallest) >= 5 > min(smallest)


@pytest.mark.parametrize("n_tests", [30, 100])
def test_false_discoveries_by_the_definition(n_tests):
    p = np.random.default_rng(n_tests).uniform(size=30) ** 3
    p[3] = p[4]
    q = benjamini_hochberg(p, n_tests)
    for level in np.linspace(0.01, 0.99, 60):
        ranks = [k for k in range(1, 31) if sorted(p)[k - 1] <= level * k / n_tests]
        rejected = p <= sorted(p)[max(ranks) - 1] if ranks else np.zeros(30, dtype=bool)
        np.testing.assert_array_equal(q <= level, rejected)
    assert benjamini_hochberg(np.zeros(0), 0).size == 0


def test_the_cautious_line_by_the_definition():
    pairs = describe(some_labels(150, 12, seed=5)).dependence
    level = 0.05 / sum(1 / k for k in range(1, pairs.n_tests + 1))
    order = sorted(pairs.p_value)
    ranks = [k for k in range(1, len(order) + 1) if order[k - 1] <= level * k / pairs.n_tests]
    np.testing.assert_array_equal(pairs.surely_significant, pairs.p_value <= order[max(ranks) - 1])
    assert 0 < pairs.surely_significant.sum() < pairs.significant.sum()


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_all_forms_of_Y_say_the_same(unknown):
    Y = some_labels(unknown=unknown)
    expected = describe(Y)
    forms = [sp.csr_array(Y), sp.coo_matrix(Y), sp.csc_matrix(Y), pd.DataFrame(Y, columns=range(6)), np.float32(Y)]
    forms.append(read_labels(Y))
    if not unknown:
        forms += [[set(row) for row in rows_of(Y)], Y.astype(bool), 2 * Y - 1]
    for form in forms:
        found = describe(form)
        pd.testing.assert_frame_equal(found.frame(), expected.frame(), check_index_type=False)
        pd.testing.assert_frame_equal(found.pairs_frame(), expected.pairs_frame(), check_dtype=False)
        assert str(found) == str(expected)


def test_permuted_labels_permute_the_answer():
    Y, names = some_labels(unknown=0.1), np.array(list("abcdef"), dtype=object)
    order = np.random.default_rng(1).permutation(6)
    found, permuted = describe(Y, names=names), describe(Y[:, order], names=names[order])
    pd.testing.assert_frame_equal(found.frame().loc[names[order]], permuted.frame())

    def by_names(frame):
        keys = [tuple(sorted(pair)) for pair in zip(frame["first"], frame["second"], strict=True)]
        return frame.drop(columns=["first", "second"]).set_index(pd.Index(keys)).sort_index()

    pd.testing.assert_frame_equal(by_names(found.pairs_frame()), by_names(permuted.pairs_frame()))
    assert permuted.scumble == pytest.approx(found.scumble)


def test_many_labels_list_the_strongest_pairs_and_count_all(monkeypatch):
    Y = some_labels(60, 30, seed=3)
    whole = describe(Y).dependence
    monkeypatch.setattr(dependence, "MOST_LABELS", 10)
    monkeypatch.setattr(dependence, "MOST_PAIRS", 25)
    part = describe(Y).dependence
    together = whole.together > 0
    assert whole.n_tests == part.n_tests
    np.testing.assert_array_equal(part.columns, whole.columns[together][:25])
    np.testing.assert_allclose(part.p_value, whole.p_value[together][:25])
    # listing a part of the tests never finds more
    assert (part.q_value >= whole.q_value[together][:25] - 1e-12).all()


def test_thousands_of_labels_stay_sparse():
    rng = np.random.default_rng(0)
    n, n_labels = 4000, 40_000
    Y = sp.csr_array((np.ones(3 * n), (np.repeat(np.arange(n), 3), rng.integers(0, n_labels, 3 * n))), (n, n_labels))
    Y.data[:] = 1.0
    found = describe(Y)
    assert len(found.dependence.columns) <= 10_000
    assert found.positives.sum() == Y.nnz
    assert "labels" in str(found)


def test_warnings_name_labels_and_remedies():
    Y = pd.DataFrame(
        {
            "never": [0, 0, 0, 0, 0, 0],
            "always": [1, 1, 1, 1, 1, 1],
            "once": [1, 0, 0, 0, 0, 0],
            "twin": [0, 1, 1, 0, 0, 0],
            "other": [0, 1, 1, 0, 0, 0],
            "unknown": [np.nan] * 6,
        }
    )
    said = "\n".join(describe(Y).warnings)
    for words in ("'never' is in no row", "'always' is in every row", "'once' has 1 positive", "'twin' = 'other'"):
        assert words in said
    assert "'unknown' is known in no row" in said
    assert describe([[1, 0], [0, 0], [1, 0], [0, 1], [0, 1]]).warnings == (
        "1 row has no label: example-based F1 counts an empty prediction there as right.",
    )
    assert "multi-class" in describe(np.eye(4)[[0, 1, 2, 3, 0, 1, 2, 3]]).warnings[-1]
    rare = np.zeros((300, 2), dtype=int)
    rare[:250, 0] = 1
    rare[:2, 1] = 1
    assert any("imbalance of 1 label is above 100" in warning for warning in describe(rare).warnings)
    assert describe([[1, 1], [0, 1], [1, 0], [1, 1], [0, 1]]).warnings == ()


def test_degenerate_labels():
    empty = describe(np.zeros((3, 2)))
    assert np.isnan(empty.mean_imbalance)
    assert empty.scumble == 0.0
    assert empty.dependence.n_tests == 0
    assert empty.n_empty_rows == 3
    assert empty.pairs_frame().empty
    nothing = describe(np.full((3, 2), np.nan))
    assert nothing.unknown == 1.0
    assert nothing.n_sets == 0
    assert np.isnan(nothing.largest_set_share)
    assert str(nothing)
    assert describe([0, 1, 1, 0]).cardinality == 0.5


def test_the_complexity_needs_the_rows():
    Y = some_labels(40, 3)
    assert describe(Y).complexity is None
    found = describe(Y, sp.csr_array((40, 11)))
    assert found.complexity == pytest.approx(log(11 * 3 * found.n_sets))
    with pytest.raises(InputError, match="X has 39 rows"):
        describe(Y, np.zeros((39, 2)))
    with pytest.raises(InputError, match="at least one feature"):
        describe(Y, np.zeros(40))
    with pytest.raises(InputError, match="2 label names"):
        describe(Y, names=["a", "b"])


@pytest.mark.parametrize("n_labels", [1, 6, 100])
def test_pictures_side_by_side(n_labels):
    found = describe(some_labels(200, n_labels))
    counts, pairs = found.plot()
    assert counts.figure_ is pairs.figure_
    counts.figure_.canvas.draw()
    assert sorted(counts.positives) == sorted(found.positives)
    significant = found.pairs_frame().query("significant")
    drawn = pairs.frame()
    inside = significant["first"].isin(drawn.index) & significant["second"].isin(drawn.index)
    for row in significant[inside].itertuples():
        assert drawn.loc[row.first, row.second] == drawn.loc[row.second, row.first] == row.phi
    assert np.isfinite(drawn.to_numpy()).sum() == 2 * inside.sum()
    pyplot.close(counts.figure_)


@pytest.mark.parametrize(
    ("name", "cardinality", "n_sets", "mean_imbalance", "scumble", "complexity"),
    [
        ("emotions", 1.8685, 27, 1.4781, 0.0110, 9.364),
        ("scene", 1.0740, 15, 1.2538, 0.0003, 10.183),
        ("yeast", 4.2371, 198, 7.1968, 0.1044, 12.562),
        ("enron", 3.3784, 753, 73.953, 0.3028, 17.503),
        ("mediamill", 4.3756, 6555, 256.40, 0.3547, 18.191),
    ],
)
def test_known_numbers_of_real_labels(name, cardinality, n_sets, mean_imbalance, scumble, complexity, data_home):
    data = load(name, data_home=data_home, download=False)
    X = sp.csr_array((data.X_train.shape[0] + data.X_test.shape[0], data.X_train.shape[1]))
    found = describe(sp.vstack([data.Y_train, data.Y_test]), X, names=data.label_names)
    assert found.n_sets == n_sets
    numbers = (found.cardinality, found.mean_imbalance, found.scumble, found.complexity)
    np.testing.assert_allclose(numbers, (cardinality, mean_imbalance, scumble, complexity), rtol=1e-4, atol=6e-5)
