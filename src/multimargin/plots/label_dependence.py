"""Which labels depend on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._heat_map import heat_map, heat_map_side
from ._style import FAINT, axes_or_new, optional, require
from .label_counts import MAX_BARS
from .prior import similarity_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LabelDependenceDisplay"]

MAX_LABELS = 60
FEW_ROWS = 10.0


class LabelDependenceDisplay:
    """Correlation phi of pairs of labels as a heat map: orange together, blue apart, empty without dependence.

    Similar labels stand next to each other. Of more than 60 labels those with the largest total correlation are drawn;
    correlations of rare labels count less in that choice and in the order.

    Parameters
    ----------
    columns : array of shape (n_pairs, 2)
        Numbers of the labels of each pair.
    phi : array of shape (n_pairs,)
        Correlation of each pair.
    positives : array of shape (n_labels,)
        Rows that have each label.
    label_names : sequence of length n_labels, optional
        Label names; by default numbers.

    Attributes
    ----------
    phi : ndarray
        The correlations in the order in which they are drawn; NaN where there is none, and on the diagonal.
    label_names : list
        The label names in that order.
    n_left_out : int
        Labels not drawn.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    def __init__(
        self, *, columns: ArrayLike, phi: ArrayLike, positives: ArrayLike, label_names: Sequence[Any] | None = None
    ):
        pairs, ties = np.asarray(columns, dtype=np.intp).reshape(-1, 2), np.asarray(phi, dtype=float)
        rows = np.asarray(positives, dtype=float)
        names = list(range(len(rows)) if label_names is None else label_names)
        trust = rows / (rows + FEW_ROWS)
        shrunk = ties * np.minimum(trust[pairs[:, 0]], trust[pairs[:, 1]])
        chosen = _strongest(pairs, np.abs(shrunk), len(rows))
        order = chosen[similarity_order(_matrix(pairs, shrunk, chosen, len(rows), 0.0, 1.0))]
        self.phi = _matrix(pairs, ties, order, len(rows), np.nan, np.nan)
        self.label_names = [names[k] for k in order]
        self.n_left_out = len(rows) - len(order)

    @classmethod
    def from_description(cls, description: Any, *, ax: Axes | None = None) -> Self:
        """Draw the pairs that depend on each other in what :func:`multimargin.inspection.describe` returned."""
        require(description, ("dependence", "positives", "names"), "Give what inspection.describe(Y) returns.")
        pairs = description.dependence
        chosen = pairs.significant
        return cls(
            columns=pairs.columns[chosen],
            phi=pairs.phi[chosen],
            positives=description.positives,
            label_names=list(description.names),
        ).plot(ax)

    @staticmethod
    def axes_for(description: Any) -> tuple[Any, Any]:
        """Return two Axes of a new figure, wide enough for the counts and the dependence of these labels."""
        n_labels = len(description.positives)
        side = heat_map_side(min(n_labels, MAX_LABELS))
        height = max(side, 0.24 * n_labels + 1.0) if n_labels <= MAX_BARS else side
        pyplot = optional("matplotlib.pyplot", "plots")
        figure = pyplot.figure(figsize=(side + 6.0, height), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[4.8, side + 0.9])
        return left, right

    def frame(self) -> Any:
        """Return what is drawn as a DataFrame, a row and a column for each label."""
        return optional("pandas", "tables").DataFrame(self.phi, index=self.label_names, columns=self.label_names)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given Axes, or on a new figure, large enough for the names."""
        side = heat_map_side(len(self.phi))
        self.ax_ = ax = axes_or_new(ax, side + 0.9, side)
        self.figure_ = ax.figure
        heat_map(ax, self.phi, self.label_names, "correlation of labels (phi)")
        if self.n_left_out:
            title = f"the {len(self.phi)} most dependent labels; {self.n_left_out:,} more are not drawn"
            ax.set_title(title, fontsize="small", color=FAINT, loc="right")
        return self


def _strongest(pairs: NDArray[np.intp], strength: NDArray[np.float64], n_labels: int) -> NDArray[np.intp]:
    """Labels of the largest total, at most as many as can be read, in their order."""
    total = np.bincount(pairs.ravel(), weights=np.repeat(strength, 2), minlength=n_labels)
    return np.sort(np.argsort(-total, kind="stable")[:MAX_LABELS])


def _matrix(
    pairs: NDArray[np.intp],
    values: NDArray[np.float64],
    chosen: NDArray[np.intp],
    n_labels: int,
    empty: float,
    diagonal: float,
) -> NDArray[np.float64]:
    """Values of the pairs among the chosen labels."""
    place = np.full(n_labels, -1)
    place[chosen] = np.arange(len(chosen))
    inside = (place[pairs] >= 0).all(axis=1)
    first, second = place[pairs[inside]].T
    matrix = np.full((len(chosen), len(chosen)), empty)
    matrix[first, second] = matrix[second, first] = values[inside]
    np.fill_diagonal(matrix, diagonal)
    return matrix
