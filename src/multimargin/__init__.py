"""Max-margin multi-label learning: certified solutions behind scikit-learn's interface."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multimargin import label_kernels, priors
    from multimargin._progress import progress
    from multimargin.decisions import (
        CPath,
        FixedThresholds,
        LabelCalibrator,
        ThresholdTuner,
        TunedM3L,
        decode,
        tune_thresholds,
    )
    from multimargin.estimators import (
        CalibratedSeparationClassifier,
        CliqueClassifier,
        KernelM3L,
        LinearM3L,
        OutputKernelClassifier,
        SubmodularClassifier,
        certify,
    )
    from multimargin.fleets import fit_parts
    from multimargin.persistence import load, save
    from multimargin.zero_shot import ZeroShotClassifier

__version__ = version("multimargin")
__all__ = [
    "CPath",
    "CalibratedSeparationClassifier",
    "CliqueClassifier",
    "FixedThresholds",
    "KernelM3L",
    "LabelCalibrator",
    "LinearM3L",
    "OutputKernelClassifier",
    "SubmodularClassifier",
    "ThresholdTuner",
    "TunedM3L",
    "ZeroShotClassifier",
    "__version__",
    "certify",
    "decode",
    "fit_parts",
    "label_kernels",
    "load",
    "priors",
    "progress",
    "save",
    "tune_thresholds",
]

_HOMES = {
    "CPath": "decisions",
    "CalibratedSeparationClassifier": "estimators",
    "CliqueClassifier": "estimators",
    "FixedThresholds": "decisions",
    "KernelM3L": "estimators",
    "LabelCalibrator": "decisions",
    "LinearM3L": "estimators",
    "OutputKernelClassifier": "estimators",
    "SubmodularClassifier": "estimators",
    "ThresholdTuner": "decisions",
    "TunedM3L": "decisions",
    "ZeroShotClassifier": "zero_shot",
    "certify": "estimators",
    "decode": "decisions",
    "fit_parts": "fleets",
    "load": "persistence",
    "progress": "_progress",
    "save": "persistence",
    "tune_thresholds": "decisions",
}
_ROOMS = (
    "baselines",
    "datasets",
    "decisions",
    "fleets",
    "inspection",
    "interchange",
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
