"""A label prior as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

from multimargin.errors import InputError

from ._heat_map import heat_map, heat_map_side
from ._style import axes_or_new, optional, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PriorDisplay", "similarity_order"]


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
        """Draw the prior of an estimator; once it is fitted, the one it used, under the names of its labels."""
        require(estimator, ("prior",), "Give prior= to the estimator: without one its labels are not tied.")
        used = getattr(estimator, "prior_", None)
        if used is not None:
            return cls.from_matrix(used, estimator.label_names_, ax=ax)
        if isinstance(estimator.prior, str) or callable(estimator.prior):
            msg = f"prior={estimator.prior!r} is a recipe: there is no prior to draw before fit. Call fit first."
            raise InputError(msg)
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
        side = heat_map_side(len(self.R))
        self.ax_ = ax = axes_or_new(ax, side + 0.9, side)
        self.figure_ = ax.figure
        heat_map(ax, self.R, self.label_names, "tie between labels")
        return self


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
