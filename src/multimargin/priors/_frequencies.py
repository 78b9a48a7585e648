"""Label frequencies to expect in use, and the class weights they amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multimargin.errors import InputError
from multimargin.labels import LabelMatrix, read_labels

from ._checks import ROUNDING

__all__ = [
    "LabelFrequencies",
    "check_frequencies",
    "class_weights",
    "frequencies_of",
    "read_signatures",
    "signature_frequencies",
]


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
        p = frequencies_of(labels)
        q = check_frequencies(_aligned_frequencies(self.label_frequencies, labels.names), labels.names)
        varies = (p > 0) & (p < 1)
        negative = np.divide(1.0 - q, 1.0 - p, out=np.ones_like(p), where=varies)
        return negative, np.divide(q, p, out=np.ones_like(p), where=varies)


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
    S, p = read_signatures(signatures, probabilities)
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


def read_signatures(
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


def frequencies_of(labels: LabelMatrix) -> NDArray[np.float64]:
    """Share of the known cells of each label that are positive."""
    positive, negative = labels.counts()
    return np.asarray(positive / np.maximum(positive + negative, 1), dtype=np.float64)


def check_frequencies(q: NDArray[np.float64], names: Any = None) -> NDArray[np.float64]:
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
