"""The frame of a page."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from .html import Html, element, join

__all__ = ["code_block", "document", "page", "resource", "section", "write_page"]


def section(title: str, *content: object, **attributes: object) -> Html:
    """Make a part of a page with its heading."""
    return element("section", element("h2", title), *content, **attributes)


def code_block(text: str) -> Html:
    """Show lines of code."""
    return element("pre", element("code", text.strip("\n")), tabindex="0")


def page(title: str, lead: object, *content: object, footer: object = "") -> Html:
    """Make a whole page; its style sheet is inside, and it loads nothing from anywhere."""
    top = element("header", element("h1", title), element("p", lead, class_="lead"))
    return document(title, element("main", top, join(content), element("footer", footer)), style=resource("style.css"))


def document(title: str, *body: object, style: str, first: object = "") -> Html:
    """Put a title, a style sheet and a body together; what is given as first comes before the style sheet."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        first,
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(style)),
    )
    return join([Html("<!doctype html>\n"), element("html", head, element("body", *body), lang="en")])


def resource(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def write_page(document: Html, folder: Path) -> Path:
    """Write a page as ``index.html`` in a folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    path.write_text(document, encoding="utf-8")
    return path
