"""A label prior as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

from multimargin.errors import InputError

from ._style import INK, axes_or_new, diverging, optional, require, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PriorDisplay", "similarity_order"]

MAX_NAMES = 120
MAX_CELL_NUMBERS = 12


class PriorDisplay:
    """A label prior as a heat map.

    Similar labels stand next to each other (:func:`similarity_order`); colours are centred at zero, so that
    orange is a positive and blue a negative tie.

    Parameters
    ----------
    R : array, DataFrame, sparse matrix or LowRankPrior of shape (n_labels, n_labels)
        The prior, symmetric.
    label_names : sequence of length n_labels, optional
        Label names, in the order of the rows of R. By default the columns of a DataFrame, otherwise numbers.

    Attributes
    ----------
    R : ndarray
        The prior in the order in which it is drawn.
    label_names : list
        Its label names in that order.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    def __init__(self, R: Any, label_names: Sequence[Any] | None = None):
        matrix, names = _square_matrix(R, label_names)
        order = similarity_order(matrix)
        self.R, self.label_names = matrix[np.ix_(order, order)], [names[i] for i in order]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the prior an estimator was given, under the names of its labels once it is fitted."""
        require(estimator, ("prior",), "Give prior= to the estimator: without one its labels are not tied.")
        names = None if hasattr(estimator.prior, "columns") else getattr(estimator, "label_names_", None)
        return cls.from_matrix(estimator.prior, names, ax=ax)

    @classmethod
    def from_matrix(cls, R: Any, label_names: Sequence[Any] | None = None, *, ax: Axes | None = None) -> Self:
        """Draw a matrix; the parameters are those of the class."""
        return cls(R, label_names).plot(ax)

    def frame(self) -> Any:
        """Return what is drawn as a DataFrame, a row and a column for each label."""
        return optional("pandas", "tables").DataFrame(self.R, index=self.label_names, columns=self.label_names)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given Axes, or on a new figure, large enough for the names."""
        side = float(np.clip(2.9 + 0.13 * len(self.R), 4.2, 16))
        self.ax_ = ax = axes_or_new(ax, side + 0.9, side)
        self.figure_ = ax.figure
        limit = float(np.abs(self.R).max()) or 1.0
        image = ax.imshow(self.R, cmap=diverging(), vmin=-limit, vmax=limit, interpolation="nearest")
        self._name_cells(ax)
        if len(self.R) <= MAX_CELL_NUMBERS:
            self._number_cells(ax, limit)
        ax.tick_params(length=0, colors=INK)
        for spine in ax.spines.values():
            spine.set_visible(False)
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.02, aspect=30)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize="small", colors=INK, length=0)
        bar.set_label("tie between labels", color=INK, fontsize="small")
        return self

    def _name_cells(self, ax: Axes) -> None:
        """Write the names as large as the cells allow, and none at all where they could not be read."""
        count = len(self.label_names)
        if count > MAX_NAMES:
            ax.set_xticks([])
            ax.set_yticks([])
            ax.set_xlabel(f"{count} labels, ordered by similarity", color=INK)
            return
        names = [short(name, 24) for name in self.label_names]
        box = ax.get_window_extent()
        points = min(box.width, box.height) / ax.figure.dpi * 72 / count
        size = float(np.clip(0.72 * points, 3.5, 10))
        ax.set_xticks(range(count), names, rotation=90, fontsize=size)
        ax.set_yticks(range(count), names, fontsize=size)

    def _number_cells(self, ax: Axes, limit: float) -> None:
        for (i, j), value in np.ndenumerate(self.R):
            colour = "white" if abs(value) > 0.6 * limit else INK
            text = f"{value:.2f}".replace("-0.00", "0.00")
            ax.text(j, i, text, ha="center", va="center", color=colour, fontsize="x-small")


def similarity_order(R: ArrayLike) -> NDArray[np.intp]:
    """Return an order of the labels in which similar rows of a symmetric matrix are neighbours.

    The leaves of an average-linkage tree on the distances between rows, in optimal leaf order.

    Parameters
    ----------
    R : array of shape (n_labels, n_labels)

    Returns
    -------
    ndarray of shape (n_labels,)

    Examples
    --------
    >>> from multimargin.plots import similarity_order
    >>> order = similarity_order([[1, 0, 0.9], [0, 1, 0], [0.9, 0, 1]])
    >>> sorted(order.tolist())
    [0, 1, 2]
    >>> abs(order.tolist().index(0) - order.tolist().index(2))
    1
    """
    rows = np.asarray(R, dtype=float)
    if len(rows) < 3:
        return np.arange(len(rows))
    tree = linkage(rows, method="average", optimal_ordering=len(rows) <= 1000)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def _square_matrix(R: Any, names: Sequence[Any] | None) -> tuple[NDArray[np.float64], list[Any]]:
    if names is None and hasattr(R, "columns"):
        names = list(R.columns)
    matrix = np.asarray(R.toarray() if hasattr(R, "toarray") else R, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        msg = f"A prior is a square matrix, one row per label; got shape {matrix.shape}."
        raise InputError(msg)
    if not np.isfinite(matrix).all():
        msg = "A prior must be finite; it holds NaN or infinite values. Replace them."
        raise InputError(msg)
    labels = list(range(len(matrix)) if names is None else names)
    if len(labels) != len(matrix):
        msg = f"{len(labels)} names were given for a prior of {len(matrix)} labels. Give one name per label."
        raise InputError(msg)
    return matrix, labels
