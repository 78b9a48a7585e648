"""Probabilities of labels from the scores of any multi-label classifier."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from multimargin.decisions import _row_rules as rows
from multimargin.decisions._cells import Cells, read_cells
from multimargin.decisions._held_out import read_training_labels
from multimargin.decisions._lines import Calibration, fit_calibration, inside
from multimargin.decisions._stored import any_number, calibration_rule
from multimargin.decisions._wrapper import DecisionWrapper
from multimargin.errors import InputError
from multimargin.fitted_rules import Rule, exactly
from multimargin.metrics import Reliability, brier_score, calibration_error, log_loss, reliability

__all__ = ["Calibration", "LabelCalibrator", "calibrate"]

Floats = NDArray[np.float64]

METHODS = ("sigmoid", "isotonic", "temperature")
POOLINGS = ("hierarchical", "all", None)


def calibrate(
    scores: Any,
    Y: Any,
    *,
    method: str = "sigmoid",
    pooling: str | None = "hierarchical",
    from_probabilities: bool = False,
    sample_weight: Any = None,
) -> Calibration:
    r"""Fit probabilities to a bare matrix of scores.

    The scores must come from rows the model did not train on; :class:`LabelCalibrator` sees to that.

    Parameters
    ----------
    scores : array or sparse matrix of shape (n_samples, n_labels)
        Larger means more likely. Cells that a sparse matrix does not store are left out.
    Y : labels in any form
        NaN cells are left out.
    method, pooling
        See :class:`LabelCalibrator`.
    from_probabilities : bool, default=False
        Whether the scores are probabilities; their log-odds are then calibrated.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.decisions import calibrate
    >>> scores = np.linspace(-2, 2, 9)[:, None]
    >>> y = [0, 0, 0, 1, 0, 1, 0, 1, 1]
    >>> calibrate(scores, y).probabilities([[-2.0], [0.0], [2.0]]).round(1).ravel()
    array([0.2, 0.4, 0.8])
    """
    check_method(method, pooling)
    cells = read_cells(scores, Y, sample_weight)
    if from_probabilities:
        values = cells.scores.data if cells.sparse else cells.scores
        if values.size and (values.min() < 0 or values.max() > 1):
            msg = (
                "scores must lie between 0 and 1 with from_probabilities=True; they go from "
                f"{values.min():.3g} to {values.max():.3g}. Leave from_probabilities out."
            )
            raise InputError(msg)
    return fit_calibration(cells, method, pooling, from_probabilities)


def check_method(method: Any, pooling: Any) -> None:
    """Refuse what is no method of calibration."""
    if method not in METHODS:
        msg = f"method must be one of {', '.join(map(repr, METHODS))}; got {method!r}."
        raise InputError(msg)
    if pooling not in POOLINGS:
        msg = f"pooling must be one of {', '.join(map(repr, POOLINGS))}; got {pooling!r}."
        raise InputError(msg)


class LabelCalibrator(DecisionWrapper):
    r"""Probabilities for any multi-label classifier, fitted out of fold.

    .. math:: P(y_l = 1 \mid s) = \frac{1}{1 + \exp(-(a_l s + b_l))}, \qquad
              (a_l, b_l) \sim N\big((a_0, b_0), \operatorname{diag}(\tau_a, \tau_b)\big)

    The line of each label is the most likely one given its cells and the prior; the prior is estimated from all labels
    (three rounds of Laplace-EM), so that a label with few positives takes the line that labels usually have.

    Parameters
    ----------
    estimator : classifier
        With ``decision_function`` or ``predict_proba`` for several labels: ours, or scikit-learn's. Probabilities are
        taken as log-odds first.
    method : {"sigmoid", "isotonic", "temperature"}, default="sigmoid"
        A line to log-odds per label; isotonic steps for labels with at least 50 positives and lines for the others; or
        one slope for all labels and no offset, for scores that are log-odds already.
    pooling : {"hierarchical", "all", None}, default="hierarchical"
        How lines of labels know of each other: by a common prior, one line for all, or not at all (Platt's method).
        With fewer than three labels that can be fitted, not at all.
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        Where scores come from; ``"auto"`` takes ``decision_function`` if there is one.
    cv : int, splitter, iterable or "prefit", default=5
        As in :class:`ThresholdTuner`.
    n_jobs : int, optional
        Folds at once.
    random_state : int, RandomState instance or None, default=None
        For the folds.
    verbose : int, default=0
        Whether to print a line per fold.

    Attributes
    ----------
    estimator_ : classifier
        Trained on all rows.
    calibration_ : ndarray of shape (n_labels, 2)
        Slope and offset of each label.
    prior_ : tuple of four floats, or None
        Mean slope and offset, and their variances.
    calibrator_ : Calibration
        The whole map from scores to probabilities.
    log_loss_, brier_, ece_ : float
        Macro log-loss, macro Brier score and calibration error where each fold is calibrated on the others. These and
        the next two are missing if scores are sparse, or no label varies in the training rows of a fold.
    base_log_loss_ : float
        Macro log-loss of saying the frequency of each label.
    reliability_ : Reliability
        Probabilities against shares of positives, likewise.
    classes_ : ndarray
        Label names; for a 1-D y its two classes.

    Notes
    -----
    Probabilities lie strictly between 0 and 1. A label whose scores are worse than nothing gets its frequency; one
    without a usable positive, the usual slope and its frequency.

    References
    ----------
    J. Platt. Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods. 1999.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from multimargin import LabelCalibrator, LinearM3L
    >>> X, Y = make_multilabel_classification(300, n_classes=6, random_state=0)
    >>> model = LabelCalibrator(LinearM3L(C=0.1), random_state=0).fit(X, Y)
    >>> p = model.predict_proba(X)
    >>> p.shape, bool((p > 0).all() and (p < 1).all())
    ((300, 6), True)
    >>> bool(model.log_loss_ < model.base_log_loss_)
    True
    """

    _optional_attributes: ClassVar[frozenset[str]] = DecisionWrapper._optional_attributes | {
        "log_loss_",
        "base_log_loss_",
        "brier_",
        "ece_",
        "reliability_",
    }

    def __init__(
        self,
        estimator: Any,
        *,
        method: str = "sigmoid",
        pooling: str | None = "hierarchical",
        response_method: str = "auto",
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.method = method
        self.pooling = pooling
        self.response_method = response_method
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        self._check_common()
        check_method(self.method, self.pooling)
        labels = read_training_labels(X, y)
        held_out = self._out_of_fold(X, y, labels, params)
        cells = Cells(held_out.scores, labels, np.ones(labels.n_samples)).only(held_out.part_of_row >= 0)
        probabilities = self.response_method_ == "predict_proba"
        self.estimator_ = held_out.estimator
        self._learn_form(labels)
        self.calibrator_ = fit_calibration(cells, self.method, self.pooling, probabilities)
        self._judge(cells, held_out.part_of_row, probabilities)
        return self

    @property
    def calibration_(self) -> Floats:
        """Slope and offset of each label."""
        return self.calibrator_.lines

    @property
    def prior_(self) -> tuple[float, float, float, float] | None:
        """Means and variances of slopes and offsets over labels."""
        return self.calibrator_.prior

    def _fitted_rules(self) -> dict[str, Rule]:
        judged = dict.fromkeys(("log_loss_", "base_log_loss_", "brier_", "ece_"), any_number)
        own = {"calibrator_": calibration_rule, "reliability_": exactly(Reliability)}
        return {**super()._fitted_rules(), **own, **judged}

    def _judge(self, cells: Cells, part_of_row: NDArray[np.int64], probabilities: bool) -> None:
        """Calibrate each part on the others, and compare with the truth."""
        if cells.sparse or not cells.counts()[1].any():
            return  # without a table of scores, or scores that can be used, there is nothing to compare
        scores = np.asarray(cells.scores, dtype=np.float64)
        p = np.full(cells.shape, np.nan)
        for part in np.unique(part_of_row[part_of_row >= 0]):
            held_out = part_of_row == part
            others = cells.only(~held_out & (part_of_row >= 0))
            if others.weights.sum() == 0:
                others = cells
            fitted = fit_calibration(others, self.method, self.pooling, probabilities)
            p[held_out] = inside(expit(fitted.log_odds(scores[held_out])))
        truth = cells.labels.positives.toarray().astype(np.float64)
        if cells.labels.missing is not None:
            truth[cells.labels.missing.toarray().astype(bool)] = np.nan
        truth[np.isnan(p)] = np.nan
        p = np.nan_to_num(p, nan=0.5)
        positives, known = cells.counts()
        base = inside(np.broadcast_to((positives + 0.5) / (known + 1), p.shape))
        self.log_loss_, self.base_log_loss_ = log_loss(truth, p), log_loss(truth, base)
        self.brier_, self.ece_ = brier_score(truth, p), calibration_error(truth, p)
        self.reliability_: Reliability = reliability(truth, p)

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the labels, strictly between 0 and 1.

        Parameters
        ----------
        X : rows, in any form the estimator takes

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            After training on a 1-D y, of shape (n_samples, 2), for its two classes.
        """
        check_is_fitted(self)
        p = inside(expit(self._margins(self._scores(X))))
        return np.hstack([1.0 - p, p]) if self.label_form_.kind == "column" else p

    def _margins(self, scores: Any) -> Floats:
        return np.asarray(self.calibrator_.log_odds(rows.filled(scores)))

    def _predicted(self, scores: Any) -> sp.csr_array:
        return rows.above(self.calibrator_.log_odds(scores), 0.0)
