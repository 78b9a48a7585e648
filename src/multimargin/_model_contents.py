"""What a fitted model of each class holds: the only attributes that a model file gives or takes, and their rules.

An attribute is listed here with its shape, or at least declared in its class (``centre_: NDArray[np.float64]``); other
attributes are neither written nor read. A shape is a text such as ``"labels features"``: the first array with a word in
its shape says how many that is, and all others must agree. The rules are what predictions rely on, in Python and in the
native core, so that no file can make them read outside an array or answer with numbers that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import row_norms

from .baselines import OutputKernelLeastSquares, RankSVM
from .errors import ModelFileError
from .estimators import (
    Certificate,
    CliqueCertificate,
    CliqueClassifier,
    CliquePath,
    History,
    KernelM3L,
    MultilabelClassifier,
    SubmodularClassifier,
)
from .estimators.cliques.graph import compiled
from .estimators.contract import LARGEST, LinearModel
from .estimators.separation.model import SET_ATTRIBUTES, SeparationModel
from .kernels import make_kernel
from .labels import LabelForm
from .zero_shot import RULES as ZERO_SHOT_RULES
from .zero_shot import ZeroShotClassifier

__all__ = ["fitted_attributes", "make_model"]

# Features reach LARGEST = 1e100; times such a coefficient they are still far from the largest double, 1.8e308.
LARGEST_COEFFICIENT = LARGEST**2
MOST_JOBS = 4096

Sizes: TypeAlias = dict[str, int]
Rule: TypeAlias = Callable[[Any, Sizes], None]


class _BrokenRuleError(Exception):
    pass


def fitted_attributes(model: BaseEstimator) -> dict[str, Any]:
    """Return the fitted attributes that the class of a model lists, with the parameters it has."""
    known = _declared(type(model)) | _listed(model)
    return {name: vars(model)[name] for name in sorted(known) if name in vars(model)}


def make_model(cls: type[BaseEstimator], parameters: dict[str, Any], fitted: dict[str, Any]) -> BaseEstimator:
    """Make a model; raise ModelFileError unless parameters and fitted attributes are as the class makes them."""
    model = cls(**parameters)
    _check_parameters(model)
    if not fitted:
        return model
    vars(model).update(fitted)
    listed = _listed(model)
    rules = {**listed, **{name: rule for name, rule in _declared(cls).items() if name not in listed}}
    unknown, missing = fitted.keys() - rules.keys(), listed.keys() - fitted.keys() - _optional(cls)
    for names, what in ((unknown, "has no fitted attribute"), (missing, "needs the missing attribute")):
        if names:
            msg = f"{cls.__name__} with these parameters {what} {min(names)!r}. Fit and save the model again."
            raise ModelFileError(msg)
    sizes: Sizes = {}
    for name, rule in rules.items():
        if name in fitted:
            try:
                rule(fitted[name], sizes)
            except (_BrokenRuleError, TypeError, ValueError, OverflowError) as error:
                msg = f"{name} of {cls.__name__} {error}. Fit and save the model again."
                raise ModelFileError(msg) from error
    return model


def _check_parameters(model: BaseEstimator) -> None:
    own, constraints = type(model).__name__, getattr(model, "_parameter_constraints", {})
    try:
        if constraints:
            model._validate_params()
    except (TypeError, ValueError) as error:
        raise ModelFileError(str(error)) from error
    for name, value in model.get_params(deep=False).items():
        if callable(value) and name not in ("callback", "label_kernel"):
            msg = f"The parameter {name} of {own} is a function, which model files never hold."
            raise ModelFileError(msg)
        bounded = isinstance(constraints.get(name), list) and any(isinstance(c, Interval) for c in constraints[name])
        if bounded and _is_real(value) and not -LARGEST <= value <= LARGEST:
            msg = f"The parameter {name} of {own} must not be larger than {LARGEST:g}; got {value!r}."
            raise ModelFileError(msg)
    jobs = getattr(model, "n_jobs", None)
    if jobs is not None and (jobs == 0 or abs(jobs) > MOST_JOBS):
        msg = f"n_jobs of {own} must be None or between 1 and {MOST_JOBS}, or -1 for all cores; got {jobs!r}."
        raise ModelFileError(msg)


def _expect(condition: Any, rule: str) -> None:
    if not condition:
        raise _BrokenRuleError(rule)


def _fits(actual: tuple[int, ...], shape: str, sizes: Sizes) -> bool:
    """Whether a shape is as it should be; a word that is new takes the size found."""
    words = shape.split()
    if len(actual) != len(words):
        return False
    for size, word in zip(actual, words, strict=True):
        name, _, more = word.partition("+")
        wanted = int(name) if name.isdigit() else sizes.setdefault(name, size) + int(more or 0)
        if size != wanted:
            return False
    return True


def _numbers(
    shape: str,
    low: float = -LARGEST_COEFFICIENT,
    high: float | str = LARGEST_COEFFICIENT,
    types: str = "f4 f8",
    sparse: bool = False,
) -> Rule:
    """Rule of an array; ``high`` may be a word of the shape that the numbers are to be below."""

    def rule(value: Any, sizes: Sizes) -> None:
        dense = isinstance(value, np.ndarray) and (value.dtype.kind == "f" or value.flags.c_contiguous)
        _expect(dense or (sparse and isinstance(value, sp.csr_array | sp.csr_matrix)), "must be an array")
        _expect(value.dtype.str[1:] in types.split(), f"must have a dtype of {types}; it has {value.dtype}")
        _expect(_fits(value.shape, shape, sizes), f"must have the shape ({shape}) where {sizes}; it has {value.shape}")
        numbers = value if dense else value.data
        if numbers.size:
            smallest, largest = float(numbers.min()), float(numbers.max())  # NaN if there is one, and so refused
            most = sizes[high] - 1 if isinstance(high, str) else high
            _expect(
                low <= smallest and largest <= most, f"must be in [{low}, {most}]; it is in [{smallest}, {largest}]"
            )

    return rule


def _pairs(value: Any, sizes: Sizes) -> None:
    _numbers("pairs 2", 0, "labels", "i4")(value, sizes)
    _expect((value[:, 0] != value[:, 1]).all(), "must pair different labels")


def _number(low: float = -LARGEST_COEFFICIENT, high: float = LARGEST_COEFFICIENT) -> Rule:
    def rule(value: Any, sizes: Sizes) -> None:
        _expect(_is_real(value) and low <= value <= high, f"must be a number in [{low}, {high}]; got {value!r}")

    return rule


def _count(low: int, word: str | None = None) -> Rule:
    def rule(value: Any, sizes: Sizes) -> None:
        _expect(isinstance(value, Integral) and not isinstance(value, bool), f"must be an integer; got {value!r}")
        _expect(low <= value < 2**62, f"must be at least {low}; got {value}")
        if word is not None:
            _expect(sizes.setdefault(word, int(value)) == value, f"is {value}; elsewhere it is {sizes[word]}")

    return rule


def _names(shape: str, low: int = 1, high: int | None = None) -> Rule:
    """Rule of names of labels or categories: distinct, whatever they are."""

    def rule(value: Any, sizes: Sizes) -> None:
        _expect(isinstance(value, np.ndarray) and _fits(value.shape, shape, sizes), f"must be an array of {shape}")
        _expect(low <= len(value) <= (len(value) if high is None else high), f"has {len(value)} names")
        _expect(len(set(value.tolist())) == len(value), "must name everything once")

    return rule


def _feature_names(value: Any, sizes: Sizes) -> None:
    _names("features")(value, sizes)
    _expect(all(isinstance(name, str) for name in value.tolist()), "must be texts")


def _exactly(cls: type) -> Rule:
    """Rule of a result: an object of this class, with fields of the types it declares and arrays of one length."""

    def rule(value: Any, sizes: Sizes) -> None:
        _expect(type(value) is cls, f"must be a {cls.__name__}; it is a {type(value).__name__}")
        hints = get_type_hints(cls)
        for field in fields(value):
            item = getattr(value, field.name)
            _expect(_is_of(item, hints[field.name]), f"has a wrong {field.name}: {type(item).__name__}")
        lengths = {len(item) for item in vars(value).values() if isinstance(item, np.ndarray)}
        _expect(len(lengths) <= 1, f"has arrays of different lengths {lengths}")

    assert is_dataclass(cls)
    return rule


def _is_of(value: Any, hint: Any) -> bool:
    if hint is float:
        return _is_real(value)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if get_origin(hint) is np.ndarray:
        return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "if"
    return value in get_args(hint)  # a Literal


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _optional(cls: type) -> frozenset[str]:
    """Return what a file may lack."""
    return frozenset({"feature_names_in_", *(SET_ATTRIBUTES if issubclass(cls, SeparationModel) else ())})


def _declared(cls: type) -> dict[str, Rule]:
    """Rules of the attributes that a class and its bases annotate as numbers or arrays, of whatever shape."""
    hints = {name: hint for name, hint in get_type_hints(cls).items() if name.endswith("_") and name[0] != "_"}
    simple = {float: _number(), int: _count(0)}
    arrays = {name: _array for name, hint in hints.items() if get_origin(hint) is np.ndarray}
    return arrays | {name: simple[hint] for name, hint in hints.items() if hint in simple}


def _array(value: Any, sizes: Sizes) -> None:
    _expect(isinstance(value, np.ndarray) and value.dtype.kind in "biuf", "must be an array of numbers")
    _expect(np.isfinite(value).all(), "must be finite")


def _listed(model: Any) -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for cls in reversed(type(model).__mro__):
        if cls in CONTENTS:
            found |= CONTENTS[cls](model)
    return found


def _multilabel(model: Any) -> dict[str, Rule]:
    column = getattr(getattr(model, "label_form_", None), "kind", None) == "column"

    def form(value: Any, sizes: Sizes) -> None:
        _expect(type(value) is LabelForm, "must be a LabelForm")
        _expect(not column or sizes["labels"] == 1, "is that of one label")

    def constant(value: Any, sizes: Sizes) -> None:
        _names("constant", low=0)(value, sizes)
        _expect(set(value.tolist()) <= set(model.label_names_.tolist()), "must be labels")

    return {
        "n_features_in_": _count(1, "features"),
        "feature_names_in_": _feature_names,
        "label_names_": _names("labels"),
        "label_form_": form,
        "classes_": _names("classes", high=2) if column else _names("labels"),
        "constant_labels_": constant,
        "certificate_": _exactly(Certificate),
        "history_": _exactly(History),
        "n_iter_": _count(0),
    }


def _linear(model: Any) -> dict[str, Rule]:
    return {"coef_": _numbers("labels features"), "intercept_": _numbers("labels")}


def _support(model: Any) -> dict[str, Rule]:
    """Training rows that a kernel model uses; those of a precomputed kernel are columns of X."""
    precomputed = model.kernel == "precomputed"
    gamma: Any = getattr(model, "gamma_", 1.0)
    rules = {
        "gamma_": _number(0.0),
        "support_": _numbers("support", 0, "features" if precomputed else 2.0**62, "i4 i8"),
        "dual_coef_": _numbers("support labels"),
    }
    if not precomputed:
        most = LARGEST / max(1.0, float(gamma) if _is_real(gamma) else 1.0) ** 0.5  # so that gamma |z|^2 is finite

        def vectors(value: Any, sizes: Sizes) -> None:
            _numbers("support features", -most, most, sparse=True)(value, sizes)
            if sizes["support"]:
                _expect(_has_finite_scores(model, value), "must have kernel values in range")

        rules["support_vectors_"] = vectors
    return rules


def _has_finite_scores(model: Any, rows: Any) -> bool:
    """Whether scores stay in range, judged by the longest row and the zero row, where kernel values are largest."""
    longest = rows[[int(np.argmax(row_norms(rows)))]]
    ends = sp.vstack([longest, 0 * longest], format="csr") if sp.issparse(rows) else np.vstack([longest, 0 * longest])
    single = isinstance(model, KernelM3L)  # the others work in double precision
    dtype = model.dual_coef_.dtype if single else np.dtype(np.float64)
    with np.errstate(all="ignore"):
        kernel = make_kernel(model.kernel, ends, dtype, model.gamma_, model.degree, model.coef0)
        largest = float(np.abs(kernel.values(kernel.prepare(ends))).max())
        return bool(largest * float(np.abs(model.dual_coef_).max()) * rows.shape[0] < np.finfo(dtype).max)


def _kernel_m3l(model: Any) -> dict[str, Rule]:
    return {"intercept_": _numbers("labels"), **_support(model)} | (
        {"support_vectors_": _numbers("0 0")} if model.kernel == "precomputed" else {}
    )


def _submodular(model: Any) -> dict[str, Rule]:
    return {
        "coef_": _numbers("labels features", types="f8"),
        "intercept_": _numbers("labels", types="f8"),
        "pairs_": _pairs,
        "pair_coef_": _numbers("pairs", low=0.0, types="f8"),
        "offset_": _number(),
    }


def _cliques(model: Any) -> dict[str, Rule]:
    def subsets(value: Any, sizes: Sizes) -> None:
        _expect(isinstance(value, list) and all(isinstance(t, tuple) for t in value), "must be a list of tuples")
        _expect(all(isinstance(k, Integral) for t in value for k in t), "must hold label columns")
        compiled(sizes["labels"], value, model.inference, int(model.treewidth_limit))  # refuses all that is unsound
        sizes["subsets"] = len(value)

    def cliques(value: Any, sizes: Sizes) -> None:
        names = set(model.label_names_.tolist())
        _expect(
            isinstance(value, list) and all(isinstance(c, tuple) and names.issuperset(c) for c in value), "is wrong"
        )
        sizes["cliques"] = len(value)

    def path(value: Any, sizes: Sizes) -> None:
        if value is not None:
            _exactly(CliquePath)(value, sizes)

    return {
        "subsets_": subsets,
        "subset_coef_": _numbers("subsets features"),
        "subset_intercept_": _numbers("subsets"),
        "cliques_": cliques,
        "clique_weights_": _numbers("cliques"),
        "clique_shares_": _numbers("cliques"),
        "clique_couplings_": _numbers("cliques"),
        "clique_coupling_spreads_": _numbers("cliques"),
        "path_": path,
        "certificate_": _exactly(CliqueCertificate),
    }


def _separation(model: Any) -> dict[str, Rule]:
    linear = model.kernel == "linear"
    weights = {"coef_": _numbers("labels features"), "gamma_": _number(0.0)} if linear else _support(model)
    return {
        **weights,
        "intercept_": _numbers("labels"),
        "threshold_coef_": _numbers("features" if linear else "support"),
        "threshold_intercept_": _number(),
        "n_atoms_": _count(0),
        "set_coef_": _numbers("sets features"),
        "set_intercept_": _numbers("sets"),
        "set_dual_coef_": _numbers("rows sets", sparse=True),
    }


def _least_squares(model: Any) -> dict[str, Rule]:
    rules = {**_support(model), "half_": _numbers("labels")}
    if model.decision == "preimage":
        rules |= {
            "sets_": _numbers("sets labels", 0, 1, "b1"),
            "set_coef_": _numbers("support sets"),
            "set_norm_": _numbers("sets"),
        }
    return rules


def _zero_shot(model: Any) -> dict[str, Rule]:
    def estimator(value: Any, sizes: Sizes) -> None:
        _expect(isinstance(value, MultilabelClassifier), "must be a multi-label estimator")
        _expect(hasattr(value, "label_names_"), "must be fitted")
        _expect(len(value.label_names_) == sizes["attributes"], "must have a label for every attribute")
        _expect(value.n_features_in_ == sizes["features"], "must have the features of the model")

    def rule_is_known(value: Any, sizes: Sizes) -> None:
        _expect(model.rule in ZERO_SHOT_RULES, f"needs a rule of {ZERO_SHOT_RULES}; got {model.rule!r}")
        _names("classes")(value, sizes)

    rules: dict[str, Rule] = {
        "n_features_in_": _count(1, "features"),
        "classes_": rule_is_known,
        "seen_categories_": _names("seen"),
        "attribute_names_": _names("attributes"),
        "estimator_": estimator,
        "signatures_": _numbers("classes attributes", 0, 1, "i1"),
        "class_probabilities_": _numbers("classes", 0.0, 1.0),
        "attribute_frequencies_": _numbers("attributes", 0.0, 1.0),
    }
    if model.rule == "dap":
        rules["calibration_"] = _numbers("attributes 2", -LARGEST, LARGEST)
    return rules


CONTENTS: dict[type, Callable[[Any], dict[str, Rule]]] = {
    MultilabelClassifier: _multilabel,
    LinearModel: _linear,
    RankSVM: lambda model: {"threshold_": _numbers("labels+1")},
    KernelM3L: _kernel_m3l,
    SubmodularClassifier: _submodular,
    CliqueClassifier: _cliques,
    SeparationModel: _separation,
    OutputKernelLeastSquares: _least_squares,
    ZeroShotClassifier: _zero_shot,
}
"""Rules of the attributes that each class adds to, or tells otherwise than, its bases."""
