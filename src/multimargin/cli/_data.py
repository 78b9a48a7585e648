"""From a file or the name of a data set to X and Y."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from multimargin.errors import InputError, ModelFileError

from ._models import did_you_mean

if TYPE_CHECKING:
    from multimargin.datasets import Dataset
    from multimargin.labels import LabelMatrix

__all__ = [
    "attribute_labels",
    "check_features",
    "check_output",
    "check_text",
    "data_facts",
    "held_out_rows",
    "known_sets",
    "matched_labels",
    "read_data",
    "read_for",
    "read_split",
    "reading_notes",
    "shown_name",
    "states_labels",
    "training_data",
]

Split = Literal["train", "test"]

EMBEDDED = {
    "digit-strokes": "Strokes of handwritten digits; training on seven digits, test on 0, 3 and 5.",
    "digit-strips": "Strips of two to four handwritten digits; the labels are the digits in the strip.",
}


def read_data(
    source: str,
    split: Split,
    labels: str | None,
    file_format: str | None,
    notes: Mapping[str, Any] | None = None,
    need_labels: bool = True,
    *,
    ignore: Sequence[str] = (),
    text: str | None = None,
    missing: str | None = None,
    category: str | None = None,
) -> Dataset:
    """Read a file, or one split of a data set that has a name.

    Parameters
    ----------
    source : str
        A path or a name. A file of that name comes first, so that a data set never hides one.
    split : {"train", "test"}
        Which part of a data set.
    labels, file_format, ignore, text, missing
        The options of the command.
    notes : dict, optional
        The notes of a model file, with how its training data was read: `reading_notes`.
    need_labels : bool
        Whether a file without labels is an error.
    category : str, optional
        A column with one category per row, which becomes ``category`` of the data set.
    """
    from multimargin import datasets
    from multimargin.estimators.predictor import check_magnitude

    reading = _checked_reading(notes or {})
    columns = {"--ignore": list(ignore), "--text": text, "--category": category}
    if _is_name(source):
        _refuse_columns(columns, f"The data set {source!r} has none that could be chosen")
        return _named(source, split)
    path = Path(source)
    name = datasets.formats.format_of(path, file_format)
    known = datasets.formats.FORMATS[name].options()
    if not {"ignore", "text"} <= set(known):
        _refuse_columns(columns, f"{path.name} is a file of the format {name}")
    options = _remembered(reading, path, known)
    if labels is not None:
        options["labels"] = _label_columns(labels)
    if ignore:
        options["ignore"] = list(dict.fromkeys((*options.get("ignore", ()), *ignore)))
        options.pop("feature_names", None)
    if text is not None:
        options["text"] = text
    if category is not None:
        words = _category_column(path, name, category)
        options = {"labels": [], **options, "ignore": [*options.get("ignore", ()), category]}
        need_labels = False
    if missing not in (None, "error") and "missing" in known:
        options["missing"] = "nan"
    data = datasets.read(path, format=name, need_labels=need_labels, **options)
    if category is not None:
        data.category = words
    if data.X.ndim == 1:
        return data
    try:
        check_magnitude(_without_gaps(data.X), data.feature_names)
    except InputError as error:  # here the columns have names
        msg = f"{path.name}: {error}"
        raise InputError(msg) from None
    return data


def _category_column(path: Path, file_format: str, column: str) -> Any:
    """Return the category of every row."""
    import numpy as np

    from multimargin import datasets

    names = datasets.formats.column_names(path, file_format)
    if column not in names:
        msg = (
            f"--category must name a column of {path.name}; there is no {column!r}.{did_you_mean(column, names)} "
            f"The columns are {', '.join(map(repr, names[:5]))}{'...' if len(names) > 5 else ''}."
        )
        raise InputError(msg)
    words = datasets.read(path, format=file_format, labels=[], need_labels=False, text=column).X
    words = np.array([word.strip() for word in words])
    if "" in words:
        row = int(np.flatnonzero(words == "")[0]) + 1
        msg = (
            f"{path.name}: every row must have a category in {column!r}; row {row} has none. Fill it or remove the row."
        )
        raise InputError(msg)
    return words


def read_for(
    model: Any,
    notes: Mapping[str, Any],
    source: str,
    split: Split,
    labels: str | None,
    file_format: str | None,
    *,
    ignore: Sequence[str] = (),
    text: str | None = None,
) -> tuple[str, Dataset, LabelMatrix]:
    """Read rows with the labels of a model; return what to call them, the rows, and their labels in its order."""
    from ._output import status

    name = shown_name(source, split)
    check_text(model, notes, text)
    with status(f"reading {source}"):
        data = read_data(source, split, labels, file_format, notes, ignore=ignore, text=text)
    check_features(model, name, data)
    return name, data, matched_labels(model, name, data)


def _without_gaps(X: Any) -> Any:
    """Return X with 0 in place of cells without a value."""
    import numpy as np

    gaps = np.isnan(X.data if hasattr(X, "indptr") else X)
    if not gaps.any():
        return X
    filled = X.copy()
    (filled.data if hasattr(X, "indptr") else filled)[gaps] = 0.0
    return filled


def _remembered(reading: Mapping[str, Any], path: Path, known: Sequence[str]) -> dict[str, Any]:
    """Return how the training file was read, as far as it says how to read this one."""
    options = dict(reading.get("options", {}))
    if reading.get("kind") == _kind(path):
        return options
    named_columns = "ignore" in options and "ignore" in known
    return {key: value for key, value in options.items() if key in known} if named_columns else {}


def _refuse_columns(columns: Mapping[str, Any], why: str) -> None:
    for option, given in columns.items():
        if given:
            msg = f"{option} is for files with named columns (ARFF, CSV, Parquet, JSON). {why}."
            raise InputError(msg)


def read_split(source: str, column: str, file_format: str | None) -> Any:
    """Return which rows a column of a file says are held out."""
    import numpy as np

    words = read_data(source, "train", None, file_format, need_labels=False, text=column).X
    words = [word.strip().lower() for word in words]
    if strange := sorted({*words} - {"train", "test"}):
        msg = f"--split {column}: every row must have train or test in that column; found {strange[0]!r}."
        raise InputError(msg)
    if len({*words}) < 2:
        msg = f"--split {column}: some rows must have train in that column and some test; all have {words[0]!r}."
        raise InputError(msg)
    return np.array(words) == "test"


def held_out_rows(source: str, data: Dataset, file_format: str | None, share: float | None, column: str | None) -> Any:
    """Return which rows to hold out, or None."""
    import numpy as np

    from multimargin.model_selection import train_test_split

    if column is not None:
        return read_split(source, column, file_format)
    if share is None:
        return None
    n_rows = data.Y.shape[0]
    size: float | int = int(share) if share >= 1 and share == int(share) else share
    _, test, *_ = train_test_split(np.arange(n_rows), data.Y, test_size=size, random_state=0)
    return np.isin(np.arange(n_rows), test)


def training_data(
    source: str,
    labels: str | None,
    file_format: str | None,
    *,
    ignore: Sequence[str],
    text: str | None,
    missing: str | None,
    share: float | None,
    column: str | None,
) -> tuple[Dataset, Dataset | None]:
    """Read rows to train on, and rows that are held out, if any are to be: a share, or as a column says."""
    from multimargin.datasets import Dataset

    from ._output import status

    ignore = [*ignore, *([column] if column is not None and text is None else [])]
    with status(f"reading {source}"):
        data = read_data(source, "train", labels, file_format, ignore=ignore, text=text, missing=missing)
        test = held_out_rows(source, data, file_format, share, column)
    if test is None:
        return data, None
    train, held_out = (Dataset(**{**data, "X": data.X[rows], "Y": data.Y[rows]}) for rows in (~test, test))
    return train, held_out


def _is_name(source: str) -> bool:
    path = Path(source)
    return not (path.exists() or path.suffix or path.parent != Path())


def shown_name(source: str, split: Split) -> str:
    """Return what to call the data: the file name, or name and split of a data set."""
    return f"{source} ({split} split)" if _is_name(source) else Path(source).name


def _label_columns(text: str) -> str | int | list[str]:
    """Tell apart a file of labels, a number of columns, and names of columns."""
    if text.lower().endswith((".xml", ".xml.gz")):
        return text
    try:
        return int(text)
    except ValueError:
        return [name.strip() for name in text.split(",")]


def states_labels(source: str, file_format: str | None) -> bool:
    """Whether data may say itself which its labels are."""
    from multimargin import datasets

    return _is_name(source) or datasets.formats.format_of(source, file_format) not in ("csv", "parquet", "json")


def attribute_labels(notes: Mapping[str, Any], source: str) -> bool:
    """Whether rows can be read with labels without being told which they are."""
    options = _checked_reading(notes).get("options", {})
    return _is_name(source) or bool(options.get("labels") or options.get("label_names"))


def reading_notes(source: str, data: Dataset, category: str | None = None) -> dict[str, Any]:
    """Return notes for a model file: what reads another file of the same kind as the training file."""
    if _is_name(source):
        return {}
    kept = dict(data.options)
    if "zero_based" not in kept:  # only there must the width be known; elsewhere check_features says it better
        kept.pop("n_features", None)
    return {"reading": {"kind": _kind(Path(source)), "options": kept, "category": category}}


def _checked_reading(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the training data of a model was read; whoever made the file may have made it up."""
    reading: Any = notes.get("reading", {})
    options = reading.get("options", {}) if isinstance(reading, dict) else None
    if (
        not isinstance(options, dict)
        or not all(
            isinstance(item, str | int | None)
            for value in options.values()
            for item in (value if isinstance(value, tuple) else (value,))
        )
        or not isinstance(reading.get("category"), str | None)
    ):
        msg = "The notes of the model file on how its training data was read are damaged. Fit the model again."
        raise ModelFileError(msg)
    return dict(reading)


def _kind(path: Path) -> str:
    from multimargin.datasets.formats.source import unpacked_name

    return Path(unpacked_name(path.name)).suffix.lower()


def data_facts(name: str, data: Dataset) -> dict[str, Any]:
    """Return the counts a person looks at first."""
    import numpy as np

    n_rows, n_labels = data.Y.shape
    features = data.X.shape[1] if data.X.ndim == 2 else f"texts of {data.options['text']}"
    facts: dict[str, Any] = {"data": name, "rows": n_rows, "features": features, "labels": n_labels}
    cells = data.Y.data if hasattr(data.Y, "indptr") else data.Y
    facts["labels_per_row"] = round(float(np.nansum(cells)) / n_rows, 3)
    unknown = int(np.isnan(cells).sum())
    return facts | {"unknown_cells": unknown} if unknown else facts


def known_sets() -> list[dict[str, Any]]:
    """Return facts about every data set that has a name; embedded ones first."""
    from multimargin import datasets

    catalogue = [
        {
            "name": facts.name,
            "train": facts.n_train,
            "test": facts.n_test,
            "features": facts.n_features,
            "labels": facts.n_labels,
            "cardinality": facts.cardinality,
            "where": "on disk" if facts.on_disk else "OpenML" if facts.on_openml else "not here",
            "files": list(facts.files),
            "about": facts.about,
        }
        for facts in datasets.available()
    ]
    return [_embedded_facts(name) for name in EMBEDDED] + catalogue


def _embedded_facts(name: str) -> dict[str, Any]:
    train, test = _named(name, "train"), _named(name, "test")
    return {
        "name": name,
        "train": train.X.shape[0],
        "test": test.X.shape[0],
        "features": train.X.shape[1],
        "labels": train.Y.shape[1],
        "cardinality": round(float(train.Y.sum() + test.Y.sum()) / (train.Y.shape[0] + test.Y.shape[0]), 3),
        "where": "embedded",
        "files": [],
        "about": EMBEDDED[name],
    }


def _named(name: str, split: Split) -> Dataset:
    import numpy as np

    from multimargin import datasets

    known = [*EMBEDDED, *(facts.name for facts in datasets.available())]
    if name not in known:
        hint = did_you_mean(name, known)
        msg = f"There is no file and no data set called {name!r}.{hint} See: multimargin datasets"
        raise InputError(msg)
    if name == "digit-strokes":
        digits = datasets.load_digit_attributes()
        rows = np.isin(digits.digit, digits.splits[0].seen if split == "train" else digits.splits[0].unseen)
        return _dataset(digits, digits.X[rows], digits.Y[rows])
    both = datasets.load_digit_strips() if name == "digit-strips" else datasets.load(name)
    return _dataset(both, both[f"X_{split}"], both[f"Y_{split}"])


def _dataset(whole: Any, X: Any, Y: Any) -> Dataset:
    from multimargin.datasets import Dataset

    return Dataset(
        X=X,
        Y=Y,
        label_names=whole.label_names,
        feature_names=whole.feature_names,
        description=whole.description,
    )


def check_output(path: Path | None) -> None:
    """Refuse a path that cannot be written before any work is done."""
    if path is None:
        return
    if path.is_dir():
        msg = f"Cannot write {path}: it is a directory. Give the name of a file."
        raise InputError(msg)
    folder = path.absolute().parent
    if not folder.is_dir():
        msg = f"Cannot write {path}: the folder {path.parent} does not exist. Create it first."
        raise InputError(msg)
    if not os.access(folder, os.W_OK):
        msg = f"Cannot write {path}: the folder {folder} is not writable. Choose another place."
        raise InputError(msg)


def check_text(model: Any, notes: Mapping[str, Any], text: str | None) -> None:
    """Refuse a model of texts without a column of them, and a model of numbers with one, before a file is read."""
    takes_texts = not hasattr(model, "n_features_in_")
    known = text is not None or "text" in _checked_reading(notes).get("options", {})
    if takes_texts and not known:
        msg = "The model takes texts, and its file does not say of which column. Name it with --text COLUMN."
        raise InputError(msg)
    if text is not None and not takes_texts:
        msg = f"--text {text} is for a model of texts; this one takes {model.n_features_in_} features. Leave it out."
        raise InputError(msg)


def check_features(model: Any, name: str, data: Dataset) -> None:
    """Refuse data whose number of features is not the model's."""
    if data.X.ndim == 1:
        return
    if not hasattr(model, "n_features_in_"):
        msg = f"{name} is a table of numbers, but the model takes texts. Name their column with --text COLUMN."
        raise InputError(msg)
    if data.X.shape[1] != model.n_features_in_:
        msg = (
            f"{name} has {data.X.shape[1]} features, but the model needs {model.n_features_in_}. "
            f"Give data made in the same way; --labels and --ignore say which columns are no features."
        )
        raise InputError(msg)


def matched_labels(model: Any, name: str, data: Dataset) -> LabelMatrix:
    """Return the labels of the data in the order of the model's."""
    from multimargin.fitted_rules import last_step
    from multimargin.labels import read_labels

    expected = [str(label) for label in last_step(model).label_names_]
    position = {str(label): j for j, label in enumerate(data.label_names)}
    if len(position) != len(expected):
        msg = f"{name} has {len(position)} labels, but the model knows {len(expected)}."
        raise InputError(msg)
    unknown = sorted(set(position) - set(expected))
    if unknown:
        msg = f"{name} has the label {unknown[0]!r}, which the model does not know. Give the same labels."
        raise InputError(msg)
    return read_labels(data.Y[:, [position[label] for label in expected]], names=expected)
