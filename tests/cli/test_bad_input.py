"""Bad input: exit code 2 and one sentence on standard error, whatever it is."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multimargin import LinearM3L, ZeroShotClassifier, datasets, save
from multimargin.cli import main

from .conftest import csv, sample

Run = Callable[..., Any]
FIT = ("fit", "train.arff", "--labels", "tiny.xml")


@pytest.fixture
def bad(folder: Path, model: Path) -> Path:
    """Add files that are wrong in one way each."""
    X, Y = sample()
    (folder / "empty.arff").touch()
    (folder / "empty.csv").touch()
    (folder / "strange.xyz").write_text("what is this")
    for name, value in (("nan", np.nan), ("inf", np.inf)):
        wrong = X.copy()
        wrong[3, 1] = value
        csv(folder / f"{name}.csv", wrong, Y)
    large = X.copy()
    large[3, 1] = 1e300
    csv(folder / "large.csv", large, Y)
    save(LinearM3L(), folder / "unfitted.mm")
    digits = ZeroShotClassifier(LinearM3L(random_state=0), {"low": [0, 1], "high": [1, 0], "both": [1, 1]})
    save(digits.fit(X, np.where(Y[:, 0], "low", "high")), folder / "categories.mm")
    fit = LinearM3L(random_state=0).fit(X, Y)
    save(fit, folder / "strange_notes.mm", notes={"reading": {"kind": ".csv", "options": {"labels": {"a": 1}}}})
    csv(folder / "one_feature_less.csv", np.column_stack([X[:, :2], Y])[:, :2], None)
    (folder / "one_feature_less.csv").write_text("blue,red,sea,sun\n0.5,0.5,1,0\n")
    (folder / "twice.csv").write_text("blue,sea,sea\n1,0,1\n")
    (folder / "two.csv").write_text("blue,red,green,sea,sun\n1,2,3,2,0\n")
    (folder / "other_labels.csv").write_text("blue,red,green,sea,moon\n1,2,3,1,0\n")
    (folder / "three_labels.csv").write_text("blue,red,green,sea,sun,moon\n1,2,3,1,0,1\n")
    (folder / "no_rows.csv").write_text("blue,red,green,sea,sun\n")
    damaged = bytearray(model.read_bytes())
    damaged[-100] ^= 1
    (folder / "damaged.mm").write_bytes(damaged)
    (folder / "truncated.mm").write_bytes(model.read_bytes()[:200])
    np.save(folder / "wide.npy", np.eye(3))
    np.save(folder / "indefinite.npy", np.array([[1.0, 2.0], [2.0, 1.0]]))
    (folder / "words.csv").write_text("a,b\nc,d\n")
    (folder / "a_file").touch()
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "none.arff", "--labels", "tiny.xml"), "none.arff"),
        (("fit", "none"), "no data set called 'none'"),
        (("fit", "digit-strip"), "Did you mean digit-strips?"),
        (
            ("fit", "digit-strips", "--model", "random-forest-labels", "--out", "m.mm"),
            "A random-forest-labels model cannot be kept in a file",
        ),
        (("fit", "."), "director"),
        (("fit", "empty.arff", "--labels", "tiny.xml"), "empty.arff"),
        (("fit", "empty.csv", "--labels", "sea"), "empty.csv"),
        (("fit", "no_rows.csv", "--labels", "sea,sun"), "no_rows.csv"),
        (("fit", "strange.xyz"), "strange.xyz"),
        (("fit", "train.arff"), "train.arff"),
        (("fit", "train.arff", "--labels", "none.xml"), "none.xml"),
        (("fit", "train.arff", "--labels", "train.xml.txt"), "train.xml.txt"),
        (("fit", "train.csv", "--labels", "sea,moon"), "moon"),
        (("fit", "train.csv", "--labels", "99"), "99"),
        (("fit", "train.csv", "--labels", "sea", "--format", "excel"), "excel"),
        (("fit", "nan.csv", "--labels", "sea,sun"), "nan.csv"),
        (("fit", "inf.csv", "--labels", "sea,sun"), "inf.csv"),
        (("fit", "large.csv", "--labels", "sea,sun"), "large.csv: The features must not be larger"),
        (("fit", "large.csv", "--labels", "sea,sun"), "column 'red'"),
        (("predict", "model.mm", "large.csv", "--labels", "sea,sun"), "column 'red'"),
        (("evaluate", "model.mm", "large.csv", "--labels", "sea,sun"), "column 'red'"),
        (("fit", "twice.csv", "--labels", "sea"), "sea"),
        (("fit", "two.csv", "--labels", "sea,sun"), "two.csv"),
        ((*FIT, "-p", "c=1"), "Did you mean C?"),
        ((*FIT, "-p", "C"), "name=value"),
        ((*FIT, "-p", "=1"), "name=value"),
        ((*FIT, "-p", "C=1", "-p", "C=2"), "twice"),
        ((*FIT, "-p", "C=-1"), "'C'"),
        ((*FIT, "-p", "C=many"), "'C'"),
        ((*FIT, "-p", "loss=hinge"), "'loss'"),
        ((*FIT, "-p", "prior=labels"), "--prior"),
        ((*FIT, "-p", "callback=print"), "callback"),
        ((*FIT, "--model", "linear-m3"), "Did you mean linear-m3l?"),
        ((*FIT, "--prior", "none.npy"), "none.npy"),
        ((*FIT, "--prior", "wide.npy"), "(3, 3)"),
        ((*FIT, "--prior", "indefinite.npy"), "semidefinite"),
        ((*FIT, "--prior", "words.csv"), "words.csv"),
        ((*FIT, "--prior", "model.mm"), "model.mm"),
        ((*FIT, "--out", "nowhere/model.mm"), "nowhere"),
        ((*FIT, "--out", "."), "directory"),
        ((*FIT, "--bogus"), "--bogus"),
        (("fit",), "DATA"),
        (("frobnicate",), "frobnicate"),
        (("predict", "none.mm", "test.arff"), "none.mm"),
        (("predict", "damaged.mm", "test.arff"), "damaged"),
        (("predict", "truncated.mm", "test.arff"), "truncated"),
        (("predict", "train.arff", "test.arff"), "not a multimargin model file"),
        (("predict", ".", "test.arff"), "directory"),
        (("predict", "unfitted.mm", "test.csv"), "holds a LinearM3L that was never fitted"),
        (("report", "categories.mm", "test.csv"), "holds a ZeroShotClassifier that predicts categories"),
        (("evaluate", "categories.mm", "test.csv"), "which column of test.csv holds the categories"),
        (("predict", "strange_notes.mm", "test.csv"), "are damaged"),
        (("predict", "model.mm"), "DATA"),
        (("predict", "model.mm", "none.arff"), "none.arff"),
        (
            ("predict", "model.mm", "one_feature_less.csv", "--labels", "sea,sun"),
            "expected 3 features as the model needs, found none called 'green'",
        ),
        (("predict", "model.mm", "test.arff", "--out", "p.txt"), ".csv or .npz"),
        (("predict", "model.mm", "test.arff", "--out", "nowhere/p.csv"), "nowhere"),
        (("predict", "model.mm", "digit-strips"), "has 48 features, but the model needs 3"),
        (("evaluate", "model.mm", "other_labels.csv", "--labels", "sea,moon"), "'moon'"),
        (("evaluate", "model.mm", "three_labels.csv", "--labels", "sea,sun,moon"), "3 labels, but the model knows 2"),
        (("evaluate", "damaged.mm", "test.arff"), "damaged"),
        (("datasets", "sceen"), "Did you mean scene?"),
        (("demo", "--out", "a_file"), "a_file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("output", [(), ("--json",)], ids=["people", "json"])
def test_bad_input_is_one_sentence(
    bad: Path, run: Run, words: tuple[str, ...], message: str, output: tuple[str, ...]
) -> None:
    before = sorted(path.name for path in bad.iterdir())
    result = run(*words, *output)
    assert result.code == 2
    assert len(result.errors) == 1, result.errors
    assert result.errors[0].startswith("multimargin: ")
    assert message in result.errors[0]
    assert result.out == ""
    assert sorted(path.name for path in bad.iterdir()) == before


def test_the_installed_command_exits_with_the_code(folder: Path) -> None:
    command = [sys.executable, "-m", "multimargin.cli", "fit", "none.arff"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr


def broken(*_: object, **__: object) -> None:
    raise KeyError


def test_a_bug_of_ours_asks_for_debug(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "read", broken)
    result = run(*FIT)
    assert result.code == 1
    (line,) = result.errors
    assert "KeyError" in line
    assert "--debug" in line
    shown = run(*FIT, "--debug")
    assert shown.code == 1
    assert "Traceback (most recent call last):" in shown.errors


def test_debug_shows_where_bad_input_was_found(folder: Path, run: Run) -> None:
    result = run("fit", "none.arff", "--debug")
    assert result.code == 2
    assert "Traceback (most recent call last):" in result.errors


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["--help"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "typer" in line
    assert 'pip install "multimargin[cli]"' in line
