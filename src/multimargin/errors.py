"""Errors and warnings a user can act on. Every message says subject, rule, value and remedy."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

__all__ = ["DecisionWarning", "FileFormatError", "FitError", "InputError", "ModelFileError"]


class InputError(ValueError):
    """Input that breaks a rule, found before any work started."""


class FileFormatError(InputError):
    """A data file that cannot be read; the message starts with ``path:line:`` where a line is to blame."""


class ModelFileError(InputError):
    """A model file that is foreign, damaged, truncated or from a newer version."""


class FitError(RuntimeError):
    """Training that ended without a model: its numbers left the range of floating point."""


class DecisionWarning(UserWarning):
    """A model that predicts (almost) no labels, (almost) all, or several times more or fewer than are true.

    ``fit`` gives it, once, by a sample of the training rows. It says nothing against the scores: the remedies move the
    decision. To switch it off, ``warnings.simplefilter("ignore", DecisionWarning)``.

    Parameters
    ----------
    finding : str
        A sentence with the numbers.
    remedies : sequence of str
        What helps, of :data:`REMEDIES`, best first.

    Examples
    --------
    >>> from multimargin.errors import DecisionWarning
    >>> print(DecisionWarning("LinearM3L predicts 0 of 6 labels per row where 1.2 are true.", ["thresholds", "C"]))
    LinearM3L predicts 0 of 6 labels per row where 1.2 are true. Wrap it in ThresholdTuner, or try a larger C.
    """

    REMEDIES: ClassVar[dict[str, str]] = {
        "thresholds": "wrap it in ThresholdTuner",
        "class_weight": 'set class_weight="balanced"',
        "C": "try a larger C",
    }
    """Remedies by name."""

    def __init__(self, finding: str, remedies: Sequence[str]):
        super().__init__(finding, remedies)
        self.finding = finding
        self.remedies = remedies

    def __str__(self) -> str:
        return self.told(self.REMEDIES)

    def told(self, words: Mapping[str, str]) -> str:
        """Return finding and remedies on one line, these in other words."""
        *first, last = [words[remedy] for remedy in self.remedies]
        sentence = f"{', '.join(first)}, or {last}" if first else last
        return f"{self.finding} {sentence[0].upper()}{sentence[1:]}."
