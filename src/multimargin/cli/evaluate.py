"""``multimargin evaluate``: how good the predictions of a model are."""

from __future__ import annotations

from typing import Any

from ._options import Category, Format, Ignore, Json, Labels, ModelFile, Signatures, TestData, Text

__all__ = ["HELP", "run"]

HELP = """
Compare the predictions of a model with the true labels of a file.

With n rows and L labels: Hamming loss = wrong cells / (n·L); subset accuracy = rows right in every label / n;
F1 = 2·TP / (2·TP + FP + FN), averaged over labels (macro), over all cells (micro) and over rows (samples).
Ranking measures use the scores. A model with tuned thresholds is judged by its tuned decision, and its scores are
those less the thresholds. Labels that the file leaves open (empty cells, ? in ARFF) do not count.

A model made by [bold]fit --signatures[/bold] is judged by the share of rows that are given their category, over all
rows and as the mean over categories; with rows of categories that had training rows and of others, also by the harmonic
mean of the two means. Attributes are judged as labels.

Examples:

  multimargin evaluate model.mm test.arff --labels train.xml

  multimargin evaluate model.mm scene --json

  multimargin evaluate model.mm test.csv --labels sea,sun,snow --ignore id

  multimargin evaluate animals.mm photos.csv --signatures more_animals.csv
"""


def run(
    model: ModelFile,
    source: TestData,
    labels: Labels = None,
    ignore: Ignore = None,
    text: Text = None,
    signatures: Signatures = None,
    category: Category = None,
    format: Format = None,
    json: Json = False,
) -> None:
    """Run the verb."""
    from multimargin.errors import InputError

    from ._categories import category_facts, is_zero_shot, labelled_rows, read_signature_table, recognised
    from ._data import data_facts, read_for
    from ._decisions import decision_facts, decision_lines
    from ._models import not_converged, read_model
    from ._output import console, facts_table, print_json, status
    from ._predictions import judged

    estimator, notes = read_model(model, categories=True)
    how: dict[str, Any] = {"ignore": ignore or (), "text": text}
    report: Any
    if is_zero_shot(estimator):
        known = read_signature_table(signatures)
        name, data = labelled_rows(estimator, notes, source, category, labels, format, known, **how)
        with status("predicting"):
            report = recognised(estimator, data, known)
        facts = category_facts(data_facts(name, data), estimator, None if known is None else len(known))
    else:
        if category is not None or signatures is not None:
            option = "--signatures" if category is None else "--category"
            msg = f"{option} is for models that predict categories; this one predicts labels. Leave it out."
            raise InputError(msg)
        name, data, truth = read_for(estimator, notes, source, "test", labels, format, **how)
        with status("predicting"):
            report = judged(estimator, data.X, truth)
        facts = data_facts(name, data)
    facts, sentence = {**facts, "model": str(model)}, not_converged(estimator)
    decisions = decision_facts(estimator)
    if json:
        print_json({**facts, **decisions, "converged": sentence is None, "report": report.to_dict()})
        return
    screen = console()
    screen.print(facts_table(facts | decision_lines(decisions)))
    if sentence:
        screen.print(sentence, markup=False)
    screen.print()
    screen.print(str(report), markup=False)
