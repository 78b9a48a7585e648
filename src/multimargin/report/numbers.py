"""Numbers as people read them."""

from __future__ import annotations

import math

__all__ = ["MISSING", "count", "number", "percent", "significant"]

MISSING = "\u2013"


def number(value: float, digits: int = 3) -> str:
    """Return a value with a fixed number of decimals; a dash if there is none."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "\u2212∞"
    words = f"{value:,.{digits}f}"
    return words.lstrip("-") if float(words.replace(",", "")) == 0 else words.replace("-", "\u2212")


def significant(value: float, digits: int = 4) -> str:
    """Return a value with a fixed number of digits."""
    return number(value) if not math.isfinite(value) else f"{value:,.{digits}g}".replace("-", "\u2212")


def count(value: float) -> str:
    """Return a number of things."""
    return MISSING if math.isnan(value) else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def percent(value: float) -> str:
    """Return a share."""
    return MISSING if math.isnan(value) else f"{100 * value:.1f}\u2009%"
