"""The report in a real browser: it loads alone, sorts, filters and prints."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multimargin import LinearM3L, ThresholdTuner, report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ROWS = "#label-table tbody tr"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


def labelled(n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with labels of all frequencies, some rare."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    weights = rng.normal(size=(10, n_labels))
    scores = X @ weights + rng.normal(size=(200, n_labels))
    Y = (scores > np.linspace(0, 6, n_labels)).astype(int)
    for label in range(n_labels):  # no label without a row, in either half
        Y[[label % 100, 100 + label % 100], label] = 1
    return X, Y


@pytest.fixture(scope="module", params=[6, 1000])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pandas as pd

    X, cells = labelled(request.param)
    names = ["</script><b>bold", *(f"label {k}" for k in range(1, request.param))]
    Y = pd.DataFrame(cells, columns=names)
    estimator = LinearM3L(C=0.01, tol=0.1)
    model: Any = ThresholdTuner(estimator, cv=2, random_state=0) if request.param == 6 else estimator
    model.fit(X[:100], Y[:100])
    target = tmp_path_factory.mktemp("page") / "report.html"
    report.write(model, X[100:], Y[100:], target)
    assert target.stat().st_size < 5_000_000
    return target


@pytest.fixture
def page(browser: Any, path: Path) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.requests, opened.problems = [], []
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.on("console", lambda message: opened.problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.goto(path.as_uri())
    yield opened
    assert opened.problems == []
    assert opened.requests == [path.as_uri()]
    opened.close()


def column(page: Any, number: int) -> list[str]:
    """Values of a column of the label table, in the order in which it stands."""
    script = "(rows, k) => rows.map(row => k ? row.cells[k].dataset.v : row.cells[0].textContent)"
    found: list[str] = page.locator(ROWS).evaluate_all(script, number)
    return found


def headings(page: Any) -> list[str]:
    return [words.strip(" ▲▼") for words in page.locator("#label-table thead button").all_text_contents()]


def in_order(values: list[str], reverse: bool) -> list[str]:
    """Python's order: numbers, and what has none last."""
    known = sorted((value for value in values if value), key=float, reverse=reverse)
    return known + [value for value in values if not value]


def test_headings_sort_by_mouse_and_keyboard(page: Any) -> None:
    names = headings(page)
    for name in ("F1", "precision", "rows"):
        number = names.index(name)
        button = page.locator("#label-table thead button").nth(number)
        heading = page.locator("#label-table thead th").nth(number)
        before = heading.get_attribute("aria-sort")
        button.click()
        falling = heading.get_attribute("aria-sort") == "descending"
        assert falling == (before != "descending")
        assert column(page, number) == in_order(column(page, number), falling)
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == ("ascending" if falling else "descending")
        assert column(page, number) == in_order(column(page, number), not falling)
        others = page.locator("#label-table thead th[aria-sort=none]")
        assert others.count() == len(names) - 1


def test_names_sort_as_people_count(page: Any) -> None:
    page.locator("#label-table thead button").first.click()
    found = [name for name in column(page, 0) if name.startswith("label ")]
    assert found == sorted(found, key=lambda name: int(name.split()[1]))


def test_the_filter_hides_rows_and_counts(page: Any) -> None:
    total = page.locator(ROWS).count()
    status = page.locator("#label-count")
    assert status.get_attribute("aria-live") == "polite"
    assert status.text_content() == f"{total:,} labels"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "label-filter"
    page.keyboard.type("Label 5")
    expected = sum("label 5" in name for name in column(page, 0))
    assert page.locator(f"{ROWS}:visible").count() == expected
    assert status.text_content() == f"{expected:,} of {total:,} labels"
    page.keyboard.press("Escape")
    assert page.locator(f"{ROWS}:visible").count() == total
    assert page.locator("#label-filter").input_value() == ""


def test_rare_labels_alone(page: Any) -> None:
    rows = headings(page).index("rows")
    rare = sum(float(value) <= 10 for value in column(page, rows))
    switch = page.locator("#label-rare")
    assert switch.count() == (1 if 0 < rare < page.locator(ROWS).count() else 0)
    if switch.count():
        switch.check()
        assert page.locator(f"{ROWS}:visible").count() == rare


def test_labels_left_out_at_first_come_on_demand(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = labelled(30)
    model = LinearM3L(C=0.01, tol=0.1).fit(X[:100], Y[:100])
    report.write(model, X[100:], Y[100:], tmp_path / "whole.html")
    monkeypatch.setattr("multimargin.report.sections.labels.MOST_ROWS", 10)
    report.write(model, X[100:], Y[100:], tmp_path / "part.html")
    page = browser.new_page()
    tables = []
    for name in ("whole", "part"):
        page.goto((tmp_path / f"{name}.html").as_uri())
        if name == "part":
            assert page.locator(ROWS).count() == 10
            page.get_by_role("button", name="Show all 30").click()
        page.get_by_role("button", name="label", exact=True).click()
        tables.append([column(page, number) for number in range(len(headings(page)))])
        assert page.locator("#label-count").text_content() == "30 labels"
    page.close()
    assert tables[0] == tables[1]


def test_a_name_that_looks_like_html_is_text(page: Any) -> None:
    assert "</script><b>bold" in column(page, 0)
    assert page.locator("#label-table b").count() == 0


def test_print_shows_everything(page: Any) -> None:
    total = page.locator(ROWS).count()
    page.locator("#label-filter").fill("label 5")
    page.emulate_media(media="print")
    assert page.locator(f"{ROWS}:visible").count() == total
    assert page.locator("#label-table thead").evaluate("it => getComputedStyle(it).display") == "table-header-group"
    assert not page.locator(".controls").is_visible()
    assert not page.locator("nav").is_visible()
    assert page.get_by_text("All rows of the table are printed").is_visible()
    assert page.pdf()[:5] == b"%PDF-"
    page.set_viewport_size({"width": 700, "height": 900})  # A4 with margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


@pytest.mark.parametrize("width", [420, 1400])
def test_the_page_is_as_wide_as_the_screen(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_skip_link_comes_first(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#report"
