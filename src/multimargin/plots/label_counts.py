"""How many rows have each label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ._style import DUAL, FAINT, INK, PRIMAL, axes_or_new, optional, quiet, require, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LabelCountsDisplay"]

MAX_BARS = 40
RARE = 10


class LabelCountsDisplay:
    """How many rows have each label, the most frequent first; labels of at most 10 rows stand out.

    Up to 40 labels are bars with their names and numbers; more are one curve on a logarithmic scale.

    Parameters
    ----------
    positives : array of shape (n_labels,)
        Rows that have each label.
    label_names : sequence of length n_labels, optional
        Label names; by default numbers.

    Attributes
    ----------
    positives : ndarray
        The rows in the order in which they are drawn.
    label_names : list
        The label names in that order.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    def __init__(self, *, positives: ArrayLike, label_names: Sequence[Any] | None = None):
        counts = np.asarray(positives)
        names = list(range(len(counts)) if label_names is None else label_names)
        order = np.argsort(-counts, kind="stable")
        self.positives, self.label_names = counts[order], [names[k] for k in order]

    @classmethod
    def from_description(cls, description: Any, *, ax: Axes | None = None) -> Self:
        """Draw what :func:`multimargin.inspection.describe` returned."""
        require(description, ("positives", "names"), "Give what inspection.describe(Y) returns.")
        return cls(positives=description.positives, label_names=list(description.names)).plot(ax)

    def frame(self) -> Any:
        """Return what is drawn as a DataFrame, a row for each label."""
        return optional("pandas", "tables").DataFrame({"label": self.label_names, "positives": self.positives})

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given Axes, or on a new figure."""
        bars = len(self.positives) <= MAX_BARS
        self.ax_ = ax = axes_or_new(ax, 4.8, max(2.4, 0.24 * len(self.positives) + 1.0) if bars else 4.0)
        self.figure_ = ax.figure
        quiet(ax)
        ax.grid(visible=False)
        if bars:
            self._bars(ax)
        else:
            self._curve(ax)
        return self

    def _bars(self, ax: Any) -> None:
        places = np.arange(len(self.positives))
        rare = self.positives <= RARE
        drawn = ax.barh(places, self.positives, height=0.7, color=np.where(rare, PRIMAL, DUAL))
        ax.bar_label(drawn, [f"{count:,}" for count in self.positives], padding=3, fontsize="x-small", color=INK)
        ax.set_yticks(places, [short(name, 24) for name in self.label_names], fontsize="small")
        ax.set_ylim(len(places) - 0.4, -0.6)
        ax.margins(x=0.12)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel("rows with the label", color=INK)

    def _curve(self, ax: Any) -> None:
        rank = np.arange(1, len(self.positives) + 1)
        shown = np.where(self.positives > 0, self.positives, np.nan)
        ax.fill_between(rank, 0.7, shown, color=DUAL, alpha=0.15, linewidth=0, step="mid")
        ax.step(rank, shown, where="mid", color=DUAL, linewidth=1.4)
        rare = int(np.count_nonzero(self.positives <= RARE))
        if rare:
            first = len(rank) - rare
            ax.axvspan(first + 0.5, len(rank) + 0.5, color=PRIMAL, alpha=0.1, linewidth=0)
            ax.step(rank[first:], shown[first:], where="mid", color=PRIMAL, linewidth=1.4)
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7)
        ax.set_xlim(0.5, len(rank) + 0.5)
        ax.grid(axis="y", color="#e6eaed", linewidth=0.8)
        for place in dict.fromkeys([0, len(rank) // 2]):
            if self.positives[place] > 0:
                text = f"{short(self.label_names[place], 24)}: {self.positives[place]:,}"
                ax.annotate(text, (rank[place], shown[place]), (6, 6), textcoords="offset points", fontsize="x-small")
        never = int(np.count_nonzero(self.positives == 0))
        rest = f", {never:,} never" if never else ""
        title = f"{rare:,} of {len(rank):,} labels in at most {RARE} rows{rest}"
        ax.set_title(title, fontsize="small", color=PRIMAL if rare else FAINT, loc="right")
        ax.set_xlabel("labels, the most frequent first", color=INK)
        ax.set_ylabel("rows with the label", color=INK)
