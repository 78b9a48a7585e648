"""The border of the command: whatever happens inside, the user sees a result or one sentence."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import typer

from multimargin.errors import DecisionWarning, FitError, InputError

__all__ = ["run"]

INTERRUPTED = 130
BAD_INPUT = (ValueError, OSError, ImportError, MemoryError)
# click's class, which newer versions of typer keep under a private name.
UsageError: Any = typer.BadParameter.__base__
REMEDIES = {
    "thresholds": "give --thresholds macro-f1",
    "class_weight": "give -p class_weight=balanced",
    "C": "try a larger C with -p C=VALUE",
}
"""Of a DecisionWarning, in the command."""


def run(arguments: Sequence[str]) -> int:
    """Run the command with these words and return its exit code."""
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    try:
        with _one_line_warnings():
            return _call(words)
    except KeyboardInterrupt:
        return _say("interrupted; nothing was written.", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, as in `multimargin datasets | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
            return 2 if isinstance(error, BAD_INPUT) else 1
        if isinstance(error, UsageError):
            return _say(f"{error.format_message()} See: multimargin --help", 2)
        if isinstance(error, BAD_INPUT):
            return _say(_sentence(error), 2)
        if isinstance(error, FitError):
            return _say(_sentence(error), 1)
        return _say(
            f"internal error ({type(error).__name__}: {_sentence(error)}). Re-run with --debug to see where.",
            1,
        )


def _call(words: list[str]) -> int:
    from ._app import make_app

    try:
        code = make_app()(words, prog_name="multimargin", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.Exit as stop:
        code = stop.exit_code
    if code == INTERRUPTED:  # newer versions of typer turn Ctrl-C into this code without a word
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _sentence(error: BaseException) -> str:
    """Return what went wrong on one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    if isinstance(error, MemoryError):
        return "not enough memory for this. Use fewer rows or features, or sparse data."
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    sentence = lines[0] if lines else type(error).__name__
    return _advised(sentence) if isinstance(error, InputError | FitError) else sentence


def _advised(message: str) -> str:
    from ._remedies import for_the_command

    return for_the_command(message)


def _say(sentence: str, code: int) -> int:
    sys.stderr.write(f"multimargin: {sentence}\n")
    return code


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Show the library's warnings as lines, without the source text that Python adds."""

    def show(message: Warning | str, category: type[Warning], *_: Any, file: TextIO | None = None, **__: Any) -> None:
        text = " ".join((message.told(REMEDIES) if isinstance(message, DecisionWarning) else str(message)).split())
        sys.stderr.write(f"warning: {text if isinstance(message, DecisionWarning) else _advised(text)}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("default", RuntimeWarning)
        warnings.showwarning = show
        yield
