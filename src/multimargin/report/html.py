"""Pieces of HTML that cannot be unsafe: a plain string is always escaped, only `Html` is taken as it is."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Html", "element", "figure", "join", "picture", "table"]

VOID = frozenset({"br", "hr", "img", "input", "meta"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(content: object) -> Html:
    """Return HTML for any object: itself if it is HTML, otherwise its text, escaped."""
    return content if isinstance(content, Html) else Html(html.escape(str(content)))


def join(parts: Iterable[object], separator: str = "") -> Html:
    """Put pieces one after the other."""
    return Html(separator.join(escaped(part) for part in parts))


def element(name: str, *children: object, **attributes: object) -> Html:
    """Make an element.

    Parameters
    ----------
    name : str
        The tag.
    *children
        Contents, escaped unless they are `Html`.
    **attributes
        Attribute values, escaped. A trailing underscore is dropped (``class_``), others become hyphens.
    """
    words = [f'{key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"' for key, value in attributes.items()]
    opening = " ".join([name, *words])
    return Html(f"<{opening}>" if name in VOID else f"<{opening}>{join(children)}</{name}>")


def table(header: Sequence[object], rows: Iterable[Sequence[object]], caption: object = "") -> Html:
    """Make a table whose first column names the rows.

    It scrolls by itself on a narrow screen, so that the page does not.
    """
    head = element("thead", element("tr", join(_heading(cell) for cell in header)))
    body = element("tbody", join(_row(row) for row in rows))
    title = element("caption", caption) if caption else Html("")
    return element("div", element("table", title, head, body), class_="wide")


def _heading(cell: object) -> Html:
    return element("th", cell, scope="col") if cell != "" else element("td")


def _row(cells: Sequence[object]) -> Html:
    first, *rest = cells
    return element("tr", element("th", first, scope="row"), join(element("td", cell) for cell in rest))


def picture(png: bytes, alt: str, **attributes: object) -> Html:
    """Embed a PNG image."""
    source = "data:image/png;base64," + base64.b64encode(png).decode("ascii")
    return element("img", src=source, alt=alt, **attributes)


def figure(drawing: Any, alt: str, caption: object) -> Html:
    """Embed a matplotlib figure with its caption."""
    buffer = io.BytesIO()
    drawing.savefig(buffer, format="png", dpi=160, facecolor="white", metadata={"Software": None})
    width = round(drawing.get_figwidth() * 100)
    image = picture(buffer.getvalue(), alt, style=f"max-width:min(100%,{width}px)", loading="lazy")
    return element("figure", image, element("figcaption", caption))
