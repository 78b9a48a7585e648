"""Pictures of a fit and of what is known of the labels, one Display each, as in scikit-learn.

``SomeDisplay.from_estimator(model)`` draws a fitted model; other ``from_`` functions draw what is at hand. The display
keeps what it drew (``frame()`` gives it as a DataFrame), the Axes ``ax_`` and the figure ``figure_``, and
``plot(ax=...)`` draws it again elsewhere. Nothing is shown and no style is changed.

Needs matplotlib, ``pip install "multimargin[plots]"``; label graphs also networkx,
``pip install "multimargin[graphs]"``.
"""

from .c_path import CPathDisplay
from .clique_path import CliquePathDisplay
from .convergence import ConvergenceDisplay
from .label_counts import LabelCountsDisplay
from .label_dependence import LabelDependenceDisplay
from .label_graph import LabelGraphDisplay
from .prior import PriorDisplay, similarity_order
from .reliability import ReliabilityDisplay

__all__ = [
    "CPathDisplay",
    "CliquePathDisplay",
    "ConvergenceDisplay",
    "LabelCountsDisplay",
    "LabelDependenceDisplay",
    "LabelGraphDisplay",
    "PriorDisplay",
    "ReliabilityDisplay",
    "similarity_order",
]
