"""One object from the data to the decision: kind of model, C, probabilities and the rule for a metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from multimargin.decisions._held_out import read_training_labels
from multimargin.decisions._path import Candidate, PathProgress, PathScores, grid, mean_square
from multimargin.decisions._scoring import read_scoring
from multimargin.decisions.path import CPath
from multimargin.errors import InputError
from multimargin.estimators import KernelM3L, LinearM3L
from multimargin.fitted_rules import Rule, Sizes, exactly, expect

__all__ = ["TunedM3L"]

KINDS = ("auto", "linear", "kernel")
KERNEL_ROWS = 6000
"""Most rows for which a kernel is tried by itself: its time and memory grow with their square."""


class TunedM3L(CPath):
    r"""M3L with everything chosen for one metric: name the metric, and train.

    Features are scaled (columns to variance 1; sparse rows to length 1). A linear model and, unless there are too many
    rows, one with an RBF kernel go along a path of C on five folds, as in :class:`CPath`; for every C the decision is
    tuned for the metric, on probabilities fitted out of fold. What is best on rows that were held out is trained on all
    rows:

    .. math:: \max_{\text{model}, C, \text{rule}} \; \text{metric}\big(Y, \text{rule}(s(C))\big)

    Parameters
    ----------
    metric : str or tuple, default="example-f1"
        By what predictions will be judged; see ``scoring`` of :func:`tune_thresholds`.
    model : {"auto", "linear", "kernel"}, default="auto"
        ``"auto"`` tries both up to 6,000 rows, and only the linear one beyond.
    prior : prior or recipe, default=None
        As in :class:`LinearM3L`.
    Cs : int or array, default=9
        As in :class:`CPath`; C times the mean squared length of the scaled rows, if they are given.
    beta, costs, confidence
        See :func:`tune_thresholds`.
    scale : bool, default=True
        Whether to scale the features.
    cv : int, splitter or iterable, default=5
        Folds.
    patience : int, default=3
        A path of C ends after so many values in a row that are worse than its best.
    time_limit : float, optional
        Seconds for everything.
    n_jobs : int, optional
        Threads, a fold each. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the folds.
    verbose : int, default=0
        Whether to print a line for each fit.
    callback : callable, optional
        As in :class:`CPath`.

    Attributes
    ----------
    estimator_ : Pipeline
        Scaling and the model, trained on all rows; the model is ``estimator_[-1]``, with its ``certificate_``.
    model_ : {"linear", "kernel"}
        What was chosen.
    C_ : float
        The C of the model.
    paths_ : dict of str to PathScores
        What was measured for each kind of model.
    nested_score_ : float
        The metric where each fold is decided by what is best on the others, kind of model and C included: what to
        expect of new rows.
    calibrator_ : Calibration
        From scores to probabilities.
    thresholds_, best_threshold_, decision_, rule_, best_score_, n_positives_, rare_labels_, infeasible_labels_,
    calibration_
        As in :class:`ThresholdTuner`.
    classes_ : ndarray
        Label names; for a 1-D y its two classes.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from multimargin import TunedM3L
    >>> X, Y = make_multilabel_classification(200, n_classes=5, random_state=0)
    >>> model = TunedM3L("micro-f1", Cs=3, random_state=0).fit(X, Y)
    >>> sorted(model.paths_)
    ['kernel', 'linear']
    >>> model.predict_proba(X).shape
    (200, 5)
    """

    paths_: dict[str, PathScores]
    model_: str

    response_method = "auto"
    rule = "best"
    shrinkage = 30.0

    _optional_attributes: ClassVar[frozenset[str]] = CPath._optional_attributes

    def __init__(
        self,
        metric: Any = "example-f1",
        *,
        model: str = "auto",
        prior: Any = None,
        Cs: Any = 9,
        beta: float = 1.0,
        costs: Any = None,
        confidence: float | None = None,
        scale: bool = True,
        cv: Any = 5,
        patience: int | None = 3,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[[PathProgress], object] | None = None,
    ):
        self.metric = metric
        self.model = model
        self.prior = prior
        self.Cs = Cs
        self.beta = beta
        self.costs = costs
        self.confidence = confidence
        self.scale = scale
        self.cv = cv
        self.patience = patience
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @property
    def scoring(self) -> Any:
        """The metric, under the name that :class:`ThresholdTuner` has for it."""
        return self.metric

    @property
    def estimator(self) -> Any:
        """The kind of estimator inside, for what scikit-learn wants to know of it."""
        return LinearM3L(prior=self.prior)

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        if self.model not in KINDS:
            msg = f"model must be one of {', '.join(map(repr, KINDS))}; got {self.model!r}."
            raise InputError(msg)
        self._check_search()
        labels = read_training_labels(X, y)
        scoring = read_scoring(self.metric, labels.n_labels, self.beta, self.costs, self.confidence)
        found = self._search(X, y, labels, scoring, params, self._candidates(X, labels.n_samples))
        self.model_, self.paths_ = found.candidate.name, found.paths
        return self

    def _candidates(self, X: Any, n_rows: int) -> list[Candidate]:
        """Models to try, the quicker one first."""
        kinds = (
            (self.model,) if self.model != "auto" else ("linear", "kernel") if n_rows <= KERNEL_ROWS else ("linear",)
        )
        scaling = [("scale", Normalizer() if sp.issparse(X) else StandardScaler())] if self.scale else []
        Cs, _ = grid(self.Cs)
        candidates = []
        for kind in kinds:
            model = (KernelM3L if kind == "kernel" else LinearM3L)(prior=self.prior, random_state=0)
            pipeline = Pipeline([*scaling, ("model", model)])
            square = mean_square(pipeline, X)
            if kind == "linear":  # as if rows had length 1: the intercept is held back no more than a feature
                model.set_params(intercept_scaling=float(np.sqrt(square)))
            candidates.append(Candidate(kind, pipeline, Cs / square))
        return candidates

    def summary(self) -> str:
        """Say what was chosen, and why.

        Returns
        -------
        str
        """
        check_is_fitted(self)
        metric = self.decision_.scoring
        lines = [f"{self.model_} model, C = {self.C_:.4g}, decision by {self.rule_!r} for {metric}"]
        for name, path in self.paths_.items():
            best = int(np.nanargmin(path.score) if metric in ("hamming-loss", "cost") else np.nanargmax(path.score))
            lines.append(
                f"  {name}: {path.score[best]:.4f} ± {path.std_error[best]:.4f} at C = {path.C[best]:.4g}, the best of "
                f"{len(path.C)} from {path.C[0]:.3g} to {path.C[-1]:.3g}"
            )
        if self.model == "auto" and "kernel" not in self.paths_:
            lines.append(f"  kernel: not tried, there are more than {KERNEL_ROWS} rows; model='kernel' tries it")
        lines.append(f"expect {metric} {self.nested_score_:.4f} of new rows")
        return "\n".join(lines)

    def _fitted_rules(self) -> dict[str, Rule]:
        def paths(value: Any, sizes: Sizes) -> None:
            expect(isinstance(value, dict) and value and set(value) <= set(KINDS), "must be paths of known models")
            for path in value.values():
                exactly(PathScores)(path, {})

        def kind(value: Any, sizes: Sizes) -> None:
            expect(value in getattr(self, "paths_", ()), "must be one of the models that were tried")

        own = {"paths_": paths, "model_": kind}
        rules = {**super()._fitted_rules(), **own}
        del rules["path_"]
        return rules
