"""Log-linear model of label sets with few label pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._likelihoods import Likelihood, PseudoLikelihood, WholeLikelihood
from multimargin.baselines._log_linear import LogLinearProblem
from multimargin.baselines._mean_field import mean_field
from multimargin.baselines._whole_label_sets import refuse_unknown_labels, varying_labels
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.graph import Clique, compiled, named_cliques
from multimargin.estimators.contract import Interval, LinearModel, Model, Problem, StrOptions, WarmStart
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.predictor import row_blocks
from multimargin.fitted_rules import Rule, Sizes, array_of, expect

__all__ = ["GroupSparseLogLinear"]

Array = NDArray[np.float64]

MOST_TREEWIDTH = 16
"""Sums over label sets take 2 ** treewidth steps for each row and pass."""


@dataclass(frozen=True)
class PairTask:
    """A problem, the columns of the labels that vary, pairs of these by position, and inference if sums are taken."""

    problem: Problem
    varies: NDArray[np.intp]
    pairs: list[Clique]
    inference: _core.CliqueInference | None


class GroupSparseLogLinear(LinearModel):
    r"""Log-linear model of label sets with a group norm on label pairs (HLLM-L1): a graph of labels is learned.

    With the characters :math:`\chi_T(y) = \prod_{l \in T} (2 y_l - 1)` of single labels and label pairs,

    .. math::

        p(y \mid x) \propto \exp\Big( \sum_l (w_l^\top x)\, \chi_l(y) + \sum_{ab} (w_{ab}^\top x)\, \chi_{ab}(y) \Big).

    Minimises

    .. math::

        \tfrac12 \sum_l |w_l|^2 + \sum_i c_i \Big( -\log p(y_i \mid x_i) + \lambda \sum_{ab} |w_{ab}| \Big)

    where :math:`c_i = C \cdot \text{weight}_i`. The norms are not squared: the weights of most pairs are zero, and the
    others are the edges of a graph. Without edges the model is logistic regression, label by label.

    The sums over label sets take time exponential in the treewidth of the graph of candidates, which must not be above
    16. The pseudo-likelihood puts the product :math:`\prod_k p(y_k \mid y_{-k}, x)` over single labels, each given the
    others, in the place of :math:`p(y \mid x)`: a problem of its own, without such sums, for any graph. It takes some
    numbers for each row and candidate pair in memory.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. Larger C fits the training labels harder. ``"scale"`` is one over the mean squared length of
        the rows, by their weights: 1 where rows have length 1.
    edge_penalty : float, default=0.01
        :math:`\lambda`, against the mean log-loss of a row, so that it has the same effect for any number of rows. A
        pair has an edge once the mean of :math:`(\chi_{ab}(y) - \mathrm E\, \chi_{ab})\, x` is longer.
    candidates : "all" or list of label pairs, default="all"
        Pairs that may have an edge, by label names. With more than 17 labels, give a graph of pairs that is not too
        dense, or choose the pseudo-likelihood.
    likelihood : {"full", "pseudo"}, default="full"
        What is maximised in training.
    rule : {"map", "marginal"}, default="map"
        Whether to predict the most probable label set, or the labels with a probability above one half. Where the
        graph learned by pseudo-likelihood has a treewidth above 16, both are those of its mean field.
    max_iter : int, default=1000
        Largest number of passes over the data.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the labels.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts of the labels.
    edges_ : ndarray of shape (n_edges, 2)
        Pairs of label columns with weights.
    edge_coef_ : ndarray of shape (n_edges, n_features)
        Weights of the pairs.
    edge_intercept_ : ndarray of shape (n_edges,)
        Intercepts of the pairs.
    certificate_ : Certificate
        Of the problem with the likelihood that was chosen. The dual value is that of the model's own distributions over
        label sets, or over each label given the others, moved towards the true ones until they are feasible;
        :func:`multimargin.certify` finds both values again from the model alone.

    References
    ----------
    M. Schmidt, K. Murphy. Convex structure learning in log-linear models: beyond pairwise potentials. AISTATS (2010).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import GroupSparseLogLinear
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = GroupSparseLogLinear(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "edge_penalty": [Interval(Real, 0, None, closed="neither")],
        "candidates": [StrOptions({"all"}), list, tuple],
        "likelihood": [StrOptions({"full", "pseudo"})],
        "rule": [StrOptions({"map", "marginal"})],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        edge_penalty: float = 0.01,
        candidates: Any = "all",
        likelihood: str = "full",
        rule: str = "map",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Any = None,
    ):
        self.C = C
        self.edge_penalty = edge_penalty
        self.candidates = candidates
        self.likelihood = likelihood
        self.rule = rule
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    random_state = 0

    def _prepare(self, problem: Problem) -> PairTask:
        refuse_unknown_labels(type(self).__name__, problem.labels)
        varies = np.flatnonzero(~problem.constant)
        pairs = self._candidate_pairs(problem, varies)
        if self.likelihood == "pseudo":
            return PairTask(problem, varies, pairs, None)
        too_many = len(varies) > MOST_TREEWIDTH + 1 and len(pairs) == len(varies) * (len(varies) - 1) // 2
        inference = None if too_many or not len(varies) else _inference(len(varies), pairs)
        if len(varies) and (inference is None or not inference.has_sums):
            msg = (
                f"The graph of {len(pairs)} candidate pairs of {len(varies)} labels has a treewidth above "
                f"{MOST_TREEWIDTH}: sums over label sets would take too long. Give fewer pairs as candidates=, or "
                'choose likelihood="pseudo".'
            )
            raise InputError(msg)
        return PairTask(problem, varies, pairs, inference)

    def _candidate_pairs(self, problem: Problem, varies: NDArray[np.intp]) -> list[Clique]:
        if isinstance(self.candidates, str):
            return list(combinations(range(len(varies)), 2))
        named = named_cliques(self.candidates, problem.labels)
        larger = [clique for clique in named if len(clique) != 2]
        if larger:
            msg = f"candidates must be pairs of labels; got one of {len(larger[0])} labels. Give each of its pairs."
            raise InputError(msg)
        position = {int(column): k for k, column in enumerate(varies)}
        return sorted((position[a], position[b]) for a, b in named if a in position and b in position)

    def _solve(self, task: PairTask, last: WarmStart | None, monitor: Monitor) -> Model:
        if not len(task.varies):
            return Model(self._fitted(task, np.zeros((0, task.problem.X.shape[1] + 1))), Bounds(0.0, 0.0), 0)
        log_linear = self._log_linear(task)
        W, passes, status = log_linear.solve(self._limits(task.problem, monitor))
        fitted = self._fitted(task, W)
        return Model(fitted, log_linear.bounds(self._weights(task, fitted)), passes, status)

    def _fitted(self, task: PairTask, W: Array) -> dict[str, Any]:
        n_labels, d = task.problem.labels.n_labels, task.problem.X.shape[1]
        k, bias = len(task.varies), self._constant_feature()
        coef, intercept = np.zeros((n_labels, d)), np.zeros(n_labels)
        coef[task.varies], intercept[task.varies] = W[:k, :-1], bias * W[:k, -1]
        used = k + np.flatnonzero(np.any(W[k:] != 0.0, axis=1))
        edges = task.varies[np.array(task.pairs, dtype=np.intp).reshape(-1, 2)[used - k]]
        return {
            "coef_": coef,
            "intercept_": intercept,
            "edges_": edges.astype(np.int64).reshape(-1, 2),
            "edge_coef_": W[used, :-1],
            "edge_intercept_": bias * W[used, -1],
        }

    def _weights(self, task: PairTask, fitted: Mapping[str, Any]) -> Array:
        """Weights of all labels and candidate pairs, those of the constant feature last."""
        place = {pair: k for k, pair in enumerate(task.pairs, start=len(task.varies))}
        column = {int(label): k for k, label in enumerate(task.varies)}
        bias = self._constant_feature()
        W = np.zeros((len(task.varies) + len(task.pairs), task.problem.X.shape[1] + 1))
        rows = [place[column[int(a)], column[int(b)]] for a, b in fitted["edges_"]]
        for at, coef, intercept in (
            (list(range(len(task.varies))), fitted["coef_"][task.varies], fitted["intercept_"][task.varies]),
            (rows, fitted["edge_coef_"], fitted["edge_intercept_"]),
        ):
            W[at, :-1] = coef
            W[at, -1] = intercept / bias if bias else 0.0
        return W

    def _bounds(self, problem: Problem) -> Bounds:
        task = self._prepare(problem)
        if not len(task.varies):
            return Bounds(0.0, 0.0)
        return self._log_linear(task).bounds(self._weights(task, vars(self)))

    def _log_linear(self, task: PairTask) -> LogLinearProblem:
        cost = task.problem.costs.row
        signs = 2.0 * varying_labels(task.problem).toarray() - 1.0
        products = [signs[:, a] * signs[:, b] for a, b in task.pairs]
        characters = np.column_stack([signs, *products])
        likelihood: Likelihood
        if task.inference is None:
            likelihood = PseudoLikelihood(characters, np.array(task.pairs, dtype=np.intp).reshape(-1, 2))
        else:
            likelihood = WholeLikelihood(characters, task.inference, task.problem.n_jobs)
        return LogLinearProblem(
            inputs=Inputs(task.problem.X, self._constant_feature()),
            likelihood=likelihood,
            n_labels=len(task.varies),
            cost=cost,
            penalty=float(self.edge_penalty) * float(cost.sum()),
        )

    def _scores(self, X: Any) -> NDArray[Any]:
        n_labels = len(self.label_names_)
        inference = _inference(n_labels, [(int(a), int(b)) for a, b in self.edges_])
        coef, intercept = np.vstack([self.coef_, self.edge_coef_]), np.r_[self.intercept_, self.edge_intercept_]
        scores = np.empty((X.shape[0], n_labels))
        for rows in row_blocks(X.shape[0], len(coef)):
            theta = np.ascontiguousarray(safe_sparse_dot(X[rows], coef.T, dense_output=True) + intercept, np.float64)
            if not inference.has_sums:
                scores[rows] = mean_field(theta[:, :n_labels], self.edges_, theta[:, n_labels:])
            elif self.rule == "map":
                scores[rows] = inference.max_marginals(theta, 1)
            else:
                mean = inference.sums(theta, 1).moments[:, :n_labels]
                scores[rows] = 2.0 * np.arctanh(np.clip(mean, -LARGEST_MEAN, LARGEST_MEAN))
        return scores

    def _fitted_rules(self) -> dict[str, Rule]:
        def edges(value: Any, sizes: Sizes) -> None:
            array_of("edges 2", 0, "labels", "i8")(value, sizes)
            expect(np.all(value[:, 0] < value[:, 1]), "must list each pair in order")
            expect(len(np.unique(value, axis=0)) == len(value), "must list each pair once")
            pairs: list[Clique] = [(int(a), int(b)) for a, b in value]
            sums = self.likelihood == "pseudo" or _inference(sizes["labels"], pairs).has_sums
            expect(sums, f"must have a treewidth of at most {MOST_TREEWIDTH}")

        rules = {
            "edges_": edges,
            "edge_coef_": array_of("edges features"),
            "edge_intercept_": array_of("edges"),
        }
        return {**super()._fitted_rules(), **rules}


LARGEST_MEAN = 1.0 - 1e-15  # of a sign: log-odds stay finite


def _inference(n_labels: int, pairs: list[Clique]) -> _core.CliqueInference:
    return compiled(n_labels, [*((k,) for k in range(n_labels)), *pairs], "auto", MOST_TREEWIDTH)
