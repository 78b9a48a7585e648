"""Pipelines in model files: every known step comes back exactly; anything else, and anything forged, is refused."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, chi2, f_classif, f_regression
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from multimargin import KernelM3L, LabelCalibrator, LinearM3L, ThresholdTuner, ZeroShotClassifier, baselines, load, save
from multimargin.decisions import FixedThresholds
from multimargin.errors import ModelFileError
from multimargin.persistence import ALIGNMENT, FORMAT_VERSION, PREFIX, SIGNATURE, _digest
from multimargin.pipelines import REGISTRY

pytestmark = pytest.mark.contract

WORDS = ["sea", "sun", "snow", "ice", "Sand", "wind", "a", "tree", "Straße", "rain"]
MODEL = LinearM3L(random_state=0, tol=1e-2)


def rows(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Positive features on scales far from 1, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    Z = np.abs(rng.normal(size=(n, 5)))
    Y = (Z @ np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 1, -1], [-1, 0, 0]]) > 0.1).astype(int)
    Y[:2] = [[0, 0, 0], [1, 1, 1]]
    return Z * [1.0, 1e3, 1e-4, 30.0, 1.0] + [0.0, 5e3, 0.0, 0.0, 2.0], Y


def with_gaps(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[::3, 1] = np.nan
    X[1::4, 4] = np.nan
    return X


def texts(n: int = 40, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(3, 12))) for _ in range(n)]


STEPS: dict[str, list[Any]] = {
    "standard": [StandardScaler()],
    "standard without mean": [StandardScaler(with_mean=False)],
    "standard without std": [StandardScaler(with_std=False)],
    "standard without both": [StandardScaler(with_mean=False, with_std=False)],
    "min-max": [MinMaxScaler(feature_range=(-1, 2), clip=True)],
    "max-abs": [MaxAbsScaler()],
    "robust": [RobustScaler()],
    "robust, centre only": [RobustScaler(with_scaling=False, quantile_range=(10.0, 90.0))],
    "normalizer": [Normalizer(norm="l1")],
    "nystroem": [StandardScaler(), Nystroem(n_components=12, random_state=0, n_jobs=1)],
    "nystroem chi2": [Nystroem(kernel="chi2", n_components=7, gamma=1e-4, random_state=0)],
    "sampler": [StandardScaler(), RBFSampler(gamma="scale", n_components=20, random_state=0)],
    "best by chi2": [SelectKBest(chi2, k=3)],
    "all": [SelectKBest(chi2, k="all")],
    "varying": [VarianceThreshold(1e-5), StandardScaler()],
    "factors": [TruncatedSVD(2, random_state=0)],
    "principal": [StandardScaler(), PCA(3, whiten=True)],
    "principal, all": [PCA(svd_solver="full")],
    "passed through": ["passthrough", StandardScaler(), None],
}
WITH_GAPS: dict[str, list[Any]] = {
    "mean": [SimpleImputer()],
    "frequent": [SimpleImputer(strategy="most_frequent"), StandardScaler()],
    "constant": [SimpleImputer(strategy="constant", fill_value=-1.5)],
    "gaps kept": [StandardScaler(), SimpleImputer(strategy="median", keep_empty_features=True)],
}
OF_TEXTS: dict[str, list[Any]] = {
    "tf-idf": [TfidfVectorizer()],
    "n-grams": [TfidfVectorizer(ngram_range=(1, 2), stop_words=["sun"], use_idf=False, dtype=np.float32, min_df=2)],
    "characters": [CountVectorizer(analyzer="char_wb", ngram_range=(2, 3), dtype=float), TfidfTransformer()],
    "counts": [CountVectorizer(token_pattern=r"(?u)\b\w+\b", lowercase=False), TfidfTransformer(use_idf=False)],
    "given words": [CountVectorizer(vocabulary={"sea": 1, "sun": 0}), MaxAbsScaler()],
    "english": [TfidfVectorizer(stop_words="english", strip_accents="unicode"), TruncatedSVD(3, random_state=0)],
    "hashed": [HashingVectorizer(n_features=64), Nystroem(n_components=9, random_state=0)],
    "few words": [CountVectorizer(max_features=6), SelectKBest(chi2, k=4), Normalizer()],
}


def saved_and_loaded(model: Any, path: Path) -> Any:
    save(model, path / "model.mm")
    loaded = load(path / "model.mm")
    save(loaded, path / "again.mm")
    assert (path / "model.mm").read_bytes() == (path / "again.mm").read_bytes()
    return loaded


def assert_same(loaded: Any, model: Any, X: Any) -> None:
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_every_known_step_is_tried() -> None:
    tried = {type(step) for steps in (STEPS, WITH_GAPS, OF_TEXTS) for chain in steps.values() for step in chain}
    assert tried - {str, type(None)} == set(REGISTRY)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_of_numbers_come_back(tmp_path: Path, steps: list[Any], dtype: Any) -> None:
    X, Y = rows()
    pipeline = clone(make_pipeline(*steps, MODEL)).fit(X.astype(dtype), Y)
    loaded = saved_and_loaded(pipeline, tmp_path)
    assert_same(loaded, pipeline, rows(seed=1)[0].astype(dtype))
    np.testing.assert_array_equal(clone(loaded).fit(X, Y).predict(X), clone(pipeline).fit(X, Y).predict(X))
    assert [name for name, _ in loaded.steps] == [name for name, _ in pipeline.steps]


@pytest.mark.parametrize("steps", WITH_GAPS.values(), ids=WITH_GAPS.keys())
def test_steps_that_fill_gaps_come_back(tmp_path: Path, steps: list[Any]) -> None:
    X, Y = rows()
    pipeline = clone(make_pipeline(*steps, MODEL)).fit(with_gaps(X), Y)
    assert_same(saved_and_loaded(pipeline, tmp_path), pipeline, with_gaps(rows(seed=1)[0]))


def test_columns_without_a_value_are_left_out_as_before(tmp_path: Path) -> None:
    X, Y = rows()
    X[:, 2] = np.nan
    pipeline = make_pipeline(SimpleImputer(), MODEL)
    with pytest.warns(UserWarning, match="without any observed values"):
        loaded = saved_and_loaded(pipeline.fit(X, Y), tmp_path)
    with pytest.warns(UserWarning, match="without any observed values"):
        assert_same(loaded, pipeline, X)


@pytest.mark.parametrize("steps", OF_TEXTS.values(), ids=OF_TEXTS.keys())
def test_steps_of_texts_come_back(tmp_path: Path, steps: list[Any]) -> None:
    documents, (_, Y) = texts(), rows()
    pipeline = clone(make_pipeline(*steps, MODEL)).fit(documents, Y)
    loaded = saved_and_loaded(pipeline, tmp_path)
    assert_same(loaded, pipeline, [*texts(seed=1), "", "nothing known"])
    if not isinstance(steps[0], HashingVectorizer):
        names = pipeline[0].get_feature_names_out()
        np.testing.assert_array_equal(loaded[0].get_feature_names_out(), names)


def test_sparse_rows_come_back(tmp_path: Path) -> None:
    X, Y = rows()
    X[np.median(X, axis=0) > X] = 0
    for steps in ([MaxAbsScaler()], [StandardScaler(with_mean=False), TruncatedSVD(3)], [Nystroem(n_components=8)]):
        pipeline = make_pipeline(*steps, clone(MODEL)).fit(sparse.csr_array(X), Y)
        assert_same(saved_and_loaded(pipeline, tmp_path), pipeline, sparse.csr_array(X))


def test_one_label_and_scores_by_variance(tmp_path: Path) -> None:
    X, Y = rows()
    pipeline = make_pipeline(SelectKBest(f_classif, k=2), clone(MODEL)).fit(X, np.where(Y[:, 0], "yes", "no"))
    assert_same(saved_and_loaded(pipeline, tmp_path), pipeline, X)


def test_names_of_columns_come_back(tmp_path: Path) -> None:
    X, Y = rows()
    table = pd.DataFrame(X, columns=list("abcde"))
    pipeline = make_pipeline(MinMaxScaler(), PCA(2), clone(MODEL)).set_output(transform="pandas").fit(table, Y)
    loaded = saved_and_loaded(pipeline, tmp_path)
    assert_same(loaded, pipeline, table)
    np.testing.assert_array_equal(loaded[:-1].get_feature_names_out(), ["pca0", "pca1"])
    np.testing.assert_array_equal(loaded.feature_names_in_, list("abcde"))


def test_a_pipeline_that_is_not_fitted_keeps_its_parameters(tmp_path: Path) -> None:
    pipeline = Pipeline([("words", TfidfVectorizer(sublinear_tf=True)), ("model", LinearM3L(C=3.0))], verbose=True)
    loaded = saved_and_loaded(pipeline, tmp_path)
    assert repr(loaded) == repr(pipeline)
    assert not hasattr(loaded[-1], "coef_")


@pytest.mark.parametrize("of_texts", [False, True], ids=["numbers", "texts"])
def test_wrappers_around_pipelines_come_back(tmp_path: Path, of_texts: bool) -> None:
    X, Y = rows(60)
    given = texts(60) if of_texts else X
    inner = make_pipeline(TfidfVectorizer() if of_texts else StandardScaler(), clone(MODEL))
    sets = [set(np.array(["sea", "sun", "snow"])[row == 1].tolist()) for row in Y]
    wrappers = [
        ThresholdTuner(inner, cv=2, random_state=0),
        ThresholdTuner(LabelCalibrator(inner, cv=2), scoring="micro-f1", cv=2, random_state=0),
        FixedThresholds(inner, 0.3),
        make_pipeline("passthrough" if of_texts else Normalizer(), LabelCalibrator(inner, cv=2)),
    ]
    for model in wrappers:
        loaded = saved_and_loaded(model.fit(given, sets), tmp_path)
        assert_same(loaded, model, given)
        if hasattr(model, "predict_sets"):
            assert loaded.predict_sets(given) == model.predict_sets(given)
        else:
            np.testing.assert_array_equal(loaded.predict_proba(given), model.predict_proba(given))


def test_other_models_in_pipelines_come_back(tmp_path: Path) -> None:
    X, Y = rows()
    signatures = {"seal": [1, 0, 1], "lion": [0, 1, 1], "whale": [1, 1, 0], "ape": [0, 0, 1]}
    animals = np.array(list(signatures))[np.arange(len(X)) % 3]
    scaled = make_pipeline(StandardScaler(), LinearM3L(random_state=0))
    for model, y in [
        (make_pipeline(StandardScaler(), KernelM3L(tol=1e-2)), Y),
        (make_pipeline(MinMaxScaler(), baselines.RankSVM(tol=1e-2)), Y),
        (ZeroShotClassifier(scaled, signatures), animals),
        (make_pipeline(StandardScaler(), ZeroShotClassifier(signatures=signatures)), animals),
    ]:
        assert_same(saved_and_loaded(model.fit(X, y), tmp_path), model, X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            make_pipeline(PolynomialFeatures(), LinearM3L()),
            "step 'polynomialfeatures' of the pipeline is a PolynomialFeatures.*Known steps: StandardScaler.*skops",
        ),
        (make_pipeline(FunctionTransformer(np.log1p), LinearM3L()), "FunctionTransformer.*skops.io.dump"),
        (make_pipeline(StandardScaler(), make_pipeline(LinearM3L())), "must be an estimator of multimargin.*Pipeline"),
        (make_pipeline(StandardScaler(), MinMaxScaler()), "must be an estimator of multimargin; it is a MinMaxScaler"),
        (StandardScaler(), "got a StandardScaler"),
        (make_pipeline(TfidfVectorizer(tokenizer=str.split), LinearM3L()), "tokenizer is a method_descriptor"),
        (make_pipeline(TfidfVectorizer(input="filename"), LinearM3L()), "input of TfidfVectorizer must be 'content'"),
        (make_pipeline(TfidfVectorizer(token_pattern="(a+)+$"), LinearM3L()), "token_pattern of TfidfVectorizer must"),
        (make_pipeline(CountVectorizer(ngram_range=(1, 10**9)), LinearM3L()), "ngram_range of CountVectorizer must"),
        (make_pipeline(CountVectorizer(dtype=object), LinearM3L()), "dtype of CountVectorizer is .*object.*float64"),
        (make_pipeline(SelectKBest(f_regression), LinearM3L()), "score_func of SelectKBest is .*chi2, f_classif"),
        (make_pipeline(Nystroem(kernel="precomputed"), LinearM3L()), "kernel of Nystroem must be 'rbf' or"),
        (make_pipeline(SimpleImputer(add_indicator=True), LinearM3L()), "add_indicator of SimpleImputer must be False"),
        (Pipeline([("scale", StandardScaler()), ("model", LinearM3L())], transform_input=["X"]), "no transform_input"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_stored_is_named(tmp_path: Path, model: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=f"(?s){message}"):
        save(model, tmp_path / "model.mm")
    assert list(tmp_path.iterdir()) == []


def test_a_cache_is_left_out(tmp_path: Path) -> None:
    X, Y = rows()
    pipeline = make_pipeline(StandardScaler(), clone(MODEL), memory=str(tmp_path / "cache")).fit(X, Y)
    loaded = saved_and_loaded(pipeline, tmp_path)
    assert loaded.memory is None
    assert_same(loaded, pipeline, X)


def changed(model: Any, change: Callable[[Any], object], path: Path) -> Path:
    """Write the file of a model whose JSON text was changed, with a right checksum."""
    save(model, path / "sound.mm")
    payload = (path / "sound.mm").read_bytes()[PREFIX.size :]
    (length,) = struct.unpack_from("<Q", payload)
    content = json.loads(payload[8 : 8 + length])
    change(content)
    text = json.dumps(content).encode()
    head = struct.pack("<Q", len(text)) + text
    arrays = payload[8 + length + -(8 + length) % ALIGNMENT :]
    payload = head + bytes(-len(head) % ALIGNMENT) + arrays
    digest = _digest(FORMAT_VERSION, len(payload), [memoryview(payload)])
    (path / "forged.mm").write_bytes(PREFIX.pack(SIGNATURE, FORMAT_VERSION, len(payload), digest) + payload)
    return path / "forged.mm"


def step_of(content: Any, position: int = 0) -> Any:
    return content["model"]["parameters"]["steps"]["list"][position]["tuple"][1]


def words_of(content: Any) -> list[Any]:
    words: list[Any] = step_of(content)["fitted"]["vocabulary_"]["list"]
    return words


def polars(content: Any) -> None:
    step_of(content)["fitted"]["_sklearn_output_config"] = {"dict": [["transform", "polars"]]}


def equal_names(content: Any) -> None:
    content["model"]["parameters"]["steps"]["list"][0]["tuple"][0] = "linearm3l"


def alone(content: Any) -> None:
    content["model"] = {"class": "Normalizer", "parameters": {}, "fitted": {}}


def texts_after_numbers(content: Any) -> None:
    step = {"class": "HashingVectorizer", "parameters": {"n_features": 5, "dtype": "float64"}, "fitted": {}}
    content["model"]["parameters"]["steps"]["list"].insert(1, {"tuple": ["texts", step]})


FORGERIES: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "missing attribute": ("numbers", lambda c: step_of(c)["fitted"].pop("mean_"), "missing attribute 'mean_'"),
    "unfitted step": ("numbers", lambda c: step_of(c).update(fitted={}), "is fitted, but its step StandardScaler"),
    "unlisted attribute": ("numbers", lambda c: step_of(c)["fitted"].update(transform=1), "no fitted attribute"),
    "no scale": ("numbers", lambda c: step_of(c)["fitted"].update(scale_=None), "scale_ of StandardScaler must"),
    "other width": ("numbers", lambda c: step_of(c)["fitted"].update(n_features_in_=4), "mean_ of StandardScaler"),
    "other class": ("numbers", lambda c: step_of(c).update({"class": "Normalizer"}), "valid model|Normalizer"),
    "foreign class": ("numbers", lambda c: step_of(c).update({"class": "FunctionTransformer"}), "does not know"),
    "polars": ("numbers", polars, "must be default"),
    "a cache": ("numbers", lambda c: c["model"]["parameters"].update(memory="cache"), "has no memory"),
    "fitted pipeline": ("numbers", lambda c: c["model"]["fitted"].update(n_=1), "has no n_"),
    "no steps": ("numbers", lambda c: c["model"]["parameters"].update(steps={"list": []}), "pairs of a name"),
    "equal names": ("numbers", equal_names, "pairs of a name"),
    "model twice": ("numbers", lambda c: c["model"]["parameters"]["steps"]["list"].reverse(), "not a step"),
    "a step alone": ("numbers", alone, "not an estimator"),
    "fewer words": ("texts", lambda c: words_of(c).pop(), "idf_ of TfidfVectorizer must have the shape"),
    "a word twice": ("texts", lambda c: words_of(c).__setitem__(0, words_of(c)[1]), "every word once"),
    "words that are numbers": ("texts", lambda c: words_of(c).__setitem__(0, 3), "list of texts"),
    "a slow pattern": ("texts", lambda c: step_of(c)["parameters"].update(token_pattern="(a+)+$"), "token_pattern"),
    "files": ("texts", lambda c: step_of(c)["parameters"].update(input="filename"), "input of TfidfVectorizer"),
    "a type": ("texts", lambda c: step_of(c)["parameters"].update(dtype="object"), "dtype of TfidfVectorizer"),
    "texts after numbers": ("numbers", texts_after_numbers, "takes texts, but the one before it gives 5 features"),
    "threads": ("kernel", lambda c: step_of(c)["parameters"].update(n_jobs=4000), "n_jobs of Nystroem must be None"),
    "other columns": ("kernel", lambda c: step_of(c, 1)["fitted"].update(n_features_in_=5), "LinearM3L"),
    "a function": ("best", lambda c: step_of(c)["parameters"].update(score_func="system"), "score_func of SelectKBest"),
    "fewer best": ("best", lambda c: step_of(c)["parameters"].update(k=2), "takes 3 features.*gives 2"),
    "a type to fill": ("gaps", lambda c: step_of(c)["fitted"].update(fit_dtype="O"), "fit_dtype of SimpleImputer"),
}


def of_kind(kind: str) -> Pipeline:
    X, Y = rows()
    if kind == "texts":
        return make_pipeline(TfidfVectorizer(), clone(MODEL)).fit(texts(), Y)
    step = {
        "kernel": Nystroem(n_components=6, random_state=0),
        "best": SelectKBest(chi2, k=3),
        "gaps": SimpleImputer(),
    }.get(kind, StandardScaler())
    return make_pipeline(step, clone(MODEL)).fit(X, Y)


@pytest.mark.parametrize(("kind", "change", "message"), FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_pipeline_is_refused(tmp_path: Path, kind: str, change: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        load(changed(of_kind(kind), change, tmp_path))


def test_a_file_of_another_scikit_learn_loads_if_it_fits_and_says_so_if_not(tmp_path: Path) -> None:
    pipeline = of_kind("numbers")
    loaded = load(changed(pipeline, lambda content: content.update({"scikit-learn": "0.99.1"}), tmp_path))
    assert_same(loaded, pipeline, rows()[0])

    def newer(content: Any) -> None:
        content["scikit-learn"] = "9.3.1"
        step_of(content)["parameters"]["with_flair"] = True

    with pytest.raises(ModelFileError, match=r"with_flair.*written with scikit-learn 9.3.1; this is.*Install"):
        load(changed(pipeline, newer, tmp_path))
    with pytest.raises(ModelFileError, match="mean_") as error:
        load(changed(pipeline, lambda content: step_of(content)["fitted"].pop("mean_"), tmp_path))
    assert "written with" not in str(error.value)


def test_a_wrapper_has_the_features_of_its_estimator(tmp_path: Path) -> None:
    X, Y = rows()
    model = FixedThresholds(clone(MODEL), 0.3).fit(pd.DataFrame(X, columns=list("abcde")), Y)
    forged = changed(model, lambda content: content["model"]["fitted"].pop("n_features_in_"), tmp_path)
    with pytest.raises(ModelFileError, match="estimator_ of FixedThresholds must have the features of the model"):
        load(forged)
