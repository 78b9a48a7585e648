"""Training for the F-score, with label pairs that attract each other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from multimargin import _core
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import (
    Interval,
    Model,
    MultilabelClassifier,
    Problem,
    Status,
    StrOptions,
    WarmStart,
    threads,
)
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.predictor import row_blocks
from multimargin.estimators.submodular.label_pairs import LabelPairs, choose_pairs, label_pairs
from multimargin.estimators.submodular.most_violating import MostViolating, SetProblem, most_violating
from multimargin.estimators.submodular.offset import Path, best_offset, f_score_path, known_truth, unary_scores
from multimargin.fitted_rules import Rule, Sizes, array_of, expect, number
from multimargin.labels import LabelMatrix, read_labels
from multimargin.weights import cell_costs

__all__ = ["SubmodularClassifier"]

N_FOLDS = 3
FOLD_SHARE = 2 / 9
"""Of the time limit, for the fit of a fold: as long as the model itself, for its rows."""
LONGEST_ROWS = 1e5
"""C times the mean squared length of the rows, beyond which training may need more than 1000 passes."""
BUNDLE_STRIDE = {"bundle": 0.1, "bmrm": 1.0}
"""How far from the best point so far to the one where the planes are lowest the next plane is taken."""


@dataclass(frozen=True)
class SubmodularTask:
    """A problem, the pairs that may attract, and both for the native core."""

    problem: Problem
    pairs: NDArray[np.int32]
    data: _core.SubmodularData


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
    C : float or "scale", default="scale"
        Weight of the losses. Larger values fit the training labels harder. ``"scale"`` is one over the mean squared
        length of the rows, by their weights: 1 where rows have length 1.
    pairs : "auto", float in [0, 1] or list of pairs of labels, default="auto"
        Which labels may attract each other: a share of all pairs, those most often together in training (pairs never
        together are left out), or the pairs themselves, by label name. ``"auto"`` is one half, but with more than 20
        labels no more than 100 pairs, or two for each label: the time of training grows with them.
    pair_scale : float, default=1.0
        The constant c above. Larger values regularise attraction less; 0 turns it off.
    loss : {"f1", "hamming"}, default="f1"
        One minus the F-score of the row, or its number of wrong labels.
    class_weight : None, "balanced", dict, list of dicts or LabelFrequencies, default=None
        With ``loss="hamming"``, what a wrong label counts in :math:`\Delta`: with ``{0: a, 1: b}`` a label predicted
        though absent counts a, a missed one b; the other forms as in :class:`LinearM3L`. The score of the truth must be
        ahead by as much; an error itself costs what it is behind, whatever its class, so that a weight of 2 is not two
        rows. The F-score belongs to a row as a whole and takes no weights of labels: use ``sample_weight``, ``offset``,
        or :class:`ThresholdTuner`.
    oracle : {"exact", "paper"}, default="exact"
        How the inner maximum is found. ``"paper"`` is the approximation of Petterson and Caetano: training then stops
        at another point than the optimum, and the certificate shows how far away. :meth:`most_violating` compares the
        two, row by row.
    offset : {"train", "cv"}, optional
        Whether one number is added to the scores of all labels after training, so that the mean F-score is largest: on
        the training rows, or on held-out rows of a 3-fold cross-validation.
    solver : {"blocks", "bundle", "bmrm"}, default="blocks"
        Block dual ascent; a bundle method with short steps; or BMRM, the bundle method of the paper, with its cutting
        plane corrected. The last two are much slower and here for comparison.
    node_limit : int, default=500
        Nodes of the branch and bound after which an oracle call returns bounds in place of the exact maximum. The
        certificate stays valid; ``certificate_.oracle_exact`` says how often it happened.
    time_limit : float, optional
        Seconds after which training stops, with what it has. With ``offset="cv"`` they are shared: the fits of the
        folds come first and end after two, four and six ninths of it at the latest; the model gets what is left. The
        certificate is computed after that, which takes about one pass.
    n_jobs : int, optional
        Threads that call the oracle; None is 1 and -1 all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Order in which rows are visited, and the folds of ``offset="cv"``.
    warm_start : bool, default=False
        Whether ``fit`` continues from the previous solution on the same rows, also after parameters such as C changed.
        Needs ``solver="blocks"``.

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

    Notes
    -----
    ``decision_function`` returns what a label is worth: the largest score of a set with it, minus the largest score of
    a set without. It is positive exactly for the predicted labels, and takes a minimum cut per attracted label;
    ``predict`` takes one per row. Ties go to the smaller set.

    Labels unknown in a row (NaN) are off in all sets of that row and not counted in its loss: the row is trained as if
    they did not exist. The loss belongs to a row, so weights of single cells are refused.

    The certificate rests on the data, the arrays of the model and dual variables alone. ``primal`` takes a fresh call
    of the exact oracle for every row, whatever ``oracle`` trained; a call cut short by ``node_limit`` counts with its
    upper bound. ``dual`` takes, for every row, weights of label sets that sum to one: those found in training, or with
    ``solver="bundle"`` and ``"bmrm"`` the sets behind each cutting plane with the weight of the plane. They are kept
    for :func:`multimargin.certify` after ``warm_start=True``.

    ``certificate_.oracle_exact`` is the share of the rows whose label set, found by ``oracle`` at the returned model,
    is proved best: with ``"exact"`` by the search itself; with ``"paper"`` by a test after it, tighter than the paper's
    Algorithm 3, that still fails for many sets that are best. With ``"paper"`` it says nothing of ``primal``.

    Where C times the squared length of the rows is large, or columns differ much in size, training is held back by a
    proximal term in coordinates that level the columns. It solves the same problem, but scaled features still take
    fewer passes; beyond a product of 1e5 a warning says so.

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
    >>> model.most_violating(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()]).exact
    array([ True,  True,  True,  True])
    """

    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultilabelClassifier._parameter_constraints,
        "pairs": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both"), "array-like"],
        "pair_scale": [Interval(Real, 0, None, closed="left")],
        "loss": [StrOptions({"f1", "hamming"})],
        "oracle": [StrOptions({"exact", "paper"})],
        "offset": [StrOptions({"train", "cv"}), None],
        "solver": [StrOptions({"blocks", *BUNDLE_STRIDE})],
        "node_limit": [Interval(Integral, 1, None, closed="left")],
    }

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    pairs_: NDArray[np.int32]
    pair_coef_: NDArray[np.float64]
    offset_: float

    def __init__(
        self,
        C: float | str = "scale",
        *,
        pairs: Any = "auto",
        pair_scale: float = 1.0,
        loss: str = "f1",
        class_weight: Any = None,
        oracle: str = "exact",
        offset: str | None = None,
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
        self.class_weight = class_weight
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

    def _prepare(self, problem: Problem) -> SubmodularTask:
        if self.warm_start and self.solver != "blocks":
            msg = f"warm_start=True needs solver='blocks'; got solver={self.solver!r}. Change one of them."
            raise InputError(msg)
        if self.loss == "hamming" and self.oracle == "paper":
            msg = (
                "oracle='paper' approximates the F-score; loss='hamming' needs no approximation. Use oracle='exact', "
                "or loss='f1'."
            )
            raise InputError(msg)
        if self.class_weight is not None and self.loss != "hamming":
            msg = (
                f"class_weight needs loss='hamming': the F-score belongs to a row as a whole, not to its labels; got "
                f"loss={self.loss!r}. Use loss='hamming', tune the decision with ThresholdTuner, or weigh rows with "
                "sample_weight."
            )
            raise InputError(msg)
        return self._task(problem, choose_pairs(self.pairs, problem.labels, problem.costs.row))

    def _task(self, problem: Problem, pairs: LabelPairs) -> SubmodularTask:
        data = _core.SubmodularData(
            rows=problem.rows,
            labels=problem.cells,
            pairs=pairs.columns,
            factor=self.pair_scale * pairs.frequency,
            bias=self._constant_feature(),
            hamming=self.loss == "hamming",
            paper=self.oracle == "paper",
            node_limit=self.node_limit,
        )
        return SubmodularTask(problem, pairs.columns, data)

    def _solve(self, task: SubmodularTask, last: WarmStart | None, monitor: Monitor) -> Model:
        problem = task.problem
        self._warn_if_rows_are_long(problem)
        held_out = self._held_out_paths(problem, monitor) if self.offset == "cv" else []
        monitor.model_at = partial(self._at, task)
        limits = self._limits(problem, monitor)
        if self.solver == "blocks":
            found = _core.fit_submodular(
                task.data,
                planes=None if last is None else last.state,
                model=None if last is None else self._last_arrays(task),
                keep_planes=self.warm_start,
                certify=True,
                limits=limits,
            )
        else:
            found = _core.fit_submodular_bundle(task.data, BUNDLE_STRIDE[self.solver], limits)
        if self.offset == "train":
            held_out = [f_score_path(found, task.pairs, problem, np.arange(problem.labels.n_samples), problem.constant)]
        fitted = {
            "coef_": found.coef,
            "intercept_": found.intercept,
            "pairs_": task.pairs,
            "pair_coef_": found.attraction,
            "offset_": best_offset(held_out),
        }
        result = found.result
        bounds = Bounds(result.primal, result.dual, result.oracle_exact)
        return Model(fitted, bounds, result.passes, result.status, found.planes)

    def _at(
        self,
        task: SubmodularTask,
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        attraction: NDArray[np.float64],
    ) -> SubmodularClassifier:
        """Return the estimator at weights of a solver, for callbacks."""
        problem = task.problem
        fitted = {
            "C_": problem.C,
            "coef_": coef,
            "intercept_": intercept,
            "pairs_": task.pairs,
            "pair_coef_": attraction,
            "offset_": 0.0,
            "constant_labels_": problem.labels.names[problem.constant],
            **problem.columns,
        }
        self._set_constant(fitted, problem.constant, problem.labels.signs)
        model = copy(self)
        model._last = None
        model._replace_fitted(fitted, problem.labels)
        return model

    def most_violating(self, X: Any, y: Any) -> MostViolating:
        r"""Solve the inner problem of training for some rows, :math:`\max_y S(x_n, y) + \Delta(y, y_n)`.

        The scores are those of training, without ``offset_``. Labels constant in training, and labels unknown in a row,
        are off in all its sets and not counted in its loss.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : labels of the rows, in any form
            A ``class_weight`` that depends on label frequencies takes those of y.

        Returns
        -------
        MostViolating
            Arrays, one entry per row: the exact maximum with its upper bound and, with ``loss="f1"``, what Algorithm 2
            of the paper finds and whether its Algorithm 3, and a tighter test, prove it.
        """
        check_is_fitted(self)
        X = self._check_X(X)
        labels = self._labels_of_rows(y, X.shape[0])
        firm = np.isin(self.label_names_, self.constant_labels_)
        costs = cell_costs(labels, self.class_weight, None, firm)
        problem = SetProblem(
            pairs=self.pairs_,
            attraction=self.pair_coef_,
            hamming=self.loss == "hamming",
            miss=costs.positive,
            excess=costs.negative,
            node_limit=int(self.node_limit),
            threads=threads(self.n_jobs),
        )

        def blocks() -> Iterator[tuple[NDArray[np.float64], NDArray[np.uint8]]]:
            for rows in row_blocks(X.shape[0], len(firm)):
                truth = known_truth(labels, rows)
                truth[:, firm] = 2
                yield unary_scores(X[rows], self.coef_, self.intercept_), truth

        return most_violating(problem, self.label_names_, blocks())

    def _labels_of_rows(self, y: Any, n_samples: int) -> LabelMatrix:
        """Return labels that are those of training, in any form."""
        names = self.label_names_ if self.label_form_.kind == "sets" else None
        if self.label_form_.kind == "column":
            column = np.asarray(y)
            unknown = column != column
            y = np.where(unknown, np.nan, column == self.classes_[-1])[:, None]
        labels = read_labels(y, n_samples=n_samples, names=names, subject="y")
        if labels.names.tolist() != self.label_names_.tolist():
            msg = (
                f"y must have the {len(self.label_names_)} labels the model was trained on, in the same order; got "
                f"{labels.n_labels} labels: {labels.names.tolist()[:5]}. Give it in the form given to fit."
            )
            raise InputError(msg)
        return labels

    def _last_arrays(self, task: SubmodularTask) -> _core.SubmodularArrays:
        """Return the arrays of the last fit, zero where features or pairs are others now."""
        problem = task.problem
        n_labels, n_features = problem.labels.n_labels, problem.X.shape[1]
        coef, intercept = np.zeros((n_labels, n_features)), np.zeros(n_labels)
        if self.coef_.shape[1] == n_features:
            coef, intercept = self._free_weights(problem)
        same_pairs = np.array_equal(task.pairs, self.pairs_)
        attraction = self.pair_coef_ if same_pairs else np.zeros(len(task.pairs))
        return _core.SubmodularArrays(coef, intercept, attraction)

    def _bounds(self, problem: Problem) -> Bounds:
        task = self._task(problem, label_pairs(self.pairs_, problem.labels, problem.costs.row))
        model = _core.SubmodularArrays(*self._free_weights(problem), self.pair_coef_)
        return Bounds(*_core.certify_submodular(task.data, model, self._kept_state(problem), problem.n_jobs))

    def _free_weights(self, problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights and intercepts without those of the constant labels, which take no part in training."""
        free = ~problem.constant
        return np.ascontiguousarray(self.coef_ * free[:, None]), self.intercept_ * free

    def _warn_if_rows_are_long(self, problem: Problem) -> None:
        squares = row_norms(problem.X, squared=True).astype(np.float64)
        mean = float(np.average(squares, weights=problem.costs.row))
        if problem.C * mean > LONGEST_ROWS:
            warnings.warn(
                f"The features are large for C={self.C!r}: the mean squared length of the rows of X is {mean:.3g}, and "
                f"C times it {problem.C * mean:.3g}. Training may need more than 1000 passes beyond {LONGEST_ROWS:g}. "
                f"Scale the features, with StandardScaler or normalize, or lower C towards {1 / mean:.2g}.",
                UserWarning,
                stacklevel=4,
            )

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        fitted["coef_"][constant] = 0.0
        fitted["intercept_"][constant] = value[constant]

    def _fitted_rules(self) -> dict[str, Rule]:
        def pairs(value: Any, sizes: Sizes) -> None:
            array_of("pairs 2", 0, "labels", "i4")(value, sizes)
            expect((value[:, 0] != value[:, 1]).all(), "must pair different labels")

        return {
            **super()._fitted_rules(),
            "coef_": array_of("labels features", types="f8"),
            "intercept_": array_of("labels", types="f8"),
            "pairs_": pairs,
            "pair_coef_": array_of("pairs", low=0.0, types="f8"),
            "offset_": number(),
        }

    def _shifted(self, X: Any) -> NDArray[np.float64]:
        firm = np.isin(self.label_names_, self.constant_labels_)
        unary = unary_scores(X, self.coef_, self.intercept_)
        return np.ascontiguousarray(unary + np.where(firm, 0.0, self.offset_))

    def _scores(self, X: Any) -> NDArray[Any]:
        u = self._shifted(X)
        worth = np.empty_like(u)
        _core.cut_marginals(u, self.pairs_, self.pair_coef_, worth)
        return worth

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        blocks = []
        for rows in row_blocks(X.shape[0], len(self.label_names_)):
            u = self._shifted(X[rows])
            y = np.empty(u.shape, dtype=np.uint8)
            _core.predict_cut(u, self.pairs_, self.pair_coef_, False, y)
            blocks.append(sp.csr_array(y.astype(bool)))
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def _held_out_paths(self, problem: Problem, monitor: Monitor) -> list[Path]:
        """Train on all folds but one, in turn, within their shares of the time limit."""
        everything = np.arange(problem.labels.n_samples)
        folds = np.random.default_rng(problem.seed).permutation(everything) % N_FOLDS
        silent = Monitor(None, 0, type(self).__name__)
        paths = []
        for fold in range(N_FOLDS):
            held_out = folds == fold
            if held_out.all() or not held_out.any():
                continue
            part = problem.part(~held_out)
            if not part.costs.row.any():
                continue
            task = self._task(part, choose_pairs(self.pairs, part.labels, part.costs.row))
            until = None if self.time_limit is None else (fold + 1) * FOLD_SHARE * self.time_limit
            limits = self._limits(part, silent, time_limit=monitor.time_left(until))
            if self.solver == "blocks":
                found = _core.fit_submodular(
                    task.data, planes=None, model=None, keep_planes=False, certify=False, limits=limits
                )
            else:
                found = _core.fit_submodular_bundle(task.data, BUNDLE_STRIDE[self.solver], limits)
            paths.append(
                f_score_path(found, task.pairs, problem, everything[held_out], part.constant, part.labels.signs)
            )
        return paths

    def _warn_unless_converged(self, model: Model) -> None:
        if self.oracle == "paper" and model.status == Status.converged:
            if not self.certificate_.converged:
                warnings.warn(
                    f"{type(self).__name__} with oracle='paper' found nothing more to improve after {model.passes} "
                    f"passes, yet the relative duality gap is {self.certificate_.relative_gap:.2e} > tol "
                    f"{self.tol:.2e} (objective {self.certificate_.primal:.6g}, lower bound "
                    f"{self.certificate_.dual:.6g}): the oracle is approximate. Use oracle='exact'.",
                    ConvergenceWarning,
                    stacklevel=3,
                )
            return
        super()._warn_unless_converged(model)
