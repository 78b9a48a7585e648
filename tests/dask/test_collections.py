"""Every form of blocks of rows gives the model that the same rows give in one piece."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask_problems import cut, small_problem, sparse_problem

from multimargin import LinearM3L
from multimargin.dask import DaskLinearM3L
from multimargin.datasets import PartFiles
from multimargin.errors import InputError

CUTS = (70, 150, 150)  # one block is empty


def assert_same(model, local):
    np.testing.assert_array_equal(model.coef_, local.coef_)
    np.testing.assert_array_equal(model.intercept_, local.intercept_)
    assert model.label_names_.tolist() == local.label_names_.tolist()
    assert model.classes_.tolist() == local.classes_.tolist()
    assert model.label_form_ == local.label_form_
    assert model.certificate_ == local.certificate_
    assert model.n_iter_ == local.n_iter_
    assert model.constant_labels_.tolist() == local.constant_labels_.tolist()


def fitted(*data, **parameters):
    return DaskLinearM3L(C=1.0, random_state=0, layout=(1, 1), **parameters).fit(*data)


def unknown_rows(blocks, width, meta):
    """A dask array of blocks whose numbers of rows are not known."""
    arrays = [da.from_delayed(dask.delayed(block), shape=(np.nan, width), meta=meta) for block in blocks]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


@pytest.mark.parametrize("form", ["array", "unknown", "delayed", "pairs", "futures", "futures of pairs", "sets"])
def test_forms_of_dense_rows(client, form):
    X, Y = small_problem(n_labels=5)
    parts, labels = cut(X, *CUTS), cut(Y, *CUTS)
    local = LinearM3L(C=1.0, random_state=0)
    if form == "array":
        model = fitted(da.from_array(X, chunks=(90, -1)), da.from_array(Y, chunks=(90, -1)))
    elif form == "unknown":
        model = fitted(unknown_rows(parts, 12, X[:0]), unknown_rows(labels, 5, Y[:0]))
    elif form == "delayed":
        model = fitted([dask.delayed(part) for part in parts], [dask.delayed(part) for part in labels])
    elif form == "pairs":
        model = fitted([dask.delayed(pair) for pair in zip(parts, labels, strict=True)])
    elif form == "futures of pairs":
        model = fitted(client.scatter(list(zip(parts, labels, strict=True)), hash=False))
    elif form == "futures":
        model = fitted(client.scatter(parts, hash=False), client.scatter(labels, hash=False))
    else:
        Y = [{"abcde"[j] for j in np.flatnonzero(row)} for row in Y]
        labels = [dask.delayed(Y[a:b]) for a, b in ((0, 70), (70, 150), (150, 300))]
        model = fitted([dask.delayed(part) for part in cut(X, 70, 150)], labels)
    assert_same(model, local.fit(X, Y))


@pytest.mark.parametrize("form", ["array", "unknown", "frame", "futures of pairs", "files"])
def test_forms_in_row_parts(client, form, tmp_path):
    X, Y = small_problem(n_labels=5)
    parts, labels = cut(X, *CUTS), cut(Y, *CUTS)
    settings = {"C": 1.0, "random_state": 0, "layout": (2, 1), "tol": 1e-2}
    if form == "array":
        data = da.from_array(X, chunks=(90, -1)), da.from_array(Y, chunks=(90, -1))
    elif form == "unknown":
        data = unknown_rows(parts, 12, X[:0]), unknown_rows(labels, 5, Y[:0])
    elif form == "frame":
        names = [f"f{j}" for j in range(12)]
        frames = pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=list("abcde"))
        data = tuple(dd.from_pandas(frame, npartitions=3) for frame in frames)
    elif form == "futures of pairs":
        data = (client.scatter(list(zip(parts, labels, strict=True)), hash=False),)
    else:
        for k, (rows, of_rows) in enumerate(zip(cut(X, 70, 150), cut(Y, 70, 150), strict=True)):
            np.savez(tmp_path / f"part{k}.npz", X=rows, Y=of_rows)
        data = (PartFiles(tmp_path, dtype=np.float64),)
    model = DaskLinearM3L(**settings).fit(*data)
    here = DaskLinearM3L(**settings, client="local").fit([(X, Y)])
    np.testing.assert_array_equal(model.coef_, here.coef_)
    assert model.certificate_ == here.certificate_
    assert form != "frame" or model.feature_names_in_.tolist() == names


def test_csr_blocks_with_unknown_labels(client):
    X, Y = sparse_problem()
    Y = Y.toarray().astype(float)
    Y[::7, 2] = np.nan
    Y[:, 4] = 0  # constant
    Y = sp.csr_matrix(Y)
    X_blocks = unknown_rows(cut(X, *CUTS), X.shape[1], sp.csr_matrix((0, X.shape[1]), dtype=X.dtype))
    Y_blocks = unknown_rows(cut(Y, *CUTS), Y.shape[1], sp.csr_matrix((0, Y.shape[1])))
    with pytest.warns(UserWarning, match="Constant in training: label 4"):
        model = fitted(X_blocks, Y_blocks, class_weight="balanced")
    with pytest.warns(UserWarning, match="Constant in training: label 4"):
        local = LinearM3L(C=1.0, random_state=0, class_weight="balanced").fit(X, Y)
    assert_same(model, local)
    predicted = model.predict(X_blocks).compute()
    assert type(predicted) is sp.csr_matrix
    assert (predicted != local.predict(X)).nnz == 0


def test_dataframes_with_names(client):
    X, Y = small_problem(n_labels=3)
    X = pd.DataFrame(X, columns=[f"f{j}" for j in range(12)])
    Y = pd.DataFrame(Y, columns=["sea", "sun", "sand"])
    frame = dd.from_pandas(X, npartitions=3)
    model = fitted(frame, dd.from_pandas(Y, npartitions=3))
    local = LinearM3L(C=1.0, random_state=0).fit(X, Y)
    assert_same(model, local)
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    predicted = model.predict(frame)
    assert predicted.columns.tolist() == ["sea", "sun", "sand"]
    pd.testing.assert_frame_equal(predicted.compute(), local.predict(X))
    np.testing.assert_array_equal(model.decision_function(frame).compute(), local.decision_function(X))


def test_one_column_of_classes_some_blocks_have_one_of(client):
    X, Y = small_problem(n_labels=1)
    order = np.argsort(Y[:, 0], kind="stable")
    X, y = X[order], np.array(["no", "yes"])[Y[order, 0]]
    chunks = (int((y == "no").sum()), int((y == "yes").sum()))
    dask_X, dask_y = da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=(chunks,))
    model = fitted(dask_X, dask_y)
    local = LinearM3L(C=1.0, random_state=0).fit(X, y)
    assert_same(model, local)
    np.testing.assert_array_equal(model.predict(dask_X).compute(), local.predict(X))
    np.testing.assert_array_equal(model.decision_function(dask_X).compute(), local.decision_function(X))


@pytest.mark.parametrize("of_cells", [False, True])
def test_weights(client, of_cells):
    X, Y = small_problem(n_labels=4)
    weight = np.random.default_rng(0).uniform(0.0, 2.0, size=Y.shape if of_cells else len(Y))
    weight[:100] = 0  # a whole block
    blocks = [da.from_array(array, chunks=(100, *array.shape[1:])) for array in (X, Y, weight)]
    assert_same(fitted(*blocks), LinearM3L(C=1.0, random_state=0).fit(X, Y, weight))


@pytest.mark.parametrize("ending", ["npz", "parquet", "svm"])
def test_part_files(client, tmp_path, ending):
    X, Y = small_problem(n_labels=4)
    X = X.round(3)
    options = {}
    for k, (rows, labels) in enumerate(zip(cut(X, 100, 180), cut(Y, 100, 180), strict=True)):
        path = tmp_path / f"part-{k}.{ending}"
        if ending == "npz":
            np.savez(path, X=rows, Y=labels)
        elif ending == "parquet":
            names = [*"abcd", *(f"f{j}" for j in range(12))]
            pd.DataFrame(np.column_stack([labels, rows]), columns=names).to_parquet(path)
            options = {"labels": list("abcd")}
        else:
            lines = [
                ",".join(map(str, np.flatnonzero(y))) + " " + " ".join(f"{j}:{v!r}" for j, v in enumerate(x.tolist()))
                for x, y in zip(rows, labels, strict=True)
            ]
            path.write_text("\n".join(lines) + "\n")
            options = {"zero_based": True, "labels_zero_based": True}
    model = fitted(PartFiles(tmp_path, f"*.{ending}", dtype=np.float64, **options))
    local = LinearM3L(C=1.0, random_state=0).fit(sp.csr_matrix(X) if ending == "svm" else X, Y)
    np.testing.assert_array_equal(model.coef_, local.coef_)
    assert model.label_names_.tolist() == (list("abcd") if ending == "parquet" else ["0", "1", "2", "3"])


def column_chunks(X, Y):
    return da.from_array(X, chunks=(100, 5)), da.from_array(Y, chunks=(100, -1))


def fewer_blocks(X, Y):
    return da.from_array(X, chunks=(100, -1)), da.from_array(Y, chunks=(150, -1))


def unequal_blocks(X, Y):
    return da.from_array(X, chunks=((100, 200), -1)), da.from_array(Y, chunks=((200, 100), -1))


def unequal_rows(X, Y):
    return [dask.delayed(part) for part in cut(X, 100)], [dask.delayed(part) for part in cut(Y, 120)]


def other_labels(X, Y):
    frames = [pd.DataFrame(Y[:100], columns=["a", "b"]), pd.DataFrame(Y[100:], columns=["a", "c"])]
    return [dask.delayed(part) for part in cut(X, 100)], [dask.delayed(part) for part in frames]


def other_features(X, Y):
    return [dask.delayed(X[:100]), dask.delayed(X[100:, :11])], [dask.delayed(part) for part in cut(Y, 100)]


def mixed_negatives(X, Y):
    return [dask.delayed(part) for part in cut(X, 100)], [dask.delayed(Y[:100]), dask.delayed(2 * Y[100:] - 1)]


def infinite(X, Y):
    X = X.copy()
    X[150, 3] = np.inf
    return [dask.delayed(part) for part in cut(X, 100)], [dask.delayed(part) for part in cut(Y, 100)]


def no_labels(X, Y):
    return da.from_array(X, chunks=(100, -1)), None


def here(X, Y):
    return X, Y


def lists_of_arrays(X, Y):
    return [X], [Y]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (column_chunks, r"3 chunks of columns. Call X.rechunk\({0: 'auto', 1: -1}\)"),
        (fewer_blocks, "X has 3 blocks, Y has 2"),
        (unequal_blocks, "Block 0 of X has 100 rows, block 0 of Y has 200"),
        (unequal_rows, r"block (0: X has 100 rows but Y has 120|1: X has 200 rows but Y has 180)"),
        (other_labels, "All parts must have the same labels in one order: block 0 has 2, block 1 has 2, or others"),
        (other_features, "All parts must have the same features: block 0 has 12, block 1 has 11"),
        (mixed_negatives, "negative cells are 0 in block 0 and -1 in block 1"),
        (infinite, "block 1: Input X contains infinity"),
        (no_labels, "target y is None"),
        (lists_of_arrays, r"X is a list that has no blocks of rows\..*\[dask\.delayed\(part\) for part in X\]"),
        (here, "X is a ndarray, which this process holds: train it by multimargin.LinearM3L"),
    ],
)
def test_wrong_input(client, data, message):
    X, Y = small_problem(n_labels=2)
    with pytest.raises(InputError, match=message):
        DaskLinearM3L().fit(*data(X, Y))
