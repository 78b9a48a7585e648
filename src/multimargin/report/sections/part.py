"""A section of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from multimargin.report.html import Html, element, join

__all__ = ["Part", "details", "facts", "note"]


@dataclass(frozen=True)
class Part:
    """A section: its anchor, its heading and what is in it."""

    anchor: str
    title: str
    content: tuple[object, ...]

    def html(self) -> Html:
        """Return the section as HTML."""
        heading = element("h2", self.title, id=f"{self.anchor}-title")
        return element("section", heading, *self.content, id=self.anchor, aria_labelledby=f"{self.anchor}-title")


def note(*words: object) -> Html:
    """Return a remark in small type."""
    return element("p", *words, class_="note")


def details(summary: object, *content: object) -> Html:
    """Return something that is folded up until it is asked for; in print it is open."""
    return element("details", element("summary", summary), *content)


def facts(pairs: Mapping[str, object]) -> Html:
    """Return names and values as a list."""
    items = [element("div", element("dt", name), element("dd", value)) for name, value in pairs.items()]
    return element("dl", join(items), class_="facts")
