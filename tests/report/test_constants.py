"""The best constant prediction is the best of all label sets."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import metrics
from multimargin.labels import read_labels
from multimargin.report.constants import best_constant_sets, label_frequencies

METRICS = ("macro-f1", "micro-f1", "example-f1", "hamming-loss", "subset-accuracy")


def value(name: str, Y: np.ndarray, chosen: tuple[bool, ...]) -> float:
    constant = sp.csr_array(np.broadcast_to(np.array(chosen, dtype=bool), Y.shape))
    found = metrics.report(read_labels(Y), constant)[name]
    return -found if name == "hamming-loss" else found


def assert_best(Y: np.ndarray, names: tuple[str, ...] = METRICS) -> None:
    chosen = best_constant_sets(read_labels(Y))
    for name in names:
        best = max(
            found for one in product([False, True], repeat=Y.shape[1]) if not np.isnan(found := value(name, Y, one))
        )
        assert value(name, Y, tuple(chosen[name])) == pytest.approx(best, abs=1e-12), name


@pytest.mark.parametrize("seed", range(25))
def test_no_other_set_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Y = (rng.random((rng.integers(1, 12), rng.integers(1, 6))) < rng.random()).astype(int)
    if not Y.any():
        Y[0, 0] = 1
    assert_best(Y)


@pytest.mark.parametrize("seed", range(10))
def test_unknown_cells_are_left_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Y = (rng.random((12, 4)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    Y[0] = 1
    assert_best(Y, ("macro-f1", "micro-f1", "hamming-loss"))


def test_sizes_matter_more_than_frequency_for_rows() -> None:
    # label 0 is in few rows, but alone there; labels 1 to 4 are in more, all together
    Y = np.zeros((10, 6), dtype=int)
    Y[:4, 0] = 1
    Y[4:9, 1:] = 1
    assert_best(Y, ("example-f1",))


def test_frequencies_are_those_of_known_cells() -> None:
    Y = np.array([[1.0, np.nan], [0.0, 1.0], [0.0, np.nan], [1.0, np.nan]])
    np.testing.assert_allclose(label_frequencies(read_labels(Y)), [0.5, 1.0])
