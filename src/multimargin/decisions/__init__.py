"""From scores to decisions: thresholds for a metric, probabilities, and the best label set of a row.

Works for any classifier with multi-label scores, and for bare matrices of scores.
"""

from multimargin.decisions.calibration import Calibration, LabelCalibrator, calibrate
from multimargin.decisions.decoding import decode
from multimargin.decisions.joint import JointDecoder
from multimargin.decisions.path import CPath, PathScores
from multimargin.decisions.thresholds import Thresholds, tune_thresholds
from multimargin.decisions.tuned_m3l import TunedM3L
from multimargin.decisions.tuner import FixedThresholds, ThresholdTuner

__all__ = [
    "CPath",
    "Calibration",
    "FixedThresholds",
    "JointDecoder",
    "LabelCalibrator",
    "PathScores",
    "ThresholdTuner",
    "Thresholds",
    "TunedM3L",
    "calibrate",
    "decode",
    "tune_thresholds",
]
