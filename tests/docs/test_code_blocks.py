"""The Python blocks of the README, the quickstart, the how-to pages and some chapters run as they are printed.

The blocks of a page run one after the other in one namespace. ``<!-- fragment -->`` before a block says that it is not
meant to run; ``<!-- needs data -->``, that it needs a real data set; and ``<!-- prints -->`` before a text block, that
this is what the Python block above it prints.
"""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "quickstart.md",
    ROOT / "docs" / "models_in_files.md",
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
BLOCK = re.compile(r"(?:<!-- ([a-z ]+) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str, str, int]]:
    """Return mark, language, text and first line of every block."""
    text = page.read_text()
    return [(m[1] or "", m[2], m[3], text.count("\n", 0, m.start(3))) for m in BLOCK.finditer(text)]


@pytest.mark.filterwarnings("ignore::multimargin.errors.DecisionWarning")  # a reader may see it, and read on
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # some blocks write files
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names, ran, printed = {"__name__": "__main__"}, 0, None
    for mark, language, text, line in blocks(page):
        if language == "text" and mark == "prints":
            assert printed is not None, f"{page.name}:{line}: no block above it ran"
            assert normal(printed) == normal(text), f"{page.name}:{line}"
        if language != "python" or mark == "fragment":
            continue
        if mark == "needs data" and not os.environ.get("MULTIMARGIN_DATA"):
            printed = None
            continue
        exec(compile("\n" * line + text, page, "exec"), names)  # a failure names the line of the page
        ran, printed = ran + 1, capsys.readouterr().out
    assert ran, f"{page.name} has no block that runs"


def normal(text: str) -> list[str]:
    """Return the lines without spaces at their ends."""
    return [line.rstrip() for line in text.strip().splitlines()]


def test_marks_are_known():
    marks = {mark for page in PAGES for mark, *_ in blocks(page)}
    assert marks <= {"", "fragment", "needs data", "prints"}
