"""Estimators. A new one is a file here and a line in :data:`REGISTRY`."""

from multimargin.estimators.certificate import Certificate, certify
from multimargin.estimators.cliques import CliqueCertificate, CliqueClassifier, CliquePath
from multimargin.estimators.contract import MultilabelClassifier
from multimargin.estimators.m3l import KernelM3L, LinearM3L, Pruning
from multimargin.estimators.monitor import History, Progress
from multimargin.estimators.separation import CalibratedSeparationClassifier, OutputKernelClassifier
from multimargin.estimators.submodular import MostViolating, SubmodularClassifier

__all__ = [
    "REGISTRY",
    "CalibratedSeparationClassifier",
    "Certificate",
    "CliqueCertificate",
    "CliqueClassifier",
    "CliquePath",
    "History",
    "KernelM3L",
    "LinearM3L",
    "MostViolating",
    "MultilabelClassifier",
    "OutputKernelClassifier",
    "Progress",
    "Pruning",
    "SubmodularClassifier",
    "certify",
]

REGISTRY: dict[str, type[MultilabelClassifier]] = {
    "linear-m3l": LinearM3L,
    "kernel-m3l": KernelM3L,
    "submodular": SubmodularClassifier,
    "cliques": CliqueClassifier,
    "calibrated-separation": CalibratedSeparationClassifier,
    "output-kernel": OutputKernelClassifier,
}
"""Names of the estimators in the command."""
