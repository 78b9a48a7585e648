"""What is written in a format is read back exactly; damaged files give data or a clear error."""

import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix, issparse

from multimargin import datasets
from multimargin.errors import FileFormatError

# Writers: (X, Y, feature names, label names) -> the text of a file.


def quoted(name):
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def arff_header(relation, features, labels):
    lines = [f"@RELATION {relation}", "% a comment", ""]
    lines += [f"@attribute {quoted(name)} numeric" for name in features]
    lines += [f"@attribute {quoted(name)} {{0,1}}" for name in labels]
    return "\n".join([*lines, "@data", ""])


def write_arff(X, Y, features, labels):
    rows = ["".join(f"{float(v)!r}, " for v in x) + ",".join(str(v) for v in y) for x, y in zip(X, Y, strict=True)]
    return arff_header(f"'made: -C -{len(labels)}'", features, labels) + "\n".join(rows) + "\n"


def write_sparse_arff(X, Y, features, labels):
    rows = []
    for x, y in zip(X, Y, strict=True):
        cells = [f"{j} {float(v)!r}" for j, v in enumerate(x) if v != 0]
        cells += [f"{len(features) + j} 1" for j in np.flatnonzero(y)]
        rows.append("{" + ",".join(cells) + "}")
    return arff_header(f"'made: -C -{len(labels)}'", features, labels) + "\n".join(rows)


def sparse_row(x, y, base, label_base):
    labels = ",".join(str(k + label_base) for k in np.flatnonzero(y))
    return labels + "".join(f" {j + base}:{float(v)!r}" for j, v in enumerate(x) if v != 0)


def write_libsvm(X, Y, base, label_base):
    rows = [sparse_row(x, y, base, label_base) for x, y in zip(X, Y, strict=True)]
    # A row with neither labels nor features would be an empty line, which LIBSVM cannot express.
    return "".join(f"{row if row else f' {base}:0'} # note\n" for row in rows)


def write_xmc(X, Y):
    rows = [sparse_row(x, y, 0, 0) for x, y in zip(X, Y, strict=True)]
    return f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n" + "".join(row + "\n" for row in rows)


def write_csv(X, Y, features, labels, delimiter=","):
    def cell(name):
        return '"' + name.replace('"', '""') + '"'

    lines = [delimiter.join(cell(name) for name in [*features, *labels])]
    for x, y in zip(X, Y, strict=True):
        lines.append(delimiter.join([*(repr(float(v)) for v in x), *(str(v) for v in y)]))
    return "\r\n".join(lines) + "\r\n"


names = st.text(
    st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"], blacklist_characters="\x85"),
    min_size=1,
    max_size=8,
)
values = st.one_of(st.just(0.0), st.floats(allow_nan=False, allow_infinity=False))


@st.composite
def data_sets(draw):
    n, d, n_labels = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    X = draw(arrays(np.float64, (n, d), elements=values))
    Y = draw(arrays(np.int8, (n, n_labels), elements=st.integers(0, 1)))
    every = draw(st.lists(names, min_size=d + n_labels, max_size=d + n_labels, unique=True))
    return X, Y, every[:d], every[d:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def put(folder, name, text):
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
    return path


def same(data, X, Y, features=None, labels=None):
    found = data.X.toarray() if issparse(data.X) else data.X
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(data.Y.toarray(), Y)
    assert data.Y.dtype == np.int64
    assert isinstance(data.Y, csr_matrix)
    if features is not None:
        assert data.feature_names == tuple(features)
    if labels is not None:
        assert data.label_names == tuple(labels)


@settings(deadline=None, max_examples=80)
@given(made=data_sets(), ending=st.sampled_from([".arff", ".arff.gz"]))
def test_arff_dense_and_sparse_read_back(folder, made, ending):
    X, Y, features, labels = made
    dense = datasets.read(put(folder, "dense" + ending, write_arff(*made)))
    sparse = datasets.read(put(folder, "sparse" + ending, write_sparse_arff(*made)))
    same(dense, X, Y, features, labels)
    same(sparse, X, Y, features, labels)
    assert not issparse(dense.X)
    assert issparse(sparse.X)
    reversed_labels = datasets.read(folder / ("dense" + ending), labels=labels[::-1])
    same(reversed_labels, X, Y[:, ::-1], features, labels[::-1])


@settings(deadline=None, max_examples=80)
@given(made=data_sets(), base=st.integers(0, 1), label_base=st.integers(0, 1), gz=st.sampled_from(["", ".gz"]))
def test_libsvm_reads_back(folder, made, base, label_base, gz):
    X, Y, _, _ = made
    path = put(folder, "data.svm" + gz, write_libsvm(X, Y, base, label_base))
    options = {"zero_based": base == 0, "labels_zero_based": label_base == 0}
    data = datasets.read(path, n_features=X.shape[1], n_labels=Y.shape[1], **options)
    same(data, X, Y, labels=[str(k + label_base) for k in range(Y.shape[1])])


@settings(deadline=None, max_examples=80)
@given(made=data_sets(), gz=st.sampled_from(["", ".gz"]))
def test_xmc_reads_back(folder, made, gz):
    X, Y, _, labels = made
    path = put(folder, "data.txt" + gz, write_xmc(X, Y))
    same(datasets.read(path), X, Y)
    same(datasets.read(path, labels=labels), X, Y, labels=labels)


@settings(deadline=None, max_examples=80)
@given(made=data_sets(), delimiter=st.sampled_from([",", ";", "\t"]), gz=st.sampled_from(["", ".gz"]))
def test_csv_reads_back(folder, made, delimiter, gz):
    X, Y, features, labels = made
    path = put(folder, "data.csv" + gz, write_csv(*made, delimiter=delimiter))
    # The reader trims blanks around names only outside quotes, so names come back exactly.
    same(datasets.read(path, labels=labels, delimiter=delimiter), X, Y, features, labels)
    same(datasets.read(path, labels=-len(labels), delimiter=delimiter), X, Y, features, labels)


@settings(deadline=None, max_examples=30)
@given(made=data_sets())
def test_npz_dense_and_csr_read_back(folder, made):
    X, Y, features, labels = made
    np.savez(folder / "dense.npz", X=X, Y=Y, label_names=labels, feature_names=features)
    same(datasets.read(folder / "dense.npz", labels=labels), X, Y)
    parts = {}
    for key, matrix in (("X_train", csr_matrix(X)), ("Y_train", csr_matrix(Y))):
        for part in ("data", "indices", "indptr", "shape"):
            parts[f"{key}_{part}"] = getattr(matrix, part)
    np.savez(folder / "sparse.npz", **parts)
    same(datasets.read(folder / "sparse.npz", split="train"), X, Y)


@settings(deadline=None, max_examples=20)
@given(made=data_sets(), gz=st.sampled_from(["", ".gz"]))
def test_parquet_reads_back(folder, made, gz):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
    parquet = pytest.importorskip("pyarrow.parquet")
    X, Y, features, labels = made
    columns = dict(zip([*features, *labels], [*X.T, *Y.T.astype(bool)], strict=True))
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    path = put(folder, "data.parquet" + gz, buffer.getvalue())
    same(datasets.read(path, labels=labels), X, Y, features, labels)


@settings(deadline=None, max_examples=40)
@given(made=data_sets())
def test_options_of_training_read_the_test_file_alike(folder, made):
    X, Y, *_ = made
    for name, text in (
        ("a.arff", write_arff(*made)),
        ("b.arff", write_sparse_arff(*made)),
        ("c.svm", write_libsvm(X, Y, 1, 0)),
        ("d.xmc", write_xmc(X, Y)),
    ):
        path = put(folder, name, text)
        first = datasets.read(path)
        again = datasets.read(path, **first.options)
        assert again.label_names == first.label_names
        assert abs(again.X - first.X).sum() == 0
        assert (again.Y != first.Y).nnz == 0


VALID = {
    "fuzz.arff": (
        b"@relation 'f: -C 2'\n@attribute l1 {0,1}\n@attribute 'l 2' {1,0}\n@attribute a numeric\n"
        b"@attribute c {red,'dark blue',green}\n@data\n1,0,0.5,red\n0,1,-2e3,'dark blue'\n1,1,0,green\n"
    ),
    "fuzz_sparse.arff": (
        b"@relation 'f: -C -2'\n@attribute a numeric\n@attribute c {x,y}\n@attribute l1 {0,1}\n"
        b"@attribute l2 {0,1}\n@data\n{0 1.5,2 1}\n{1 y, 3 1}\n{}\n"
    ),
    "fuzz.svm": b"1,3 1:0.5 7:2\n2 3:1e-3 # note\n\n 5:1\n",
    "fuzz.xmc": b"3 8 4\n1,3 0:0.5 7:2\n2 3:1e-3\n 5:1\n",
    "fuzz.csv": b'a,"b ""x""",l1,l2\n0.5,1,1,0\n"2",-3e2,0,true\n',
}


@st.composite
def damaged(draw, original):
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["change", "insert", "delete", "repeat", "cut"]))
        some = draw(
            st.one_of(
                st.binary(max_size=3),
                st.sampled_from(list(b" ,:{}'\"\n\t@%#?\\0199-e.nai")).map(lambda b: bytes([b])),
            )
        )
        if kind == "change":
            data[at : at + len(some)] = some
        elif kind == "insert":
            data[at:at] = some
        elif kind == "delete":
            del data[at : at + draw(st.integers(1, 10))]
        elif kind == "repeat":
            data[at:at] = data[at : at + draw(st.integers(1, 20))]
        else:
            del data[at:]
    return bytes(data)


def read_or_none(path, **options):
    """Return the data, or None after an error that names the file; any other exception fails the test."""
    try:
        return datasets.read(path, **options)
    except FileFormatError as error:
        if not str(error).startswith(str(path)):
            raise
        return None


@pytest.mark.filterwarnings("ignore:.*is an index that pandas wrote")
@pytest.mark.parametrize("name", VALID)
@settings(deadline=None, max_examples=400)
@given(draw=st.data())
def test_damaged_text_gives_data_or_a_clear_error(folder, name, draw):
    path = put(folder, name, draw.draw(damaged(VALID[name])))
    data = read_or_none(path, labels=["l1", "l2"] if name.endswith("csv") else None)
    if data is not None:
        assert data.X.shape[0] == data.Y.shape[0] > 0
        values = data.X.data if issparse(data.X) else data.X
        assert np.isfinite(values).all()
        assert len(data.label_names) == data.Y.shape[1]


@settings(deadline=None, max_examples=150)
@given(draw=st.data())
def test_damaged_archives_give_data_or_a_clear_error(folder, draw):
    np.savez_compressed(folder / "whole.npz", X=np.eye(3), Y=[[1, 0], [0, 1], [1, 1]])
    text = gzip.compress(VALID["fuzz.xmc"], mtime=0)
    original, name = draw.draw(
        st.sampled_from([((folder / "whole.npz").read_bytes(), "broken.npz"), (text, "broken.xmc.gz")])
    )
    path = folder / name
    path.write_bytes(draw.draw(damaged(original)))
    data = read_or_none(path)
    assert data is None or data.X.shape[0] == data.Y.shape[0]
