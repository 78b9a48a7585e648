"""Model files: what is stored comes back exactly; anything else is refused with its own sentence."""

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import baselines, priors, weights
from multimargin.errors import InputError, ModelFileError
from multimargin.estimators import (
    REGISTRY,
    CalibratedSeparationClassifier,
    CliqueClassifier,
    KernelM3L,
    LinearM3L,
    SubmodularClassifier,
)
from multimargin.labels import LabelForm
from multimargin.persistence import (
    FORMAT_VERSION,
    PREFIX,
    SIGNATURE,
    _digest,
    _Reader,
    _Writer,
    load,
    load_with_notes,
    save,
    storable_classes,
)


def sample(n_features: int = 4, n_labels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, n_features))
    return X, (X @ rng.normal(size=(n_features, n_labels)) > 0).astype(int)


def fitted(**parameters: Any) -> LinearM3L:
    X, Y = sample()
    return LinearM3L(**({"random_state": 0} | parameters)).fit(X, Y)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.mm"
    save(fitted(), path)
    return path


def rewritten(data: bytes, version: int = FORMAT_VERSION, payload: bytes | None = None) -> bytes:
    """Build a file with a right checksum, as an attacker or a newer library would."""
    payload = data[PREFIX.size :] if payload is None else payload
    digest = _digest(version, len(payload), [memoryview(payload)])
    return PREFIX.pack(SIGNATURE, version, len(payload), digest) + payload


def with_content(change: Any) -> bytes:
    """Return a file whose JSON text was changed by the function and whose checksum is right."""
    payload = b"".join(_Writer(storable_classes()).payload(fitted(), {}))
    (length,) = struct.unpack_from("<Q", payload)
    content = json.loads(payload[8 : 8 + length])
    change(content)
    text = json.dumps(content).encode()
    head = struct.pack("<Q", len(text)) + text
    start = 8 + length
    return rewritten(b"", payload=head + bytes(-len(head) % 64) + payload[start + -start % 64 :])


def value_round_trip(value: Any) -> Any:
    """Send one value through a model file as a constructor parameter."""
    chunks = _Writer(storable_classes()).payload(LinearM3L(prior=value), {})
    return _Reader(memoryview(b"".join(chunks)), storable_classes()).model().prior


def assert_same_model(a: LinearM3L, b: LinearM3L) -> None:
    X, _ = sample()
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))
    np.testing.assert_array_equal(np.asarray(a.predict(X)), np.asarray(b.predict(X)))
    assert a.predict_sets(X) == b.predict_sets(X)
    assert a.certificate_ == b.certificate_
    np.testing.assert_array_equal(a.history_.primal, b.history_.primal)
    public = {name for name in vars(a) if not name.startswith("_")}
    assert public == {name for name in vars(b) if not name.startswith("_")}


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"C": 0.5, "fit_intercept": False, "random_state": 3},
        {"prior": np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])},
        {"prior": priors.LowRankPrior(np.ones((3, 1)) / 2, np.full(3, 0.5))},
        {"class_weight": weights.LabelFrequencies([0.2, 0.5, 0.8])},
        {"class_weight": "balanced", "loss": "hamming", "C": np.float64(2)},
    ],
    ids=["defaults", "plain", "matrix prior", "low-rank prior", "frequencies", "numpy scalar"],
)
def test_loaded_model_is_the_saved_one(tmp_path: Path, parameters: dict[str, Any]) -> None:
    model = fitted(**parameters)
    save(model, tmp_path / "model.mm")
    loaded = load(tmp_path / "model.mm")
    assert_same_model(loaded, model)
    for name, value in model.get_params().items():
        other = loaded.get_params()[name]
        assert type(other) is type(value)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(other, value)
        elif not isinstance(value, priors.LowRankPrior | weights.LabelFrequencies):
            assert other == value
    X, Y = sample()
    np.testing.assert_array_equal(clone(loaded).fit(X, Y).coef_, model.coef_)


def test_every_form_of_labels_comes_back(tmp_path: Path) -> None:
    X, Y = sample()
    frame = pd.DataFrame(Y, columns=["sea", "sun", "snow"])
    sets = [set(np.array(["sea", "sun", "snow"])[row == 1].tolist()) for row in Y]
    for given_labels in (Y, sparse.csr_array(Y), sparse.csr_matrix(Y), frame, sets, Y[:, 0]):
        model = LinearM3L().fit(pd.DataFrame(X, columns=list("abcd")), given_labels)
        save(model, tmp_path / "model.mm")
        loaded = load(tmp_path / "model.mm")
        test = pd.DataFrame(X, columns=list("abcd"))
        before, after = model.predict(test), loaded.predict(test)
        assert type(before) is type(after)
        if isinstance(before, list):
            assert before == after
        elif sparse.issparse(before):
            assert (before != after).nnz == 0
        else:
            np.testing.assert_array_equal(before, after)
        np.testing.assert_array_equal(loaded.feature_names_in_, list("abcd"))


@pytest.mark.parametrize(
    "model",
    [
        *(cls() for cls in REGISTRY.values()),
        KernelM3L(kernel="precomputed"),
        CliqueClassifier(graph="full"),
        CalibratedSeparationClassifier(kernel="rbf"),
        CalibratedSeparationClassifier(kernel="precomputed"),
        baselines.RankSVM(),
        baselines.OutputKernelLeastSquares(),
        baselines.OutputKernelLeastSquares(decision="preimage", kernel="precomputed"),
    ],
    ids=lambda model: f"{type(model).__name__}-{getattr(model, 'kernel', '')}",
)
def test_every_model_is_the_same_after_loading(tmp_path: Path, model: Any) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 4))
    Y = (X @ rng.normal(size=(4, 3)) > 0).astype(int)
    if getattr(model, "kernel", None) == "precomputed":
        X = X @ X.T
    model = clone(model).fit(X, Y)
    save(model, tmp_path / "model.mm")
    loaded = load(tmp_path / "model.mm")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    public = {name for name in vars(model) if not name.startswith("_")}
    assert public == {name for name in vars(loaded) if not name.startswith("_")}


def test_a_new_estimator_declares_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Centred(LinearM3L):
        centre_: NDArray[np.float64]

        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            centre = X.mean(axis=0)
            super().fit(X - centre, y, sample_weight)
            self.centre_, self.undeclared_ = centre, 1.0
            return self

        def _scores(self, X: Any) -> Any:
            return super()._scores(X - self.centre_)

    monkeypatch.setitem(REGISTRY, "centred", Centred)
    X, Y = sample()
    model = Centred(random_state=0).fit(X + 5, Y)
    save(model, tmp_path / "model.mm")
    loaded = load(tmp_path / "model.mm")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert not hasattr(loaded, "undeclared_")
    model.centre_ = np.array([0.0, np.nan, 0.0, 0.0])
    with pytest.raises(ModelFileError, match="centre_ of Centred must be finite"):
        save(model, tmp_path / "model.mm")


def test_attributes_of_a_fit_with_other_parameters_are_left_out(tmp_path: Path) -> None:
    X, Y = sample()
    model = baselines.OutputKernelLeastSquares(decision="preimage").fit(X, Y).set_params(decision="ridge")
    assert hasattr(model, "sets_")
    save(model, tmp_path / "model.mm")
    assert not hasattr(load(tmp_path / "model.mm"), "sets_")
    assert not hasattr(model.fit(X[:20], Y[:20]), "sets_")


def test_equal_models_give_equal_bytes(tmp_path: Path) -> None:
    model = fitted()
    save(model, tmp_path / "a.mm")
    save(model, tmp_path / "b.mm")
    save(load(tmp_path / "a.mm"), tmp_path / "c.mm")
    assert (tmp_path / "a.mm").read_bytes() == (tmp_path / "b.mm").read_bytes() == (tmp_path / "c.mm").read_bytes()


def test_an_unfitted_model_keeps_its_parameters(tmp_path: Path) -> None:
    save(LinearM3L(C=7, time_limit=2.5), tmp_path / "model.mm")
    loaded = load(tmp_path / "model.mm")
    assert loaded.get_params() == LinearM3L(C=7, time_limit=2.5).get_params()
    assert not hasattr(loaded, "coef_")


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@given(plain_values)
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    assert repr(value_round_trip(value)) == repr(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0)[::2],
        np.empty((0, 3), dtype=np.float32),
        np.array(2.5),
        np.array([True, False]),
        np.array(["sea", "ß"]),
        np.array(["sea", None, 3, ("a", 1)], dtype=object),
        np.array([np.nan, -0.0, np.inf]),
    ],
    ids=["big endian", "Fortran", "strided", "empty", "0-d", "bool", "text", "objects", "special"],
)
def test_arrays_come_back(array: np.ndarray) -> None:
    back = value_round_trip(array)
    np.testing.assert_array_equal(back, array)
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.flags.f_contiguous == array.copy(order="K").flags.f_contiguous
    assert back.flags.writeable


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix])
def test_sparse_matrices_come_back(container: Any) -> None:
    matrix = container(np.array([[0, 1.5, 0], [2, 0, 0]]))
    back = value_round_trip(matrix)
    assert type(back) is container
    assert (back != matrix).nnz == 0


@pytest.mark.parametrize("offsets", [[0, 9, 0], [0, 2**63 - 1, 2], [0, -1, 2], [1, 1, 2], [0, 1, 3], [0, 1]])
def test_sparse_matrices_with_wrong_offsets_are_refused(offsets: list[int]) -> None:
    matrix = sparse.csr_array(np.eye(2))
    matrix.indptr = np.array(offsets)
    with pytest.raises((ModelFileError, ValueError), match="do not fit each other|index pointer"):
        value_round_trip(matrix)


def test_frames_come_back() -> None:
    frame = pd.DataFrame([[1.0, 0.5], [0.5, 1.0]], columns=["sea", "sun"], index=["sea", "sun"])
    pd.testing.assert_frame_equal(value_round_trip(frame), frame)


def test_notes_are_kept_beside_the_model(tmp_path: Path) -> None:
    notes = {"file": "train.arff", "labels": ("sea", "sun"), "n_features": 4}
    save(fitted(), tmp_path / "model.mm", notes=notes)
    assert load_with_notes(tmp_path / "model.mm")[1] == notes
    assert_same_model(load(tmp_path / "model.mm"), fitted())
    save(fitted(), tmp_path / "model.mm")
    assert load_with_notes(tmp_path / "model.mm")[1] == {}


def test_callback_is_dropped_and_private_state_left_out(tmp_path: Path) -> None:
    model = fitted(callback=lambda progress: False, warm_start=True)
    model._secret = object()
    save(model, tmp_path / "model.mm")
    loaded = load(tmp_path / "model.mm")
    assert loaded.callback is None
    assert not [name for name in vars(loaded) if name.startswith("_")]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression(), r"got a LogisticRegression.*skops\.io\.dump"),
        ({"coef": 1}, "got a dict"),
        (LinearM3L(prior=len), "LinearM3L.prior is a builtin_function_or_method"),
        (LinearM3L(random_state=np.random.RandomState(0)), "LinearM3L.random_state is a RandomState"),
        (LinearM3L(prior=sparse.coo_array(np.eye(2))), r"coo_array.*\.tocsr"),
        (LinearM3L(prior=np.array(["2020-01-01"], dtype="datetime64[D]")), "dtype datetime64"),
        (LinearM3L(prior=[1, {2, 3}]), r"LinearM3L.prior\[1\] is a set"),
    ],
    ids=["estimator", "foreign", "function", "generator", "coo", "dates", "nested"],
)
def test_only_plain_data_is_stored(tmp_path: Path, model: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        save(model, tmp_path / "model.mm")
    assert list(tmp_path.iterdir()) == []


def test_a_subclass_is_not_ours(tmp_path: Path) -> None:
    class LinearM3L2(LinearM3L):
        pass

    with pytest.raises(ModelFileError, match="got a LinearM3L2"):
        save(LinearM3L2(), tmp_path / "model.mm")


def test_bad_places_to_write(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is a directory"):
        save(fitted(), tmp_path)
    with pytest.raises(ModelFileError, match="does not exist"):
        save(fitted(), tmp_path / "none" / "model.mm")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left"):
        save(fitted(C=9), file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_saving_through_a_link_keeps_the_link(file: Path) -> None:
    link = file.with_name("link.mm")
    link.symlink_to(file.name)
    save(fitted(C=9), link)
    assert link.is_symlink()
    assert load(file).C == 9


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="No such file"):
        load(tmp_path / "none.mm")
    with pytest.raises(ModelFileError, match="Is a directory"):
        load(tmp_path)


def test_every_flipped_byte_is_noticed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for position in range(len(data)):
        data[position] ^= 0xFF >> (position % 8)
        file.write_bytes(data)
        with pytest.raises(ModelFileError, match=r"damaged|truncated|not a multimargin model file"):
            load(file)
        data[position] ^= 0xFF >> (position % 8)


def test_every_truncation_is_called_so(file: Path) -> None:
    data = file.read_bytes()
    for length in range(len(data)):
        file.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="is truncated"):
            load(file)
    file.write_bytes(data + b"\0")
    with pytest.raises(ModelFileError, match="is damaged"):
        load(file)


def test_foreign_files_are_called_so(tmp_path: Path) -> None:
    for content in (b"PK\x03\x04 a zip file", b"\x89PNG\r\n\x1a\n", b"@relation scene\n"):
        (tmp_path / "foreign").write_bytes(content)
        with pytest.raises(ModelFileError, match="is not a multimargin model file"):
            load(tmp_path / "foreign")


def test_newer_version_is_called_so(file: Path) -> None:
    file.write_bytes(rewritten(file.read_bytes(), version=FORMAT_VERSION + 1))
    with pytest.raises(ModelFileError, match=r"format version 2.*reads up to version 1.*Upgrade"):
        load(file)


def entry_of(content: Any, attribute: str) -> dict[str, Any]:
    entry: dict[str, Any] = content["arrays"][content["model"]["fitted"][attribute]["array"]]
    return entry


def bad_sparse(content: Any) -> None:
    part = {"list": [9, 9, 9]}
    parts = {"data": part, "indices": part, "indptr": part}
    content["model"]["parameters"]["prior"] = {"sparse": "csr_array", "shape": [2, 2], **parts}


def huge_table(content: Any) -> None:
    names = {"list": list(range(1000))}
    content["model"]["parameters"]["prior"] = {"frame": 1.0, "index": names, "columns": names}


def swapped_shape(content: Any) -> None:
    entry_of(content, "coef_")["shape"].reverse()


def other_precision(content: Any) -> None:
    entry = entry_of(content, "intercept_")
    entry["dtype"], entry["shape"] = "<f2", [12]


def form(**changes: Any) -> Any:
    return lambda content: content["model"]["fitted"]["label_form_"]["parameters"].update(changes)


FORGERIES: dict[str, Any] = {
    "foreign class": lambda content: content["model"].update({"class": "Popen"}),
    "unknown parameter": lambda content: content["model"]["parameters"].update(shell=True),
    "wrong parameter": lambda content: content["model"]["parameters"].update(C=-1),
    "endless parameter": lambda content: content["model"]["parameters"].update(intercept_scaling=1e200),
    "many threads": lambda content: content["model"]["parameters"].update(n_jobs=10**7),
    "no threads": lambda content: content["model"]["parameters"].update(n_jobs=0),
    "callback": lambda content: content["model"]["parameters"].update(callback={"class": "Jaccard", "parameters": {}}),
    "missing parameters": lambda content: content["model"].pop("parameters"),
    "private attribute": lambda content: content["model"]["fitted"].update(__class__=1),
    "shadowed method": lambda content: content["model"]["fitted"].update(fit=1),
    "unlisted attribute": lambda content: content["model"]["fitted"].update(note_=1),
    "missing attribute": lambda content: content["model"]["fitted"].pop("intercept_"),
    "wrong certificate": lambda content: content["model"]["fitted"].update(certificate_=1.0),
    "wrong converged": lambda content: content["model"]["fitted"]["certificate_"]["parameters"].update(converged="yes"),
    "other number of features": lambda content: content["model"]["fitted"].update(n_features_in_=5),
    "swapped shape": swapped_shape,
    "other precision": other_precision,
    "array beyond the end": lambda content: content["arrays"][0].update(at=10**9),
    "overlapping arrays": lambda content: content["arrays"][1].update(at=0),
    "negative shape": lambda content: content["arrays"][0].update(shape=[-1]),
    "text in a shape": lambda content: content["arrays"][0].update(shape=["a"], dtype="|S999999999"),
    "object array": lambda content: content["arrays"][0].update(dtype="|O"),
    "wide text": lambda content: content["arrays"][0].update(dtype="|S999999999", shape=[0]),
    "unknown order": lambda content: content["arrays"][0].update(order="Z"),
    "shape beyond C integers": lambda content: content["arrays"][0].update(shape=[0, 10**30]),
    "array named twice": lambda content: content["model"]["parameters"].update(prior={"array": 0}),
    "no such array": lambda content: content["model"]["parameters"].update(prior={"array": 99}),
    "bad sparse": bad_sparse,
    "huge table": huge_table,
    "bare list": lambda content: content["model"]["parameters"].update(prior=[1, 2]),
    "not an estimator": lambda content: content.update(model=3),
    "two kinds": lambda content: content.update(model={"list": [], "tuple": []}),
    "form of another kind": form(kind="pickle"),
    "form with a function of scipy": form(kind="sparse", container="load_npz"),
    "form with a wide dtype": form(dtype="S999999999"),
    "form of one label": form(kind="column"),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_file_is_refused(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "forged.mm"
    path.write_bytes(with_content(change))
    with pytest.raises(ModelFileError, match=r"forged\.mm"):
        load(path)


def test_an_unchanged_file_with_its_checksum_made_anew_loads(tmp_path: Path) -> None:
    (tmp_path / "same.mm").write_bytes(with_content(lambda content: None))
    assert_same_model(load(tmp_path / "same.mm"), fitted())


def test_an_array_named_many_times_takes_no_memory(tmp_path: Path) -> None:
    def repeat(content: Any) -> None:
        content["notes"] = {"list": [{"array": 0}] * 400}

    (tmp_path / "bomb.mm").write_bytes(with_content(repeat))
    with pytest.raises(ModelFileError, match="names array 0 twice"):
        load(tmp_path / "bomb.mm")


def changed_elements(model: Any, attribute: str, elements: Any) -> bytes:
    """Return a file in which an array holds other bytes."""
    setattr(model, attribute, getattr(model, attribute).copy())
    stored = b"".join(_Writer(storable_classes()).payload(model, {}))
    before = np.ascontiguousarray(getattr(model, attribute)).tobytes()
    assert stored.count(before) == 1
    return rewritten(b"", payload=stored.replace(before, np.asarray(elements).tobytes().ljust(len(before), b"\0")))


def test_elements_that_predictions_cannot_bear_are_refused(tmp_path: Path) -> None:
    X, Y = sample()
    X, path = np.abs(X), tmp_path / "forged.mm"
    sub = SubmodularClassifier(pairs=1.0, random_state=0).fit(X, Y)
    pre = KernelM3L(kernel="precomputed").fit(X @ X.T, Y)
    near = baselines.OutputKernelLeastSquares(decision="preimage").fit(X, Y)
    cases = [
        (fitted(), "coef_", [np.nan], "coef_ of LinearM3L must be in"),
        (fitted(), "intercept_", [1e201], "intercept_ of LinearM3L must be in"),
        (sub, "pairs_", np.array([0, 3], np.int32), "pairs_ of SubmodularClassifier must be in"),
        (sub, "pairs_", np.array([1, 1], np.int32), "pairs_ of SubmodularClassifier must pair different labels"),
        (sub, "pair_coef_", [-1.0], "pair_coef_ of SubmodularClassifier must be in"),
        (pre, "support_", [30], "support_ of KernelM3L must be in"),
        (pre, "support_", [-1], "support_ of KernelM3L must be in"),
        (near, "sets_", np.array([2], np.uint8), "elements that are no booleans"),
    ]
    for model, attribute, elements, message in cases:
        path.write_bytes(changed_elements(model, attribute, elements))
        with pytest.raises(ModelFileError, match=message):
            load(path)
    data = b"".join(_Writer(storable_classes()).payload(LinearM3L(prior=np.array(["sea"])), {}))
    path.write_bytes(rewritten(b"", payload=data.replace("sea".encode("utf-32-le"), b"\xff" * 12)))
    with pytest.raises(ModelFileError, match="elements that are no characters"):
        load(path)


def test_kernels_without_finite_values_are_refused(tmp_path: Path) -> None:
    X, Y = sample()
    for changes in ({"degree": 10**6}, {"coef0": 1e99, "degree": 4}, {"kernel": "rbf", "scale": 1e38}):
        model = KernelM3L(C=1.0, kernel="poly").fit(X.astype(np.float32), Y)
        model.dual_coef_ *= np.float32(changes.pop("scale", 1.0))
        model.set_params(**changes)
        with pytest.raises(ModelFileError, match="support_vectors_ of KernelM3L must have kernel values in range"):
            save(model, tmp_path / "model.mm")


def test_cliques_outside_the_labels_are_refused(tmp_path: Path) -> None:
    X, Y = sample()
    model = CliqueClassifier(graph="full", random_state=0).fit(X, Y)
    model.subsets_ = [*model.subsets_[:-1], (1, 3)]
    with pytest.raises(ModelFileError, match="names label 3, but there are only 3 labels"):
        save(model, tmp_path / "model.mm")


def test_what_cannot_be_loaded_is_not_saved(tmp_path: Path) -> None:
    model = fitted().set_params(n_jobs=10**7)
    with pytest.raises(ModelFileError, match="n_jobs of LinearM3L must be None or between 1 and 4096"):
        save(model, tmp_path / "model.mm")
    model = fitted()
    model.coef_ = model.coef_[:, :2]
    with pytest.raises(ModelFileError, match=r"coef_ of LinearM3L must have the shape \(labels features\)"):
        save(model, tmp_path / "model.mm")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "pickle"},
        {"dtype": "S9"},
        {"dtype": "O"},
        {"dtype": "i4,i4"},
        {"negative": 1},
        {"kind": "sparse"},
        {"kind": "sparse", "container": "load_npz"},
        {"container": "csr_array"},
    ],
)
def test_a_form_of_labels_that_cannot_be_read_cannot_be_written(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no form of labels"):
        LabelForm(**({"kind": "array"} | changes))


def test_labels_in_a_class_derived_from_scipys_come_back_in_scipys() -> None:
    class Mine(sparse.csc_matrix):
        pass

    X, Y = sample()
    assert type(LinearM3L().fit(X, Mine(Y)).predict(X)) is sparse.csc_matrix


def test_unknown_class_is_named(tmp_path: Path) -> None:
    path = tmp_path / "forged.mm"
    path.write_bytes(with_content(FORGERIES["foreign class"]))
    with pytest.raises(ModelFileError, match=r"the class 'Popen', which this multimargin .* does not know"):
        load(path)


# Saves a model over a file, in one process after another; the n-th dies at its n-th write, fsync or rename, a write
# half done. Prints how many died before the first that survived.
KILLED_SAVES = """
import os, pathlib, signal, sys
from multimargin import load, save
from multimargin.estimators import REGISTRY, LinearM3L

path = pathlib.Path(sys.argv[1])
old, model = path.read_bytes(), load(path)
save(model.set_params(C=2.0), path.with_name("whole.mm"))
new = path.with_name("whole.mm").read_bytes()
opened, fsync, replace = pathlib.Path.open, os.fsync, os.replace

def save_and_die(n):
    left = [n]
    def step(action, half=None):
        left[0] -= 1
        if left[0] == 0:
            if half is not None:
                half()
            os.kill(os.getpid(), signal.SIGKILL)
        return action()
    class Trap:
        def __init__(self, file):
            self.file = file
            self.fileno, self.flush = file.fileno, file.flush
        def __enter__(self):
            return self
        def __exit__(self, *error):
            self.file.close()
        def write(self, chunk):
            def half():
                self.file.write(chunk[: len(chunk) // 2])
                self.file.flush()
            step(lambda: self.file.write(chunk), half)
    pathlib.Path.open = lambda path, mode: Trap(opened(path, mode))
    os.fsync = lambda descriptor: step(lambda: fsync(descriptor))
    os.replace = lambda a, b: step(lambda: replace(a, b))
    save(model, path)

n, status = 0, None
while status != 0:
    n += 1
    path.write_bytes(old)
    child = os.fork()
    if child == 0:
        save_and_die(n)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    assert path.read_bytes() == new if status == 0 else path.read_bytes() in (old, new), n
    assert all(other.name.startswith(".") for other in path.parent.iterdir() if other.suffix == ".tmp"), n
print(n - 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_step_of_saving_leaves_a_whole_file(file: Path) -> None:
    command = [sys.executable, "-c", KILLED_SAVES, str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    n_arrays = len(_Reader(memoryview(file.read_bytes())[PREFIX.size :], storable_classes()).arrays)
    # the prefix, the JSON text, each array and its padding, the file on disk, its name, and the folder on disk
    assert int(result.stdout) == 2 + 2 * n_arrays + 3
    assert_same_model(load(file), fitted())


CHILD = """
import sys
import numpy as np
from multimargin import persistence
from multimargin.estimators import REGISTRY, LinearM3L

model = LinearM3L(C=2.0, prior=np.ones((2000, 2000)))
print("saving", flush=True)
while True:
    persistence.save(model, sys.argv[1])
"""


@pytest.mark.parametrize("delay", [0.004, 0.03])
def test_a_kill_at_any_moment_leaves_a_whole_file(file: Path, delay: float) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, str(file)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "saving\n"
        time.sleep(delay)
        child.kill()
    assert load(file).C in ("scale", 2.0)


def test_attacks_by_the_fuzzer_are_refused_or_answered() -> None:
    fuzzer = Path(__file__).parents[1] / "fuzz" / "model_files.py"
    result = subprocess.run(
        [sys.executable, str(fuzzer), "--cases", "400", "--seed", "1"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_skops_stores_fitted_models() -> None:
    model = fitted(prior=np.eye(3))
    data = skops.io.dumps(model)
    untrusted = skops.io.get_untrusted_types(data=data)
    assert all(name.startswith("multimargin.") for name in untrusted)
    assert_same_model(skops.io.loads(data, trusted=untrusted), model)


def test_skops_stores_pipelines() -> None:
    X, Y = sample()
    pipeline = make_pipeline(StandardScaler(), LinearM3L()).fit(X, Y)
    data = skops.io.dumps(pipeline)
    loaded = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    np.testing.assert_array_equal(loaded.predict(X), pipeline.predict(X))
