"""``multimargin evaluate``: how good the predictions of a model are."""

from __future__ import annotations

from typing import Annotated

import typer

from ._options import Format, Json, Labels, ModelFile

__all__ = ["HELP", "run"]

HELP = """
Compare the predictions of a model with the true labels of a file.

With n rows and L labels: Hamming loss = wrong cells / (n·L); subset accuracy = rows right in every label / n;
F1 = 2·TP / (2·TP + FP + FN), averaged over labels (macro), over all cells (micro) and over rows (samples).
Ranking measures use the scores.

Examples:

  multimargin evaluate model.mm test.arff --labels train.xml

  multimargin evaluate model.mm scene --json
"""

Source = Annotated[str, typer.Argument(help="A data file, or the name of a data set (its test split).", metavar="DATA")]


def run(model: ModelFile, source: Source, labels: Labels = None, format: Format = None, json: Json = False) -> None:
    """Run the verb."""
    from multimargin import metrics
    from multimargin.persistence import load_notes

    from ._data import check_features, matched_labels, read_data
    from ._models import not_converged, read_model
    from ._output import console, facts_table, print_json, status
    from ._predictions import predict

    estimator = read_model(model)
    with status(f"reading {source}"):
        data = read_data(source, labels, format, "test", load_notes(model).get("reading"))
    check_features(estimator, data)
    truth = matched_labels(estimator, data)
    with status("predicting"):
        predictions = predict(estimator, data.X, scores=True)
    report = metrics.report(truth, predictions.positives, scores=predictions.scores)
    if json:
        converged = estimator.certificate_.converged
        print_json({**data.facts(), "model": str(model), "converged": converged, "report": report.to_dict()})
        return
    screen = console()
    screen.print(facts_table({**data.facts(), "model": model}))
    if sentence := not_converged(estimator):
        screen.print(sentence, markup=False)
    screen.print()
    screen.print(str(report), markup=False)
