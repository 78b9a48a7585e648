"""One container for a file and for a set with a training and a test part."""

import copy
import pickle

import numpy as np
import pytest

from multimargin import datasets
from multimargin.errors import InputError


@pytest.fixture
def strips():
    return datasets.load_digit_strips(n_samples=30)


def test_every_source_returns_the_same_class(tmp_path, strips):
    (tmp_path / "tiny.svm").write_text("1 1:1\n")
    sources = (
        strips,
        strips.part("test"),
        datasets.load_digit_attributes(),
        datasets.make_clique_labels(5, random_state=0),
        datasets.read(tmp_path / "tiny.svm"),
    )
    for data in sources:
        assert isinstance(data, datasets.Dataset)
        assert repr(data) == f"Dataset({data.description})"
        assert {"label_names", "feature_names", "description"} <= set(dir(data))


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_part_has_the_entries_of_one_split(strips, split):
    part = strips.part(split)
    for name in ("X", "Y", "images"):
        assert part[name] is strips[f"{name}_{split}"]
    assert part.label_names is strips.label_names
    assert not any(key.endswith(("_train", "_test")) for key in part)


def test_a_part_that_is_not_there(strips):
    with pytest.raises(InputError, match=r"\(train, test\); got 'dev'"):
        strips.part("dev")
    with pytest.raises(InputError, match="use X and Y"):
        datasets.load_digit_attributes().part("train")


def test_copies_and_pickles(strips):
    for again in (copy.copy(strips), copy.deepcopy(strips), pickle.loads(pickle.dumps(strips))):
        assert type(again) is datasets.Dataset
        np.testing.assert_array_equal(again.X_test, strips.X_test)
