"""``multimargin fit``: train a model and keep it in a file."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import (
    AllowUnconverged,
    Category,
    Format,
    Ignore,
    Json,
    Labels,
    Missing,
    ModelOut,
    Parameter,
    Prior,
    Scale,
    Signatures,
    Split,
    TestSize,
    Text,
)

__all__ = ["HELP", "run"]

HELP = """
Train a model, print the certificate of its optimum, and keep it in a file.

A model minimises [bold]P(w) = 1/2 |w|² + C · (sum of losses)[/bold]. Training stops when the relative duality
gap [bold](P - D) / P[/bold] is at most [bold]tol[/bold]. The dual value D is a proved lower bound: no weights
give a smaller objective. A model whose gap is still larger when training ends, as at [bold]max_iter[/bold], is
written too, but the exit code is 1. By default [bold]C=scale[/bold], which is 1 / mean |x|² over the training rows,
of a kernel 1 / mean K(x, x); the table says the number.

[bold]--thresholds[/bold] predicts label l where its score is above t_l, with the t that are best for a metric,
[bold]max metric(Y, s > t)[/bold], on the scores of five folds that the model did not train on; the printed nested
score, where each fold is decided by the others, is what to expect of new rows. [bold]--calibrate[/bold] fits
probabilities [bold]p = 1 / (1 + exp(-(a·s + b)))[/bold] likewise. Each of the two trains the model six times, both
together 36 times; a prior from [bold]--prior labels[/bold] is made anew from the rows of each fold.

[bold]--scale[/bold], [bold]--missing[/bold] and [bold]--text[/bold] become steps of the model: they are learned from
its training rows, in every fold anew, and kept in its file. Labels that the file leaves open (empty cells, ? in ARFF)
are left out of the loss.

[bold]--signatures[/bold] trains a model that recognises categories, also ones without a training row: attributes are
learned, and a row is given the category whose attributes fit its scores best, by the largest correlation
([bold]-p rule=correlation[/bold]), the fewest differences ([bold]hamming[/bold]) or the largest probability
([bold]dap[/bold]). Rows have a category ([bold]--category COLUMN[/bold]), and with it the attributes of its signature,
or attributes of their own ([bold]--labels[/bold]). Categories without training rows can be predicted, or with
[bold]-p candidates=all[/bold] every one; their signatures enter training as prior and class weights
([bold]-p use_prior=false[/bold], [bold]-p use_frequencies=false[/bold]). [bold]--test-size[/bold] holds out whole
categories.

Examples:

  multimargin fit train.arff --labels train.xml --out model.mm

  multimargin fit patients.csv --labels -3 --ignore id --missing median --scale --test-size 0.2 --out model.mm

  multimargin fit reviews.csv --text review --labels food,service --split part --out model.mm

  multimargin fit train.csv --labels sea,sun,snow -p C=10 -p tol=1e-4 --out model.mm

  multimargin fit scene --prior labels --json

  multimargin fit train.csv --labels sea,sun,snow --thresholds macro-f1 --out model.mm

  multimargin fit train.csv --labels sea,sun,snow --calibrate sigmoid --out model.mm

  multimargin fit animals.csv --category animal --signatures signatures.csv --scale --out model.mm
"""

Source = Annotated[
    str | None,
    typer.Argument(help="A data file, or the name of a data set (its train split).", metavar="DATA"),
]
Model = Annotated[str, typer.Option("--model", help="Name of the model; --list-models shows all.", metavar="NAME")]
Tuned = Annotated[
    str | None,
    typer.Option(
        "--thresholds",
        help="Tune the decision for a metric: macro-f1, micro-f1, weighted-f1, example-f1, micro+macro-f1, "
        "subset-accuracy, hamming-loss, macro-fbeta=2 (likewise the others), cost=1,5 (of a false positive and of a "
        "miss), precision-at-recall=0.9 or recall-at-precision=0.9.",
        metavar="METRIC",
    ),
]
Calibrate = Annotated[
    str | None,
    typer.Option(
        "--calibrate",
        help="Fit probabilities, for predict --proba: a line to log-odds per label (sigmoid), steps for frequent "
        "labels (isotonic), or one slope for all labels (temperature).",
        metavar="sigmoid|isotonic|temperature",
    ),
]
ListModels = Annotated[bool, typer.Option("--list-models", help="Show the models and their parameters, and stop.")]


def run(
    source: Source = None,
    labels: Labels = None,
    ignore: Ignore = None,
    text: Text = None,
    missing: Missing = None,
    scale: Scale = False,
    test_size: TestSize = None,
    split: Split = None,
    model: Model = "linear-m3l",
    parameter: Parameter = None,
    prior: Prior = None,
    thresholds: Tuned = None,
    calibrate: Calibrate = None,
    signatures: Signatures = None,
    category: Category = None,
    out: ModelOut = None,
    format: Format = None,
    allow_unconverged: AllowUnconverged = False,
    list_models: ListModels = False,
    json: Json = False,
) -> None:
    """Run the verb."""
    import sys

    from multimargin import ZeroShotClassifier
    from multimargin.errors import InputError
    from multimargin.persistence import save

    from ._categories import category_facts, check_zero_shot_options, divided
    from ._data import check_output, data_facts, reading_notes, shown_name
    from ._decisions import check_decisions
    from ._models import make_model, not_converged
    from ._preparation import check_held_out, check_missing

    if list_models:
        _show_models(json)
        return
    if source is None:
        msg = "Missing argument DATA."
        raise typer.BadParameter(msg)
    check_decisions(thresholds, calibrate)
    check_missing(missing)
    check_held_out(test_size, split)
    own, settings = ({}, parameter or []) if signatures is None else divided(parameter or [])
    if signatures is not None:
        options = {"--thresholds": thresholds, "--calibrate": calibrate, "--prior": prior}
        check_zero_shot_options(own, {**options, "--category": category, "--labels": labels})
    elif category is not None:
        msg = (
            "--category is for models that recognise categories by attributes. Give their attributes with --signatures."
        )
        raise InputError(msg)
    estimator = make_model(model, settings)
    if out is not None and not estimator._storable:
        msg = f"A {model} model cannot be kept in a file. Leave --out out, or choose another --model."
        raise InputError(msg)
    if estimator.get_params(deep=False).get("random_state", 0) is None:  # the same command gives the same model
        estimator.set_params(random_state=0)
    check_output(out)
    how = {"ignore": ignore or [], "text": text, "missing": missing, "share": test_size, "column": split}
    data, test, known = _rows(source, labels, format, signatures, category, how)
    whole = _whole(estimator, data.X, prior, scale, missing, thresholds, calibrate)
    if known is not None:
        whole = ZeroShotClassifier(whole, known, **own)
    seconds = _train(estimator, whole, data, f"fitting {model}")
    if out is not None:
        save(whole, out, notes=reading_notes(source, data, category))
    facts = data_facts(shown_name(source, "train"), data)
    facts = facts if known is None else category_facts(facts, whole)
    _show_result(whole, model, facts, seconds, _held_out_report(whole, test), out, json)
    if sentence := not_converged(whole):
        kept = "" if out is None else f" {out} was written all the same."
        sys.stderr.write(f"multimargin: {sentence}{kept}\n")
        raise typer.Exit(0 if allow_unconverged else 1)


def _rows(
    source: str, labels: str | None, file_format: str | None, path: Path | None, category: str | None, how: Any
) -> tuple[Any, Any, Any]:
    """Return rows to train on, rows held out or None, and the signatures of categories or None."""
    from ._categories import read_signature_table, training_rows
    from ._data import training_data
    from ._output import status

    if path is None:
        return *training_data(source, labels, file_format, **how), None
    with status(f"reading {source}"):
        known = read_signature_table(path) or {}
        rows = training_rows(source, path, known, category=category, labels=labels, file_format=file_format, **how)
    return *rows, known


def _held_out_report(whole: Any, test: Any) -> Any:
    from ._categories import is_zero_shot, recognised
    from ._predictions import report_on

    if test is None:
        return None
    return recognised(whole, test) if is_zero_shot(whole) else report_on(whole, test)


def _whole(
    estimator: Any,
    X: Any,
    prior: str | None,
    scale: bool,
    missing: str | None,
    thresholds: str | None,
    calibrate: str | None,
) -> Any:
    """Return the estimator with what goes before it and after it."""
    from ._decisions import wrapped
    from ._models import read_prior
    from ._preparation import prepared

    if prior is not None:
        estimator.set_params(prior=read_prior(prior))
    return wrapped(prepared(estimator, X, scale, missing), thresholds, calibrate)


def _train(estimator: Any, whole: Any, data: Any, what: str) -> float:
    """Train an estimator, or the whole that it is part of; return the seconds it took."""
    from multimargin.labels import read_labels

    from ._output import fit_progress

    Y = data.category if "category" in data else read_labels(data.Y, names=data.label_names)
    start = time.perf_counter()
    with fit_progress(what, estimator.get_params().get("tol", 1e-3)) as callback:
        _fit(estimator, whole, data.X, Y, callback)
    return time.perf_counter() - start


def _fit(estimator: Any, whole: Any, X: Any, Y: Any, callback: Any) -> None:
    """Fit without keeping the progress bar in the model."""
    from ._decisions import trained

    if "callback" in estimator.get_params():
        estimator.set_params(callback=callback)
    whole.fit(X, Y)
    for model in (estimator, trained(whole)):
        if "callback" in model.get_params():
            model.set_params(callback=None)


def _show_result(
    whole: Any, name: str, facts: dict[str, Any], seconds: float, report: Any, out: Path | None, json: bool
) -> None:
    from multimargin.fitted_rules import last_step

    from ._categories import OWN, is_zero_shot
    from ._decisions import decision_facts, decision_lines, trained
    from ._models import certificate_lines
    from ._output import console, facts_table, held_out_facts, print_json
    from ._preparation import preparation_lines

    estimator, decisions = trained(whole), decision_facts(whole)
    found = getattr(estimator, "certificate_", None)  # a baseline may have none
    certificate = None if found is None else dataclasses.asdict(found)
    passes = getattr(estimator, "n_iter_", None)
    result = {
        "model": name,
        **facts,
        "converged": None if found is None else found.converged,
        "certificate": certificate,
        "C": getattr(estimator, "C_", None),
        "passes": passes,
        "seconds": round(seconds, 3),
        "out": None if out is None else str(out),
    }
    if json:
        parameters = {key: value for key, value in estimator.get_params().items() if key not in ("prior", "callback")}
        if is_zero_shot(whole):
            parameters |= {key: getattr(last_step(whole), key) for key in OWN}
        print_json({**result, **decisions, **held_out_facts(report), "parameters": parameters})
        return
    screen = console()
    screen.print(facts_table({**facts, **preparation_lines(whole), "model": f"{name}, {_settings(estimator)}"}))
    screen.print()
    lines = {**certificate_lines(certificate, passes), **decision_lines(decisions)}
    screen.print(facts_table({**lines, "seconds": f"{seconds:.2f}"}))
    screen.print()
    if report is not None:
        screen.print(f"On the {report.n_samples} rows held out:\n\n{report}\n", markup=False)
    screen.print(f"model file: {out}" if out else "The model was not kept; give --out FILE to keep it.")


def _settings(estimator: Any) -> str:
    import inspect

    defaults = inspect.signature(type(estimator)).parameters
    changed = [
        f"{key}={value if isinstance(value, str | int | float) else type(value).__name__}"
        for key, value in estimator.get_params(deep=False).items()
        if key == "C" or repr(value) != repr(defaults[key].default)
    ]
    if hasattr(estimator, "C_"):
        changed = [f"{word} ({estimator.C_:.4g})" if word == "C=scale" else word for word in changed]
    return " ".join(changed)


def _show_models(json: bool) -> None:
    from ._models import model_summaries
    from ._output import console, print_json

    summaries = model_summaries()
    if json:
        print_json(summaries)
        return
    screen = console()
    for entry in summaries:
        screen.print(f"[bold]{entry['name']}[/bold]  {entry['summary']}")
        for key, default in entry["parameters"].items():
            screen.print(f"    -p {key}={default}", markup=False)
