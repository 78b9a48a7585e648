"""The command and its verbs. A new verb is one file, or folder, with ``HELP`` and ``run``, and one name in `VERBS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import typer

from . import datasets, demo, evaluate, fit, predict, report, tune

__all__ = ["VERBS", "Verb", "make_app"]


class Verb(Protocol):
    """What a verb consists of: a text for people, and a function whose annotated parameters are its options."""

    HELP: str
    run: Callable[..., Any]


VERBS: dict[str, Verb] = {
    module.__name__.rpartition(".")[2]: module for module in (demo, fit, tune, predict, evaluate, report, datasets)
}

HELP = """
Max-margin multi-label learning with certified solutions.

Every verb explains itself: [bold]multimargin fit --help[/bold]. With [bold]--json[/bold] it answers machines
on standard output. Exit code 2 means bad input, with one sentence on standard error, and 1 a fit that did not
converge; [bold]--debug[/bold] shows the traceback of any failure.
"""


def make_app() -> typer.Typer:
    """Return the command with all its verbs."""
    app = typer.Typer(
        help=_paragraphs(HELP),
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_about)
    for name, verb in VERBS.items():
        app.command(name, help=_paragraphs(verb.HELP))(verb.run)
    return app


def _paragraphs(text: str) -> str:
    """Join the lines of each paragraph, which the terminal breaks where it needs to."""
    return "\n\n".join(part.replace("\n", " ") for part in text.strip().split("\n\n"))


def _about(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    if version:
        from multimargin import __version__

        typer.echo(f"multimargin {__version__}")
        raise typer.Exit
