"""M3L: max-margin multi-label classification with a prior on label correlations."""

from multimargin.estimators.m3l.kernel import KernelM3L
from multimargin.estimators.m3l.label_blocks import Pruning
from multimargin.estimators.m3l.linear import LinearM3L

__all__ = ["KernelM3L", "LinearM3L", "Pruning"]
