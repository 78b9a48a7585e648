"""The report through the command: what the library says of the same rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multimargin import datasets, metrics, persistence

Run = Callable[..., Any]


def test_the_page_is_written_and_its_numbers_are_shown(run: Run, model: Path) -> None:
    result = run("report", "model.mm", "test.arff", "--labels", "tiny.xml", "--out", "page.html", "--title", "Mine")
    assert (result.code, result.errors) == (0, [])
    text = Path("page.html").read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in text
    assert "40 rows of test.arff" in text
    assert "page.html" in result.out
    assert "macro-F1" in result.out


def test_json_holds_what_evaluate_says(run: Run, model: Path) -> None:
    words = ("model.mm", "test.csv", "--labels", "sea,sun", "--json")
    answer = json.loads(run("report", *words, "--train", "train.csv").out)
    judged = json.loads(run("evaluate", *words).out)
    for name, value in judged["report"]["values"].items():
        assert answer["metrics"][name] == value
    test = datasets.read("test.csv", labels=["sea", "sun"])
    loaded = persistence.load(model)
    assert answer["metrics"]["macro-f1"] == metrics.macro_f1(test.Y, loaded.predict(test.X))
    assert set(answer["one_vs_all"]) == set(judged["report"]["values"])
    assert answer["bytes"] == Path("report.html").stat().st_size
    assert "feature green" in Path("report.html").read_text(encoding="utf-8")


def test_tuned_and_calibrated_models_are_reported(run: Run, folder: Path) -> None:
    fit = ("fit", "train.csv", "--labels", "sea,sun", "--thresholds", "macro-f1", "--calibrate", "sigmoid")
    assert run(*fit, "--out", "m.mm").code == 0
    answer = json.loads(run("report", "m.mm", "test.csv", "--json").out)
    assert answer["metrics"]["log-loss"] < answer["best_constant"]["log-loss"]
    assert "The training rows were not given" in answer["warnings"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("model.mm", "test.csv", "--labels", "sea,sun", "--out", "no/page.html"), "the folder no does not exist"),
        (("missing.mm", "test.csv"), "missing.mm"),
        (("model.mm", "narrow.csv", "--labels", "sea,sun"), "narrow.csv: expected 3 features as the model needs"),
        (
            ("model.mm", "test.csv", "--labels", "sea,sun", "--train", "narrow.csv"),
            "narrow.csv: expected 3 features as the model needs",
        ),
        (("model.mm", "test.csv", "--labels", "sea,sun", "--train", "nothing"), "no data set called 'nothing'"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, model: Path, words: tuple[str, ...], said: str) -> None:
    (model.parent / "narrow.csv").write_text("blue,red,sea,sun\n0.1,0.2,0,1\n0.3,0.4,1,0\n")
    result = run("report", *words)
    assert result.code == 2
    assert len(result.errors) == 1
    assert said in result.errors[0]
