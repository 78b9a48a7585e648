"""Priors on label correlations: the matrix R that couples the labels in M3L.

A prior is a symmetric positive semidefinite matrix R with one row and column per label; R = I is one-vs-all. R may be
singular: it is never inverted.

A prior that is made from labels belongs inside ``fit``: give an estimator ``prior="labels"`` or a function of Y, and
the rows that a fold holds out have no part in it.

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
from ._recipes import made_prior

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
    "made_prior",
]
