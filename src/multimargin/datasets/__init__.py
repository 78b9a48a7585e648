"""Multi-label data: readers of files, a catalogue of known sets, embedded real data, a synthetic generator."""

from multimargin.datasets.formats import (
    Dataset,
    read,
    read_arff,
    read_csv,
    read_libsvm,
    read_npz,
    read_parquet,
    read_xmc,
)

__all__ = [
    "Dataset",
    "read",
    "read_arff",
    "read_csv",
    "read_libsvm",
    "read_npz",
    "read_parquet",
    "read_xmc",
]
