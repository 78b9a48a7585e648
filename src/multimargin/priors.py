"""Priors on label correlations: the matrix R that couples the labels in M3L.

A prior is a symmetric positive semidefinite matrix R with one row and column per label; R = I is one-vs-all. R may be
singular: it is never inverted.

Where label frequencies differ between training and use, say which ones to expect:
``class_weight=priors.LabelFrequencies(q)``, alone or together with a prior.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from multimargin.errors import InputError
from multimargin.labels import LabelMatrix, read_labels

__all__ = [
    "FrequencyPriorWarning",
    "LabelFrequencies",
    "LowRankPrior",
    "check_prior",
    "class_weights",
    "from_embeddings",
    "from_frequencies",
    "from_graph",
    "from_labels",
    "from_signatures",
    "from_taxonomy",
    "signature_frequencies",
]

SYMMETRY_TOLERANCE = 1e-8
ROUNDING = 1e-12
PSD_TOLERANCE = 1e-8
FREQUENCY_SHARE = 0.7
MANY_CATEGORIES = 5  # fewer always have one large eigenvector

REMEDY = (
    "Build the prior with multimargin.priors, or project it: R = (R + R.T) / 2, then set negative eigenvalues to 0."
)


class FrequencyPriorWarning(UserWarning):
    """A prior that says little more than how frequent the labels are."""


@dataclass(frozen=True, eq=False)
class LowRankPrior:
    r"""A prior of low rank plus a diagonal, :math:`R = \mathrm{diag}(d) + F F^\top`.

    Training costs :math:`r L` per row instead of :math:`L^2`; without a diagonal only :math:`D \times r` weights are
    kept.

    Parameters
    ----------
    factor : array of shape (n_labels, rank)
        F.
    diagonal : float or array of shape (n_labels,), default=0.0
        d, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.priors import LowRankPrior
    >>> LowRankPrior(np.array([[1.0], [-1.0]]), diagonal=0.5).toarray()
    array([[ 1.5, -1. ],
           [-1. ,  1.5]])
    """

    factor: NDArray[Any]
    diagonal: float | NDArray[Any] = 0.0

    def toarray(self) -> NDArray[np.float64]:
        """Return R as a dense matrix."""
        F = np.asarray(self.factor, dtype=np.float64)
        return F @ F.T + np.diag(np.broadcast_to(np.asarray(self.diagonal, dtype=np.float64), len(F)))


@dataclass(frozen=True, eq=False)
class LabelFrequencies:
    r"""Label frequencies to expect in use, as ``class_weight=`` of an estimator.

    ``fit`` turns them into class weights: with p the frequencies of its training rows and q these, a positive cell of
    label l weighs :math:`q_l / p_l` and a negative one :math:`(1 - q_l) / (1 - p_l)`, as :func:`class_weights` tells.
    In a cross-validation each fold thus gets the weights of its own rows. They work alone or together with a prior, and
    where frequencies change between training and use they are what helps most.

    Parameters
    ----------
    label_frequencies : array of shape (n_labels,) or mapping from label names
        q, the share of rows that will have each label; see :func:`signature_frequencies`.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import LinearM3L, priors
    >>> X, Y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[0], [0], [0], [1]])
    >>> model = LinearM3L(class_weight=priors.LabelFrequencies([0.75])).fit(X, Y)
    >>> priors.class_weights(Y, label_frequencies=[0.75])  # what it amounts to
    [{0: 0.3333333333333333, 1: 3.0}]
    """

    label_frequencies: Any

    def weights(self, labels: LabelMatrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of the negative and of the positive cells of each label; 1 for labels constant in training."""
        p = _frequencies(labels)
        q = _check_frequencies(_aligned_frequencies(self.label_frequencies, labels.names), labels.names)
        varies = (p > 0) & (p < 1)
        negative = np.divide(1.0 - q, 1.0 - p, out=np.ones_like(p), where=varies)
        return negative, np.divide(q, p, out=np.ones_like(p), where=varies)


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
        or more): R then says little more than which labels are frequent, which :class:`LabelFrequencies` says better.

    Examples
    --------
    >>> from multimargin.priors import from_signatures
    >>> from_signatures([[1, 1, 0], [0, 0, 1]])
    array([[ 1.,  1., -1.],
           [ 1.,  1., -1.],
           [-1., -1.,  1.]])
    """
    S, p = _read_signatures(signatures, probabilities)
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
        _warn_of_frequencies(R, 2.0 * _frequencies(labels) - 1.0)
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
    p = _check_frequencies(np.asarray(label_frequencies, dtype=np.float64))
    m = 2.0 * p - 1.0
    R = np.outer(m, m)
    np.fill_diagonal(R, 1.0)
    return R


def signature_frequencies(signatures: Any, probabilities: ArrayLike | None = None) -> NDArray[np.float64]:
    """Label frequencies to expect from categories with these signatures.

    Parameters
    ----------
    signatures : array of shape (n_categories, n_labels)
        The labels of each category, as 0/1, booleans or -1/1.
    probabilities : array of shape (n_categories,), optional
        How likely each category is; equally likely by default.

    Returns
    -------
    ndarray of shape (n_labels,)

    Examples
    --------
    >>> from multimargin.priors import signature_frequencies
    >>> signature_frequencies([[1, 1, 0], [0, 1, 0]])
    array([0.5, 1. , 0. ])
    """
    S, p = _read_signatures(signatures, probabilities)
    return np.asarray(np.clip((p @ S + 1.0) / 2.0, 0.0, 1.0))


def class_weights(Y: Any, label_frequencies: Any) -> list[dict[int, float]]:
    r"""Class weights that turn the label frequencies of a training set into others.

    A positive cell of label l weighs :math:`q_l / p_l` and a negative one :math:`(1 - q_l) / (1 - p_l)`, where p are
    the frequencies in Y and q the ones to expect. They are an answer of their own to frequencies that change between
    training and use, and work together with a prior.

    Parameters
    ----------
    Y : label matrix in any form
        Labels of the training rows; unknown ones are not counted.
    label_frequencies : array of shape (n_labels,) or mapping from label names
        q, the share of rows that will have each label; see :func:`signature_frequencies`.

    Returns
    -------
    list of dict
        To be used as ``class_weight=``. A label constant in Y keeps its weights at 1. :class:`LabelFrequencies` does
        the same inside ``fit``.

    Examples
    --------
    >>> from multimargin.priors import class_weights
    >>> class_weights([[1], [0], [0], [0]], label_frequencies=[0.5])
    [{0: 0.6666666666666666, 1: 2.0}]
    """
    negative, positive = LabelFrequencies(label_frequencies).weights(read_labels(Y))
    return [{0: float(a), 1: float(b)} for a, b in zip(negative, positive, strict=True)]


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


def check_prior(
    prior: Any, names: Sequence[Any] | NDArray[Any], dtype: type[np.floating[Any]] = np.float64
) -> NDArray[Any] | LowRankPrior | None:
    """Check a prior against the labels.

    Parameters
    ----------
    prior : None, array, DataFrame or LowRankPrior
        ``None`` is the identity. A DataFrame is aligned with the labels by its row and column names.
    names : sequence
        Label names.
    dtype : type
        Precision of the result.

    Returns
    -------
    None, ndarray of shape (n_labels, n_labels), or LowRankPrior with an array diagonal
    """
    if prior is None:
        return None
    if isinstance(prior, LowRankPrior):
        return _check_low_rank(prior, names, dtype)
    R: Any = _aligned(prior, names) if hasattr(prior, "columns") else prior
    if sp.issparse(R):
        R = R.toarray()
    try:
        R = np.asarray(R, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"prior must be None, a square matrix, a DataFrame or a LowRankPrior; got {type(prior).__name__}."
        raise InputError(msg) from None
    n = len(names)
    if R.shape != (n, n):
        msg = f"prior must have one row and one column for each of the {n} labels; got shape {R.shape}."
        raise InputError(msg)
    if not np.all(np.isfinite(R)):
        msg = "prior must be finite; it contains NaN or infinite entries."
        raise InputError(msg)
    scale = max(float(np.abs(R).max()), np.finfo(float).tiny)
    asymmetry = float(np.abs(R - R.T).max())
    if asymmetry > SYMMETRY_TOLERANCE * scale:
        msg = f"prior must be symmetric; R and its transpose differ by up to {asymmetry:.3g}. {REMEDY}"
        raise InputError(msg)
    R = (R + R.T) / 2
    diagonal = np.diag(R)
    if np.any(diagonal <= 0):
        worst = int(np.argmin(diagonal))
        where = f"it is {diagonal[worst]:.3g} for label {_name(names, worst)!r}"
        msg = f"prior must have a positive diagonal; {where}. {REMEDY}"
        raise InputError(msg)
    return np.ascontiguousarray(_clip_eigenvalues(R), dtype=dtype)


def _check_low_rank(prior: LowRankPrior, names: Any, dtype: type[np.floating[Any]]) -> LowRankPrior:
    factor = np.asarray(prior.factor, dtype=np.float64)
    n = len(names)
    if factor.ndim != 2 or factor.shape[0] != n or factor.shape[1] == 0:
        msg = f"The factor of a LowRankPrior must have shape ({n}, rank), one row per label; got {factor.shape}."
        raise InputError(msg)
    diagonal = np.asarray(prior.diagonal, dtype=np.float64)
    if diagonal.shape not in ((), (n,)):
        msg = f"The diagonal of a LowRankPrior must be a number or {n} numbers; got shape {diagonal.shape}."
        raise InputError(msg)
    diagonal = np.broadcast_to(diagonal, n)
    if not np.all(np.isfinite(factor)) or not np.all(np.isfinite(diagonal)):
        msg = "A LowRankPrior must be finite; it contains NaN or infinite entries."
        raise InputError(msg)
    if np.any(diagonal < 0):
        msg = f"The diagonal of a LowRankPrior must not be negative; its minimum is {diagonal.min():.3g}."
        raise InputError(msg)
    total = diagonal + np.einsum("lr,lr->l", factor, factor)
    if np.any(total <= 0):
        worst = int(np.argmin(total))
        msg = (
            f"prior must have a positive diagonal; it is 0 for label {_name(names, worst)!r}. "
            "Give it a factor or a diagonal entry."
        )
        raise InputError(msg)
    return LowRankPrior(np.ascontiguousarray(factor, dtype=dtype), np.ascontiguousarray(diagonal, dtype=dtype))


def _read_signatures(
    signatures: Any, probabilities: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Signatures in -1/1 and probabilities that sum to 1."""
    labels = read_labels(signatures, subject="signatures")
    if labels.missing is not None:
        msg = "signatures must be complete; got NaN cells. Fill them, or leave the category out."
        raise InputError(msg)
    S = np.where(labels.positives.toarray(), 1.0, -1.0)
    p = np.full(len(S), 1.0) if probabilities is None else np.asarray(probabilities, dtype=np.float64)
    if p.shape != (len(S),) or not np.all(np.isfinite(p)) or np.any(p < 0) or p.sum() <= 0:
        msg = (
            f"probabilities must be {len(S)} non-negative numbers, one per category, not all zero; got an array of "
            f"shape {p.shape} with minimum {p.min() if p.size else None}."
        )
        raise InputError(msg)
    return S, p / p.sum()


def _warn_of_frequencies(R: NDArray[np.float64], mean: NDArray[np.float64]) -> None:
    """Warn if the largest eigenvector of R carries most of it and is mostly the mean of the labels."""
    values, vectors = np.linalg.eigh(R)
    share, length = float(values[-1] / values.sum()), float(np.linalg.norm(mean))
    if share <= FREQUENCY_SHARE or length == 0 or (vectors[:, -1] @ mean / length) ** 2 < 0.5:
        return
    warnings.warn(
        f"One eigenvector carries {share:.0%} of the prior's trace, and it is mostly the frequencies of the labels: "
        "the prior says little more than which labels are frequent. Compare it with priors.from_frequencies, or use "
        "class_weight=priors.LabelFrequencies(...).",
        FrequencyPriorWarning,
        stacklevel=3,
    )


def _frequencies(labels: LabelMatrix) -> NDArray[np.float64]:
    """Share of the known cells of each label that are positive."""
    positive, negative = labels.counts()
    return np.asarray(positive / np.maximum(positive + negative, 1), dtype=np.float64)


def _check_frequencies(q: NDArray[np.float64], names: Any = None) -> NDArray[np.float64]:
    if q.ndim != 1 or (names is not None and len(q) != len(names)):
        wanted = "one number per label" if names is None else f"{len(names)} numbers, one per label"
        msg = f"label_frequencies must be {wanted}; got shape {q.shape}."
        raise InputError(msg)
    if not np.all((q >= -ROUNDING) & (q <= 1 + ROUNDING)):
        msg = f"label_frequencies must lie in [0, 1]; they range from {q.min():.4g} to {q.max():.4g}."
        raise InputError(msg)
    return np.asarray(np.clip(q, 0.0, 1.0))


def _aligned_frequencies(frequencies: Any, names: NDArray[Any]) -> NDArray[np.float64]:
    if not isinstance(frequencies, Mapping):
        return np.asarray(frequencies, dtype=np.float64)
    missing = [name for name in names.tolist() if name not in frequencies]
    if missing:
        msg = f"label_frequencies has no entry for label {missing[0]!r}. Give the frequency of every label."
        raise InputError(msg)
    return np.array([float(frequencies[name]) for name in names.tolist()])


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


def _name(names: Any, position: int) -> Any:
    return np.asarray(names, dtype=object).tolist()[position]


def _aligned(frame: Any, names: Any) -> NDArray[np.float64]:
    known = set(frame.columns) & set(frame.index)
    missing = [name for name in names if name not in known]
    if missing:
        msg = (
            f"prior is a DataFrame without a row and column for label {missing[0]!r}; it needs both for each of the "
            f"{len(names)} labels."
        )
        raise InputError(msg)
    return np.asarray(frame.loc[list(names), list(names)].to_numpy(dtype=np.float64))


def _clip_eigenvalues(R: NDArray[np.float64]) -> NDArray[np.float64]:
    eigenvalues = np.linalg.eigvalsh(R)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest < -PSD_TOLERANCE * largest:
        msg = (
            f"prior must be positive semidefinite; its smallest eigenvalue is {smallest:.3g} (largest {largest:.3g}). "
            f"{REMEDY}"
        )
        raise InputError(msg)
    if smallest >= -ROUNDING * largest:
        return R
    warnings.warn(
        f"The smallest eigenvalue of the prior is {smallest:.3g} (largest {largest:.3g}); negative ones were set to 0.",
        stacklevel=4,
    )
    values, vectors = np.linalg.eigh(R)
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((clipped + clipped.T) / 2)


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
    known = 1.0 - missing.toarray().astype(np.float64)
    y = np.where(positives.toarray(), 1.0, -1.0) * known
    together = known.T @ known
    weight = np.maximum(together, 1.0)
    R = (y.T @ y) / weight
    np.fill_diagonal(R, 1.0)
    if kind == "correlation":
        mean = (y.T @ known) / weight  # mean of label l over the rows that also know label k
        centred = R - mean * mean.T
        own = y.sum(axis=0) / np.maximum(known.sum(axis=0), 1.0)
        np.fill_diagonal(centred, 1.0 - own**2)
        R = np.clip(_correlation(centred), -1.0, 1.0)
    values, vectors = np.linalg.eigh((R + R.T) / 2)
    R = (vectors * np.maximum(values, 0.0)) @ vectors.T
    norm = np.sqrt(np.diag(R))
    return np.asarray(R / np.outer(norm, norm))
