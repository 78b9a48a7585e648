"""``multimargin tune``: choose everything for a metric, train, and keep the model in a file."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated, Any

import typer

from ._options import (
    AllowUnconverged,
    Format,
    Ignore,
    Json,
    Labels,
    Missing,
    ModelOut,
    Parameter,
    Prior,
    Scale,
    Split,
    TestSize,
    Text,
)

__all__ = ["HELP", "run"]

HELP = """
Choose C, probabilities and the decision for a metric, all on rows that were held out, and keep the model in a file.

Every model of the path minimises [bold]1/2 |w|² + C · (sum of losses)[/bold]; features are scaled first. On each fold
the models go from the smallest C to the largest; for each C the decision is tuned on all folds but one and judged on
that one. What is best is trained on all rows. The printed score to expect is that of folds decided by what is best on
the others, the choice of C included.

Without [bold]--model[/bold] a linear model is tried and, up to 6,000 rows, one with an RBF kernel. With it, that model
alone is tried, on features as they are unless [bold]--scale[/bold] is given.

Examples:

  multimargin tune train.arff --labels train.xml --metric example-f1 --out model.mm

  multimargin tune train.csv --labels sea,sun,snow --metric macro-f1 --time-limit 60 --out model.mm

  multimargin tune scene --model linear-m3l --C 0.1,1,10 --prior labels --json

  multimargin tune reviews.csv --text review --labels food,service --metric micro-f1 --out model.mm
"""

Source = Annotated[
    str, typer.Argument(help="A data file, or the name of a data set (its train split).", metavar="DATA")
]
Metric = Annotated[
    str,
    typer.Option(
        "--metric",
        help="By what predictions will be judged: macro-f1, micro-f1, weighted-f1, example-f1, micro+macro-f1, "
        "subset-accuracy, hamming-loss, macro-fbeta=2 (likewise the others), cost=1,5 (of a false positive and of a "
        "miss), precision-at-recall=0.9 or recall-at-precision=0.9.",
        metavar="METRIC",
    ),
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="Tune this model alone; fit --list-models shows all.", metavar="NAME"),
]
Cs = Annotated[
    str | None,
    typer.Option(
        "--C",
        help="The values of C to try, or how many. By default 9 from 0.01 to 100, divided by the mean squared length "
        "of a row.",
        metavar="VALUES|COUNT",
    ),
]
Folds = Annotated[int, typer.Option("--folds", help="Parts that are held out in turn.", min=2, metavar="K")]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", help="Seconds for everything.", min=0.001, metavar="SECONDS")
]
Jobs = Annotated[int, typer.Option("--jobs", help="Threads, a fold each; -1 for all cores.", metavar="N")]


def run(
    source: Source,
    labels: Labels = None,
    ignore: Ignore = None,
    text: Text = None,
    missing: Missing = None,
    scale: Scale = False,
    test_size: TestSize = None,
    split: Split = None,
    metric: Metric = "example-f1",
    model: Model = None,
    parameter: Parameter = None,
    prior: Prior = None,
    c_values: Cs = None,
    folds: Folds = 5,
    time_limit: TimeLimit = None,
    jobs: Jobs = -1,
    out: ModelOut = None,
    format: Format = None,
    allow_unconverged: AllowUnconverged = False,
    json: Json = False,
) -> None:
    """Run the verb."""
    import sys

    from multimargin.labels import read_labels
    from multimargin.persistence import save

    from ._data import check_output, data_facts, reading_notes, shown_name, training_data
    from ._models import not_converged
    from ._output import path_progress
    from ._predictions import report_on
    from ._preparation import check_held_out, check_missing

    tuned = _tuner(metric, model, parameter or [], prior, c_values)
    tuned.set_params(cv=folds, time_limit=time_limit, n_jobs=jobs, random_state=0)
    check_missing(missing)
    check_held_out(test_size, split)
    check_output(out)
    data, test = training_data(
        source, labels, format, ignore=ignore or [], text=text, missing=missing, share=test_size, column=split
    )
    whole = _prepared(tuned, data.X, scale, missing)
    start = time.perf_counter()
    with path_progress(f"tuning for {metric}") as callback:
        tuned.set_params(callback=callback)
        whole.fit(data.X, read_labels(data.Y, names=data.label_names))
    tuned.set_params(callback=None)
    seconds = time.perf_counter() - start
    if out is not None:
        save(whole, out, notes=reading_notes(source, data))
    report = None if test is None else report_on(whole, test)
    _show(tuned, data_facts(shown_name(source, "train"), data), seconds, report, out, json)
    if sentence := not_converged(tuned):
        kept = "" if out is None else f" {out} was written all the same."
        sys.stderr.write(f"multimargin: {sentence}{kept}\n")
        raise typer.Exit(0 if allow_unconverged else 1)


def _tuner(metric: str, model: str | None, settings: list[str], prior: str | None, c_values: str | None) -> Any:
    """Make what is to be fitted, refusing what is wrong before any work is done."""
    from multimargin.decisions import CPath, TunedM3L
    from multimargin.decisions._path import owner_of_C
    from multimargin.errors import InputError

    from ._decisions import read_metric
    from ._models import make_model, read_prior

    options = read_metric("--metric", metric)
    if c_values is not None:
        options["Cs"] = _values_of_C(c_values)
    if model is None:
        if settings:
            msg = f"-p {settings[0]} belongs to a model that is named. Give --model, too, such as --model linear-m3l."
            raise InputError(msg)
        options["metric"] = options.pop("scoring")
        return TunedM3L(prior=None if prior is None else read_prior(prior), **options)
    estimator = make_model(model, settings)
    owner_of_C(estimator)
    if prior is not None:
        estimator.set_params(prior=read_prior(prior))
    if estimator.get_params(deep=False).get("random_state", 0) is None:  # the same command gives the same model
        estimator.set_params(random_state=0)
    return CPath(estimator, **options)


def _prepared(tuned: Any, X: Any, scale: bool, missing: str | None) -> Any:
    """Put what prepares the features inside the path, where each fold learns it from its own rows.

    A tuner that makes its own models, and scales for them, has it before it: words and means are learned from all rows
    then, labels never.
    """
    from multimargin.decisions import TunedM3L

    from ._preparation import prepared

    if isinstance(tuned, TunedM3L):
        return prepared(tuned, X, False, missing)
    return tuned.set_params(estimator=prepared(tuned.estimator, X, scale, missing))


def _values_of_C(text: str) -> Any:
    from multimargin.decisions._path import grid
    from multimargin.errors import InputError

    try:
        values: Any = int(text) if text.strip().isdigit() else [float(part) for part in text.split(",")]
        grid(values)
    except ValueError:
        msg = f"--C takes positive numbers separated by commas, or how many to try; got {text!r}. Example: --C 0.1,1,10"
        raise InputError(msg) from None
    return values


def _show(tuned: Any, facts: dict[str, Any], seconds: float, report: Any, out: Any, json: bool) -> None:
    from ._decisions import decision_facts, decision_lines, trained
    from ._models import certificate_lines
    from ._output import console, facts_table, held_out_facts, print_json, table

    estimator = trained(tuned)
    paths = getattr(tuned, "paths_", None) or {type(estimator).__name__: tuned.path_}
    decisions, found = decision_facts(tuned), getattr(estimator, "certificate_", None)
    certificate = None if found is None else dataclasses.asdict(found)
    chosen = {"model": type(estimator).__name__, "C": tuned.C_}
    if json:
        result = {**facts, **chosen, "paths": {name: vars(path) for name, path in paths.items()}, **decisions}
        result |= held_out_facts(report)
        converged = None if found is None else found.converged
        written = None if out is None else str(out)
        print_json({**result, "converged": converged, "certificate": certificate, "seconds": seconds, "out": written})
        return
    screen = console()
    screen.print(facts_table(facts))
    screen.print()
    for name, path in paths.items():
        rows = [
            (f"{c:.4g}", f"{score:.4f}", f"{error:.4f}", f"{time:.2f}", "chosen" * _is_chosen(tuned, name, c))
            for c, score, error, time in zip(path.C, path.score, path.std_error, path.seconds, strict=True)
        ]
        screen.print(table(("C", tuned.decision_.scoring, "±", "seconds", ""), rows, title=name))
    lines = {"model": f"{chosen['model']}, C = {tuned.C_:.4g}", **decision_lines(decisions)}
    lines |= certificate_lines(certificate, getattr(estimator, "n_iter_", None))
    screen.print(facts_table({**lines, "seconds": f"{seconds:.2f}"}))
    screen.print()
    if report is not None:
        screen.print(f"On the {report.n_samples} rows held out:\n\n{report}\n", markup=False)
    screen.print(f"model file: {out}" if out else "The model was not kept; give --out FILE to keep it.")


def _is_chosen(tuned: Any, name: str, C: float) -> bool:
    return bool(tuned.C_ == C and getattr(tuned, "model_", name) == name)
