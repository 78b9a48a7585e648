"""A symmetric matrix between labels as a heat map, for the displays that draw one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._style import INK, diverging, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["heat_map", "heat_map_side"]

MAX_NAMES = 120
MAX_CELL_NUMBERS = 12


def heat_map_side(n_labels: int) -> float:
    """Return the inches a side needs for the names."""
    return float(np.clip(2.9 + 0.13 * n_labels, 4.2, 16))


def heat_map(ax: Axes, matrix: NDArray[np.float64], names: Sequence[Any], meaning: str) -> None:
    """Draw a matrix in colours centred at zero; NaN stays empty."""
    limit = float(np.nanmax(np.abs(matrix), initial=0.0)) or 1.0
    image = ax.imshow(matrix, cmap=diverging(), vmin=-limit, vmax=limit, interpolation="nearest")
    _name_cells(ax, names)
    if len(matrix) <= MAX_CELL_NUMBERS:
        _number_cells(ax, matrix, limit)
    ax.tick_params(length=0, colors=INK)
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize="small", colors=INK, length=0)
    bar.set_label(meaning, color=INK, fontsize="small")


def _name_cells(ax: Axes, names: Sequence[Any]) -> None:
    """Write the names as large as the cells allow, and none at all where they could not be read."""
    count = len(names)
    if count > MAX_NAMES:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel(f"{count} labels, ordered by similarity", color=INK)
        return
    texts = [short(name, 24) for name in names]
    box = ax.get_window_extent()
    points = min(box.width, box.height) / ax.figure.dpi * 72 / count
    size = float(np.clip(0.72 * points, 3.5, 10))
    ax.set_xticks(range(count), texts, rotation=90, fontsize=size)
    ax.set_yticks(range(count), texts, fontsize=size)


def _number_cells(ax: Axes, matrix: NDArray[np.float64], limit: float) -> None:
    for (i, j), value in np.ndenumerate(matrix):
        if np.isfinite(value):
            colour = "white" if abs(value) > 0.6 * limit else INK
            text = f"{value:.2f}".replace("-0.00", "0.00")
            ax.text(j, i, text, ha="center", va="center", color=colour, fontsize="x-small")
