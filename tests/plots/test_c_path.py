"""The path of C as a picture."""

import numpy as np
import pytest

from multimargin import CPath, LinearM3L, TunedM3L, plots
from multimargin.errors import InputError


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(90, 4))
    return X, (X @ rng.normal(size=(4, 3)) + rng.normal(size=(90, 3)) > 0).astype(int)


def test_path_of_one_model(problem):
    model = CPath(LinearM3L(), Cs=[0.1, 1.0, 10.0], random_state=0).fit(*problem)
    shown = plots.CPathDisplay.from_estimator(model)
    np.testing.assert_array_equal(shown.ax_.lines[0].get_xdata(), model.path_.C)
    np.testing.assert_array_equal(shown.ax_.lines[0].get_ydata(), model.path_.score)
    assert shown.ax_.get_xscale() == "log"
    assert [text.get_text() for text in shown.ax_.texts] == [f"C = {model.C_:.3g}"]
    assert shown.frame()["score"].tolist() == model.path_.score.tolist()


def test_paths_of_several_models(problem):
    model = TunedM3L(Cs=3, random_state=0).fit(*problem)
    shown = plots.CPathDisplay.from_estimator(model)
    assert set(shown.frame()["path"]) == {"linear", "kernel"}
    marked = shown.ax_.texts[0]
    assert marked.xy == (model.C_, model.paths_[model.model_].score[model.paths_[model.model_].C == model.C_][0])
    assert len(shown.plot().ax_.collections) == 2


def test_what_has_no_path(problem):
    with pytest.raises(InputError, match="Give a fitted CPath or TunedM3L"):
        plots.CPathDisplay.from_estimator(LinearM3L().fit(*problem))
