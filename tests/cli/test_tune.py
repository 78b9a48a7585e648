"""``multimargin tune``: what the library's own search finds, and a model file that keeps it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multimargin import CPath, LinearM3L, TunedM3L, datasets, persistence
from multimargin.labels import read_labels

from .conftest import csv, sample

Run = Callable[..., Any]
TUNE = ("tune", "noisy.csv", "--labels", "sea,sun", "--folds", "3", "--jobs", "1")


@pytest.fixture(autouse=True)
def noisy(folder: Path) -> None:
    X, _ = sample(90)
    Y = (X[:, :2] + np.random.default_rng(0).normal(size=(90, 2)) > [0.3, 0.8]).astype(int)
    csv(folder / "noisy.csv", X, Y)


def training_data() -> Any:
    data = datasets.read("noisy.csv", labels=["sea", "sun"])
    return data.X, read_labels(data.Y, names=data.label_names)


def test_one_model_along_its_path(run: Run) -> None:
    result = run(*TUNE, "--model", "linear-m3l", "--C", "0.1,1", "--metric", "micro-f1", "--out", "m.mm", "--json")
    assert (result.code, result.errors) == (0, [])
    answer = json.loads(result.out)
    by_hand = CPath(LinearM3L(random_state=0), Cs=[0.1, 1.0], scoring="micro-f1", cv=3, random_state=0).fit(
        *training_data()
    )
    assert answer["C"] == by_hand.C_
    assert answer["paths"]["LinearM3L"]["score"] == by_hand.path_.score.tolist()
    assert answer["thresholds"]["nested_score"] == by_hand.nested_score_
    assert answer["certificate"]["converged"]
    kept = persistence.load("m.mm")
    np.testing.assert_array_equal(kept.thresholds_, by_hand.thresholds_)
    probabilities = run("predict", "m.mm", "noisy.csv", "--proba")
    assert probabilities.code == 0


def test_everything_chosen(run: Run) -> None:
    result = run(*TUNE, "--C", "2", "--metric", "macro-fbeta=2", "--out", "m.mm")
    assert (result.code, result.errors) == (0, [])
    model = TunedM3L("macro-fbeta", beta=2.0, Cs=2, cv=3, random_state=0).fit(*training_data())
    assert f"C = {model.C_:.4g}" in result.out
    assert f"{model.nested_score_:.4f}" in result.out
    assert result.out.count("chosen") == 1
    evaluated = json.loads(run("evaluate", "m.mm", "noisy.csv", "--json").out)
    assert evaluated["thresholds"]["scoring"] == "macro-fbeta"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--metric", "macro-f"), "--metric macro-f"),
        (("--metric", "cost=1"), "two positive numbers"),
        (("--C", "0,1"), "--C takes positive numbers"),
        (("--C", "a"), "--C takes positive numbers"),
        (("-p", "C=1"), "Give --model, too"),
        (("--model", "mlknn"), "must have a parameter C"),
        (("--model", "linear"), "There is no model"),
        (("--prior", "x.txt"), "A prior is 'labels'"),
        (("--folds", "1"), "--folds"),
        (("--out", "nowhere/m.mm"), "does not exist"),
    ],
)
def test_bad_input(run: Run, words: tuple[str, ...], sentence: str) -> None:
    result = run(*TUNE, *words)
    assert result.code == 2
    assert len(result.errors) == 1
    assert sentence in result.errors[0]
