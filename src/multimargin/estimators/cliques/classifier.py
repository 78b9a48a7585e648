"""Labels that depend on each other through cliques, which are learned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from multimargin._core import Status
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.allowance import Allowance
from multimargin.estimators.cliques.certifier import CliqueCertifier, CliqueModel
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.description import fitted_attributes, networkx_graph
from multimargin.estimators.cliques.generation import GraphRules
from multimargin.estimators.cliques.graph import (
    Clique,
    CliqueGraph,
    candidate_cliques,
    chow_liu,
    compiled,
    named_cliques,
)
from multimargin.estimators.cliques.joint_features import joint_columns
from multimargin.estimators.cliques.learning import held_out_rows
from multimargin.estimators.cliques.prediction import CliquePredictor
from multimargin.estimators.cliques.results import CliqueBounds, CliqueCertificate, CliquePath
from multimargin.estimators.cliques.short_rows import warn_of_scale
from multimargin.estimators.cliques.solution import Solution
from multimargin.estimators.cliques.training import CliqueTask, check_sums, train
from multimargin.estimators.contract import (
    Interval,
    Model,
    MultilabelClassifier,
    Problem,
    StrOptions,
    WarmStart,
    threads,
)
from multimargin.estimators.monitor import Monitor
from multimargin.fitted_rules import Rule, Sizes, array_of, exactly, expect
from multimargin.labels import write_labels

__all__ = ["CliqueCertificate", "CliqueClassifier", "CliquePath"]

MOST_EXHAUSTIVE_LABELS = 20


def _has_probabilities(model: Any) -> bool:
    if model.loss == "softmax-margin":
        return True
    msg = f"predict_proba needs a model with probabilities: loss='softmax-margin'; got loss={model.loss!r}."
    raise AttributeError(msg)


class CliqueClassifier(MultilabelClassifier):
    r"""Structured SVM whose labels depend on each other through cliques; which cliques, is learned.

    A labelling y has the score

    .. math:: F(x, y) = \sum_T (W_T^\top x) \prod_{k \in T} (2 y_k - 1),

    over the single labels T = {k} and the subsets T of the cliques; the prediction is the labelling with the largest
    score. Training solves

    .. math::

        \min\ \tfrac12 \|u\|^2 + \tfrac12 \|(\|v_c\|)_c\|_r^2 + C \sum_i s_i \max_y \bigl[ \Delta(y, y_i) + F(x_i, y) -
        F(x_i, y_i) \bigr],

    where u and v_c are the weights of the states of the labels and of clique c (W is a rotation of them),
    :math:`\Delta` counts the wrong labels, with the ``class_weight`` if there is one, :math:`s_i` is the
    ``sample_weight``, and

    .. math:: \|a\|_r^2 = \min \Bigl\{ \sum_c a_c^2 / \eta_c : 0 \le \eta_c \le 1,\ \sum_c \eta_c \le r \Bigr\}

    is the k-support norm: with the ``budget`` r = 1 the squared sum of the norms, which selects cliques; from r = the
    number of cliques on, the plain sum of squares. Learning starts without cliques. In each round every candidate is
    scored exactly, by how much it would lower the lower bound of the optimum, and the best ones join.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Weight of the losses. Larger values fit the training labels harder. ``"scale"`` is one over the mean squared
        length of the rows, by their weights: 1 where rows have length 1.
    graph : {"learned", "chow-liu", "full"}, list of cliques or None, default="learned"
        Which labels form cliques. ``"chow-liu"`` is the tree with the largest mutual information, ``"full"`` all
        pairs, None leaves the labels independent given x. A list names the labels of each clique. Fixed graphs have no
        budget: the norm is the plain sum of squares.
    joint_features : dict, default=None
        Features of (x, clique): which columns of X belong to a clique of a given graph, as in
        ``{("sea", "sun"): [7, 8]}``, by number or, of a DataFrame, by name. The weights of that clique see these
        columns alone; single labels, and cliques not named here, see the columns that no clique owns. The constant
        feature belongs to all. None: all see all of X.
    budget : int, default=2
        r in the objective of a learned graph. Smaller values concentrate the model on fewer cliques.
    max_cliques : int, default=None
        Learning ends with so many cliques; None stands for ``max(45, 2 * n_labels)``.
    max_order : int, default=2
        Largest number of labels in a learned clique. Triples of up to 40 labels are all candidates; of more labels,
        and cliques of four or more, candidates grow out of the cliques in the model.
    stopping : {"significance", "validation", "gap", "objective", "limit"}, default="significance"
        When a learned graph is complete: when no candidate passes a test of significance; when the loss on rows held
        out has not improved for three rounds (the model is then trained on all rows with the best number of cliques);
        when the duality gap over all candidates is at most ``tol``; when two rounds have changed the objective by at
        most ``objective_change``, the paper's rule; or at ``max_cliques``.
    significance : float, default=0.01
        Level of the test, shared between all candidates. The labellings in the test depend on the same data, so the
        level is a guide, not a guarantee.
    validation_fraction : float, default=0.2
        Share of the rows held out with ``stopping="validation"``.
    objective_change : float, default=0.05
        With ``stopping="objective"``, :math:`\epsilon_o` of the paper's rule: learning ends after round t > 2 if
        :math:`|f_t - f_{t-2}| \le \epsilon_o f_{t-2}`, where :math:`f_t` is the objective after t rounds of joining,
        each solved to a tenth of this change. The cliques of the last two rounds stay, though they hardly helped.
    batch : int, default=None
        Cliques added in a round; None stands for ``max(budget, n_labels // 10)``.
    prune : float, default=0.05
        Learned cliques whose :math:`\eta` is below this part of the largest are removed at the end. Use 0.15 to read
        the graph rather than to predict.
    loss : {"hinge", "softmax-margin"}, default="hinge"
        The softmax margin replaces the maximum by :math:`\mu \log \sum_y \exp(\cdot / \mu)`, with the ``temperature``
        :math:`\mu`; it gives probabilities. The graph is learned with the hinge loss all the same.
    temperature : float, default=1.0
        :math:`\mu` of the softmax margin.
    class_weight : None, "balanced", dict, list of dicts or LabelFrequencies, default=None
        What a wrong label counts in :math:`\Delta`: with ``{0: a, 1: b}`` a label predicted though absent counts a, a
        missed one b; the other forms as in :class:`LinearM3L`. The score of the truth must be ahead by as much; an
        error itself costs what it is behind, whatever its class, so that a weight of 2 is not two rows, and rare labels
        that cannot be told for sure may stay unpredicted. Inference is as exact as without weights.
    inference : {"auto", "elimination", "exhaustive", "mplp", "branch-and-bound"}, default="auto"
        How labellings are maximised. ``"auto"`` is exact wherever the graph allows it, component by component.
    treewidth_limit : int, default=12
        Up to this treewidth labels are eliminated exactly, at a cost of 2 to the power of it.
    max_iter : int, default=5000
        Largest number of passes over the data, of all rounds together.
    n_jobs : int, default=None
        Threads for certificates, scores and predictions. Results do not depend on it.
    warm_start : bool, default=False
        Whether to continue from the last solution, cliques included; also after other parameters have changed.

    Attributes
    ----------
    cliques_ : list of tuples
        Names of the labels of each clique.
    clique_weights_ : ndarray of shape (n_cliques,)
        Norm of the weights of each clique.
    clique_shares_ : ndarray of shape (n_cliques,)
        :math:`\eta` of each clique.
    clique_couplings_ : ndarray of shape (n_cliques,)
        Mean of :math:`W_c^\top x` over the training rows: above 0, the labels of a pair attract each other.
    clique_coupling_spreads_ : ndarray of shape (n_cliques,)
        Standard deviation of the same: where it is larger than the mean, attraction depends on the row.
    label_graph_ : networkx.Graph
        Labels and the pairs that share a clique; edges have ``weight`` and ``coupling``. Needs networkx.
    subsets_ : list of tuples
        Columns of the labels of each subset T, single labels first.
    subset_coef_ : ndarray of shape (n_subsets, n_features)
        :math:`W_T`.
    subset_intercept_ : ndarray of shape (n_subsets,)
        The part of the constant feature.
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the single labels, ``2 * subset_coef_``: the decision function of a model without cliques.
    intercept_ : ndarray of shape (n_labels,)
        The part of the constant feature, ``2 * subset_intercept_``.
    path_ : CliquePath
        How the model grew, round by round; None if the graph was given.
    certificate_ : CliqueCertificate
        Bounds of the optimum for these cliques, and for all candidates.
    history_ : History
        The certificate over time; the bounds are those of the cliques of that moment.

    See Also
    --------
    SubmodularClassifier : Attraction between labels, trained for the F-score.
    LinearM3L : Label correlations known in advance.

    Notes
    -----
    With the paper's mean loss, :math:`\lambda = 1 / (C n)`. Without cliques this is one linear SVM per label with the
    weight 2 C: the two states of a label share its norm. Subsets that contain a label unknown in a row do not take
    part in that row. Features should have a comparable scale; dividing standardised features by the square root of
    their number is a good start. A warning before training says where C times the squared length of the rows is
    beyond what converges.

    References
    ----------
    M. Tan, Q. Shi, A. van den Hengel, C. Shen, J. Gao, F. Hu, Z. Zhang. Learning graph structure for multi-label image
    classification via clique generation. CVPR 2015.

    Examples
    --------
    >>> from multimargin import CliqueClassifier
    >>> from multimargin.datasets import make_clique_labels
    >>> data = make_clique_labels(n_samples=1000, n_labels=6, random_state=0)
    >>> model = CliqueClassifier(C=1.0, random_state=0).fit(data.X, data.Y)
    >>> sorted(model.cliques_)
    [(0, 1), (0, 2), (0, 3), (0, 4)]
    """

    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultilabelClassifier._parameter_constraints,
        "graph": [StrOptions({"learned", "chow-liu", "full"}), list, tuple, None],
        "joint_features": [dict, None],
        "budget": [Interval(Integral, 1, None, closed="left")],
        "max_cliques": [Interval(Integral, 0, None, closed="left"), None],
        "max_order": [Interval(Integral, 2, 8, closed="both")],
        "stopping": [StrOptions({"significance", "validation", "gap", "objective", "limit"})],
        "significance": [Interval(Real, 0, 1, closed="neither")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "objective_change": [Interval(Real, 0, 1, closed="neither")],
        "batch": [Interval(Integral, 1, None, closed="left"), None],
        "prune": [Interval(Real, 0, 1, closed="left")],
        "loss": [StrOptions({"hinge", "softmax-margin"})],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "inference": [StrOptions({"auto", "elimination", "exhaustive", "mplp", "branch-and-bound"})],
        "treewidth_limit": [Interval(Integral, 1, 24, closed="both")],
    }

    certificate_: CliqueCertificate
    cliques_: list[tuple[Any, ...]]
    clique_weights_: NDArray[np.float64]
    clique_shares_: NDArray[np.float64]
    clique_couplings_: NDArray[np.float64]
    clique_coupling_spreads_: NDArray[np.float64]
    subsets_: list[Clique]
    subset_coef_: NDArray[np.float64]
    subset_intercept_: NDArray[np.float64]
    path_: CliquePath | None

    def __init__(
        self,
        C: float | str = "scale",
        *,
        graph: Any = "learned",
        joint_features: Any = None,
        budget: int = 2,
        max_cliques: int | None = None,
        max_order: int = 2,
        stopping: str = "significance",
        significance: float = 0.01,
        validation_fraction: float = 0.2,
        objective_change: float = 0.05,
        batch: int | None = None,
        prune: float = 0.05,
        loss: str = "hinge",
        temperature: float = 1.0,
        class_weight: Any = None,
        inference: str = "auto",
        treewidth_limit: int = 12,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 5000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.C = C
        self.graph = graph
        self.joint_features = joint_features
        self.budget = budget
        self.max_cliques = max_cliques
        self.max_order = max_order
        self.stopping = stopping
        self.significance = significance
        self.validation_fraction = validation_fraction
        self.objective_change = objective_change
        self.batch = batch
        self.prune = prune
        self.loss = loss
        self.temperature = temperature
        self.class_weight = class_weight
        self.inference = inference
        self.treewidth_limit = treewidth_limit
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

    def predict_exact(self, X: Any) -> tuple[Any, NDArray[np.bool_]]:
        """Predicted labels as by :meth:`predict`, and of which rows they are proved to have the largest score.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
            In the form in which Y was given to :meth:`fit`.
        exact : ndarray of shape (n_samples,), dtype bool
            False where a search was cut short: another labelling may have a larger score.
        """
        check_is_fitted(self)
        index = getattr(X, "index", None)
        positives, exact = self._predictor().positives(self._check_X(X))
        return write_labels(positives, self.label_form_, self.label_names_, self.classes_, index), exact

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Marginal probabilities of the labels, by sum-product. Only with ``loss="softmax-margin"``.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Of shape (n_samples, 2), one column per class, if the model was trained on a 1-D y.
        """
        check_is_fitted(self)
        # sums of probabilities may miss 0 and 1 by their rounding
        probability = np.clip(self._predictor().probabilities(self._check_X(X), float(self.temperature)), 0.0, 1.0)
        if self.label_form_.kind == "column":
            return np.column_stack([1.0 - probability[:, 0], probability[:, 0]])
        return probability

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the single labels."""
        return np.asarray(2.0 * self.subset_coef_[: len(self.label_names_)])

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Constants of the single labels."""
        return np.asarray(2.0 * self.subset_intercept_[: len(self.label_names_)])

    @property
    def label_graph_(self) -> Any:
        """Labels and the pairs that share a clique, as a networkx Graph."""
        check_is_fitted(self)
        return networkx_graph(self.label_names_, self.cliques_, self.clique_weights_, self.clique_couplings_)

    def _prepare(self, problem: Problem) -> CliqueTask:
        self._check_sizes(*problem.shape)
        cliques = self._given_cliques(problem)
        data = self._data(problem, cliques)
        task = CliqueTask(
            data=data,
            graph=replace(self._empty_graph(problem), cliques=tuple(cliques or ()), joint=data.joint),
            rules=self._graph_rules(problem) if cliques is None else None,
            temperature=self._softmax_temperature(),
            tol=float(self.tol),
        )
        if task.rules is None and task.temperature is not None:
            check_sums(task.graph)
        else:
            warn_of_scale(data, problem.C, int(self.max_iter))
        return task

    def _data(self, problem: Problem, cliques: Sequence[Clique] | None) -> CliqueData:
        """Return the problem with the columns that belong to these cliques; None stands for cliques to be learned."""
        bias = self._constant_feature()
        if self.joint_features is None:
            return CliqueData(problem, bias)
        if cliques is None:
            msg = (
                "joint_features needs a given graph: cliques of graph='learned' are scored by features they share. Use "
                "graph=list(joint_features), or another given graph."
            )
            raise InputError(msg)
        names = problem.columns.get("feature_names_in_", getattr(self, "feature_names_in_", None))
        joint = joint_columns(self.joint_features, cliques, problem.labels.names, names, problem.X.shape[1])
        return CliqueData(problem, bias, joint)

    def _check_sizes(self, n: int, n_labels: int) -> None:
        if self.inference == "exhaustive" and n_labels > MOST_EXHAUSTIVE_LABELS:
            msg = (
                f"inference='exhaustive' takes at most {MOST_EXHAUSTIVE_LABELS} labels; Y has {n_labels}. Use "
                "inference='auto', which is exact wherever the graph allows it."
            )
            raise InputError(msg)
        held_out = held_out_rows(float(self.validation_fraction), n)
        if self.graph == "learned" and self.stopping == "validation" and not 0 < held_out < n:
            msg = (
                f"stopping='validation' needs rows to train on and rows to hold out: validation_fraction="
                f"{self.validation_fraction} of {n} rows leaves none for one of them. Change it, give more rows, or "
                "use stopping='significance'."
            )
            raise InputError(msg)

    def _given_cliques(self, problem: Problem) -> list[Clique] | None:
        """Cliques of a graph that is not learned."""
        if self.graph is None:
            return []
        usable = np.flatnonzero(~problem.constant)
        if not isinstance(self.graph, str):
            return named_cliques(self.graph, problem.labels)
        if self.graph == "chow-liu":
            return chow_liu(problem.labels, problem.costs.row, usable)
        if self.graph == "full":
            return candidate_cliques(usable, [], 2, np.random.default_rng(problem.seed))
        return None

    def _graph_rules(self, problem: Problem) -> GraphRules:
        n_labels, budget = problem.labels.n_labels, int(self.budget)
        return GraphRules(
            budget=budget,
            batch=int(self.batch or max(budget, n_labels // 10)),
            max_cliques=int(max(45, 2 * n_labels) if self.max_cliques is None else self.max_cliques),
            max_order=int(self.max_order),
            stopping=self.stopping,
            significance=float(self.significance),
            validation_fraction=float(self.validation_fraction),
            objective_change=float(self.objective_change),
            prune=float(self.prune),
            tol=float(self.tol),
        )

    def _empty_graph(self, problem: Problem) -> CliqueGraph:
        return CliqueGraph(problem.labels.n_labels, (), self.inference, int(self.treewidth_limit))

    def _softmax_temperature(self) -> float | None:
        return float(self.temperature) if self.loss == "softmax-margin" else None

    def _solve(self, task: CliqueTask, last: WarmStart | None, monitor: Monitor) -> Model:
        work = Allowance.of(task.data.problem, monitor, self.max_iter, self.time_limit)
        trained = train(task, None if last is None else self._start(task, last.state), work)
        solution = trained.solution
        return Model(
            fitted=fitted_attributes(solution, task.data, trained.path),
            bounds=trained.bounds,
            passes=work.passes,
            status=work.exhausted or solution.status,
            state=solution,
        )

    def _start(self, task: CliqueTask, last: Solution) -> Solution:
        """Where a warm start begins: at the last solution, with as many of its cliques as are allowed."""
        cliques = last.graph.cliques if self.max_cliques is None else last.largest(int(self.max_cliques))
        share = last.share
        eta = np.array([share[c] for c in cliques])
        return Solution.start(task.graph.with_cliques(cliques), eta, last, task.data.X.shape[1] + 1)

    def _bounds(self, problem: Problem) -> Bounds:
        column = {name: k for k, name in enumerate(problem.labels.names.tolist())}
        cliques = tuple(tuple(column[name] for name in c) for c in self.cliques_)
        data = self._data(problem, cliques)
        graph = replace(self._empty_graph(problem), cliques=cliques, joint=data.joint)
        budget = int(self.budget) if self.path_ is not None else max(len(self.cliques_), 1)
        state = self._kept_state(problem)
        certifier = CliqueCertifier(data, budget, self._softmax_temperature())
        model = CliqueModel(graph, self.clique_shares_, self.subset_coef_, self.subset_intercept_)
        return certifier.bounds(model, None if state is None else state.atoms)

    def _certificate(self, model: Model) -> CliqueCertificate:
        assert isinstance(model.bounds, CliqueBounds)
        return CliqueCertificate.of_bounds(model.bounds, self.tol, self.stopping == "gap")

    def _warn_unless_converged(self, model: Model) -> None:
        certificate = self.certificate_
        if certificate.converged or model.status == Status.stopped or certificate.relative_gap > self.tol:
            super()._warn_unless_converged(model)
            return
        warnings.warn(
            f"CliqueClassifier solved the problem for the cliques in the model ({len(self.cliques_)}), yet over all "
            f"candidate cliques the relative duality gap is {certificate.global_relative_gap:.2e} > tol {self.tol:.2e} "
            f"(objective {certificate.primal:.6g}, lower bound {certificate.global_dual:.6g}). Increase "
            "max_cliques, max_iter or time_limit, or use another rule for stopping.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        columns = np.flatnonzero(constant)
        fitted["subset_coef_"][columns] = 0.0
        fitted["subset_intercept_"][columns] = 0.5 * value[columns]

    def _fitted_rules(self) -> dict[str, Rule]:
        def subsets(value: Any, sizes: Sizes) -> None:
            expect(isinstance(value, list) and all(isinstance(t, tuple) for t in value), "must be a list of tuples")
            expect(all(isinstance(k, Integral) for t in value for k in t), "must hold label columns")
            compiled(sizes["labels"], value, self.inference, int(self.treewidth_limit))  # refuses all that is unsound
            sizes["subsets"] = len(value)

        def cliques(value: Any, sizes: Sizes) -> None:
            names = set(self.label_names_.tolist())
            known = isinstance(value, list) and all(isinstance(c, tuple) and names.issuperset(c) for c in value)
            expect(known, "must be a list of tuples of labels")
            sizes["cliques"] = len(value)

        def path(value: Any, sizes: Sizes) -> None:
            if value is not None:
                exactly(CliquePath)(value, sizes)

        return {
            **super()._fitted_rules(),
            "subsets_": subsets,
            "subset_coef_": array_of("subsets features"),
            "subset_intercept_": array_of("subsets"),
            "cliques_": cliques,
            "clique_weights_": array_of("cliques"),
            "clique_shares_": array_of("cliques"),
            "clique_couplings_": array_of("cliques"),
            "clique_coupling_spreads_": array_of("cliques"),
            "path_": path,
            "certificate_": exactly(CliqueCertificate),
        }

    def _predictor(self) -> CliquePredictor:
        n_labels = len(self.label_names_)
        inference = compiled(n_labels, self.subsets_, self.inference, int(self.treewidth_limit))
        return CliquePredictor(self.subset_coef_, self.subset_intercept_, inference, n_labels, threads(self.n_jobs))

    def _scores(self, X: Any) -> NDArray[Any]:
        return self._predictor().max_marginals(X)

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        return self._predictor().positives(X)[0]
