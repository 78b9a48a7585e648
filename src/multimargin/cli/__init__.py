"""The command ``multimargin``: one file per verb.

Nothing heavy is imported before a verb runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

MISSING = 'multimargin: the command needs {}, which is not installed. Install it with: pip install "multimargin[cli]"\n'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``multimargin``; those of this process by default.

    Returns
    -------
    int
        The exit code: 0, 1 (a fit that did not converge, or a bug of ours), 2 (bad input) or 130 (interrupted).
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        from multimargin import __version__

        sys.stdout.write(f"multimargin {__version__}\n")
        return 0
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.stderr.write(MISSING.format(error.name))
        return 2
    from ._run import run

    return run(words)
