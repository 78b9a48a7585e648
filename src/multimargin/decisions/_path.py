"""Out-of-fold scores along a path of C, and the C and decision rule that are best on them.

Every fold is taken apart once, and its model goes from the smallest C to the largest, each fit from the solution
before. For each C the rule is tuned on all folds but one and judged on that one, in turn. What is chosen, C included,
is judged the same way without another fit: fold k is decided by the C and the rule that are best on the other folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from multimargin._tables import aligned, html_table
from multimargin.decisions._cells import Cells
from multimargin.decisions._held_out import Fold, assembled, quietly
from multimargin.decisions._nested import nested_predictions
from multimargin.decisions._scoring import Scoring
from multimargin.errors import InputError
from multimargin.estimators.contract import threads
from multimargin.estimators.cost_scale import mean_square as of_rows
from multimargin.labels import LabelMatrix

__all__ = [
    "Candidate",
    "PathProgress",
    "PathScores",
    "Search",
    "Selected",
    "grid",
    "mean_square",
    "owner_of_C",
    "with_parameters",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class PathScores:
    """What was measured along a path of C. ``print`` shows it as a table.

    Attributes
    ----------
    C : ndarray
        The values that were tried.
    score : ndarray
        The metric, each fold decided by a rule tuned on the others.
    std_error : ndarray
        Standard error of the mean over the folds.
    seconds : ndarray
        Time of the fits of all folds.
    converged : ndarray
        Share of the fits within their tolerance.
    """

    C: Floats
    score: Floats
    std_error: Floats
    seconds: Floats
    converged: Floats

    def frame(self) -> Any:
        """Return the path as a pandas DataFrame."""
        from multimargin.plots._style import optional

        return optional("pandas", "tables").DataFrame(vars(self))

    def _rows(self) -> list[list[str]]:
        head = ["C", "score", "±", "seconds"]
        columns = zip(self.C, self.score, self.std_error, self.seconds, strict=True)
        return [head, *([f"{c:.4g}", f"{v:.4f}", f"{e:.4f}", f"{t:.2f}"] for c, v, e, t in columns)]

    def __str__(self) -> str:
        return aligned(self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())

    __repr__ = __str__


@dataclass(frozen=True)
class PathProgress:
    """What a callback receives after every fit.

    Attributes
    ----------
    done, total : int
        Fits.
    time : float
        Seconds since the search began.
    time_left : float
        Seconds the others will take if they are like those before.
    C : float
        Of the last fit.
    """

    done: int
    total: int
    time: float
    time_left: float
    C: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """An estimator with a parameter C, or a pipeline that ends in one, and the values to try, rising."""

    name: str
    estimator: Any
    Cs: Floats


@dataclass(frozen=True, eq=False)
class Selected:
    """What a search has found.

    Attributes
    ----------
    candidate : Candidate
    C : float
    scores : ndarray or csr_array of shape (n_samples, n_labels)
        Out-of-fold scores at this C.
    nested_score : float
        The metric where each fold is decided by what is best on the others, C included.
    paths : dict of str to PathScores
    """

    candidate: Candidate
    C: float
    scores: Any
    nested_score: float
    paths: dict[str, PathScores]


@dataclass(frozen=True, eq=False)
class _Judged:
    """How good one C is: on all folds, on each, on all but each, and what it predicts."""

    score: float
    of_fold: Floats
    of_others: Floats
    predicted: sp.csr_array


@dataclass(eq=False)
class Search:
    """A search over candidates and their paths.

    Attributes
    ----------
    labels : LabelMatrix
    folds : list of pairs (train, test)
    scoring, rule, shrinkage
        As in :func:`tune_thresholds`.
    response_method : str
    probabilities : bool
        Whether scores are probabilities.
    patience : int or None
        A path ends after so many values of C in a row that are worse than the best.
    time_limit : float or None
    n_jobs : int or None
        Threads, a fold each.
    callback : callable or None
    """

    labels: LabelMatrix
    folds: list[tuple[Any, Any]]
    scoring: Scoring
    rule: str
    shrinkage: float
    response_method: str
    probabilities: bool = False
    patience: int | None = None
    time_limit: float | None = None
    n_jobs: int | None = None
    callback: Callable[[PathProgress], object] | None = None

    def __post_init__(self) -> None:
        self.part_of_row = np.full(self.labels.n_samples, -1)
        for number, (_, test) in enumerate(self.folds):
            self.part_of_row[test] = number
        self._began = perf_counter()
        self._stop = Event()
        self._done = self._total = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return perf_counter() - self._began

    def cells(self, scores: Any) -> Cells:
        """Scores beside the labels; a row that was in no test part does not count."""
        return Cells(scores, self.labels, np.ones(self.labels.n_samples)).only(self.part_of_row >= 0)

    def run(self, candidates: Sequence[Candidate], X: Any, target: Any, params: dict[str, Any]) -> Selected:
        """Try every candidate along its path."""
        folds = [Fold.of(X, target, self.labels, train, test, params) for train, test in self.folds]
        self._total = len(folds) * sum(len(candidate.Cs) for candidate in candidates)
        judged: list[_Judged] = []
        paths: dict[str, PathScores] = {}
        best: tuple[float, Selected] | None = None
        for candidate in candidates:
            rows = []
            for C, scores, seconds, converged in self._columns(candidate, folds):
                found = self._judge(scores)
                judged.append(found)
                rows.append((C, found.score, _standard_error(found.of_fold), seconds, converged))
                value = self._worth(found.score)
                if best is None or value > best[0]:
                    best = value, Selected(candidate, C, scores, np.nan, {})
                if self._is_past_its_best([row[1] for row in rows]):
                    break
            self._done += len(folds) * (len(candidate.Cs) - len(rows))
            if rows:
                paths[candidate.name] = PathScores(
                    *(np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
                )
        assert best is not None
        return replace(best[1], nested_score=self._nested(judged, self.cells(best[1].scores)), paths=paths)

    def _columns(self, candidate: Candidate, folds: list[Fold]) -> Iterator[tuple[float, Any, float, float]]:
        """Out-of-fold scores, seconds and share of converged fits for each C, until time is up."""
        models = [_FoldModel(fold, candidate.estimator, self.response_method, self._asked_to_stop) for fold in folds]
        longest = 0.0
        for C in candidate.Cs.tolist():
            left = np.inf if self.time_limit is None else self.time_limit - self.elapsed
            if self._stop.is_set() or (
                longest > 0 and left < 2 * longest
            ):  # the last fit, on all rows, needs time, too
                return
            start = perf_counter()
            with quietly(), self._threads() as pool:
                limit = None if np.isinf(left) else max(left, 0.05 * float(self.time_limit or 0.0))
                fits = {pool.submit(model.scores_at, C, limit): number for number, model in enumerate(models)}
                parts: list[Any] = [None] * len(models)
                for fit in as_completed(fits):
                    parts[fits[fit]] = fit.result()
                    self._tell(C)
            longest = max(longest, perf_counter() - start)
            scores = assembled([part[0] for part in parts], [test for _, test in self.folds], self.labels)
            yield C, scores, perf_counter() - start, float(np.mean([part[1] for part in parts]))

    @contextmanager
    def _threads(self) -> Iterator[ThreadPoolExecutor]:
        """Threads that end when they are not waited for any more, as after Ctrl-C."""
        pool = ThreadPoolExecutor(threads(self.n_jobs))
        try:
            yield pool
        except BaseException:
            self._stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _asked_to_stop(self) -> bool:
        return self._stop.is_set()

    def _tell(self, C: float) -> None:
        self._done += 1
        if self.callback is None:
            return
        time = self.elapsed
        left = time / self._done * (self._total - self._done)
        if self.callback(PathProgress(self._done, self._total, time, left, C)):
            self._stop.set()

    def _judge(self, scores: Any) -> _Judged:
        """Tune on all folds but one, decide that one, in turn."""
        cells = self.cells(scores)
        predicted, of_others = nested_predictions(
            cells, self.scoring, self.rule, self.shrinkage, self.part_of_row, self.probabilities
        )
        of_fold = [self.scoring.value(cells.only(self.part_of_row == k), predicted) for k in range(len(self.folds))]
        return _Judged(self.scoring.value(cells, predicted), np.array(of_fold), of_others, predicted)

    def _nested(self, judged: list[_Judged], cells: Cells) -> float:
        """Judge what is chosen: each fold decided by what was best on the others."""
        predicted = sp.csr_array(cells.shape, dtype=bool)
        for number in range(len(self.folds)):
            worth = [self._worth(found.of_others[number]) for found in judged]
            best = judged[int(np.argmax(worth))].predicted
            predicted = predicted + sp.csr_array(best.multiply((self.part_of_row == number)[:, None]))
        return self.scoring.value(cells, predicted)

    def _worth(self, score: float) -> float:
        """Return a score of which more is better; one that is not defined is worth least."""
        value = -score if self.scoring.smaller_is_better else score
        return -np.inf if np.isnan(value) else float(value)

    def _is_past_its_best(self, scores: list[float]) -> bool:
        worth = [self._worth(score) for score in scores]
        return self.patience is not None and len(worth) - 1 - int(np.argmax(worth)) >= self.patience


class _FoldModel:
    """A fold, and the model that goes along the path on it."""

    def __init__(self, fold: Fold, estimator: Any, response_method: str, stopped: Callable[[], bool]):
        self.fold, self.response_method = fold, response_method
        self.model = clone(estimator)
        if isinstance(self.model, Pipeline) and len(self.model) > 1 and not fold.params:
            before, self.model = self.model[:-1], self.model[-1]
            X_train = before.fit_transform(fold.X_train, fold.Y_train)
            self.fold = replace(fold, X_train=X_train, X_test=before.transform(fold.X_test))
        own, prefix = owner_of_C(self.model)
        parameters = own.get_params(deep=False)
        self.names = {name: f"{prefix}{name}" for name in parameters}
        if "warm_start" in parameters and parameters.get("memory_limit") is None:
            self.model.set_params(**{self.names["warm_start"]: True})
        if "callback" in parameters:
            theirs = parameters["callback"]

            def callback(progress: Any) -> bool:
                return bool(theirs is not None and theirs(progress)) or stopped()

            self.model.set_params(**{self.names["callback"]: callback})
        self.time_limit = parameters.get("time_limit")

    def scores_at(self, C: float, time_left: float | None) -> tuple[Any, bool]:
        """Scores of the rows held out, and whether the fit converged."""
        self.model.set_params(**{self.names["C"]: C})
        if time_left is not None and "time_limit" in self.names:
            limit = time_left if self.time_limit is None else min(time_left, self.time_limit)
            self.model.set_params(**{self.names["time_limit"]: limit})
        scores, model = self.fold.scores(self.model, self.response_method)
        certificate = getattr(owner_of_C(model)[0], "certificate_", None)
        return scores, certificate is None or certificate.converged


def owner_of_C(estimator: Any) -> tuple[Any, str]:
    """Return the estimator whose C is searched, the last of a pipeline, and what its parameters are prefixed with."""
    own, prefix = estimator, ""
    if isinstance(estimator, Pipeline):
        own, prefix = estimator[-1], f"{estimator.steps[-1][0]}__"
    if "C" not in own.get_params(deep=False):
        msg = (
            f"estimator must have a parameter C, or be a pipeline that ends in one that has; got "
            f"{type(own).__name__}. Use LinearM3L(), KernelM3L(), or ThresholdTuner for an estimator without C."
        )
        raise InputError(msg)
    return own, prefix


def with_parameters(estimator: Any, **parameters: Any) -> Any:
    """Return a copy with other parameters of the estimator whose C is searched, those it has."""
    own, prefix = owner_of_C(estimator)
    known = own.get_params(deep=False)
    return clone(estimator).set_params(**{f"{prefix}{name}": v for name, v in parameters.items() if name in known})


def grid(Cs: Any) -> tuple[Floats, bool]:
    """Return the values of C to try, rising, and whether they are still to be divided by :func:`mean_square`."""
    if isinstance(Cs, (int, np.integer)) and not isinstance(Cs, bool):
        if Cs < 1:
            msg = f"Cs must be a number of values, at least 1, or the values themselves; got {Cs!r}."
            raise InputError(msg)
        return (np.logspace(-2, 2, int(Cs)) if Cs > 1 else np.ones(1)), True
    try:
        values = np.unique(np.asarray(Cs, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.empty(0)
    if not len(values) or not np.isfinite(values).all() or values[0] <= 0:
        msg = f"Cs must be a number of values, or positive numbers; got {Cs!r}. Use Cs=9, or Cs=[0.1, 1, 10]."
        raise InputError(msg)
    return values, False


def mean_square(estimator: Any, X: Any) -> float:
    """Mean of K(x, x), which is the squared length of a row without a kernel, as the last step of a pipeline has it."""
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = clone(estimator[:-1]).fit_transform(X)
        estimator = estimator[-1]
    X = X if sp.issparse(X) else np.asarray(X)
    if X.dtype.kind not in "fiub" or X.ndim != 2:  # not for numbers, or for the estimator to refuse
        return 1.0
    return of_rows(estimator, X)


def _standard_error(values: Floats) -> float:
    """Of the mean, over the folds where the metric is defined."""
    known = values[~np.isnan(values)]
    return float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("nan")
