"""Types of the native module."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Report = Callable[[int, float, float | None, float | None], bool]

def rehearse(seconds: float, threads: int, fail_at: int, report: Report | None, time_limit: float) -> int: ...
def stratify(
    offsets: NDArray[np.int64],
    columns: NDArray[np.int32],
    labels: int,
    sizes: NDArray[np.int64],
    shares: NDArray[np.int64],
    seed: int,
    shuffle: bool,
    fold_of_row: NDArray[np.int32],
) -> None: ...
