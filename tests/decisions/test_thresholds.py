"""Thresholds against brute force on tiny data, and identities."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from multimargin import metrics
from multimargin.decisions import tune_thresholds
from multimargin.decisions._cells import read_cells
from multimargin.decisions._cuts import find_cuts
from multimargin.decisions._row_rules import best_offset, coordinate_ascent, top
from multimargin.decisions._scoring import read_scoring
from multimargin.errors import InputError


def tiny(rng, n=7, n_labels=3, unknown=0.0, weighted=False, distinct=4, dtype=np.float64):
    """Few scores, so that many are tied; labels of every count from none to all."""
    scores = rng.integers(-distinct, distinct, size=(n, n_labels)).astype(dtype) / 2
    Y = (rng.random((n, n_labels)) < rng.choice([0.0, 0.3, 0.6, 1.0], size=n_labels)).astype(float)
    Y[rng.random(Y.shape) < unknown] = np.nan
    weights = rng.integers(0, 4, size=n).astype(float) if weighted else np.ones(n)
    weights[0] = max(weights[0], 1.0)
    return scores, Y, weights


def candidates(column):
    """Thresholds of all predictions a cut can make."""
    values = np.unique(column)
    return [-np.inf, *((values[1:] + values[:-1]) / 2), np.inf]


def f_beta(hits, present, predicted, b=1.0):
    whole = b * present + predicted
    return (1 + b) * hits / whole if whole > 0 else np.nan


def counts(scores, Y, weights, thresholds):
    guess = (scores > thresholds) & ~np.isnan(Y)
    truth = Y == 1
    return [(weights[:, None] * part).sum(axis=0) for part in (truth & guess, truth, guess)]


def macro(scores, Y, weights, thresholds, b=1.0):
    values = [f_beta(*cell, b) for cell in zip(*counts(scores, Y, weights, thresholds), strict=True)]
    return np.nanmean(values) if not np.isnan(values).all() else np.nan


def micro(scores, Y, weights, thresholds, b=1.0):
    return f_beta(*(part.sum() for part in counts(scores, Y, weights, thresholds)), b)


def example(scores, Y, weights, thresholds, b=1.0):
    guess, truth = (scores > thresholds) & ~np.isnan(Y), Y == 1
    f = [f_beta(*x, b) for x in zip((guess & truth).sum(1), truth.sum(1), guess.sum(1), strict=True)]
    known = ~np.isnan(Y).all(axis=1)
    return np.average(np.nan_to_num(f, nan=1.0), weights=weights * known) if (weights * known).sum() else np.nan


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_per_label_f_equals_brute_force(rng, beta, dtype):
    for trial in range(60):
        scores, Y, weights = tiny(rng, unknown=0.2 * (trial % 2), weighted=trial % 3 == 0, dtype=dtype)
        found = tune_thresholds(scores, Y, "macro-fbeta", beta=beta, shrinkage=0, sample_weight=weights)
        for label in range(3):
            column = slice(label, label + 1)
            part = scores[:, column], Y[:, column], weights

            def value(t, part=part):
                return np.nan_to_num(macro(*part, t, beta**2))

            best = max(value(t) for t in candidates(scores[:, label]))
            assert value(found.values[label]) == pytest.approx(best, abs=1e-12)
            fewest = min(counts(*part, t)[2][0] for t in candidates(scores[:, label]) if value(t) > best - 1e-12)
            assert counts(*part, found.values[label])[2][0] == pytest.approx(fewest)  # of equals, the highest
        assert found.score == pytest.approx(macro(scores, Y, weights, found.values, beta**2), nan_ok=True)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_per_label_micro_f_equals_brute_force(rng, beta):
    for trial in range(40):
        scores, Y, weights = tiny(rng, unknown=0.2 * (trial % 2), weighted=trial % 3 == 0)
        found = tune_thresholds(scores, Y, "micro-fbeta", rule="per-label", beta=beta, sample_weight=weights)
        every = itertools.product(*(candidates(scores[:, label]) for label in range(3)))
        best = max(np.nan_to_num(micro(scores, Y, weights, np.array(t), beta**2)) for t in every)
        assert np.nan_to_num(micro(scores, Y, weights, found.values, beta**2)) == pytest.approx(best, abs=1e-12)
        assert np.nan_to_num(found.score) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("metric", ["example", "macro", "micro"])
def test_one_threshold_for_all_labels_equals_brute_force(rng, metric):
    value = {"example": example, "macro": macro, "micro": micro}[metric]
    for trial in range(60):
        scores, Y, weights = tiny(rng, unknown=0.2 * (trial % 2), weighted=trial % 3 == 0)
        cells = read_cells(scores, Y, weights)
        scoring = read_scoring(f"{metric}-f1", 3, 1.0, None, None)
        if metric == "micro":
            pooled = cells.pooled()
            cuts = find_cuts(pooled)
            t = cuts.at(cuts.best(scoring.f_measure(cuts.hits, cuts.positives[cuts.label_of_cut], cuts.predicted)))[0][
                0
            ]
        else:
            t = best_offset(cells, scoring)
        labels = ~(counts(scores, Y, weights, 0)[1] == 0) if metric == "macro" else np.ones(3, dtype=bool)
        if not labels.any():
            continue  # macro F is the mean over labels that occur
        part = scores[:, labels], Y[:, labels], weights
        best = max(np.nan_to_num(value(*part, c)) for c in candidates(scores))
        assert np.nan_to_num(value(*part, t)) == pytest.approx(best, abs=1e-12)


def test_offset_with_at_least_one_label_equals_brute_force(rng):
    scoring = read_scoring("example-f1", 3, 1.0, None, None)
    for trial in range(60):
        scores, Y, weights = tiny(rng, unknown=0.2 * (trial % 2), weighted=trial % 3 == 0)
        cells = read_cells(scores, Y, weights)
        first = top(scores, 1).toarray()

        def value(t, scores=scores, Y=Y, weights=weights, first=first):
            return example(np.where(first, np.inf, scores), Y, weights, min(t, 1e9))

        best = max(value(t) for t in candidates(scores))
        assert value(best_offset(cells, scoring, always_one=True)) == pytest.approx(best, nan_ok=True)


def test_costs_equal_brute_force(rng):
    for _ in range(40):
        scores, Y, weights = tiny(rng, unknown=0.1, weighted=True)
        costs = rng.uniform(0.5, 3, size=(2, 3))
        found = tune_thresholds(scores, Y, "cost", rule="per-label", costs=tuple(costs), sample_weight=weights)

        def cost(t, label, scores=scores, Y=Y, weights=weights, costs=costs):
            hits, present, predicted = (part[label] for part in counts(scores, Y, weights, t))
            return costs[0, label] * (predicted - hits) + costs[1, label] * (present - hits)

        for label in range(3):
            best = min(cost(t, label) for t in candidates(scores[:, label]))
            assert cost(found.values[label], label) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("confidence", [None, 0.8])
@pytest.mark.parametrize("name", ["precision-at-recall", "recall-at-precision"])
def test_levels_are_kept_and_no_allowed_cut_is_better(rng, name, confidence):
    from multimargin.decisions._scoring import wilson

    for _ in range(60):
        scores, Y, weights = tiny(rng, n=9)
        level = rng.uniform(0.2, 1)
        found = tune_thresholds(scores, Y, (name, level), confidence=confidence)
        for label in range(3):

            def shares(t, label=label, scores=scores, Y=Y, weights=weights):
                hits, present, predicted = (part[label : label + 1] for part in counts(scores, Y, weights, t))
                pair = wilson(hits, predicted, confidence)[0], wilson(hits, present, confidence)[0]
                return pair if name == "precision-at-recall" else pair[::-1]

            allowed = [t for t in candidates(scores[:, label]) if t < np.inf and shares(t)[1] >= level - 1e-12]
            if np.nansum(Y[:, label]) == 0:
                continue
            assert found.infeasible[label] == (not allowed)
            if allowed:
                value, kept = shares(found.values[label])
                assert kept >= level - 1e-12
                assert value >= max(shares(t)[0] for t in allowed) - 1e-12
            else:
                assert found.values[label] == np.inf


def test_confidence_bounds_the_recall_of_few_positives():
    scores, Y = np.arange(20.0)[:, None], (np.arange(20) >= 15).astype(int)[:, None]
    assert tune_thresholds(scores, Y, ("precision-at-recall", 0.75), confidence=0.9).values[0] == 14.5
    assert tune_thresholds(scores, Y, ("precision-at-recall", 0.76), confidence=0.9).infeasible[0]


def test_coordinate_ascent_never_decreases(rng):
    scoring = read_scoring("example-f1", 4, 1.0, None, None)
    for _ in range(30):
        scores, Y, weights = tiny(rng, n=12, n_labels=4, unknown=0.1, weighted=True)
        cells = read_cells(scores, Y, weights)
        start = np.full(4, best_offset(cells, scoring))
        end = coordinate_ascent(cells, scoring, start)
        before, after = example(scores, Y, weights, start), example(scores, Y, weights, end)
        assert after >= before - 1e-12
        for label in range(4):  # no threshold alone can be improved
            for t in candidates(scores[:, label]):
                other = np.where(np.arange(4) == label, t, end)
                assert example(scores, Y, weights, other) <= after + 1e-9


def test_rcut_is_the_best_number_of_labels(rng):
    for _ in range(10):
        scores, Y, _ = tiny(rng, n=30, n_labels=5, distinct=50)
        Y = np.nan_to_num(Y)
        found = tune_thresholds(scores, Y, "example-f1", rule="rcut")
        odds = found.calibration.log_odds(scores)
        values = [metrics.example_f1(Y, top(odds, k).toarray().astype(int)) for k in range(1, 6)]
        assert found.size == int(np.argmax(values)) + 1
        assert found.score == pytest.approx(max(values))


def test_shrinkage_lies_between_the_best_threshold_and_the_quota(rng):
    scores = rng.normal(size=(200, 5))
    Y = scores + rng.normal(size=(200, 5)) > np.array([2.5, 1.5, 0.5, -1.0, 9.0])
    best, quota = (tune_thresholds(scores, Y, shrinkage=k).values for k in (0, np.inf))
    assert np.array_equal(quota, tune_thresholds(scores, Y, rule="pcut").values)
    assert (np.sum(scores > quota, axis=0) == Y.sum(axis=0)).all()
    some = tune_thresholds(scores, Y, shrinkage=30.0)
    P = Y.sum(axis=0)
    assert np.allclose(some.weights, np.where(P > 0, P / (P + 30.0), 0))
    finite = P > 0
    blend = some.weights[finite] * best[finite] + (1 - some.weights[finite]) * quota[finite]
    assert np.allclose(some.values[finite], blend)
    assert (some.values[~finite] == np.inf).all()


def test_labels_without_and_with_all_positives():
    scores = np.array([[0.1, 0.3], [0.2, 0.1], [0.3, 0.2]])
    found = tune_thresholds(scores, np.array([[0, 1], [0, 1], [0, 1]]))
    assert found.values.tolist() == [np.inf, -np.inf]
    found = tune_thresholds(scores[:, 0], np.array([0, 1, 0]), shrinkage=0)
    assert found.predict(scores[:, 0]).ravel().tolist() == [0, 1, 1]


def test_adjacent_scores_are_told_apart():
    for dtype in (np.float32, np.float64):
        low = dtype(1.0)
        high = np.nextafter(low, dtype(2.0))
        scores = np.array([[low], [high]], dtype=dtype)
        found = tune_thresholds(scores, [[0], [1]], shrinkage=0)
        assert found.predict(scores).ravel().tolist() == [0, 1]
        assert (scores[:, 0] > dtype(found.values[0])).tolist() == [False, True]
    huge = np.array([[-1.5e308], [1.5e308]])
    assert tune_thresholds(huge, [[0], [1]], shrinkage=0).predict(huge).ravel().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("scoring", "rule"),
    [
        ("macro-f1", "per-label"),
        ("macro-f1", "offset"),
        ("micro-f1", "offset"),
        ("micro-f1", "per-label"),
        ("micro+macro-f1", "auto"),
        ("weighted-f1", "pcut"),
        ("hamming-loss", "auto"),
        ("subset-accuracy", "auto"),
        ("subset-accuracy", "seen-sets"),
        ("subset-accuracy", "decode"),
        ("example-f1", "auto"),
        ("example-f1", "offset"),
        ("example-f1", "at-least-one"),
        ("example-f1", "rcut"),
        ("example-f1", "decode"),
        ("example-f1", "per-label"),
    ],
)
def test_identities_of_every_rule(rng, scoring, rule):
    n, n_labels = 150, 9
    scores = rng.normal(size=(n, n_labels))
    Y = (scores + rng.normal(size=scores.shape) > rng.uniform(0, 2.5, size=n_labels)).astype(float)
    Y[rng.random(Y.shape) < 0.03] = np.nan
    options = {"scoring": scoring, "rule": rule}
    found = tune_thresholds(scores, Y, **options)
    predicted = found.predict(scores)
    assert found.rule == (rule if rule != "auto" else found.rule)

    if scoring != "micro+macro-f1":
        truth = metrics.scorers[scoring].name
        report = {
            "macro-f1": metrics.macro_f1,
            "micro-f1": metrics.micro_f1,
            "weighted-f1": metrics.weighted_f1,
            "example-f1": metrics.example_f1,
            "hamming-loss": metrics.hamming_loss,
            "subset-accuracy": metrics.subset_accuracy,
        }[truth]
        assert found.score == pytest.approx(report(Y, predicted))

    margins = found.margins(scores)
    assert np.array_equal(margins > 0, predicted == 1)

    order = rng.permutation(n_labels)
    permuted = tune_thresholds(scores[:, order], Y[:, order], **options)
    assert permuted.rule == found.rule
    assert permuted.score == pytest.approx(found.score, abs=1e-6)
    assert np.allclose(permuted.values, found.values[order], atol=1e-6, equal_nan=True)

    stored = tune_thresholds(sp.csr_array(scores), Y, **options)
    assert np.allclose(stored.values, found.values, atol=1e-9, equal_nan=True)
    assert np.array_equal(stored.predict(sp.csr_array(scores)).toarray(), predicted)

    single = tune_thresholds(scores.astype(np.float32), Y, **options)
    assert single.score == pytest.approx(found.score, abs=2e-2)

    # shrinkage looks at the number of rows that would say as much, which weights do not change
    twice = tune_thresholds(np.tile(scores, (2, 1)), np.tile(Y, (2, 1)), shrinkage=0, **options)
    weighted = tune_thresholds(scores, Y, sample_weight=np.full(n, 2.0), shrinkage=0, **options)
    assert np.allclose(twice.values[np.isfinite(twice.values)], weighted.values[np.isfinite(twice.values)], atol=1e-6)

    left_out = np.ones(n)
    left_out[:20] = 0.0
    some = tune_thresholds(scores, Y, sample_weight=left_out, **options)
    rest = tune_thresholds(scores[20:], Y[20:], **options)
    assert np.allclose(some.values, rest.values, atol=1e-6, equal_nan=True)
    assert some.score == pytest.approx(rest.score, abs=1e-9)


def test_increasing_maps_of_a_column_keep_the_predictions(rng):
    scores = rng.normal(size=(80, 4))
    Y = (scores + rng.normal(size=scores.shape) > 0.7).astype(int)
    bent = np.exp(scores * np.array([0.5, 1.0, 2.0, 0.1])) + np.arange(4)
    for options in ({"shrinkage": 0}, {"rule": "pcut"}, {"scoring": "micro-f1", "rule": "per-label"}):
        straight, curved = tune_thresholds(scores, Y, **options), tune_thresholds(bent, Y, **options)
        assert np.array_equal(straight.predict(scores), curved.predict(bent))


def test_cells_that_are_not_stored_are_never_predicted(rng):
    scores = rng.normal(size=(60, 6))
    Y = (scores + rng.normal(size=scores.shape) > 0.5).astype(int)
    kept = scores >= np.sort(scores, axis=1)[:, [3]]
    sparse = sp.csr_array(np.where(kept, scores, 0.0))
    dense = np.where(kept, scores, -np.inf)
    for scoring in ("macro-f1", "micro-f1", "example-f1", "hamming-loss"):
        with pytest.warns(UserWarning, match="of the positive cells have a score"):
            few = tune_thresholds(sparse, Y, scoring)
        full = tune_thresholds(dense, Y, scoring)
        assert few.rule == full.rule
        assert few.score == pytest.approx(full.score, abs=1e-6)
        assert few.score_coverage == pytest.approx((Y * kept).sum() / Y.sum())
        predicted = few.predict(sparse)
        assert isinstance(predicted, sp.csr_array)
        assert np.array_equal(predicted.toarray(), full.predict(dense))
    stored_zero = sp.csr_array((np.array([0.0, -1.0]), np.array([0, 0]), np.array([0, 1, 2])), shape=(2, 1))
    assert tune_thresholds(stored_zero, [[1], [0]], shrinkage=0).predict(stored_zero).toarray().tolist() == [[1], [0]]


@pytest.mark.parametrize("n_labels", [1, 129, 2000])
def test_many_and_few_labels(rng, n_labels):
    scores = rng.normal(size=(40, n_labels)).astype(np.float32)
    Y = sp.csr_array(scores + rng.normal(size=scores.shape) > 2.0)
    for scoring in ("macro-f1", "micro-f1", "example-f1"):
        found = tune_thresholds(scores, Y, scoring)
        predicted = found.predict(scores)
        one_by_one = {"macro-f1": metrics.macro_f1, "micro-f1": metrics.micro_f1, "example-f1": metrics.example_f1}
        assert found.score == pytest.approx(one_by_one[scoring](Y, sp.csr_array(predicted)), nan_ok=True)


def test_thresholds_approach_half_the_best_f(rng):
    """With known probabilities the best cut of a label is at F / 2 (many rows)."""
    z = rng.normal(loc=-1.5, size=200_000)
    p = expit(z)
    y = (rng.random(len(z)) < p).astype(int)
    found = tune_thresholds(p[:, None], y[:, None], shrinkage=0)
    assert found.values[0] == pytest.approx(found.score / 2, abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": "macro_f1"}, "Did you mean 'macro-f1'"),
        ({"scoring": "macro-f1", "beta": 2.0}, "-fbeta"),
        ({"scoring": "precision-at-recall"}, "needs a share"),
        ({"scoring": ("macro-f1", 0.9)}, "takes no number"),
        ({"scoring": "cost"}, "needs costs"),
        ({"costs": (1, 2)}, "belong to scoring='cost'"),
        ({"rule": "decode"}, "rule must be one of"),
        ({"shrinkage": -1}, "shrinkage must be"),
        ({"confidence": 0.9}, "confidence must be"),
        ({"sample_weight": [1.0]}, "sample_weight must have shape"),
    ],
)
def test_errors_name_what_is_wrong(options, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        tune_thresholds([[0.0], [1.0]], [[0], [1]], **options)
    with pytest.raises(InputError, match="NaN"):
        tune_thresholds([[np.nan], [1.0]], [[0], [1]])
    with pytest.raises(InputError, match="inf"):
        tune_thresholds([[np.inf], [1.0]], [[0], [1]])
    with pytest.raises(InputError, match="shape"):
        tune_thresholds([[1.0]], [[0], [1]])
