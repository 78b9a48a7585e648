"""Types of the native module."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Report = Callable[[int, float, float | None, float | None], bool]
Cells = tuple[NDArray[np.int64], NDArray[np.int32]]

def rehearse(seconds: float, threads: int, fail_at: int, report: Report | None, time_limit: float) -> int: ...

class Rows: ...

def dense_rows(x: NDArray[Any]) -> Rows: ...
def csr_rows(values: NDArray[Any], columns: NDArray[np.int32], offsets: NDArray[np.int64], cols: int) -> Rows: ...
def fit_linear_m3l(
    rows: Rows,
    n_labels: int,
    positives: Cells,
    missing: Cells | None,
    costs: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any] | None],
    prior: tuple[Any, ...] | None,
    bias: float,
    prior_margins: bool,
    start: NDArray[Any] | None,
    keep_beta: bool,
    tol: float,
    max_iter: int,
    threads: int,
    seed: int,
    report: Report | None,
    time_limit: float,
) -> dict[str, Any]: ...
