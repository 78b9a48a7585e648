"""Thresholds, probabilities and the best labels through the command: what the library gives."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from multimargin import LabelCalibrator, LinearM3L, ThresholdTuner, datasets, metrics, persistence
from multimargin.decisions import FixedThresholds

from .conftest import LABELS, csv, sample

Run = Callable[..., Any]
FIT = ("fit", "noisy.csv", "--labels", "sea,sun", "-p", "C=0.1", "--out", "m.mm")


@pytest.fixture(autouse=True)
def noisy(folder: Path) -> None:
    """Labels that are rare and cannot be told for sure, so that thresholds matter."""
    for name, seed in (("noisy", 0), ("new", 1)):
        X, _ = sample(120, seed)
        noise = np.random.default_rng(seed).normal(size=(120, 2))
        Y = (X[:, :2] + noise > [1.0, 1.5]).astype(int)
        csv(folder / f"{name}.csv", X, Y)


def read(name: str) -> Any:
    return datasets.read(name, labels=list(LABELS))


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(StringIO(text))


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("macro-f1", {"scoring": "macro-f1"}),
        ("micro-fbeta=2", {"scoring": "micro-fbeta", "beta": 2.0}),
        ("example-f1", {"scoring": "example-f1"}),
        ("subset-accuracy", {"scoring": "subset-accuracy"}),
        ("hamming-loss", {"scoring": "hamming-loss"}),
        ("cost=1,4", {"scoring": "cost", "costs": (1.0, 4.0)}),
        ("precision-at-recall=0.8", {"scoring": ("precision-at-recall", 0.8)}),
    ],
)
def test_fit_tunes_thresholds_as_the_library_does(run: Run, metric: str, options: dict[str, Any]) -> None:
    result = run(*FIT, "--thresholds", metric, "--json")
    assert (result.code, result.errors) == (0, [])
    train, new = read("noisy.csv"), read("new.csv")
    by_hand = ThresholdTuner(LinearM3L(C=0.1, random_state=0), **options, random_state=0).fit(train.X, train.Y)
    answer = json.loads(result.out)
    assert answer["thresholds"]["nested_score"] == by_hand.nested_score_
    assert answer["thresholds"]["apparent_score"] == by_hand.best_score_
    assert answer["thresholds"]["rule"] == by_hand.rule_
    assert answer["certificate"]["primal"] == by_hand.estimator_.certificate_.primal
    assert answer["parameters"]["C"] == 0.1
    np.testing.assert_array_equal(table(run("predict", "m.mm", "new.csv").out), by_hand.predict(new.X).toarray())
    scores = table(run("predict", "m.mm", "new.csv", "--scores").out)
    np.testing.assert_allclose(scores, by_hand.decision_function(new.X), rtol=1e-8)


def test_fit_prints_the_nested_score_for_people(run: Run) -> None:
    result = run(*FIT, "--thresholds", "macro-f1")
    model = persistence.load("m.mm")
    assert "rule per-label for macro-f1" in result.out
    assert f"nested score        {model.nested_score_:.4f}" in result.out
    assert "proved within tol" in result.out
    assert "callback" not in result.out
    assert model.estimator_.label_names_.tolist() == list(LABELS)


def test_evaluate_judges_the_tuned_decision(run: Run) -> None:
    run(*FIT)
    plain = json.loads(run("evaluate", "m.mm", "new.csv", "--json").out)
    run(*FIT, "--thresholds", "macro-f1")
    tuned = json.loads(run("evaluate", "m.mm", "new.csv", "--json").out)
    new, model = read("new.csv"), persistence.load("m.mm")
    expected = metrics.macro_f1(new.Y, model.predict(new.X))
    assert tuned["report"] != plain["report"]
    by_hand = metrics.report(new.Y, model.predict(new.X), scores=model.decision_function(new.X), names=list(LABELS))
    assert tuned["report"] == json.loads(json.dumps(by_hand.to_dict()))
    assert f"{expected:.4f}" in run("evaluate", "m.mm", "new.csv").out
    assert tuned["thresholds"]["scoring"] == "macro-f1"
    assert "thresholds" not in plain


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_probabilities_are_those_of_the_library(run: Run, method: str) -> None:
    answer = json.loads(run(*FIT, "--calibrate", method, "--json").out)
    train, new = read("noisy.csv"), read("new.csv")
    by_hand = LabelCalibrator(LinearM3L(C=0.1, random_state=0), method=method, random_state=0).fit(train.X, train.Y)
    assert answer["calibration"]["log_loss"] == by_hand.log_loss_
    assert answer["calibration"]["method"] == method
    p = table(run("predict", "m.mm", "new.csv", "--proba").out)
    assert p.columns.tolist() == list(LABELS)
    np.testing.assert_allclose(p, by_hand.predict_proba(new.X), rtol=1e-8)
    assert f"log-loss held out   {by_hand.log_loss_:.4f}" in run(*FIT, "--calibrate", method).out


def test_thresholds_and_probabilities_together(run: Run) -> None:
    assert run(*FIT, "--calibrate", "sigmoid", "--thresholds", "micro-f1").code == 0
    model, new = persistence.load("m.mm"), read("new.csv")
    assert isinstance(model, ThresholdTuner)
    assert isinstance(model.estimator_, LabelCalibrator)
    answer = json.loads(run("predict", "m.mm", "new.csv", "--proba", "--json").out)
    np.testing.assert_array_equal(answer["probabilities"], model.predict_proba(new.X))
    assert [tuple(names) for names in answer["label_sets"]] == [
        tuple(np.array(LABELS)[row == 1].tolist()) for row in model.predict(new.X).toarray()
    ]


def test_the_best_labels_come_first(run: Run) -> None:
    run(*FIT, "--calibrate", "sigmoid")
    p = table(run("predict", "m.mm", "new.csv", "--proba").out)
    both = table(run("predict", "m.mm", "new.csv", "--proba", "--top", 2).out)
    assert both.columns.tolist() == ["label_1", "probability_1", "label_2", "probability_2"]
    assert both["label_1"].tolist() == p.idxmax(axis=1).tolist()
    assert both["label_2"].tolist() == p.idxmin(axis=1).tolist()
    np.testing.assert_array_equal(both["probability_1"], p.max(axis=1))
    names = table(run("predict", "m.mm", "new.csv", "--top", 1).out)
    scores = table(run("predict", "m.mm", "new.csv", "--scores").out)
    assert names.columns.tolist() == ["label_1"]
    assert names["label_1"].tolist() == scores.idxmax(axis=1).tolist()
    answer = json.loads(run("predict", "m.mm", "new.csv", "--scores", "--top", 1, "--json").out)
    assert [row for (row,) in answer["label_sets"]] == names["label_1"].tolist()
    np.testing.assert_allclose(np.ravel(answer["scores"]), scores.max(axis=1), rtol=1e-8)
    assert answer["labels_per_row"] == 1


def test_the_best_labels_in_files(run: Run) -> None:
    run(*FIT, "--calibrate", "sigmoid")
    shown = run("predict", "m.mm", "new.csv", "--proba", "--top", 1).out
    run("predict", "m.mm", "new.csv", "--proba", "--top", 1, "--out", "p.csv")
    assert Path("p.csv").read_text() == shown
    run("predict", "m.mm", "new.csv", "--proba", "--top", 1, "--out", "p.npz")
    cells = sparse.load_npz("p.npz").toarray()
    with np.load("p.npz") as arrays:
        np.testing.assert_array_equal(cells.argmax(axis=1), arrays["probabilities"].argmax(axis=1))
    assert (cells.sum(axis=1) == 1).all()


def test_rows_are_scored_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*FIT, "--thresholds", "macro-f1")
    scored: list[int] = []
    scores_of = LinearM3L._scores
    monkeypatch.setattr(LinearM3L, "_scores", lambda self, X: scored.append(X.shape[0]) or scores_of(self, X))
    for words in (("evaluate",), ("predict",), ("predict", "--scores", "--top", "1")):
        scored.clear()
        assert run(words[0], "m.mm", "new.csv", *words[1:]).code == 0
        assert sum(scored) == 120


def test_the_same_command_gives_the_same_model(run: Run) -> None:
    models = []
    for _ in range(2):
        run(*FIT, "--thresholds", "macro-f1")
        models.append(persistence.load("m.mm"))
    np.testing.assert_array_equal(models[0].thresholds_, models[1].thresholds_)
    np.testing.assert_array_equal(models[0].estimator_.coef_, models[1].estimator_.coef_)


def test_a_tuned_model_that_did_not_converge_says_so(run: Run) -> None:
    result = run(*FIT[:4], "-p", "max_iter=1", "-p", "C=1000", "--thresholds", "macro-f1", "--out", "m.mm")
    assert result.code == 1
    assert result.errors[-1].startswith("multimargin: The model did not converge")
    assert json.loads(run("evaluate", "m.mm", "new.csv", "--json").out)["converged"] is False


def test_thresholds_set_by_hand_are_used(run: Run) -> None:
    train, new = read("noisy.csv"), read("new.csv")
    model = FixedThresholds(LinearM3L(random_state=0), [-np.inf, 0.0]).fit(train.X, train.Y)
    persistence.save(model, "m.mm")
    cells = table(run("predict", "m.mm", "new.csv", "--labels", "sea,sun").out)
    np.testing.assert_array_equal(cells, model.predict(new.X).toarray())
    assert cells.iloc[:, 0].all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*FIT, "--thresholds", "macro-f2"), "--thresholds macro-f2: scoring must name a metric"),
        ((*FIT, "--thresholds", "macro-f2"), "Did you mean 'macro-f1'?"),
        ((*FIT, "--thresholds", "macro-f1=2"), "takes no number beside it"),
        ((*FIT, "--thresholds", "macro-fbeta"), "takes one positive number beside it; got 'macro-fbeta'"),
        ((*FIT, "--thresholds", "macro-fbeta=two"), "Example: --thresholds macro-fbeta=2"),
        ((*FIT, "--thresholds", "cost=1"), "takes two positive numbers"),
        ((*FIT, "--thresholds", "cost=1,-5"), "takes two positive numbers"),
        ((*FIT, "--thresholds", "precision-at-recall=1.5"), "needs a share in (0, 1]"),
        ((*FIT, "--calibrate", "platt"), "--calibrate takes one of sigmoid, isotonic, temperature; got 'platt'"),
        (("predict", "plain.mm", "new.csv", "--proba"), "multimargin fit --calibrate sigmoid"),
        (("predict", "tuned.mm", "new.csv", "--proba"), "this LinearM3L has scores only"),
        (("predict", "plain.mm", "new.csv", "--proba", "--scores"), "--scores or --proba, not both"),
        (("predict", "plain.mm", "new.csv", "--top", "0"), "from 1 to the 2 of the model; got 0"),
        (("predict", "plain.mm", "new.csv", "--top", "3"), "from 1 to the 2 of the model; got 3"),
        (("predict", "plain.mm", "new.csv", "--top", "many"), "--top"),
    ],
    ids=lambda value: " ".join(value[-3:]) if isinstance(value, tuple) else "",
)
def test_what_does_not_fit_is_one_sentence(run: Run, words: tuple[str, ...], message: str) -> None:
    run(*FIT[:-1], "plain.mm")
    run(*FIT[:-1], "tuned.mm", "--thresholds", "macro-f1")
    result = run(*words)
    assert (result.code, result.out, len(result.errors)) == (2, "", 1)
    assert message in result.errors[0]
    assert not Path("m.mm").exists()


def test_a_constant_label_is_named(folder: Path, run: Run) -> None:
    X, Y = sample(60)
    Y[:, 0] = 0
    csv(folder / "constant.csv", X, Y)
    result = run("fit", "constant.csv", "--labels", "sea,sun", "--thresholds", "macro-f1")
    assert result.code == 0
    assert [line for line in result.errors if "'sea'" in line] == result.errors != []


def test_a_model_that_predicts_nothing_is_one_line_with_remedies_of_the_command(run: Run, folder: Path) -> None:
    X, _ = sample(200)
    Y = (np.random.default_rng(1).random((200, 2)) < 0.1).astype(int)
    csv(folder / "rare.csv", X, Y)
    fit = ("fit", "rare.csv", "--labels", "sea,sun", "--json")
    result = run(*fit)
    assert result.code == 0
    assert result.errors == [
        f"warning: LinearM3L predicts 0 of 2 labels per row where {Y.sum() / 200:.3g} are true (200 training rows). "
        "Give --thresholds macro-f1, give -p class_weight=balanced, or try a larger C with -p C=VALUE."
    ]
    assert run(*fit, "--thresholds", "macro-f1").errors == []
    assert run(*fit, "-p", "class_weight=balanced").errors == []
