"""Steps that count words, and weigh the counts.

A file may come from anywhere, so patterns that could take forever, names of files to read, and functions are no part
of it: the default analyzers only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer

from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, expect
from multimargin.pipelines.step import OUTPUT, Attributes, Step, columns, none_or, one_of

__all__ = ["STEPS"]

LONGEST_NGRAM = 100
PATTERNS = (r"(?u)\b\w\w+\b", r"(?u)\b\w+\b")
DTYPES = {
    name: np.dtype(name).type for name in ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool")
} | {"float": float, "int": int}

idf = array_of("features", 0.0, LARGEST)


def _ngrams(value: Any, sizes: Sizes) -> None:
    sound = isinstance(value, tuple) and len(value) == 2 and all(type(n) is int for n in value)
    expect(sound and 1 <= value[0] <= value[1] <= LONGEST_NGRAM, f"must be in 1..{LONGEST_NGRAM}; got {value!r}")


def _texts(value: Any, sizes: Sizes) -> None:
    expect(isinstance(value, list | tuple) and all(isinstance(item, str) for item in value), "must be a list of texts")


def _stop_words(value: Any, sizes: Sizes) -> None:
    if value != "english":
        _texts(value, sizes)


def _given_words(value: Any, sizes: Sizes) -> None:
    if isinstance(value, dict):
        expect(all(type(position) is int for position in value.values()), "must map texts to integers")
        value = list(value)
    _texts(value, sizes)


def _vocabulary(value: Any, sizes: Sizes) -> None:
    """Rule of the words in the order of their columns."""
    _texts(value, sizes)
    expect(len(value) > 0 and len(set(value)) == len(value), "must name every word once")
    sizes["features"] = len(value)


def _boolean(value: Any, sizes: Sizes) -> None:
    expect(isinstance(value, bool), "must be a truth value")


def _counts(step: Any) -> dict[str, Rule]:
    return {"vocabulary_": _vocabulary, "fixed_vocabulary_": _boolean}


def _weighted_counts(step: Any) -> dict[str, Rule]:
    return {**_counts(step), "idf_": idf} if step.use_idf else _counts(step)


def _weights(step: Any) -> dict[str, Rule]:
    return {**columns(), "idf_": idf} if step.use_idf else columns()


def _take_counts(step: Any, names: Mapping[str, Rule]) -> Attributes:
    found = {name: vars(step)[name] for name in ("fixed_vocabulary_", OUTPUT) if name in vars(step)}
    if not hasattr(step, "vocabulary_"):
        return {name: value for name, value in found.items() if name == OUTPUT}
    words = sorted(step.vocabulary_, key=step.vocabulary_.__getitem__)
    expect([int(step.vocabulary_[word]) for word in words] == list(range(len(words))), "must number words from 0")
    found["vocabulary_"] = words
    return found | {"idf_": step.idf_} if "idf_" in names else found


def _give_counts(step: Any, fitted: Attributes) -> None:
    vars(step).update({name: value for name, value in fitted.items() if name not in ("vocabulary_", "idf_")})
    if "vocabulary_" not in fitted:
        return
    step.vocabulary_ = {word: position for position, word in enumerate(fitted["vocabulary_"])}
    if isinstance(step, TfidfVectorizer):
        names = ("norm", "use_idf", "smooth_idf", "sublinear_tf")
        step._tfidf = TfidfTransformer(**{name: getattr(step, name) for name in names})
        step._tfidf.n_features_in_ = len(step.vocabulary_)
        if "idf_" in fitted:
            step._tfidf.idf_ = fitted["idf_"]


def _number_of_words(step: Any) -> int:
    return len(step.vocabulary_)


def _number_of_buckets(step: Any) -> int:
    return int(step.n_features)


ANALYZER: dict[str, Rule] = {
    "input": one_of("content"),
    "encoding": one_of("utf-8", "ascii", "latin-1", "cp1252"),
    "token_pattern": one_of(*PATTERNS),
    "ngram_range": _ngrams,
    "stop_words": none_or(_stop_words),
}
KNOWN_WORDS: dict[str, Rule] = {**ANALYZER, "vocabulary": none_or(_given_words)}
counting: dict[str, Any] = {"takes_texts": True, "words": {"dtype": DTYPES}}
learned: dict[str, Any] = {**counting, "parameters": KNOWN_WORDS, "take": _take_counts, "give": _give_counts}

STEPS = (
    Step(CountVectorizer, _counts, _number_of_words, **learned),
    Step(TfidfVectorizer, _weighted_counts, _number_of_words, **learned),
    Step(HashingVectorizer, lambda step: {}, _number_of_buckets, parameters=ANALYZER, **counting),
    Step(TfidfTransformer, _weights),
)
