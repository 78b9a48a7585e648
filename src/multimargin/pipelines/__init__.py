"""Pipelines of scikit-learn around the models of this library, as model files hold them.

A pipeline is its steps, and a step its parameters and fitted attributes, each with a rule (`step.Step`): what is not
listed is neither written nor read. A new step is one line in the file of its subject.
"""

from multimargin.pipelines.contents import CLASSES, REGISTRY, contents, make_model

__all__ = ["CLASSES", "REGISTRY", "contents", "make_model"]
