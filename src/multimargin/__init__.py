"""Max-margin multi-label learning: certified solutions behind scikit-learn's interface."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multimargin import label_kernels, priors
    from multimargin.estimators import (
        CalibratedSeparationClassifier,
        CliqueClassifier,
        KernelM3L,
        LinearM3L,
        OutputKernelClassifier,
        SubmodularClassifier,
        certify,
    )
    from multimargin.persistence import load, save
    from multimargin.zero_shot import ZeroShotClassifier

__version__ = version("multimargin")
__all__ = [
    "CalibratedSeparationClassifier",
    "CliqueClassifier",
    "KernelM3L",
    "LinearM3L",
    "OutputKernelClassifier",
    "SubmodularClassifier",
    "ZeroShotClassifier",
    "__version__",
    "certify",
    "label_kernels",
    "load",
    "priors",
    "save",
]

_HOMES = {
    "CalibratedSeparationClassifier": "estimators",
    "CliqueClassifier": "estimators",
    "KernelM3L": "estimators",
    "LinearM3L": "estimators",
    "OutputKernelClassifier": "estimators",
    "SubmodularClassifier": "estimators",
    "ZeroShotClassifier": "zero_shot",
    "certify": "estimators",
    "load": "persistence",
    "save": "persistence",
}
_ROOMS = (
    "baselines",
    "datasets",
    "label_kernels",
    "metrics",
    "model_selection",
    "plots",
    "priors",
    "weights",
    "zero_shot",
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command answers at once."""
    if name in _HOMES:
        value = getattr(import_module(f"multimargin.{_HOMES[name]}"), name)
    elif name in _ROOMS:
        value = import_module(f"multimargin.{name}")
    else:
        msg = f"module 'multimargin' has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS})
