import itertools
import json
import pickle
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.metrics as skm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier

from multimargin import metrics
from multimargin.errors import InputError
from multimargin.metrics import _registry
from multimargin.metrics._pairs import Mean
from multimargin.model_selection import MultilabelStratifiedKFold

close = pytest.approx


@st.composite
def cases(draw, missing=False):
    """Labels, predictions and scores with many ties, empty rows and constant columns."""
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 5)))
    Y = draw(arrays(np.float64, shape, elements=st.sampled_from([0.0, 1.0])))
    P = draw(arrays(np.int64, shape, elements=st.integers(0, 1)))
    S = draw(arrays(np.float64, shape, elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0])))
    if missing:
        Y[draw(arrays(np.bool_, shape))] = np.nan
    return Y, P, S


def random_case(rng, n=60, labels=7, density=0.3):
    Y = (rng.random((n, labels)) < density).astype(int)
    Y[0], Y[1] = 0, 1
    return Y, (rng.random(Y.shape) < density).astype(int), rng.integers(0, 9, Y.shape) / 4.0


def mean_of(values, undefined, best=1.0, worst=0.0):
    """Average with None as undefined."""
    fill = {1: best, 0: worst}.get(undefined)
    defined = [fill if v is None else v for v in values]
    defined = [v for v in defined if v is not None]
    return sum(defined) / len(defined) if defined else float("nan")


def brute_rows(Y, S, undefined):
    """Evaluate the definitions row by row; P@k, one-error and nDCG as means over orders of tied labels."""
    values = {name: [] for name in ("ranking-loss", "coverage", "one-error", "lrap", "precision@2", "ndcg@2")}
    for y, s in zip(Y, S, strict=True):
        known = [j for j in range(len(y)) if not np.isnan(y[j])]
        pos, neg = [j for j in known if y[j] == 1], [j for j in known if y[j] == 0]
        if not known:
            continue
        reach = {j: [m for m in known if s[m] >= s[j]] for j in known}
        pairs = [s[a] <= s[b] for a in pos for b in neg]
        values["ranking-loss"].append(sum(pairs) / len(pairs) if pairs else None)
        fill = {1: 0, 0: len(known)}.get(undefined)
        values["coverage"].append(max(len(reach[j]) for j in pos) if pos else fill)
        shares = [sum(y[m] == 1 for m in reach[j]) / len(reach[j]) for j in pos]
        values["lrap"].append(sum(shares) / len(pos) if pos else None)
        orders = [o for o in itertools.permutations(known) if all(s[a] >= s[b] for a, b in itertools.pairwise(o))]
        top = [[y[j] == 1 for j in o] for o in orders]
        values["one-error"].append(1 - np.mean([t[0] for t in top]) if pos else None)
        k = min(2, len(known))
        values["precision@2"].append(np.mean([sum(t[:k]) / k for t in top]))
        gain = [1 / np.log2(r + 2) for r in range(k)]
        ideal = sum(gain[: len(pos)])
        values["ndcg@2"].append(np.mean([np.dot(t[:k], gain) for t in top]) / ideal if pos else None)
    losses = {"ranking-loss", "one-error"}
    return {
        name: mean_of(
            v,
            "skip" if name in {"coverage", "precision@2"} else undefined,
            name not in losses,
            name in losses,
        )
        for name, v in values.items()
    }


@settings(max_examples=150, deadline=None)
@given(cases(missing=True), st.sampled_from(["skip", 0, 1]))
def test_ranking_metrics_equal_their_definitions(case, undefined):
    Y, P, S = case
    if Y.shape[1] < 2:
        return
    report = metrics.report(Y, P, S, k=(2,), undefined=undefined)
    for name, value in brute_rows(Y, S, undefined).items():
        assert report[name] == close(value, nan_ok=True), name


@settings(max_examples=150, deadline=None)
@given(cases(missing=True))
def test_set_metrics_equal_their_definitions(case):
    Y, P, _ = case
    report = metrics.report(Y, P)
    known = ~np.isnan(Y)
    wrong = (Y != P) & known
    assert report["hamming-loss"] == close(wrong.sum() / known.sum() if known.any() else np.nan, nan_ok=True)
    rows = [i for i in range(len(Y)) if known[i].any()]
    assert report["subset-accuracy"] == close(mean_of([float(not wrong[i].any()) for i in rows], "skip"), nan_ok=True)
    scores = []
    for i in rows:
        a, b = set(np.flatnonzero(Y[i] == 1)), {j for j in np.flatnonzero(P[i] == 1) if known[i, j]}
        scores.append(2 * len(a & b) / (len(a) + len(b)) if a | b else 1.0)
    assert report["example-f1"] == close(mean_of(scores, "skip"), nan_ok=True)
    assert report["samples-f1"] == close(report["example-f1"], nan_ok=True)


@settings(max_examples=100, deadline=None)
@given(cases(missing=True))
def test_curves_equal_their_definitions(case):
    Y, P, S = case
    report = metrics.report(Y, P, S)

    def curves(y, s):
        y, s = y[~np.isnan(y)], s[~np.isnan(y)]
        pos, neg = s[y == 1], s[y == 0]
        if not len(pos) or not len(neg):
            return None, None
        auc = np.mean([(a > b) + (a == b) / 2 for a in pos for b in neg])
        return auc, np.mean([(pos >= a).sum() / (s >= a).sum() for a in pos])

    per_label = [curves(Y[:, j], S[:, j]) for j in range(Y.shape[1])]
    constant = sum(auc is None for auc, _ in per_label)
    assert report["macro-roc-auc"] == close(mean_of([a for a, _ in per_label], "skip"), nan_ok=True)
    assert report["macro-average-precision"] == close(mean_of([p for _, p in per_label], "skip"), nan_ok=True)
    assert report.skipped.get("macro-roc-auc", 0) == report.skipped.get("macro-average-precision", 0) == constant
    auc, precision = curves(Y.ravel(), S.ravel())
    assert report["micro-roc-auc"] == close(np.nan if auc is None else auc, nan_ok=True)
    assert report["micro-average-precision"] == close(np.nan if precision is None else precision, nan_ok=True)


@pytest.mark.parametrize("undefined", ["skip", 0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_averages_equal_scikit_learn(undefined, weighted):
    rng = np.random.default_rng(0)
    Y, P, _ = random_case(rng)
    Y[:, 2], P[:, 3], Y[:, 4], P[:, 4] = 0, 0, 0, 0
    weights = rng.random(len(Y)) if weighted else None
    report = metrics.report(Y, P, undefined=undefined, sample_weight=weights)
    zero = np.nan if undefined == "skip" else undefined
    for average in ("macro", "micro", "weighted"):
        ours = [report[f"{average}-{name}"] for name in ("precision", "recall", "f1")]
        theirs = skm.precision_recall_fscore_support(Y, P, average=average, zero_division=zero, sample_weight=weights)
        assert ours == close(theirs[:3])
    theirs = skm.precision_recall_fscore_support(Y, P, zero_division=zero, sample_weight=weights)
    for name, values in zip(("precision", "recall", "f1", "support"), theirs, strict=True):
        np.testing.assert_allclose(report.per_label[name], values)
    assert report["hamming-loss"] == close(skm.hamming_loss(Y, P, sample_weight=weights))
    assert report["subset-accuracy"] == close(skm.accuracy_score(Y, P, sample_weight=weights))


def test_samples_average_equals_scikit_learn_on_rows_that_are_not_empty_in_both():
    Y, P, _ = random_case(np.random.default_rng(1))
    keep = (Y.sum(axis=1) + P.sum(axis=1)) > 0
    report = metrics.report(Y[keep], P[keep])
    theirs = skm.precision_recall_fscore_support(Y[keep], P[keep], average="samples", zero_division=0)
    assert [report[f"samples-{name}"] for name in ("precision", "recall", "f1")] == close(theirs[:3])


@pytest.mark.parametrize("weighted", [False, True])
def test_ranking_equals_scikit_learn(weighted):
    rng = np.random.default_rng(2)
    Y, P, S = random_case(rng)
    weights = rng.random(len(Y)) if weighted else None
    report = metrics.report(Y, P, S, k=(3,), undefined=1, sample_weight=weights)
    assert report["ranking-loss"] == close(skm.label_ranking_loss(Y, S, sample_weight=weights))
    assert report["lrap"] == close(skm.label_ranking_average_precision_score(Y, S, sample_weight=weights))
    assert report["coverage"] == close(skm.coverage_error(Y, S, sample_weight=weights))
    for average in ("macro", "micro"):
        auc = skm.roc_auc_score(Y, S, average=average, sample_weight=weights)
        assert report[f"{average}-roc-auc"] == close(auc)
        ap = skm.average_precision_score(Y, S, average=average, sample_weight=weights)
        assert report[f"{average}-average-precision"] == close(ap)
    labelled = Y.sum(axis=1) > 0
    w = None if weights is None else weights[labelled]
    ours = metrics.ndcg_at_k(Y[labelled], S[labelled], 3, sample_weight=w)
    assert ours == close(skm.ndcg_score(Y[labelled], S[labelled], k=3, sample_weight=w))


def test_constant_labels_are_left_out_and_counted():
    Y = np.array([[1, 0, 1], [0, 0, 1], [1, 0, 1]])
    S = np.array([[0.9, 0.1, 0.2], [0.1, 0.3, 0.3], [0.8, 0.2, 0.1]])
    report = metrics.report(Y, Y, S)
    assert report["macro-roc-auc"] == report["macro-average-precision"] == 1.0
    assert report.skipped["macro-roc-auc"] == report.skipped["macro-average-precision"] == 2
    assert "2 from macro-roc-auc" in str(report)


def test_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(3)
    Y, P, S = random_case(rng)
    Y = Y.astype(float)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    weights = rng.random(len(Y))
    whole = metrics.report(Y, P, S, sample_weight=weights)
    monkeypatch.setattr("multimargin.metrics._ranks.CELLS_PER_BLOCK", 20)
    assert metrics.report(Y, P, S, sample_weight=weights).values == close(whole.values)


def test_integer_weights_are_repetitions():
    rng = np.random.default_rng(4)
    Y, P, S = random_case(rng)
    weights = rng.integers(0, 4, len(Y))
    repeated = [np.repeat(a, weights, axis=0) for a in (Y, P, S)]
    assert metrics.report(Y, P, S, sample_weight=weights).values == close(metrics.report(*repeated).values)


def test_permuting_labels_changes_nothing():
    rng = np.random.default_rng(5)
    Y, P, S = random_case(rng)
    order = rng.permutation(Y.shape[1])
    permuted = metrics.report(Y[:, order], P[:, order], S[:, order])
    assert permuted.values == close(metrics.report(Y, P, S).values)


def test_unknown_cells_do_not_matter():
    rng = np.random.default_rng(6)
    Y, P, S = random_case(rng)
    unknown = rng.random(Y.shape) < 0.2
    Y = np.where(unknown, np.nan, Y)
    one = metrics.report(Y, P, S)
    other = metrics.report(Y, np.where(unknown, 1 - P, P), np.where(unknown, 99.0, S))
    assert one.values == close(other.values)


def forms():
    pd = pytest.importorskip("pandas")
    Y = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]])
    yield "array", Y, lambda a: a
    yield "bool", Y, lambda a: a.astype(bool)
    yield "signs", Y, lambda a: 2 * a - 1
    yield "lists", Y, lambda a: a.tolist()
    for name in ("csr_matrix", "csr_array", "csc_array", "coo_matrix"):
        yield name, Y, getattr(sp, name)
    yield "frame", Y, lambda a: pd.DataFrame(a, columns=["a", "b", "c"])
    yield "sets", Y, lambda a: [{"abc"[j] for j in np.flatnonzero(row)} for row in a]


@pytest.mark.parametrize(("Y", "make"), [pytest.param(Y, make, id=name) for name, Y, make in forms()])
def test_every_form_gives_the_same_report(Y, make):
    P = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 1, 1]])
    S = P + np.array([0.1, 0.2, 0.3])
    expected = metrics.report(Y, P, S)
    assert metrics.report(make(Y), make(P), S).values == close(expected.values)
    assert metrics.macro_f1(make(Y), make(P)) == close(expected["macro-f1"])


def test_data_frames_are_matched_by_column_name():
    pd = pytest.importorskip("pandas")
    Y = pd.DataFrame({"a": [1, 0, 1], "b": [0, 0, 1]})
    S = pd.DataFrame({"b": [0.1, 0.2, 0.9], "a": [0.9, 0.1, 0.8]})
    report = metrics.report(Y, Y[["b", "a"]], S)
    assert report["subset-accuracy"] == report["macro-roc-auc"] == 1.0
    with pytest.raises(InputError, match="columns of prediction"):
        metrics.report(Y, Y.rename(columns={"a": "z"}))


def test_predicted_sets_may_hold_unseen_labels():
    report = metrics.report([{"a"}, set()], [{"b"}, set()])
    assert report.names.tolist() == ["a", "b"]
    assert report["hamming-loss"] == 0.5
    assert metrics.example_f1([{"a"}, set()], [set(), set()]) == 0.5


def test_one_column_is_read_with_its_prediction():
    y, prediction = np.array(["no", "yes", "yes"]), np.array(["no", "no", "no"])
    assert metrics.report(y, prediction)["macro-recall"] == 0.0
    assert metrics.hamming_loss([1, 1], [2, 2]) == 1.0
    assert metrics.macro_roc_auc([0, 1, 1], [0.1, 0.5, 0.4]) == 1.0


def test_sparse_labels_are_never_densified():
    rng = np.random.default_rng(7)
    indices = rng.integers(0, 4000, (100_000, 3))
    indptr = np.arange(0, 300_001, 3)
    Y = sp.csr_array((np.ones(300_000, dtype=np.int8), indices.ravel(), indptr), shape=(100_000, 4000))
    Y.sum_duplicates()
    Y.data[:] = 1
    tracemalloc.start()
    assert metrics.report(Y, Y)["subset-accuracy"] == 1.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # dense, one byte per cell would be 400 MB


def test_report_is_json_ready_and_prints_aligned():
    rng = np.random.default_rng(8)
    Y, P, S = random_case(rng, labels=4)
    Y[:, 1], P[:, 1] = 0, 0
    report = metrics.report(Y, P, S, names=["a", "long name", "c", "<d>"])
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["labels"][1]["roc_auc"] is None
    assert plain["values"]["macro-f1"] == close(report["macro-f1"])
    assert plain["skipped"]["macro-f1"] == 1
    header, *body = str(report).splitlines()[:5]
    assert header.startswith("label ")
    assert len({len(line) for line in body}) == 1
    assert "&lt;d&gt;" in report._repr_html_()
    assert repr(report).startswith("Report(60 rows, 4 labels")
    assert "precision@5" not in report.values
    with pytest.raises(KeyError, match="macro-f1"):
        report["f1"]


def test_report_shows_few_of_many_labels():
    report = metrics.report(np.eye(50), np.eye(50))
    assert "30 more labels" in str(report)
    assert len(report.table(max_labels=None).splitlines()) > 50


def test_report_to_frame():
    pytest.importorskip("pandas")
    frame = metrics.report([{"a"}, {"b"}], [{"a"}, {"a"}]).to_frame()
    assert frame.loc["b", "recall"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prediction": np.ones((3, 2))}, "shape of Y, 4 rows and 3 labels; got shape"),
        ({"prediction": np.full((4, 3), 0.5)}, "prediction must be a binary"),
        ({"prediction": np.full((4, 3), np.nan)}, "12 cells are NaN"),
        ({"prediction": None}, "prediction is None"),
        ({"scores": np.ones((4, 2))}, "scores must have the shape of Y"),
        ({"scores": np.array([[1, 2, np.nan]] * 4)}, "row 0"),
        ({"scores": [["a"] * 3] * 4}, "scores must be numbers"),
        ({"scores": sp.csr_array(np.eye(4, 3))}, "dense"),
        ({"names": ["a", "a", "b"]}, "occurs twice"),
        ({"names": ["a", "b"]}, "2 label names"),
        ({"k": (4,)}, "k must be a whole number from 1 to 3"),
        ({"k": (0,)}, "got 0"),
        ({"k": None}, "k must be a sequence"),
        ({"undefined": "nan"}, "undefined must be"),
        ({"undefined": True}, "undefined must be"),
        ({"sample_weight": [1, 2]}, "shape"),
        ({"sample_weight": [1, -1, 1, 1]}, "non-negative"),
        ({"sample_weight": [0, 0, 0, 0]}, "not all zero"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    Y = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    given = {"Y": Y, "prediction": Y, "scores": None} | arguments
    with pytest.raises(InputError, match=message):
        metrics.report(**given)


def test_scorers_work_in_a_search():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(80, 5))
    Y = (X @ rng.normal(size=(5, 4)) + rng.normal(size=(80, 4)) > 0).astype(int)
    names = ("macro-f1", "hamming-loss", "one-error", "precision@2")
    scoring = {name: metrics.scorer(name) for name in names}
    cv = MultilabelStratifiedKFold(3, random_state=0)
    search = GridSearchCV(
        OneVsRestClassifier(LogisticRegression()),
        {"estimator__C": [0.01, 1]},
        scoring=scoring,
        refit="macro-f1",
        cv=cv,
    ).fit(X, Y)
    assert search.cv_results_["mean_test_hamming-loss"].max() <= 0
    train, test = next(cv.split(X, Y))
    model = OneVsRestClassifier(LogisticRegression(C=0.01)).fit(X[train], Y[train])
    expected = metrics.report(Y[test], model.predict(X[test]), model.decision_function(X[test]), k=(2,))
    for name in names:
        sign = -1 if name in ("hamming-loss", "one-error") else 1
        assert search.cv_results_[f"split0_test_{name}"][0] == close(sign * expected[name])


def test_scorers_take_probabilities_in_every_shape():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(60, 3))
    Y = (X[:, :2] + rng.normal(size=(60, 2)) > 0).astype(int)
    listed = MultiOutputClassifier(LogisticRegression())
    result = cross_validate(listed, X, Y, scoring={"a": metrics.scorer("macro-roc-auc")}, cv=3)
    assert (result["test_a"] > 0.5).all()

    class OnlyProbabilities:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return LogisticRegression().fit(X, Y[:, 0]).predict_proba(X)

    assert metrics.scorer("macro-roc-auc")(OnlyProbabilities(), X, Y[:, 0]) > 0.5


def test_scorers_know_the_labels_of_the_estimator():
    class Constant:
        classes_ = np.array(["a", "b", "c", "d"], dtype=object)

        def predict(self, X):
            return [{"a"}] * len(X)

        def decision_function(self, X):
            return np.tile([4.0, 3.0, 2.0, 1.0], (len(X), 1))

    Y = [{"a"}, {"a", "b"}]
    assert metrics.scorer("hamming-loss")(Constant(), Y, Y) == -1 / 8
    assert metrics.scorer("lrap")(Constant(), Y, Y) == 1.0


def test_scorer_names():
    assert metrics.scorer("neg_hamming_loss") == metrics.scorers["hamming-loss"]
    assert metrics.scorer("precision@7").name == "precision@7"
    with pytest.raises(InputError, match="'macro-f1'"):
        metrics.scorer("macro-f2")
    with pytest.raises(InputError, match="k must be"):
        metrics.scorer("precision@x")
    with pytest.raises(InputError, match="cannot be ranked"):
        metrics.scorer("lrap")(object(), None, [{"a"}])


def test_a_new_metric_is_a_formula_and_a_line(monkeypatch):
    monkeypatch.setattr(_registry, "METRICS", dict(_registry.METRICS))

    @_registry.of_labels("empty-rows", loss=True)
    def empty_rows(counts, undefined):
        """Share of rows without a predicted label."""
        return Mean(float(np.mean(counts.rows.predicted == 0)))

    @_registry.of_best("hit@k")
    def hit_at_k(ranking, undefined, k):
        """Share of rows with a true label among the best k."""
        rows = ranking.rows
        return Mean(float(np.mean(rows.per_row(rows.above < k) > 0)))

    Y, P, S = random_case(np.random.default_rng(12))
    report = metrics.report(Y, P, S)
    assert report["empty-rows"] == empty_rows(Y, P) == np.mean(P.sum(axis=1) == 0)
    among_the_best = (S.max(axis=1, keepdims=True) == S) & (Y == 1)
    assert report["hit@1"] == hit_at_k(Y, S, 1) == among_the_best.any(axis=1).mean()
    model = SimpleNamespace(predict=lambda X: P, decision_function=lambda X: S)
    assert metrics.scorer("empty-rows")(model, None, Y) == -report["empty-rows"]
    assert metrics.scorer("hit@3")(model, None, Y) == report["hit@3"]
    assert {"empty-rows", "hit@3"} <= set(metrics.scorers)
    assert "sample_weight : array-like" in empty_rows.__doc__


def test_functions_equal_the_report():
    Y, P, S = random_case(np.random.default_rng(11))
    report = metrics.report(Y, P, S, k=(2,))
    for name in ("hamming-loss", "subset-accuracy", "example-f1", "macro-f1", "micro-f1", "weighted-f1"):
        assert getattr(metrics, name.replace("-", "_"))(Y, P) == report[name]
    for name in ("ranking-loss", "coverage", "one-error", "lrap"):
        assert getattr(metrics, name.replace("-", "_"))(Y, S) == report[name]
    for name, average in itertools.product(("average-precision", "roc-auc"), ("macro", "micro")):
        assert getattr(metrics, f"{average}-{name}".replace("-", "_"))(Y, S) == report[f"{average}-{name}"]
    assert metrics.precision_at_k(Y, S, 2) == report["precision@2"]
    assert metrics.ndcg_at_k(Y, S, 2) == report["ndcg@2"]
    with pytest.raises(InputError, match="from 1 to 7"):
        metrics.precision_at_k(Y, S, 8)
    for function in (metrics.hamming_loss, metrics.lrap, metrics.ndcg_at_k):  # a search sends them to other processes
        assert pickle.loads(pickle.dumps(function)) is function


def best(S, k):
    """Return the k best of each row as predict_top gives them."""
    order = np.argsort(-S, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(S, order, axis=1)
    return sp.csr_array((values.ravel(), order.ravel(), np.arange(0, len(S) * k + 1, k)), shape=S.shape)


@pytest.mark.parametrize("missing", [False, True])
def test_best_labels_do_for_metrics_at_k(rng, missing):
    Y = (rng.random((40, 12)) < 0.3).astype(float)
    Y[3] = 0
    Y[5] = 1
    if missing:
        Y[rng.random(Y.shape) < 0.1] = np.nan
        Y[7, 2:] = np.nan
    S = rng.normal(size=Y.shape)
    p = metrics.propensities(Y)
    for stored in (12,) if missing else (3, 5, 12):
        top = best(S, stored)
        for k in (1, 3):
            for metric in (metrics.precision_at_k, metrics.ndcg_at_k):
                assert metric(Y, top, k) == metric(Y, S, k)
            for normalize in (True, False):
                options = {"normalize": normalize, "sample_weight": np.arange(40.0)}
                assert metrics.psp_at_k(Y, top, k, p, **options) == metrics.psp_at_k(Y, S, k, p, **options)
    assert metrics.scorer("precision@3").name == "precision@3"
    with pytest.raises(InputError, match=r"best 4 known labels .* predict_top"):
        metrics.precision_at_k(Y, best(S, 3), 4)
    with pytest.raises(InputError, match="only the metrics of the best"):
        metrics.lrap(Y, best(S, 3))
    with pytest.raises(InputError, match="at most one"):
        metrics.ndcg_at_k(Y, sp.csr_array(np.full(Y.shape, np.nan)), 2)


def test_propensities_by_hand():
    Y = np.zeros((100, 3), dtype=int)
    Y[:1, 0], Y[:40, 1] = 1, 1
    c = (np.log(100) - 1) * 2.5**0.55
    expected = [1 / (1 + c * (n + 1.5) ** -0.55) for n in (1, 40, 0)]
    np.testing.assert_allclose(metrics.propensities(sp.csr_array(Y)), expected)
    other = 1 / (1 + (np.log(100) - 1) * 1.4**0.5 * (40 + 0.4) ** -0.5)
    assert metrics.propensities(Y, A=0.5, B=0.4)[1] == close(other)
    for wrong in ({"A": 0}, {"B": -1.0}):
        with pytest.raises(InputError, match="above 0"):
            metrics.propensities(Y, **wrong)


@settings(max_examples=50, deadline=None)
@given(cases(missing=True), st.integers(1, 5))
def test_psp_is_the_mean_over_orders_of_ties(case, k):
    Y, _, S = case
    n_labels = Y.shape[1]
    k = min(k, n_labels)
    p = np.linspace(0.2, 1.0, n_labels)
    got = possible = rows = 0.0
    for y, s in zip(Y, S, strict=True):
        known = [j for j in range(n_labels) if not np.isnan(y[j])]
        rows += bool(known)
        # every order of the labels is as likely as another; a stable sort by score keeps it among tied ones
        orders = [sorted(order, key=lambda j: -s[j]) for order in itertools.permutations(known)]
        got += np.mean([sum(y[j] / p[j] for j in order[:k]) for order in orders])
        possible += sum(sorted((y[j] / p[j] for j in known), reverse=True)[:k])
    expected = got / possible if possible else float("nan")
    assert metrics.psp_at_k(Y, S, k, p) == close(expected, nan_ok=True)
    plain = got / (k * rows) if rows else float("nan")
    assert metrics.psp_at_k(Y, S, k, p, normalize=False) == close(plain, nan_ok=True)


@pytest.mark.parametrize("wrong", [[0.5], [0.5, 0.0], [0.5, 1.5], [0.5, np.nan]])
def test_propensities_that_are_none(wrong):
    with pytest.raises(InputError, match=r"metrics\.propensities\(Y_train\)"):
        metrics.psp_at_k([[1, 0]], [[0.1, 0.2]], 1, wrong)
