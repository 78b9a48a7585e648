"""Multi-label data: file readers, a catalogue of known sets, embedded real data, a synthetic generator."""

from multimargin.datasets.catalogue import Facts, available, load
from multimargin.datasets.dataset import Dataset
from multimargin.datasets.digits import DigitSplit, load_digit_attributes, load_digit_strips
from multimargin.datasets.formats import (
    read,
    read_arff,
    read_csv,
    read_json,
    read_libsvm,
    read_npz,
    read_parquet,
    read_xmc,
)
from multimargin.datasets.part_files import PartFiles
from multimargin.datasets.signatures import read_signatures
from multimargin.datasets.synthetic import make_clique_labels

__all__ = [
    "Dataset",
    "DigitSplit",
    "Facts",
    "PartFiles",
    "available",
    "load",
    "load_digit_attributes",
    "load_digit_strips",
    "make_clique_labels",
    "read",
    "read_arff",
    "read_csv",
    "read_json",
    "read_libsvm",
    "read_npz",
    "read_parquet",
    "read_signatures",
    "read_xmc",
]
