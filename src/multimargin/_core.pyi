"""Types of the native module."""

from collections.abc import Callable
from enum import Enum

import numpy as np
import numpy.typing as npt

Report = Callable[[int, float, float | None, float | None], bool]

def rehearse(seconds: float, threads: int, fail_at: int, report: Report | None, time_limit: float) -> int: ...

Floats = npt.NDArray[np.float64]
Csr = tuple[Floats, npt.NDArray[np.int32], npt.NDArray[np.int64]]
LabelRows = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
# The smallest index seen and its line, the largest and its line.
Extent = tuple[int, int, int, int]

class TextError(ValueError): ...

class Kind(Enum):
    number = 0
    binary = 1
    nominal = 2
    other = 3

class Header:
    @property
    def relation(self) -> bytes: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def attributes(self) -> list[tuple[bytes, Kind, list[bytes], int]]: ...

def arff_header(text: bytes) -> Header: ...
def csv_header(text: bytes, delimiter: str) -> Header: ...
def arff_rows(
    text: bytes,
    header: Header,
    label_of: npt.NDArray[np.int32],
    column_of: npt.NDArray[np.int32],
    columns: int,
    dense: bool,
    missing_as_nan: bool,
) -> tuple[Floats | Csr, LabelRows]: ...
def csv_rows(
    text: bytes,
    header: Header,
    label_of: npt.NDArray[np.int32],
    column_of: npt.NDArray[np.int32],
    columns: int,
    dense: bool,
    missing_as_nan: bool,
) -> tuple[Floats | Csr, LabelRows]: ...
def libsvm_rows(text: bytes) -> tuple[Csr, LabelRows, Extent, Extent, int, int]: ...
def xmc_rows(text: bytes) -> tuple[Csr, LabelRows, Extent, Extent, int, int]: ...
