"""Self-contained HTML pages: text, tables, pictures and code in one file that needs nothing else.

:func:`write` makes the report of a model.
"""

from .html import Html, element, figure, join, picture, table
from .model_report import write
from .page import code_block, page, section, write_page

__all__ = [
    "Html",
    "code_block",
    "element",
    "figure",
    "join",
    "page",
    "picture",
    "section",
    "table",
    "write",
    "write_page",
]
