import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from multimargin.errors import InputError
from multimargin.labels import label_tuples, read_labels, write_labels

SPARSE = [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array, sp.coo_array, sp.lil_matrix, sp.dok_array]
binary = hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))


def give_back(labels):
    return write_labels(labels.positives, labels.form, labels.names, labels.values)


@settings(deadline=None)
@given(binary)
def test_every_form_is_read_alike_and_given_back(cells):
    names = [f"l{j}" for j in range(cells.shape[1])]
    sets = [{names[j] for j in np.flatnonzero(row)} for row in cells]
    forms = [
        cells,
        cells.astype(np.int8),
        cells.astype(float),
        cells.astype(int).tolist(),
        pd.DataFrame(cells.astype(int), columns=names),
        pd.DataFrame(cells, columns=names),
        pd.DataFrame(cells.astype(np.int8), columns=names).astype(pd.SparseDtype(np.int8, 0)),
        *[kind(cells.astype(np.float32)) for kind in SPARSE],
    ]
    for Y in forms:
        labels = read_labels(Y)
        np.testing.assert_array_equal(labels.positives.toarray(), cells)
        back = give_back(labels)
        if sp.issparse(Y):
            assert type(back) is type(Y)
            assert back.dtype == Y.dtype
            np.testing.assert_array_equal(back.toarray(), Y.toarray())
        elif isinstance(Y, pd.DataFrame):
            pd.testing.assert_frame_equal(back, Y, check_column_type=False)
        else:
            np.testing.assert_array_equal(back, Y)
            assert back.dtype == np.asarray(Y).dtype
    labels = read_labels(sets, names=names)
    np.testing.assert_array_equal(labels.positives.toarray(), cells)
    assert give_back(labels) == sets


@settings(deadline=None)
@given(binary, st.sampled_from(["Int64", "UInt8", "Boolean", "Float32"]))
def test_polars_is_read_and_given_back(cells, dtype):
    pl = pytest.importorskip("polars")
    names = [f"l{j}" for j in range(cells.shape[1])]
    Y = pl.DataFrame(cells.astype(int), schema=names).cast(getattr(pl, dtype))
    for form in (Y, Y.lazy()):
        labels = read_labels(form)
        assert labels.names.tolist() == names
        np.testing.assert_array_equal(labels.positives.toarray(), cells)
        assert give_back(labels).equals(Y)
        assert give_back(labels).schema == Y.schema


def test_polars_may_leave_labels_open():
    pl = pytest.importorskip("polars")
    labels = read_labels(pl.DataFrame({"a": [1, 0, None], "b": [1.0, float("nan"), 0.0]}))
    np.testing.assert_array_equal(labels.missing.toarray(), [[0, 0], [0, 1], [1, 0]])
    with pytest.raises(InputError, match="Column 'b' of Y has dtype String"):
        read_labels(pl.DataFrame({"a": [1, 0], "b": ["x", "y"]}))


def test_minus_one_form_returns_minus_one():
    Y = np.array([[1, -1], [-1, -1]])
    np.testing.assert_array_equal(give_back(read_labels(Y)), Y)


@pytest.mark.parametrize("y", [[0, 1, 1], ["no", "yes", "no"], [True, False, True], [2, 5, 5]])
def test_one_dimensional_y(y):
    labels = read_labels(y)
    assert labels.n_labels == 1
    np.testing.assert_array_equal(give_back(labels), y)


@pytest.mark.parametrize("value", [0, 1, -1, "only"])
def test_one_dimensional_y_with_a_single_class(value):
    labels = read_labels(np.array([value, value]))
    np.testing.assert_array_equal(give_back(labels), [value, value])


@pytest.mark.parametrize(
    "Y",
    [
        np.array([[1.0, np.nan], [0.0, 1.0]]),
        sp.csr_array(np.array([[1.0, np.nan], [0.0, 1.0]])),
        pd.DataFrame({"a": [1.0, 0.0], "b": [np.nan, 1.0]}),
        pd.DataFrame({"a": [True, False], "b": [None, True]}).astype("boolean"),
        pd.DataFrame({"a": [1, 0], "b": [None, 1]}).astype("Int64"),
    ],
)
def test_nan_cells_are_missing(Y):
    labels = read_labels(Y)
    np.testing.assert_array_equal(labels.missing.toarray(), [[0, 1], [0, 0]])
    np.testing.assert_array_equal(labels.positives.toarray(), [[1, 0], [0, 1]])
    positive, negative = labels.counts()
    assert positive.tolist() == [1, 1]
    assert negative.tolist() == [1, 0]


def test_counts_and_constants_are_computed_once_and_belong_to_the_rows(rng):
    Y = np.where(rng.random((30, 5)) < 0.2, np.nan, rng.random((30, 5)) < 0.5)
    Y[:, 0], Y[:, 1], Y[:, 2] = 1, 0, np.nan
    Y[20:, 3] = np.where(np.isnan(Y[20:, 3]), np.nan, 1)
    labels = read_labels(Y)
    for of, cells in ((labels, Y), (labels.part(np.arange(20, 30)), Y[20:]), (labels.part(slice(20, 30)), Y[20:])):
        positive, negative = of.counts()
        np.testing.assert_array_equal(positive, (cells == 1).sum(axis=0))
        np.testing.assert_array_equal(negative, (cells == 0).sum(axis=0))
        np.testing.assert_array_equal(of.constant, (positive == 0) | (negative == 0))
        np.testing.assert_array_equal(of.signs, np.where(positive > 0, 1, -1))
        assert of.counts()[0] is positive
        with pytest.raises(ValueError, match="read-only"):
            of.constant[0] = False
    assert read_labels([[1.0], [np.nan]]).part([0]).missing is None


def test_lists_of_labels_are_label_sets_unless_they_form_a_table():
    assert read_labels([["a", "b"], ["b", "c"]]).names.tolist() == ["a", "b", "c"]
    assert read_labels([[3, 5], [3]]).names.tolist() == [3, 5]
    assert read_labels([[0, 1], [1, 1]]).form.kind == "array"
    assert read_labels([("a",), ()]).form.kind == "sets"


def test_label_tuples_follow_column_order():
    labels = read_labels([{"b", "a"}, set()])
    assert label_tuples(labels.positives, labels.names) == [("a", "b"), ()]


def test_large_sparse_y_is_never_densified():
    # 100,000 x 4,000 would be 400 MB even as bytes
    Y = sp.random_array((100_000, 4_000), density=1e-3, format="csr", rng=0, data_sampler=lambda size: np.ones(size))
    labels = read_labels(Y)
    assert labels.positives.nnz == Y.nnz
    assert give_back(labels).nnz == Y.nnz


WRONG = {
    "other values": (np.array([[2, 0], [1, 1]]), "got values {0, 1, 2}"),
    "mixed signs": (np.array([[-1, 0, 1]]), "must not be mixed"),
    "sparse -1": (sp.csr_array([[-1, 1]]), "stored entries"),
    "text": (np.array([["a", "b"]]), "dtype"),
    "object columns": (np.array([[1, None], [0, 1]], dtype=object), "object columns"),
    "object frame": (pd.DataFrame({"good": [1], "bad": ["x"]}), "'bad'"),
    "no rows": (np.zeros((0, 3)), "no rows"),
    "empty list": ([], "no rows"),
    "no labels": (np.zeros((3, 0)), "no label at all"),
    "only empty sets": ([set(), set()], "no label at all"),
    "none": (None, "None"),
    "three dimensions": (np.zeros((2, 2, 2)), "dimensions"),
    "a number": (3, "dimensions"),
    "many classes": ([1, 2, 3], "Only binary classification is supported"),
    "continuous": ([0.5, 0.25], "Unknown label type"),
    "infinite": ([np.inf, 1.0], "infinity"),
    "ragged numbers": ([[1, 0], "ab"], "row 1"),
    "names twice": (pd.DataFrame([[1, 0]], columns=["a", "a"]), "'a' occurs twice"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_forms_get_a_clear_error(case):
    Y, words = WRONG[case]
    with pytest.raises(InputError, match=words):
        read_labels(Y)


def test_wrong_length_and_wrong_names():
    with pytest.raises(InputError, match="X has 3 rows but Y has 2"):
        read_labels(np.eye(2), n_samples=3)
    with pytest.raises(InputError, match="3 label names"):
        read_labels(np.eye(2), names=["a", "b", "c"])
    with pytest.raises(InputError, match="'z'"):
        read_labels([{"z"}], names=["a"])


@given(st.data())
def test_label_sets_are_read_whatever_the_order(data):
    sets = data.draw(st.lists(st.sets(st.integers(0, 5)), min_size=1).filter(any))
    shuffled = [tuple(data.draw(st.permutations(sorted(s)))) for s in sets]
    np.testing.assert_array_equal(read_labels(sets).positives.toarray(), read_labels(shuffled).positives.toarray())
