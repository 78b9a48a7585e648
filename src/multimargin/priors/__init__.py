"""Priors on label correlations: the matrix R that couples the labels in M3L.

A prior is a symmetric positive semidefinite matrix R with one row and column per label; R = I is one-vs-all. R may be
singular: it is never inverted.

Where label frequencies differ between training and use, say which ones to expect:
``class_weight=priors.LabelFrequencies(q)``, alone or together with a prior.
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
from ._frequencies import LabelFrequencies, class_weights, signature_frequencies

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
