r"""Likelihoods of a log-linear model of label sets, in the scores :math:`\theta_T` of single labels and label pairs.

The whole one is that of the label set, :math:`p(y) \propto \exp \sum_T \theta_T \chi_T(y)`, with a sum over all label
sets. The pseudo-likelihood is the product over labels of the probability of each given all the others,

.. math:: p(y_k \mid y_{-k}) = \sigma(2 s_k f_k), \quad f_k = \theta_k + \sum_b \theta_{kb} s_b,

without such sums, whatever the graph of the pairs.

Both are negative logs of probabilities of what was seen. For their duals a distribution of the model may be moved
towards what was seen, :math:`\alpha^t = (1 - t)\, \delta + t\, \alpha`: residuals :math:`\chi_T(y) - \mathrm E \chi_T`
become t times as large, and the entropy needs the probability of what was seen and the entropy of the model only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core

__all__ = ["Likelihood", "PseudoLikelihood", "View", "WholeLikelihood"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """A likelihood at some scores.

    Attributes
    ----------
    losses : ndarray of shape (n_rows,)
        Negative logs.
    residuals : ndarray of shape (n_rows, n_subsets)
        The losses fall by these with the scores.
    size : ndarray of shape (n_rows,)
        Of the numbers whose differences the losses are: how far they can be trusted.
    own, entropy : ndarray
        Logs of the probabilities of what was seen, and entropies of the model: by row, or by row and label.
    """

    losses: Array
    residuals: Array
    size: Array
    own: Array
    entropy: Array

    def moved_entropies(self, t: float) -> Array:
        """Entropies of the rows, moved towards what was seen."""
        p = np.exp(self.own)
        kept = 1.0 - t + t * p
        moved = -_xlogx(kept) - (1.0 - p) * _xlogx(np.array(t)) + t * (self.entropy + p * self.own)
        return np.asarray(moved if moved.ndim == 1 else moved.sum(axis=1))


class Likelihood(Protocol):
    """A likelihood of label sets that were seen."""

    @property
    def characters(self) -> Array:
        """Of the label sets that were seen."""

    def at(self, scores: Array) -> View:
        """Look at it at the scores of the characters."""


@dataclass(frozen=True)
class WholeLikelihood:
    """Of label sets.

    Attributes
    ----------
    characters : ndarray of shape (n_rows, n_subsets)
        Of the label sets that were seen: single labels first, then the pairs that may have weights.
    inference : CliqueInference
        Compiled for these labels and pairs.
    threads : int
    """

    characters: Array
    inference: _core.CliqueInference
    threads: int

    def at(self, scores: Array) -> View:
        """Look at it at the scores of the characters."""
        sums = self.inference.sums(np.ascontiguousarray(scores), self.threads)
        own = np.sum(self.characters * scores, axis=1) - sums.log_partition
        entropy = sums.log_partition - np.sum(scores * sums.moments, axis=1)
        return View(-own, self.characters - sums.moments, np.abs(sums.log_partition), own, entropy)


@dataclass(frozen=True)
class PseudoLikelihood:
    """Of each label given the others.

    Attributes
    ----------
    characters : ndarray of shape (n_rows, n_subsets)
        Of the label sets that were seen: single labels first, then the pairs that may have weights.
    pairs : ndarray of shape (n_pairs, 2)
        Labels of the pairs.
    """

    characters: Array
    pairs: NDArray[np.intp]

    def at(self, scores: Array) -> View:
        """Look at it at the scores of the characters."""
        n_labels = self.characters.shape[1] - len(self.pairs)
        signs, pair_scores = self.characters[:, :n_labels], scores[:, n_labels:]
        ends = sp.csr_array(
            (np.ones(self.pairs.size), self.pairs.ravel(), 2 * np.arange(len(self.pairs) + 1)),
            shape=(len(self.pairs), n_labels),
        )
        margin = signs * scores[:, :n_labels] + (self.characters[:, n_labels:] * pair_scores) @ ends  # s_k f_k
        own = -np.logaddexp(0.0, -2.0 * margin)
        wrong = 1.0 / (1.0 + np.exp(np.minimum(2.0 * margin, MOST_EXPONENT)))
        entropy = -np.exp(own) * own + wrong * (2.0 * margin - own)
        residuals = np.empty_like(self.characters)
        residuals[:, :n_labels] = 2.0 * signs * wrong
        first, second = self.pairs.T
        residuals[:, n_labels:] = 2.0 * self.characters[:, n_labels:] * (wrong[:, first] + wrong[:, second])
        losses = -own.sum(axis=1)
        return View(losses, residuals, losses, own, entropy)


MOST_EXPONENT = 700.0  # exp of it is finite


def _xlogx(x: Array) -> Array:
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0)
