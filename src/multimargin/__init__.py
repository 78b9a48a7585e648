"""Max-margin multi-label learning: certified solutions behind scikit-learn's interface."""

from importlib.metadata import version

from multimargin import label_kernels, priors
from multimargin.estimators import CalibratedSeparationClassifier, LinearM3L, OutputKernelClassifier

__version__ = version("multimargin")
__all__ = [
    "CalibratedSeparationClassifier",
    "LinearM3L",
    "OutputKernelClassifier",
    "__version__",
    "label_kernels",
    "priors",
]
