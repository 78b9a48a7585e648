"""Small pictures as SVG, coloured by the style sheet of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multimargin.report.html import Html, element, join

__all__ = ["Box", "Scale", "decimals", "drawing", "frame", "name_width", "path", "short", "side_by_side", "text"]


def decimals(value: float) -> str:
    """Return a coordinate with at most one decimal, as short as it can be."""
    words = f"{value:.1f}".removesuffix(".0")
    return "0" if words == "-0" else words


def short(name: str, limit: int) -> str:
    """Return a name that is cut if it is long."""
    return name if len(name) <= limit else name[: limit - 1] + "…"


def name_width(names: Iterable[str], limit: int) -> float:
    """Return about how much room the longest of these names needs, once they are cut."""
    return 14.0 + 6.3 * max((len(short(name, limit)) for name in names), default=0)


def drawing(width: float, height: float, title: str, description: str, *content: object, **attributes: object) -> Html:
    """Make a picture that says in words what it shows."""
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *content,
        viewBox=f"0 0 {decimals(width)} {decimals(height)}",
        width=decimals(width),
        height=decimals(height),
        role="img",
        **attributes,
    )


def text(x: float, y: float, words: object, anchor: str = "start", **attributes: object) -> Html:
    """Write words at a place."""
    return element("text", words, x=decimals(x), y=decimals(y), text_anchor=anchor, **attributes)


def path(xs: ArrayLike, ys: ArrayLike, close: bool = False, **attributes: object) -> Html:
    """Draw a line through points."""
    points = [f"{decimals(x)} {decimals(y)}" for x, y in zip(np.asarray(xs), np.asarray(ys), strict=True)]
    return element("path", d="M" + "L".join(points) + ("Z" if close else ""), **attributes)


@dataclass(frozen=True)
class Box:
    """The place of a diagram inside its picture."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Scale:
    """From values to places, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, values: Any) -> NDArray[np.float64]:
        """Return places; values outside are moved to the border."""
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        given = np.asarray(values, dtype=np.float64)
        if self.log:
            given = np.log10(np.maximum(given, self.low))
        share = np.clip((given - low) / (high - low), 0.0, 1.0)
        return np.asarray(self.start + share * (self.end - self.start))

    def ticks(self, most: int = 5) -> list[float]:
        """Return round values along the scale: powers of ten, or steps of 1, 2 or 5 times one power."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, math.ceil((last - first + 1) / most))
            if last > first:
                return [10.0**k for k in range(first, last + 1, every)]
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
        steps = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return [k * step for k in steps]


def tick_text(value: float, log: bool) -> str:
    """Return the words of a tick."""
    if log and not 0.01 <= value <= 10_000:
        return f"1e{round(math.log10(value))}"
    return f"{value:,.6g}".replace("-", "\u2212")


def frame(
    box: Box, x: Scale | None, y: Scale | None, *, x_words: str = "", y_words: str = "", most: Sequence[int] = (5, 4)
) -> Html:
    """Draw grid lines with their values, and what the axes mean."""
    parts: list[Html] = []
    if y is not None:
        for value in y.ticks(most[1]):
            at = float(y(value))
            parts.append(path([box.left, box.right], [at, at], class_="grid"))
            parts.append(text(box.left - 5, at + 3.5, tick_text(value, y.log), "end"))
    if x is not None:
        parts.append(path([box.left, box.right], [box.bottom, box.bottom], class_="axis"))
        for value in x.ticks(most[0]):
            at = float(x(value))
            parts.append(path([at, at], [box.bottom, box.bottom + 3], class_="axis"))
            parts.append(text(at, box.bottom + 14, tick_text(value, x.log), "middle"))
    if x_words:
        parts.append(text((box.left + box.right) / 2, box.bottom + 28, x_words, "middle", class_="words"))
    if y_words:
        parts.append(text(0, box.top - 8, y_words, class_="words"))
    return join(parts)


def side_by_side(pictures: Iterable[Html]) -> Html:
    """Put small pictures in rows, as many as the page is wide."""
    return element("div", join(pictures), class_="multiples")
