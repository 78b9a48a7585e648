"""What labels are like before training, and why a model scores a row as it does."""

from multimargin.inspection.dependence import LabelDependence
from multimargin.inspection.describe import LabelDescription, describe

__all__ = ["LabelDependence", "LabelDescription", "describe"]
