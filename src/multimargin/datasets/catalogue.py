"""Known multi-label data sets, found on disk or on OpenML. A new one is one line in the catalogue.

The files are looked for in the folder named by the environment variable ``MULTIMARGIN_DATA``.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from sklearn.datasets import fetch_openml

from multimargin.datasets.catalogue_readers import (
    RCV1_FEATURES,
    read_awa,
    read_mediamill,
    read_mulan,
    read_rcv1,
    read_rcv1_pooled,
    read_xmc_pair,
)
from multimargin.datasets.dataset import LABEL_DTYPE, Dataset
from multimargin.datasets.published_readers import read_apascal, read_fmri, read_inria, read_libsvm_parts
from multimargin.errors import FileFormatError, InputError

__all__ = ["Facts", "available", "load"]

_VARIABLE = "MULTIMARGIN_DATA"
_MULAN = "https://mulan.sourceforge.net/datasets-mlc.html"
_AWA_FILES = (
    "phog.npz",
    "classes.txt",
    "predicates.txt",
    "predicate-matrix-binary.txt",
    "predicate-matrix-continuous.txt",
    "trainclasses.txt",
    "testclasses.txt",
)


@dataclass(frozen=True)
class Facts:
    """What is known of a data set before it is read.

    Attributes
    ----------
    name : str
        What to pass to :func:`load`.
    about : str
        What the samples and labels are, and what to beware of.
    n_train, n_test, n_features, n_labels : int
        Its size.
    cardinality : float or None
        Labels per sample, on average over both parts; None where its publisher does not say.
    files : tuple of str
        The files it is read from, inside the data folder.
    on_disk : bool
        Whether all these files are there.
    on_openml : bool
        Whether :func:`load` can download it.
    """

    name: str
    about: str
    n_train: int
    n_test: int
    n_features: int
    n_labels: int
    cardinality: float | None
    files: tuple[str, ...]
    on_disk: bool
    on_openml: bool


@dataclass(frozen=True)
class _Entry:
    name: str
    size: tuple[int, int, int, int]  # n_train, n_test, n_features, n_labels
    cardinality: float | None
    files: tuple[str, ...]
    read: Callable[[list[Path], npt.DTypeLike], Dataset]
    about: str
    home: str = _MULAN
    form: str = ""
    openml: int | None = None

    def description(self) -> str:
        return " ".join(filter(None, (self.about, _BEWARE.get(self.name))))

    def facts(self, folder: Path | None) -> Facts:
        there = folder is not None and all(_file(folder, name) is not None for name in self.files)
        return Facts(
            self.name,
            self.description(),
            *self.size,
            self.cardinality,
            self.files,
            there,
            self.openml is not None,
        )


def available(data_home: str | os.PathLike[str] | None = None) -> list[Facts]:
    """List the data sets that :func:`load` knows.

    Parameters
    ----------
    data_home : path or None, default=None
        The data folder. None: the one named by the environment variable ``MULTIMARGIN_DATA``.

    Returns
    -------
    list of Facts

    Examples
    --------
    >>> from multimargin import datasets
    >>> scene = next(facts for facts in datasets.available() if facts.name == "scene")
    >>> scene.n_train, scene.n_test, scene.n_features, scene.n_labels
    (1211, 1196, 294, 6)
    """
    folder = _folder(data_home)
    return [entry.facts(folder) for entry in CATALOGUE.values()]


def load(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download: bool = True,
    random_state: int = 0,
    dtype: npt.DTypeLike = np.float64,
) -> Dataset:
    """Return a known data set, split into training and test part.

    Parameters
    ----------
    name : str
        One of the names that :func:`available` lists. ``"rcv1"`` is the first of five subsets, ``"rcv1-2"``
        to ``"rcv1-5"`` the others, ``"rcv1-pooled"`` all of them without duplicates.
    data_home : path or None, default=None
        The data folder. None: the one named by the environment variable ``MULTIMARGIN_DATA``.
    download : bool, default=True
        Whether to ask OpenML for a set of which no file is in the folder.
    random_state : int, default=0
        Seed of the split where there is no official one: ``rcv1-pooled``, and every set from OpenML, which
        does not say which samples are for testing.
    dtype : float64 or float32, default=float64
        Type of X.

    Returns
    -------
    Dataset
        ``X_train``, ``X_test``: ndarray or csr_matrix; ``Y_train``, ``Y_test``: csr_matrix of int64;
        ``label_names``; ``feature_names`` (None if unknown); ``description``. ``"awa"`` has also
        ``class_train``, ``class_test`` (indices into ``class_names``), ``signatures`` (50, 85),
        ``association_strengths`` (50, 85; NaN where unknown), ``seen`` and ``unseen`` (indices of the
        training and the test animals). ``"fmri-words"`` has these, too, but for ``association_strengths``;
        ``"apascal-ayahoo"`` has ``class_train``, ``class_test`` and ``class_names``.

    Raises
    ------
    InputError
        The name is unknown, or the set is neither on disk nor on OpenML: the message says which files to
        put where.
    """
    if name not in CATALOGUE:
        close = get_close_matches(name, CATALOGUE, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        msg = f"the data set must be one of {', '.join(CATALOGUE)}, got {name!r}{hint}"
        raise InputError(msg)
    entry = CATALOGUE[name]
    folder = _folder(data_home)
    files = [] if folder is None else [_file(folder, file) for file in entry.files]
    found = [file for file in files if file is not None]
    if len(found) == len(entry.files):
        data = entry.read(found, dtype)
    elif not found and entry.openml is not None and download:
        data = _from_openml(entry, folder, dtype)
    else:
        raise InputError(_where_to_put(entry, folder))
    if "X" in data:  # there is no official split
        _split(data, entry, random_state)
    data.setdefault("description", f"{name}: {entry.description()}")
    return data


def _folder(data_home: str | os.PathLike[str] | None) -> Path | None:
    where = data_home if data_home is not None else os.environ.get(_VARIABLE)
    return Path(where) if where else None


def _file(folder: Path, name: str) -> Path | None:
    """Return the file, or its compressed form, if it is there."""
    candidates = (folder / f"{name}{ending}" for ending in ("", ".gz", ".bz2"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _where_to_put(entry: _Entry, folder: Path | None) -> str:
    absent = [name for name in entry.files if folder is None or _file(folder, name) is None]
    if folder is None:
        state = f"{_VARIABLE} is not set"
    else:
        state = f"the data folder {folder} " + ("lacks its files" if folder.is_dir() else "does not exist")
    return (
        f"the data set {entry.name!r} is not on this machine ({state}). Set {_VARIABLE} to a folder that "
        f"holds {', '.join(absent)}{entry.form}; the data come from {entry.home}"
    )


def _split(data: Dataset, entry: _Entry, random_state: int) -> None:
    """Divide X and Y at random into parts of the sizes in the catalogue."""
    n_train, n_test, _, _ = entry.size
    order = np.random.default_rng(random_state).permutation(n_train + n_test)
    train, test = np.sort(order[:n_train]), np.sort(order[n_train:])
    X, Y = data.pop("X"), data.pop("Y")
    data.update(X_train=X[train], Y_train=Y[train], X_test=X[test], Y_test=Y[test])


def _from_openml(entry: _Entry, folder: Path | None, dtype: npt.DTypeLike) -> Dataset:
    """Fetch a data set, and make sure that it is the one meant."""
    try:
        found = fetch_openml(data_id=entry.openml, as_frame=False, parser="liac-arff")
    except (OSError, ValueError) as error:
        msg = f"OpenML did not deliver data set {entry.openml} ({error}); {_where_to_put(entry, folder)}"
        raise InputError(msg) from None
    X = found.data
    marks = np.char.lower(np.asarray(found.target).astype(str))
    n_train, n_test, d, n_labels = entry.size
    if X.shape != (n_train + n_test, d) or marks.shape != (n_train + n_test, n_labels):
        msg = (
            f"OpenML data set {entry.openml} must have {n_train + n_test} samples, {d} features and "
            f"{n_labels} labels to be {entry.name!r}, found shapes {X.shape} and {marks.shape}; "
            f"{_where_to_put(entry, folder)}"
        )
        raise FileFormatError(msg)
    return Dataset(
        X=X.astype(dtype),
        Y=csr_matrix(np.isin(marks, ("true", "1", "1.0")), dtype=LABEL_DTYPE),
        label_names=tuple(found.target_names),
        feature_names=tuple(found.feature_names),
        description=f"{entry.name}: {entry.description()} Fetched from OpenML (data set {entry.openml}) "
        "and split at random: this is not the official split.",
    )


_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel.html"
_INRIA = "http://lear.inrialpes.fr/people/guillaumin/data.php"
_PACKED = " (as published, with the ending .bz2, or unpacked)"
_CSR_FORM = " (archives with X_train_data, X_train_indices, X_train_indptr, shape, Y_train, and so for test)"


def _mulan(
    name: str,
    stem: str,
    size: tuple[int, int, int, int],
    cardinality: float,
    about: str,
    ending: str = "",
    **more: Any,
) -> _Entry:
    files = tuple(f"mulan/{name}/{stem}{part}.arff" for part in (f"-train{ending}", f"-test{ending}"))
    return _Entry(name, size, cardinality, (*files, f"mulan/{name}/{stem}.xml"), read_mulan, about, **more)


def _inria(name: str, features: str, labels: str, size: tuple[int, int, int, int], about: str) -> _Entry:
    """Return a set of the INRIA annotation archives: descriptors and labels of each part, and names of the labels."""
    known = {"tags": (".hvecs", "dictionary"), "classes": (".txt", "classes")}
    ending, names = known[labels]
    parts = [
        f"inria/{name}_{part}_{what}" for part in ("train", "test") for what in (f"{features}.hvecs", labels + ending)
    ]
    return _Entry(name, size, None, (*parts, f"inria/{name}_{names}.txt"), read_inria, about, home=_INRIA)


def _rcv1_file(subset: int) -> str:
    return f"rcv1/rcv1sub{subset}_repaired.npz"


def _rcv1(name: str, subset: int, cardinality: float) -> _Entry:
    about = (
        f"Reuters news and their topics, subset {subset} of 5, repaired: in the published files half of the "
        "labels are shifted."
    )
    size = (3000, 3000, RCV1_FEATURES, 101)
    return _Entry(name, size, cardinality, (_rcv1_file(subset),), read_rcv1, about, form=_CSR_FORM)


# What would corrupt results if one did not know it.
_BEWARE = {
    "scene": "6 test samples have the features of a training sample.",
    "enron": "1 label is never positive in training; 62 test samples have the features of a training sample.",
    "medical": "7 labels are never positive in training; 6 test samples have features of a training sample.",
    "bibtex": "21 test samples have the features of a training sample.",
    "corel5k": "3 labels are never positive in training.",
    "delicious": "14 samples have no label; 871 test samples have the features of a training sample.",
    "tmc2007": "500 words of 49,060; 1220 test samples have the features of a training sample.",
    "rcv1-pooled": "Of samples with equal features the first is kept; 82 of the others had other labels.",
    "mediamill": "1730 samples have no label.",
    "eurlex-4k": "34 samples have no label; 207 labels are never positive in training; 16 test "
    "samples have the "
    "features of a training sample.",
}

CATALOGUE = {
    entry.name: entry
    for entry in (
        # name, stem of the files, (n_train, n_test, n_features, n_labels), cardinality, about
        _mulan("emotions", "emotions", (391, 202, 72, 6), 1.87, "Music and its moods.", openml=40589),
        _mulan("scene", "scene", (1211, 1196, 294, 6), 1.07, "Photographs and what they show.", openml=40595),
        _mulan("yeast", "yeast", (1500, 917, 103, 14), 4.24, "Yeast genes and their functions.", openml=40597),
        _mulan("enron", "enron", (1123, 579, 1001, 53), 3.38, "E-mails and their topics.", openml=40590),
        _mulan("medical", "medical", (333, 645, 1449, 45), 1.25, "Clinical texts and their diagnoses."),
        _mulan("bibtex", "bibtex", (4880, 2515, 1836, 159), 2.40, "Publications and their tags."),
        _mulan("corel5k", "Corel5k", (4500, 500, 499, 374), 3.52, "Photographs and keywords.", ending="-sparse"),
        _mulan("delicious", "delicious", (12920, 3185, 500, 983), 19.02, "Web pages and their tags."),
        _mulan("tmc2007", "tmc2007-500", (21519, 7077, 500, 22), 2.16, "Flight reports and their problems."),
        _rcv1("rcv1", 1, 2.90),
        _rcv1("rcv1-2", 2, 2.89),
        _rcv1("rcv1-3", 3, 2.91),
        _rcv1("rcv1-4", 4, 2.91),
        _rcv1("rcv1-5", 5, 2.91),
        _Entry(
            "rcv1-pooled",
            (23149, 4464, RCV1_FEATURES, 101),
            2.91,
            tuple(_rcv1_file(subset) for subset in range(1, 6)),
            read_rcv1_pooled,
            "Reuters news and their topics: the five subsets without duplicates, split at random.",
            form=_CSR_FORM,
        ),
        _Entry(
            "mediamill",
            (30993, 12914, 120, 101),
            4.38,
            ("mediamill/mediamill.npz", "mediamill/mediamill.xml"),
            read_mediamill,
            "Video shots and what they show.",
            form=" (the archive with X_train, Y_train, X_test, Y_test)",
        ),
        _Entry(
            "awa",
            (24295, 6180, 252, 85),
            31.10,
            tuple(f"awa/{file}" for file in _AWA_FILES),
            read_awa,
            "Animals with Attributes, PHOG features: 40 animals for training, 10 others for testing.",
            home="https://cvml.ista.ac.at/AwA",
            form=" (the archive with X, one row per image, and class_index, counted from 0)",
        ),
        _Entry(
            "eurlex-4k",
            (15539, 3809, 5000, 3993),
            5.31,
            ("eurlex-4k/eurlex_train.txt", "eurlex-4k/eurlex_test.txt"),
            read_xmc_pair,
            "European laws and their subjects.",
            home="http://manikvarma.org/downloads/XC/XMLRepository.html",
        ),
        _Entry(
            "rcv1-full",
            (23149, 781265, RCV1_FEATURES, 103),
            3.24,
            ("libsvm/rcv1_topics_train.svm", *(f"libsvm/rcv1_topics_test_{part}.svm" for part in range(4))),
            read_libsvm_parts,
            "Reuters news and their topics, all of RCV1 v2.",
            home=_LIBSVM,
            form=_PACKED,
        ),
        _Entry(
            "tmc2007-full",
            (21519, 7077, 30438, 22),
            2.16,
            ("libsvm/tmc2007_train.svm", "libsvm/tmc2007_test.svm"),
            read_libsvm_parts,
            "Flight reports and their problems, all words (SIAM 2007).",
            home=_LIBSVM,
            form=_PACKED,
        ),
        _inria("mirflickr", "DenseSift", "tags", (12500, 12500, 1000, 457), "Photographs and their tags, dense SIFT."),
        _inria(
            "pascal07",
            "DenseSiftV3H1",
            "classes",
            (5011, 4952, 3000, 20),
            "PASCAL VOC 2007, photographs and what they show, dense SIFT in three bands.",
        ),
        _Entry(
            "apascal-ayahoo",
            (6340, 2644, 9751, 64),
            None,
            (
                "apascal/attribute_names.txt",
                *(f"apascal/{part}.txt" for part in ("apascal_train", "ayahoo_test")),
                *(f"apascal/feat_{part}.mat" for part in ("apascal_train", "ayahoo_test")),
            ),
            read_apascal,
            "Objects and their attributes: 20 categories for training, 12 others for testing.",
            home="https://vision.cs.uiuc.edu/attributes",
            form=" (lists of attribute_data, and features: archives with feat, one column per line of a list)",
        ),
        _Entry(
            "fmri-words",
            (288, 72, 21764, 25),
            None,
            ("fmri/data-science-P1.mat", "fmri/semantic_features.csv"),
            read_fmri,
            "Brain images of the first participant, who thinks of 60 nouns, and what these have to do with 25 verbs: "
            "48 nouns for training, 12 others for testing.",
            home="http://www.cs.cmu.edu/~tom/science2008",
            form=" (the second is a table to be made from the published vectors: a first line of names, then a noun "
            "and its 25 numbers to a line, separated by commas)",
        ),
    )
}
