"""How the certificate closed in on the optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multimargin.errors import InputError

from ._style import DUAL, FAINT, GAP, INK, PRIMAL, axes_or_new, optional, quiet, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ConvergenceDisplay"]


class ConvergenceDisplay:
    r"""How the certificate closed in on the optimum.

    The left axis shows the primal objective (an upper bound of the optimum) and the dual objective (a lower
    bound) over time; the optimum lies in the shaded band. The right axis, logarithmic, shows the relative gap

    .. math:: (P - D) / P.

    Parameters
    ----------
    time, primal, dual : array of shape (n_passes,)
        Seconds, and the objectives then; passes where an objective is NaN are left out.

    Attributes
    ----------
    relative_gap : ndarray
    ax_, gap_ax_ : matplotlib Axes
        The left and the right axis.
    figure_ : matplotlib Figure
    """

    ax_: Any
    gap_ax_: Any
    figure_: Any

    def __init__(self, *, time: ArrayLike, primal: ArrayLike, dual: ArrayLike):
        values = np.array([time, primal, dual], dtype=float)
        self.time, self.primal, self.dual = values[:, np.isfinite(values).all(axis=0)]
        if not len(self.time):
            msg = "The history holds no evaluated pass, so no curve. Fit with a larger max_iter or time_limit."
            raise InputError(msg)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the fit of an estimator, from its ``history_``."""
        require(estimator, ("history_",), "Call fit first.")
        return cls.from_history(estimator.history_, ax=ax)

    @classmethod
    def from_history(cls, history: Any, *, ax: Axes | None = None) -> Self:
        """Draw a history: an object with the arrays ``time``, ``primal`` and ``dual``."""
        require(history, ("time", "primal", "dual"), "Give the history_ of a fitted estimator.")
        return cls(time=history.time, primal=history.primal, dual=history.dual).plot(ax)

    @property
    def relative_gap(self) -> NDArray[np.float64]:
        """The relative gap after each pass."""
        return np.asarray(np.maximum(self.primal - self.dual, 0) / np.where(self.primal > 0, self.primal, 1))

    def frame(self) -> Any:
        """Return what is drawn as a DataFrame, a row for each pass."""
        columns = {"time": self.time, "primal": self.primal, "dual": self.dual, "relative_gap": self.relative_gap}
        return optional("pandas", "tables").DataFrame(columns)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given Axes, or on a new figure."""
        self.ax_ = ax = axes_or_new(ax, 7.0, 4.2)
        self.figure_, self.gap_ax_ = ax.figure, ax.twinx()
        curve: dict[str, Any] = {"linewidth": 1.8, "marker": "o" if len(self.time) <= 40 else None, "markersize": 3}
        band = ax.fill_between(self.time, self.dual, self.primal, color=FAINT, alpha=0.18, linewidth=0)
        (upper,) = ax.plot(self.time, self.primal, color=PRIMAL, **curve)
        (lower,) = ax.plot(self.time, self.dual, color=DUAL, **curve)
        ax.set_xlabel("seconds", color=INK)
        ax.set_ylabel("objective", color=INK)
        ax.set_xlim(left=0)
        ax.set_ylim(*self._window())
        gap = self._plot_gap(self.gap_ax_)
        quiet(ax, self.gap_ax_)
        meaning = {
            "primal: optimum is below": upper,
            "dual: optimum is above": lower,
            "where the optimum lies": band,
            "relative gap (right)": gap,
        }
        self.gap_ax_.legend([*meaning.values()], [*meaning], loc="upper right", framealpha=0.9, fontsize="small")
        return self

    def _plot_gap(self, ax: Axes) -> Any:
        gap = np.where(self.relative_gap > 0, self.relative_gap, np.nan)
        (line,) = ax.plot(self.time, gap, color=GAP, linewidth=1.6, linestyle=(0, (4, 2)))
        if np.isfinite(gap).any():
            ax.set_yscale("log")
            ax.margins(y=0.1)
        ax.set_ylabel("relative duality gap", color=GAP)
        ax.tick_params(colors=GAP)
        if np.isfinite(gap[-1]):
            ax.annotate(
                f"{gap[-1]:.1e}",
                (self.time[-1], gap[-1]),
                xytext=(-10, 0),
                textcoords="offset points",
                ha="right",
                va="top",
                color=GAP,
                fontsize="small",
            )
        return line

    def _window(self) -> tuple[float, float]:
        """Limits that show the end of the run: the first passes may be orders of magnitude away."""
        optimum = self.primal.min()
        spread = max(np.ptp(self.dual), abs(optimum) * 1e-3, np.finfo(float).tiny)
        high = max(min(self.primal.max(), optimum + 2 * spread), optimum)
        return self.dual.min() - 0.05 * spread, high + 0.1 * spread
