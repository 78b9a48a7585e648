"""Parts of the rows on disk: what comes back is what was put there."""

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.estimators.m3l.blocks import Block, describe_block, read_block
from multimargin.part_store import DualStore, RowStore


@pytest.mark.parametrize("budget", [0, 1000, 10**9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dual_variables_come_back(rng, tmp_path, monkeypatch, budget, dtype):
    monkeypatch.setattr("multimargin.part_store.CELLS_AT_ONCE", 64)
    store = DualStore(tmp_path, budget)
    assert store.get(0) is None
    for share in (0.5, 0.0, 1.0, 0.1):
        put = [
            (rng.normal(size=shape) * (rng.random(shape) < share)).astype(dtype) for shape in [(50, 7), (0, 7), (33, 1)]
        ]
        for k, beta in enumerate(put):
            store.put(k, beta)
        for k, beta in enumerate(put):
            found = store.get(k)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, beta)
    assert bool(list(tmp_path.iterdir())) == (budget < 10**9)


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_come_back(rng, tmp_path, sparse):
    X = (rng.normal(size=(400, 9)) * (rng.random((400, 9)) < 0.5)).astype(np.float32)
    Y = np.where(rng.random((400, 4)) < 0.1, np.nan, rng.random((400, 4)) < 0.3)
    weight = rng.random(400)
    store = RowStore(tmp_path)
    for k, rows in enumerate([slice(None), slice(0, 1), slice(0, 0)]):
        given = sp.csr_matrix(X[rows]) if sparse else X[rows]
        block = Block(given, Y[rows], weight[rows])
        read, labels, _ = read_block(block)
        store.put(k, read, labels, block.sample_weight)
        found = store.get(k, describe_block(block))
        assert found.columns == {"n_features_in_": X.shape[1]}
        np.testing.assert_array_equal(found.X.toarray() if sparse else found.X, X[rows])
        assert (found.y.positives != labels.positives).nnz == 0
        assert (found.y.missing is None) == (labels.missing is None)
        assert labels.missing is None or (found.y.missing != labels.missing).nnz == 0
        np.testing.assert_array_equal(found.sample_weight, weight[rows])
