"""The one style of all pictures, and the optional libraries they need."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from multimargin.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DUAL", "FAINT", "GAP", "INK", "PRIMAL", "axes_or_new", "diverging", "optional", "quiet", "require", "short"]

INK = "#22313f"
FAINT = "#8a97a3"
PRIMAL = "#b4491f"
DUAL = "#1f6f8b"
GAP = "#3b3b98"


def optional(module: str, extra: str) -> Any:
    """Import a library that an extra of this package installs, or say which."""
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        msg = f'This needs {library}, which is not installed. Install it with: pip install "multimargin[{extra}]"'
        raise ImportError(msg) from error


def axes_or_new(ax: Axes | None, width: float, height: float) -> Any:
    """Return the given Axes, or that of a new figure."""
    if ax is not None:
        return ax
    return optional("matplotlib.pyplot", "plots").figure(figsize=(width, height), layout="constrained").add_subplot()


def require(given: Any, needed: tuple[str, ...], remedy: str) -> None:
    """Refuse an object without what is drawn of it."""
    missing = [name for name in needed if getattr(given, name, None) is None]
    if missing:
        msg = f"The picture is made of {', '.join(needed)}; {type(given).__name__} has no {missing[0]}. {remedy}"
        raise InputError(msg)


def short(name: Any, limit: int) -> str:
    """Return a name as text, cut if it is long."""
    text = str(name)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def diverging() -> Any:
    """Return the colours from exclusion, blue, to attraction, orange."""
    colors = optional("matplotlib.colors", "plots")
    stops = ["#1c4f7c", "#7fb2d6", "#f7f6f3", "#eea565", "#a3450d"]
    return colors.LinearSegmentedColormap.from_list("ties", stops)


def quiet(*axes: Axes) -> None:
    """Let the frame of a diagram step back behind its curves."""
    for ax in axes:
        for side in ("top", "left", "right", "bottom"):
            ax.spines[side].set_color("#cfd6dc")
        ax.spines["top"].set_visible(False)
        ax.tick_params(length=3, labelsize="small")
    axes[0].tick_params(colors=INK)
    axes[0].grid(axis="y", color="#e6eaed", linewidth=0.8)
    axes[0].set_axisbelow(True)
