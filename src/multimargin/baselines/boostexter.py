"""Boosted trees of one level."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from multimargin import _core
from multimargin._rows import native_rows
from multimargin.baselines._base import VaryingLabelsBaseline
from multimargin.errors import InputError
from multimargin.estimators.contract import threads
from multimargin.estimators.monitor import History, Monitor, Progress
from multimargin.estimators.predictor import row_blocks
from multimargin.estimators.problem import native_cells
from multimargin.fitted_rules import Rule, array_of, count, exactly

__all__ = ["BoosTexter"]


class BoosTexter(VaryingLabelsBaseline):
    r"""BoosTexter: AdaBoost.MH with trees of one level.

    Lowers, by one tree :math:`h_t` after the other, the exponential loss of all n rows and L labels,

    .. math::

        \frac{1}{nL} \sum_{i,k} \exp\big(-s_{ik} f_k(x_i)\big), \qquad f = \sum_t h_t,

    where :math:`s_{ik}` is 1 for a label of row i and -1 for one it lacks. A tree asks whether one feature is above a
    threshold and has a value for every label on either side. The weights :math:`D_{ik}` of the cells, which sum to 1,
    are those of their losses; with :math:`W_\pm` the weights of the positive and of the negative cells of a label on
    one side, a round takes the split for which the sum of :math:`2 \sqrt{W_+ W_-}` over labels and sides is smallest,
    with the values :math:`\tfrac12 \ln \frac{W_+ + \epsilon}{W_- + \epsilon}`,
    :math:`\epsilon = \text{smoothing} / (nL)`. Labels with :math:`f_k > 0` are predicted. Each round multiplies the
    loss by at most 1; there is no certificate, since the rounds are greedy.

    Parameters
    ----------
    n_rounds : int, default=500
        Largest number of trees. Training ends before where no tree lowers the loss.
    smoothing : float, default=1.0
        Keeps values finite where the cells on one side of a split are all of one sign.
    split : {"auto", "threshold", "presence"}, default="auto"
        ``"threshold"`` looks at all thresholds of a feature, the middles between neighbouring values; where it has more
        than 256 values, at 255 thresholds with about as many rows between them. ``"presence"`` asks only whether a
        feature, which must not be negative, is above 0, such as whether a word occurs. ``"auto"`` is presence for
        sparse X without negative entries, and threshold otherwise.
    time_limit : float or None, default=None
        Seconds after which training stops, with the trees it has.
    n_jobs : int or None, default=None
        Threads; None is 1 and -1 all cores. The result does not depend on it.
    verbose : int, default=0
        Whether to print every round to standard error.
    callback : callable or None, default=None
        Called once per round with a record of ``pass_``, the round, ``time`` and ``primal``, the loss; ``dual`` and
        ``gap`` are None. Returning True stops training cleanly.

    Attributes
    ----------
    features_ : ndarray of shape (n_rounds,)
        Feature of each tree.
    cuts_ : ndarray of shape (n_rounds,)
        Its threshold.
    below_ : ndarray of shape (n_rounds, n_varying)
        Values of the labels that are not constant where the feature is at most the threshold.
    above_ : ndarray of shape (n_rounds, n_varying)
        Their values where it is above.
    intercept_ : ndarray of shape (n_varying,)
        Added to all scores: 0, unless there is no tree; then the value of one that does not split.
    history_ : History
        ``time``, ``pass_`` and, as ``primal``, the exponential loss after each round; ``dual`` is the value 0 that no
        loss is below.
    n_iter_ : int
        Number of trees.

    References
    ----------
    R. E. Schapire, Y. Singer. BoosTexter: a boosting-based system for text categorization. Machine Learning 39 (2000).
    https://doi.org/10.1023/A:1007649029923

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import BoosTexter
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = BoosTexter(10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    features_: NDArray[np.int32]
    cuts_: NDArray[np.float64]
    below_: NDArray[np.float64]
    above_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_rounds": [Interval(Integral, 1, 2**31 - 1, closed="left")],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "split": [StrOptions({"auto", "threshold", "presence"})],
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    def __init__(
        self,
        n_rounds: int = 500,
        *,
        smoothing: float = 1.0,
        split: str = "auto",
        time_limit: float | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Progress], object] | None = None,
    ):
        self.n_rounds = n_rounds
        self.smoothing = smoothing
        self.split = split
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Scores of the labels after one tree, after two, and so on.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples, n_labels)
            Of shape (n_samples,) if the model was trained on a 1-D y.
        """
        check_is_fitted(self)
        X = self._check_X(X)
        varies = self.constant_signs_ == 0
        scores = np.tile(self.constant_signs_.astype(np.float64), (X.shape[0], 1))
        if not varies.any():
            return
        scores[:, varies] = self.intercept_
        columns = sp.csc_array(X) if sp.issparse(X) else X
        for feature, threshold, below, above in zip(self.features_, self.cuts_, self.below_, self.above_, strict=True):
            column = columns[:, [feature]].toarray() if sp.issparse(X) else columns[:, [feature]]
            scores = scores.copy()
            scores[:, varies] += np.where(column > threshold, above, below)
            yield self._in_form(scores)

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        n_threads = threads(self.n_jobs)
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        presence = self._by_presence(X)
        rounds = _Rounds(self.callback, int(self.verbose), type(self).__name__)
        found = _core.fit_boosting(
            rows=native_rows(X),
            positives=native_cells(Y),
            smoothing=float(self.smoothing),
            presence=presence,
            limits=_core.Limits(
                tol=0.0,
                max_iter=int(self.n_rounds),
                threads=n_threads,
                time_limit=rounds.time_left(self.time_limit),
                report=rounds,
            ),
        )
        n_found = len(found.features)
        intercept = np.zeros(Y.shape[1])
        if not n_found:
            positives = np.bincount(Y.indices, minlength=Y.shape[1])
            intercept = 0.5 * np.log((positives + self.smoothing) / (Y.shape[0] - positives + self.smoothing))
        return {
            "features_": found.features,
            "cuts_": found.thresholds,
            "below_": found.below,
            "above_": found.above,
            "intercept_": intercept,
            "history_": rounds.first(n_found),
            "n_iter_": n_found,
        }

    def _by_presence(self, X: Any) -> bool:
        """Whether splits ask for presence only."""
        if self.split == "threshold" or (self.split == "auto" and not sp.issparse(X)):
            return False
        values = X.data if sp.issparse(X) else X
        least = float(values.min()) if values.size else 0.0
        if least < 0 and self.split == "presence":
            msg = (
                f'split="presence" asks whether a feature is above 0, so X must not be negative; its least entry is '
                f'{least:.3g}. Use split="threshold".'
            )
            raise InputError(msg)
        return least >= 0

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        features, place = np.unique(self.features_, return_inverse=True)
        change, start = self.above_ - self.below_, self.intercept_ + self.below_.sum(axis=0)
        scores = np.empty((X.shape[0], len(start)))
        for rows in row_blocks(X.shape[0], max(len(place), len(start))):
            part = X[rows][:, features]
            values = part.toarray() if sp.issparse(part) else part
            scores[rows] = start + (values[:, place] > self.cuts_).astype(np.float64) @ change
        return scores

    def _varying_rules(self) -> dict[str, Rule]:
        return {
            "features_": array_of("rounds", 0, "features", "i4"),
            "cuts_": array_of("rounds", types="f8"),
            "below_": array_of("rounds varying", types="f8"),
            "above_": array_of("rounds varying", types="f8"),
            "intercept_": array_of("varying", types="f8"),
            "history_": exactly(History),
            "n_iter_": count(0, "rounds"),
        }


class _Rounds(Monitor):
    """Keeps the loss of every round; there is no lower bound to tell of."""

    def __call__(
        self, pass_: int, time: float, primal: float | None, dual: float | None, iterate: tuple[Any, ...] | None = None
    ) -> bool:
        assert primal is not None
        self._records.append((self.elapsed, pass_, primal, 0.0))
        if self.verbose:
            sys.stderr.write(f"{self.name}: round {pass_:5d}  {self.elapsed:8.2f} s  exponential loss {primal:.6g}\n")
        return self.callback is not None and bool(self.callback(Progress(pass_, self.elapsed, primal, None, None)))

    def first(self, rounds: int) -> History:
        """Return what was told of so many rounds, without a last one that was not finished."""
        del self._records[rounds:]
        return self.history()
