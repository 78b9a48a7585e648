"""Errors a user can act on. Every message says subject, rule, value and remedy."""

__all__ = ["FileFormatError", "FitError", "InputError", "ModelFileError"]


class InputError(ValueError):
    """Input that breaks a rule, found before any work started."""


class FileFormatError(InputError):
    """A data file that cannot be read; the message starts with ``path:line:`` where a line is to blame."""


class ModelFileError(InputError):
    """A model file that is foreign, damaged, truncated or from a newer version."""


class FitError(RuntimeError):
    """Training that ended without a model: its numbers left the range of floating point."""
