"""Parts of the rows on this machine: rows that do not fit the memory, and the rows of a fit in several pieces.

:func:`fit_parts` trains a :class:`~multimargin.LinearM3L` on a folder of files, or on any other parts, within a memory
limit. Below it stand two fleets for the rounds of estimators/m3l/rounds.py: :class:`LocalFleet` holds all parts and
works on them side by side, as a cluster does; :class:`StreamedFleet` has one part after the other in memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin._memory import parse_bytes, resident_bytes, shown_bytes
from multimargin.datasets.formats.source import allowed_bytes
from multimargin.datasets.part_files import PartFiles
from multimargin.errors import InputError
from multimargin.estimators.m3l.blocks import Block, BlockFacts, describe_block, read_block
from multimargin.estimators.m3l.linear import LinearM3L
from multimargin.estimators.m3l.newton_rounds import NewtonAnswer, NewtonOrder, NewtonTotals, newton_part
from multimargin.estimators.m3l.parted import train_on_parts
from multimargin.estimators.m3l.parts import Part
from multimargin.estimators.m3l.plans import Plan
from multimargin.estimators.m3l.rounds import FleetSums, RoundAnswer, RoundOrder, RoundTotals
from multimargin.estimators.threads import threads
from multimargin.labels import read_labels
from multimargin.part_store import DualStore, RowStore

__all__ = ["LocalFleet", "StreamedFleet", "bytes_left", "file_source", "fit_parts", "part_sources"]

Array = NDArray[np.float64]
Source = Block | Callable[[], Block]


def fit_parts(
    model: LinearM3L,
    parts: PartFiles | Sequence[Any],
    *,
    memory_limit: int | str | None = None,
    scratch: str | Path | None = None,
    local_passes: int | None = None,
) -> LinearM3L:
    """Train a linear model on rows that come in parts, one part in memory at a time.

    The model is the one that ``fit`` on all rows would give, up to ``tol``, with the same kind of certificate, computed
    from all rows; ``n_iter_`` counts passes over the parts, two to three times as many as ``fit`` needs. Where the
    rows fit the memory, ``fit`` is faster; where X fits the disk as one array, so is ``fit`` on a memory-mapped one.

    Parameters
    ----------
    model : LinearM3L
        Its parameters count: C, prior, class_weight, tol, time_limit, callback, verbose and the others. It is fitted in
        place. ``prior`` must not be a recipe, ``margin`` no matrix, ``prune`` None, and ``warm_start`` False.
    parts : PartFiles, or sequence of (X, y), (X, y, sample_weight) or functions that return such a tuple
        Rows should be shuffled over the parts: where a part has few of the labels, more passes are needed.
    memory_limit : int or str, optional
        Bytes that this process may take, what it holds already included, or a text such as ``"4 GiB"``; by default that
        of the model, or beyond what it holds half of the memory of this machine or container. Dual variables, and then
        the parts, stay in memory where they fit.
    scratch : path, optional
        Folder for what does not fit: a copy of the rows that is fast to read, and the dual variables, a bit per row and
        label and 4 bytes for those that are not 0 (8 in double precision). By default a temporary folder. It is emptied
        at the end.
    local_passes : int, optional
        Passes over a part each time it is in memory; more of them pay where reading is slower than training.

    Returns
    -------
    LinearM3L
        ``model``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from multimargin import LinearM3L, datasets
    >>> from multimargin.fleets import fit_parts
    >>> folder, rng = pathlib.Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for k in range(3):
    ...     X = rng.normal(size=(50, 4))
    ...     np.savez(folder / f"part{k}.npz", X=X, Y=X[:, :2] > 0)
    >>> model = fit_parts(LinearM3L(random_state=0), datasets.PartFiles(folder, "*.npz"))
    >>> model.certificate_.converged, model.coef_.shape
    (True, (2, 4))
    """
    sources = part_sources(parts)
    limit = bytes_left(model._memory() if memory_limit is None else parse_bytes(memory_limit))
    train_on_parts(model, StreamedFleet(sources, threads(model.n_jobs), limit, scratch), local_passes)
    return model


def bytes_left(limit: int | None) -> int:
    """Bytes that a limit leaves beside what this process holds already; without one, half of the memory."""
    return allowed_bytes(limit) - (0 if limit is None else resident_bytes())


class LocalFleet:
    """A fleet in this process, all parts in memory, side by side in the sense of the rounds.

    Parameters
    ----------
    blocks : sequence of Block, or of functions that read one
    n_jobs : int, default=1
        Threads of a part.

    Attributes
    ----------
    parts : list of Part
        After ``open``.
    """

    at_once = True

    def __init__(self, blocks: Sequence[Source], n_jobs: int = 1):
        self._blocks, self._n_jobs = list(blocks), n_jobs
        self.parts: list[Part] = []

    def describe(self) -> list[BlockFacts]:
        """Read every part and say what is in it."""
        return [describe_block(_read(block)) for block in self._blocks]

    def open(self, plan: Plan) -> tuple[Array, Array]:
        """Build the parts; return the sums of squares of the features and the numbers of parts that have them."""
        squares, counts = np.zeros(plan.n_features + 1), np.zeros(plan.n_features + 1)
        self.parts = []
        for block in self._blocks:
            part = Part(plan, _read(block), self._n_jobs)
            squares[part.rows_of] += part.squares
            counts[part.rows_of] += 1
            self.parts.append(part)
        return squares, counts

    def round(self, order: RoundOrder) -> RoundAnswer | None:
        """Let every part settle and visit its rows; None if one has missed a round."""
        settled = [part.settle(order.committed, order.theta) for part in self.parts]
        if not all(settled):
            return None
        total = RoundTotals(order)
        for k, part in enumerate(self.parts):
            rows = part.rows_of
            found = part.visit(
                order.state[rows],
                order.scale[rows],
                number=order.number,
                passes=order.passes,
                seed=order.part_seed(k),
                time_limit=order.time_limit,
            )
            total.add(rows, found)
        return total.answer()

    def newton(self, order: NewtonOrder) -> NewtonAnswer | None:
        """Ask every part; None if one has missed a round."""
        total = NewtonTotals(order)
        for part in self.parts:
            found = newton_part(part, order)
            if found is None:
                return None
            total.add(found, slice(0, len(order.tau)))
        return total.answer()

    def sum(self, committed: int, theta: Array | None, weights: Array) -> FleetSums:
        """Sum afresh over all parts."""
        sums = FleetSums.empty(weights)
        for part in self.parts:
            sums.add(part.rows_of, part.sum(committed, theta, weights[:, part.rows_of]))
        return sums

    def close(self) -> None:
        """Parts stay, for whoever looks at their dual variables; they go with the fleet."""


class StreamedFleet:
    """A fleet that has one part after the other in memory, in random order, each where the last one left the state.

    Parameters
    ----------
    sources : sequence of Block, or of functions that read one
        Read once; afterwards parts come from the scratch folder.
    n_jobs : int
        Threads of a part.
    memory_limit : int
        Bytes, beside what the process holds already.
    scratch : path or None
        Folder for rows and dual variables; None: a temporary one.
    """

    at_once = False

    def __init__(self, sources: Sequence[Source], n_jobs: int, memory_limit: int, scratch: str | Path | None):
        self._sources, self._n_jobs, self._limit = list(sources), n_jobs, memory_limit
        self._folder = Path(tempfile.mkdtemp(prefix="multimargin-", dir=scratch))
        self._ahead = ThreadPoolExecutor(1)
        self._rows = RowStore(self._folder)
        self._kept: list[Part | None] = []

    def describe(self) -> list[BlockFacts]:
        """Read every part once, and put it where it is fast to read again."""
        self._facts: list[BlockFacts] = []
        self._squares: list[Array] = []
        for k, source in enumerate(self._sources):
            block = _read(source)
            X, labels, columns = read_block(block)
            self._facts.append(describe_block(replace(block, X=X, y=labels, columns=columns)))
            self._squares.append(_feature_squares(X))
            self._rows.put(k, X, labels, block.sample_weight)
        return self._facts

    def open(self, plan: Plan) -> tuple[Array, Array]:
        """Say what will be held in memory; return the sums of squares of the features, which all count as common."""
        self._plan = plan
        self._kept = [None] * len(self._sources)
        size, width = plan.dtype.itemsize, plan.labels.n_labels
        states = 10 * 8 * (plan.n_features + 1) * width
        of_part = [f.n_entries * (4 + 2 * size) + f.n_rows * (width * (2 * size + 1) + 64) for f in self._facts]
        on_its_way = max(f.n_rows for f in self._facts) * width * (size + 1)
        need = states + 2 * max(of_part) + on_its_way
        if need > self._limit:
            msg = (
                f"memory_limit must leave at least {need} bytes for these parts: {shown_bytes(states)} for weights, "
                f"twice {shown_bytes(max(of_part))} for the largest part, and {shown_bytes(on_its_way)} for its dual "
                f"variables; beside what this process holds already it leaves {self._limit}. Cut the rows into smaller "
                "parts, or raise it."
            )
            raise InputError(msg)
        self._keeps_parts = states + sum(of_part) <= self._limit
        self._duals = DualStore(self._folder, self._limit - need)
        squares = np.zeros(plan.n_features + 1)
        for of_one in self._squares:
            squares[: len(of_one)] += of_one
        squares[-1] = plan.n_rows * plan.bias**2
        return squares, np.ones(plan.n_features + 1)

    def round(self, order: RoundOrder) -> RoundAnswer | None:
        """Visit the rows of one part after the other."""
        total = RoundTotals(order)
        state = order.state.astype(np.float64)
        along = np.random.default_rng(order.part_seed(-1 % 2**32)).permutation(len(self._sources))
        for k, part in self._each(along.tolist()):
            rows = part.rows_of
            found = part.advance(
                state[rows],
                order.scale[rows],
                passes=order.passes,
                seed=order.part_seed(k),
                time_limit=order.time_limit,
            )
            if self._kept[k] is None:
                self._duals.put(k, part.beta)
            state[rows] += order.scale[rows][:, None] * found.change
            total.add(rows, found)
            if not found.complete:
                break
        return total.answer()

    def sum(self, committed: int, theta: Array | None, weights: Array) -> FleetSums:
        """Sum afresh over all parts."""
        sums = FleetSums.empty(weights)
        for _, part in self._each(range(len(self._sources))):
            sums.add(part.rows_of, part.sum(0, None, weights[:, part.rows_of]))
        return sums

    def close(self) -> None:
        """Delete the scratch folder."""
        self._ahead.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _each(self, along: Sequence[int]) -> Iterator[tuple[int, Part]]:
        """Parts in this order; the next one is read while one is at work."""
        coming = self._ahead.submit(self._part, along[0])
        for k, following in zip(along, [*along[1:], None], strict=True):
            part = coming.result()
            if following is not None:
                coming = self._ahead.submit(self._part, following)
            yield k, part
            del part

    def _part(self, k: int) -> Part:
        kept = self._kept[k]
        if kept is not None:
            return kept
        part = Part(self._plan, self._rows.get(k, self._facts[k]), self._n_jobs, renumber=False)
        if self._keeps_parts:
            self._kept[k] = part
            return part
        beta = self._duals.get(k)
        if beta is not None:
            part.beta = beta
        return part


def _feature_squares(X: Any) -> Array:
    """Return the sums of the squares of the features, up to the last one that occurs."""
    if not sp.issparse(X):
        return np.asarray(np.einsum("ij,ij->j", X, X, dtype=np.float64))
    return np.bincount(X.indices, np.square(X.data, dtype=np.float64)).astype(np.float64)


def _read(source: Source) -> Block:
    return source if isinstance(source, Block) else source()


def part_sources(parts: PartFiles | Sequence[Any]) -> list[Callable[[], Block]]:
    """Return what reads each of the parts that :func:`fit_parts` takes."""
    if isinstance(parts, PartFiles):
        return [file_source(parts, k) for k in range(len(parts))]
    if hasattr(parts, "shape") or not isinstance(parts, Sequence) or not len(parts):
        msg = (
            f"parts must be PartFiles, or a list of (X, y) pairs or functions that return one; got "
            f"{type(parts).__name__}. Train on a single matrix by model.fit(X, y)."
        )
        raise InputError(msg)
    return [_given_source(part, k) for k, part in enumerate(parts)]


def file_source(files: PartFiles, k: int) -> Callable[[], Block]:
    """Return what reads file k as a block."""

    def read() -> Block:
        data = files.read(k)
        labels = read_labels(data.Y, names=data.label_names)
        X = data.X
        if data.feature_names is not None and not sp.issparse(X):
            import pandas as pd

            X = pd.DataFrame(X, columns=list(data.feature_names), copy=False)
        return Block(X, labels, files.sample_weight(k), str(files.paths[k]), files.is_open_ended(k))

    return read


def _given_source(part: Any, k: int) -> Callable[[], Block]:
    def block() -> Block:
        given = part() if callable(part) else part
        if isinstance(given, Block):
            return given
        if not isinstance(given, tuple) or len(given) not in (2, 3):
            msg = f"Part {k} must be a tuple (X, y) or (X, y, sample_weight); got {type(given).__name__}."
            raise InputError(msg)
        return Block(given[0], given[1], given[2] if len(given) == 3 else None, f"part {k}")

    return block
