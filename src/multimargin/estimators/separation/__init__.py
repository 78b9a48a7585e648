"""Calibrated separation of the labels a row has from those it lacks, and kernels between label sets."""

from multimargin.estimators.separation.classifiers import CalibratedSeparationClassifier, OutputKernelClassifier

__all__ = ["CalibratedSeparationClassifier", "OutputKernelClassifier"]
