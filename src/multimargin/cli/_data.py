"""From a file or the name of a data set to X and Y."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from multimargin.errors import InputError

from ._models import did_you_mean

__all__ = ["Data", "check_features", "check_output", "match_labels", "read_data"]


@dataclass(frozen=True)
class Data:
    """What a verb works on.

    Attributes
    ----------
    name : str
        File name, or name and split of a data set.
    X : array or CSR of shape (n_samples, n_features)
    Y : array or CSR of shape (n_samples, n_labels), or None
        None if the file holds no labels.
    label_names : list of str
    """

    name: str
    X: Any
    Y: Any
    label_names: list[str]

    def facts(self) -> dict[str, Any]:
        """Return the counts a person looks at first."""
        facts = {"data": self.name, "rows": self.X.shape[0], "features": self.X.shape[1]}
        if self.Y is not None:
            facts["labels"] = self.Y.shape[1]
            facts["labels_per_row"] = round(float(self.Y.sum()) / max(self.Y.shape[0], 1), 3)
        return facts


def read_data(
    source: str,
    labels: str | None,
    file_format: str | None,
    split: Literal["train", "test"],
    need_labels: bool = True,
) -> Data:
    """Read a file, or one split of a data set that has a name.

    A file of that name comes first, so that a data set never hides one.
    """
    from multimargin import datasets

    path = Path(source)
    if path.exists() or path.suffix or path.parent != Path():
        label_columns = [name.strip() for name in labels.split(",")] if labels and "," in labels else labels
        bunch = datasets.read(path, labels=label_columns, format=file_format)
        data = Data(path.name, bunch.X, bunch.Y, [str(name) for name in bunch.label_names])
    else:
        data = _named(source, split)
    if need_labels and (data.Y is None or data.Y.shape[1] == 0):
        msg = f"{data.name} holds no labels. Say which columns are labels with --labels."
        raise InputError(msg)
    return data


def _named(name: str, split: Literal["train", "test"]) -> Data:
    from multimargin import datasets

    known = list(datasets.available())
    if name not in known:
        msg = f"There is no file and no data set called {name!r}. Data sets: {', '.join(known)}.{did_you_mean(name, known)}"
        raise InputError(msg)
    bunch = datasets.load(name)
    names = [str(label) for label in bunch.label_names]
    return Data(f"{name} ({split} split)", bunch[f"X_{split}"], bunch[f"Y_{split}"], names)


def check_output(path: Path | None) -> None:
    """Refuse a path that cannot be written before any work is done."""
    if path is None:
        return
    if path.is_dir():
        msg = f"Cannot write {path}: it is a directory. Give the name of a file."
        raise InputError(msg)
    if not path.absolute().parent.is_dir():
        msg = f"Cannot write {path}: the folder {path.parent} does not exist. Create it first."
        raise InputError(msg)


def check_features(model: Any, data: Data) -> None:
    """Refuse data whose number of features is not the model's."""
    if data.X.shape[1] != model.n_features_in_:
        msg = (
            f"{data.name} has {data.X.shape[1]} features, but the model was fitted with {model.n_features_in_}. "
            f"Give data made in the same way, and the same --labels."
        )
        raise InputError(msg)


def match_labels(model: Any, data: Data) -> Any:
    """Return Y with its columns in the order of the model's labels."""
    expected = [str(name) for name in model.classes_]
    if data.label_names == expected:
        return data.Y
    if len(data.label_names) != len(expected):
        msg = (
            f"{data.name} has {len(data.label_names)} labels, but the model was fitted with {len(expected)}."
        )
        raise InputError(msg)
    unknown = sorted(set(data.label_names) - set(expected))
    if unknown:
        msg = f"{data.name} has the label {unknown[0]!r}, which the model was not fitted with. Give the same labels."
        raise InputError(msg)
    position = {name: j for j, name in enumerate(data.label_names)}
    return data.Y[:, [position[name] for name in expected]]
