"""``multimargin report``: a page on how good a model is, label by label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import Format, Json, Labels, ModelFile, TestData

__all__ = ["HELP", "run"]

HELP = """
Write a report of a model on the rows of a file: one HTML page that needs no network.

It shows the labels, the certificate [bold](P - D) / P <= tol[/bold] of training, every metric beside that of the best
constant prediction (for macro-F1 every label everywhere, [bold]F = 2P / (P + n)[/bold] for P of n rows), a table of all
labels that sorts and filters, F1 against thresholds, probabilities against shares of positives, ties between labels,
and the rows the model is most wrong about, with the parts of their scores.

With [bold]--train[/bold] the page also compares with one-vs-all, [bold]LinearM3L[/bold] without prior or tuned
thresholds, trained on those rows, and says which rows occur in both files.

Examples:

  multimargin report model.mm test.arff --labels train.xml --out report.html

  multimargin report model.mm scene --train scene --out scene.html
"""

Out = Annotated[Path, typer.Option("--out", "-o", help="The HTML file.", metavar="FILE")]
Train = Annotated[
    str | None,
    typer.Option(
        "--train",
        help="The training data: a file, or the name of a data set (its training split).",
        metavar="DATA",
    ),
]
Title = Annotated[str | None, typer.Option("--title", help="Heading of the page.", metavar="TEXT")]


def run(
    model: ModelFile,
    source: TestData,
    out: Out = Path("report.html"),
    train: Train = None,
    labels: Labels = None,
    title: Title = None,
    format: Format = None,
    json: Json = False,
) -> None:
    """Run the verb."""
    from multimargin.report.evidence import gather
    from multimargin.report.model_report import write_report

    from ._data import check_output, data_facts, read_for
    from ._models import not_converged, read_model
    from ._output import status

    check_output(out)
    estimator, notes = read_model(model)
    name, data, truth = read_for(estimator, notes, source, "test", labels, format)
    options: dict[str, Any] = {"data_name": name, "feature_names": data.feature_names}
    if train is not None:
        options["train_name"], seen, seen_labels = read_for(estimator, notes, train, "train", labels, format)
        options["train"] = (seen.X, seen_labels)
    with status("predicting"):
        evidence = gather(estimator, data.X, truth, **options)
    with status(f"writing {out}"):
        write_report(evidence, out, title)
    _show(evidence, {**data_facts(name, data), "model": str(model)}, out, not_converged(estimator), json)


def _show(evidence: Any, facts: dict[str, Any], out: Path, sentence: str | None, json: bool) -> None:
    from multimargin.report.sections.headline import HEADLINE
    from multimargin.report.sections.mind import what_to_mind

    from ._output import console, facts_table, print_json, table

    facts |= {"out": str(out), "bytes": out.stat().st_size}
    reference = None if evidence.reference is None else evidence.reference.report.values
    if json:
        answer = {"converged": sentence is None, "metrics": evidence.values, "best_constant": evidence.constants}
        print_json({**facts, **answer, "one_vs_all": reference, "warnings": what_to_mind(evidence)})
        return
    screen = console()
    screen.print(facts_table(facts))
    if sentence:
        screen.print(sentence, markup=False)
    columns = [evidence.values, *([] if reference is None else [reference]), evidence.constants]
    rows = [
        [words, *(f"{column[name]:.4f}" if name in column else "" for column in columns)]
        for name, words in HEADLINE.items()
        if name in evidence.values
    ]
    screen.print(table(["", "this model", *([] if reference is None else ["one-vs-all"]), "best constant"], rows))
