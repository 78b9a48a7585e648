"""Docstrings that say only what is their own: entries for parameters and attributes are inherited."""

from __future__ import annotations

import inspect
import re

__all__ = ["with_inherited_texts"]

ENTRY = re.compile(r"^(\w+) : (.*)\n((?:(?:    .*)?\n)*(?:    .*))", flags=re.MULTILINE)


def with_inherited_texts(cls: type) -> str | None:
    """Return the docstring of a class whose sections have the entries they lack from its bases, if these have them.

    Parameters are those of the constructor, with the defaults it gives them.
    """
    if not cls.__doc__:
        return cls.__doc__
    text = inspect.cleandoc(cls.__doc__)
    defaults = {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}
    for base in cls.__mro__[1:]:
        own = inspect.cleandoc(vars(base).get("__doc__") or "")
        for name, kind, words in ENTRY.findall(_section(own, "Parameters")):
            if name in defaults:
                text = _with_entry(text, "Parameters", name, _with_default(kind, defaults[name]), words)
        for name, kind, words in ENTRY.findall(_section(own, "Attributes")):
            text = _with_entry(text, "Attributes", name, kind, words)
    return text


def _section(text: str, title: str) -> str:
    found = re.search(rf"(?:^|\n){title}\n-+\n(.*?)(?=\n\n\w[\w ]*\n---|\Z)", text, flags=re.DOTALL)
    return "" if found is None else found.group(1).rstrip()


def _with_entry(text: str, title: str, name: str, kind: str, words: str) -> str:
    """Add an entry at the end of a section that there is and that lacks it."""
    section = _section(text, title)
    if not section or re.search(rf"^{name} :", section, flags=re.MULTILINE):
        return text
    return text.replace(section, f"{section}\n{name} : {kind}\n{words}", 1)


def _with_default(kind: str, default: object) -> str:
    kind = re.sub(r", (default=.*|optional)$", "", kind)
    return f"{kind}, optional" if default is None and "None" not in kind else f"{kind}, default={default!r}"
