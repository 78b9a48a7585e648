"""Pictures of a fit and of what was assumed about the labels.

Each function draws on the given Axes (or on a new pyplot figure) and returns the Axes; nothing is shown
and no style is changed. Needs matplotlib: ``pip install "multimargin[plots]"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["clique_path", "convergence", "label_attraction", "label_graph", "prior", "similarity_order"]

INK = "#22313f"
FAINT = "#8a97a3"
PRIMAL = "#b4491f"
DUAL = "#1f6f8b"
GAP = "#3b3b98"
MAX_NAMES = 120
MAX_CELL_NUMBERS = 12


def convergence(model_or_history: Any, ax: Axes | None = None) -> Axes:
    r"""Draw how the certificate closed in on the optimum.

    The left axis shows the primal objective (an upper bound of the optimum) and the dual objective (a lower
    bound) over time; the optimum lies in the shaded band. The right axis, logarithmic, shows the relative gap

    .. math:: (P - D) / P.

    Parameters
    ----------
    model_or_history : estimator or history
        A fitted estimator, or its ``history_``: an object with the arrays ``time``, ``primal`` and ``dual``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The left axis.
    """
    history = getattr(model_or_history, "history_", model_or_history)
    if not all(hasattr(history, name) for name in ("time", "primal", "dual")):
        msg = (
            f"convergence() draws a fitted estimator or its history_ (arrays time, primal, dual); got a "
            f"{type(model_or_history).__name__}. Call fit first."
        )
        raise InputError(msg)
    time, primal, dual = (np.asarray(getattr(history, name), dtype=float) for name in ("time", "primal", "dual"))
    known = np.isfinite(primal) & np.isfinite(dual)
    if not known.any():
        msg = "The history holds no evaluated pass, so no curve. Fit with a larger max_iter or time_limit."
        raise InputError(msg)
    return _draw_convergence(time[known], primal[known], dual[known], ax or _new_axes(7.0, 4.2))


def _draw_convergence(time: NDArray[Any], primal: NDArray[Any], dual: NDArray[Any], ax: Axes) -> Axes:
    gap = np.maximum(primal - dual, 0) / np.where(primal > 0, primal, 1)
    marker = "o" if len(time) <= 40 else None
    band = ax.fill_between(time, dual, primal, color=FAINT, alpha=0.18, linewidth=0)
    (upper,) = ax.plot(time, primal, color=PRIMAL, linewidth=1.8, marker=marker, markersize=3)
    (lower,) = ax.plot(time, dual, color=DUAL, linewidth=1.8, marker=marker, markersize=3)
    ax.set_xlabel("seconds", color=INK)
    ax.set_ylabel("objective", color=INK)
    ax.set_xlim(left=0)
    low, high = _objective_window(primal, dual)
    ax.set_ylim(low, high)

    right = ax.twinx()
    visible = np.where(gap > 0, gap, np.nan)
    (line,) = right.plot(time, visible, color=GAP, linewidth=1.6, linestyle=(0, (4, 2)))
    if np.isfinite(visible).any():
        right.set_yscale("log")
        right.margins(y=0.1)
    right.set_ylabel("relative duality gap", color=GAP)
    right.tick_params(colors=GAP)
    if np.isfinite(visible[-1]):
        right.annotate(
            f"{gap[-1]:.1e}",
            (time[-1], gap[-1]),
            xytext=(-10, 0),
            textcoords="offset points",
            ha="right",
            va="top",
            color=GAP,
            fontsize="small",
        )
    _quiet(ax, right)
    names = [
        "primal: optimum is below",
        "dual: optimum is above",
        "where the optimum lies",
        "relative gap (right)",
    ]
    right.legend([upper, lower, band, line], names, loc="upper right", frameon=True, framealpha=0.9, fontsize="small")
    return ax


def _objective_window(primal: NDArray[Any], dual: NDArray[Any]) -> tuple[float, float]:
    """Limits that show the end of the run: the first passes may be orders of magnitude away."""
    optimum = primal.min()
    spread = max(np.ptp(dual), abs(optimum) * 1e-3, np.finfo(float).tiny)
    low = dual.min() - 0.05 * spread
    return low, max(min(primal.max(), optimum + 2 * spread), optimum) + 0.1 * spread


def prior(R: Any, names: Sequence[Any] | None = None, ax: Axes | None = None) -> Axes:
    """Draw a label prior as a heat map.

    Similar labels stand next to each other (:func:`similarity_order`); colours are centred at zero, so that
    orange is a positive and blue a negative tie.

    Parameters
    ----------
    R : array, DataFrame or LowRankPrior of shape (n_labels, n_labels)
        The prior, symmetric.
    names : sequence of length n_labels, optional
        Label names, in the order of the rows of R. By default the columns of a DataFrame, otherwise numbers.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure, large enough for the names.

    Returns
    -------
    matplotlib Axes
    """
    matrix, labels = _square_matrix(R, names)
    order = similarity_order(matrix)
    count = len(order)
    if ax is None:
        side = float(np.clip(2.9 + 0.13 * count, 4.2, 16))
        ax = _new_axes(side + 0.9, side)
    shown = matrix[np.ix_(order, order)]
    limit = float(np.abs(shown).max()) or 1.0
    image = ax.imshow(shown, cmap=_diverging(), vmin=-limit, vmax=limit, interpolation="nearest")
    _name_cells(ax, [labels[i] for i in order])
    if count <= MAX_CELL_NUMBERS:
        _number_cells(ax, shown, limit)
    ax.tick_params(length=0, colors=INK)
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize="small", colors=INK, length=0)
    bar.set_label("tie between labels", color=INK, fontsize="small")
    return ax


def label_attraction(model: Any, max_labels: int = 40, ax: Axes | None = None) -> Axes:
    """Draw which labels attract each other in a model with label pairs.

    Labels are dots, larger the more they are attracted in all; lines are the pairs with positive attraction, wider and
    darker the stronger it is. Labels that attract each other stand close together. Labels without attraction are left
    out.

    Parameters
    ----------
    model : estimator
        A fitted model with ``pairs_``, ``pair_coef_`` and ``label_names_``, such as a SubmodularClassifier.
    max_labels : int, default=40
        Only the labels with the largest attraction in all are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    if not all(hasattr(model, name) for name in ("pairs_", "pair_coef_", "label_names_")):
        msg = (
            f"label_attraction() draws a fitted model with label pairs (pairs_, pair_coef_, label_names_); got a "
            f"{type(model).__name__}. Fit a SubmodularClassifier first."
        )
        raise InputError(msg)
    pairs, strength = np.asarray(model.pairs_, dtype=int), np.asarray(model.pair_coef_, dtype=float)
    names = [str(name) for name in model.label_names_]
    total = np.bincount(pairs.ravel(), np.repeat(strength, 2), minlength=len(names))
    shown = np.flatnonzero(total > 0)
    shown = shown[np.argsort(-total[shown], kind="stable")][:max_labels]
    ax = ax or _new_axes(7.0, 6.0)
    ax.set_axis_off()
    if not len(shown):
        ax.text(0.5, 0.5, "no label attracts another", ha="center", va="center", color=INK, transform=ax.transAxes)
        return ax
    place = {label: k for k, label in enumerate(shown.tolist())}
    drawn = [
        (place[a], place[b], w, 1)
        for (a, b), w in zip(pairs.tolist(), strength.tolist(), strict=True)
        if w > 0 and a in place and b in place
    ]
    _draw_network(ax, [names[i] for i in shown], total[shown], drawn)
    return ax


def label_graph(model: Any, max_labels: int = 100, ax: Axes | None = None) -> Axes:
    """Draw which labels depend on each other in a model with label cliques.

    Lines join labels that share a clique, wider the larger its weights are: orange where the labels attract each other,
    blue where they exclude each other, grey where that changes from row to row (the mean coupling over the training
    rows is smaller than its standard deviation) and for cliques of three labels or more.
    Labels without a clique stand below, or are counted if there are many.

    Parameters
    ----------
    model : estimator
        A fitted model with ``cliques_``, ``clique_weights_``, ``clique_couplings_``, ``clique_coupling_spreads_`` and
        ``label_names_``, such as a CliqueClassifier.
    max_labels : int, default=100
        Only the labels with the largest weights in all are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default, larger for more labels.

    Returns
    -------
    matplotlib Axes
    """
    needed = ("cliques_", "clique_weights_", "clique_couplings_", "clique_coupling_spreads_", "label_names_")
    if not all(hasattr(model, name) for name in needed):
        msg = (
            f"label_graph() draws a fitted model with label cliques ({', '.join(needed)}); got a "
            f"{type(model).__name__}. Fit a CliqueClassifier first."
        )
        raise InputError(msg)
    names = model.label_names_.tolist()
    column = {name: k for k, name in enumerate(names)}
    edges: dict[tuple[int, int], tuple[float, int]] = {}
    firm = np.abs(model.clique_couplings_) > model.clique_coupling_spreads_
    signs = np.where(firm, np.sign(model.clique_couplings_), 0).astype(int)
    for clique, weight, coupling in zip(model.cliques_, model.clique_weights_, signs.tolist(), strict=True):
        members = sorted(column[name] for name in clique)
        sign = coupling if len(members) == 2 else 0
        for i, a in enumerate(members):
            for b in members[i + 1 :]:
                edges[a, b] = max(edges.get((a, b), (0.0, 0)), (float(weight), sign), key=lambda edge: edge[0])
    total = np.zeros(len(names))
    for (a, b), (weight, _) in edges.items():
        total[[a, b]] += weight
    shown = np.flatnonzero(total > 0)
    shown = shown[np.argsort(-total[shown], kind="stable")][:max_labels]
    ax = ax or _new_axes(6.5 + 0.06 * len(shown), 5.5 + 0.05 * len(shown))
    ax.set_axis_off()
    place = {label: k for k, label in enumerate(shown.tolist())}
    drawn = [(place[a], place[b], w, s) for (a, b), (w, s) in edges.items() if a in place and b in place]
    if drawn:
        _draw_network(ax, [str(names[i]) for i in shown], total[shown], drawn)
        _explain_signs(ax, {sign for *_, sign in drawn})
    alone = [str(names[k]) for k in np.flatnonzero(total == 0)]
    _tell_alone(ax, alone, bool(drawn))
    return ax


def clique_path(model: Any, ax: Axes | None = None) -> Axes:
    """Draw how the share of wrong labels changed as cliques joined a model.

    Parameters
    ----------
    model : estimator or path
        A fitted model with a learned graph, such as a CliqueClassifier, or its ``path_``: an object with the arrays
        ``n_cliques``, ``training_loss`` and ``validation_loss``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    path = getattr(model, "path_", model)
    if not all(hasattr(path, name) for name in ("n_cliques", "training_loss", "validation_loss")):
        msg = (
            "clique_path() draws a fitted model whose graph was learned, or its path_ (arrays n_cliques, "
            f"training_loss, validation_loss); got a {type(model).__name__} without them. Fit a CliqueClassifier with "
            "graph='learned'."
        )
        raise InputError(msg)
    ax = ax or _new_axes(6.0, 4.0)
    from matplotlib.ticker import MaxNLocator

    count = np.asarray(path.n_cliques)
    for name, values, colour in (
        ("trained on", path.training_loss, DUAL),
        ("held out", path.validation_loss, PRIMAL),
    ):
        share = 100.0 * np.asarray(values, dtype=float)
        if not np.isfinite(share).any():
            continue
        ax.plot(count, share, color=colour, marker="o", markersize=4, linewidth=1.6)
        ax.annotate(
            f" {name}", (count[-1], share[-1]), color=colour, va="center", xytext=(4, 0), textcoords="offset points"
        )
        if name == "held out":
            best = int(np.nanargmin(share))
            ax.scatter(count[best], share[best], s=90, facecolor="none", edgecolor=colour, linewidth=1.4, zorder=3)
    ax.set_xlabel("cliques in the model", color=INK)
    ax.set_ylabel("wrong labels, %", color=INK)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.margins(x=0.12)
    ax.set_ylim(bottom=0)
    _quiet(ax)
    return ax


def _explain_signs(ax: Axes, signs: set[int]) -> None:
    """Say below the network what its colours mean."""
    meaning = {1: "attract each other", -1: "exclude each other", 0: "it depends"}
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=_sign_colour(sign, 0.8), linewidth=3) for sign in meaning if sign in signs]
    texts = [text for sign, text in meaning.items() if sign in signs]
    ax.legend(lines, texts, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False, fontsize="small")


def _tell_alone(ax: Axes, names: list[str], below: bool) -> None:
    """Name the labels that are in no clique, or say how many they are."""
    if not names:
        return
    text = f"in no clique: {', '.join(names)}" if len(names) <= 8 else f"{len(names)} labels are in no clique"
    if below:
        ax.set_title(text, fontsize="small", color=FAINT)
    else:
        ax.text(0.5, 0.5, text, ha="center", va="center", color=INK, transform=ax.transAxes, wrap=True)


def _sign_colour(sign: int, strength: float) -> Any:
    """Orange for attraction, blue for exclusion, grey for neither; darker the stronger."""
    if sign == 0:
        return str(0.75 - 0.35 * strength)
    return _diverging()(0.5 + sign * (0.12 + 0.3 * strength))


def _draw_network(ax: Axes, names: list[str], total: NDArray[Any], pairs: list[tuple[int, int, float, int]]) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import withStroke

    at = _spring_layout(len(names), [(a, b, w) for a, b, w, _ in pairs])
    strongest = max((w for _, _, w, _ in pairs), default=1.0)
    weakest_first = sorted(pairs, key=lambda pair: pair[2])
    lines = LineCollection(
        [(at[a], at[b]) for a, b, *_ in weakest_first],
        linewidths=[0.6 + 4.4 * w / strongest for _, _, w, _ in weakest_first],
        colors=[_sign_colour(sign, w / strongest) for _, _, w, sign in weakest_first],
        capstyle="round",
        zorder=1,
    )
    ax.add_collection(lines)
    sizes = 25 + 140 * total / total.max()
    ax.scatter(at[:, 0], at[:, 1], s=sizes, color=INK, edgecolor="white", linewidth=1.2, zorder=2)
    for name, (x, y), size in zip(names, at, sizes, strict=True):
        short = name if len(name) <= 28 else name[:27] + "…"
        ax.annotate(
            short,
            (x, y),
            xytext=(0, 3 + np.sqrt(size) / 2),
            textcoords="offset points",
            ha="center",
            color=INK,
            fontsize=float(np.clip(11 - len(names) / 8, 6, 10)),
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            zorder=3,
        )
    ax.margins(0.12)


def _spring_layout(count: int, pairs: list[tuple[int, int, float]]) -> NDArray[np.float64]:
    """Positions by forces (Fruchterman and Reingold 1991), from a circle: no randomness."""
    angle = 2 * np.pi * np.arange(count) / count
    at = np.column_stack([np.cos(angle), np.sin(angle)])
    if count < 3:
        return at
    tie = np.zeros((count, count))
    strongest = max((w for *_, w in pairs), default=1.0)
    for a, b, w in pairs:
        tie[a, b] = tie[b, a] = np.sqrt(w / strongest)
    ideal = 1.6 / np.sqrt(count)
    for heat in np.linspace(0.15, 0.002, 400):
        difference = at[:, None, :] - at[None, :, :]
        distance = np.maximum(np.sqrt((difference**2).sum(axis=2)), 1e-3)
        push = ideal**2 / distance**2 - tie * distance / ideal
        force = (difference * push[:, :, None]).sum(axis=1) - 0.6 * at
        length = np.maximum(np.sqrt((force**2).sum(axis=1, keepdims=True)), 1e-9)
        at = at + force / length * np.minimum(length, heat)
    return np.asarray(at)


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
    from scipy.cluster.hierarchy import leaves_list, linkage

    rows = np.asarray(R, dtype=float)
    if len(rows) < 3:
        return np.arange(len(rows))
    tree = linkage(rows, method="average", optimal_ordering=len(rows) <= 1000)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def _square_matrix(R: Any, names: Sequence[Any] | None) -> tuple[NDArray[np.float64], list[str]]:
    if names is None and hasattr(R, "columns"):
        names = list(R.columns)
    if hasattr(R, "toarray"):
        R = R.toarray()
    matrix = np.asarray(R, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        msg = f"A prior is a square matrix, one row per label; got shape {matrix.shape}."
        raise InputError(msg)
    if not np.isfinite(matrix).all():
        msg = "A prior must be finite; it holds NaN or infinite values. Replace them."
        raise InputError(msg)
    labels = [str(name) for name in (range(len(matrix)) if names is None else names)]
    if len(labels) != len(matrix):
        msg = f"{len(labels)} names were given for a prior of {len(matrix)} labels. Give one name per label."
        raise InputError(msg)
    return matrix, labels


def _name_cells(ax: Axes, labels: list[str]) -> None:
    """Write the names as large as the cells allow, and none at all where they could not be read."""
    count = len(labels)
    if count > MAX_NAMES:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel(f"{count} labels, ordered by similarity", color=INK)
        return
    short = [label if len(label) <= 24 else label[:23] + "…" for label in labels]
    box = ax.get_window_extent()
    points = min(box.width, box.height) / ax.figure.dpi * 72 / count
    size = float(np.clip(0.72 * points, 3.5, 10))
    ax.set_xticks(range(count), short, rotation=90, fontsize=size)
    ax.set_yticks(range(count), short, fontsize=size)


def _number_cells(ax: Axes, shown: NDArray[np.float64], limit: float) -> None:
    for (i, j), value in np.ndenumerate(shown):
        colour = "white" if abs(value) > 0.6 * limit else INK
        text = f"{value:.2f}".replace("-0.00", "0.00")
        ax.text(j, i, text, ha="center", va="center", color=colour, fontsize="x-small")


def _diverging() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ties", ["#1c4f7c", "#7fb2d6", "#f7f6f3", "#eea565", "#a3450d"])


def _quiet(*axes: Axes) -> None:
    for ax in axes:
        for side in ("top", "left", "right", "bottom"):
            ax.spines[side].set_color("#cfd6dc")
        ax.spines["top"].set_visible(False)
        ax.tick_params(length=3, labelsize="small")
    axes[0].tick_params(colors=INK)
    axes[0].grid(axis="y", color="#e6eaed", linewidth=0.8)
    axes[0].set_axisbelow(True)


def _new_axes(width: float, height: float) -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        msg = 'Plots need matplotlib, which is not installed. Install it with: pip install "multimargin[plots]"'
        raise ImportError(msg) from error
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    ax: Axes = figure.add_subplot()
    return ax
