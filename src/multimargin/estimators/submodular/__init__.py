"""Training for the F-score with label pairs that attract each other."""

from multimargin.estimators.submodular.classifier import SubmodularClassifier

__all__ = ["SubmodularClassifier"]
