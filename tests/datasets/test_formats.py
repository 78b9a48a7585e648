"""What each format means, and what a malformed file is told."""

import gzip
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse

from multimargin import datasets
from multimargin.errors import FileFormatError, InputError

HEADER = "@relation r\n@attribute a numeric\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n"
LABELS = ["l1", "l2"]


def test_nominal_attributes_become_one_column_per_category(put):
    header = "@relation r\n@attribute c {red, 'dark blue', green}\n@attribute b {0,1}\n@attribute l {0,1}\n@data\n"
    dense = datasets.read(put("a.arff", header + "red,1,0\ngreen,0,1\n'dark blue',1,1\n"), labels=["l"])
    # In a sparse row an attribute that is not mentioned has its first category.
    sparse = datasets.read(put("b.arff", header + "{1 1}\n{0 green, 2 1}\n{0 'dark blue',1 1,2 1}\n"), labels=["l"])
    assert dense.feature_names == sparse.feature_names == ("c=red", "c=dark blue", "c=green", "b")
    expected = [[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1]]
    np.testing.assert_array_equal(dense.X.toarray(), expected)
    np.testing.assert_array_equal(sparse.X.toarray(), expected)
    assert (dense.Y != sparse.Y).nnz == 0


def test_a_sparse_label_declared_1_0_is_positive_unless_mentioned(put):
    header = "@relation r\n@attribute a numeric\n@attribute l {1,0}\n@attribute m {true,false}\n@data\n"
    text = header + "{0 2}\n{1 0,2 false}\n"
    data = datasets.read(put("a.arff", text), labels=-2)
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0]]


def test_labels_come_in_the_order_of_a_nested_xml_file(put):
    xml = put(
        "l.xml",
        '<?xml version="1.0"?><labels xmlns="http://mulan.sourceforge.net/labels">'
        '<label name="l2"><label name="l1"></label></label></labels>',
    )
    data = datasets.read(put("a.arff", HEADER + "0.5,1,0\n"), labels=xml)
    assert data.label_names == ("l2", "l1")
    assert data.Y.toarray().tolist() == [[0, 1]]


@pytest.mark.parametrize(("count", "names"), [(2, ("a", "b")), (-2, ("b", "c")), (-1, ("c",))])
def test_meka_count_is_of_the_first_or_the_last_attributes(put, count, names):
    attributes = "".join(f"@attribute {name} {{0,1}}\n" for name in "abc")
    data = datasets.read(put("a.arff", f"@relation 'x: -C {count} -split 3'\n{attributes}@data\n1,0,1\n"))
    assert data.label_names == names
    assert data.X.shape == (1, 3 - len(names))


def test_labels_given_override_a_stale_meka_count(put):
    text = HEADER.replace("@relation r", "@relation 'r: -C 1'") + "0.5,1,0\n"
    assert datasets.read(put("a.arff", text), labels=LABELS).label_names == ("l1", "l2")


@pytest.mark.parametrize("name", ["a.arff", "a.csv"])
def test_missing_features_are_an_error_or_nan(put, name):
    text = HEADER + "?,1,0\n1,0,1\n" if name == "a.arff" else "a,l1,l2\n,1,0\n1,0,1\n"
    path = put(name, text)
    with pytest.raises(FileFormatError, match='missing="nan"'):
        datasets.read(path, labels=LABELS)
    np.testing.assert_array_equal(datasets.read(path, labels=LABELS, missing="nan").X, [[np.nan], [1.0]])


def test_csv_reads_booleans_and_leaves_out_columns(put):
    path = put("a.csv", 'id,a,l\n"x, ""y""\nz",TRUE,false\nw,0.5,True\n')
    data = datasets.read(path, labels=["l"], ignore=["id"])
    assert data.X.tolist() == [[1.0], [0.5]]
    assert data.Y.toarray().tolist() == [[0], [1]]
    assert datasets.read(path, labels=[], ignore=["id", "l"]).Y.shape == (2, 0)


def test_libsvm_counts_from_zero_if_a_zero_occurs(put):
    one = datasets.read(put("a.svm", "1 1:1 3:2\n2 2:1\n"))
    zero = datasets.read(put("b.svm", "0 0:1 2:2\n1 1:1\n"))
    assert (one.X != zero.X).nnz == 0
    assert (one.Y != zero.Y).nnz == 0
    assert one.label_names == ("1", "2")
    assert zero.label_names == ("0", "1")


def test_libsvm_pads_to_the_features_of_training_and_refuses_more(put):
    train = datasets.read(put("train.svm", "0,1 0:1 4:1\n"))
    assert datasets.read(put("test.svm", "1 2:5\n"), **train.options).X.toarray().tolist() == [[0, 0, 5, 0, 0]]
    with pytest.raises(FileFormatError, match=r"more\.svm:2: expected features from 0 to 4 .* found feature 5"):
        datasets.read(put("more.svm", "1 0:5\n 5:1\n"), **train.options)
    with pytest.raises(FileFormatError, match=r"labels from 0 to 1 .* found label 2"):
        datasets.read(put("other.svm", "2 0:5\n"), **train.options)


def test_a_test_file_with_other_columns_is_refused(put):
    train = datasets.read(put("a.csv", "a,b,l\n1,2,1\n"), labels=["l"])
    assert datasets.read(put("b.csv", "b,a,l\n1,2,1\n"), **train.options).X.tolist() == [[2.0, 1.0]]
    with pytest.raises(FileFormatError, match="expected 2 features as asked for, found none called 'b'"):
        datasets.read(put("c.csv", "a,l\n1,1\n"), **train.options)
    with pytest.raises(
        FileFormatError, match="expected 2 features and no others, as asked for, found 'c', 'd'; .*ignore"
    ):
        datasets.read(put("d.csv", "c,a,b,d,l\n1,2,3,4,1\n"), **train.options)
    head = "@attribute a {x,y}\n@attribute b numeric\n@attribute l {0,1}\n@data\n"
    train = datasets.read(put("a.arff", f"@relation r\n{head}x,1,1\n"), labels=["l"])
    head = "@attribute b numeric\n@attribute a {x,y}\n@attribute l {0,1}\n@data\n"
    with pytest.raises(FileFormatError, match="expected feature 'a=x' as number 1, found 'b'"):
        datasets.read(put("b.arff", f"@relation r\n{head}1,x,1\n"), **train.options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("% weka\n" + HEADER.replace("@relation r", "@relation 'r: -C -2'") + "1,0,1\n", 2),
        ("1 4 3\n0,2 1:1\n", 3),
        ("0,2 1:1\n", 3),
        ("1:1 2:1\n", 0),
    ],
)
def test_the_content_tells_the_format_where_the_name_does_not(put, text, expected):
    assert datasets.read(put("data.txt", text)).Y.shape == (1, expected)
    assert datasets.read(put("data.gz", gzip.compress(text.encode()))).Y.shape == (1, expected)


def test_a_byte_order_mark_and_latin_1_names_are_read(put):
    data = datasets.read(put("a.csv", b"\xef\xbb\xbfa,caf\xe9\n1,0\n"), labels=["café"])
    assert data.feature_names == ("a",)


def test_float32_is_kept(put):
    assert datasets.read(put("a.svm", "0 1:0.1\n"), dtype=np.float32).X.dtype == np.float32


def test_mostly_nominal_attributes_give_a_sparse_matrix(put):
    text = "@relation r\n@attribute c {a,b,c}\n@attribute l {0,1}\n@data\nb,1\n"
    assert issparse(datasets.read(put("a.arff", text), labels=["l"]).X)


def test_numbers_of_every_writing(put):
    cells = ["+1.5", "1e3", "-2E-2", ".5", "3.", "1e-999", "007"]
    text = ",".join(f"c{k}" for k in range(len(cells))) + ",l\n" + ",".join(cells) + ",1\n"
    assert datasets.read(put("a.csv", text), labels=["l"]).X.tolist() == [[1.5, 1000.0, -0.02, 0.5, 3.0, 0.0, 7.0]]


XML = '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="l1"/><label name="{}"/></labels>'
MALFORMED = {
    # name of the case: (file, content, options, where and what the error says)
    "empty": ("a.arff", "", {}, r"a\.arff: .*empty"),
    "blank": ("a.svm", " \n\n", {}, r"a\.svm: .*empty"),
    "binary": ("a.svm", b"1 1:1\n\x00\x01", {}, r"a\.svm:2: .*binary"),
    "arff garbage": ("a.arff", "hello\n", {}, r"a\.arff:1: expected @relation, .*found 'hello'"),
    "arff without data": (
        "a.arff",
        "@relation r\n@attribute a numeric\n",
        {},
        r"a\.arff:2: expected a line @data",
    ),
    "arff header only": ("a.arff", HEADER, {"labels": LABELS}, r"a\.arff: expected rows"),
    "arff without labels": ("a.arff", HEADER + "1,0,1\n", {}, r"a\.arff: .*-C .*pass labels="),
    "arff count too large": ("a.arff", HEADER + "1,0,1\n", {"labels": 3}, r"a\.arff: .*from 1 to 2 .*got 3"),
    "arff short row": (
        "a.arff",
        HEADER + "1,0,1\n1,0\n",
        {"labels": LABELS},
        r"a\.arff:7: expected 3 values.*found 2",
    ),
    "arff long row": (
        "a.arff",
        HEADER + "1,0,1,1\n",
        {"labels": LABELS},
        r"a\.arff:6: expected 3 values.*found 4",
    ),
    "arff text": (
        "a.arff",
        HEADER + "one,0,1\n",
        {"labels": LABELS},
        r"a\.arff:6: .*number .*'a', found 'one'",
    ),
    "arff nan": ("a.arff", HEADER + "nan,0,1\n", {"labels": LABELS}, r"a\.arff:6: .*finite .*found 'nan'"),
    "arff inf": ("a.arff", HEADER + "-inf,0,1\n", {"labels": LABELS}, r"a\.arff:6: .*finite .*found '-inf'"),
    "arff too large": (
        "a.arff",
        HEADER + "1e999,0,1\n",
        {"labels": LABELS},
        r"a\.arff:6: .*finite .*found '1e999'",
    ),
    "arff label 2": (
        "a.arff",
        HEADER + "1,0,2\n",
        {"labels": LABELS},
        r"a\.arff:6: expected 0 or 1.* for label 'l2', found '2'; make a column of 0 and 1 for each value",
    ),
    "arff label -1": (
        "a.arff",
        HEADER + "1,0,-1\n",
        {"labels": LABELS},
        r"a\.arff:6: .*label 'l2', found '-1'; write 0 for a label that is absent",
    ),
    "arff index": ("a.arff", HEADER + "{3 1}\n", {"labels": LABELS}, r"a\.arff:6: .*below 3, found '3'"),
    "arff huge index": ("a.arff", HEADER + "{99999999999999999999 1}\n", {"labels": LABELS}, r"a\.arff:6: "),
    "arff twice in a row": ("a.arff", HEADER + "{0 1,0 2}\n", {"labels": LABELS}, r"a\.arff:6: .*once .*'a'"),
    "arff open brace": ("a.arff", HEADER + "{0 1\n", {"labels": LABELS}, r"a\.arff:6: expected '}'"),
    "arff mixed rows": ("a.arff", HEADER + "{0 1}\n1,0,1\n", {"labels": LABELS}, r"a\.arff:7: .*sparse row"),
    "arff same name": (
        "a.arff",
        "@relation r\n@attribute a numeric\n@attribute a numeric\n@data\n1,1\n",
        {},
        r"a\.arff:3: .*line 2",
    ),
    "arff string": (
        "a.arff",
        "@relation r\n@attribute t string\n@attribute l {0,1}\n@data\nx,1\n",
        {"labels": ["l"]},
        r"a\.arff:2: .*ignore=\['t'\]",
    ),
    "arff type": (
        "a.arff",
        "@relation r\n@attribute t number\n@data\n1\n",
        {},
        r"a\.arff:2: expected the type .*'number'",
    ),
    "arff category": (
        "a.arff",
        "@relation r\n@attribute c {x,y}\n@attribute l {0,1}\n@data\nz,1\n",
        {"labels": ["l"]},
        r"a\.arff:5: .*categories .*found 'z'",
    ),
    "arff category twice": (
        "a.arff",
        "@relation r\n@attribute c {x,x}\n@data\nx\n",
        {},
        r"a\.arff:2: .*different categories",
    ),
    "arff quote": ("a.arff", HEADER + "'1,0,1\n", {"labels": LABELS}, r"a\.arff:6: expected a closing quote"),
    "arff label categories": (
        "a.arff",
        "@relation r\n@attribute a numeric\n@attribute l {x,y}\n@data\n1,x\n",
        {"labels": ["l"]},
        r"a\.arff:3: expected 0 or 1.*'[xy]'; .*ignore=\['l'\]",
    ),
    "arff label absent": (
        "a.arff",
        HEADER + "1,0,1\n",
        {"labels": ["l1", "l9"]},
        r"a\.arff: .*no column 'l9'",
    ),
    "arff labels only": ("a.arff", HEADER + "1,0,1\n", {"labels": ["a", "l1", "l2"]}, r"a\.arff: .*feature"),
    "xml twice": ("a.arff", HEADER, {"labels": XML.format("l1")}, r"l\.xml: .*'l1' twice"),
    "xml absent": ("a.arff", HEADER, {"labels": XML.format("l9")}, r"a\.arff: .*no column 'l9'"),
    "xml bad": ("a.arff", HEADER, {"labels": "<labels>\n<label"}, r"l\.xml:2: .*XML"),
    "xml other": ("a.arff", HEADER, {"labels": "<html></html>"}, r"l\.xml: .*found none in <html>"),
    "xml nameless": ("a.arff", HEADER, {"labels": "<labels><label/></labels>"}, r"l\.xml: expected a name"),
    "libsvm comments": ("a.svm", "# nothing\n", {}, r"a\.svm: expected rows"),
    "libsvm label": ("a.svm", "1,x 1:1\n", {}, r"a\.svm:1: expected labels .*found '1,x'"),
    "libsvm minus one": ("a.svm", "-1 1:1\n", {}, r"a\.svm:1: expected labels .*found '-1'"),
    "libsvm label twice": ("a.svm", "1,1 1:1\n", {}, r"a\.svm:1: expected each label once"),
    "libsvm feature": ("a.svm", "1 1:1\n1 x:1\n", {}, r"a\.svm:2: expected <feature>:<value>, found 'x:1'"),
    "libsvm value": ("a.svm", "1 1:abc\n", {}, r"a\.svm:1: .*finite value, found '1:abc'"),
    "libsvm nan": ("a.svm", "1 1:nan\n", {}, r"a\.svm:1: .*finite value, found '1:nan'"),
    "libsvm no value": ("a.svm", "1 1:\n", {}, r"a\.svm:1: .*found '1:'"),
    "libsvm feature twice": ("a.svm", "1 1:1 1:2\n", {}, r"a\.svm:1: expected each feature once .*'1'"),
    "libsvm huge index": ("a.svm", "1 99999999999:1\n", {}, r"a\.svm:1: expected a feature below"),
    "libsvm huge label": ("a.svm", "99999999 1:1\n", {}, r"a\.svm:1: expected a label below"),
    "libsvm zero": ("a.svm", "1 1:1\n1 0:1\n", {"zero_based": False}, r"a\.svm:2: .*counted from 1"),
    "xmc header": ("a.xmc", "3 4\n", {}, r"a\.xmc:1: .*rows, features and labels"),
    "xmc long header": ("a.xmc", "1 4 3 2\n", {}, r"a\.xmc:1: expected three numbers"),
    "xmc no rows": ("a.xmc", "0 4 3\n", {}, r"a\.xmc:1: .*0 rows"),
    "xmc few rows": ("a.xmc", "3 4 3\n1 1:1\n", {}, r"a\.xmc:2: expected 3 rows .*found 1"),
    "xmc many rows": ("a.xmc", "1 4 3\n1 1:1\n1 1:1\n", {}, r"a\.xmc:3: expected the end .*1 rows"),
    "xmc feature": ("a.xmc", "1 4 3\n1 4:1\n", {}, r"a\.xmc:2: expected a feature below 4, found '4'"),
    "xmc label": ("a.xmc", "1 4 3\n3 1:1\n", {}, r"a\.xmc:2: expected a label below 3, found '3'"),
    "xmc other width": (
        "a.xmc",
        "1 4 3\n1 1:1\n",
        {"n_features": 5},
        r"a\.xmc: expected 5 features .*found 4",
    ),
    "csv header only": ("a.csv", "a,l\n", {"labels": ["l"]}, r"a\.csv: expected rows"),
    "csv no name": ("a.csv", "a,,l\n1,2,0\n", {"labels": ["l"]}, r"a\.csv:1: expected a name for column 2"),
    "csv same name": ("a.csv", "a,a,l\n1,2,0\n", {"labels": ["l"]}, r"a\.csv:1: .*different names .*'a'"),
    "csv ragged": ("a.csv", "a,l\n1,0\n1,0,1\n", {"labels": ["l"]}, r"a\.csv:3: expected 2 cells.*found 3"),
    "csv text": ("a.csv", "a,l\n1,0\nx,0\n", {"labels": ["l"]}, r"a\.csv:3: .*number .*found 'x'; .*ignore"),
    "csv inf": ("a.csv", "a,l\ninf,0\n", {"labels": ["l"], "missing": "nan"}, r"a\.csv:2: .*finite .*'inf'"),
    "csv quote": ("a.csv", 'a,l\n"1,0\n', {"labels": ["l"]}, r"a\.csv:2: expected a closing quote"),
    "csv after quote": ("a.csv", 'a,l\n"1"2,0\n', {"labels": ["l"]}, r"a\.csv:2: expected a delimiter"),
    "csv label": ("a.csv", "a,l\n1,7\n", {"labels": ["l"]}, r"a\.csv:2: expected 0 or 1.*found '7'"),
    "csv label absent": ("a.csv", "a,l\n1,1\n", {"labels": ["m"]}, r"a\.csv: .*no column 'm'"),
    "csv line after quoted lines": (
        "a.csv",
        'i,a,l\n"x\ny",1,0\nz,?,0\n',
        {"labels": ["l"], "ignore": ["i"]},
        r"a\.csv:4: ",
    ),
    "npz text": ("a.npz", "hello", {}, r"a\.npz: expected an \.npz archive"),
    "parquet text": ("a.parquet", "hello", {"labels": ["l"]}, r"a\.parquet: expected a Parquet file"),
    "gzip named": ("a.svm.gz", "1 1:1\n", {}, r"a\.svm\.gz: expected gzip data"),
    "gzip cut": (
        "a.svm.gz",
        gzip.compress(b"1 1:1\n" * 1000)[:-9],
        {},
        r"a\.svm\.gz: expected a complete gzip",
    ),
    "gzip flipped": (
        "a.svm.gz",
        gzip.compress(b"1 1:1\n")[:-8] + b"\0" * 8,
        {},
        r"a\.svm\.gz: expected a complete gzip",
    ),
    "unclear": ("a.data", "hello world\n", {}, r"a\.data: the format is not clear"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_file_is_told_where_and_why(put, case):
    name, content, options, message = MALFORMED[case]
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
    if isinstance(options.get("labels"), str):
        options = options | {"labels": put("l.xml", options["labels"])}
    path = put(name, content)
    with pytest.raises(InputError, match=message) as error:
        datasets.read(path, **options)
    assert error.value.__cause__ is None
    assert "\n" not in str(error.value)


def test_archives_are_checked(put, tmp_path):
    path = tmp_path / "a.npz"
    good = {"X": np.eye(2), "Y": np.eye(2, dtype=int)}
    csr = {
        "X_data": np.ones(1),
        "X_indices": np.array([5]),
        "X_indptr": np.array([0, 1, 1]),
        "X_shape": np.array([2, 3]),
    }
    cases = [
        ({"X": np.eye(2)}, "expected Y"),
        (good | {"Y": np.eye(3)}, "same number of rows"),
        (good | {"Y": 2 * np.eye(2)}, "0 and 1, or NaN for unknown labels, found 2"),
        (good | {"X": np.ones(2)}, "two-dimensional"),
        (good | {"X": np.array([["a", "b"], ["c", "d"]])}, "two-dimensional array of numbers"),
        (good | {"X": np.full((2, 2), np.nan)}, "finite"),
        (good | {"X": np.zeros((0, 2)), "Y": np.zeros((0, 2))}, "rows and columns"),
        (good | {"label_names": np.array(["a", "a"])}, "2 different names"),
        ({"Y": np.eye(2)} | csr, "must form a CSR matrix"),
        ({"Y": np.eye(2)} | csr | {"X_indices": np.array([0.5])}, "two arrays of integers"),
        ({"Y": np.eye(2)} | csr | {"X_indptr": np.array([0, 9, 1])}, "must form a CSR matrix"),
        ({"Y": np.eye(2)} | csr | {"X_shape": np.array([2])}, "must form a CSR matrix"),
        (good | {"X": np.array([[{}, 1], [1, 1]], dtype=object)}, "expected an .npz archive"),
    ]
    for content, message in cases:
        np.savez(path, **content)
        with pytest.raises(FileFormatError, match=message):
            datasets.read(path)
    np.savez(path, **good)
    with pytest.raises(FileFormatError, match="X_test"):
        datasets.read(path, split="test")
    with pytest.raises(FileFormatError, match="one label name per column"):
        datasets.read(path, labels=["a"])


def test_parquet_is_checked(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    good = {"a": [1.0, 2.0], "l": [0, 1]}
    for content, message in [
        (good | {"t": ["x", "y"]}, r"'t', found the type string; .*ignore"),
        (good | {"a": [1.0, None]}, r'missing value in row 2; pass missing="nan"'),
        (good | {"a": [1.0, np.inf]}, "infinite value in row 2"),
        (good | {"l": [0, 3]}, "expected 0 or 1.*found 3 in row 2"),
        ({"a": pyarrow.array([], "float64"), "l": pyarrow.array([], "int8")}, "expected rows"),
    ]:
        parquet.write_table(pyarrow.table(content), path)
        with pytest.raises(FileFormatError, match=message):
            datasets.read(path, labels=["l"])
    parquet.write_table(pyarrow.table(good | {"a": [1.0, None]}), path)
    np.testing.assert_array_equal(datasets.read(path, labels=["l"], missing="nan").X, [[1.0], [np.nan]])


def test_parquet_without_pyarrow_names_the_command(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'pip install "multimargin\[tables\]"'):
        datasets.read(put("a.parquet", b"PAR1"), labels=["l"])


def test_wrong_arguments_are_told(put, tmp_path):
    svm, csv = put("a.svm", "1 1:1\n"), put("a.csv", "a,l\n1,1\n")
    for call, message in [
        (lambda: datasets.read(tmp_path / "none.arff"), "no such file"),
        (lambda: datasets.read(tmp_path), "directory"),
        (lambda: datasets.read("a\0b.svm"), "cannot be opened"),
        (lambda: datasets.read(svm, format="excel"), "format must be one of arff, .*'excel'"),
        (lambda: datasets.read(svm, missing="nan"), "no option 'missing'; its options are"),
        (lambda: datasets.read(svm, labels=2), "pass n_labels=2"),
        (lambda: datasets.read(svm, zero_based="yes"), "zero_based must be"),
        (lambda: datasets.read(csv), r"labels=\[\.\.\.\]"),
        (lambda: datasets.read(csv, labels="l"), r"labels must be a Mulan \.xml file"),
        (lambda: datasets.read(csv, labels=True), "labels must be"),
        (lambda: datasets.read(csv, labels=[1]), "labels must be names"),
        (lambda: datasets.read(csv, labels=["l", "l"]), "'l' twice"),
        (lambda: datasets.read(csv, labels=["l"], ignore=["l"]), "'l' as both"),
        (lambda: datasets.read(csv, labels=["l"], ignore="a"), r"ignore=\['a'\]"),
        (lambda: datasets.read(csv, labels=["l"], ignore=["z"]), "no column 'z'"),
        (lambda: datasets.read(csv, labels=["l"], missing="zero"), 'missing must be "error" or "nan"'),
        (lambda: datasets.read(csv, labels=["l"], delimiter="||"), "delimiter must be one"),
    ]:
        with pytest.raises(InputError, match=message):
            call()


def unlabelled(folder, ending, label_names=()):
    """Write two rows with the features x and y, and with these labels."""
    columns = {"x": [0.5, 1.5], "y": [2.0, 3.0], **{name: [1, 0] for name in label_names}}
    path = folder / f"new.{ending}"
    rows = "\n".join(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
    if ending == "csv":
        path.write_text(f"{','.join(columns)}\n{rows}\n")
    elif ending == "arff":
        attributes = "\n".join(f"@attribute {name} numeric" for name in columns)
        path.write_text(f"@relation new\n{attributes}\n@data\n{rows}\n")
    else:
        pd.DataFrame(columns).to_parquet(path)
    return path


@pytest.mark.parametrize("ending", ["csv", "arff", "parquet"])
@pytest.mark.parametrize("labels", [["sea", "sun"], None])
def test_a_file_without_label_columns_is_features_only_if_allowed(tmp_path, ending, labels):
    path = unlabelled(tmp_path, ending)
    with pytest.raises(InputError):
        datasets.read(path, labels=labels)
    data = datasets.read(path, labels=labels, need_labels=False)
    np.testing.assert_array_equal(data.X, [[0.5, 2.0], [1.5, 3.0]])
    assert data.Y.shape == (2, 0)
    assert data.label_names == ()


@pytest.mark.parametrize("ending", ["csv", "arff", "parquet"])
def test_label_columns_that_are_there_are_labels_all_the_same(tmp_path, ending):
    path = unlabelled(tmp_path, ending, ["sea", "sun"])
    data = datasets.read(path, labels=["sun", "sea"], need_labels=False)
    assert (data.X.shape, data.label_names) == ((2, 2), ("sun", "sea"))
    with pytest.raises(FileFormatError, match="no column 'sky'"):
        datasets.read(path, labels=["sea", "sky"], need_labels=False)


def test_an_archive_without_labels_is_features_only_if_allowed(tmp_path):
    np.savez(tmp_path / "new.npz", X=np.eye(3))
    with pytest.raises(FileFormatError):
        datasets.read(tmp_path / "new.npz")
    data = datasets.read(tmp_path / "new.npz", labels=["sea", "sun"], need_labels=False)
    assert (data.X.shape, data.Y.shape, data.label_names) == ((3, 3), (3, 0), ())
