"""Self-contained HTML pages: text, tables, pictures and code in one file that needs nothing else."""

from .html import Html, element, figure, join, picture, table
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
    "write_page",
]
