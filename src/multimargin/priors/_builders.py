"""Priors made from what is known of the labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from multimargin.errors import InputError
from multimargin.labels import read_labels
from multimargin.weights import check_frequencies, frequencies_of, read_signatures

from ._checks import ROUNDING

__all__ = [
    "FrequencyPriorWarning",
    "from_embeddings",
    "from_frequencies",
    "from_graph",
    "from_labels",
    "from_signatures",
    "from_taxonomy",
]

FREQUENCY_SHARE = 0.7
MANY_CATEGORIES = 5  # fewer always have one large eigenvector


class FrequencyPriorWarning(UserWarning):
    """A prior that says little more than how frequent the labels are."""


def from_signatures(signatures: ArrayLike, probabilities: ArrayLike | None = None) -> NDArray[np.float64]:
    r"""Prior from category signatures, :math:`R = \sum_c p(c)\, y_c y_c^\top` with :math:`y_c \in \{-1, 1\}^L`.

    Parameters
    ----------
    signatures : array of shape (n_categories, n_labels)
        The labels of each category, as 0/1, booleans or -1/1.
    probabilities : array of shape (n_categories,), optional
        How likely each category is; equally likely by default. They are scaled to sum to 1.

    Returns
    -------
    R : ndarray of shape (n_labels, n_labels)
        Its diagonal is 1 and its rank at most the number of categories.

    Warns
    -----
    FrequencyPriorWarning
        If one eigenvector, mostly the frequencies of the labels, carries over 70 % of the trace of R (five categories
        or more): R then says little more than which labels are frequent, which
        :class:`multimargin.weights.LabelFrequencies` says better.

    Examples
    --------
    >>> from multimargin.priors import from_signatures
    >>> from_signatures([[1, 1, 0], [0, 0, 1]])
    array([[ 1.,  1., -1.],
           [ 1.,  1., -1.],
           [-1., -1.,  1.]])
    """
    S, p = read_signatures(signatures, probabilities)
    R = (S.T * p) @ S
    if len(S) >= MANY_CATEGORIES:
        _warn_of_frequencies(R, p @ S)
    return np.asarray((R + R.T) / 2)


def from_labels(Y: Any, kind: str = "correlation", shrinkage: float = 0.0) -> NDArray[np.float64]:
    r"""Prior from a label matrix.

    Parameters
    ----------
    Y : label matrix in any form
        Rows with unknown labels count for the pairs of labels they know.
    kind : {"correlation", "second-moment"}, default="correlation"
        ``"second-moment"`` is :math:`\frac1n \sum_i y_i y_i^\top` with labels in -1/1: it also encodes how frequent
        labels are. ``"correlation"`` is the correlation matrix of the labels; a constant label gets correlation 0.
    shrinkage : float in [0, 1], default=0.0
        Weight of the identity: :math:`R \leftarrow (1 - s) R + s I`.

    Returns
    -------
    R : ndarray of shape (n_labels, n_labels)

    Warns
    -----
    FrequencyPriorWarning
        If one eigenvector of a second moment, mostly the frequencies of the labels, carries over 70 % of its trace.

    Examples
    --------
    >>> from multimargin.priors import from_labels
    >>> from_labels([[1, 1], [0, 0], [1, 1], [0, 1]], kind="second-moment")
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    if kind not in ("correlation", "second-moment"):
        msg = f"kind must be 'correlation' or 'second-moment'; got {kind!r}."
        raise InputError(msg)
    if not 0.0 <= shrinkage <= 1.0:
        msg = f"shrinkage must lie in [0, 1]; got {shrinkage}."
        raise InputError(msg)
    labels = read_labels(Y)
    positives = labels.positives.astype(np.float64)
    if labels.missing is None:
        n = float(labels.n_samples)
        together = np.asarray((positives.T @ positives).todense())
        count = np.diag(together)
        R = (4.0 * together - 2.0 * (count[:, None] + count[None, :]) + n) / n
        mean = 2.0 * count / n - 1.0
        if kind == "correlation":
            R = _correlation(R - np.outer(mean, mean))
    else:
        R = _pairwise_known(labels.positives, labels.missing, kind)
    if kind == "second-moment":
        _warn_of_frequencies(R, 2.0 * frequencies_of(labels) - 1.0)
    R = (1.0 - shrinkage) * R + shrinkage * np.eye(labels.n_labels)
    return np.asarray((R + R.T) / 2)


def from_graph(adjacency: Any, diffusion: float = 1.0) -> NDArray[np.float64]:
    r"""Prior from a graph over the labels: its diffusion kernel.

    :math:`R = e^{-\beta \mathcal{L}}` with :math:`\mathcal{L}` the normalised Laplacian, scaled to a unit diagonal.

    Parameters
    ----------
    adjacency : array or sparse matrix of shape (n_labels, n_labels)
        Symmetric, non-negative edge weights; the diagonal is ignored.
    diffusion : float, default=1.0
        :math:`\beta > 0`: how far labels influence each other along the graph. Towards 0, R becomes the identity.

    Returns
    -------
    R : ndarray of shape (n_labels, n_labels)

    Examples
    --------
    >>> from multimargin.priors import from_graph
    >>> from_graph([[0, 1, 0], [1, 0, 0], [0, 0, 0]]).round(2)
    array([[1.  , 0.76, 0.  ],
           [0.76, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    A = np.asarray(adjacency.todense() if sp.issparse(adjacency) else adjacency, dtype=np.float64).copy()
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        msg = f"adjacency must be a square matrix with a row and column per label; got shape {A.shape}."
        raise InputError(msg)
    np.fill_diagonal(A, 0.0)
    if not np.all(np.isfinite(A)) or np.any(A < 0) or not np.allclose(A, A.T):
        msg = "adjacency must be symmetric, finite and non-negative. Use (A + A.T) / 2 for a directed graph."
        raise InputError(msg)
    if not diffusion > 0:
        msg = f"diffusion must be positive; got {diffusion}. Use prior=None for no coupling."
        raise InputError(msg)
    degree = A.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    laplacian = np.diag((degree > 0).astype(np.float64)) - A * np.outer(scale, scale)
    R = scipy.linalg.expm(-diffusion * laplacian)
    norm = np.sqrt(np.diag(R))
    R = R / np.outer(norm, norm)
    return np.asarray((R + R.T) / 2)


def from_taxonomy(parents: Any, names: Sequence[Any] | NDArray[Any] | None = None) -> NDArray[np.float64]:
    r"""Prior from a taxonomy: labels are alike as far as their paths from the root agree.

    :math:`R_{ab} = |A_a \cap A_b| / \sqrt{|A_a| |A_b|}` with :math:`A_a` the label a and its ancestors: the cosine of
    the paths. Labels of different trees get 0.

    Parameters
    ----------
    parents : mapping or sequence
        A mapping from every node to its parent, None for a root; or a sequence with the number of the parent of each
        label, negative or None for a root. Nodes need not be labels.
    names : sequence, optional
        The labels, in the order of the columns of Y. By default all nodes of the mapping, in its order.

    Returns
    -------
    R : ndarray of shape (n_labels, n_labels)
        Its diagonal is 1.

    Examples
    --------
    >>> from multimargin.priors import from_taxonomy
    >>> from_taxonomy({"cat": "pet", "dog": "pet", "pet": None, "oak": None}, names=["cat", "dog", "oak"])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """
    parent_of = _read_parents(parents)
    labels = list(parent_of) if names is None else np.asarray(names, dtype=object).tolist()
    unknown = [label for label in labels if label not in parent_of]
    if unknown:
        msg = f"parents has no entry for label {unknown[0]!r}. Give its parent, or None for a root."
        raise InputError(msg)
    if not labels:
        msg = "parents is empty. Give a parent, or None, for every label."
        raise InputError(msg)
    number: dict[Any, int] = {}
    paths = [[number.setdefault(node, len(number)) for node in _path(label, parent_of)] for label in labels]
    indptr = np.cumsum([0, *map(len, paths)])
    members = sp.csr_array((np.ones(indptr[-1]), np.concatenate(paths), indptr), shape=(len(labels), len(number)))
    length = np.sqrt(np.diff(indptr))
    return np.asarray((members @ members.T).toarray() / np.outer(length, length))


def from_frequencies(label_frequencies: ArrayLike) -> NDArray[np.float64]:
    r"""Prior of independent labels: :math:`R = m m^\top + \mathrm{diag}(1 - m^2)` with :math:`m = 2p - 1`.

    The control of any prior made by :func:`from_labels` or :func:`from_signatures`: what a prior gains over this one,
    it gains by the ties between labels.

    Parameters
    ----------
    label_frequencies : array of shape (n_labels,)
        Share p of the rows that have each label.

    Returns
    -------
    R : ndarray of shape (n_labels, n_labels)
        Its diagonal is 1.

    Examples
    --------
    >>> from multimargin.priors import from_frequencies
    >>> from_frequencies([0.5, 0.25, 0.25])
    array([[ 1.  , -0.  , -0.  ],
           [-0.  ,  1.  ,  0.25],
           [-0.  ,  0.25,  1.  ]])
    """
    p = check_frequencies(np.asarray(label_frequencies, dtype=np.float64))
    m = 2.0 * p - 1.0
    R = np.outer(m, m)
    np.fill_diagonal(R, 1.0)
    return R


def from_embeddings(E: ArrayLike) -> NDArray[np.float64]:
    """Prior from label embeddings: the Gram matrix of the embeddings scaled to unit length.

    Parameters
    ----------
    E : array of shape (n_labels, n_dimensions)
        One vector per label, for example a word embedding of its name.

    Returns
    -------
    R : ndarray of shape (n_labels, n_labels)

    Examples
    --------
    >>> from multimargin.priors import from_embeddings
    >>> from_embeddings([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    vectors = np.asarray(E, dtype=np.float64)
    if vectors.ndim != 2 or not np.all(np.isfinite(vectors)):
        msg = f"Embeddings must be a finite array of shape (n_labels, n_dimensions); got shape {vectors.shape}."
        raise InputError(msg)
    length = np.linalg.norm(vectors, axis=1)
    if np.any(length == 0):
        msg = f"The embedding of label {int(np.argmin(length))} is zero. Give every label a direction."
        raise InputError(msg)
    unit = vectors / length[:, None]
    R = unit @ unit.T
    return np.asarray((R + R.T) / 2)


def _warn_of_frequencies(R: NDArray[np.float64], mean: NDArray[np.float64]) -> None:
    """Warn if the largest eigenvector of R carries most of it and is mostly the mean of the labels."""
    values, vectors = np.linalg.eigh(R)
    share, length = float(values[-1] / values.sum()), float(np.linalg.norm(mean))
    if share <= FREQUENCY_SHARE or length == 0 or (vectors[:, -1] @ mean / length) ** 2 < 0.5:
        return
    warnings.warn(
        f"One eigenvector carries {share:.0%} of the prior's trace, and it is mostly the frequencies of the labels: "
        "the prior says little more than which labels are frequent. Compare it with priors.from_frequencies, or use "
        "class_weight=weights.LabelFrequencies(...).",
        FrequencyPriorWarning,
        stacklevel=3,
    )


def _read_parents(parents: Any) -> dict[Any, Any]:
    if isinstance(parents, Mapping):
        return dict(parents)
    items = [None if p is None or p < 0 else int(p) for p in parents]
    wrong = [p for p in items if p is not None and p >= len(items)]
    if wrong:
        msg = f"parents must be numbers of labels below {len(items)}, or negative for a root; got {wrong[0]}."
        raise InputError(msg)
    return dict(enumerate(items))


def _path(label: Any, parent_of: Mapping[Any, Any]) -> list[Any]:
    """List a label and its ancestors."""
    path = [label]
    while (parent := parent_of.get(path[-1])) is not None:
        if parent in path:
            msg = f"parents must be a forest; {label!r} is its own ancestor by way of {path[-1]!r}. Cut the cycle."
            raise InputError(msg)
        path.append(parent)
    return path


def _correlation(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    variance = np.diag(covariance).copy()
    constant = variance <= ROUNDING
    variance[constant] = 1.0
    R = covariance / np.sqrt(np.outer(variance, variance))
    R[constant, :] = 0.0
    R[:, constant] = 0.0
    np.fill_diagonal(R, 1.0)
    return R


def _pairwise_known(positives: sp.csr_array, missing: sp.csr_array, kind: str) -> NDArray[np.float64]:
    """Moments over the rows that know both labels, projected back to the positive semidefinite matrices."""
    # y = 2 P + M - 1 and known = 1 - M with sparse P and M, so that products of theirs need no dense copy of either.
    n, M = positives.shape[0], missing.astype(np.float64)
    A = 2.0 * positives.astype(np.float64) + M
    a, m = A.sum(axis=0), M.sum(axis=0)
    weight = np.maximum((M.T @ M).toarray() - np.add.outer(m, m) + n, 1.0)
    R = ((A.T @ A).toarray() - np.add.outer(a, a) + n) / weight
    np.fill_diagonal(R, 1.0)
    if kind == "correlation":
        mean = (np.add.outer(a, m) - (A.T @ M).toarray() - n) / weight  # of label l over the rows that know label k
        centred = R - mean * mean.T
        own = (a - n) / np.maximum(n - m, 1.0)
        np.fill_diagonal(centred, 1.0 - own**2)
        R = np.clip(_correlation(centred), -1.0, 1.0)
    values, vectors = np.linalg.eigh((R + R.T) / 2)
    R = (vectors * np.maximum(values, 0.0)) @ vectors.T
    norm = np.sqrt(np.diag(R))
    return np.asarray(R / np.outer(norm, norm))
