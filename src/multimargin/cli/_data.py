"""From a file or the name of a data set to X and Y."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from multimargin.errors import FileFormatError, InputError, ModelFileError

from ._models import did_you_mean

if TYPE_CHECKING:
    from multimargin.labels import LabelMatrix

__all__ = ["Data", "check_features", "check_output", "known_sets", "matched_labels", "read_data"]

Split = Literal["train", "test"]


@dataclass(frozen=True)
class Data:
    """What a verb works on.

    Attributes
    ----------
    name : str
        File name, or name and split of a data set.
    X : ndarray or CSR of shape (n_samples, n_features)
    Y : array or CSR of shape (n_samples, n_labels), or None
        None if the file holds no labels.
    label_names : list of str
    reading : dict
        What reads another file in the same way; kept beside a model.
    """

    name: str
    X: Any
    Y: Any
    label_names: list[str]
    reading: dict[str, Any] = field(default_factory=dict)

    def labels(self) -> LabelMatrix:
        """Return Y with the names of its labels."""
        from multimargin.labels import read_labels

        return read_labels(self.Y, names=self.label_names)

    def facts(self) -> dict[str, Any]:
        """Return the counts a person looks at first."""
        facts: dict[str, Any] = {"data": self.name, "rows": self.X.shape[0], "features": self.X.shape[1]}
        if self.Y is not None:
            facts["labels"] = self.Y.shape[1]
            facts["labels_per_row"] = round(float(self.Y.sum()) / self.Y.shape[0], 3)
        return facts


def read_data(
    source: str,
    labels: str | None,
    file_format: str | None,
    split: Split,
    reading: Mapping[str, Any] | None = None,
    need_labels: bool = True,
) -> Data:
    """Read a file, or one split of a data set that has a name.

    Parameters
    ----------
    source : str
        A path or a name. A file of that name comes first, so that a data set never hides one.
    labels, file_format : str or None
        The options of the command.
    split : {"train", "test"}
        Which part of a data set.
    reading : dict, optional
        How the training data of a model was read: `Data.reading`.
    need_labels : bool
        Whether a file without labels is an error.
    """
    reading = _checked_reading({} if reading is None else reading)
    path = Path(source)
    if not (path.exists() or path.suffix or path.parent != Path()):
        return _named(source, split)
    options = _reading_options(path, reading)
    if labels is not None:
        options["labels"] = _label_columns(labels)
    if need_labels:
        return _read_file(path, file_format, options)
    return _read_with_or_without_labels(path, file_format, options, reading)


def _label_columns(text: str) -> str | int | list[str]:
    """Tell apart a file of labels, a number of columns, and names of columns."""
    if text.lower().endswith((".xml", ".xml.gz")):
        return text
    try:
        return int(text)
    except ValueError:
        return [name.strip() for name in text.split(",")]


def _reading_options(path: Path, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the training file if they apply to this one: if both are of the same kind."""
    return dict(reading["options"]) if reading.get("kind") == _kind(path) else {}


def _checked_reading(reading: Any) -> Mapping[str, Any]:
    """Return the notes of a model file on how its data was read; whoever made the file may have made them up."""
    options = reading.get("options", {}) if isinstance(reading, dict) else None
    if not isinstance(options, dict) or not all(
        isinstance(item, str | int | None)
        for value in options.values()
        for item in (value if isinstance(value, tuple) else (value,))
    ):
        msg = "The notes of the model file on how its training data was read are damaged. Fit the model again."
        raise ModelFileError(msg)
    return {"options": {}, **reading}


def _kind(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _read_file(path: Path, file_format: str | None, options: dict[str, Any]) -> Data:
    from multimargin import datasets
    from multimargin.estimators.contract import _check_magnitude

    dataset = datasets.read(path, format=file_format, **options)
    try:
        _check_magnitude(dataset.X, dataset.feature_names)
    except InputError as error:  # here the columns have names
        msg = f"{path.name}: {error}"
        raise InputError(msg) from None
    kept = dict(dataset.options)
    if "zero_based" not in kept:  # only there must the width be known; elsewhere check_features says it better
        kept.pop("n_features", None)
    reading = {"kind": _kind(path), "options": kept}
    return Data(path.name, dataset.X, dataset.Y, list(dataset.label_names), reading)


def _read_with_or_without_labels(
    path: Path, file_format: str | None, options: dict[str, Any], reading: Mapping[str, Any]
) -> Data:
    """Read a file that may lack the label columns: then it has exactly the features of the training file."""
    try:
        return _read_file(path, file_format, options)
    except (FileFormatError, InputError):
        try:
            data = _read_file(path, file_format, options | {"labels": []})
        except (FileFormatError, InputError):
            data = None
        if data is None or data.X.shape[1] != reading.get("n_features"):
            raise
    return Data(data.name, data.X, None, [], data.reading)


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


EMBEDDED = {
    "digit-strokes": "Strokes of handwritten digits; training on seven digits, test on 0, 3 and 5.",
    "digit-strips": "Strips of two to four handwritten digits; the labels are the digits in the strip.",
}


def _named(name: str, split: Split) -> Data:
    from multimargin import datasets

    known = [*EMBEDDED, *(facts.name for facts in datasets.available())]
    if name not in known:
        hint = did_you_mean(name, known)
        msg = f"There is no file and no data set called {name!r}.{hint} See: multimargin datasets"
        raise InputError(msg)
    if name == "digit-strokes":
        return _digit_strokes(split)
    bunch = datasets.load_digit_strips() if name == "digit-strips" else datasets.load(name)
    names = [str(label) for label in bunch.label_names]
    return Data(f"{name} ({split} split)", bunch[f"X_{split}"], bunch[f"Y_{split}"], names)


def _digit_strokes(split: Split) -> Data:
    import numpy as np

    from multimargin import datasets

    bunch = datasets.load_digit_attributes()
    rows = np.isin(bunch.digit, bunch.splits[0].seen if split == "train" else bunch.splits[0].unseen)
    return Data(f"digit-strokes ({split} split)", bunch.X[rows], bunch.Y[rows], list(bunch.label_names))


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


def check_features(model: Any, data: Data) -> None:
    """Refuse data whose number of features is not the model's."""
    if data.X.shape[1] != model.n_features_in_:
        msg = (
            f"{data.name} has {data.X.shape[1]} features, but the model needs {model.n_features_in_}. "
            f"Give data made in the same way; --labels says which columns are no features."
        )
        raise InputError(msg)


def matched_labels(model: Any, data: Data) -> LabelMatrix:
    """Return the labels of the data in the order of the model's."""
    from multimargin.labels import read_labels

    expected = [str(name) for name in model.label_names_]
    if len(data.label_names) != len(expected):
        msg = f"{data.name} has {len(data.label_names)} labels, but the model knows {len(expected)}."
        raise InputError(msg)
    unknown = sorted(set(data.label_names) - set(expected))
    if unknown:
        msg = f"{data.name} has the label {unknown[0]!r}, which the model does not know. Give the same labels."
        raise InputError(msg)
    position = {name: j for j, name in enumerate(data.label_names)}
    return read_labels(data.Y[:, [position[name] for name in expected]], names=expected)
