"""Estimators. A new one is a file here and a line in :data:`REGISTRY`."""

from multimargin.estimators._base import MultilabelClassifier
from multimargin.estimators._monitor import Certificate, History, Progress
from multimargin.estimators.kernel_m3l import KernelM3L
from multimargin.estimators.m3l import LinearM3L

__all__ = ["REGISTRY", "Certificate", "History", "KernelM3L", "LinearM3L", "MultilabelClassifier", "Progress"]

REGISTRY: dict[str, type[MultilabelClassifier]] = {
    "linear-m3l": LinearM3L,
    "kernel-m3l": KernelM3L,
}
"""Names of the estimators in the command."""
