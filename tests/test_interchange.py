"""ONNX graphs: onnxruntime says what the model says, for every model and step that can be written."""

import json
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, chi2
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    CPath,
    KernelM3L,
    LabelCalibrator,
    LinearM3L,
    OutputKernelClassifier,
    SubmodularClassifier,
    ThresholdTuner,
    TunedM3L,
    ZeroShotClassifier,
    datasets,
    priors,
)
from multimargin.baselines import MLkNN, OutputKernelLeastSquares, RankSVM
from multimargin.decisions import FixedThresholds
from multimargin.errors import InputError
from multimargin.interchange import STEPS, to_onnx

LINEAR = LinearM3L(tol=1e-2, random_state=0)


def rows(n: int = 60, seed: int = 0, n_labels: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Positive features, and labels that cannot be told for sure."""
    rng = np.random.default_rng(seed)
    X = np.abs(rng.normal(size=(n, 5)))
    X[0] = 0.0
    weights = np.random.default_rng(1).normal(size=(5, n_labels))
    return X, (X @ weights + 0.5 * rng.normal(size=(n, n_labels)) > 0).astype(int)


def answers(model: Any, X: np.ndarray) -> dict[str, np.ndarray]:
    """Run the graph of a model, with the optimisations that a service would use."""
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    (rows,) = session.get_inputs()
    dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64}[rows.type]
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X.astype(dtype)}), strict=True))


def in_double(model: Any) -> Any:
    """Return a model of kernels that sums their values in double, as its graph does."""
    if isinstance(model, KernelM3L) and model.dual_coef_.dtype == np.float32:
        model = copy(model)
        model.dual_coef_ = model.dual_coef_.astype(np.float64)
    return model


def assert_same(model: Any, X: np.ndarray) -> dict[str, np.ndarray]:
    found, scores = answers(model, X), np.asarray(in_double(model).decision_function(X), dtype=np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    allowed = 1e-5 * (1 + np.abs(scores))
    finite = np.isfinite(scores)
    np.testing.assert_array_equal(found["scores"][~finite], scores[~finite])
    assert np.all(np.abs(found["scores"][finite] - scores[finite]) <= allowed[finite])
    clear = ~finite | (np.abs(scores) > allowed)
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(found["labels"][clear], (scores > 0)[clear])
    predicted = model.predict(X)
    if isinstance(predicted, np.ndarray) and predicted.ndim == 2:
        np.testing.assert_array_equal(found["labels"][clear], predicted[clear])
    assert found["labels"].dtype == np.int64
    return found


MODELS: dict[str, Any] = {
    "linear": LINEAR,
    "linear with a prior": LinearM3L(prior=priors.from_labels(rows()[1]), fit_intercept=False, tol=1e-2),
    "rbf": KernelM3L(tol=1e-2),
    "poly": KernelM3L(kernel="poly", degree=3, gamma=0.3, tol=1e-2),
    "linear kernel": KernelM3L(kernel="linear", tol=1e-2),
    "laplacian": KernelM3L(kernel="laplacian", tol=1e-2),
    "chi2": KernelM3L(kernel="chi2", tol=1e-2),
    "additive chi2": KernelM3L(kernel="additive_chi2", tol=1e-2),
    "separation": CalibratedSeparationClassifier(tol=1e-2),
    "separation with a kernel": CalibratedSeparationClassifier(kernel="rbf", tol=1e-2),
    "output kernel": OutputKernelClassifier(kernel="rbf", tol=1e-2),
    "rank": RankSVM(tol=1e-2),
    "least squares": OutputKernelLeastSquares(kernel="rbf"),
}
CHAINS: dict[str, list[Any]] = {
    "standard": [StandardScaler()],
    "standard without mean": [StandardScaler(with_mean=False)],
    "min-max": [MinMaxScaler((-1, 1), clip=True)],
    "max-abs": [MaxAbsScaler()],
    "robust": [RobustScaler()],
    "robust, centre only": [RobustScaler(with_scaling=False)],
    "l1": [Normalizer("l1")],
    "l2": [Normalizer("l2")],
    "max": [Normalizer("max")],
    "best": [SelectKBest(chi2, k=3)],
    "varying": [VarianceThreshold(0.34), "passthrough"],
    "svd": [TruncatedSVD(3, random_state=0)],
    "pca": [PCA(3)],
    "whitened": [PCA(4, whiten=True), None],
    "landmarks": [StandardScaler(), Nystroem(n_components=12, random_state=0)],
    "landmarks of a polynomial": [MinMaxScaler(), Nystroem("polynomial", n_components=8, random_state=0)],
    "filled": [SimpleImputer(), StandardScaler()],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_every_model_is_the_same_in_onnx(model: Any, dtype: Any) -> None:
    X, Y = rows()
    fitted = clone(model).fit(X.astype(dtype), Y)
    assert_same(fitted, rows(seed=1)[0].astype(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("steps", CHAINS.values(), ids=CHAINS.keys())
def test_every_step_is_the_same_in_onnx(steps: list[Any], dtype: Any) -> None:
    X, Y = rows()
    X = (X * [1.0, 1e3, 1e-4, 30.0, 1.0]).astype(dtype)
    if any(isinstance(step, StandardScaler | RobustScaler) for step in steps):
        X[:, 1] += 1e4
    X_test = X[::-1].copy()
    if isinstance(steps[0], SimpleImputer):
        X[::3, 1] = np.nan
        X_test[1::2, 2] = np.nan
    assert_same(clone(make_pipeline(*steps, LINEAR)).fit(X, Y), X_test)


def test_every_step_that_can_be_written_is_tried() -> None:
    assert {type(step) for chain in CHAINS.values() for step in chain} - {str, type(None)} == set(STEPS)


def test_far_from_the_origin_digits_are_kept() -> None:
    X, Y = rows()
    for dtype in (np.float32, np.float64):
        moved = (X + 300.0).astype(dtype)
        assert_same(KernelM3L(gamma=0.3, tol=1e-2).fit(moved, Y), moved)


def test_real_data_are_the_same_in_onnx(data_home: Path) -> None:
    data = datasets.load("yeast")
    scaled = make_pipeline(StandardScaler(), clone(LINEAR))
    for model in (scaled, KernelM3L(tol=0.1), ThresholdTuner(scaled, cv=2, random_state=0)):
        for dtype in (np.float32, np.float64):
            model.fit(data.X_train[:500].astype(dtype), data.Y_train[:500])
            assert_same(model, data.X_test.astype(dtype))


def test_filled_columns_and_other_marks() -> None:
    X, Y = rows()
    X[:, 2] = -1.0
    X[::4, 3] = -1.0
    model = make_pipeline(SimpleImputer(missing_values=-1.0), clone(LINEAR))
    with pytest.warns(UserWarning, match="without any observed values"):
        assert_same(model.fit(X, Y), X)


WRAPPERS: dict[str, Any] = {
    "fixed": FixedThresholds(LINEAR, [0.2, np.inf, -np.inf, -0.3]),
    "per label": ThresholdTuner(LINEAR, cv=2, random_state=0),
    "offset": ThresholdTuner(LINEAR, scoring="micro-f1", cv=2, random_state=0),
    "probabilities": LabelCalibrator(LINEAR, cv=2, random_state=0),
    "temperature": LabelCalibrator(KernelM3L(tol=1e-2), method="temperature", cv=2, random_state=0),
    "tuned probabilities": ThresholdTuner(LabelCalibrator(LINEAR, cv=2), scoring="macro-f1", cv=2, random_state=0),
    "asked for probabilities": FixedThresholds(LabelCalibrator(LINEAR, cv=2), 0.4, response_method="predict_proba"),
    "path": CPath(LINEAR, Cs=[0.1, 1.0], scoring="micro-f1", cv=2, random_state=0),
    "everything tuned": TunedM3L("macro-f1", Cs=2, cv=2, random_state=0),
    "around a pipeline": ThresholdTuner(make_pipeline(StandardScaler(), LINEAR), cv=2, random_state=0),
    "in a pipeline": make_pipeline(MinMaxScaler(), LabelCalibrator(LINEAR, cv=2)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_decisions_are_the_same_in_onnx(model: Any, dtype: Any) -> None:
    X, Y = rows()
    fitted = clone(model).fit(X.astype(dtype), Y)
    X_test = rows(seed=1)[0].astype(dtype)
    found = assert_same(fitted, X_test)
    assert ("probabilities" in found) == hasattr(fitted, "predict_proba")
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], fitted.predict_proba(X_test), atol=1e-5)
        assert np.all((found["probabilities"] > 0) & (found["probabilities"] < 1))


def test_constant_labels_many_labels_and_one_label() -> None:
    X, Y = rows(n_labels=129)
    Y[:, 3], Y[:, 4] = 0, 1
    with pytest.warns(UserWarning, match="Constant"):
        model = clone(LINEAR).fit(X, Y)
    found = assert_same(model, X)
    assert not found["labels"][:, 3].any()
    assert found["labels"][:, 4].all()
    one = clone(LINEAR).fit(X, np.where(Y[:, 0], "yes", "no"))
    np.testing.assert_array_equal(assert_same(one, X)["labels"][:, 0] == 1, one.predict(X) == "yes")
    pairwise = KernelM3L(kernel="precomputed", tol=1e-2).fit(X @ X.T, Y[:, :2])
    assert_same(pairwise, X @ X.T)


def test_rows_come_in_any_number_and_labels_have_names(tmp_path: Path) -> None:
    X, Y = rows()
    model = clone(LINEAR).fit(X, pd.DataFrame(Y, columns=["sea", "sun", "ß", "</script>"]))
    for part in (X[:0], X[:1], X):
        assert answers(model, part)["scores"].shape == (len(part), 4)
    proto = to_onnx(model, tmp_path / "model.onnx")
    assert onnx.load(tmp_path / "model.onnx") == proto
    facts = {fact.key: fact.value for fact in proto.metadata_props}
    assert json.loads(facts["label_names"]) == ["sea", "sun", "ß", "</script>"]
    other = {fact.key: fact.value for fact in to_onnx(clone(LINEAR).fit(X, Y[:, ::-1])).metadata_props}
    assert facts["sha256"] == {fact.key: fact.value for fact in to_onnx(model).metadata_props}["sha256"]
    assert facts["sha256"] != other["sha256"]
    assert proto.opset_import[0].version == 17


def fitted(model: Any) -> Any:
    X, Y = rows()
    return model.fit(X, Y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SubmodularClassifier(pairs=1.0, tol=0.1), "SubmodularClassifier cannot be written as ONNX: .*graph cut"),
        (CliqueClassifier(graph="full", tol=0.1), "CliqueClassifier cannot .* inference over cliques"),
        (MLkNN(), "MLkNN cannot .* neighbours"),
        (
            CalibratedSeparationClassifier(fallback="top1", tol=0.1),
            "fallback='top1' cannot .* labels of a row together",
        ),
        (OutputKernelLeastSquares(decision="preimage"), "decision='preimage' cannot .* among label sets"),
        (KernelM3L(kernel=lambda A, B: A @ B.T, tol=0.1), "a function as kernel cannot .* no Python"),
        (make_pipeline(PolynomialFeatures(2), LINEAR), "PolynomialFeatures cannot .* StandardScaler"),
        (make_pipeline(Nystroem("chi2", n_components=4), LINEAR), r"Nystroem\(kernel='chi2'\) cannot"),
        (make_pipeline(SimpleImputer(add_indicator=True), LINEAR), "add_indicator=True.* cannot"),
        (
            ThresholdTuner(LINEAR, scoring="example-f1", rule="rcut", cv=2),
            "ThresholdTuner with the rule 'rcut' cannot .* labels of a row together",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_written_is_named_with_the_reason(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"{message}"):
        to_onnx(fitted(clone(model)))


def test_other_things_that_cannot_be_written() -> None:
    X, Y = rows(120)
    steps = LabelCalibrator(LINEAR, method="isotonic", cv=2).fit(np.tile(X, (3, 1)), np.tile(Y, (3, 1)))
    with pytest.raises(InputError, match="isotonic steps cannot .* lines"):
        to_onnx(steps)
    with pytest.raises(InputError, match="sparse support rows cannot .* dense"):
        to_onnx(KernelM3L(tol=1e-2).fit(sparse.csr_array(X), Y))
    words = make_pipeline(TfidfVectorizer(), LINEAR).fit(["sea sun", "sea", "sun", "snow"], np.eye(4))
    with pytest.raises(InputError, match="TfidfVectorizer cannot"):
        to_onnx(words)
    animals = ZeroShotClassifier(signatures={"seal": [1, 0], "ape": [0, 1]}).fit(X, np.where(Y[:, 0], "seal", "ape"))
    with pytest.raises(InputError, match="ZeroShotClassifier cannot .* categories"):
        to_onnx(animals)
    with pytest.raises(InputError, match="LogisticRegression cannot .* LinearM3L"):
        to_onnx(Pipeline([("model", LogisticRegression())]).fit(X, Y[:, 0]))
    with pytest.raises(NotFittedError):
        to_onnx(LinearM3L())
