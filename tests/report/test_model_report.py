"""The report of a model: what it says, for every model there is, and that no name in it can do harm."""

import json
import warnings
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import (
    CliqueClassifier,
    FixedThresholds,
    KernelM3L,
    LabelCalibrator,
    LinearM3L,
    SubmodularClassifier,
    ThresholdTuner,
    ZeroShotClassifier,
    baselines,
    estimators,
    metrics,
    priors,
    report,
)
from multimargin.decisions import JointDecoder
from multimargin.errors import InputError
from multimargin.report.evidence import gather
from multimargin.report.mistakes import worst_mistakes
from multimargin.report.model_report import report_page
from multimargin.report.sections.labels import labels_section
from multimargin.report.sections.mind import what_to_mind

N_TRAIN = 90
EVERY = {"data", "training", "metrics", "labels", "mistakes", "mind", "settings"}


class Page(HTMLParser):
    """Reads a page back: its elements by name, the cells of its label table, its scripts and its text."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self.in_labels = False
        self.feed(document)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "table":
            self.in_labels = dict(attrs).get("id") == "label-table"
        if tag not in ("meta", "input", "br", "img", "hr"):
            self.open.append(tag)
        if self.in_labels and tag == "tr":
            self.rows.append([])
        if self.in_labels and tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
            return
        self.text += data
        if self.in_labels and self.rows and self.rows[-1] and "table" in self.open:
            self.rows[-1][-1] += data

    def sections(self) -> set[str]:
        return {str(attributes["id"]) for tag, attributes in self.elements if tag == "section"}

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[-2])
        return found


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    X, Y = make_multilabel_classification(150, n_features=8, n_classes=5, n_labels=2, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0) / 3, Y


def page_of(model: Any, X: Any, Y: Any, **options: Any) -> Page:
    return Page(report_page(gather(model, X, Y, **options)))


def every_model() -> dict[str, Any]:
    models = {name: cls() for name, cls in (estimators.REGISTRY | baselines.REGISTRY).items()}
    clique = CliqueClassifier(loss="softmax-margin", graph="chow-liu")
    return models | {
        "prior": LinearM3L(prior=np.full((5, 5), 0.3) + 0.7 * np.eye(5)),
        "low-rank prior": KernelM3L(prior=priors.LowRankPrior(np.ones((5, 1)), np.ones(5))),
        "tuned": ThresholdTuner(LinearM3L(), cv=3, random_state=0),
        "tuned for rows": ThresholdTuner(LinearM3L(), scoring="example-f1", rule="rcut", cv=3, random_state=0),
        "calibrated": LabelCalibrator(KernelM3L(), cv=3, random_state=0),
        "tuned and calibrated": ThresholdTuner(
            LabelCalibrator(LinearM3L(), cv=3, random_state=0), scoring="micro-f1", cv=3, random_state=0
        ),
        "fixed": FixedThresholds(LinearM3L(), [0.1, -0.1, np.inf, -np.inf, 0.0]),
        "cliques with probabilities": clique,
        "decoded": JointDecoder(clique, cv=2, random_state=0),
        "tuned cliques": ThresholdTuner(clique, cv=2, response_method="predict_proba", random_state=0),
        "pipeline": make_pipeline(StandardScaler(), LinearM3L()),
        "tuned pipeline": ThresholdTuner(make_pipeline(StandardScaler(), LinearM3L()), cv=2, random_state=0),
        "pipeline of a tuner": make_pipeline(StandardScaler(), ThresholdTuner(LinearM3L(), cv=2, random_state=0)),
        "scikit-learn's": OneVsRestClassifier(LogisticRegression()),
        "scikit-learn's lists": MultiOutputClassifier(LogisticRegression()),
        "scikit-learn's, tuned": ThresholdTuner(OneVsRestClassifier(LogisticRegression()), cv=2, random_state=0),
    }


@pytest.mark.parametrize("name", every_model())
def test_every_model_has_a_report(rows: tuple[np.ndarray, np.ndarray], name: str) -> None:
    X, Y = rows
    model = every_model()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:N_TRAIN], Y[:N_TRAIN])
    page = page_of(model, X[N_TRAIN:], Y[N_TRAIN:])
    assert page.sections() >= EVERY - {"mistakes"}
    assert ("probabilities" in page.sections()) == hasattr(model, "predict_proba")
    tied = "prior" in name or "clique" in name or name in ("submodular", "decoded")
    assert ("ties" in page.sections()) == tied
    found = metrics.report(Y[N_TRAIN:], model.predict(X[N_TRAIN:]))
    assert page.data()["metrics"]["macro-f1"] == pytest.approx(found["macro-f1"], nan_ok=True)
    assert page.data()["metrics"]["hamming-loss"] == pytest.approx(found["hamming-loss"])
    assert len(page.rows) == 1 + Y.shape[1]


def test_the_label_table_holds_the_metrics_of_each_label(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = rows
    model = LinearM3L().fit(X[:N_TRAIN], Y[:N_TRAIN])
    page = page_of(model, X[N_TRAIN:], Y[N_TRAIN:], train=(X[:N_TRAIN], Y[:N_TRAIN]))
    found = metrics.report(Y[N_TRAIN:], model.predict(X[N_TRAIN:]), model.decision_function(X[N_TRAIN:]))
    header, *body = page.rows
    assert header[:8] == ["label", "trained", "rows", "predicted", "precision", "recall", "F1", "AP"]
    supports = [int(row[2]) for row in body]
    assert supports == sorted(supports, reverse=True)
    for row in body:
        label = int(row[0])
        assert int(row[1]) == Y[:N_TRAIN, label].sum()
        assert int(row[2]) == Y[N_TRAIN:, label].sum()
        for column, key in ((4, "precision"), (5, "recall"), (6, "f1"), (7, "average_precision")):
            assert row[column] == f"{found.per_label[key][label]:.3f}"
        present = Y[N_TRAIN:, label] == 1
        scores = model.decision_function(X[N_TRAIN:])[present]
        assert int(row[8]) == max((scores >= scores[:, [label]]).sum(axis=1))


def test_one_vs_all_is_a_linear_m3l_without_a_prior(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = rows
    train = (X[:N_TRAIN], Y[:N_TRAIN])
    model = LinearM3L(C=0.3, prior=np.full((5, 5), 0.3) + 0.7 * np.eye(5)).fit(*train)
    page = page_of(model, X[N_TRAIN:], Y[N_TRAIN:], train=train)
    alone = LinearM3L(C=0.3, random_state=0).fit(*train)
    expected = metrics.report(Y[N_TRAIN:], alone.predict(X[N_TRAIN:]), alone.decision_function(X[N_TRAIN:]))
    assert page.data()["one_vs_all"]["macro-f1"] == expected["macro-f1"]
    assert page.data()["one_vs_all"]["C"] == 0.3
    without = page_of(model, X[N_TRAIN:], Y[N_TRAIN:])
    assert without.data()["one_vs_all"] is None
    assert "one-vs-all" not in without.text


def test_one_vs_all_goes_through_the_same_preprocessing(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = rows
    train = (1000 * X[:N_TRAIN], Y[:N_TRAIN])
    model = make_pipeline(StandardScaler(), ThresholdTuner(LinearM3L(C=0.1), cv=2, random_state=0)).fit(*train)
    alone = make_pipeline(StandardScaler(), LinearM3L(C=0.1, random_state=0)).fit(*train)
    page = page_of(model, 1000 * X[N_TRAIN:], Y[N_TRAIN:], train=train)
    expected = metrics.report(Y[N_TRAIN:], alone.predict(1000 * X[N_TRAIN:]))
    assert page.data()["one_vs_all"]["micro-f1"] == expected["micro-f1"]


HARM = ["</script><b>", '"><img src=x onerror=alert(1)>', "<!--", "a&amp;b", "]]>", "' onload='x", "\u2028"]


@pytest.mark.parametrize("kind", ["prior", "graph", "tuned"])
def test_no_name_can_do_harm(rows: tuple[np.ndarray, np.ndarray], kind: str) -> None:
    X, Y = rows
    Y = np.column_stack([Y, Y[:, :2] ^ 1])
    frame = pd.DataFrame(Y, columns=HARM)
    features = pd.DataFrame(X, columns=[f"</script><i>{k}" for k in range(X.shape[1])])
    model: Any = {
        "prior": LinearM3L(prior=np.full((7, 7), 0.3) + 0.7 * np.eye(7)),
        "graph": SubmodularClassifier(pairs=1.0, max_iter=20),
        "tuned": ThresholdTuner(LabelCalibrator(LinearM3L(), cv=2, random_state=0), cv=2, random_state=0),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features[:N_TRAIN], frame[:N_TRAIN])
    options = {"title": "</title><b>", "data_name": "<b>data", "train_name": "<b>train"}
    title = options.pop("title")
    train = (features[:N_TRAIN], frame[:N_TRAIN])
    page = Page(report_page(gather(model, features[N_TRAIN:], frame[N_TRAIN:], train=train, **options), title))
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"b", "i", "img"} - ({"b"} if kind == "tuned" else set())
    assert len(page.scripts) == 2  # the data and the script of the page
    assert {row[0] for row in page.rows[1:]} == set(HARM)
    assert page.data()["data"]["name"] == "<b>data"
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_labels_in_another_order_are_put_in_that_of_the_model(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = rows
    frame = pd.DataFrame(Y, columns=list("abcde"))
    model = LinearM3L().fit(X[:N_TRAIN], frame[:N_TRAIN])
    straight = page_of(model, X[N_TRAIN:], frame[N_TRAIN:])
    turned = page_of(model, X[N_TRAIN:], frame[N_TRAIN:][list("ecabd")])
    assert straight.rows == turned.rows
    sets = [{name for name, cell in row.items() if cell} for row in frame[N_TRAIN:].to_dict("records")]
    assert page_of(model, X[N_TRAIN:], sets).rows == straight.rows
    sparse = sp.csr_matrix(Y[N_TRAIN:])
    assert page_of(model, sp.csr_array(X[N_TRAIN:]), sparse).rows == straight.rows


def test_unknown_cells_one_label_and_constant_labels(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = rows
    cells = Y.astype(float)
    cells[::3, 0] = np.nan
    cells[:, 1] = 0
    cells[:, 2] = 1
    with pytest.warns(UserWarning, match="onstant"):
        model = LinearM3L().fit(X[:N_TRAIN], cells[:N_TRAIN])
    evidence = gather(model, X[N_TRAIN:], cells[N_TRAIN:], train=(X[:N_TRAIN], cells[:N_TRAIN]))
    page = Page(report_page(evidence))
    assert page.data()["metrics"]["macro-f1"] == metrics.report(cells[N_TRAIN:], model.predict(X[N_TRAIN:]))["macro-f1"]
    assert any("is in no row" in words for words in what_to_mind(evidence))
    known = ~np.isnan(cells[N_TRAIN:])
    assert all(known[mistake.row, mistake.label] for mistake in worst_mistakes(evidence))
    for y in (Y[:, 0], np.where(Y[:, 0], "yes", "no")):
        one = LinearM3L().fit(X[:N_TRAIN], y[:N_TRAIN])
        found = page_of(one, X[N_TRAIN:], y[N_TRAIN:]).data()["metrics"]["hamming-loss"]
        assert found == pytest.approx(np.mean(one.predict(X[N_TRAIN:]) != y[N_TRAIN:]))


def test_a_model_without_a_mistake_says_so() -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    model = LinearM3L(C=100).fit(X, X.astype(int))
    page = page_of(model, X, X.astype(int), train=(X, X.astype(int)))
    assert "Every label of every row is predicted right." in page.text
    assert "All these rows are in the training rows" in page.text


def test_the_worst_mistakes_are_the_largest_violations(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = rows
    model = ThresholdTuner(make_pipeline(StandardScaler(), LinearM3L()), cv=2, random_state=0)
    model.fit(X[:N_TRAIN], Y[:N_TRAIN])
    X, Y = X[N_TRAIN:], Y[N_TRAIN:]
    found = worst_mistakes(gather(model, X, Y))
    margins = model.decision_function(X)
    violation = np.where((margins > 0) != Y, np.abs(margins), 0).max(axis=1)
    chosen = [mistake.row for mistake in found]
    assert len(chosen) == min(20, np.count_nonzero(violation))
    np.testing.assert_allclose(violation[chosen], np.sort(violation)[::-1][: len(chosen)])
    scores = model.estimator_.decision_function(X)
    for mistake in found:
        assert mistake.explanation is not None
        assert mistake.explanation.score == pytest.approx(scores[mistake.row, mistake.label])
        assert set(mistake.true) == set(np.flatnonzero(Y[mistake.row]))


def test_rows_in_both_parts_are_counted(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = rows
    model = LinearM3L().fit(X[:N_TRAIN], Y[:N_TRAIN])
    train = (X[:N_TRAIN], Y[:N_TRAIN])
    for form in (np.asarray, sp.csr_matrix, pd.DataFrame):
        evidence = gather(model, form(X[N_TRAIN - 3 :]), Y[N_TRAIN - 3 :], train=(form(train[0]), train[1]))
        assert any(words.startswith("3 rows are in the training rows") for words in what_to_mind(evidence)), form


def test_more_than_a_thousand_labels_come_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimargin.report.sections.labels.MOST_ROWS", 4)
    X, Y = make_multilabel_classification(120, n_classes=9, random_state=0)
    model = LinearM3L(C=0.01).fit(X[:60], Y[:60])
    evidence = gather(model, X[60:], Y[60:])
    page = Page(labels_section(evidence).html())
    rest = json.loads(page.scripts[0])
    f1 = metrics.report(Y[60:], model.predict(X[60:])).per_label["f1"]
    shown = {int(row[0]) for row in page.rows[1:]}
    hidden = {int(row[0]) for row in rest}
    assert len(shown) == 4
    assert shown | hidden == set(range(9))
    frequent = set(np.argsort(-Y[60:].sum(axis=0), kind="stable")[:2].tolist())
    assert frequent <= shown
    assert max(f1[label] for label in shown - frequent) <= min(f1[label] for label in hidden)
    assert ("button", "label-all") in [(tag, attributes.get("id")) for tag, attributes in page.elements]


def test_the_page_asks_nothing_of_the_network_and_runs_one_script(rows: tuple[np.ndarray, np.ndarray]) -> None:
    import base64
    import hashlib

    X, Y = rows
    page = page_of(LinearM3L().fit(X[:N_TRAIN], Y[:N_TRAIN]), X[N_TRAIN:], Y[N_TRAIN:])
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(page.scripts[-1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    assert not [tag for tag, attributes in page.elements if "src" in attributes or tag == "link"]
    assert all(str(a["href"]).startswith("#") for tag, a in page.elements if tag == "a")
    pictures = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert pictures
    assert all(attributes["role"] == "img" for attributes in pictures)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("title") == tags.count("desc") + 1 == len(pictures) + 1
    levels = [int(tag[1]) for tag in tags if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_bad_input_is_refused_before_any_work(rows: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    X, Y = rows
    model = LinearM3L().fit(X, Y)
    for given, words in (
        ((LinearM3L(), X, Y, tmp_path / "a.html"), "must be fitted"),
        (("model", X, Y, tmp_path / "a.html"), "fitted classifier"),
        ((ZeroShotClassifier(), X, Y, tmp_path / "a.html"), "predicts categories"),
        ((model, X, Y, tmp_path), "is a directory"),
        ((model, X, Y, tmp_path / "no" / "a.html"), "folder that exists"),
        ((model, X[:5], Y, tmp_path / "a.html"), "X has 5 rows but Y has 150"),
        ((model, X, Y[:, :3], tmp_path / "a.html"), "5"),
        ((model, X, pd.DataFrame(Y, columns=list("abcde")), tmp_path / "a.html"), "it has the label 'a'"),
        ((model, X, np.full(Y.shape, np.nan), tmp_path / "a.html"), "no known label"),
    ):
        with pytest.raises(InputError, match=words):
            report.write(*given)
    with pytest.raises(InputError, match="pair"):
        report.write(model, X, Y, tmp_path / "a.html", train=(X, Y, Y))
    with pytest.raises(InputError, match="The X of train has 5 rows"):
        report.write(model, X, Y, tmp_path / "a.html", train=(X[:5], Y))
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_written_whole_and_says_what_it_was_told(
    rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, Y = rows
    model = LinearM3L().fit(X, Y)
    path = report.write(
        model, X, Y, tmp_path / "r.html", title="My title", data_name="my rows", feature_names="pqrstuvw"
    )
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    page = Page(text)
    assert "My title" in page.text
    assert "150 rows of my rows" in page.text
    assert "+ feature p" in page.text
    assert [one.name for one in tmp_path.iterdir()] == ["r.html"]
