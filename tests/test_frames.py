"""What goes in comes out: frames of pandas and polars, dense and sparse, through estimators, wrappers and files."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    KernelM3L,
    LabelCalibrator,
    LinearM3L,
    SubmodularClassifier,
    ThresholdTuner,
    baselines,
    load,
    metrics,
    save,
)
from multimargin.model_selection import train_test_split

NAMES, FEATURES = ["sea", "sun", "snow"], ["a", "b", "c", "d"]
LINEAR = LinearM3L(random_state=0)
MODELS = {
    "linear": LINEAR,
    "kernel": KernelM3L(random_state=0),
    "cliques": CliqueClassifier(random_state=0),
    "submodular": SubmodularClassifier(random_state=0),
    "separation": CalibratedSeparationClassifier(random_state=0),
    "neighbours": baselines.KNNLabels(),
    "tuned": ThresholdTuner(LINEAR, random_state=0),
    "calibrated": LabelCalibrator(LINEAR, random_state=0),
    "pipeline": make_pipeline(StandardScaler(with_mean=False), LINEAR),
}


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(0)
    X = np.maximum(rng.normal(size=(90, 4)), 0.0)
    return X, (X @ rng.normal(size=(4, 3)) + 0.3 * rng.normal(size=(90, 3)) > 0).astype(int)


def pandas_frames(X, Y):
    return pd.DataFrame(X, columns=FEATURES), pd.DataFrame(Y, columns=NAMES)


def sparse_frames(X, Y):
    return tuple(frame.astype(pd.SparseDtype(frame.dtypes.iloc[0], 0)) for frame in pandas_frames(X, Y))


def polars_frames(X, Y):
    pl = pytest.importorskip("polars")
    return pl.DataFrame(X, schema=FEATURES), pl.DataFrame(Y, schema=NAMES)


@pytest.mark.parametrize("frames", [pandas_frames, sparse_frames, polars_frames])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_predictions_have_the_form_of_the_labels(model, frames, cells):
    X, Y = frames(*cells)
    found = model.fit(X, Y).predict(X)
    assert type(found) is type(Y)
    assert list(found.columns) == NAMES
    assert list(found.dtypes) == list(Y.dtypes)
    rows = cells[0] if frames is not sparse_frames else sp.csr_array(cells[0])
    np.testing.assert_array_equal(np.asarray(found), model.fit(rows, cells[1]).predict(rows))


@pytest.mark.parametrize("frames", [pandas_frames, polars_frames])
def test_frames_are_split_judged_and_kept(frames, cells, tmp_path):
    X, Y = frames(*cells)
    X_train, X_test, Y_train, Y_test = train_test_split(X, Y, test_size=0.3, random_state=0, stratify=Y)
    assert type(X_test) is type(X)
    model = LinearM3L().fit(X_train, Y_train)
    assert model.feature_names_in_.tolist() == FEATURES
    save(model, tmp_path / "model.mm")
    found = load(tmp_path / "model.mm").predict(X_test)
    assert type(found) is type(Y)
    exact = np.mean(np.all(np.asarray(found) == np.asarray(Y_test), axis=1))
    assert metrics.subset_accuracy(Y_test, found) == pytest.approx(exact) == model.score(X_test, Y_test)
