r"""Models as ONNX graphs, for programs without Python.

A graph has the input ``X``, dense rows in the precision of the model, and the outputs

* ``scores`` of shape (rows, labels): what ``decision_function`` gives,
* ``labels``, 0 or 1: what ``predict`` gives,
* ``probabilities``, of a calibrated model: what ``predict_proba`` gives,

each within :math:`10^{-5} (1 + |s|)` of it; a label may differ only where its score is that close to the threshold.
Kernels are evaluated in double. Scores of a ``KernelM3L`` trained on float32, which ``decision_function`` sums in
single precision, are those of the same model in double.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from . import __version__
from ._memory import shown_bytes
from .baselines import OutputKernelLeastSquares, RankSVM
from .decisions import CPath, FixedThresholds, LabelCalibrator, ThresholdTuner, TunedM3L
from .errors import InputError
from .estimators import CalibratedSeparationClassifier, KernelM3L, LinearM3L, OutputKernelClassifier
from .estimators.native_scores import dense_weights
from .fitted_rules import last_step

__all__ = ["to_onnx"]

OPSET, IR_VERSION = 17, 9
MOST_TERMS = 100_000_000
"""Of a row with all support rows and features, which kernels that are sums over features keep at once."""
MOST_BYTES = 2**31 - 2**20
"""Of a graph in one file."""

Name: TypeAlias = str
"""Of a tensor in a graph."""


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None) -> Any:
    r"""Write a fitted model as an ONNX graph.

    Linear models become :math:`s = W x + b`; kernel models :math:`s = \sum_i k(x, x_i) a_i + b` over their support
    rows. Thresholds, lines to log-odds, and the steps of a pipeline that shift, scale, fill, choose or project columns
    are part of the graph.

    Parameters
    ----------
    model : fitted estimator
        A LinearM3L, KernelM3L, CalibratedSeparationClassifier, OutputKernelClassifier, RankSVM or
        OutputKernelLeastSquares: alone, at the end of a pipeline, or in a ThresholdTuner, FixedThresholds,
        LabelCalibrator, CPath or TunedM3L.
    path : str or path, optional
        A file to write, too.

    Returns
    -------
    onnx.ModelProto
        With the names of labels, the version of the library and a checksum in ``metadata_props``.

    Raises
    ------
    InputError
        If the model is none that a graph of dense rows can hold: its name and the reason.

    Notes
    -----
    Opset 17. The rows are float32 or float64, as those of the training were; the kernels ``"laplacian"``, ``"chi2"``
    and ``"additive_chi2"`` need memory for rows x support rows x features. A graph does not refuse rows as ``predict``
    does: NaN gives NaN. After training on a 1-D y there is one column, of its second class.

    Examples
    --------
    >>> from multimargin import LinearM3L
    >>> from multimargin.interchange import to_onnx
    >>> model = LinearM3L().fit([[0.0, 1.0], [1.0, 0.0]], [{"sea"}, {"sun"}])
    >>> [output.name for output in to_onnx(model).graph.output]
    ['scores', 'labels']
    """
    onnx = _onnx()
    last = last_step(model)
    check_is_fitted(last)
    graph = _Graph(onnx, _precision(last))
    answer = _answer(graph, "X", model)
    proto = graph.model(answer, model.n_features_in_, last)
    if path is not None:
        Path(path).write_bytes(proto.SerializeToString())
    return proto


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        msg = 'This needs onnx, which is not installed. Install it with: pip install "multimargin[onnx]"'
        raise ImportError(msg) from error
    return onnx


@dataclass(frozen=True)
class _Answer:
    """Tensors with what a model says: scores, labels as booleans, and probabilities if it has them."""

    scores: Name
    labels: Name
    probabilities: Name | None = None


class _Graph:
    """Nodes and constants; a node is added by naming its operator and giving tensors or arrays."""

    def __init__(self, onnx: Any, dtype: np.dtype[Any]) -> None:
        self.onnx, self.dtype = onnx, dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: Name | float | NDArray[Any], **attributes: Any) -> Name:
        """Add a node, and return the name of its output. Real numbers take the precision of the graph."""
        name = f"{operator}_{len(self.nodes)}"
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        self.nodes.append(self.onnx.helper.make_node(operator, names, [name], **attributes))
        return name

    def _constant(self, value: float | NDArray[Any]) -> Name:
        name, array = f"constant_{len(self.constants)}", np.asarray(value, order="C")
        array = array.astype(self.dtype) if array.dtype.kind == "f" else array
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def in_double(self, tensor: Name) -> Name:
        """Go on in double precision."""
        if self.dtype == np.float64:
            return tensor
        self.dtype = np.dtype(np.float64)
        return self.add("Cast", tensor, to=self.onnx.TensorProto.DOUBLE)

    def model(self, answer: _Answer, n_features: int, last: Any) -> Any:
        """Return the whole with named outputs, checked."""
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        labels = self.add("Cast", answer.labels, to=proto.INT64)
        found = {"scores": answer.scores, "labels": labels, "probabilities": answer.probabilities}
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        outputs = []
        for name, tensor in found.items():
            if tensor is not None:
                self.nodes.append(helper.make_node("Identity", [tensor], [name]))
                type_ = proto.INT64 if name == "labels" else kind
                outputs.append(helper.make_tensor_value_info(name, type_, ["rows", len(last.label_names_)]))
        rows = helper.make_tensor_value_info(
            "X", helper.np_dtype_to_tensor_dtype(_precision(last)), ["rows", int(n_features)]
        )
        if sum(len(constant.raw_data) for constant in self.constants) > MOST_BYTES:
            msg = f"{type(last).__name__} does not fit in an ONNX file, which holds 2 GiB. Train with fewer features."
            raise InputError(msg)
        graph = helper.make_graph(self.nodes, "multimargin", [rows], outputs, self.constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="multimargin",
            producer_version=__version__,
        )
        facts = {
            "label_names": json.dumps([str(name) for name in last.label_names_]),
            "multimargin": __version__,
            "sha256": hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest(),
        }
        helper.set_model_props(model, facts)
        self.onnx.checker.check_model(model, full_check=True)
        return model


def _refuse(thing: str, reason: str) -> NoReturn:
    msg = f"{thing} cannot be written as ONNX: {reason}. Keep it with multimargin.save."
    raise InputError(msg)


def _precision(model: Any) -> np.dtype[Any]:
    """Precision in which a model computes its scores."""
    while hasattr(model, "estimator_"):
        model = last_step(model.estimator_)
    if isinstance(model, KernelM3L):
        return np.dtype(model.dual_coef_.dtype)
    if hasattr(model, "coef_"):
        return np.result_type(model.coef_.dtype, model.intercept_.dtype)
    return np.dtype(np.float64)


def _answer(graph: _Graph, X: Name, model: Any) -> _Answer:
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            X = _stepped(graph, X, step)
        return _answer(graph, X, last_step(model))
    if type(model) in DECISIONS:
        inner = _answer(graph, X, model.estimator_)
        if model.response_method_ == "predict_proba":
            if inner.probabilities is None:
                _refuse(
                    type(model).__name__, f"probabilities of {type(model.estimator_).__name__} are no function here"
                )
            inner = replace(inner, scores=inner.probabilities)
        return DECISIONS[type(model)](graph, replace(inner, scores=graph.in_double(inner.scores)), model)
    if type(model) not in MODELS:
        known = ", ".join(cls.__name__ for cls in (*MODELS, *DECISIONS))
        reason = REASONS.get(type(model).__name__, "its scores are no formula of the row that is known here")
        _refuse(type(model).__name__, f"{reason}; these can be: {known}")
    scores = MODELS[type(model)](graph, X, model)
    return _Answer(scores, graph.add("Greater", scores, 0.0))


# ------------------------------------------------------------------------------------------------- models


def _linear(graph: _Graph, X: Name, model: Any) -> Name:
    size = math.prod(model.coef_.shape) * model.coef_.dtype.itemsize
    if sp.issparse(model.coef_) and size > MOST_BYTES:  # said before they are made dense
        need, most = shown_bytes(size), shown_bytes(MOST_BYTES)
        _refuse(type(model).__name__, f"its weights with their zeros take {need}, and a graph holds up to {most}")
    return graph.add("Gemm", X, dense_weights(model.coef_), model.intercept_, transB=1)


def _kernel_machine(graph: _Graph, X: Name, model: Any) -> Name:
    return _combined(graph, X, model, model.intercept_)


def _separation(graph: _Graph, X: Name, model: Any) -> Name:
    if model.fallback is not None:
        _refuse(f"{type(model).__name__} with fallback={model.fallback!r}", "it looks at the labels of a row together")
    return _linear(graph, X, model) if model.kernel == "linear" else _combined(graph, X, model, model.intercept_)


def _least_squares(graph: _Graph, X: Name, model: Any) -> Name:
    if model.decision == "preimage":
        _refuse(f"{type(model).__name__} with decision='preimage'", "it searches among label sets")
    constant = model._constant_feature() ** 2  # which is part of its kernel
    return _combined(graph, X, model, constant * model.dual_coef_.sum(axis=0) - model.half_)


def _combined(graph: _Graph, X: Name, model: Any, intercept: NDArray[Any]) -> Name:
    """Return kernel values times coefficients."""
    if model.kernel == "precomputed":
        values = graph.add("Gather", X, np.asarray(model.support_, dtype=np.int64), axis=1)
    elif callable(model.kernel):
        _refuse(f"{type(model).__name__} with a function as kernel", "a graph holds no Python")
    elif sp.issparse(model.support_vectors_):
        _refuse(f"{type(model).__name__} with sparse support rows", "a graph takes dense rows; train on dense ones")
    else:
        values = _kernel_values(graph, X, model.support_vectors_, model.kernel, model.gamma_, model.degree, model.coef0)
    return graph.add("Gemm", values, model.dual_coef_, intercept)


def _kernel_values(
    graph: _Graph, X: Name, rows: NDArray[Any], kernel: str, gamma: float, degree: float, coef0: float
) -> Name:
    """Return the values of a kernel between X and fixed rows, in double: sums of many of them lose digits in single."""
    X, rows = graph.in_double(X), np.asarray(rows, dtype=np.float64)
    if kernel == "rbf":
        return _gaussian(graph, X, rows, gamma)
    if kernel in ("laplacian", "chi2", "additive_chi2"):
        return _of_feature_sums(graph, X, rows, kernel, gamma)
    products = graph.add("MatMul", X, rows.T)
    if kernel == "linear":
        return products
    values = graph.add("Add", graph.add("Mul", products, float(gamma)), float(coef0))
    if kernel == "sigmoid":
        return graph.add("Tanh", values)
    return values if degree == 1 else graph.add("Pow", values, float(degree))


def _gaussian(graph: _Graph, X: Name, rows: NDArray[Any], gamma: float) -> Name:
    """Return exp(-gamma |x - z|^2), of rows less the mean of the fixed ones, which keeps digits."""
    centre = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    fixed = rows - centre
    centred = graph.add("Sub", X, centre)
    norms = graph.add("ReduceSum", graph.add("Mul", centred, centred), np.array([1]), keepdims=1)
    crossed = graph.add("Gemm", centred, 2.0 * gamma * fixed, -gamma * np.square(fixed).sum(axis=1), transB=1)
    exponent = graph.add("Sub", crossed, graph.add("Mul", norms, float(gamma)))
    return graph.add("Exp", graph.add("Min", exponent, 0.0))


def _of_feature_sums(graph: _Graph, X: Name, rows: NDArray[Any], kernel: str, gamma: float) -> Name:
    """Return kernels of sums over features: |x - z|, (x - z)^2 / (x + z) or 2 x z / (x + z), where 0 / 0 is 0."""
    if rows.size > MOST_TERMS:
        _refuse(
            f"A model with kernel={kernel!r}, {len(rows)} support rows and {rows.shape[1]} features",
            f"a row would need {rows.size:.1e} numbers at once",
        )
    one = graph.add("Unsqueeze", X, np.array([1]))
    if kernel == "laplacian":
        terms = graph.add("Abs", graph.add("Sub", one, rows))
    else:
        tiny = float(np.finfo(graph.dtype).tiny)
        total = graph.add("Max", graph.add("Add", one, rows), tiny)
        apart = graph.add("Sub", one, rows)
        top = graph.add("Mul", apart, apart) if kernel == "chi2" else graph.add("Mul", one, 2.0 * rows)
        terms = graph.add("Div", top, total)
    sums = graph.add("ReduceSum", terms, np.array([2]), keepdims=0)
    return sums if kernel == "additive_chi2" else graph.add("Exp", graph.add("Mul", sums, -float(gamma)))


# ---------------------------------------------------------------------------------------------- decisions


def _fixed(graph: _Graph, inner: _Answer, model: FixedThresholds) -> _Answer:
    return _cut(graph, inner, model.thresholds_)


def _cut(graph: _Graph, inner: _Answer, thresholds: NDArray[np.float64]) -> _Answer:
    scores = graph.add("Sub", inner.scores, thresholds)
    return replace(inner, scores=scores, labels=graph.add("Greater", inner.scores, thresholds))


def _tuned(graph: _Graph, inner: _Answer, model: ThresholdTuner) -> _Answer:
    decision = model.decision_
    if decision._looks_at_rows:
        _refuse(f"{type(model).__name__} with the rule {decision.rule!r}", "it looks at the labels of a row together")
    cut = _cut(graph, inner, decision.values)
    if decision.calibration is None or decision.rule == "decode":
        return cut
    odds = _log_odds(graph, inner.scores, decision.calibration, type(model).__name__)
    return replace(cut, scores=graph.add("Sub", odds, float(decision.offset)))


def _calibrated(graph: _Graph, inner: _Answer, model: LabelCalibrator | CPath) -> _Answer:
    odds = _log_odds(graph, inner.scores, model.calibrator_, type(model).__name__)
    ends = float(np.finfo(float).tiny), float(np.nextafter(1.0, 0.0))
    probabilities = graph.add("Clip", graph.add("Sigmoid", odds), *ends)
    return _Answer(odds, graph.add("Greater", odds, 0.0), probabilities)


def _searched(graph: _Graph, inner: _Answer, model: CPath) -> _Answer:
    return replace(_tuned(graph, inner, model), probabilities=_calibrated(graph, inner, model).probabilities)


def _log_odds(graph: _Graph, scores: Name, calibration: Any, owner: str) -> Name:
    if calibration.steps or calibration.from_probabilities:
        kind = "isotonic steps" if calibration.steps else "probabilities in place of scores"
        _refuse(f"{owner} with {kind}", "a graph has lines to log-odds only; calibrate scores by method='sigmoid'")
    return graph.add("Add", graph.add("Mul", scores, calibration.lines[:, 0]), calibration.lines[:, 1])


# -------------------------------------------------------------------------------------------------- steps


def _stepped(graph: _Graph, X: Name, step: Any) -> Name:
    if step is None or isinstance(step, str):  # "passthrough"
        return X
    if type(step) not in STEPS:
        known = ", ".join(cls.__name__ for cls in STEPS)
        _refuse(f"A pipeline with a {type(step).__name__}", f"of steps a graph has {known}")
    return STEPS[type(step)](graph, X, step)


def _shifted(graph: _Graph, X: Name, shift: Any, scale: Any) -> Name:
    X = X if shift is None else graph.add("Sub", X, shift)
    return X if scale is None else graph.add("Div", X, scale)


def _min_max(graph: _Graph, X: Name, step: Any) -> Name:
    scaled = graph.add("Add", graph.add("Mul", X, step.scale_), step.min_)
    return graph.add("Clip", scaled, *map(float, step.feature_range)) if step.clip else scaled


def _max_abs(graph: _Graph, X: Name, step: Any) -> Name:
    scaled = graph.add("Div", X, step.scale_)
    return graph.add("Clip", scaled, -1.0, 1.0) if getattr(step, "clip", False) else scaled


def _normalised(graph: _Graph, X: Name, step: Any) -> Name:
    size = graph.add("Mul", X, X) if step.norm == "l2" else graph.add("Abs", X)
    if step.norm == "max":
        norm = graph.add("ReduceMax", size, axes=[1], keepdims=1)
    else:
        norm = graph.add("ReduceSum", size, np.array([1]), keepdims=1)
    norm = graph.add("Sqrt", norm) if step.norm == "l2" else norm
    return graph.add("Div", X, graph.add("Max", norm, float(np.finfo(graph.dtype).tiny)))


def _filled(graph: _Graph, X: Name, step: Any) -> Name:
    if step.add_indicator:
        _refuse("A pipeline with SimpleImputer(add_indicator=True)", "a graph fills cells only")
    statistics = np.asarray(step.statistics_, dtype=np.float64)
    known = ~np.isnan(statistics)
    X = _chosen(graph, X, known)
    nan = np.isnan(step.missing_values)
    missing = graph.add("IsNaN", X) if nan else graph.add("Equal", X, float(step.missing_values))
    return graph.add("Where", missing, statistics[known], X)


def _chosen(graph: _Graph, X: Name, support: NDArray[np.bool_]) -> Name:
    return X if support.all() else graph.add("Gather", X, np.flatnonzero(support).astype(np.int64), axis=1)


def _principal(graph: _Graph, X: Name, step: Any) -> Name:
    components = step.components_.T
    if step.whiten:
        scale = np.sqrt(step.explained_variance_)
        components = components / np.maximum(scale, np.finfo(scale.dtype).eps)
    return graph.add("MatMul", graph.add("Sub", X, step.mean_), components)


def _landmarks(graph: _Graph, X: Name, step: Any) -> Name:
    if step.kernel not in ("rbf", "linear", "poly", "polynomial", "sigmoid", "laplacian") or step.kernel_params:
        _refuse(f"A pipeline with Nystroem(kernel={step.kernel!r})", "the kernel is not among those of a graph")
    if sp.issparse(step.components_):
        _refuse("A pipeline with Nystroem of sparse rows", "a graph takes dense rows; train on dense ones")
    gamma = 1.0 / step.n_features_in_ if step.gamma is None else step.gamma
    degree, coef0 = 3 if step.degree is None else step.degree, 1 if step.coef0 is None else step.coef0
    values = _kernel_values(graph, X, step.components_, step.kernel, gamma, degree, coef0)
    return graph.add("MatMul", values, step.normalization_.T)


Model: TypeAlias = Callable[[_Graph, Name, Any], Name]
MODELS: dict[type, Model] = {
    LinearM3L: _linear,
    KernelM3L: _kernel_machine,
    CalibratedSeparationClassifier: _separation,
    OutputKernelClassifier: _separation,
    RankSVM: _linear,
    OutputKernelLeastSquares: _least_squares,
}
DECISIONS: dict[type, Callable[[_Graph, _Answer, Any], _Answer]] = {
    FixedThresholds: _fixed,
    ThresholdTuner: _tuned,
    LabelCalibrator: _calibrated,
    CPath: _searched,
    TunedM3L: _searched,
}
STEPS: dict[type, Model] = {
    StandardScaler: lambda graph, X, step: _shifted(
        graph, X, step.mean_ if step.with_mean else None, step.scale_ if step.with_std else None
    ),
    RobustScaler: lambda graph, X, step: _shifted(graph, X, step.center_, step.scale_),
    MinMaxScaler: _min_max,
    MaxAbsScaler: _max_abs,
    Normalizer: _normalised,
    SimpleImputer: _filled,
    SelectKBest: lambda graph, X, step: _chosen(graph, X, step.get_support()),
    VarianceThreshold: lambda graph, X, step: _chosen(graph, X, step.get_support()),
    TruncatedSVD: lambda graph, X, step: graph.add("MatMul", X, step.components_.T),
    PCA: _principal,
    Nystroem: _landmarks,
}
REASONS = {
    "SubmodularClassifier": "it predicts by a graph cut for every row",
    "CliqueClassifier": "it predicts by inference over cliques",
    "ZeroShotClassifier": "it predicts categories, not labels",
    "MLkNN": "it searches its training rows for neighbours",
    "RAkEL": "it votes with many models",
}
"""Why models that one might expect have no graph."""
