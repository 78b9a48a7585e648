"""What labels are like before training, and why a model scores a row as it does."""

from multimargin.inspection.contributions import Contributions, SupportContributions
from multimargin.inspection.dependence import LabelDependence
from multimargin.inspection.describe import LabelDescription, describe
from multimargin.inspection.explain import Explanation, FeatureWeights, explain, top_features

__all__ = [
    "Contributions",
    "Explanation",
    "FeatureWeights",
    "LabelDependence",
    "LabelDescription",
    "SupportContributions",
    "describe",
    "explain",
    "top_features",
]
