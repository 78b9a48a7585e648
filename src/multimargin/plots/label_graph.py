"""Which labels depend on each other, as a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._style import FAINT, INK, axes_or_new, diverging, optional, require, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LabelGraphDisplay"]

MEANING = {1: "attract each other", -1: "exclude each other", 0: "it depends"}
CLIQUES = ("label_names_", "cliques_", "clique_weights_", "clique_couplings_", "clique_coupling_spreads_")
PULL_TO_CENTRE = 0.15
PAIRS = ("label_names_", "pairs_", "pair_coef_")


class LabelGraphDisplay:
    """Which labels depend on each other, as a network.

    Lines join labels that are tied, wider and darker the stronger: orange where they attract each other, blue where
    they exclude each other, grey where that changes from row to row. Dots are larger the stronger all ties of the label
    are together, and labels that are tied stand close together. Labels without ties are named above, or counted.

    Parameters
    ----------
    label_names : sequence
    pairs : array of shape (n_pairs, 2)
        Numbers of tied labels.
    weights : array of shape (n_pairs,)
        How strong each tie is; pairs with weight 0 are not tied.
    signs : array of shape (n_pairs,), optional
        1 for attraction, which is the default, -1 for exclusion, 0 for neither.
    max_labels : int, default=100
        Only the labels with the strongest ties are drawn.

    Attributes
    ----------
    label_names : list
        Names of the labels that are drawn, those with the strongest ties first.
    pairs, weights, signs : ndarray
        Ties that are drawn, as numbers of labels in ``label_names``.
    without_ties : list
        Names of the labels without ties.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    def __init__(
        self,
        label_names: Sequence[Any],
        *,
        pairs: ArrayLike,
        weights: ArrayLike,
        signs: ArrayLike | None = None,
        max_labels: int = 100,
    ):
        names, ends = list(label_names), np.asarray(pairs, dtype=int).reshape(-1, 2)
        strength = np.asarray(weights, dtype=float)
        sign = np.ones(len(ends), dtype=int) if signs is None else np.asarray(signs, dtype=int)
        total = np.bincount(ends.ravel(), np.repeat(strength, 2), minlength=len(names))
        tied = np.flatnonzero(total > 0)
        shown = tied[np.argsort(-total[tied], kind="stable")][:max_labels]
        drawn = (strength > 0) & np.isin(ends, shown).all(axis=1)
        shown = shown[np.isin(shown, ends[drawn])]
        place = np.empty(len(names), dtype=int)
        place[shown] = np.arange(len(shown))
        self.label_names = [names[k] for k in shown]
        self.pairs, self.weights, self.signs = place[ends[drawn]], strength[drawn], sign[drawn]
        self.without_ties = [names[k] for k in np.flatnonzero(total == 0)]
        self._total, self._n_tied = total[shown], len(tied)

    @classmethod
    def from_estimator(cls, estimator: Any, *, max_labels: int = 100, ax: Axes | None = None) -> Self:
        """Draw a fitted model with label cliques or label pairs.

        Two labels are as strongly tied as the largest of the cliques they share. A clique of two attracts or excludes
        where the mean of its coupling over the training rows is larger than its standard deviation; otherwise, and in
        larger cliques, it depends. Pairs only attract.

        Parameters
        ----------
        estimator : CliqueClassifier, SubmodularClassifier, or another model with their attributes
        max_labels : int, default=100
            Only the labels with the strongest ties are drawn.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default, larger for more labels.

        Returns
        -------
        LabelGraphDisplay
        """
        pairs, weights, signs = label_ties(estimator)
        names = np.asarray(estimator.label_names_).tolist()
        return cls(names, pairs=pairs, weights=weights, signs=signs, max_labels=max_labels).plot(ax)

    def frame(self) -> Any:
        """Return the ties that are drawn as a DataFrame, the strongest first."""
        columns = {
            "label": [self.label_names[a] for a, _ in self.pairs],
            "other": [self.label_names[b] for _, b in self.pairs],
            "weight": self.weights,
            "tie": [MEANING[sign] for sign in self.signs.tolist()],
        }
        frame = optional("pandas", "tables").DataFrame(columns)
        return frame.sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given Axes, or on a new figure, larger for more labels."""
        count = len(self.label_names)
        at = self._layout()
        self.ax_ = ax = axes_or_new(ax, 6.5 + 0.06 * count, 5.5 + 0.05 * count)
        self.figure_ = ax.figure
        ax.set_axis_off()
        if count:
            self._draw_lines(ax, at)
            self._draw_labels(ax, at)
            self._explain(ax)
            ax.margins(0.12)
            ax.set_title(self._left_out(), fontsize="small", color=FAINT)
        else:
            ax.text(0.5, 0.5, self._left_out(), ha="center", va="center", color=INK, transform=ax.transAxes, wrap=True)
        return self

    def _layout(self) -> NDArray[np.float64]:
        """Positions in which ties pull and labels push, and a weak pull holds the parts of the network together."""
        networkx = optional("networkx", "graphs")
        count = len(self.label_names)
        graph = networkx.star_graph(range(count, -1, -1)) if count else networkx.Graph()  # the centre is no label
        networkx.set_edge_attributes(graph, PULL_TO_CENTRE, "weight")
        for (a, b), weight in zip(self.pairs.tolist(), self.weights / self.weights.max(initial=0.0), strict=True):
            graph.add_edge(a, b, weight=np.sqrt(weight))
        found = networkx.spring_layout(graph, weight="weight", iterations=300, seed=0)
        return np.array([found[k] for k in range(count)]).reshape(-1, 2)

    def _draw_lines(self, ax: Axes, at: NDArray[np.float64]) -> None:
        collections = optional("matplotlib.collections", "plots")
        order = np.argsort(self.weights, kind="stable")  # the strongest come to lie on top
        share = self.weights[order] / self.weights.max()
        lines = collections.LineCollection(
            at[self.pairs[order]],
            linewidths=0.6 + 4.4 * share,
            colors=[_colour(sign, strength) for sign, strength in zip(self.signs[order], share, strict=True)],
            capstyle="round",
            zorder=1,
        )
        ax.add_collection(lines)

    def _draw_labels(self, ax: Axes, at: NDArray[np.float64]) -> None:
        effects = optional("matplotlib.patheffects", "plots")
        sizes = 25 + 140 * self._total / self._total.max()
        ax.scatter(at[:, 0], at[:, 1], s=sizes, color=INK, edgecolor="white", linewidth=1.2, zorder=2)
        for name, place, size in zip(self.label_names, at, sizes, strict=True):
            ax.annotate(
                short(name, 28),
                place,
                xytext=(0, 3 + np.sqrt(size) / 2),
                textcoords="offset points",
                ha="center",
                color=INK,
                fontsize=float(np.clip(11 - len(at) / 8, 6, 10)),
                path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
                zorder=3,
            )

    def _explain(self, ax: Axes) -> None:
        """Say below the network what its colours mean."""
        lines = optional("matplotlib.lines", "plots")
        there = [sign for sign in MEANING if sign in self.signs]
        marks = [lines.Line2D([], [], color=_colour(sign, 0.8), linewidth=3) for sign in there]
        words = [MEANING[sign] for sign in there]
        ax.legend(marks, words, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False, fontsize="small")

    def _left_out(self) -> str:
        """Say which labels have no ties, or how many, and how many others are not drawn."""
        alone = [str(name) for name in self.without_ties]
        parts = []
        if alone:
            few = len(alone) <= 8
            parts.append(f"without ties: {', '.join(alone)}" if few else f"{len(alone)} labels have no ties")
        if len(self.label_names) < self._n_tied:
            parts.append(f"the {len(self.label_names)} labels with the strongest ties of {self._n_tied}")
        return "; ".join(parts)


def label_ties(estimator: Any) -> tuple[Any, Any, Any]:
    """Return pairs of labels that a fitted model ties, how strongly, and 1, -1 or 0 for each; None if all attract."""
    if hasattr(estimator, "pairs_"):
        require(estimator, PAIRS, "Fit a SubmodularClassifier.")
        return estimator.pairs_, estimator.pair_coef_, None
    require(estimator, CLIQUES, "Fit a CliqueClassifier or a SubmodularClassifier.")
    firm = np.abs(estimator.clique_couplings_) > estimator.clique_coupling_spreads_
    couplings = np.where(firm, np.sign(estimator.clique_couplings_), 0).astype(int)
    column = {name: k for k, name in enumerate(np.asarray(estimator.label_names_).tolist())}
    members = [sorted(column[name] for name in clique) for clique in estimator.cliques_]
    return _ties(zip(members, estimator.clique_weights_, couplings, strict=True))


def _ties(cliques: Iterable[tuple[list[int], float, int]]) -> tuple[list[tuple[int, int]], list[float], list[int]]:
    """Return the pairs of labels that share a clique, with weight and sign of the strongest of their cliques."""
    ties: dict[tuple[int, int], tuple[float, int]] = {}
    for members, weight, coupling in cliques:
        sign = int(coupling) if len(members) == 2 else 0
        for pair in combinations(members, 2):
            ties[pair] = max(ties.get(pair, (0.0, 0)), (float(weight), sign), key=lambda tie: tie[0])
    return list(ties), [weight for weight, _ in ties.values()], [sign for _, sign in ties.values()]


def _colour(sign: int, strength: float) -> Any:
    """Orange for attraction, blue for exclusion, grey for neither; darker the stronger."""
    if sign == 0:
        return str(0.75 - 0.35 * strength)
    return diverging()(0.5 + sign * (0.12 + 0.3 * strength))
