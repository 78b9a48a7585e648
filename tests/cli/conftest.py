"""Tiny real files: two labels that depend on three features."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from multimargin.cli import main

LABELS = ("sea", "sun")
FEATURES = ("blue", "red", "green")


@dataclass
class Result:
    """What a run of the command left: exit code, standard output and the lines of standard error."""

    code: int
    out: str
    errors: list[str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def call(*words: object) -> Result:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err.splitlines())

    return call


def sample(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(n, 3)).round(3)
    return X, np.column_stack([X[:, 0] > 0, X[:, 1] - X[:, 2] > 0]).astype(int)


def arff(path: Path, X: np.ndarray, Y: np.ndarray, labels: tuple[str, ...] = LABELS) -> None:
    head = [f"@attribute {name} numeric" for name in FEATURES] + [f"@attribute {name} {{0,1}}" for name in labels]
    rows = [",".join(map(str, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    path.write_text("\n".join(["@relation tiny", *head, "@data", *rows]) + "\n")


def csv(path: Path, X: np.ndarray, Y: np.ndarray | None, labels: tuple[str, ...] = LABELS) -> None:
    table = X if Y is None else np.column_stack([X, Y])
    names = FEATURES if Y is None else FEATURES + labels
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in table.tolist())]) + "\n")


def libsvm(path: Path, X: np.ndarray, Y: np.ndarray) -> None:
    lines = []
    for x, y in zip(X, Y, strict=True):
        labels = ",".join(str(k + 1) for k in np.flatnonzero(y))
        lines.append(labels + " " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(x) if value))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with training and test files in several formats."""
    for split, seed in (("train", 0), ("test", 1)):
        X, Y = sample(seed=seed)
        arff(tmp_path / f"{split}.arff", X, Y)
        csv(tmp_path / f"{split}.csv", X, Y)
        libsvm(tmp_path / f"{split}.svm", X, Y)
    tags = "".join(f'<label name="{name}"></label>' for name in LABELS)
    (tmp_path / "tiny.xml").write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{tags}</labels>')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder: Path, run: Callable[..., Result]) -> Path:
    assert run("fit", "train.arff", "--labels", "tiny.xml", "--out", "model.mm").code == 0
    return folder / "model.mm"
