"""Model files: plain numbers and names, never code.

Layout of a model file, little endian::

    16 bytes   signature
     4 bytes   format version
     8 bytes   length of the payload
    32 bytes   sha256 of version, length and payload
    payload:   8 bytes length of the JSON text, the JSON text, then the arrays, each on a 64-byte boundary

The first 60 bytes keep this layout in every format version, so that an older library can tell a newer file
from a damaged one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import math
import os
import re
import secrets
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator

from . import __version__, _model_contents, pipelines
from .errors import ModelFileError

__all__ = ["load", "load_with_notes", "save"]

SIGNATURE = b"\x89multimargin\r\n\x1a\n"
FORMAT_VERSION = 1
PREFIX = struct.Struct("<16sIQ32s")
ALIGNMENT = 64
PLAIN_DTYPE = re.compile(r"\|[biu]1|<[iuf][248]|\|S[1-9]\d{0,8}|<U[1-9]\d{0,8}")
SPARSE_TYPES = {t.__name__: t for t in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix)}

REMEDY = "Give a file written by multimargin.save or multimargin fit."
AGAIN = "Save or copy it again."

Json: TypeAlias = Any
PathLike: TypeAlias = str | os.PathLike[str]


def storable_classes() -> dict[str, type]:
    """Return the only classes a model file may name, by class name."""
    from .baselines import REGISTRY as BASELINES
    from .decisions import (
        Calibration,
        CPath,
        FixedThresholds,
        JointDecoder,
        LabelCalibrator,
        PathScores,
        Thresholds,
        ThresholdTuner,
        TunedM3L,
    )
    from .estimators import REGISTRY, Certificate, CliqueCertificate, CliquePath, History, Pruning
    from .label_kernels import Cosine, ExpMinusOne, Jaccard, Polynomial
    from .labels import LabelForm
    from .metrics import Reliability
    from .priors import LowRankPrior
    from .weights import LabelFrequencies
    from .zero_shot import ZeroShotClassifier

    results = (
        Certificate,
        CliqueCertificate,
        CliquePath,
        History,
        LabelForm,
        Calibration,
        PathScores,
        Pruning,
        Reliability,
        Thresholds,
    )
    parameters = (LowRankPrior, LabelFrequencies, Polynomial, Cosine, ExpMinusOne, Jaccard)
    models = [cls for cls in (*REGISTRY.values(), *BASELINES.values()) if cls._storable]
    wrappers = (ZeroShotClassifier, ThresholdTuner, FixedThresholds, LabelCalibrator, JointDecoder, CPath, TunedM3L)
    ours = {cls.__name__: cls for cls in (*models, *wrappers, *results, *parameters)}
    return ours | pipelines.CLASSES


def _is_model(cls: type) -> bool:
    """Whether a file may be of an object of this class: it predicts."""
    return issubclass(cls, BaseEstimator) and cls not in pipelines.REGISTRY


def _room_of(cls: type) -> Any:
    """Return the module that knows what a file holds of an estimator of this class."""
    return pipelines if pipelines.CLASSES.get(cls.__name__) is cls else _model_contents


def save(model: Any, path: PathLike, *, notes: dict[str, Any] | None = None) -> None:
    """Write a model to one file, atomically.

    The file appears under its name only when it is complete and on disk: a crash in the middle leaves the
    previous file as it was (and perhaps a hidden ``.tmp`` file beside it). Equal models give equal bytes.

    Parameters
    ----------
    model : estimator of multimargin, or Pipeline that ends in one
        Fitted or not. Its constructor parameters and the fitted attributes of its class are stored; `callback` is
        stored as None, a function that made a prior as that prior, and everything else, such as the warm start, is left
        out. Of scikit-learn's steps, scalers, text vectorizers, `SimpleImputer`, `SelectKBest`, `VarianceThreshold`,
        `Nystroem`, `RBFSampler`, `TruncatedSVD` and `PCA` are known, alone in a pipeline or with it inside a wrapper;
        an error names them all. A model trained on a cluster is stored as the local one.
    path : str or path
        The file to write or replace.
    notes : dict, optional
        Plain values to keep beside the model, such as how its training data was read; see `load_with_notes`.

    Raises
    ------
    ModelFileError
        If the model holds something that is not plain data, or the file cannot be written.
    """
    target = Path(path).resolve()
    if target.is_dir():
        msg = f"Cannot save a model as {path}: it is a directory. Give the name of a file."
        raise ModelFileError(msg)
    if not target.parent.is_dir():
        msg = f"Cannot save a model as {path}: the folder {target.parent} does not exist. Create it first."
        raise ModelFileError(msg)
    if hasattr(model, "to_local"):  # trained on a cluster, which a file does not need
        model = model.to_local()
    chunks = _Writer(storable_classes()).payload(model, notes or {})
    try:
        _replace_atomically(target, chunks)
    except OSError as error:
        msg = f"Cannot save a model as {path}: {error.strerror or error}. Choose another place."
        raise ModelFileError(msg) from error


def load(path: PathLike) -> Any:
    """Read a model written by `save`.

    Nothing in the file is executed: it can only name classes of this library and known steps of scikit-learn, and give
    them plain data, each array once. Parameters and fitted attributes are checked against what the class makes itself,
    so that a forged file is refused here rather than felt in a prediction. The loaded model predicts exactly as the
    saved one did.

    Parameters
    ----------
    path : str or path
        A model file.

    Returns
    -------
    model : estimator of multimargin, or Pipeline that ends in one

    Raises
    ------
    ModelFileError
        If the file is missing, foreign, truncated, damaged, of a newer format version, or holds no sound model.
    """
    return load_with_notes(path)[0]


def load_with_notes(path: PathLike) -> tuple[Any, dict[str, Any]]:
    """Read a model as `load` does, and the notes that `save` kept beside it.

    Parameters
    ----------
    path : str or path
        A model file.

    Returns
    -------
    model : estimator of multimargin
    notes : dict
        Empty if there are none.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        msg = f"Cannot read the model file {path}: {error.strerror or error}. {REMEDY}"
        raise ModelFileError(msg) from error
    payload = _checked_payload(data, path)
    try:
        reader = _Reader(payload, storable_classes())
        return reader.model(), reader.notes()
    except ModelFileError as error:
        msg = f"Cannot load the model file {path}: {error}"
        raise ModelFileError(msg) from error
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, struct.error) as error:
        msg = f"The model file {path} does not hold a valid model ({error}). Save the model again."
        raise ModelFileError(msg) from error


def _digest(version: int, length: int, chunks: list[memoryview]) -> bytes:
    digest = hashlib.sha256(struct.pack("<IQ", version, length))
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()


def _replace_atomically(target: Path, chunks: list[memoryview]) -> None:
    length = sum(chunk.nbytes for chunk in chunks)
    prefix = PREFIX.pack(SIGNATURE, FORMAT_VERSION, length, _digest(FORMAT_VERSION, length, chunks))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(prefix)
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked_payload(data: bytes, path: PathLike) -> memoryview:
    if not data.startswith(SIGNATURE) and not (len(data) < len(SIGNATURE) and SIGNATURE.startswith(data)):
        msg = f"{path} is not a multimargin model file: its first bytes are not ours. {REMEDY}"
        raise ModelFileError(msg)
    expected = PREFIX.size
    if len(data) >= PREFIX.size:
        _, version, length, digest = PREFIX.unpack_from(data)
        expected += length
    if len(data) < expected:
        msg = f"The model file {path} is truncated: it has {len(data)} of at least {expected} bytes. {AGAIN}"
        raise ModelFileError(msg)
    payload = memoryview(data)[PREFIX.size :]
    if len(data) > expected or _digest(version, length, [payload]) != digest:
        msg = f"The model file {path} is damaged: its checksum does not match its content. {AGAIN}"
        raise ModelFileError(msg)
    if version > FORMAT_VERSION:
        msg = (
            f"The model file {path} has format version {version}; this multimargin {__version__} reads up to "
            f"version {FORMAT_VERSION}. Upgrade with: pip install --upgrade multimargin"
        )
        raise ModelFileError(msg)
    return payload


class _Writer:
    """Turns a model into a JSON text and a list of arrays."""

    def __init__(self, classes: dict[str, type]) -> None:
        self.classes = classes
        self.arrays: list[np.ndarray] = []
        self.table: list[Json] = []
        self.size = 0
        self.holds_steps = False

    def payload(self, model: Any, notes: dict[str, Any]) -> list[memoryview]:
        if not self._is_ours(model) or not _is_model(type(model)):
            names = [name for name, cls in self.classes.items() if _is_model(cls)]
            msg = (
                f"save() stores estimators of multimargin ({', '.join(names)}), a Pipeline that ends in one included; "
                f"got a {type(model).__name__}. Store other objects with skops.io.dump(model, path)."
            )
            raise ModelFileError(msg)
        content = {
            "library": f"multimargin {__version__}",
            "model": self.encode(model, type(model).__name__),
            "notes": self.encode(notes, "notes"),
            "arrays": self.table,
        }
        if self.holds_steps:
            content["scikit-learn"] = sklearn.__version__
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
        head = struct.pack("<Q", len(text)) + text
        chunks = [memoryview(head + bytes(-len(head) % ALIGNMENT))]
        for array in self.arrays:
            chunks.append(_bytes_of(array))
            chunks.append(memoryview(bytes(-array.nbytes % ALIGNMENT)))
        return chunks

    def _is_ours(self, value: Any) -> bool:
        return self.classes.get(type(value).__name__) is type(value)

    def encode(self, value: Any, where: str) -> Json:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray | np.generic):
            return self._encode_array(value, where)
        if sparse.issparse(value):
            return self._encode_sparse(value, where)
        if type(value) in (list, tuple):
            return {type(value).__name__: [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]}
        if type(value) is dict:
            pairs = [[self.encode(k, f"a key of {where}"), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"dict": pairs}
        if type(value).__name__ == "DataFrame":
            columns, index = (self.encode(axis.tolist(), where) for axis in (value.columns, value.index))
            return {"frame": self.encode(value.to_numpy(), where), "columns": columns, "index": index}
        if self._is_ours(value):
            return self._encode_object(value, where)
        msg = (
            f"{where} is a {type(value).__name__}; a model file holds numbers, strings, arrays and this "
            f"library's own classes. Replace it by plain data, or store the model with skops.io.dump."
        )
        raise ModelFileError(msg)

    def _encode_object(self, value: Any, where: str) -> Json:
        def encoded(items: dict[str, Any]) -> dict[str, Json]:
            return {name: self.encode(item, f"{where}.{name}") for name, item in items.items()}

        name = type(value).__name__
        if isinstance(value, BaseEstimator):
            room = _room_of(type(value))
            parameters, fitted = room.contents(value)
            node = {"class": name, "parameters": encoded(parameters), "fitted": encoded(fitted)}
            room.make_model(type(value), parameters, fitted)  # no file is written that cannot be read
            self.holds_steps |= room is pipelines
            return node
        return {"class": name, "parameters": encoded(_constructor_values(value))}

    def _encode_array(self, value: np.ndarray | np.generic, where: str) -> Json:
        array = np.asarray(value)
        if array.dtype == object:
            items = [self.encode(item, f"an element of {where}") for item in array.ravel()]
            return {"objects": items, "shape": list(array.shape)}
        if not PLAIN_DTYPE.fullmatch(array.dtype.newbyteorder("<").str):
            msg = (
                f"{where} has dtype {array.dtype}; a model file holds booleans, strings, and integers and real numbers "
                "of at most 8 bytes. Convert it first."
            )
            raise ModelFileError(msg)
        # The memory order is kept: BLAS may round differently on a transposed copy.
        order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        # Even an empty array takes memory for one element: one of texts is stored as of the shortest.
        dtype = array.dtype.newbyteorder("<") if array.size or array.dtype.kind not in "SU" else array.dtype.kind + "1"
        stored = np.asarray(array, dtype=dtype, order=order)
        self.table.append({"dtype": stored.dtype.str, "shape": list(stored.shape), "order": order, "at": self.size})
        self.arrays.append(stored)
        self.size += stored.nbytes + -stored.nbytes % ALIGNMENT
        return {"scalar" if isinstance(value, np.generic) else "array": len(self.arrays) - 1}

    def _encode_sparse(self, value: Any, where: str) -> Json:
        name = type(value).__name__
        if SPARSE_TYPES.get(name) is not type(value):
            msg = f"{where} is a {name}; a model file holds CSR and CSC only. Convert it with .tocsr()."
            raise ModelFileError(msg)
        parts = {part: self.encode(getattr(value, part), where) for part in ("data", "indices", "indptr")}
        return {"sparse": name, "shape": list(value.shape), **parts}


def _bytes_of(array: np.ndarray) -> memoryview:
    """View the elements in memory order without a copy."""
    return array.ravel(order="K").view(np.uint8).data if array.nbytes else memoryview(b"")


def _constructor_values(value: Any) -> dict[str, Any]:
    """Read back the arguments of an object that keeps each under its own name."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return {name: getattr(value, name) for name in inspect.signature(type(value)).parameters}


class _Reader:
    """Turns a checked payload back into a model; trusts nothing but the layout."""

    def __init__(self, payload: memoryview, classes: dict[str, type]) -> None:
        (length,) = struct.unpack_from("<Q", payload)
        self.content = json.loads(bytes(payload[8 : 8 + length]), parse_constant=_no_constant)
        start = 8 + length
        self.arrays = _stored_arrays(self.content["arrays"], payload[start + -start % ALIGNMENT :])
        self.classes = classes
        self.decoders: dict[str, Callable[[Json], Any]] = {
            "float": lambda node: float(node["float"]),
            "list": lambda node: [self.decode(item) for item in node["list"]],
            "tuple": lambda node: tuple(self.decode(item) for item in node["tuple"]),
            "dict": lambda node: {self.decode(key): self.decode(value) for key, value in node["dict"]},
            "frame": self._frame,
            "array": lambda node: self._array(node["array"]),
            "scalar": lambda node: self._array(node["scalar"])[()],
            "objects": self._objects,
            "sparse": self._sparse,
            "class": self._object,
        }

    def model(self) -> BaseEstimator:
        model = self.decode(self.content["model"])
        if not _is_model(type(model)):
            msg = f"it holds a {type(model).__name__}, not an estimator."
            raise ModelFileError(msg)
        return model

    def notes(self) -> dict[str, Any]:
        notes = self.decode(self.content["notes"])
        if not isinstance(notes, dict):
            msg = f"its notes are a {type(notes).__name__}, not a dict."
            raise ModelFileError(msg)
        return notes

    def decode(self, node: Json) -> Any:
        if node is None or isinstance(node, bool | int | float | str):
            return node
        (kind,) = self.decoders.keys() & node.keys()
        return self.decoders[kind](node)

    def _object(self, node: Json) -> Any:
        cls = self.classes.get(node["class"])
        if cls is None:
            msg = (
                f"it names the class {node['class']!r}, which this multimargin {__version__} does not know. "
                f"Upgrade with: pip install --upgrade multimargin"
            )
            raise ModelFileError(msg)
        parameters = {name: self.decode(item) for name, item in node["parameters"].items()}
        if not issubclass(cls, BaseEstimator):
            return cls(**parameters)
        fitted = {name: self.decode(item) for name, item in node["fitted"].items()}
        try:
            return _room_of(cls).make_model(cls, parameters, fitted)
        except (ModelFileError, TypeError) as error:
            if _room_of(cls) is not pipelines or self._same_scikit_learn():
                raise
            theirs = self.content["scikit-learn"]
            msg = (
                f"{str(error).rstrip('.')}. The file was written with scikit-learn {theirs}; this is "
                f"{sklearn.__version__}. Install the version that wrote it, or fit and save the model again."
            )
            raise ModelFileError(msg) from error

    def _same_scikit_learn(self) -> bool:
        """Whether the steps of pipelines are from the same version, but for corrections."""
        theirs = self.content.get("scikit-learn")
        return not isinstance(theirs, str) or theirs.split(".")[:2] == sklearn.__version__.split(".")[:2]

    def _array(self, index: int) -> np.ndarray:
        if index not in self.arrays:
            msg = f"it names array {index} twice, or has none such."
            raise ModelFileError(msg)
        stored = self.arrays.pop(index)
        return stored.astype(stored.dtype.newbyteorder("="), order="K", copy=True)

    def _objects(self, node: Json) -> np.ndarray:
        array = np.empty(len(node["objects"]), dtype=object)
        for i, item in enumerate(node["objects"]):
            array[i] = self.decode(item)
        return array.reshape(node["shape"])

    def _frame(self, node: Json) -> Any:
        import pandas as pd

        cells, index, columns = (self.decode(node[part]) for part in ("frame", "index", "columns"))
        if not isinstance(cells, np.ndarray) or cells.shape != (len(index), len(columns)):
            msg = "it holds a table whose cells do not fit its rows and columns."
            raise ModelFileError(msg)
        return pd.DataFrame(cells, index, columns)

    def _sparse(self, node: Json) -> Any:
        data, indices, indptr = (self.decode(node[part]) for part in ("data", "indices", "indptr"))
        # SciPy does not look at offsets whose last is 0, nor at differences that overflow.
        sound = (
            all(isinstance(part, np.ndarray) and part.ndim == 1 for part in (data, indices, indptr))
            and indices.dtype.kind == indptr.dtype.kind == "i"
            and len(data) == len(indices) >= indptr[-1]
            and indptr[0] == 0
            and (indptr[1:] >= indptr[:-1]).all()
        )
        if not sound:
            msg = "it holds a sparse matrix whose parts do not fit each other."
            raise ModelFileError(msg)
        matrix = SPARSE_TYPES[node["sparse"]]((data, indices, indptr), shape=tuple(node["shape"]))
        matrix.check_format(full_check=True)
        return matrix


def _no_constant(text: str) -> None:
    msg = f"it has the number {text}, which model files write otherwise."
    raise ModelFileError(msg)


def _stored_arrays(table: list[Json], data: memoryview) -> dict[int, np.ndarray]:
    """Return views of the arrays by their numbers: one after another, as `save` writes them, to the end of the file."""
    arrays: dict[int, np.ndarray] = {}
    position = 0
    for index, entry in enumerate(table):
        text, shape = entry["dtype"], tuple(entry["shape"])
        if not PLAIN_DTYPE.fullmatch(text) or any(type(n) is not int or n < 0 for n in shape):
            msg = f"it has an array of dtype {text!r} and shape {shape}, which model files never hold."
            raise ModelFileError(msg)
        width = int(text[2:]) * (4 if text[1] == "U" else 1)
        size = math.prod(shape) * width
        if entry["at"] != position or position + size > len(data) or width > max(size, 8):
            msg = f"array {index} is not where it should be in the file. Save the model again."
            raise ModelFileError(msg)
        flat = np.frombuffer(data[position : position + size], dtype=text) if size else np.empty(0, text)
        _check_elements(flat, index)
        arrays[index] = flat.reshape(shape, order=entry["order"])
        position += size + -size % ALIGNMENT
    if position != len(data):
        msg = "it holds bytes that belong to no array. Save the model again."
        raise ModelFileError(msg)
    return arrays


def _check_elements(flat: np.ndarray, index: int) -> None:
    """Refuse bit patterns that no value has: NumPy trusts that booleans are 0 or 1 and characters are Unicode."""
    kind = flat.dtype.kind
    bits = flat.view(np.uint8) if kind == "b" else flat.view("<u4") if kind == "U" else None
    if bits is not None and bits.size and bits.max() > (1 if kind == "b" else sys.maxunicode):
        msg = f"array {index} has elements that are no {'booleans' if kind == 'b' else 'characters'}."
        raise ModelFileError(msg)
