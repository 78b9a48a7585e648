"""Tables as people have them: unknown labels, yes and no, decimal commas, an index, texts, records in JSON."""

import gzip
import json

import numpy as np
import pytest

from multimargin import datasets
from multimargin.errors import FileFormatError, InputError
from multimargin.labels import read_labels

NAN = np.nan
Y = [[1, NAN, 0], [NAN, 1, 1], [0, 0, NAN]]
MARKS = {0: "0", 1: "1"}


def unknown_files(tmp_path):
    """Write X = (0, 1, 2) beside the labels Y in every format that has unknown labels."""
    rows = [[MARKS.get(cell) for cell in row] for row in Y]

    def lines(unknown):
        return [",".join([str(k), *(unknown if cell is None else cell for cell in row)]) for k, row in enumerate(rows)]

    head = "@attribute a numeric\n" + "".join(f"@attribute {name} {{0,1}}\n" for name in "lmn")
    (tmp_path / "mulan.arff").write_text("@relation r\n" + head + "@data\n" + "\n".join(lines("?")))
    (tmp_path / "meka.arff").write_text("@relation 'r: -C -3'\n" + head + "@data\n" + "\n".join(lines("?")))
    sparse = ["{1 1, 2 ?}", "{0 1, 1 ?, 2 1, 3 1}", "{0 2, 3 ?}"]
    (tmp_path / "sparse.arff").write_text("@relation 'r: -C -3'\n" + head + "@data\n" + "\n".join(sparse))
    (tmp_path / "empty.csv").write_text("a,l,m,n\n" + "\n".join(lines("")))
    (tmp_path / "na.csv.gz").write_bytes(gzip.compress(("a,l,m,n\n" + "\n".join(lines("NA"))).encode()))
    words = str.maketrans({"1": "Yes", "0": "no"})
    answers = [
        f"{k}\t" + "\t".join("?" if c is None else c.translate(words) for c in row) for k, row in enumerate(rows)
    ]
    (tmp_path / "words.tsv").write_text("a\tl\tm\tn\n" + "\n".join(answers))
    records = [
        {"a": k, **{n: None if c != c else c for n, c in zip("lmn", row, strict=True)}} for k, row in enumerate(Y)
    ]
    (tmp_path / "list.json").write_text(json.dumps(records))
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, records)))
    np.savez(tmp_path / "dense.npz", X=np.arange(3.0)[:, None], Y=np.array(Y), label_names=list("lmn"))
    return [path for path in tmp_path.iterdir() if path.is_file()]


def test_unknown_labels_are_nan_in_every_format(tmp_path):
    paths = unknown_files(tmp_path)
    assert len(paths) == 9
    for path in paths:
        named = path.name not in ("meka.arff", "sparse.arff", "dense.npz")
        data = datasets.read(path, labels=list("lmn") if named else None)
        np.testing.assert_array_equal(data.Y.toarray(), Y, err_msg=path.name)
        np.testing.assert_array_equal(data.X.toarray() if path.name == "sparse.arff" else data.X, [[0], [1], [2]])
        assert data.description.endswith("cardinality 1.00, 3 unknown cells")
        labels = read_labels(data.Y)
        assert (labels.positives.nnz, labels.missing.nnz) == (3, 3)


def test_parquet_has_unknown_labels_words_lists_and_texts(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    content = {
        "a": [0.5, 1.5, 2.5],
        "l": [1, None, 0],
        "m": ["yes", "", "N"],
        "tags": [["sea", "sun"], [], None],
        "t": ["blue waves", None, "fog"],
    }
    parquet.write_table(pyarrow.table(content), path)
    data = datasets.read(path, labels=["l", "m"], ignore=["tags", "t"])
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 1], [NAN, NAN], [0, 0]])
    np.testing.assert_array_equal(data.X, [[0.5], [1.5], [2.5]])
    data = datasets.read(path, labels=["tags"], text="t")
    assert data.X.tolist() == ["blue waves", "", "fog"]
    assert data.label_names == ("sea", "sun")
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 1], [0, 0], [NAN, NAN]])
    parquet.write_table(pyarrow.table({"t": ["snow"], "tags": [["sun"]]}), path)
    again = datasets.read(path, **data.options)
    assert again.Y.toarray().tolist() == [[0, 1]]
    parquet.write_table(pyarrow.table({"t": ["snow"], "tags": [["moon"]]}), path)
    with pytest.raises(FileFormatError, match="one of the 2 known ones, found 'moon'"):
        datasets.read(path, **data.options)


@pytest.mark.parametrize("words", [("yes", "no"), ("Y", "N"), ("TRUE", "False"), ("1.0", "0"), ("y", "n")])
def test_labels_may_be_words(put, words):
    yes, no = words
    path = put("a.csv", f"a,l\n1,{yes}\n2,{no}\n")
    assert datasets.read(path, labels=["l"]).Y.toarray().ravel().tolist() == [1, 0]
    if yes != "1.0":
        head = f"@relation r\n@attribute a numeric\n@attribute l {{{no},{yes}}}\n@data\n"
        path = put("a.arff", f"{head}1,{yes}\n2,{no}\n")
        assert datasets.read(path, labels=["l"]).Y.toarray().ravel().tolist() == [1, 0]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_decimal_commas_are_read_where_they_separate_nothing(put, mark):
    rows = [["a", "b", "l"], ["0,5", "-1,25e2", "1"], ["3", "0", "0"]]
    data = datasets.read(put("a.csv", "\n".join(map(mark.join, rows))), labels=["l"])
    np.testing.assert_array_equal(data.X, [[0.5, -125.0], [3.0, 0.0]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;b;l\n0.5;1,234;1\n", r"a\.csv:2: expected one decimal mark in all numbers, '\.' as before, found '1,234'"),
        ("a;b;l\n1,5;2;1\n3;0.5;1\n", r"a\.csv:3: expected one decimal mark in all numbers, ',' as before"),
        ("a;b;l\n1,234,567;2;1\n", r"a\.csv:2: .*nothing between thousands"),
        ('a,b,l\n"1,234",2,1\n', r"a\.csv:2: .*nothing between thousands"),
        ("a,b,l\n1,5,0,1\n", r"a\.csv:2: expected 3 cells.*found 4; numbers with decimal commas need semicolons"),
        ("a,b,l\nx,2,1\n", r"a\.csv:2: .*ignore=\['a'\]"),
        ("a,,l\n1,2,1\n", r"a\.csv:1: expected a name for column 2"),
    ],
)
def test_numbers_that_could_mean_two_things_are_refused(put, content, message):
    with pytest.raises(FileFormatError, match=message):
        datasets.read(put("a.csv", content), labels=["l"])


def test_the_index_of_pandas_is_left_out_and_said(put):
    first = put("a.csv", ",a,l\n0,5,1\n1,6,0\n")
    with pytest.warns(UserWarning, match=r"'Unnamed: 0' is an index .*ignore=\['Unnamed: 0'\]"):
        data = datasets.read(first, labels=["l"])
    assert (data.feature_names, data.X.tolist()) == (("a",), [[5.0], [6.0]])
    for options in ({"labels": 1}, {"labels": -1, "ignore": ["Unnamed: 0"]}):
        saved_twice = put(
            "b.csv", "Unnamed: 0,l,a\n7,1,5\n3,0,6\n" if options["labels"] > 0 else ",a,l\n7,5,1\n3,6,0\n"
        )
        if "ignore" in options:
            counted = datasets.read(saved_twice, **options)
        else:
            with pytest.warns(UserWarning, match="index"):
                counted = datasets.read(saved_twice, **options)
        assert counted.label_names == ("l",)
        assert counted.X.tolist() == [[5.0], [6.0]]
    # the same way without a word, also where there is no index
    assert datasets.read(first, **data.options).X.tolist() == data.X.tolist()
    assert datasets.read(put("c.csv", "a,l\n5,1\n"), **data.options).X.tolist() == [[5.0]]
    with pytest.raises(FileFormatError, match="no column 'index'"):
        datasets.read(first, labels=["l"], ignore=["index"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'id,l,words,m\nx,1,"Blue, ""deep"" sea\nand sun",0\ny,0,,?\n'),
        (
            "a.arff",
            "@relation r\n@attribute id string\n@attribute l {0,1}\n@attribute words string\n@attribute m {0,1}\n"
            "@data\nx,1,'Blue, \\\"deep\\\" sea\nand sun',0\ny,0,'',?\n",
        ),
        (
            "a.jsonl",
            json.dumps({"id": "x", "l": 1, "words": 'Blue, "deep" sea\nand sun', "m": 0})
            + "\n\n"
            + json.dumps({"id": "y", "l": 0, "m": None}),
        ),
    ],
)
def test_a_column_of_texts_is_x(put, name, content):
    if name.endswith("arff"):
        content = content.replace("sea\nand", "sea and")  # ARFF has no lines inside a value
    path = put(name, content)
    data = datasets.read(path, labels=["l", "m"], text="words")
    expected = 'Blue, "deep" sea\nand sun'.replace("\n", " " if name.endswith("arff") else "\n")
    assert data.X.tolist() == [expected, ""]
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0], [0, NAN]])
    assert data.feature_names is None
    assert "2 samples, texts, 2 labels" in data.description
    np.testing.assert_array_equal(datasets.read(path, **data.options).X, data.X)
    with pytest.raises(FileFormatError, match=r"column of texts.*no column 'word'; the columns are 'id'"):
        datasets.read(path, labels=["l", "m"], text="word")
    with pytest.raises(InputError, match="either a label or the text"):
        datasets.read(path, labels=["l", "m"], text="l")


def test_records_without_a_key_or_with_lists(put):
    path = put("a.json", '[{"a": 1, "tags": ["x"]}, {"tags": ["z", "x"], "b": true}, {"a": 2.5, "b": 0}]')
    with pytest.raises(FileFormatError, match="missing value in record 2"):
        datasets.read(path, labels=["tags"])
    data = datasets.read(path, labels=["tags"], missing="nan")
    np.testing.assert_array_equal(data.X, [[1, NAN], [NAN, 1], [2.5, 0]])
    assert data.feature_names == ("a", "b")
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0], [1, 1], [NAN, NAN]])
    path = put("b.data", '{"a": 3, "b": 1}\n')  # known by its content, and without labels
    bare = datasets.read(path, need_labels=False, **data.options)
    assert (bare.X.tolist(), bare.Y.shape) == ([[3.0, 1.0]], (1, 0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": {"0": 1}, "l": {"0": 1}}', "one object of columns; .*orient='records'"),
        ("[1, 2]", r"expected an object .* as record 1, found 1"),
        ('[{"a": 1, "l": 1}', r"a\.json:1: expected records in JSON"),
        ('{"a": 1, "l": 1}\n{"a": 1,', r"a\.json:2: expected records in JSON"),
        ("[]", "found none"),
        ('[{"a": "x", "l": 1}]', r"found 'x' in record 1; .*ignore=\['a'\]"),
        ('[{"a": 1e999, "l": 1}]', "finite number in 'a'"),
        ('[{"a": ' + "9" * 400 + ', "l": 1}]', "finite number in 'a'"),
        ('[{"a": 1, "l": 3}]', "label 'l', found 3 in row 1; make a column"),
        ('[{"a": 1, "l": -1}]', "write 0 for a label that is absent, and null"),
        ('[{"a": 1, "l": ["x", {}]}]', "expected a list of labels in 'l'"),
        ('[{"a": 1, "l": []}]', "found none in any row"),
        ('[{"a": 1, "l": ' + "[" * 100000 + "]" * 100000 + "}]", "expected records in JSON"),
    ],
)
def test_strange_records_are_refused(put, content, message):
    with pytest.raises(FileFormatError, match=message):
        datasets.read(put("a.json", content), labels=["l"])
