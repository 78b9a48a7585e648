"""Labels come in a type that neither overflows nor confuses scikit-learn."""

import io

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from sklearn.utils import Bunch

from multimargin import datasets
from multimargin.datasets import catalogue

N, D, L = 300, 5, 150


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((N, D)), 3)
    Y = (X @ rng.standard_normal((D, L)) + rng.standard_normal((N, L)) > rng.standard_normal(L)).astype(int)
    return X, Y


def write_arff(path, X, Y):
    header = "".join(f"@attribute f{j} numeric\n" for j in range(D)) + "".join(
        f"@attribute l{k} {{0,1}}\n" for k in range(L)
    )
    rows = "".join(",".join(map(str, [*x, *y])) + "\n" for x, y in zip(X, Y, strict=True))
    path.write_text(f"@relation 'r: -C -{L}'\n{header}@data\n{rows}")


def write_sparse(path, X, Y, header=""):
    def row(x, y):
        labels = ",".join(str(k) for k in np.flatnonzero(y))
        return labels + "".join(f" {j}:{v}" for j, v in enumerate(x)) + "\n"

    path.write_text(header + "".join(row(x, y) for x, y in zip(X, Y, strict=True)))


def write_csv(path, X, Y):
    header = ",".join([*(f"f{j}" for j in range(D)), *(f"l{k}" for k in range(L))])
    path.write_text(header + "\n" + "".join(",".join(map(str, [*x, *y])) + "\n" for x, y in zip(X, Y, strict=True)))


def write_npz(path, X, Y, dtype):
    np.savez(path, X=X, Y=Y.astype(dtype))


def write_csr_npz(path, X, Y):
    Y = csr_matrix(Y, dtype=np.int8)
    np.savez(path, X=X, Y_data=Y.data, Y_indices=Y.indices, Y_indptr=Y.indptr, Y_shape=Y.shape)


def write_parquet(path, X, Y):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"f{j}": x for j, x in enumerate(X.T)} | {f"l{k}": y.astype(np.int8) for k, y in enumerate(Y.T)}
    made = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), made)
    path.write_bytes(made.getvalue())


WRITERS = {
    "a.arff": write_arff,
    "a.svm": write_sparse,
    "a.xmc": lambda path, X, Y: write_sparse(path, X, Y, f"{N} {D} {L}\n"),
    "a.csv": write_csv,
    "int8.npz": lambda path, X, Y: write_npz(path, X, Y, np.int8),
    "bool.npz": lambda path, X, Y: write_npz(path, X, Y, bool),
    "float.npz": lambda path, X, Y: write_npz(path, X, Y, np.float32),
    "csr.npz": write_csr_npz,
    "a.parquet": write_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_reader_gives_int64_labels_that_can_be_counted(name, truth, tmp_path):
    X, Y = truth
    path = tmp_path / name
    WRITERS[name](path, X, Y)
    data = datasets.read(path, **{"labels": -L} if name in ("a.csv", "a.parquet") else {})
    assert data.Y.dtype == np.int64
    np.testing.assert_array_equal(data.Y.toarray(), Y)
    sets = [set(map(int, np.flatnonzero(column))) for column in Y.T]
    together = [[len(a & b) for b in sets] for a in sets]
    assert max(map(max, together)) > 127
    np.testing.assert_array_equal((data.Y.T @ data.Y).toarray(), together)
    np.testing.assert_array_equal(data.Y.toarray().T @ data.Y.toarray(), together)


def test_one_machine_per_label_is_the_machine_of_that_label(truth, tmp_path):
    X, Y = truth
    path = tmp_path / "a.svm"
    write_sparse(path, X, Y)
    data = datasets.read(path)
    for labels in (data.Y, data.Y.toarray()):
        together = OneVsRestClassifier(LinearSVC(dual=False)).fit(data.X, labels).predict(data.X)
        together = together.toarray() if issparse(together) else together
        for k in (0, 1, 127, 128, 129, L - 1):
            alone = LinearSVC(dual=False).fit(data.X, Y[:, k]).predict(data.X)
            np.testing.assert_array_equal(together[:, k], alone)


def put_catalogue(folder):
    """Small files of every kind the catalogue reads, under names of its sets."""
    rng = np.random.default_rng(0)
    scene, mill, rcv1, eurlex, awa = (folder / p for p in ("mulan/scene", "mediamill", "rcv1", "eurlex-4k", "awa"))
    for place in (scene, mill, rcv1, eurlex, awa):
        place.mkdir(parents=True)
    xml = '<labels><label name="l"/><label name="m"/></labels>'
    (scene / "scene.xml").write_text(xml)
    (mill / "mediamill.xml").write_text(xml)
    header = "@relation r\n@attribute a numeric\n@attribute l {0,1}\n@attribute m {0,1}\n@data\n"
    Y = np.array([[1, 0], [0, 1]], dtype=np.int8)
    both = {}
    X = csr_matrix(rng.random((2, 3)))
    for split in ("train", "test"):
        (scene / f"scene-{split}.arff").write_text(header + "1,1,0\n2,0,1\n")
        (eurlex / f"eurlex_{split}.txt").write_text("2 4 2\n0 1:1\n1 2:1\n")
        both |= {f"X_{split}_data": X.data, f"X_{split}_indices": X.indices, f"X_{split}_indptr": X.indptr}
        both[f"Y_{split}"] = Y
    np.savez(rcv1 / "rcv1sub1_repaired.npz", shape=np.array([2, 3]), **both)
    np.savez(mill / "mediamill.npz", X_train=np.eye(2), Y_train=Y, X_test=np.eye(2), Y_test=Y)
    np.savez(awa / "phog.npz", X=np.eye(2), class_index=np.array([0, 1]))
    (awa / "classes.txt").write_text("1 cat\n2 dog\n")
    (awa / "predicates.txt").write_text("1 furry\n2 barks\n")
    (awa / "predicate-matrix-binary.txt").write_text("1 0\n1 1\n")
    (awa / "predicate-matrix-continuous.txt").write_text("9.0 -1\n8.0 7.0\n")
    (awa / "trainclasses.txt").write_text("cat\n")
    (awa / "testclasses.txt").write_text("dog\n")


@pytest.mark.parametrize("name", ["scene", "mediamill", "rcv1", "eurlex-4k", "awa"])
def test_the_catalogue_gives_int64_labels(name, tmp_path):
    put_catalogue(tmp_path)
    data = datasets.load(name, data_home=tmp_path, download=False)
    assert data.Y_train.dtype == data.Y_test.dtype == np.int64
    assert name != "awa" or data.signatures.dtype == np.int64


def test_downloaded_embedded_and_synthetic_labels_are_int64(tmp_path, monkeypatch):
    marks = np.random.default_rng(0).choice(np.array(["FALSE", "TRUE"], dtype=object), size=(593, 6))
    names = {"target_names": list("abcdef"), "feature_names": [f"f{j}" for j in range(72)]}
    monkeypatch.setattr(catalogue, "fetch_openml", lambda **_: Bunch(data=np.zeros((593, 72)), target=marks, **names))
    fetched = datasets.load("emotions", data_home=tmp_path)
    digits, strips = datasets.load_digit_attributes(), datasets.load_digit_strips(30)
    for Y in (
        *(fetched.Y_train, fetched.Y_test),
        *(digits.Y, digits.signatures),
        *(strips.Y_train, strips.Y_test),
        datasets.make_clique_labels(20, random_state=0).Y,
    ):
        assert Y.dtype == np.int64
    np.testing.assert_array_equal(digits.Y.T @ digits.Y, digits.Y.astype(object).T @ digits.Y.astype(object))
