"""A picture of how far probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from multimargin.errors import InputError
from multimargin.labels import read_labels
from multimargin.metrics import Reliability, reliability

from ._style import DUAL, FAINT, INK, axes_or_new, optional, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReliabilityDisplay"]

MOST_LABELS = 12
POOLED = "all labels"


class ReliabilityDisplay:
    """Share of positives against probability: on the diagonal, probabilities mean what they say.

    A point stands for equally many cells; its bar is Wilson's interval of 90 % for the share of positives.

    Parameters
    ----------
    curves : mapping from names to Reliability
        The first curve is drawn with bars, the others, of single labels, as thin lines.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    def __init__(self, *, curves: Mapping[str, Reliability]):
        self.curves = dict(curves)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any,
        *,
        labels: Sequence[Any] = (),
        n_bins: int = 15,
        name: str = POOLED,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the probabilities of an estimator for rows it did not train on.

        Parameters
        ----------
        estimator : classifier
            With ``predict_proba``, such as :class:`LabelCalibrator`.
        X, Y : rows and labels
        labels : sequence of label names, at most 12
            Labels to draw on their own, too.
        n_bins : int, default=15
            Points of the curve of all labels; those of single labels have 10.
        name : str
            Name of the curve of all labels.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ReliabilityDisplay
        """
        if not hasattr(estimator, "predict_proba"):
            msg = f"{type(estimator).__name__} has no predict_proba. Wrap it in LabelCalibrator."
            raise InputError(msg)
        p = estimator.predict_proba(X)
        form = getattr(estimator, "label_form_", None)
        p = p[:, 1] if form is not None and form.kind == "column" else p
        names = getattr(estimator, "label_names_", None)
        return cls.from_predictions(Y, p, labels=labels, n_bins=n_bins, name=name, names=names, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        Y: Any,
        probabilities: Any,
        *,
        labels: Sequence[Any] = (),
        n_bins: int = 15,
        name: str = POOLED,
        names: Any = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw probabilities beside the labels of the same rows.

        Parameters
        ----------
        Y : labels in any form
        probabilities : array of shape (n_samples, n_labels)
        labels, n_bins, name, ax
            See :meth:`from_estimator`.
        names : sequence, optional
            Names of the labels, where Y does not have them.

        Returns
        -------
        ReliabilityDisplay
        """
        if len(labels) > MOST_LABELS:
            msg = f"labels may name at most {MOST_LABELS} labels, more lines cannot be told apart; got {len(labels)}."
            raise InputError(msg)
        truth = read_labels(Y, names=names)
        known = truth.names.tolist()
        missing = [label for label in labels if label not in known]
        if missing:
            msg = f"labels names {missing[0]!r}, which is none of the {len(known)} labels."
            raise InputError(msg)
        curves = {name: reliability(truth, probabilities, n_bins=n_bins)}
        table = np.asarray(probabilities, dtype=np.float64).reshape(truth.n_samples, -1)
        cells = truth.positives.toarray().astype(np.float64)
        if truth.missing is not None:
            cells[truth.missing.toarray().astype(bool)] = np.nan
        for label in labels:
            column = known.index(label)
            curves[str(label)] = reliability(cells[:, [column]], table[:, [column]], n_bins=10)
        return cls(curves=curves).plot(ax)

    def frame(self) -> Any:
        """Return what is drawn as a DataFrame, a row for each point."""
        pandas = optional("pandas", "tables")
        columns = ("probability", "share", "size", "low", "high")
        parts = [
            pandas.DataFrame({"curve": name, **{column: getattr(curve, column) for column in columns}})
            for name, curve in self.curves.items()
        ]
        return pandas.concat(parts, ignore_index=True)

    def plot(self, ax: Axes | None = None, *, color: str = DUAL) -> Self:
        """Draw on the given Axes, or on a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        color : str
            Colour of the first curve.

        Returns
        -------
        self
        """
        self.ax_ = ax = axes_or_new(ax, 4.8, 4.6)
        self.figure_ = ax.figure
        if not any(line.get_gid() == "diagonal" for line in ax.lines):
            (diagonal,) = ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)))
            diagonal.set_gid("diagonal")
        (first, pooled), *single = self.curves.items()
        for name, curve in single:
            ax.plot(curve.probability, curve.share, linewidth=0.9, alpha=0.75, label=name)
        bars = np.stack([pooled.share - pooled.low, pooled.high - pooled.share]).clip(min=0)
        ax.errorbar(
            pooled.probability,
            pooled.share,
            yerr=bars,
            color=color,
            marker="o",
            markersize=4,
            linewidth=1.6,
            elinewidth=1.0,
            label=f"{first}, error {pooled.error:.3f}",
        )
        ax.set_xlabel("probability", color=INK)
        ax.set_ylabel("share of positives", color=INK)
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.set_aspect("equal")
        quiet(ax)
        ax.legend(loc="upper left", frameon=False, fontsize="small")
        return self
