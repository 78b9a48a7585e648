"""Labels that depend on each other through cliques, which are learned."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from multimargin import _core
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.certifier import CliqueCertifier
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.frank_wolfe import Active, FrankWolfe, Work, warn_of_scale
from multimargin.estimators.cliques.generation import Generation, with_active, without_small, wrong_labels
from multimargin.estimators.cliques.graph import (
    Clique,
    CliqueGraph,
    candidate_cliques,
    chow_liu,
    compiled,
    named_cliques,
)
from multimargin.estimators.cliques.results import (
    CliqueCertificate,
    CliquePath,
    CliqueSolution,
    ending_with,
    networkx_graph,
)
from multimargin.estimators.cliques.scores import Atoms
from multimargin.estimators.cliques.softmax_margin import SoftmaxMargin
from multimargin.estimators.contract import Interval, MultilabelClassifier, Problem, Solution, StrOptions, row_blocks
from multimargin.estimators.monitor import Monitor
from multimargin.labels import write_labels
from multimargin.model_selection import MultilabelStratifiedShuffleSplit

__all__ = ["CliqueCertificate", "CliqueClassifier", "CliquePath"]

MOST_EXHAUSTIVE_LABELS = 20
MOST_CORRECTIONS = 3
"""So often training goes on where the certifier does not confirm what the solver found."""


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
    :math:`\Delta` counts the wrong labels, :math:`s_i` is the ``sample_weight``, and

    .. math:: \|a\|_r^2 = \min \Bigl\{ \sum_c a_c^2 / \eta_c : 0 \le \eta_c \le 1,\ \sum_c \eta_c \le r \Bigr\}

    is the k-support norm: with the ``budget`` r = 1 the squared sum of the norms, which selects cliques; from r = the
    number of cliques on, the plain sum of squares. Learning starts without cliques. In each round every candidate is
    scored exactly, by how much it would lower the lower bound of the optimum, and the best ones join.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses. Larger values fit the training labels harder.
    graph : {"learned", "chow-liu", "full", "none"} or list of cliques, default="learned"
        Which labels form cliques. ``"chow-liu"`` is the tree with the largest mutual information, ``"full"`` all
        pairs, ``"none"`` leaves the labels independent given x. A list names the labels of each clique. Fixed graphs
        have no budget: the norm is the plain sum of squares.
    budget : int, default=2
        r in the objective of a learned graph. Smaller values concentrate the model on fewer cliques.
    max_cliques : int, default=None
        Learning ends with so many cliques; None stands for ``max(45, 2 * n_labels)``.
    max_order : int, default=2
        Largest number of labels in a learned clique. Triples of up to 40 labels are all candidates; of more labels,
        and cliques of four or more, candidates grow out of the cliques in the model.
    stopping : {"significance", "validation", "gap", "limit"}, default="significance"
        When a learned graph is complete: when no candidate passes a test of significance; when the loss on rows held
        out does not improve any more (the model is then trained on all rows with the best number of cliques); when
        the duality gap over all candidates is at most ``tol``; or at ``max_cliques``.
    significance : float, default=0.01
        Level of the test, shared between all candidates. The labellings in the test depend on the same data, so the
        level is a guide, not a guarantee.
    validation_fraction : float, default=0.2
        Share of the rows held out with ``stopping="validation"``.
    patience : int, default=3
        Rounds without improvement after which ``stopping="validation"`` ends.
    batch : int, default=None
        Cliques added in a round; None stands for ``max(budget, n_labels // 10)``.
    prune : float, default=0.05
        Learned cliques whose :math:`\eta` is below this part of the largest are removed at the end. Use 0.15 to read
        the graph rather than to predict.
    features : {"indicator", "parity"}, default="indicator"
        What the weights of a clique depend on: all its joint states, as in the paper, or their parity alone.
    loss : {"hinge", "softmax-margin"}, default="hinge"
        The softmax margin replaces the maximum by :math:`\mu \log \sum_y \exp(\cdot / \mu)`, with the ``temperature``
        :math:`\mu`; it gives probabilities. The graph is learned with the hinge loss all the same.
    temperature : float, default=1.0
        :math:`\mu` of the softmax margin.
    inference : {"auto", "elimination", "exhaustive", "mplp", "branch-and-bound"}, default="auto"
        How labellings are maximised. ``"auto"`` is exact wherever the graph allows it, component by component.
    treewidth_limit : int, default=12
        Up to this treewidth labels are eliminated exactly, at a cost of 2 to the power of it.
    fit_intercept : bool, default=True
        Whether to append a constant feature. Its weights are regularised like the others.
    intercept_scaling : float, default=1.0
        Value of the constant feature.
    tol : float, default=0.01
        Relative duality gap at which training stops.
    max_iter : int, default=5000
        Largest number of passes over the data, of all rounds together.
    time_limit : float, default=None
        Seconds after which training stops with what it has.
    n_jobs : int, default=None
        Threads for certificates, scores and predictions. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Order of the rows.
    verbose : int, default=0
        Whether to print progress on standard error.
    warm_start : bool, default=False
        Whether to continue from the last solution, cliques included; also after other parameters have changed.
    callback : callable, default=None
        Called once per pass with a progress record; returning True stops training.

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
    n_iter_ : int
        Passes over the data.

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
        **{k: v for k, v in MultilabelClassifier._parameter_constraints.items() if k != "class_weight"},
        "graph": [StrOptions({"learned", "chow-liu", "full", "none"}), list, tuple],
        "budget": [Interval(Integral, 1, None, closed="left")],
        "max_cliques": [Interval(Integral, 0, None, closed="left"), None],
        "max_order": [Interval(Integral, 2, 8, closed="both")],
        "stopping": [StrOptions({"significance", "validation", "gap", "limit"})],
        "significance": [Interval(Real, 0, 1, closed="neither")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "batch": [Interval(Integral, 1, None, closed="left"), None],
        "prune": [Interval(Real, 0, 1, closed="left")],
        "features": [StrOptions({"indicator", "parity"})],
        "loss": [StrOptions({"hinge", "softmax-margin"})],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "inference": [StrOptions({"auto", "elimination", "exhaustive", "mplp", "branch-and-bound"})],
        "treewidth_limit": [Interval(Integral, 1, 24, closed="both")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
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
        C: float = 1.0,
        *,
        graph: Any = "learned",
        budget: int = 2,
        max_cliques: int | None = None,
        max_order: int = 2,
        stopping: str = "significance",
        significance: float = 0.01,
        validation_fraction: float = 0.2,
        patience: int = 3,
        batch: int | None = None,
        prune: float = 0.05,
        features: str = "indicator",
        loss: str = "hinge",
        temperature: float = 1.0,
        inference: str = "auto",
        treewidth_limit: int = 12,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 0.01,
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
        self.budget = budget
        self.max_cliques = max_cliques
        self.max_order = max_order
        self.stopping = stopping
        self.significance = significance
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.batch = batch
        self.prune = prune
        self.features = features
        self.loss = loss
        self.temperature = temperature
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

    def predict(self, X: Any, return_exact: bool = False) -> Any:
        """Predicted labels, in the form in which Y was given to :meth:`fit`.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        return_exact : bool, default=False
            Whether to return, too, of which rows the prediction is proved to have the largest score.

        Returns
        -------
        ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
        exact : ndarray of shape (n_samples,), dtype bool
            Only with ``return_exact=True``.
        """
        if not return_exact:
            return super().predict(X)
        check_is_fitted(self)
        index = getattr(X, "index", None)
        positives, exact = self._best_labellings(self._check_X(X))
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
        X = self._check_X(X)
        inference = self._inference()
        probability = np.empty((X.shape[0], len(self.label_names_)))
        for rows in row_blocks(X.shape[0], len(self.subsets_)):
            _, moments = inference.log_partition(self._subset_scores(X[rows]) / self.temperature, self._threads())
            probability[rows] = 0.5 * (1.0 + moments[:, : probability.shape[1]])
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

    def _check_problem(self, problem: Problem) -> None:
        K = problem.labels.n_labels
        self._fixed = self._fixed_cliques(problem)
        if self.inference == "exhaustive" and K > MOST_EXHAUSTIVE_LABELS:
            msg = (
                f"inference='exhaustive' takes at most {MOST_EXHAUSTIVE_LABELS} labels; Y has {K}. Use "
                "inference='auto', which is exact wherever the graph allows it."
            )
            raise InputError(msg)
        n = problem.labels.n_samples
        if self._fixed is None and self.stopping == "validation" and not 0 < self._held_out(n) < n:
            msg = (
                f"stopping='validation' needs rows to train on and rows to hold out: validation_fraction="
                f"{self.validation_fraction} of {n} rows leaves none for one of them. Change it, give more rows, or "
                "use stopping='significance'."
            )
            raise InputError(msg)
        if self.loss == "softmax-margin" and self._fixed is not None:
            self._check_sums(CliqueGraph(K, tuple(self._fixed), self.features == "parity"))
        last = getattr(self, "_last", None)
        if self.warm_start and last is not None and last[0] != problem.labels.positives.shape:
            msg = (
                f"warm_start=True continues on the same rows and labels: the last fit had shape {last[0]}, this one "
                f"has {problem.labels.positives.shape}. Set warm_start=False, or fit a clone."
            )
            raise InputError(msg)

    def _fixed_cliques(self, problem: Problem) -> list[Clique] | None:
        """Cliques of a graph that is not learned."""
        usable = np.flatnonzero(~problem.constant)
        if not isinstance(self.graph, str):
            return named_cliques(self.graph, problem.labels)
        if self.graph == "chow-liu":
            return chow_liu(problem.labels, problem.costs.row, usable)
        if self.graph == "full":
            return candidate_cliques(usable, [], 2, np.random.default_rng(problem.seed))
        return [] if self.graph == "none" else None

    def _check_sums(self, graph: CliqueGraph) -> None:
        inference = graph.inference(self.inference, int(self.treewidth_limit))
        if not inference.has_sums:
            msg = (
                f"loss='softmax-margin' sums over labellings, which needs a treewidth of at most treewidth_limit="
                f"{self.treewidth_limit}; this graph has {inference.treewidth}. Allow fewer cliques (max_cliques), "
                "give a sparser graph, or raise treewidth_limit."
            )
            raise InputError(msg)

    def _solve(self, problem: Problem, monitor: Monitor) -> CliqueSolution:
        fixed = self._fixed
        del self._fixed
        data = CliqueData.of(problem, self._bias())
        if fixed is None or self.loss == "hinge":
            warn_of_scale(data, float(self.C), int(self.max_iter))
        work = Work(monitor, int(self.max_iter), np.inf if self.time_limit is None else float(self.time_limit))
        last = self._last_solution(data)
        self.path_ = None
        generation = None
        if fixed is None:
            generation, active = self._learn(problem, data, work, last)
            solver = self._last_solver(data, problem, int(self.budget))
        else:
            graph = CliqueGraph(data.n_labels, tuple(fixed), self.features == "parity")
            solver = self._last_solver(data, problem, max(len(fixed), 1))
            active = solver.solve(graph, np.ones(len(fixed)), last, self.tol, work)
        for correction in range(1, MOST_CORRECTIONS + 2):
            self._keep(data, active)
            bounds = self._certify(data, active.start)
            if bounds.within(self.tol) or work.exhausted is not None or correction > MOST_CORRECTIONS:
                break
            active = solver.solve(active.graph, active.eta, active, self.tol / 4**correction, work)
        self._describe(problem, data, active)
        global_dual = np.nan
        if generation is not None and active.start is not None:
            candidates = with_active(generation.candidates(active), active)
            global_dual = self._certifier(data).dual(active.start, candidates)
        status = work.exhausted or active.status
        dual = np.nan if bounds.dual is None else bounds.dual
        return CliqueSolution(bounds.primal, dual, work.passes, status, bounds.oracle_exact, global_dual)

    def _bounds(self, problem: Problem) -> Bounds:
        data = CliqueData.of(problem, self._bias())
        shape, last = getattr(self, "_last", None) or (None, None)
        return self._certify(data, last.start if last and shape == problem.labels.positives.shape else None)

    def _certify(self, data: CliqueData, atoms: Atoms | None) -> Bounds:
        certifier = self._certifier(data)
        if self.loss == "softmax-margin":
            return certifier.softmax(self.subset_coef_, self.subset_intercept_, float(self.temperature))
        return certifier.hinge(self.subset_coef_, self.subset_intercept_, atoms)

    def _certifier(self, data: CliqueData) -> CliqueCertifier:
        """Certifier of the fitted attributes."""
        column = {name: k for k, name in enumerate(data.labels.names.tolist())}
        cliques = tuple(tuple(column[name] for name in clique) for clique in self.cliques_)
        graph = CliqueGraph(data.n_labels, cliques, self.features == "parity")
        budget = int(self.budget) if self.path_ is not None else max(len(cliques), 1)
        inference = graph.inference(self.inference, int(self.treewidth_limit))
        return CliqueCertifier(data, graph, self.clique_shares_, budget, inference)

    def _learn(self, problem: Problem, data: CliqueData, work: Work, last: Active | None) -> tuple[Generation, Active]:
        generation = self._generation(problem, data, None)
        if self.stopping == "validation":
            Y = problem.labels.positives
            split = MultilabelStratifiedShuffleSplit(1, test_size=self._held_out(Y.shape[0]), random_state=problem.seed)
            rows, held_out = next(split.split(Y, Y))
            part = problem.part(rows)
            trial = self._generation(part, CliqueData.of(part, data.bias), problem.part(held_out))
            _, best = trial.run(work, None)
            self.path_ = CliquePath.of(trial.rounds)
            active = replace(best, start=None)  # the best graph, to be trained on all rows
            work.grant_last_pass()
        else:
            active, _ = generation.run(work, last)
            self.path_ = CliquePath.of(generation.rounds)
        if active.start is None or work.exhausted is None:
            active = self._finish(generation, active, work)
        if self.loss == "softmax-margin":
            self._check_sums(active.graph)
            solver = self._last_solver(data, problem, int(self.budget))
            active = solver.solve(active.graph, active.eta, active, self.tol, work)
        return generation, active

    def _generation(self, training: Problem, data: CliqueData, held_out: Problem | None) -> Generation:
        return Generation(
            data=data,
            solver=self._frank_wolfe(data, training, int(self.budget)),
            budget=int(self.budget),
            batch=int(self.batch or max(self.budget, data.n_labels // 10)),
            max_cliques=int(max(45, 2 * data.n_labels) if self.max_cliques is None else self.max_cliques),
            max_order=int(self.max_order),
            parity=self.features == "parity",
            rule="limit" if self.stopping == "validation" else self.stopping,
            level=float(self.significance),
            tol=float(self.tol),
            measure=lambda active: self._wrong_labels(active, training, held_out),
            patience=None if held_out is None else int(self.patience),
        )

    def _finish(self, generation: Generation, active: Active, work: Work) -> Active:
        """Solve to ``tol``, without the cliques that hardly matter."""
        solver = generation.solver
        if self.stopping == "gap":
            return active
        active = solver.solve(active.graph, active.eta, active, self.tol, work)
        kept = without_small(active, float(self.prune))
        if len(kept.cliques) < len(active.graph.cliques) and work.exhausted is None:
            share = dict(zip(active.graph.cliques, active.eta, strict=True))
            eta = np.array([share[c] for c in kept.cliques])
            active = solver.solve(kept, eta, active, self.tol, work)
        return active

    def _frank_wolfe(self, data: CliqueData, problem: Problem, budget: int) -> FrankWolfe:
        return FrankWolfe(data, problem.rows(), budget, self.inference, int(self.treewidth_limit))

    def _last_solver(self, data: CliqueData, problem: Problem, budget: int) -> FrankWolfe | SoftmaxMargin:
        """Solver of the problem whose solution is returned."""
        if self.loss == "softmax-margin":
            return SoftmaxMargin(data, float(self.temperature), self.inference, int(self.treewidth_limit))
        return self._frank_wolfe(data, problem, budget)

    def _last_solution(self, data: CliqueData) -> Active | None:
        """Where a warm start begins."""
        kept = getattr(self, "_last", None)
        if not self.warm_start or kept is None:
            return None
        last: Active = kept[1]
        cliques = last.graph.cliques
        if self.max_cliques is not None and len(cliques) > self.max_cliques:
            largest = np.sort(np.argsort(-last.eta, kind="stable")[: self.max_cliques])
            cliques = tuple(cliques[k] for k in largest)
        graph = CliqueGraph(data.n_labels, cliques, self.features == "parity")
        share = dict(zip(last.graph.cliques, last.eta, strict=True))
        return replace(last, graph=graph, eta=np.array([share[c] for c in cliques]))

    def _keep(self, data: CliqueData, active: Active) -> None:
        names = data.labels.names.tolist()
        self.subsets_ = list(active.graph.subsets)
        self.subset_coef_ = np.ascontiguousarray(active.weights[:, :-1])
        self.subset_intercept_ = active.weights[:, -1] * data.bias
        self.cliques_ = [tuple(names[k] for k in clique) for clique in active.graph.cliques]
        self.clique_shares_ = active.eta

    def _describe(self, problem: Problem, data: CliqueData, active: Active) -> None:
        """Keep what tells of the cliques, and where a warm start begins."""
        graph = active.graph
        self.clique_weights_ = graph.norms(active.weights, active.eta)
        own = [graph.positions[c] for c in graph.cliques]
        couplings = safe_sparse_dot(data.X, self.subset_coef_[own].T, dense_output=True) + self.subset_intercept_[own]
        self.clique_couplings_, self.clique_coupling_spreads_ = couplings.mean(axis=0), couplings.std(axis=0)
        self._last = (problem.labels.positives.shape, active) if self.warm_start else None

    def _finish_fit(self, problem: Problem, monitor: Monitor, solution: Solution) -> None:
        super()._finish_fit(problem, monitor, solution)
        self.history_ = ending_with(self.history_, solution, monitor.elapsed)

    def _certificate(self, solution: Solution) -> CliqueCertificate:
        return CliqueCertificate.of_solution(solution, self.tol, self.stopping == "gap")

    def _warn_unless_converged(self, solution: Solution) -> None:
        certificate = self.certificate_
        if certificate.converged or solution.status == "stopped" or certificate.relative_gap > self.tol:
            super()._warn_unless_converged(solution)
            return
        warnings.warn(
            f"CliqueClassifier solved the problem for the cliques in the model ({len(self.cliques_)}), yet over all "
            f"candidate cliques the relative duality gap is {certificate.global_relative_gap:.2e} > tol {self.tol:.2e} "
            f"(objective {certificate.primal:.6g}, lower bound {certificate.global_dual:.6g}). Increase "
            "max_cliques, max_iter or time_limit, or use another rule for stopping.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _held_out(self, n_rows: int) -> int:
        return round(float(self.validation_fraction) * n_rows)

    def _bias(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _set_constant(self, constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        columns = np.flatnonzero(constant)
        self.subset_coef_[columns] = 0.0
        self.subset_intercept_[columns] = 0.5 * value[columns]

    def _threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _inference(self) -> _core.CliqueInference:
        return compiled(len(self.label_names_), self.subsets_, self.inference, int(self.treewidth_limit))

    def _subset_scores(self, X: Any) -> NDArray[np.float64]:
        scores = safe_sparse_dot(X, self.subset_coef_.T, dense_output=True) + self.subset_intercept_
        return np.ascontiguousarray(scores, dtype=np.float64)

    def _scores(self, X: Any) -> NDArray[Any]:
        inference = self._inference()
        scores = np.empty((X.shape[0], len(self.label_names_)))
        for rows in row_blocks(X.shape[0], len(self.subsets_)):
            scores[rows] = inference.max_marginals(self._subset_scores(X[rows]), self._threads())
        return scores

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        return self._best_labellings(X)[0]

    def _best_labellings(self, X: Any) -> tuple[sp.csr_array, NDArray[np.bool_]]:
        inference = self._inference()
        blocks, exact = [], []
        for rows in row_blocks(X.shape[0], len(self.subsets_)):
            y, _, _, proved = inference.maximize(self._subset_scores(X[rows]), self._threads())
            blocks.append(sp.csr_array(y.astype(bool)))
            exact.append(proved)
        return sp.csr_array(sp.vstack(blocks, format="csr")), np.concatenate(exact)

    def _wrong_labels(self, active: Active, training: Problem, held_out: Problem | None) -> tuple[float, float]:
        """Share of wrong labels on the rows trained on, and on the rows held out."""
        inference = active.graph.inference(self.inference, int(self.treewidth_limit))
        seen = wrong_labels(active, training, self._bias(), inference)
        return seen, np.nan if held_out is None else wrong_labels(active, held_out, self._bias(), inference)
