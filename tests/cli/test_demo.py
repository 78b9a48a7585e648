"""The demo: its page stands alone, and its words follow from its numbers."""

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multimargin.cli.demo import page, strips, strokes
from multimargin.cli.demo.means import Mean, compare

Run = Callable[..., Any]


class Checker(HTMLParser):
    """Collects what a page refers to and checks that its elements nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag not in ("img", "meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the comparison over C and most draws; the rest is the real thing."""
    monkeypatch.setattr(strokes, "COSTS", (strokes.DEFAULT_COST,))
    monkeypatch.setattr(strips, "COSTS", (0.1,))
    monkeypatch.setattr(strips, "DRAWS", 2)


@pytest.mark.usefixtures("short")
def test_demo_writes_a_page_that_stands_alone(tmp_path: Path, run: Run) -> None:
    result = run("demo", "--out", tmp_path / "new" / "folder", "--json")
    assert (result.code, result.errors) == (0, [])
    answer = json.loads(result.out)
    document = Path(answer["page"]).read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(document)
    checker.close()
    assert checker.open == []
    assert all(reference.startswith("data:image/png;base64,") for reference in checker.references)
    assert "url(" not in document
    assert "@import" not in document
    text = " ".join(checker.text)
    for part in ("strokes", "strips"):
        assert all(finding in text for finding in answer[part]["findings"])
    assert list((tmp_path / "new" / "folder").iterdir()) == [Path(answer["page"])]


@pytest.mark.usefixtures("short")
def test_demo_for_people_names_the_page(tmp_path: Path, run: Run) -> None:
    result = run("demo", "--out", tmp_path)
    assert result.code == 0
    assert result.out.rstrip().endswith(str(tmp_path / "index.html"))


@pytest.mark.usefixtures("short")
def test_demo_measures_what_its_models_predict() -> None:
    measured = strokes.run_strokes(lambda step: None)
    for split in measured.splits:
        rows = np.isin(measured.data.digit, split.unseen)
        for method, model in split.models.items():
            wrong = (model.predict(measured.data.X[rows]) != measured.data.Y[rows]).mean()
            assert split.errors[method, strokes.DEFAULT_COST] == pytest.approx(wrong)
            assert model[-1].certificate_.converged


def test_the_code_on_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(page.CODE, {})
    assert "converged=True" in capsys.readouterr().out


def test_words_follow_from_the_numbers() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = rng.normal(size=(2, 6)) / 10 + rng.normal()
        difference = Mean.of(a - b)
        sentence = compare("Errors", "A", a, "B", b)
        assert ("within noise" in sentence) == (abs(difference.value) < 2 * difference.error)
        assert ("lower" in sentence) == (difference.value <= -2 * difference.error)
        assert ("higher" in sentence) == (difference.value >= 2 * difference.error)
