"""Cliques of labels that depend on each other, given or learned."""

from multimargin.estimators.cliques.classifier import CliqueCertificate, CliqueClassifier, CliquePath

__all__ = ["CliqueCertificate", "CliqueClassifier", "CliquePath"]
