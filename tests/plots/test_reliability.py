"""The reliability picture."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from multimargin import LabelCalibrator, LinearM3L, metrics
from multimargin.errors import InputError
from multimargin.plots import ReliabilityDisplay

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_display_draws_the_curve_of_the_metric(rng):
    p = rng.random((300, 4))
    Y = pd.DataFrame((rng.random(p.shape) < p).astype(float), columns=list("abcd"))
    Y.iloc[3, 1] = np.nan
    display = ReliabilityDisplay.from_predictions(Y, p, labels=["b"])
    curve = metrics.reliability(Y, p)
    frame = display.frame()
    np.testing.assert_allclose(frame.loc[frame["curve"] == "all labels", "share"], curve.share)
    assert set(frame["curve"]) == {"all labels", "b"}
    assert display.ax_.get_xlabel() == "probability"
    assert f"{curve.error:.3f}" in display.ax_.get_legend().get_texts()[-1].get_text()
    _, ax = plt.subplots()
    assert display.plot(ax).figure_ is ax.figure
    assert sum(line.get_gid() == "diagonal" for line in ax.lines) == 1
    display.plot(ax)
    assert sum(line.get_gid() == "diagonal" for line in ax.lines) == 1


def test_display_of_an_estimator(rng):
    X = rng.normal(size=(200, 3))
    Y = (X + rng.normal(size=X.shape) > 0.5).astype(int)
    model = LabelCalibrator(LinearM3L(random_state=0), random_state=0).fit(X, Y)
    display = ReliabilityDisplay.from_estimator(model, X, Y)
    np.testing.assert_allclose(display.frame()["share"], metrics.reliability(Y, model.predict_proba(X)).share)
    one = LabelCalibrator(LinearM3L(random_state=0), random_state=0).fit(X, Y[:, 0])
    assert len(ReliabilityDisplay.from_estimator(one, X, Y[:, 0]).frame()) > 5
    with pytest.raises(InputError, match="has no predict_proba"):
        ReliabilityDisplay.from_estimator(LinearM3L().fit(X, Y), X, Y)
    with pytest.raises(InputError, match="none of the 3 labels"):
        ReliabilityDisplay.from_predictions(Y, model.predict_proba(X), labels=[7])
