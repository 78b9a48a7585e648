"""Priors on label correlations: the matrix R that couples the labels in M3L.

A prior is a symmetric positive semidefinite matrix R with one row and column per label; R = I is one-vs-all. R may be
singular: it is never inverted.

Where label frequencies differ between training and use, :class:`multimargin.weights.LabelFrequencies` says which ones
to expect, alone or together with a prior.
"""

from ._builders import (
    FrequencyPriorWarning,
    from_embeddings,
    from_frequencies,
    from_graph,
    from_labels,
    from_signatures,
    from_taxonomy,
)
from ._checks import LowRankPrior, check_prior

__all__ = [
    "FrequencyPriorWarning",
    "LowRankPrior",
    "check_prior",
    "from_embeddings",
    "from_frequencies",
    "from_graph",
    "from_labels",
    "from_signatures",
    "from_taxonomy",
]
