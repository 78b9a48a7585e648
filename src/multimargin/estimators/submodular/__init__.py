"""Training for the F-score with label pairs that attract each other."""

from multimargin.estimators.submodular.classifier import SubmodularClassifier
from multimargin.estimators.submodular.most_violating import MostViolating

__all__ = ["MostViolating", "SubmodularClassifier"]
