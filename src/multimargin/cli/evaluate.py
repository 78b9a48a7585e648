"""``multimargin evaluate``: how good the predictions of a model are."""

from __future__ import annotations

from ._options import Format, Ignore, Json, Labels, ModelFile, TestData, Text

__all__ = ["HELP", "run"]

HELP = """
Compare the predictions of a model with the true labels of a file.

With n rows and L labels: Hamming loss = wrong cells / (n·L); subset accuracy = rows right in every label / n;
F1 = 2·TP / (2·TP + FP + FN), averaged over labels (macro), over all cells (micro) and over rows (samples).
Ranking measures use the scores. A model with tuned thresholds is judged by its tuned decision, and its scores are
those less the thresholds. Labels that the file leaves open (empty cells, ? in ARFF) do not count.

Examples:

  multimargin evaluate model.mm test.arff --labels train.xml

  multimargin evaluate model.mm scene --json

  multimargin evaluate model.mm test.csv --labels sea,sun,snow --ignore id
"""


def run(
    model: ModelFile,
    source: TestData,
    labels: Labels = None,
    ignore: Ignore = None,
    text: Text = None,
    format: Format = None,
    json: Json = False,
) -> None:
    """Run the verb."""
    from ._data import data_facts, read_for
    from ._decisions import decision_facts, decision_lines
    from ._models import not_converged, read_model
    from ._output import console, facts_table, print_json, status
    from ._predictions import judged

    estimator, notes = read_model(model)
    name, data, truth = read_for(estimator, notes, source, "test", labels, format, ignore=ignore or (), text=text)
    with status("predicting"):
        report = judged(estimator, data.X, truth)
    facts, sentence = {**data_facts(name, data), "model": str(model)}, not_converged(estimator)
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
