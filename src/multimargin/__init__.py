"""Max-margin multi-label learning: certified solutions behind scikit-learn's interface."""

from importlib.metadata import version

from multimargin import priors
from multimargin.estimators import KernelM3L, LinearM3L

__version__ = version("multimargin")
__all__ = ["KernelM3L", "LinearM3L", "__version__", "priors"]
