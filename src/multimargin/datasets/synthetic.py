"""Synthetic multi-label data with a known label graph."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from multimargin.datasets.dataset import LABEL_DTYPE, Dataset
from multimargin.errors import InputError

__all__ = ["make_clique_labels"]

_Floats = npt.NDArray[np.float64]
_LARGEST_COMPONENT = 20
_CELLS_AT_ONCE = 1 << 22


def make_clique_labels(
    n_samples: int = 3000,
    n_features: int = 10,
    n_labels: int = 10,
    *,
    cliques: Sequence[Sequence[int]] = ((0, 1), (0, 2), (0, 3), (0, 4)),
    random_state: int | np.random.Generator | None = None,
) -> Dataset:
    r"""Generate labels that depend on each other, given the features, through known cliques.

    Features are standard normal. A sample with features :math:`x` gets the labels

    .. math:: \hat y = \arg\max_{y \in \{0,1\}^L} \; \sum_k u_{k, y_k}^\top x + \sum_c v_{c, y_c}^\top x

    with one standard normal weight vector for each state of each label and for each of the :math:`2^{|c|}`
    joint states of each clique. The maximum is exact. The defaults are the experiment of [1]_, with its
    first 2000 rows for training and its last 1000 for testing, and all weight vectors in as many dimensions
    as the features.

    Parameters
    ----------
    n_samples, n_features, n_labels : int
        Shape of the data.
    cliques : sequence of sequences of labels, default=((0, 1), (0, 2), (0, 3), (0, 4))
        Sets of at least two labels that interact. Labels connected through cliques are maximised over
        jointly by enumeration, so that at most 20 labels may be connected.
    random_state : int, numpy Generator or None, default=None
        An int gives the same data at every call.

    Returns
    -------
    Dataset
        ``X`` (n_samples, n_features); ``Y`` (n_samples, n_labels), int64; ``cliques``, the true ones, as a
        list of tuples; ``node_weights`` (n_labels, 2, n_features); ``clique_weights``, one (2 ** size,
        n_features) array per clique, whose row is the joint state read as a binary number, first label
        first; ``label_names``; ``feature_names``; ``description``.

    References
    ----------
    .. [1] Tan, Shi, van den Hengel, Shen, Gao, Hu, Zhang. Learning graph structure for multi-label image
       classification via clique generation. CVPR 2015, section 5.2.

    Examples
    --------
    >>> from multimargin.datasets import make_clique_labels
    >>> data = make_clique_labels(n_samples=100, random_state=0)
    >>> data.X.shape, data.Y.shape, data.cliques
    ((100, 10), (100, 10), [(0, 1), (0, 2), (0, 3), (0, 4)])
    """
    for name, value in (("n_samples", n_samples), ("n_features", n_features), ("n_labels", n_labels)):
        if value < 1:
            msg = f"{name} must be at least 1, got {value}"
            raise InputError(msg)
    true_cliques = _checked(cliques, n_labels)
    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((n_samples, n_features))
    node_weights = rng.standard_normal((n_labels, 2, n_features))
    clique_weights = [rng.standard_normal((2 ** len(clique), n_features)) for clique in true_cliques]
    Y = np.empty((n_samples, n_labels), dtype=LABEL_DTYPE)
    for component in _components(true_cliques, n_labels):
        inside = [k for k, clique in enumerate(true_cliques) if clique[0] in component]
        parts = [([label], node_weights[label]) for label in component]
        parts += [(list(true_cliques[k]), clique_weights[k]) for k in inside]
        Y[:, component] = _best_states(X, component, parts)
    return Dataset(
        X=X,
        Y=Y,
        cliques=true_cliques,
        node_weights=node_weights,
        clique_weights=clique_weights,
        label_names=tuple(f"label {k}" for k in range(n_labels)),
        feature_names=tuple(f"feature {j}" for j in range(n_features)),
        description=f"synthetic: {n_samples} samples, {n_features} features, {n_labels} labels, "
        f"{len(true_cliques)} true cliques",
    )


def _checked(cliques: Sequence[Sequence[int]], n_labels: int) -> list[tuple[int, ...]]:
    checked = [tuple(int(k) for k in clique) for clique in cliques]
    for clique in checked:
        if len(clique) < 2 or len(set(clique)) < len(clique):
            msg = f"a clique must have at least two labels, all different, got {clique}"
            raise InputError(msg)
        if min(clique) < 0 or max(clique) >= n_labels:
            msg = f"labels of a clique must be from 0 to {n_labels - 1}, got {clique}; raise n_labels or change it"
            raise InputError(msg)
    if len({frozenset(clique) for clique in checked}) < len(checked):
        msg = f"cliques must be different, got {checked}"
        raise InputError(msg)
    return checked


def _components(cliques: list[tuple[int, ...]], n_labels: int) -> list[list[int]]:
    """Return the sets of labels connected through cliques, isolated labels among them."""
    group = list(range(n_labels))
    for clique in cliques:
        joined = {group[k] for k in clique}
        group = [min(joined) if g in joined else g for g in group]
    components = [[k for k in range(n_labels) if group[k] == g] for g in sorted(set(group))]
    largest = max(components, key=len)
    if len(largest) > _LARGEST_COMPONENT:
        msg = (
            f"at most {_LARGEST_COMPONENT} labels may be connected through cliques, got {len(largest)}; "
            "use fewer cliques"
        )
        raise InputError(msg)
    return components


def _best_states(X: _Floats, component: list[int], parts: list[tuple[list[int], _Floats]]) -> npt.NDArray[np.int8]:
    """Return the best joint state of the component for each sample, by enumeration."""
    place = {label: k for k, label in enumerate(component)}
    size = len(component)
    states = (np.arange(2**size)[:, None] >> np.arange(size)[::-1] & 1).astype(np.int8)
    # The state of each part in each joint state, first label first.
    local = [states[:, [place[k] for k in part]] @ (1 << np.arange(len(part))[::-1]) for part, _ in parts]
    best = np.empty(len(X), dtype=int)
    step = max(1, _CELLS_AT_ONCE // len(states))
    for begin in range(0, len(X), step):
        rows = X[begin : begin + step]
        score = np.zeros((len(rows), len(states)))
        for (_, weights), state in zip(parts, local, strict=True):
            score += (rows @ weights.T)[:, state]
        best[begin : begin + step] = score.argmax(axis=1)
    return states[best]
