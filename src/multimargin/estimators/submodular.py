"""Training for the F-score, with label pairs that attract each other."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.errors import InputError
from multimargin.estimators._base import (
    Interval,
    MultilabelClassifier,
    Problem,
    Solution,
    StrOptions,
    constant_labels,
    row_blocks,
)
from multimargin.estimators._monitor import Monitor
from multimargin.labels import LabelMatrix

__all__ = ["SubmodularClassifier"]

N_FOLDS = 3
BUNDLE_STRIDE = {"bundle": 0.1, "bmrm": 1.0}
"""How far from the best point so far to the one where the planes are lowest the next plane is taken."""


class SubmodularClassifier(MultilabelClassifier):
    r"""Structured SVM for the F-score of each row, with attraction between pairs of labels.

    A set of labels y has the score

    .. math:: S(x, y) = \sum_l y_l\, w_l^\top x + \sum_{(i,j)} a_{ij}\, y_i y_j, \qquad a_{ij} \ge 0,

    and the prediction is the set with the largest score, found exactly as a minimum cut. Training solves

    .. math::

        \min_{w,\;\theta \ge 0}\ \tfrac12 \|w\|^2 + \tfrac12 \|\theta\|^2 + C \sum_n s_n \Bigl[ \max_y
        \bigl( S(x_n, y) + \Delta(y, y_n) \bigr) - S(x_n, y_n) \Bigr], \qquad a_{ij} = c\, f_{ij}\, \theta_{ij},

    where :math:`\Delta` is one minus the F-score of y on row n (or the number of wrong labels), :math:`f_{ij}` the
    share of rows that have both labels, c is ``pair_scale``, and :math:`s_n` the ``sample_weight``. The inner maximum
    is NP-hard for the F-score; here it is solved exactly all the same, by minimum cuts inside a branch and bound that
    almost never has to branch. With ``pairs=0`` the labels are independent given x and the maximum takes a sort.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses. Larger values fit the training labels harder.
    pairs : float in [0, 1] or list of pairs of labels, default=0.5
        Which labels may attract each other: a share of all pairs, those most often together in training (pairs never
        together are left out), or the pairs themselves, by label name. 0.05 suits many labels.
    pair_scale : float, default=1.0
        The constant c above. Larger values regularise attraction less; 0 turns it off.
    loss : {"f1", "hamming"}, default="f1"
        One minus the F-score of the row, or its number of wrong labels.
    oracle : {"exact", "paper"}, default="exact"
        How the inner maximum is found. ``"paper"`` is the approximation of Petterson and Caetano: training then stops
        at another point than the optimum, and the certificate shows how far away.
    offset : {"none", "train", "cv"}, default="none"
        Whether one number is added to the scores of all labels after training, so that the mean F-score is largest: on
        the training rows, or on held-out rows of a 3-fold cross-validation.
    solver : {"blocks", "bundle", "bmrm"}, default="blocks"
        Block dual ascent; a bundle method with short steps; or BMRM, the bundle method of the paper, with its cutting
        plane corrected. The last two are much slower and here for comparison.
    node_limit : int, default=500
        Nodes of the branch and bound after which an oracle call returns bounds in place of the exact maximum. The
        certificate stays valid; ``certificate_.oracle_exact`` says how often it happened.
    fit_intercept : bool, default=True
        Whether to add a constant feature. Its weight is regularised like the others.
    intercept_scaling : float, default=1.0
        Value of the constant feature. Larger values regularise the intercept less.
    tol : float, default=1e-3
        Relative duality gap at which training stops.
    max_iter : int, default=1000
        Largest number of passes over the data.
    time_limit : float, optional
        Seconds after which training stops, with what it has.
    n_jobs : int, optional
        Threads that call the oracle; None is 1 and -1 all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Order in which rows are visited, and the folds of ``offset="cv"``.
    verbose : int, default=0
        Whether to print progress to standard error.
    warm_start : bool, default=False
        Whether ``fit`` continues from the previous solution on the same rows, also after parameters such as C changed.
        Needs ``solver="blocks"``.
    callback : callable, optional
        Called once per pass with a record of ``pass_``, ``time``, ``primal``, ``dual`` and ``gap`` (the last three None
        on passes where they were not evaluated). Returning True stops training cleanly.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights w, in double precision whatever the precision of X.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    pairs_ : ndarray of shape (n_pairs, 2)
        Columns of the two labels of each pair.
    pair_coef_ : ndarray of shape (n_pairs,)
        Attraction a of each pair; most are zero.
    offset_ : float
        Added to the scores of all labels that are not constant.
    certificate_ : Certificate
        ``primal``, ``dual``, ``gap``, ``relative_gap``, ``converged``, ``oracle_exact``.
    history_ : History
        Arrays ``time``, ``pass_``, ``primal``, ``dual``.
    n_iter_ : int
        Passes over the data.
    classes_ : ndarray
        Label names; for a 1-D y, its two classes.
    label_names_ : ndarray of shape (n_labels,)
        Label names.
    label_form_ : LabelForm
        The form Y had in training, which predictions take.
    constant_labels_ : ndarray
        Labels with a single value in training; they are predicted to be constant, and take no part in the losses.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Feature names, if X was a DataFrame.

    Notes
    -----
    ``decision_function`` returns what a label is worth: the largest score of a set with it, minus the largest score of
    a set without. It is positive exactly for the predicted labels, and takes a minimum cut per attracted label;
    ``predict`` takes one per row. Ties go to the smaller set.

    Labels unknown in a row (NaN) are off in all sets of that row and not counted in its loss: the row is trained as if
    they did not exist. The loss belongs to a row, so weights of single cells are refused.

    At the optimum the scores of many labels are exactly zero, so that predictions hang on the last digits; calibrate
    with ``offset`` if F-scores matter. With the paper's mean loss, :math:`\lambda = 1 / (C n)`.

    References
    ----------
    J. Petterson, T. Caetano. Submodular multi-label learning. NIPS 2011.

    J. Petterson, T. Caetano. Reverse multi-label learning. NIPS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import SubmodularClassifier
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = SubmodularClassifier(C=10, random_state=0).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    >>> model.certificate_.oracle_exact
    1.0
    """

    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{k: v for k, v in MultilabelClassifier._parameter_constraints.items() if k != "class_weight"},
        "pairs": [Interval(Real, 0, 1, closed="both"), "array-like"],
        "pair_scale": [Interval(Real, 0, None, closed="left")],
        "loss": [StrOptions({"f1", "hamming"})],
        "oracle": [StrOptions({"exact", "paper"})],
        "offset": [StrOptions({"none", "train", "cv"})],
        "solver": [StrOptions({"blocks", *BUNDLE_STRIDE})],
        "node_limit": [Interval(Integral, 1, None, closed="left")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
    }

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    pairs_: NDArray[np.int32]
    pair_coef_: NDArray[np.float64]
    offset_: float

    def __init__(
        self,
        C: float = 1.0,
        *,
        pairs: Any = 0.5,
        pair_scale: float = 1.0,
        loss: str = "f1",
        oracle: str = "exact",
        offset: str = "none",
        solver: str = "blocks",
        node_limit: int = 500,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.C = C
        self.pairs = pairs
        self.pair_scale = pair_scale
        self.loss = loss
        self.oracle = oracle
        self.offset = offset
        self.solver = solver
        self.node_limit = node_limit
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callback = callback

    def _check_problem(self, problem: Problem) -> None:
        self._pairs = choose_pairs(self.pairs, problem.labels, problem.costs.row)
        if self.warm_start and self.solver != "blocks":
            msg = f"warm_start=True needs solver='blocks'; got solver={self.solver!r}. Change one of them."
            raise InputError(msg)
        if self.loss == "hamming" and self.oracle == "paper":
            msg = (
                "oracle='paper' approximates the F-score; loss='hamming' needs no approximation. Use oracle='exact', "
                "or loss='f1'."
            )
            raise InputError(msg)
        last = getattr(self, "_planes", None)
        shape = problem.labels.positives.shape
        if self.warm_start and last is not None and last[0] != shape:
            msg = (
                f"warm_start=True continues on the same rows and labels: the last fit had shape {last[0]}, this one "
                f"has {shape}. Set warm_start=False, or fit a clone."
            )
            raise InputError(msg)

    def _solve(self, problem: Problem, monitor: Monitor) -> Solution:
        pairs = self._pairs
        del self._pairs
        constant, _ = constant_labels(problem.labels)
        last = getattr(self, "_planes", None)
        result = _core.fit_submodular(
            rows=problem.rows(),
            n_labels=problem.labels.n_labels,
            positives=problem.positives(),
            missing=problem.missing(),
            left_out=constant.astype(np.uint8),
            cost=problem.costs.row.astype(np.float64),
            pairs=pairs.columns,
            factor=self.pair_scale * pairs.frequency,
            bias=self._bias(),
            hamming=self.loss == "hamming",
            paper=self.oracle == "paper",
            bundle_stride=BUNDLE_STRIDE.get(self.solver),
            node_limit=self.node_limit,
            start=last[1] if self.warm_start and last is not None else None,
            keep_planes=self.warm_start,
            tol=self.tol,
            max_iter=self.max_iter,
            threads=problem.n_jobs,
            seed=problem.seed,
            report=monitor,
            time_limit=np.inf if self.time_limit is None else float(self.time_limit),
        )
        weights = result["weights"]
        self.coef_ = np.ascontiguousarray(weights[:, :-1])
        self.intercept_ = weights[:, -1] * self._bias()
        self.pairs_ = pairs.columns
        self.pair_coef_ = self.pair_scale * pairs.frequency * result["pair_weights"]
        if self.warm_start:
            self._planes = problem.labels.positives.shape, result["planes"]
        self.offset_ = self._calibrate(problem)
        return Solution(result["primal"], result["dual"], result["passes"], result["status"], result["oracle_exact"])

    def _bias(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _set_constant(self, constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        self.coef_[constant] = 0.0
        self.intercept_[constant] = value[constant]

    def _unary(self, X: Any) -> NDArray[np.float64]:
        scores = np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True), dtype=np.float64) + self.intercept_
        return np.ascontiguousarray(scores)

    def _shifted(self, X: Any) -> NDArray[np.float64]:
        firm = np.isin(self.label_names_, self.constant_labels_)
        return np.ascontiguousarray(self._unary(X) + np.where(firm, 0.0, self.offset_))

    def _scores(self, X: Any) -> NDArray[Any]:
        u = self._shifted(X)
        worth = np.empty_like(u)
        _core.cut_marginals(u, self.pairs_, self.pair_coef_, worth)
        return worth

    def _positives(self, X: Any) -> sp.csr_array:
        blocks = []
        for rows in row_blocks(X.shape[0], len(self.label_names_)):
            u = self._shifted(X[rows])
            y = np.empty(u.shape, dtype=np.uint8)
            _core.predict_cut(u, self.pairs_, self.pair_coef_, False, y)
            blocks.append(sp.csr_array(y.astype(bool)))
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def _calibrate(self, problem: Problem) -> float:
        if self.offset == "none":
            return 0.0
        everything = np.arange(problem.labels.n_samples)
        if self.offset == "train":
            constant, _ = constant_labels(problem.labels)
            return best_offset([self._path(problem, everything, constant)])
        folds = np.random.default_rng(problem.seed).permutation(everything) % N_FOLDS
        parts = []
        for fold in range(N_FOLDS):
            held_out = folds == fold
            if held_out.all() or not held_out.any():
                continue
            model = clone(self).set_params(offset="none", warm_start=False, callback=None, verbose=0)
            part = problem.part(~held_out)
            if not part.costs.row.any():
                continue
            model._check_problem(part)
            model._solve(part, Monitor(None, 0, type(self).__name__))
            constant, value = constant_labels(part.labels)
            model._set_constant(constant, value)
            parts.append(model._path(problem, everything[held_out], constant))
        return best_offset(parts)

    def _path(self, problem: Problem, rows: NDArray[np.int64], firm: NDArray[np.bool_]) -> Path:
        """Weighted F-score of these rows as a function of the offset, which does not move the ``firm`` labels."""
        truth = _truth(problem.labels, rows)
        u = self._unary(problem.X[rows])
        constant, value = constant_labels(problem.labels)
        u[:, constant] = value[constant]
        weight = problem.costs.row[rows].astype(np.float64)
        low, high = _range(u[:, ~firm], truth[:, ~firm])
        start, offsets, changes, ends = _core.f_score_path(
            u, self.pairs_, self.pair_coef_, truth, firm.astype(np.uint8), low, high
        )
        counts = np.diff(ends, prepend=0)
        return Path(low, high, float(weight @ start), offsets, changes * np.repeat(weight, counts))

    def _warn_unless_converged(self, solution: Solution) -> None:
        if self.oracle == "paper" and solution.status == "converged":
            if not self.certificate_.converged:
                warnings.warn(
                    f"{type(self).__name__} with oracle='paper' found nothing more to improve after {solution.passes} "
                    f"passes, yet the relative duality gap is {self.certificate_.relative_gap:.2e} > tol "
                    f"{self.tol:.2e} (objective {self.certificate_.primal:.6g}, lower bound "
                    f"{self.certificate_.dual:.6g}): the oracle is approximate. Use oracle='exact'.",
                    ConvergenceWarning,
                    stacklevel=3,
                )
            return
        super()._warn_unless_converged(solution)


@dataclass(frozen=True)
class LabelPairs:
    """Pairs that may attract, and how often they are together."""

    columns: NDArray[np.int32]
    frequency: NDArray[np.float64]


def choose_pairs(pairs: Any, labels: LabelMatrix, weight: NDArray[Any]) -> LabelPairs:
    """Pairs of labels and the weighted share of rows that have both, among the rows in which both are known."""
    weight = weight.astype(np.float64)
    together = _joint(labels.positives, weight)
    if isinstance(pairs, Real):
        constant, _ = constant_labels(labels)
        upper = sp.triu(together, k=1, format="coo")
        first, second, count = upper.row, upper.col, upper.data
        usable = ~(constant[first] | constant[second]) & (count > 0)
        first, second, count = first[usable], second[usable], count[usable]
        most = int(float(pairs) * labels.n_labels * (labels.n_labels - 1) / 2)
        order = np.lexsort((second, first, -count))[:most]
        columns = np.column_stack([first[order], second[order]])
    else:
        columns = _named_pairs(pairs, labels)
    columns = np.ascontiguousarray(columns, dtype=np.int32).reshape(-1, 2)
    a, b = columns[:, 0], columns[:, 1]
    known = np.full(len(columns), weight.sum())
    if labels.missing is not None:
        unknown = _joint(labels.missing, weight)
        single = unknown.diagonal()
        known = known - single[a] - single[b] + np.asarray(unknown[a, b]).ravel()
    count = np.asarray(together[a, b]).ravel() if len(columns) else np.zeros(0)
    return LabelPairs(columns, count / np.where(known > 0, known, 1.0))


def _joint(cells: sp.csr_array, weight: NDArray[np.float64]) -> sp.csr_array:
    cells = cells.astype(np.float64)
    return sp.csr_array(cells.T @ (sp.diags_array(weight) @ cells))


def _named_pairs(pairs: Any, labels: LabelMatrix) -> NDArray[np.int64]:
    column = {name: k for k, name in enumerate(labels.names.tolist())}
    found: dict[tuple[int, int], None] = {}
    for pair in pairs:
        names = list(pair) if isinstance(pair, (tuple, list, set, frozenset, np.ndarray)) else [pair]
        names = [name.item() if isinstance(name, np.generic) else name for name in names]
        if len(names) != 2 or names[0] == names[1]:
            msg = f"pairs must be a share of all pairs or a list of pairs of two different labels; got {pair!r} in it."
            raise InputError(msg)
        unknown = [name for name in names if name not in column]
        if unknown:
            msg = f"pairs names the label {unknown[0]!r}, which is not one of the {len(column)} labels of Y."
            raise InputError(msg)
        a, b = sorted((column[names[0]], column[names[1]]))
        found[a, b] = None
    return np.array(list(found), dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class Path:
    """Sum of F-scores at the offset ``low``, and its changes on the way to ``high``."""

    low: float
    high: float
    start: float
    offsets: NDArray[np.float64]
    changes: NDArray[np.float64]


def best_offset(parts: list[Path]) -> float:
    """Return the middle of the interval of offsets where the sum of the paths is largest; 0 if nothing beats it."""
    if not parts:
        return 0.0
    low, high = max(p.low for p in parts), min(p.high for p in parts)
    offsets = np.concatenate([np.maximum(p.offsets, low) for p in parts])
    changes = np.concatenate([p.changes for p in parts])
    inside = offsets < high
    order = np.argsort(offsets[inside], kind="stable")
    edges, start = np.unique(offsets[inside][order], return_index=True)
    if not len(edges):
        return 0.0
    values = np.concatenate([[0.0], np.cumsum(np.add.reduceat(changes[inside][order], start))])
    bounds = np.concatenate([[low], edges, [high]])
    values[np.diff(bounds) <= 0] = -np.inf
    best = int(np.argmax(values))
    zero = int(np.searchsorted(bounds[1:-1], 0.0, side="left"))
    if values[zero] >= values[best] - 1e-12 * sum(p.start for p in parts):
        return 0.0
    return float((bounds[best] + bounds[best + 1]) / 2)


def _range(u: NDArray[np.float64], truth: NDArray[np.uint8]) -> tuple[float, float]:
    """Offsets between a third and three times as many labels as there are, by the scores alone."""
    density = float(np.mean(truth == 1)) if truth.size else 0.0
    if density == 0.0:
        return -1.0, 1.0
    low, high = -np.quantile(u, [1 - density / 3, max(1 - 3 * density, 0.0)])
    margin = 1e-3 + 1e-3 * abs(high - low)
    return float(min(low, 0.0) - margin), float(max(high, 0.0) + margin)


def _truth(labels: LabelMatrix, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    truth = labels.positives[rows].toarray().astype(np.uint8)
    if labels.missing is not None:
        truth[labels.missing[rows].toarray().astype(bool)] = 2
    return np.ascontiguousarray(truth)
