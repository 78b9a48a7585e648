"""The catalogue against the files, where they are, and against its promises where they are not."""

import os

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import Bunch

from multimargin import datasets
from multimargin.datasets import catalogue
from multimargin.errors import FileFormatError, InputError

NAMES = [facts.name for facts in datasets.available()]
RARE = {"rcv1-full", "tmc2007-full", "mirflickr", "pascal07", "apascal-ayahoo", "fmri-words"}  # who has the files
needs_data = pytest.mark.skipif(not os.environ.get("MULTIMARGIN_DATA"), reason="MULTIMARGIN_DATA is not set")


@needs_data
@pytest.mark.parametrize("name", NAMES)
def test_facts_hold(name):
    facts = next(facts for facts in datasets.available() if facts.name == name)
    if name in RARE and not facts.on_disk:
        pytest.skip(f"the files of {name} are not here")
    assert facts.on_disk
    data = datasets.load(name, download=False)
    assert data.X_train.shape == (facts.n_train, facts.n_features)
    assert data.X_test.shape == (facts.n_test, facts.n_features)
    assert data.Y_train.shape == (facts.n_train, facts.n_labels)
    assert data.Y_test.shape == (facts.n_test, facts.n_labels)
    for Y in (data.Y_train, data.Y_test):
        assert isinstance(Y, csr_matrix)
        assert Y.dtype == np.int64
        assert (Y.data == 1).all()
    ones = data.Y_train.nnz + data.Y_test.nnz
    if facts.cardinality is not None:
        assert ones / (facts.n_train + facts.n_test) == pytest.approx(facts.cardinality, abs=0.006)
    assert len(set(data.label_names)) == facts.n_labels
    assert data.feature_names is None or len(data.feature_names) == facts.n_features
    assert facts.about in data.description


@needs_data
@pytest.mark.parametrize(
    ("name", "without_label", "never_positive"),
    [
        ("delicious", 14, 0),
        ("mediamill", 1730, 0),
        ("corel5k", 0, 3),
        ("enron", 0, 1),
        ("medical", 0, 7),
        ("eurlex-4k", 34, 207),
    ],
)
def test_odd_things_are_as_told(name, without_label, never_positive):
    data = datasets.load(name, download=False)
    empty = sum(int((np.diff(Y.indptr) == 0).sum()) for Y in (data.Y_train, data.Y_test))
    assert empty == without_label
    assert int((data.Y_train.sum(axis=0) == 0).sum()) == never_positive


def rows(X):
    X = csr_matrix(X)
    bounds = zip(X.indptr, X.indptr[1:], strict=False)
    return [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in bounds]


@needs_data
@pytest.mark.parametrize(
    ("name", "repeated"),
    [("scene", 6), ("enron", 62), ("medical", 6), ("bibtex", 21), ("delicious", 871), ("tmc2007", 1220)],
)
def test_test_samples_with_the_features_of_a_training_sample_are_as_told(name, repeated):
    data = datasets.load(name, download=False)
    known = set(rows(data.X_train))
    assert sum(row in known for row in rows(data.X_test)) == repeated
    assert f"{repeated} test samples" in data.description


@needs_data
def test_animals_are_seen_or_unseen():
    data = datasets.load("awa")
    assert sorted([*data.seen, *data.unseen]) == list(range(50))
    assert set(data.class_train) == set(data.seen)
    assert set(data.class_test) == set(data.unseen)
    np.testing.assert_array_equal(data.Y_test.toarray(), data.signatures[data.class_test])
    known = ~np.isnan(data.association_strengths)
    # The binary matrix is the continuous one, thresholded at its mean.
    threshold = data.association_strengths[known].mean()
    agree = (data.association_strengths > threshold) == (data.signatures == 1)
    assert agree[known].mean() > 0.98


@needs_data
def test_pooled_rcv1_has_no_duplicates():
    data = datasets.load("rcv1-pooled")
    assert len({*rows(data.X_train), *rows(data.X_test)}) == 27613


def test_a_set_that_is_nowhere_says_what_to_put_where(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"MULTIMARGIN_DATA to a folder .*mulan/bibtex/bibtex-train\.arff"):
        datasets.load("bibtex", data_home=tmp_path)
    monkeypatch.delenv("MULTIMARGIN_DATA", raising=False)
    with pytest.raises(InputError, match=r"MULTIMARGIN_DATA is not set.*scene\.xml"):
        datasets.load("scene", download=False)
    with pytest.raises(InputError, match="does not exist"):
        datasets.load("scene", data_home=tmp_path / "none", download=False)
    assert not any(facts.on_disk for facts in datasets.available())


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(InputError, match="did you mean 'delicious'"):
        datasets.load("delicous")


def write_small(folder, name, rows):
    folder.mkdir(parents=True, exist_ok=True)
    header = "@relation r\n@attribute a numeric\n@attribute l {0,1}\n@data\n"
    (folder / name).write_text(header + rows)


def test_files_in_the_folder_come_first_and_must_be_complete(tmp_path, monkeypatch):
    def refuse(**_):
        pytest.fail("OpenML was asked")

    monkeypatch.setattr(catalogue, "fetch_openml", refuse)
    folder = tmp_path / "mulan" / "scene"
    write_small(folder, "scene-train.arff", "1,1\n2,0\n")
    write_small(folder, "scene-test.arff", "3,1\n")
    with pytest.raises(InputError, match=r"holds mulan/scene/scene\.xml"):
        datasets.load("scene", data_home=tmp_path)
    (folder / "scene.xml").write_text('<labels><label name="l"/></labels>')
    data = datasets.load("scene", data_home=tmp_path)
    assert data.X_test.tolist() == [[3.0]]
    assert data.Y_train.toarray().tolist() == [[1], [0]]


def fake_openml(n, d, n_labels):
    rng = np.random.default_rng(0)
    X = np.arange(n * d, dtype=float).reshape(n, d)
    Y = rng.choice(np.array(["FALSE", "TRUE"], dtype=object), size=(n, n_labels))
    names = [f"label {k}" for k in range(n_labels)]
    return Bunch(data=X, target=Y, target_names=names, feature_names=[f"f{j}" for j in range(d)])


def test_openml_is_asked_last_and_checked(tmp_path, monkeypatch):
    fetched = fake_openml(593, 72, 6)
    monkeypatch.setattr(catalogue, "fetch_openml", lambda **_: fetched)
    data, again = (datasets.load("emotions", data_home=tmp_path) for _ in range(2))
    assert data.X_train.shape == (391, 72)
    assert "not the official split" in data.description
    np.testing.assert_array_equal(data.X_train, again.X_train)
    # Together the two parts are all samples, each with its own labels.
    first = np.concatenate([data.X_train[:, 0], data.X_test[:, 0]]) // 72
    assert sorted(first) == list(range(593))
    marks = np.vstack([data.Y_train.toarray(), data.Y_test.toarray()])
    np.testing.assert_array_equal(marks, fetched.target[first.astype(int)] == "TRUE")
    monkeypatch.setattr(catalogue, "fetch_openml", lambda **_: fake_openml(593, 71, 6))
    with pytest.raises(FileFormatError, match="must have 593 samples, 72 features and 6 labels"):
        datasets.load("emotions", data_home=tmp_path)


def test_a_failed_download_says_what_to_put_where(tmp_path, monkeypatch):
    def fail(**_):
        raise ConnectionError(101, "no network")

    monkeypatch.setattr(catalogue, "fetch_openml", fail)
    with pytest.raises(InputError, match=r"OpenML did not deliver .*no network.*yeast-train\.arff"):
        datasets.load("yeast", data_home=tmp_path)


@needs_data
def test_a_dense_file_gives_a_dense_matrix():
    assert not issparse(datasets.load("scene").X_train)
    assert issparse(datasets.load("enron").X_train)
