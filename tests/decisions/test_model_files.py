"""Model files of wrappers: what was tuned comes back exactly, and a forged decision is refused."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from multimargin import CliqueClassifier, KernelM3L, LinearM3L, load, save
from multimargin.decisions import (
    CPath,
    FixedThresholds,
    JointDecoder,
    LabelCalibrator,
    ThresholdTuner,
    TunedM3L,
    tune_thresholds,
)
from multimargin.errors import InputError, ModelFileError
from multimargin.persistence import ALIGNMENT, FORMAT_VERSION, PREFIX, SIGNATURE, _digest

N_LABELS = 4
BASE = LinearM3L(C=0.1, random_state=0)


def sample(n: int = 160) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    noise = rng.normal(size=(n, N_LABELS))
    Y = (X @ rng.normal(size=(3, N_LABELS)) + noise > [0.0, 0.3, 0.6, 2.0]).astype(int)
    return X, Y


def tuner(scoring: Any = "macro-f1", **options: Any) -> ThresholdTuner:
    return ThresholdTuner(BASE, scoring=scoring, **({"random_state": 0, "cv": 3} | options))


def calibrator(method: str = "sigmoid", **options: Any) -> LabelCalibrator:
    return LabelCalibrator(BASE, method=method, **({"random_state": 0, "cv": 3} | options))


MODELS = {
    "per-label": tuner(),
    "quota": tuner(rule="pcut"),
    "offset": tuner("micro-f1"),
    "at least one": tuner("example-f1", rule="at-least-one"),
    "k labels": tuner("example-f1", rule="rcut"),
    "expected F": tuner("example-fbeta", rule="decode", beta=2.0),
    "per-label example": tuner("example-f1", rule="per-label"),
    "costs": tuner("cost", costs=(1.0, 3.0)),
    "costs of labels": tuner("cost", rule="per-label", costs=(np.ones(N_LABELS), np.arange(1.0, 1.0 + N_LABELS))),
    "seen sets": tuner("subset-accuracy", rule="seen-sets"),
    "at a level": tuner(("precision-at-recall", 0.9), confidence=0.8),
    "joint": JointDecoder(
        CliqueClassifier(loss="softmax-margin", graph="chow-liu", random_state=0), cv=3, random_state=0
    ),
    "path": CPath(BASE, Cs=[0.1, 1.0], scoring="example-f1", cv=3, random_state=0),
    "everything tuned": TunedM3L("micro-f1", Cs=2, cv=3, random_state=0),
    "path with a recipe": CPath(LinearM3L(prior="labels", random_state=0), Cs=2, cv=3, random_state=0),
    "without nested score": tuner(cv=[(np.arange(100), np.arange(100, 160))]),
    "probabilities": ThresholdTuner(
        CliqueClassifier(loss="softmax-margin", graph="chow-liu", random_state=0),
        scoring="micro-f1",
        response_method="predict_proba",
        cv=2,
        random_state=0,
    ),
    "kernel": ThresholdTuner(KernelM3L(), cv=2, random_state=0),
    "fixed": FixedThresholds(BASE, [0.1, -np.inf, np.inf, 0.0]),
    "fixed by name": FixedThresholds(BASE, {0: -1.0}),
    "sigmoid": calibrator(),
    "isotonic": calibrator("isotonic", pooling=None),
    "temperature": calibrator("temperature"),
    "thresholds on probabilities": ThresholdTuner(calibrator(cv=2), cv=2, random_state=0),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


def fitted(model: Any) -> Any:
    X, Y = sample()
    return clone(model).fit(X, Y)


def assert_same(loaded: Any, model: Any, X: Any) -> None:
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.predict_sets(X) == model.predict_sets(X)
    assert hasattr(loaded, "predict_proba") == hasattr(model, "predict_proba")
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert {name for name in vars(loaded) if name[0] != "_"} == {name for name in vars(model) if name[0] != "_"}


@every_model
def test_a_loaded_wrapper_is_the_saved_one(tmp_path: Path, model: Any) -> None:
    X, Y = sample()
    model = fitted(model)
    save(model, tmp_path / "a.mm")
    loaded = load(tmp_path / "a.mm")
    assert_same(loaded, model, X)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    save(loaded, tmp_path / "b.mm")
    assert (tmp_path / "a.mm").read_bytes() == (tmp_path / "b.mm").read_bytes()
    assert_same(clone(loaded).fit(X, Y), model, X)
    if isinstance(model, ThresholdTuner):
        assert str(loaded.decision_) == str(model.decision_)
        assert loaded.nested_score_ == model.nested_score_ or np.isnan(model.nested_score_)
        np.testing.assert_array_equal(loaded.rare_labels_, model.rare_labels_)
    if isinstance(model, LabelCalibrator):
        assert loaded.log_loss_ == model.log_loss_
        np.testing.assert_array_equal(loaded.reliability_.share, model.reliability_.share)


@pytest.mark.parametrize(
    "model", [MODELS["per-label"], MODELS["fixed"], MODELS["isotonic"]], ids=lambda m: type(m).__name__
)
def test_every_form_of_labels_comes_back(tmp_path: Path, model: Any) -> None:
    X, Y = sample()
    table = pd.DataFrame(X, columns=list("abc"))
    names = np.array(["sea", "sun", "snow", "ß"])
    sets = [set(names[row == 1].tolist()) for row in Y]
    for given in (sparse.csr_array(Y), pd.DataFrame(Y, columns=names), sets, np.where(Y[:, 0], "yes", "no")):
        one = clone(model)
        if isinstance(given, np.ndarray) and isinstance(one, FixedThresholds):
            one.set_params(thresholds=0.1)
        one.fit(table, given)
        save(one, tmp_path / "model.mm")
        loaded = load(tmp_path / "model.mm")
        assert_same(loaded, one, table)
        before, after = one.predict(table), loaded.predict(table)
        assert type(after) is type(before)
        np.testing.assert_array_equal(loaded.classes_, one.classes_)
        np.testing.assert_array_equal(loaded.feature_names_in_, list("abc"))


def test_wrappers_that_were_never_fitted_keep_their_parameters(tmp_path: Path) -> None:
    X, Y = sample()
    thresholds = tune_thresholds(X @ np.ones((3, N_LABELS)), Y)
    for model in (tuner(("recall-at-precision", 0.5)), calibrator("isotonic"), FixedThresholds(BASE, thresholds)):
        save(model, tmp_path / "model.mm")
        loaded = load(tmp_path / "model.mm")
        assert loaded.estimator.get_params() == BASE.get_params()
        given, back = model.get_params(deep=False), loaded.get_params(deep=False)
        for name in set(given) - {"estimator", "thresholds"}:
            assert back[name] == given[name]
    np.testing.assert_array_equal(loaded.thresholds.values, thresholds.values)


def test_a_fitted_estimator_and_its_thresholds_are_kept(tmp_path: Path) -> None:
    X, Y = sample()
    model = ThresholdTuner(clone(BASE).fit(X[:80], Y[:80]), cv="prefit").fit(X[80:], Y[80:])
    save(model, tmp_path / "model.mm")
    assert_same(load(tmp_path / "model.mm"), model, X)


@pytest.mark.parametrize(
    ("model", "subject"),
    [
        (ThresholdTuner(OneVsRestClassifier(LogisticRegression()), cv=2), "ThresholdTuner.estimator is a OneVsRest"),
        (LabelCalibrator(make_pipeline(PolynomialFeatures(), BASE), cv=2), "The step 'polynomialfeatures'"),
        (ThresholdTuner(BASE, cv=KFold(2)), "ThresholdTuner.cv is a KFold"),
    ],
    ids=["scikit-learn", "pipeline", "splitter"],
)
def test_what_is_not_ours_goes_to_skops(tmp_path: Path, model: Any, subject: str) -> None:
    X, _ = sample()
    model = fitted(model)
    with pytest.raises(ModelFileError, match=rf"{subject}.*skops\.io\.dump"):
        save(model, tmp_path / "model.mm")
    assert list(tmp_path.iterdir()) == []
    data = skops.io.dumps(model)
    loaded = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


class Forgery:
    """A file of a model that can be changed, and sealed again as an attacker would."""

    def __init__(self, model: Any, path: Path) -> None:
        save(fitted(model), path)
        data = path.read_bytes()[PREFIX.size :]
        (length,) = struct.unpack_from("<Q", data)
        self.path, self.content = path, json.loads(data[8 : 8 + length])
        self.arrays = bytearray(data[8 + length + -(8 + length) % ALIGNMENT :])
        self.fitted = self.content["model"]["fitted"]
        self.decision = self.fitted.get("decision_", self.fitted.get("calibrator_", {})).get("parameters")

    def fill(self, node: Any, *values: float) -> None:
        entry = self.content["arrays"][node["array"]]
        cells = np.frombuffer(self.arrays, entry["dtype"], count=int(np.prod(entry["shape"])), offset=entry["at"])
        cells[: len(values)] = values

    def is_refused(self, message: str) -> None:
        text = json.dumps(self.content).encode()
        head = struct.pack("<Q", len(text)) + text
        payload = head + bytes(-len(head) % ALIGNMENT) + bytes(self.arrays)
        digest = _digest(FORMAT_VERSION, len(payload), [memoryview(payload)])
        self.path.write_bytes(PREFIX.pack(SIGNATURE, FORMAT_VERSION, len(payload), digest) + payload)
        with pytest.raises(ModelFileError, match=message):
            load(self.path)


def steps_of(forgery: Forgery) -> Any:
    return forgery.decision["steps"]["dict"][0]


PARTS: dict[str, tuple[str, str, Any, str]] = {
    "unknown rule": ("per-label", "rule", "eval", "rule 'eval', which does not exist"),
    "rule without its calibration": ("per-label", "rule", "decode", "must have a calibration"),
    "rule that needs no calibration": ("offset", "rule", "per-label", "must have a calibration"),
    "calibration of another kind": ("offset", "calibration", 3, "must be a Calibration; it is a int"),
    "no offset": ("offset", "offset", {"float": "nan"}, "must have an offset"),
    "offset in words": ("offset", "offset", "zero", "must be a number"),
    "no labels per row": ("k labels", "size", 0, "must be at least 1"),
    "half a label per row": ("k labels", "size", 1.5, "must be an integer"),
    "no beta": ("expected F", "beta_squared", 0, "must be a number in"),
    "endless beta": ("expected F", "beta_squared", {"float": "inf"}, "must be a number in"),
    "no sets": ("seen sets", "sets", None, "must have sets"),
    "sets of another rule": ("expected F", "sets", 1, "must have sets"),
    "sets as text": ("seen sets", "sets", "sea", "must be an array"),
    "thresholds as text": ("per-label", "values", "low", "must be an array"),
    "metric that is a number": ("per-label", "scoring", 1, "must name its metric"),
    "names as text": ("per-label", "names", "sea", "must be an array of labels"),
    "probabilities or not": ("sigmoid", "from_probabilities", 2, "must say whether"),
    "prior of two": ("sigmoid", "prior", {"tuple": [1.0, 2.0]}, "prior of four numbers"),
    "prior without end": ("sigmoid", "prior", {"tuple": [1.0, 2.0, {"float": "inf"}, 1.0]}, "must be a number in"),
    "steps in a list": ("isotonic", "steps", {"list": []}, "dict of steps"),
    "steps of no label": ("isotonic", "steps", {"dict": [[9, {"tuple": [1, 2]}]]}, "steps of label 9"),
    "steps without numbers": ("isotonic", "steps", {"dict": [[0, {"tuple": [1]}]]}, "scores and probabilities"),
}


@pytest.mark.parametrize(("model", "part", "value", "message"), PARTS.values(), ids=PARTS.keys())
def test_a_forged_decision_is_refused(tmp_path: Path, model: str, part: str, value: Any, message: str) -> None:
    forgery = Forgery(MODELS[model], tmp_path / "forged.mm")
    assert part in forgery.decision
    forgery.decision[part] = value
    forgery.is_refused(message)


NUMBERS: dict[str, tuple[str, Any, tuple[float, ...], str]] = {
    "threshold that is NaN": ("per-label", lambda f: f.decision["values"], (np.nan,), "must be in"),
    "some thresholds that are NaN": ("at least one", lambda f: f.decision["values"], (np.nan,), "must be in"),
    "fixed threshold that is NaN": ("fixed", lambda f: f.fitted["thresholds_"], (np.nan,), "must be in"),
    "negative count": ("per-label", lambda f: f.decision["n_positives"], (-1.0,), "must be in"),
    "endless line": ("sigmoid", lambda f: f.decision["lines"], (np.inf,), "must be in"),
    "line beyond the range": ("sigmoid", lambda f: f.decision["lines"], (1e150,), "must be in"),
    "steps that fall": ("isotonic", lambda f: steps_of(f)[1]["tuple"][1], (0.99,), "steps that rise"),
    "step of certainty": ("isotonic", lambda f: steps_of(f)[1]["tuple"][1], (0.0,), "must be in"),
    "steps in disorder": ("isotonic", lambda f: steps_of(f)[1]["tuple"][0], (1e9,), "rising scores"),
    "label named twice in a set": ("seen sets", lambda f: f.decision["sets"]["indices"], (0,) * 2, "each label once"),
}


@pytest.mark.parametrize(("model", "place", "values", "message"), NUMBERS.values(), ids=NUMBERS.keys())
def test_forged_numbers_are_refused(tmp_path: Path, model: str, place: Any, values: Any, message: str) -> None:
    forgery = Forgery(MODELS[model], tmp_path / "forged.mm")
    forgery.fill(place(forgery), *values)
    forgery.is_refused(message)


FITTED: dict[str, tuple[dict[str, Any], str]] = {
    "estimator that is a number": ({"estimator_": 1}, "must be a multi-label estimator"),
    "other number of features": ({"n_features_in_": 5}, "must have the features of the model"),
    "method of another kind": ({"response_method_": "fit"}, "must be one of"),
    "method it does not have": ({"response_method_": "predict_proba"}, "must be a method of the estimator"),
    "nested score in words": ({"nested_score_": "good"}, "must be a number"),
    "unlisted attribute": ({"thresholds_": 1}, "has no fitted attribute 'thresholds_'"),
    "no form": ({"label_form_": 1}, "must be a LabelForm"),
}


@pytest.mark.parametrize(("changes", "message"), FITTED.values(), ids=FITTED.keys())
def test_a_forged_wrapper_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    forgery = Forgery(MODELS["per-label"], tmp_path / "forged.mm")
    forgery.fitted.update(changes)
    forgery.is_refused(message)


def test_an_estimator_that_was_never_fitted_or_has_other_labels_is_refused(tmp_path: Path) -> None:
    X, Y = sample()
    for other, message in ((clone(BASE), "must be fitted"), (clone(BASE).fit(X, Y[:, :3]), "must have the labels")):
        model = fitted(MODELS["per-label"])
        model.estimator_ = other
        with pytest.raises(ModelFileError, match=f"estimator_ of ThresholdTuner {message}"):
            save(model, tmp_path / "model.mm")


@pytest.mark.parametrize("value", [3, "LinearM3L", None, {"class": "Jaccard", "parameters": {}}])
def test_a_forged_parameter_is_refused(tmp_path: Path, value: Any) -> None:
    forgery = Forgery(MODELS["sigmoid"], tmp_path / "forged.mm")
    forgery.content["model"]["parameters"]["estimator"] = value
    forgery.is_refused("'estimator' parameter of LabelCalibrator")


def test_scores_beyond_the_range_are_refused_in_a_sentence() -> None:
    X, _ = sample()
    model = fitted(MODELS["k labels"])
    lines = model.decision_.calibration.lines
    lines[:] = [1e100, 0.0]
    model.estimator_.coef_ = np.full_like(model.estimator_.coef_, 1e200)
    with pytest.raises(InputError, match="leave the range of floating point"), np.errstate(all="ignore"):
        model.decision_function(np.abs(X) * 1e50)
