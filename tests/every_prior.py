"""One prior of every kind."""

import numpy as np

from multimargin import priors

__all__ = ["PRIORS", "as_matrix", "make_priors"]


def make_priors(rng, n_labels=5):
    """R = I, full rank with negative entries, singular, and both low-rank forms."""
    factor = rng.normal(size=(n_labels, 2))
    return {
        "identity": None,
        "dense": priors.from_embeddings(rng.normal(size=(n_labels, n_labels))),
        "singular": priors.from_signatures(rng.choice([-1, 1], size=(2, n_labels))),
        "factor": priors.LowRankPrior(factor),
        "factor and diagonal": priors.LowRankPrior(factor, rng.random(n_labels)),
    }


PRIORS = list(make_priors(np.random.default_rng(0)))


def as_matrix(prior, n_labels):
    if prior is None:
        return np.eye(n_labels)
    return prior.toarray() if isinstance(prior, priors.LowRankPrior) else prior
