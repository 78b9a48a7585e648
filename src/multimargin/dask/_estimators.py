"""Linear M3L on a Dask cluster."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from distributed import Client, default_client
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from multimargin.dask._collections import is_array, is_frame, is_parts, read_blocks
from multimargin.dask._crew import Crew
from multimargin.dask._facts import Facts, agreed
from multimargin.dask._first_look import facts_of_blocks
from multimargin.dask._here import fit_here
from multimargin.dask._layout import Layout, Machines, planned
from multimargin.dask._predictions import by_block, sets_by_block
from multimargin.dask._rounds import fit_in_rounds
from multimargin.dask._waits import worker_infos
from multimargin.dask._whole_rows import fit_whole_rows
from multimargin.errors import InputError
from multimargin.estimators import LinearM3L
from multimargin.estimators.contract import Interval, StrOptions, WarmStart, warn_constant
from multimargin.estimators.monitor import ForecastMonitor
from multimargin.weights import CellCosts

__all__ = ["DaskLinearM3L"]

OWN = ("client", "layout", "local_passes", "straggler_factor", "elastic")
"""Parameters that LinearM3L does not have."""


@dataclass(frozen=True)
class RemoteRows:
    """Rows that are elsewhere."""

    shape: tuple[int, int]
    dtype: Any


class DaskLinearM3L(LinearM3L):
    r"""Linear max-margin multi-label classifier, trained on the workers of a Dask cluster.

    The problem is that of :class:`~multimargin.LinearM3L`, on rows that are divided into blocks:

    .. math::

        P(Z) = \tfrac12 \operatorname{tr}(Z R^+ Z^\top)
               + \sum_{i,l} c_{il} \max(0,\; m_{il} - y_{il}\, z_l^\top x_i)

    and so is the certificate: objective and dual value are summed, in double precision, over what the workers compute
    from their rows, the returned weights and their own dual variables.

    Rows and labels are divided by a grid of row parts and label blocks, ``layout``. If all rows fit a worker, each
    worker gets all of them and trains a block of labels by the ordinary solver (with a prior, which ties the labels,
    one worker trains them all). Otherwise each worker keeps a part of the rows, and the parts are trained together in
    rounds: a worker improves the dual variables of its rows at a common point, the changes are added up, and the point
    moves, with the proximal acceleration of the single machine at the level of rounds. Where features are few (up to
    500, dense rows, no prior), they are Newton rounds, whose number does not grow with that of the parts: the workers
    add up the systems of the labels, and the driver solves them. ``verbose`` says what was chosen.

    Parameters
    ----------
    client : distributed.Client or "local", optional
        The cluster; None is the client of this process. It is left out of pickles and model files. ``"local"`` trains
        in this process, without a cluster: if all rows fit the memory by the ordinary solver, otherwise block by block,
        one after the other (as :func:`multimargin.fit_parts`); with a ``layout`` of several row parts in the rounds
        of a cluster, to the same bits.
    prune : None
        Of fits in one process; anything else is an error on a cluster.
    memory_limit : int, str or None
        With ``client="local"``, bytes that this process may take, what it holds already included; by default half of
        the memory beyond that. On a cluster None, for there the memory of the workers counts.
    layout : "auto" or tuple of two ints, default="auto"
        Numbers of row parts and of label blocks. ``"auto"`` takes the fewest row parts that the memory of the workers
        allows, for every further one costs rounds, and divides the labels among the workers that are left.
    local_passes : "auto" or int, default="auto"
        Passes over its rows that a part makes in an accelerated round. A number asks for accelerated rounds, also where
        features are few.
    straggler_factor : float, optional
        A part that takes this many times as long in a round as the median (of two parts: as the other one), and four
        seconds at least, is given to another worker, where it begins again, and so are all parts of its worker. A
        worker that sleeps (says nothing for three seconds, while rows are loaded for thirty) is given up whatever it is
        needed for. None waits for all, and the same bits come out of the same parts; a worker that does not answer at
        all is given up by Dask itself, after ``distributed.scheduler.worker-ttl``. Label blocks, which have no rounds,
        are waited for.
    elastic : bool, default=True
        Whether parts move, with their dual variables, from workers that have several to workers that join while
        training runs.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    layout_ : tuple of two ints
        Row parts and label blocks of the fit.

    Notes
    -----
    The result depends on the rows, their order, ``layout_`` and ``random_state``, not on the number of workers, their
    threads, or how the rows were cut into blocks; but with ``C="scale"``, which is summed block by block, the last
    digits of C depend on the blocks.

    ``n_iter_`` and ``pass_`` count rounds, or passes where there are no rounds.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from multimargin.dask import DaskLinearM3L
    >>> X = da.from_array(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), chunks=(2, 2))
    >>> Y = da.from_array(np.array([[1, 0], [0, 1], [1, 1], [0, 0]]), chunks=(2, 2))
    >>> with Client(processes=False, dashboard_address=None) as client:  # doctest: +SKIP
    ...     model = DaskLinearM3L(C=10).fit(X, Y)
    ...     labels = model.predict(X).compute()
    """

    layout_: tuple[int, int]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearM3L._parameter_constraints,
        "client": [Client, StrOptions({"local"}), None],
        "layout": [StrOptions({"auto"}), tuple, list],
        "local_passes": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "straggler_factor": [Interval(Real, 1, None, closed="neither"), None],
        "elastic": ["boolean"],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        prior: Any = None,
        loss: str = "hamming",
        margin: Any = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        prune: float | None = None,
        memory_limit: int | str | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Any = None,
        client: Client | str | None = None,
        layout: Any = "auto",
        local_passes: Any = "auto",
        straggler_factor: float | None = None,
        elastic: bool = True,
    ):
        super().__init__(
            C,
            prior=prior,
            loss=loss,
            margin=margin,
            fit_intercept=fit_intercept,
            intercept_scaling=intercept_scaling,
            class_weight=class_weight,
            prune=prune,
            memory_limit=memory_limit,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            warm_start=warm_start,
            callback=callback,
        )
        self.client = client
        self.layout = layout
        self.local_passes = local_passes
        self.straggler_factor = straggler_factor
        self.elastic = elastic

    @property
    def client_(self) -> Client | None:
        """The client of the cluster; None where there is to be none."""
        if self.client is not None:
            return None if isinstance(self.client, str) else self.client
        try:
            return default_client()
        except ValueError:
            msg = (
                "There is no Dask client in this process. Start a cluster, client = distributed.Client(), or connect "
                'to one, distributed.Client(address), before the fit; or give client=, "local" to train here.'
            )
            raise InputError(msg) from None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on labelled rows that are divided into blocks.

        Parameters
        ----------
        X : dask array, dask DataFrame, list of delayed or futures, PartFiles or path of a folder
            With ``client="local"`` also a list of pairs (X, Y), of triples (X, Y, sample_weight), or of functions that
            return one; futures not. Blocks of rows, dense or CSR; chunks of rows whose sizes need not be known. float32
            is solved in float32 where its range and rounding allow, everything else in float64. A folder
            holds files of rows and labels that :func:`multimargin.datasets.read` reads, as the workers see it; see
            :class:`~multimargin.datasets.PartFiles`.
        y : dask array, dask DataFrame, list of delayed or futures, or None
            Labels Y of the same blocks, each in any form that :meth:`multimargin.LinearM3L.fit` takes. None where
            every part of X is a pair (X, Y), or a file.
        sample_weight : dask array, list of delayed or futures, optional
            Weights of the rows of the same blocks, or of single cells of Y.

        Returns
        -------
        self
        """
        self._validate_params()
        self._check_layout()
        client = self.client_
        if client is None:
            local = self.to_local()
            self._take_over(local, fit_here(self, local, X, y, sample_weight))
            return self
        self._check_absent()
        monitor = ForecastMonitor(self.callback, int(self.verbose), type(self).__name__, tol=self.tol)
        blocks = read_blocks(X, y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        found, computed = facts_of_blocks(client, blocks)
        facts = agreed(self, found)
        layout = self._planned(facts, Machines.of(worker_infos(client)))
        last = self._last_of(facts)
        need = f"The fit needs {layout.memory} bytes on a worker."
        with Crew(client, blocks, facts.plan, need, self.straggler_factor if layout.rows > 1 else None) as crew:
            crew.hold(computed)
            del computed
            if layout.rows == 1:
                monitor.unit = "pass"
                told, model = fit_whole_rows(crew, facts, self._worker_model(last), layout, seed, last, monitor)
            else:
                told, model = fit_in_rounds(crew, facts, self, layout, seed, last, monitor)
        plan = facts.plan
        costs = CellCosts(np.empty(0), plan.positive, plan.negative, None)
        rows = RemoteRows((facts.n_rows, plan.n_features), told.dtype)
        problem = replace(
            plan.problem(rows, plan.labels, costs), constant=told.constant, prior=told.prior, C=told.C, seed=seed
        )
        if problem.constant.any():
            warn_constant(problem.labels, problem.constant)
        fitted = self._attributes(problem, model, monitor) | {"layout_": (layout.rows, layout.labels)}
        self._write(fitted, model, problem)
        if self._last is not None:
            self._last = replace(self._last, shape=(facts.n_rows, facts.n_labels))
        self._warn_unless_converged(model)
        return self

    def to_local(self) -> LinearM3L:
        """Return the same model as an ordinary ``LinearM3L``, which needs neither a cluster nor Dask.

        Returns
        -------
        LinearM3L
            Fitted, if this one is; to save, to explain, to tune thresholds on.
        """
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        local = LinearM3L(**{**parameters, "memory_limit": None})  # there it is that of labels, beside the rows
        local.__dict__.update(
            {name: value for name, value in vars(self).items() if name not in (*parameters, *OWN, "layout_")}
        )
        return local

    def _take_over(self, local: LinearM3L, layout: tuple[int, int]) -> None:
        """Become what an ordinary model, trained here, is."""
        parameters = self.get_params(deep=False)
        for name in [name for name in vars(self) if name not in parameters]:
            delattr(self, name)
        self.__dict__.update({name: value for name, value in vars(local).items() if name not in parameters})
        self.layout_ = layout

    def decision_function(self, X: Any) -> Any:
        """Scores of the labels; positive means the label is predicted.

        Parameters
        ----------
        X : dask array, dask DataFrame, list of delayed or futures; or array, sparse matrix, DataFrame
            Rows.

        Returns
        -------
        dask array, dask DataFrame or list of delayed; or ndarray
            Of shape (n_samples, n_labels), or (n_samples,) after a 1-D y. Of a collection nothing is computed yet.
        """
        return by_block(self._fitted_local(), "decision_function", X) if _remote(X) else super().decision_function(X)

    def predict(self, X: Any) -> Any:
        """Predicted labels.

        Parameters
        ----------
        X : dask array, dask DataFrame, list of delayed or futures; or array, sparse matrix, DataFrame
            Rows.

        Returns
        -------
        dask array, dask DataFrame, dask bag or list of delayed; or labels in the form of Y
            Of a dask array a dask array (dense or sparse as the blocks of Y were) or, after label sets, a bag of sets;
            of a dask DataFrame one with a column per label. Nothing of a collection is computed yet.
        """
        return by_block(self._fitted_local(), "predict", X) if _remote(X) else super().predict(X)

    def predict_sets(self, X: Any) -> Any:
        """Predicted labels as a tuple of label names for every row.

        Parameters
        ----------
        X : dask array, dask DataFrame, list of delayed or futures; or array, sparse matrix, DataFrame
            Rows.

        Returns
        -------
        dask bag of tuples, of which nothing is computed yet; or list of tuples
        """
        return sets_by_block(self._fitted_local(), "predict_sets", X) if _remote(X) else super().predict_sets(X)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "client": self.client if isinstance(self.client, str) else None}

    def __sklearn_clone__(self) -> DaskLinearM3L:
        parameters = {
            name: value if name == "client" else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**parameters)

    def _new_rows(self, X: Any) -> Any:
        if _remote(X):
            msg = (
                "This method takes rows that are here, not a collection: compute it, X.compute(), or use predict, "
                "predict_sets or decision_function, which are lazy; to_local() gives a model for map_blocks."
            )
            raise InputError(msg)
        return super()._new_rows(X)

    def _fitted_local(self) -> LinearM3L:
        check_is_fitted(self)
        local = self.to_local()
        local.callback = None
        return local

    def _worker_model(self, last: WarmStart | None) -> LinearM3L:
        """Return the model that workers train, with the last weights for a warm start."""
        model = LinearM3L(**{name: value for name, value in self.get_params(deep=False).items() if name not in OWN})
        model.set_params(callback=None, verbose=0)
        if last is not None:
            model.coef_, model.intercept_ = self.coef_, self.intercept_
        return model

    def _check_layout(self) -> None:
        layout = self.layout
        sound = isinstance(layout, tuple | list) and len(layout) == 2
        sound = sound and all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1 for n in layout)
        if layout != "auto" and not sound:
            msg = f"layout must be 'auto' or two numbers from 1 on, of row parts and of label blocks; got {layout!r}."
            raise InputError(msg)

    def _check_absent(self) -> None:
        """Refuse parameters of fits in one process."""
        for name, remedy in (
            ("prune", "prune the weights of to_local()"),
            ("memory_limit", "give a layout, which divides the memory among the workers"),
        ):
            if getattr(self, name) is not None:
                value = getattr(self, name)
                msg = f"{name} belongs to fits in one process; got {name}={value!r}. Set it to None, and {remedy}."
                raise InputError(msg)

    def _planned(self, facts: Facts, machines: Machines) -> Layout:
        coupled = self.prior is not None
        layout = planned(self.layout, facts, coupled, machines, self.local_passes == "auto" and not coupled)
        if self.verbose:
            sys.stderr.write(f"{type(self).__name__}: {layout.told()}\n")
        return layout

    def _last_of(self, facts: Facts) -> WarmStart | None:
        problem: Any = RemoteRows((facts.n_rows, facts.n_labels), facts.plan.dtype)
        return self._last_fit(problem)


def _remote(X: Any) -> bool:
    return is_array(X) or is_frame(X) or is_parts(X)
