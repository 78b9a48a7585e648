"""``multimargin predict``: the labels of new rows, or their categories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import Format, Ignore, Json, Labels, ModelFile, Signatures, TestData, Text

__all__ = ["HELP", "run"]

HELP = """
Predict the labels of the rows of a file.

The output is a table with one column per label: 0 or 1, or with [bold]--scores[/bold] the score of the label,
[bold]f(x) = w·x + b[/bold] for linear models, less its threshold t if thresholds were tuned: a label is predicted
where the number is positive. With [bold]--proba[/bold] it is the probability [bold]1 / (1 + exp(-(a·f(x) + b)))[/bold]
of a model made by [bold]fit --calibrate[/bold]. [bold]--top K[/bold] gives the names of the K labels with the largest
numbers of each row, best first.

A file without labels is fine. The model remembers how its training file was read: labels, columns that were ignored,
the column of texts, and missing features that it fills in; these options are needed only for a file of another kind.

A model made by [bold]fit --signatures[/bold] predicts the category of each row; [bold]--scores[/bold] tells how well
each category fits, [bold]--attributes[/bold] gives the attributes instead. With [bold]--signatures[/bold] it chooses
among the categories of that file, which may be new: only their attributes must be the model's.

Examples:

  multimargin predict model.mm test.arff --labels train.xml --out predictions.csv

  multimargin predict model.mm new.csv --scores > scores.csv

  multimargin predict model.mm new.csv --proba --top 5

  multimargin predict model.mm reviews.csv --text review

  multimargin predict animals.mm photos.csv --signatures more_animals.csv --top 3

  multimargin predict model.mm test.arff --labels train.xml --out predictions.npz

An .npz file holds the predictions as [bold]scipy.sparse.load_npz[/bold] reads them, with label_names, and
scores or probabilities if asked for.
"""

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="A .csv or .npz file; standard output (CSV) by default.", metavar="FILE"),
]
Scores = Annotated[bool, typer.Option("--scores", help="Give scores instead of 0 and 1.")]
Proba = Annotated[bool, typer.Option("--proba", help="Give probabilities instead of 0 and 1.")]
Top = Annotated[
    int | None,
    typer.Option("--top", help="Give the K best labels or categories of each row, best first.", metavar="K"),
]
Attributes = Annotated[bool, typer.Option("--attributes", help="Give attributes instead of a category.")]


def run(
    model: ModelFile,
    source: TestData,
    labels: Labels = None,
    ignore: Ignore = None,
    text: Text = None,
    out: Out = None,
    scores: Scores = False,
    proba: Proba = False,
    top: Top = None,
    signatures: Signatures = None,
    attributes: Attributes = False,
    format: Format = None,
    json: Json = False,
) -> None:
    """Run the verb."""
    import warnings

    from multimargin.errors import InputError

    from ._categories import is_zero_shot, read_signature_table
    from ._data import check_features, check_output, check_text, read_data, shown_name
    from ._models import not_converged, read_model
    from ._output import status
    from ._predictions import Values, check_kind, check_values, predict, predict_attributes, predict_categories, write

    if scores and proba:
        msg = "Give --scores or --proba, not both."
        raise InputError(msg)
    kind: Values | None = "probabilities" if proba else "scores" if scores else None
    check_output(out)
    check_kind(out)
    estimator, notes = read_model(model, categories=True)
    zero_shot = is_zero_shot(estimator)
    _check_zero_shot(zero_shot, signatures, attributes, proba)
    if not zero_shot:
        check_values(estimator, kind, top)
    known = read_signature_table(signatures)
    check_text(estimator, notes, text)
    if sentence := not_converged(estimator):
        warnings.warn(sentence, stacklevel=1)
    with status(f"reading {source}"):
        data = read_data(source, "test", labels, format, notes, need_labels=False, ignore=ignore or (), text=text)
    name = shown_name(source, "test")
    check_features(estimator, name, data)
    with status("predicting"):
        if attributes:
            predictions = predict_attributes(estimator, data.X, kind, top)
        elif zero_shot:
            predictions = predict_categories(estimator, data.X, kind, top, known)
        else:
            all_values = out is not None and out.suffix == ".npz"
            predictions = predict(estimator, data.X, kind, top, all_values=all_values)
    if out is not None:
        write(predictions, out)
    _show(predictions, name, out, json)


def _check_zero_shot(zero_shot: bool, signatures: Path | None, attributes: bool, proba: bool) -> None:
    """Refuse options that do not belong to the kind of the model, or not together."""
    from multimargin.errors import InputError

    if attributes and signatures is not None:
        msg = (
            "--attributes belong to the model, whichever categories there are. Leave --signatures or --attributes out."
        )
        raise InputError(msg)
    if zero_shot and proba:
        msg = "--proba is for models that predict labels; this one predicts categories. Use --scores."
        raise InputError(msg)
    if not zero_shot and (attributes or signatures is not None):
        option = "--attributes" if attributes else "--signatures"
        msg = f"{option} is for models that predict categories; this one predicts labels. Leave it out."
        raise InputError(msg)


def _show(predictions: Any, name: str, out: Path | None, json: bool) -> None:
    import sys

    from ._output import print_json
    from ._predictions import write_csv

    rows = predictions.positives.shape[0]
    per_row = predictions.positives.sum() / rows
    of_categories = predictions.noun == "category"
    if json:
        answer: dict[str, Any] = {"data": name, "rows": rows}
        answer |= {} if of_categories else {"labels_per_row": per_row}
        if out is None:
            keys = ("category_names", "categories") if of_categories else ("label_names", "label_sets")
            sets: list[Any] = predictions.sets()
            chosen = [row[0] for row in sets] if of_categories and {len(row) for row in sets} == {1} else sets
            answer |= dict(zip(keys, (predictions.label_names, chosen), strict=True))
            answer |= {predictions.kind: predictions.shown_values()} if predictions.kind else {}
        else:
            answer["out"] = str(out)
        print_json(answer)
    elif out is None:
        write_csv(predictions, sys.stdout)
    else:
        about = "" if of_categories else f", {per_row:.2f} labels per row on average"
        typer.echo(f"{rows} rows of {name}{about}: {out}")
