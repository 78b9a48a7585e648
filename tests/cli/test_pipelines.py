"""A pipeline in a model file is a model of the command as any other."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import LabelCalibrator, LinearM3L, ThresholdTuner, metrics, save

from .conftest import LABELS, sample

Run = Callable[..., Any]
INNER = make_pipeline(StandardScaler(), LinearM3L(random_state=0))
MODELS = {
    "pipeline": INNER,
    "calibrated at its end": make_pipeline(StandardScaler(), LabelCalibrator(LinearM3L(random_state=0), cv=2)),
    "tuned around it": ThresholdTuner(INNER, cv=2, random_state=0),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_predict_and_evaluate_take_pipelines(run: Run, folder: Path, model: Any) -> None:
    X, Y = sample()
    model.fit(X, pd.DataFrame(Y, columns=LABELS))
    save(model, "model.mm")
    X_test, Y_test = sample(seed=1)

    result = run("predict", "model.mm", "test.csv", "--labels", "sea,sun")
    assert (result.code, result.errors) == (0, [])
    table = pd.read_csv(StringIO(result.out))
    assert tuple(table.columns) == LABELS
    np.testing.assert_array_equal(table.to_numpy(), model.predict(X_test))
    scores = pd.read_csv(StringIO(run("predict", "model.mm", "test.csv", "--labels", "sea,sun", "--scores").out))
    np.testing.assert_allclose(scores.to_numpy(), model.decision_function(X_test), rtol=1e-8)
    chances = run("predict", "model.mm", "test.csv", "--labels", "sea,sun", "--proba")
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(pd.read_csv(StringIO(chances.out)), model.predict_proba(X_test), rtol=1e-8)
    else:
        assert chances.code == 2
        assert "--proba needs a model with probabilities; this LinearM3L has scores only" in chances.errors[0]

    answer = json.loads(run("evaluate", "model.mm", "test.arff", "--labels", "tiny.xml", "--json").out)
    truth = pd.DataFrame(Y_test, columns=LABELS)
    expected = metrics.report(truth, model.predict(X_test), scores=model.decision_function(X_test))
    assert answer["converged"]
    assert answer["report"] == json.loads(json.dumps(expected.to_dict(), default=float))


def test_what_the_command_cannot_use_is_said(run: Run, folder: Path) -> None:
    _, Y = sample(4)
    save(make_pipeline(TfidfVectorizer(), LinearM3L()).fit(["blue sea", "red sun", "sea", "sun sea"], Y), "words.mm")
    result = run("predict", "words.mm", "test.csv", "--labels", "sea,sun")
    assert result.code == 2
    assert "takes texts, and its file does not say of which column. Name it with --text COLUMN" in result.errors[0]
    save(make_pipeline(StandardScaler(), LinearM3L()), "fresh.mm")
    result = run("evaluate", "fresh.mm", "test.csv", "--labels", "sea,sun")
    assert result.code == 2
    assert "holds a LinearM3L that was never fitted" in result.errors[0]
