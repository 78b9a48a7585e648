"""Zero-shot models in the command: rows and their categories, signatures, and how well categories are recognised."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from multimargin import ZeroShotClassifier, metrics
from multimargin.datasets import Dataset
from multimargin.errors import InputError
from multimargin.fitted_rules import last_step
from multimargin.labels import read_labels
from multimargin.metrics import Report

from ._data import attribute_labels, check_features, check_text, read_data, read_split, shown_name, states_labels
from ._models import did_you_mean, parse_parameters
from ._predictions import behind_steps

__all__ = [
    "Recognition",
    "category_facts",
    "check_zero_shot_options",
    "divided",
    "is_zero_shot",
    "labelled_rows",
    "read_signature_table",
    "recognised",
    "training_rows",
]

Signatures = dict[str, dict[str, int]]

OWN = ("probabilities", "rule", "candidates", "use_prior", "use_frequencies")
"""Parameters of the classifier that ``-p`` sets."""


@dataclass(frozen=True)
class CategoryScore:
    """One category: its rows, the share of them that were recognised, and whether it had training rows."""

    rows: int
    accuracy: float
    seen: bool


@dataclass(frozen=True)
class Recognition:
    """How well categories were recognised, and their attributes.

    Attributes
    ----------
    n_samples : int
    accuracy : float
        Share of the rows that were given their category.
    per_category_accuracy : float
        The mean over categories of that share.
    harmonic_mean_accuracy : float or None
        Of that mean over seen and over unseen categories, if there are rows of both.
    categories : dict of CategoryScore
    attributes : Report
    """

    n_samples: int
    accuracy: float
    per_category_accuracy: float
    harmonic_mean_accuracy: float | None
    categories: dict[str, CategoryScore]
    attributes: Report

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "accuracy": self.accuracy,
            "per_category_accuracy": self.per_category_accuracy,
            "harmonic_mean_accuracy": self.harmonic_mean_accuracy,
            "categories": {name: asdict(score) for name, score in self.categories.items()},
            "attributes": self.attributes.to_dict(),
        }

    def __str__(self) -> str:
        width = max(map(len, (*self.categories, "harmonic mean of seen and unseen")))
        lines = [f"{'category':<{width}}     rows  recognised"]
        for name, score in self.categories.items():
            lines.append(f"{name:<{width}} {score.rows:8d} {score.accuracy:11.4f}{'  seen' if score.seen else ''}")
        lines += ["", f"{'all rows':<{width}} {self.n_samples:8d} {self.accuracy:11.4f}"]
        lines.append(f"{'mean over categories':<{width}} {'':8} {self.per_category_accuracy:11.4f}")
        if self.harmonic_mean_accuracy is not None:
            harmonic = self.harmonic_mean_accuracy
            lines.append(f"{'harmonic mean of seen and unseen':<{width}} {'':8} {harmonic:11.4f}")
        return "\n".join([*lines, "", "Attributes:", "", str(self.attributes)])


def is_zero_shot(model: Any) -> bool:
    """Whether a model predicts categories by their attributes."""
    return isinstance(last_step(model), ZeroShotClassifier)


def divided(settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Take the parameters of the zero-shot classifier out of settings; the others are its attribute model's."""
    own = [setting for setting in settings if setting.partition("=")[0].strip() in OWN]
    return parse_parameters(ZeroShotClassifier, own), [setting for setting in settings if setting not in own]


def check_zero_shot_options(own: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse options of label models before any work is done."""
    for option in ("--thresholds", "--calibrate"):
        if options[option] is not None:
            msg = (
                f"{option} is for models that predict labels; with --signatures categories are predicted. Leave it out."
            )
            raise InputError(msg)
    if options["--prior"] is not None and own.get("use_prior", True):
        msg = "The prior comes from --signatures. Leave --prior out, or give -p use_prior=false."
        raise InputError(msg)
    if options["--category"] is not None and options["--labels"] is not None:
        msg = (
            "Rows are described by their category or by attributes of their own: give --category or --labels, not "
            "both. Columns that are neither, nor features, are left out with --ignore."
        )
        raise InputError(msg)


def read_signature_table(path: Path | None) -> Signatures | None:
    """Read the signatures of a file, if there is one."""
    from multimargin.datasets import read_signatures

    return None if path is None else read_signatures(path)


def check_signatures(path: Path, signatures: Signatures) -> None:
    """Refuse attributes that tell no categories apart; say which categories have the same ones."""
    rows = {name: tuple(row.values()) for name, row in signatures.items()}
    if len(rows) < 2:
        msg = f"{path}: at least two categories must have signatures; found {len(rows)}. Add a row for each other one."
        raise InputError(msg)
    for attribute, column in zip(next(iter(signatures.values())), zip(*rows.values(), strict=True), strict=True):
        if len({*column}) == 1:
            msg = (
                f"{path}: every attribute must be 1 for some categories and 0 for others; {attribute!r} is "
                f"{column[0]} for all {len(rows)}. Remove the column."
            )
            raise InputError(msg)
    first: dict[tuple[int, ...], str] = {}
    for name, row in rows.items():
        if first.setdefault(row, name) != name:
            msg = f"{path}: {first[row]!r} and {name!r} have the same attributes, so {name!r} is never predicted."
            warnings.warn(msg, stacklevel=2)
            return


def training_rows(
    source: str,
    path: Path,
    signatures: Signatures,
    *,
    category: str | None,
    labels: str | None,
    file_format: str | None,
    ignore: Sequence[str],
    text: str | None,
    missing: str | None,
    share: float | None,
    column: str | None,
) -> tuple[Dataset, Dataset | None]:
    """Read rows to train on, and rows that are held out: those a column names, or all rows of some categories."""
    check_signatures(path, signatures)
    name = shown_name(source, "train")
    if category is None and labels is None and not states_labels(source, file_format):
        msg = (
            f"{name} does not say what its rows are. Name the column with the category of each row with --category "
            f"COLUMN, or the columns with its attributes with --labels."
        )
        raise InputError(msg)
    ignore = [*ignore, *([column] if column is not None and text is None else [])]
    data = read_data(source, "train", labels, file_format, ignore=ignore, text=text, missing=missing, category=category)
    _describe(data, name, signatures, str(path))
    test = None
    if column is not None:
        test = read_split(source, column, file_format)
    elif share is not None:
        test = _some_categories(data, share)
    if test is None:
        return data, None
    train, held_out = (_part(data, rows) for rows in (~test, test))
    return train, held_out


def _part(data: Dataset, rows: NDArray[np.bool_]) -> Dataset:
    split = {key: data[key][rows] for key in ("X", "Y", "category") if key in data}
    return Dataset(**{**data, **split})


def _some_categories(data: Dataset, share: float) -> NDArray[np.bool_]:
    """Return which rows belong to categories drawn at random: a share of them, or so many."""
    if "category" not in data:
        msg = "--test-size holds out whole categories, which need --category COLUMN. Hold rows out with --split COLUMN."
        raise InputError(msg)
    names = np.unique(data.category)
    count = int(share) if share >= 1 else max(1, round(share * len(names)))
    if count >= len(names):
        msg = f"--test-size must leave categories to train on; it takes {count} of {len(names)}. Give a smaller one."
        raise InputError(msg)
    return np.isin(data.category, np.random.default_rng(0).choice(names, count, replace=False))


def _describe(data: Dataset, name: str, signatures: Mapping[str, Mapping[str, int]], where: str) -> None:
    """Give rows with categories the attributes of these, and refuse labels that are no attributes."""
    attributes = list(next(iter(signatures.values())))
    if "category" in data and not data.Y.shape[1]:
        known, count = np.unique(data.category, return_counts=True)
        strange = [str(category) for category in known if category not in signatures]
        if strange:
            rows = count[known == strange[0]][0]
            msg = (
                f"{name} has the category {strange[0]!r} in {rows} rows, which has no signature in {where}."
                f"{did_you_mean(strange[0], signatures)} Add a row for it there, or remove its rows."
            )
            raise InputError(msg)
        table = np.array([list(signatures[category].values()) for category in data.category.tolist()])
        data.update(Y=sparse.csr_matrix(table), label_names=tuple(attributes))
        return
    strange = sorted({*data.label_names} ^ {*attributes})
    if strange:
        lack = name if strange[0] in attributes else where
        msg = (
            f"The labels of the rows must be the attributes of the signatures; {strange[0]!r} is not in {lack}. Name "
            f"the column with the category of each row with --category COLUMN, or the attributes with --labels."
        )
        raise InputError(msg)


def labelled_rows(
    model: Any,
    notes: Mapping[str, Any],
    source: str,
    category: str | None,
    labels: str | None,
    file_format: str | None,
    signatures: Signatures | None,
    *,
    ignore: Sequence[str],
    text: str | None,
) -> tuple[str, Dataset]:
    """Read rows whose categories, or attributes, are known; return what to call them, and the rows."""
    last = last_step(model)
    name = shown_name(source, "test")
    check_text(model, notes, text)
    column = category or (None if labels is not None else notes.get("reading", {}).get("category"))
    if column is None and labels is None and not attribute_labels(notes, source):
        msg = (
            f"The model file does not say which column of {name} holds the categories. Name it with --category COLUMN, "
            f"or the attributes with --labels."
        )
        raise InputError(msg)
    data = read_data(source, "test", labels, file_format, notes, ignore=ignore, text=text, category=column)
    check_features(model, name, data)
    if "category" in data:
        _check_candidates(last, name, data, signatures)
    targets = signatures or _signatures_of(last)
    _describe(data, name, targets, "the model")
    return name, data


def _signatures_of(model: Any) -> Signatures:
    names = [str(name) for name in model.attribute_names_]
    return {
        str(category): dict(zip(names, row, strict=True))
        for category, row in zip(model.classes_.tolist(), model.signatures_.tolist(), strict=True)
    }


def _check_candidates(model: Any, name: str, data: Dataset, signatures: Signatures | None) -> None:
    """Refuse rows of categories that the model cannot predict."""
    candidates = {str(category) for category in model.classes_.tolist()} if signatures is None else {*signatures}
    strange = sorted({*data.category.tolist()} - candidates)
    if not strange:
        return
    seen = {str(category) for category in model.seen_categories_.tolist()}
    if strange[0] in seen and signatures is None:
        remedy = "had training rows. Fit with -p candidates=all to predict such ones, too, or remove their rows"
    else:
        remedy = f"has no signature.{did_you_mean(strange[0], candidates)} Give its signature with --signatures FILE"
    msg = f"{name} has the category {strange[0]!r}, which the model cannot predict: it {remedy}."
    raise InputError(msg)


def recognised(model: Any, data: Dataset, signatures: Signatures | None = None) -> Recognition | Report:
    """Compare predicted categories and attributes with those of the rows; attributes alone if they are all there is."""
    last, X = behind_steps(model, data.X)
    scores = last.attribute_scores(X)
    position = {str(label): j for j, label in enumerate(data.label_names)}
    names = [str(name) for name in last.attribute_names_]
    truth = read_labels(data.Y[:, [position[name] for name in names]], names=names)
    attributes = metrics.report(truth, sparse.csr_array(scores > 0), scores=scores)
    if "category" not in data:
        return attributes
    predicted = np.array([str(category) for category in last.predict(X, signatures)])
    right, seen = predicted == data.category, {str(category) for category in last.seen_categories_.tolist()}
    scored = {
        str(name): CategoryScore(int(rows.sum()), float(right[rows].mean()), str(name) in seen)
        for name in np.unique(data.category)
        for rows in (data.category == name,)
    }
    both = len({score.seen for score in scored.values()}) == 2
    return Recognition(
        len(predicted),
        float(right.mean()),
        metrics.per_class_accuracy(data.category, predicted),
        metrics.harmonic_mean_accuracy(data.category, predicted, sorted(seen)) if both else None,
        scored,
        attributes,
    )


def category_facts(facts: Mapping[str, Any], model: Any, n_candidates: int | None = None) -> dict[str, Any]:
    """Return facts of rows in words of a zero-shot model: labels are attributes, and there are categories."""
    words = {"labels": "attributes", "labels_per_row": "attributes_per_row"}
    last = last_step(model)
    return {words.get(key, key): value for key, value in facts.items()} | {
        "seen_categories": len(last.seen_categories_),
        "candidates": len(last.classes_) if n_candidates is None else n_candidates,
        "rule": last.rule,
    }
