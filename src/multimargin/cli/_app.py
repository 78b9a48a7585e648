"""The verbs. A new verb is one file and one line here."""

from __future__ import annotations

import typer

from . import datasets, demo, evaluate, fit, predict, reproduce

__all__ = ["app"]

HELP = """
Max-margin multi-label learning with certified solutions.

Every verb explains itself: [bold]multimargin fit --help[/bold]. With [bold]--json[/bold] it answers machines
on standard output. Exit code 2 means bad input, with one sentence on standard error, and 1 a fit that did not
converge; [bold]--debug[/bold] shows the traceback of any failure.
"""


def _paragraphs(text: str) -> str:
    """Join the lines of each paragraph, which the terminal breaks where it needs to."""
    return "\n\n".join(part.replace("\n", " ") for part in text.strip().split("\n\n"))


app = typer.Typer(
    help=_paragraphs(HELP),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (demo, fit, predict, evaluate, reproduce, datasets):
    app.command(verb.__name__.rpartition(".")[2], help=_paragraphs(verb.HELP))(verb.run)


@app.callback(invoke_without_command=True)
def _about(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    if version:
        from multimargin import __version__

        typer.echo(f"multimargin {__version__}")
        raise typer.Exit
