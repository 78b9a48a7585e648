"""A hostile file is refused before it takes memory, and numbers that no float holds are refused where they stand."""

import gzip
import io
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy.sparse import issparse

from multimargin import datasets
from multimargin.datasets.formats import source
from multimargin.errors import FileFormatError, InputError


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.svm.gz", "a.csv.gz", "a.arff.gz", "a.xmc.gz", "a.npz.gz", "a.xml.gz"])
def test_a_file_that_decompresses_without_end_is_left_early(put, name):
    path = bomb = put(name, gzip.compress(b" " * (1 << 26), 1))
    labels = None
    if name == "a.xml.gz":
        path, labels = put("a.arff", "@relation r\n"), bomb

    def refuse():
        with pytest.raises(FileFormatError, match=r"a\.\w+\.gz: .*at most 1048576 bytes, found .*max_bytes"):
            datasets.read(path, labels=labels, max_bytes=1 << 20)

    assert peak_of(refuse) < 8 << 20


def test_the_limit_holds_for_plain_files_and_is_the_users(put):
    text = "1 1:1\n" * 1000
    path = put("a.svm", text)
    with pytest.raises(FileFormatError, match=r"a\.svm: expected a content of at most 5999 bytes, found 6000"):
        datasets.read(path, max_bytes=len(text) - 1)
    with pytest.raises(FileFormatError, match=r"a\.svm:\d+: expected a table of at most 6000 bytes"):
        datasets.read(path, max_bytes=len(text))
    assert datasets.read(path, max_bytes=1 << 20).X.shape == (1000, 1)
    for wrong in (0, -1, 1.5, True, "1", 1 << 70):
        with pytest.raises(InputError, match="max_bytes must be"):
            datasets.read(path, max_bytes=wrong)


def test_the_default_limit_is_half_of_the_memory_of_machine_or_container(monkeypatch, put):
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    for limit, expected in (("max\n", 2_048_000), ("5000000\n", 2_048_000), ("1000000\n", 500_000)):
        monkeypatch.setattr(source, "_CONTAINER_LIMIT", put("memory.max", limit))
        assert source.allowed_bytes(None) == expected
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(source, "_CONTAINER_LIMIT", put("memory.max", limit).with_name("absent"))
    assert source.allowed_bytes(None) == 16 << 30


# A few bytes that ask for very much: (name, content, options, what the error says).
BLANK = "@relation r\n@attribute a numeric\n"
GREEDY = {
    "xmc labels": ("a.xmc", "1 4 2147483647\n0 1:1\n", {}, r"a\.xmc:1: expected at most .* 16777216 labels"),
    "xmc features": ("a.xmc", "1 2147483647 3\n0 1:1\n", {}, r"a\.xmc:1: expected at most 2147483646 features"),
    "xmc names": ("a.xmc", "1 4 16000000\n0 1:1\n", {}, r"a\.xmc: expected names of 16000000 labels"),
    "xmc rows": ("a.xmc", "9223372036854775807 4 3\n0 1:1\n", {}, r"a\.xmc:2: expected 9223372036854775807 rows"),
    "xmc overflow": ("a.xmc", "9223372036854775808 4 3\n0 1:1\n", {}, r"a\.xmc:1: "),
    "libsvm names": ("a.svm", "16777215 1:1\n", {}, r"a\.svm: expected names of 16777215 labels"),
    "libsvm feature": ("a.svm", "1 2147483646:1\n", {}, r"a\.svm:1: expected a feature below 2147483646"),
    "libsvm n_labels": ("a.svm", "1 1:1\n", {"n_labels": 2**31 - 1}, r"n_labels must be .*16777216.* got 2147483647"),
    "libsvm n_features": ("a.svm", "1 1:1\n", {"n_features": 2**31 - 1}, r"n_features must be .*2147483646"),
    "xmc n_labels": ("a.xmc", "1 4 3\n0 1:1\n", {"n_labels": 2**63}, r"n_labels must be"),
    "libsvm negative": ("a.svm", "1:1\n", {"n_labels": -1}, r"n_labels must be .*got -1"),
    "libsvm no number": ("a.svm", "1:1\n", {"n_features": 2.5}, r"n_features must be .*got 2\.5"),
    "meka count": ("a.arff", BLANK.replace(" r", " 'r: -C 999999999'") + "@data\n1\n", {}, r"a\.arff: .*got 999999999"),
    "meka long count": (
        "a.arff",
        BLANK.replace(" r", " 'r: -C 99999999999'") + "@data\n1\n",
        {},
        r"a\.arff: .*got 99999999999",
    ),
    # Each short row has a one for every attribute it does not mention.
    "sparse rows": (
        "a.arff",
        "@relation r\n" + "".join(f"@attribute c{k} {{x,y}}\n" for k in range(500)) + "@data\n" + "{}\n" * 2000,
        {"labels": []},
        r"a\.arff:\d+: expected a table of at most 1048576 bytes",
    ),
    # Each category of an attribute gives a column with the name of the attribute.
    "one-hot names": (
        "a.arff",
        f"@relation r\n@attribute {'n' * 20000} {{{','.join(map(str, range(1000)))}}}\n@data\n1\n",
        {"labels": []},
        r"a\.arff: expected names of columns of at most 1048576 bytes, found 20000000 bytes",
    ),
    "csv columns": ("a.csv", "a" + ",b" * 9000, {"labels": []}, r"a\.csv:1: expected a table of at most"),
    "arff columns": (
        "a.arff",
        "".join(f"@attribute a{k} real\n" for k in range(9000)),
        {"labels": []},
        r"a\.arff:2049: expected a table of at most",
    ),
}


@pytest.mark.parametrize("case", GREEDY)
def test_what_a_few_bytes_may_ask_for_is_bounded(put, case):
    name, content, options, message = GREEDY[case]
    path = put(name, content)

    def refuse():
        with pytest.raises(InputError, match=message):
            datasets.read(path, max_bytes=1 << 20, **options)

    assert peak_of(refuse) < 16 << 20


def npy(array, shape=None):
    made = io.BytesIO()
    np.save(made, array)
    content = made.getvalue()
    if shape is None:
        return content
    old = str(array.shape).encode()
    return content.replace(old + b", }" + b" " * (len(shape) - len(old)), shape + b", }")


def archive(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return path


def test_archives_hold_what_they_announce(tmp_path):
    good = {"X": npy(np.eye(2)), "Y": npy(np.eye(2, dtype=int))}
    csr = {"X_data": npy(np.ones(1)), "X_indices": npy(np.array([0])), "X_indptr": npy(np.array([0, 1, 1]))}
    only_Y = {"Y": good["Y"]}
    csr_Y = {key.replace("X", "Y"): value for key, value in csr.items()}
    for members, message in [
        (good | {"X": npy(np.eye(2), b"(99999999999, 2)")}, r"X\.npy announces shape \(99999999999, 2\)"),
        (good | {"X": npy(np.zeros((2, 1 << 20)))}, r"a\.npz: expected arrays of at most 1048576 bytes"),
        (only_Y | csr | {"X_shape": npy(np.array([2, 2**40]))}, r"X must have at most 2147483646 columns"),
        (only_Y | csr | {"X_indices": npy(np.array([2**40]))}, r"X must have at most 2147483646 columns"),
        ({"X": good["X"]} | csr_Y | {"Y_shape": npy(np.array([2, 2**30]))}, r"Y must have at most 16777216 columns"),
        ({"X": good["X"]} | csr_Y | {"Y_shape": npy(np.array([2, 2**20]))}, r"names of 1048576 labels"),
        (good | {"X": b"no array"}, r"expected an \.npz archive"),
        (good | {"label_names": npy(np.array(["a", "b"])).replace(b"a\0\0\0", b"a\0\0\1")}, "label_names must be text"),
    ]:
        path = archive(tmp_path / "a.npz", members)
        with pytest.raises(FileFormatError, match=message):
            datasets.read(path, max_bytes=1 << 20)


def test_a_parquet_table_of_few_bytes_and_many_rows_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {"a": np.zeros(100_000), "l": np.zeros(100_000), "text": ["long " * 100] * 100_000}
    parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(FileFormatError, match=r"a\.parquet: expected a table of at most 1048576 bytes, found 1600000"):
        datasets.read(path, labels=["l"], ignore=["text"], max_bytes=1 << 20)
    assert datasets.read(path, labels=["l"], ignore=["text"], max_bytes=1_600_000).X.shape == (100_000, 1)


LARGE = ["1e400", "-1e400", "1" * 400, "1" * 400 + "e-50", "1e99999999999999999999", "inf", "-inf", "1e+309"]
TINY = ["1e-400", "-1e-400", "0." + "0" * 400 + "1", "0." + "0" * 400 + "1e50", "1e-99999999999999999999", "0e999"]


@pytest.mark.parametrize("number", LARGE)
def test_a_number_that_no_double_holds_is_told_with_line_and_column(put, number):
    seen = number[:40].replace("+", r"\+")
    for path, options, message in [
        (put("a.csv", f"a,b,l\n1,2,0\n1,{number},0\n"), {"labels": ["l"]}, rf"a\.csv:3: .*finite .*'b', found '{seen}"),
        (put("a.arff", f"{BLANK}@data\n1\n{number}\n"), {"labels": []}, rf"a\.arff:5: .*finite .*'a', found '{seen}"),
        (
            put("b.arff", f"{BLANK}@data\n{{0 {number}}}\n"),
            {"labels": []},
            rf"b\.arff:4: .*finite .*'a', found '{seen}",
        ),
        (put("a.svm", f"1 1:1\n1 7:{number}\n"), {}, r"a\.svm:2: .*finite value, found '7:"),
        (put("a.xmc", f"1 8 2\n1 7:{number}\n"), {}, r"a\.xmc:2: .*finite value, found '7:"),
    ]:
        with pytest.raises(FileFormatError, match=message):
            datasets.read(path, **options)


@pytest.mark.parametrize("number", TINY)
def test_a_number_too_small_for_a_double_is_zero(put, number):
    assert datasets.read(put("a.csv", f"a,l\n{number},0\n"), labels=["l"]).X.tolist() == [[float(number)]] == [[0.0]]


def test_numbers_around_the_limits_of_double_are_those_of_python(put):
    numbers = ["1.7976931348623157e308", "4.9e-324", "2.2250738585072011e-308", "1" + "0" * 308, "1" * 400 + "e-400"]
    data = datasets.read(put("a.csv", "a,l\n" + "".join(f"{number},0\n" for number in numbers)), labels=["l"])
    assert data.X.ravel().tolist() == [float(number) for number in numbers]


def test_float32_refuses_what_it_cannot_hold(put, tmp_path):
    np.savez(tmp_path / "a.npz", X=[[1.0, 2.0], [3.0, -1e39]], Y=[[1], [0]])
    for path, options in [
        (put("a.csv", "a,b,l\n1,2,0\n3,-1e39,0\n"), {"labels": ["l"]}),
        (put("a.svm", "1 1:1 2:2\n1 1:3 2:-1e39\n"), {}),
        (tmp_path / "a.npz", {}),
    ]:
        with pytest.raises(
            FileFormatError, match=r"float32 can hold, found -1e\+39 in row 2, column 2 of X; .*float64"
        ):
            datasets.read(path, dtype=np.float32, **options)
        X = datasets.read(path, **options).X
        assert (X.toarray() if issparse(X) else X)[1, 1] == -1e39


def test_parquet_float32_refuses_what_it_cannot_hold(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"a": [1.0, 1e39], "l": [0, 1]}), tmp_path / "a.parquet")
    with pytest.raises(FileFormatError, match=r"column 'a', found 1e\+39, which float32 cannot hold, in row 2"):
        datasets.read(tmp_path / "a.parquet", labels=["l"], dtype=np.float32)


def test_archives_tell_where_a_number_is_wrong_and_sum_in_double(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=[[1.0, 2.0], [3.0, np.nan]], Y=[[1], [0]])
    with pytest.raises(FileFormatError, match="found nan in row 2, column 2; .*missing"):
        datasets.read(path)
    csr = {"X_data": np.array([1.0, np.inf]), "X_indices": np.array([0, 4]), "X_indptr": np.array([0, 0, 2])}
    np.savez(path, **csr, Y=[[1], [0]])
    with pytest.raises(FileFormatError, match="found inf in row 2, column 5"):
        datasets.read(path)
    # Cells given twice are added; in int8 100 + 100 would be -56.
    twice = {"X_data": np.array([100, 100], dtype=np.int8), "X_indices": np.array([0, 0]), "X_indptr": np.array([0, 2])}
    for dtype in (np.int8, np.float16, np.longdouble, ">f8", ">i4"):
        np.savez(path, **twice | {"X_data": twice["X_data"].astype(dtype)}, Y=[[1]])
        X = datasets.read(path).X
        assert X.toarray().tolist() == [[200.0]]
        assert X.dtype == np.float64
        once = twice | {"X_data": twice["X_data"].astype(dtype), "X_indices": np.array([0, 1])}
        np.savez(path, **once, Y=[[1]])
        assert datasets.read(path).X.toarray().tolist() == [[100.0, 100.0]]
