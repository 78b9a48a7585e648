"""JSON inside a page: nothing in it can end the element it stands in."""

from __future__ import annotations

import json
from typing import Any

from multimargin._plain import plain
from multimargin.report.html import Html, element

__all__ = ["json_script"]

HARMLESS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_script(name: str, value: Any) -> Html:
    """Return data as an element that scripts and other programs can read by its id."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in HARMLESS.items():
        text = text.replace(character, escape)
    return element("script", Html(text), type="application/json", id=name)
