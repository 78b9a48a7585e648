"""How the share of wrong labels changed as cliques joined a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ._style import DUAL, INK, PRIMAL, axes_or_new, optional, quiet, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CliquePathDisplay"]


class CliquePathDisplay:
    """How the share of wrong labels changed as cliques joined a model; a ring marks the best on held-out rows.

    Parameters
    ----------
    n_cliques, training_loss, validation_loss : array of shape (n_rounds,)
        Cliques in the model, and the shares of wrong labels then; a loss that is NaN throughout is not drawn.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    def __init__(self, *, n_cliques: ArrayLike, training_loss: ArrayLike, validation_loss: ArrayLike):
        self.n_cliques = np.asarray(n_cliques)
        self.training_loss = np.asarray(training_loss, dtype=float)
        self.validation_loss = np.asarray(validation_loss, dtype=float)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the ``path_`` of a fitted model whose graph was learned."""
        require(estimator, ("path_",), "Fit a CliqueClassifier with graph='learned'.")
        return cls.from_path(estimator.path_, ax=ax)

    @classmethod
    def from_path(cls, path: Any, *, ax: Axes | None = None) -> Self:
        """Draw a path: an object with the arrays ``n_cliques``, ``training_loss`` and ``validation_loss``."""
        needed = ("n_cliques", "training_loss", "validation_loss")
        require(path, needed, "Give the path_ of a CliqueClassifier with graph='learned'.")
        return cls(**{name: getattr(path, name) for name in needed}).plot(ax)

    def frame(self) -> Any:
        """Return what is drawn as a DataFrame, a row for each round."""
        columns = {
            "n_cliques": self.n_cliques,
            "training_loss": self.training_loss,
            "validation_loss": self.validation_loss,
        }
        return optional("pandas", "tables").DataFrame(columns)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given Axes, or on a new figure."""
        self.ax_ = ax = axes_or_new(ax, 6.0, 4.0)
        self.figure_ = ax.figure
        self._plot_loss("trained on", self.training_loss, DUAL)
        best = self._plot_loss("held out", self.validation_loss, PRIMAL)
        if best is not None:
            ax.scatter(*best, s=90, facecolor="none", edgecolor=PRIMAL, linewidth=1.4, zorder=3)
        ax.set_xlabel("cliques in the model", color=INK)
        ax.set_ylabel("wrong labels, %", color=INK)
        ax.xaxis.set_major_locator(optional("matplotlib.ticker", "plots").MaxNLocator(integer=True))
        ax.margins(x=0.2)
        ax.set_ylim(bottom=0)
        quiet(ax)
        return self

    def _plot_loss(self, name: str, loss: Any, colour: str) -> tuple[float, float] | None:
        """Draw a curve with its name at the end, and return its lowest point."""
        if not np.isfinite(loss).any():
            return None
        percent = 100.0 * loss
        self.ax_.plot(self.n_cliques, percent, color=colour, marker="o", markersize=4, linewidth=1.6)
        end = (self.n_cliques[-1], percent[-1])
        self.ax_.annotate(f" {name}", end, color=colour, va="center", xytext=(4, 0), textcoords="offset points")
        best = int(np.nanargmin(percent))
        return float(self.n_cliques[best]), float(percent[best])
