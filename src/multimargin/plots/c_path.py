"""A picture of how good a model is along a path of C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ._style import DUAL, FAINT, GAP, INK, PRIMAL, axes_or_new, optional, quiet, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CPathDisplay"]


class CPathDisplay:
    """Score against C, with the standard error over the folds.

    Parameters
    ----------
    paths : mapping from names to paths
        Each with arrays ``C``, ``score`` and ``std_error``.
    scoring : str
        Name of the metric.
    chosen : str, optional
        Name of the path that was chosen.
    C : float, optional
        The C that was chosen on it, to be marked.
    nested_score : float, optional
        What to expect of new rows, drawn as a line.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    def __init__(
        self,
        *,
        paths: Mapping[str, Any],
        scoring: str,
        chosen: str = "",
        C: float | None = None,
        nested_score: float | None = None,
    ):
        self.paths, self.scoring, self.chosen, self.C, self.nested_score = dict(paths), scoring, chosen, C, nested_score

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the path of a fitted :class:`CPath`, or those of a :class:`TunedM3L`.

        Parameters
        ----------
        estimator : CPath or TunedM3L
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        CPathDisplay
        """
        require(estimator, ("C_", "decision_", "nested_score_"), "Give a fitted CPath or TunedM3L.")
        paths = getattr(estimator, "paths_", None) or {"": estimator.path_}
        shown = cls(
            paths=paths,
            scoring=estimator.decision_.scoring,
            chosen=getattr(estimator, "model_", ""),
            C=estimator.C_,
            nested_score=estimator.nested_score_,
        )
        return shown.plot(ax)

    def frame(self) -> Any:
        """Return what is drawn as a DataFrame, a row for each C."""
        pandas = optional("pandas", "tables")
        parts = [pandas.DataFrame({"path": name, **vars(path)}) for name, path in self.paths.items()]
        return pandas.concat(parts, ignore_index=True)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given Axes, or on a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        self.ax_ = ax = axes_or_new(ax, 5.6, 3.8)
        self.figure_ = ax.figure
        for (name, path), color in zip(self.paths.items(), (DUAL, PRIMAL, GAP, INK), strict=False):
            error = np.nan_to_num(path.std_error)
            ax.fill_between(path.C, path.score - error, path.score + error, color=color, alpha=0.15, linewidth=0)
            ax.plot(
                path.C, path.score, color=color, marker="o", markersize=3.5, linewidth=1.6, label=name or "out of fold"
            )
            at = np.flatnonzero(path.C == self.C)
            if self.C is not None and len(at) and name == self.chosen:
                ax.plot(self.C, path.score[at[0]], "o", markersize=10, markerfacecolor="none", markeredgecolor=color)
                ax.annotate(
                    f"C = {self.C:.3g}", (self.C, path.score[at[0]]), (0, 11), textcoords="offset points",
                    ha="center", color=INK, fontsize="small",
                )  # fmt: skip
        if self.nested_score is not None and np.isfinite(self.nested_score):
            ax.axhline(
                self.nested_score, color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)), label="to expect of new rows"
            )
        ax.set_xscale("log")
        ax.margins(y=0.12)
        ax.set_xlabel("C", color=INK)
        ax.set_ylabel(self.scoring, color=INK)
        quiet(ax)
        ax.legend(frameon=False, fontsize="small")
        return self
