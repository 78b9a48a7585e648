"""Signatures: a table with a row per category."""

import pandas as pd
import pytest

from multimargin import ZeroShotClassifier
from multimargin.datasets import read_signatures
from multimargin.errors import FileFormatError, InputError

ANIMALS = {
    "tiger": {"stripes": 1, "hooves": 0},
    "horse": {"stripes": 0, "hooves": 1},
    "zebra": {"stripes": 1, "hooves": 1},
}


def test_every_format_gives_the_same(tmp_path):
    frame = pd.DataFrame.from_dict(ANIMALS, orient="index")
    frame.to_csv(tmp_path / "index_without_name.csv")
    frame.rename_axis("animal").to_csv(tmp_path / "named.csv.gz", sep=";")
    named = frame.rename_axis("animal").reset_index()
    named.to_parquet(tmp_path / "animals.parquet")
    named.to_json(tmp_path / "animals.jsonl", orient="records", lines=True)
    named.replace({0: "no", 1: "yes"}).to_csv(tmp_path / "words.csv", index=False)
    for path in sorted(tmp_path.iterdir()):
        assert read_signatures(path) == ANIMALS, path.name


def test_categories_may_be_numbers(tmp_path):
    frame = pd.DataFrame({"digit": [3, 8], "loop": [0, 1], "open": [1, 0]})
    frame.to_csv(tmp_path / "digits.csv", index=False)
    frame.to_parquet(tmp_path / "digits.parquet")
    frame.to_json(tmp_path / "digits.json", orient="records")
    for path in sorted(tmp_path.iterdir()):
        assert read_signatures(path) == {"3": {"loop": 0, "open": 1}, "8": {"loop": 1, "open": 0}}, path.name


def test_a_classifier_takes_them(tmp_path):
    pd.DataFrame.from_dict(ANIMALS, orient="index").to_csv(tmp_path / "animals.csv")
    X = [[1.0, 0.0], [0.0, 1.0], [0.9, 0.0], [0.0, 0.8]]
    model = ZeroShotClassifier(signatures=read_signatures(tmp_path / "animals.csv"), candidates="all")
    model.fit(X, ["tiger", "horse", "tiger", "horse"])
    assert model.attribute_names_.tolist() == ["stripes", "hooves"]
    assert model.predict([[1.0, 0.0], [0.0, 1.0]]).tolist() == ["tiger", "horse"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("animal,stripes\ntiger,1\ntiger,0\n", "found 'tiger' twice in column 'animal'"),
        ("animal,stripes\ntiger,1\n ,0\n", "found none in row 2"),
        ("animal,stripes,hooves\ntiger,1,\n", "found no value of 'hooves' for 'tiger'"),
        ("animal,stripes\ntiger,some\n", "some"),
        ("animal\ntiger\n", "a column per attribute"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, message):
    path = tmp_path / "animals.csv"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_signatures(path)


def test_formats_without_names_are_refused(tmp_path):
    (tmp_path / "animals.svm").write_text("1 1:1\n")
    with pytest.raises(FileFormatError, match="write a CSV file"):
        read_signatures(tmp_path / "animals.svm")
    with pytest.raises(InputError, match="no such file"):
        read_signatures(tmp_path / "none.csv")
