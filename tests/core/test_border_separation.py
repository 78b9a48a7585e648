"""What the native solver of calibrated separation refuses before any work."""

import numpy as np
import pytest

from multimargin import _core

OFFSETS, CELLS = np.array([0, 1, 2, 3]), np.array([0, 1, 0], np.int32)  # three rows with a label each, of two


def sets(n_labels=2, *members):
    offsets = np.cumsum([0, *map(len, members)])
    return _core.Cells(offsets, np.concatenate([*members, []]).astype(np.int32), n_labels)


def set_features(**changes):
    given = {
        "members": sets(2, [0], [1]),
        "complement": np.zeros(2, np.uint8),
        "scale": np.ones(2),
        "pair_rows": np.full((2, 2), -1, np.int32),
        "n_pairs": 0,
        "c1": 1.0,
        "c2": 1.0,
        **changes,
    }
    return _core.SetFeatures(**given)


def fit(**changes):
    given = {
        "rows": _core.dense_rows(np.ones((3, 2))),
        "labels": _core.Labels(
            positives=_core.Cells(OFFSETS, CELLS, 2),
            missing=None,
            left_out=np.zeros(2, np.uint8),
            row=np.ones(3),
            positive=np.ones(2),
            negative=np.ones(2),
            cells=None,
        ),
        "cost": np.ones((3, 2)),
        "sets": sets(2, [0], [1]),
        "features": None,
        "bias": 1.0,
        "start": None,
        "limits": _core.Limits(tol=1e-6, max_iter=100, threads=1),
        **changes,
    }
    return _core.fit_separation(**given)


def test_features_of_every_kind_give_the_same_optimum():
    """Vectors at right angles, as labels, as a table and as sets without pairs."""
    found = [fit(features=features).result for features in (None, np.eye(2), set_features(c2=0.0, pair_rows=None))]
    for result in found:
        assert result.status == _core.Status.converged
        assert result.primal == pytest.approx(found[0].primal, rel=2e-6)


def test_a_start_at_the_solution_ends_at_once():
    cold = fit()
    warm = fit(start=cold.D, limits=_core.Limits(tol=1e-6, max_iter=100, threads=1, passes=7))
    assert warm.result.passes == 8
    assert warm.result.primal == pytest.approx(cold.result.primal, rel=2e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: fit(rows=_core.dense_rows(np.ones((2, 2)))),
        lambda: fit(sets=sets(3, [0], [1], [2])),
        lambda: fit(sets=sets(2, [0], [1], [0, 1])),  # a larger set without features
        lambda: fit(features=np.eye(3)),
        lambda: fit(features=set_features(members=sets(2, [0]), complement=np.zeros(1, np.uint8), scale=np.ones(1))),
        lambda: fit(start=_core.DualVariables(np.array([0, 1]), np.zeros(1, np.int32), np.ones(1))),
        lambda: fit(start=_core.DualVariables(OFFSETS, np.array([0, 2, 0], np.int32), np.ones(3))),
        lambda: _core.DualVariables(OFFSETS, CELLS, np.ones(4)),
        lambda: _core.DualVariables(np.array([0, 2, 1, 3]), CELLS, np.ones(3)),
        lambda: set_features(scale=np.ones(3)),
        lambda: set_features(pair_rows=None),
        lambda: set_features(pair_rows=np.zeros((2, 3), np.int32)),
        lambda: set_features(pair_rows=np.ones((2, 2), np.int32), n_pairs=1),
    ],
)
def test_what_does_not_fit_is_refused(wrong):
    with pytest.raises(ValueError, match="fit|need|range|rise"):
        wrong()


@pytest.mark.parametrize("features", [np.eye(2, dtype=np.float32), np.asfortranarray(np.ones((2, 3))), (1, 2)])
def test_features_are_not_converted(features):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        fit(features=features)
