"""Data sets that may not be passed on, read from tiny files in the published formats."""

import bz2
import struct

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix, issparse

from multimargin import ZeroShotClassifier, datasets
from multimargin.errors import FileFormatError, InputError

NAMES = ("rcv1-full", "tmc2007-full", "mirflickr", "pascal07", "apascal-ayahoo", "fmri-words")


@pytest.fixture
def put(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("name", NAMES)
def test_where_to_get_them_is_told(name, tmp_path):
    facts = next(facts for facts in datasets.available() if facts.name == name)
    with pytest.raises(InputError, match="the data come from http") as told:
        datasets.load(name, data_home=tmp_path)
    assert all(file in str(told.value) for file in facts.files)


def test_rcv1_has_the_features_and_labels_of_all_parts(put, tmp_path):
    # two blanks after the labels; the last topic occurs in the second test file only
    put("libsvm/rcv1_topics_train.svm.bz2", bz2.compress(b"0,2  1:0.5 3:0.25\n1  2:1\n"))
    for part, text in enumerate(("1  4:1\n", "0,3  5:0.5\n", "2  1:1\n", "  2:0.5\n")):
        put(f"libsvm/rcv1_topics_test_{part}.svm", text)
    data = datasets.load("rcv1-full", data_home=tmp_path)
    assert data.label_names == ("0", "1", "2", "3")
    assert data.Y_train.toarray().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]
    assert data.Y_test.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert data.X_train.toarray().tolist() == [[0.5, 0, 0.25, 0, 0], [0, 1, 0, 0, 0]]
    assert data.X_test.toarray()[:, 4].tolist() == [0, 0.5, 0, 0]


def test_siam_numbers_labels_from_0_and_features_from_1(put, tmp_path):
    put("libsvm/tmc2007_train.svm.bz2", bz2.compress(b"0,1 2:1\n"))
    put("libsvm/tmc2007_test.svm.bz2", bz2.compress(b"1 1:1\n"))
    data = datasets.load("tmc2007-full", data_home=tmp_path, dtype=np.float32)
    assert data.X_test.toarray().tolist() == [[1, 0]]
    assert data.Y_test.toarray().tolist() == [[0, 1]]
    assert data.X_train.dtype == np.float32


def hvecs(rows):
    return b"".join(struct.pack(f"<{len(row) + 1}H", len(row), *row) for row in rows)


def test_tags_of_photographs(put, tmp_path):
    put("inria/mirflickr_train_DenseSift.hvecs", hvecs([[3, 0, 500], [1, 2, 3]]))
    put("inria/mirflickr_test_DenseSift.hvecs", hvecs([[65535, 0, 1]]))
    put("inria/mirflickr_train_tags.hvecs", hvecs([[1, 0], [0, 1]]))
    put("inria/mirflickr_test_tags.hvecs", hvecs([[1, 1]]))
    put("inria/mirflickr_dictionary.txt", "sky\nwater\n")
    data = datasets.load("mirflickr", data_home=tmp_path)
    assert data.X_train.tolist() == [[3, 0, 500], [1, 2, 3]]
    assert data.X_test.tolist() == [[65535, 0, 1]]
    assert (data.X_train.dtype, data.Y_train.dtype) == (np.float64, np.int64)
    assert data.Y_train.toarray().tolist() == [[1, 0], [0, 1]]
    assert data.label_names == ("sky", "water")


def pascal(put):
    put("inria/pascal07_train_DenseSiftV3H1.hvecs", hvecs([[1, 2], [3, 4]]))
    put("inria/pascal07_test_DenseSiftV3H1.hvecs", hvecs([[5, 6]]))
    put("inria/pascal07_train_classes.txt", "1 -1\n-1 1\n")
    put("inria/pascal07_test_classes.txt", "0,1\n")
    put("inria/pascal07_classes.txt", "aeroplane\nbicycle\n")


def test_classes_of_photographs(put, tmp_path):
    pascal(put)
    data = datasets.load("pascal07", data_home=tmp_path)
    assert data.Y_train.toarray().tolist() == [[1, 0], [0, 1]]
    assert data.Y_test.toarray().tolist() == [[0, 1]]
    assert data.label_names == ("aeroplane", "bicycle")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train_DenseSiftV3H1.hvecs", hvecs([[1, 2], [3, 4]])[:-1], "expected vectors of 2 numbers, found 11 bytes"),
        ("train_DenseSiftV3H1.hvecs", b"\x02", "found 1 bytes"),
        ("train_DenseSiftV3H1.hvecs", hvecs([[1, 2]]) + struct.pack("<3H", 3, 1, 1), "found one of 3 as number 2"),
        ("train_classes.txt", b"1 -1\n", "expected 2 rows as in pascal07_train_DenseSiftV3H1.hvecs, found 1"),
        ("test_classes.txt", b"1 1 1\n", "expected 2 labels as in pascal07_classes.txt, found 3"),
        ("test_classes.txt", b"1 yes\n", "as many numbers each"),
    ],
)
def test_damaged_descriptors_are_refused(put, tmp_path, file, content, message):
    pascal(put)
    put(f"inria/pascal07_{file}", content)
    with pytest.raises(FileFormatError, match=message):
        datasets.load("pascal07", data_home=tmp_path)


def apascal(put, tmp_path):
    put("apascal/attribute_names.txt", "2D Boxy\nFurn. Leg\nFurry\n")
    put(
        "apascal/apascal_train.txt",
        "a.jpg person 10 20 30 40 0 0 1\nb.jpg dog 1 2 3 4 0 1 1\na.jpg dog 1 2 3 4 0 0 0\n",
    )
    put("apascal/ayahoo_test.txt", "donkey_1.jpg donkey 1 1 9 9 1 0 1\n")
    features = csc_matrix([[0.0, 0.5, 0.0], [1.0, 0.0, 2.0]])  # a column per object
    savemat(tmp_path / "apascal/feat_apascal_train.mat", {"feat": features})
    savemat(tmp_path / "apascal/feat_ayahoo_test.mat", {"feat": csc_matrix([[3.0], [0.0]])})


def test_objects_with_attributes(put, tmp_path):
    apascal(put, tmp_path)
    data = datasets.load("apascal-ayahoo", data_home=tmp_path)
    assert issparse(data.X_train)
    assert data.X_train.toarray().tolist() == [[0, 1], [0.5, 0], [0, 2]]
    assert data.X_test.toarray().tolist() == [[3, 0]]
    assert data.Y_train.toarray().tolist() == [[0, 0, 1], [0, 1, 1], [0, 0, 0]]
    assert data.label_names == ("2D Boxy", "Furn. Leg", "Furry")
    assert [data.class_names[k] for k in data.class_train] == ["person", "dog", "dog"]
    assert [data.class_names[k] for k in data.class_test] == ["donkey"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("ayahoo_test.txt", "a.jpg donkey 1 1 9 9 1 0\n", "ayahoo_test.txt:1: expected an image"),
        ("ayahoo_test.txt", "a.jpg donkey 1 1 9 9 1 0 7\n", "ayahoo_test.txt:1: expected an image"),
        ("ayahoo_test.txt", "a.jpg donkey 1 1 9 9 1 0 0\n" * 2, "expected 1 rows as in feat_ayahoo_test.mat, found 2"),
        ("feat_ayahoo_test.mat", "no MATLAB at all", "expected a MATLAB file"),
    ],
)
def test_bad_lists_of_objects_are_refused(put, tmp_path, file, content, message):
    apascal(put, tmp_path)
    put(f"apascal/{file}", content)
    with pytest.raises(FileFormatError, match=message):
        datasets.load("apascal-ayahoo", data_home=tmp_path)


def fmri(put, tmp_path):
    """Six trials: two kinds of two nouns, one noun shown three times."""
    kinds = {"hammer": "tool", "saw": "tool", "bear": "animal", "cow": "animal"}
    shown = ["saw", "bear", "hammer", "cow", "saw", "saw"]
    info = np.array(
        [(kinds[word], 1, word, 2, 1) for word in shown],
        dtype=[(name, object) for name in ("cond", "cond_number", "word", "word_number", "epoch")],
    )
    images = np.empty((6, 1), dtype=object)
    for k in range(6):
        images[k, 0] = np.array([[k, 10.0 * k, 0.5]])
    put("fmri/semantic_features.csv", "noun,see,eat\nbear,0.9,0.1\ncow,0.2,0.8\nhammer,0.4,0.0\nsaw,0.6,0.2\n")
    savemat(tmp_path / "fmri/data-science-P1.mat", {"info": info[None, :], "data": images, "meta": {"nvoxels": 3}})


def test_brain_images_of_nouns(put, tmp_path):
    fmri(put, tmp_path)
    data = datasets.load("fmri-words", data_home=tmp_path)
    words = np.array(data.class_names)
    assert words[data.unseen].tolist() == ["cow", "saw"]  # the last of each kind
    assert words[data.class_train].tolist() == ["bear", "hammer"]
    assert words[data.class_test].tolist() == ["saw", "cow", "saw", "saw"]
    assert data.X_test[:, 1].tolist() == [0, 30, 40, 50]
    # above the medians 0.5 and 0.15
    assert data.signatures.tolist() == [[1, 0], [0, 1], [0, 0], [1, 1]]
    np.testing.assert_array_equal(data.Y_test.toarray(), data.signatures[data.class_test])
    assert data.label_names == ("see", "eat")
    model = ZeroShotClassifier(signatures=data.signatures).fit(data.X_train, data.class_train)
    assert set(model.predict(data.X_test)) <= set(data.unseen)


def test_a_noun_without_numbers_is_refused(put, tmp_path):
    fmri(put, tmp_path)
    put("fmri/semantic_features.csv", "noun,see\nbear,0.9\ncow,0.2\nhammer,0.4\n")
    with pytest.raises(FileFormatError, match="found none for 'saw'"):
        datasets.load("fmri-words", data_home=tmp_path)
    savemat(tmp_path / "fmri/data-science-P1.mat", {"data": np.zeros(3)})
    with pytest.raises(FileFormatError, match="expected the variable info"):
        datasets.load("fmri-words", data_home=tmp_path)


def test_any_format_may_be_bzipped(put):
    text = "blue,sea\n0.5,1\n0.25,0\n"
    plain, packed = put("a.csv", text), put("b.csv.bz2", bz2.compress(text.encode()))
    assert datasets.read(packed, labels=["sea"]).X.tolist() == datasets.read(plain, labels=["sea"]).X.tolist()
    assert datasets.read(put("c.data", bz2.compress(text.encode())), labels=["sea"]).feature_names == ("blue",)
    with pytest.raises(FileFormatError, match=r"d\.csv\.bz2: expected bz2 data as the name says"):
        datasets.read(put("d.csv.bz2", text), labels=["sea"])
    packed = bytearray(bz2.compress(text.encode() * 100))
    for wrong in (packed[:-9], packed[:20] + b"\0" * 8 + packed[28:]):
        with pytest.raises(FileFormatError, match="expected a complete bzip2 file"):
            datasets.read(put("e.csv.bz2", bytes(wrong)), labels=["sea"])
