"""Max-margin multi-label learning: certified solutions behind scikit-learn's interface."""

from importlib.metadata import version

__version__ = version("multimargin")
__all__ = ["__version__"]
