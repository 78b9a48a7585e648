"""Pages that are made when the site is built, from the library, its command and the files of the repository.

They lie in ``docs/generated``, which is not kept: the reference, the help of the command, the gallery of examples, and
copies of texts from outside ``docs`` with their links bent to pages of the site.
"""

from __future__ import annotations

import ast
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
GENERATED = DOCS / "generated"

# In the order of the reference. A name is listed where it is made, under its shortest address.
ROOMS = {
    "estimators": "Estimators",
    "zero_shot": "Zero-shot recognition",
    "fleets": "Rows in parts",
    "dask": "On a cluster",
    "decisions": "Decisions",
    "baselines": "Baselines",
    "priors": "Priors",
    "weights": "Weights",
    "label_kernels": "Label kernels",
    "inspection": "Inspection",
    "metrics": "Metrics",
    "model_selection": "Splits",
    "datasets": "Data sets",
    "plots": "Plots",
    "report": "Reports",
    "persistence": "Model files",
    "interchange": "ONNX",
    "labels": "Forms of labels",
    "_progress": "Progress",
    "errors": "Errors",
}

# Texts of the repository that are pages of the site.
TEXTS = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "benchmarks/README.md": "benchmarks",
    **{f"papers/{path.parent.name}/README.md": path.parent.name for path in sorted(ROOT.glob("papers/*/README.md"))},
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r"(?:\w|\{[^}]*\})+\.png")
HELP_WIDTH = "88"


def write() -> None:
    """Write all pages that are not up to date, and remove those that no longer exist."""
    pages = {"reference.rst": reference(), "command_line.rst": command_line(), **gallery()}
    for source, name in TEXTS.items():
        pages[f"{name}.md"] = relinked((ROOT / source).read_text(), ROOT / source, GENERATED / f"{name}.md")
    for name, text in pages.items():
        page = GENERATED / name
        page.parent.mkdir(parents=True, exist_ok=True)
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
    wanted = {GENERATED / name for name in pages} | {GENERATED / "api" / f"{name}.rst" for name in addresses()}
    for page in GENERATED.rglob("*.*"):
        if page not in wanted:
            page.unlink()


def public_names(room: str) -> dict[str, Any]:
    """Return the functions, classes and scorers a room makes itself, by address."""
    library, module = import_module("multimargin"), import_module(f"multimargin.{room}")
    made = {name: getattr(module, name) for name in module.__all__}
    registered = [cls for cls in getattr(module, "REGISTRY", {}).values() if cls not in made.values()]
    return {f"{cls.__module__}.{cls.__name__}": cls for cls in registered} | {
        f"multimargin.{name}" if name in library.__all__ else f"multimargin.{room}.{name}": value
        for name, value in made.items()
        if getattr(value, "__module__", "").startswith(f"multimargin.{room}")
    }


def addresses() -> list[str]:
    """Return the addresses of everything in the reference."""
    return [address for room in ROOMS for address in public_names(room)]


def heading(title: str, line: str = "=") -> str:
    """Return a title of a reStructuredText page."""
    return f"{title}\n{line * len(title)}\n\n"


def reference() -> str:
    """Return the reference: a table of names for each room, a page for each name."""
    text = heading("Reference")
    for room, title in ROOMS.items():
        about = (import_module(f"multimargin.{room}").__doc__ or "").split("\n\n")[0].split(". ")[0].strip(" .\n")
        place = "" if room.startswith("_") else f"``multimargin.{room}``: "
        text += f"{heading(title, '-')}{place}{about}.\n\n"
        text += ".. autosummary::\n   :toctree: api\n   :nosignatures:\n\n"
        text += "".join(f"   {address}\n" for address in public_names(room)) + "\n"
    return text


def command_line() -> str:
    """Return what the command and its verbs say of themselves."""
    from typer.testing import CliRunner

    from multimargin.cli._app import VERBS, make_app

    text = heading("Command line")
    for verb in ("", *VERBS):
        arguments = [verb, "--help"] if verb else ["--help"]
        shown = {"COLUMNS": HELP_WIDTH, "TERM": "dumb", "NO_COLOR": "1"}
        answer = CliRunner().invoke(make_app(), arguments, env=shown, prog_name="multimargin")
        if answer.exit_code:
            raise RuntimeError(answer.output)
        lines = "".join(f"   {line.rstrip()}\n" for line in answer.output.strip("\n").splitlines())
        text += (heading(f"multimargin {verb}", "-") if verb else "") + f".. code-block:: text\n\n{lines}\n"
    return text


def gallery() -> dict[str, str]:
    """Return a page for each script in examples, and the page of their pictures."""
    pages, cards, plain = {}, "", ""
    for script in sorted((ROOT / "examples").glob("*.py")):
        about = ast.get_docstring(ast.parse(script.read_text())) or script.stem
        title, _, rest = about.partition("\n")
        title, link = title.rstrip("."), f":doc:`{title.rstrip('.')} <{script.stem}>`"
        pictures = pictures_of(script.read_text())
        text = heading(title) + rest.strip() + "\n\n"
        text += "".join(f".. image:: ../../images/{name}\n   :alt: {title}\n\n" for name in pictures)
        text += (
            f"{heading('The script', '-')}.. literalinclude:: ../../../examples/{script.name}\n   :language: python\n"
        )
        pages[f"gallery/{script.stem}.rst"] = text
        if pictures:
            cards += f"   .. figure:: ../../images/{pictures[0]}\n"
            cards += f"      :target: {script.stem}.html\n      :alt: {title}\n\n      {link}\n\n"
        else:
            plain += f"* {link}\n"
    hidden = ".. toctree::\n   :hidden:\n\n" + "".join(f"   {Path(page).stem}\n" for page in pages)
    text = heading("Examples") + "Each picture was drawn by the script behind it.\n\n.. container:: gallery\n\n" + cards
    pages["gallery/index.rst"] = text + (f"Without a picture:\n\n{plain}\n" if plain else "") + hidden
    return pages


def pictures_of(script: str) -> list[str]:
    """Return the pictures in ``docs/images`` that a script names, f-strings included."""
    patterns = dict.fromkeys(re.sub(r"\{[^}]*\}", "*", name) for name in PICTURE.findall(script))
    found = (path.name for pattern in patterns for path in sorted((DOCS / "images").glob(pattern)))
    return list(dict.fromkeys(found))


def relinked(text: str, source: Path, page: Path) -> str:
    """Bend the relative links of a text to the pages of the site; a link to another file becomes its name."""

    def bent(match: re.Match[str]) -> str:
        mark, words, target, anchor = match.groups(default="")
        path = (source.parent / target).resolve()
        place = place_of(path)
        if place is None:
            name = f"`{path.relative_to(ROOT)}`" if path.is_relative_to(ROOT) else f"`{target}`"
            return f"{words} ({name})" if words.strip("`") not in name else name
        return f"{mark}[{words}]({os.path.relpath(place, page.parent)}{anchor})"

    return LINK.sub(bent, text)


def place_of(path: Path) -> Path | None:
    """Return the file in ``docs`` that stands for a file of the repository on the site."""
    if path.is_relative_to(DOCS):
        return path
    if not path.is_relative_to(ROOT):
        return None
    name = path.relative_to(ROOT).as_posix()
    if name in TEXTS:
        return GENERATED / f"{TEXTS[name]}.md"
    if name == "examples":
        return GENERATED / "gallery" / "index.rst"
    if path.parent == ROOT / "examples" and path.suffix == ".py":
        return GENERATED / "gallery" / f"{path.stem}.rst"
    return None
