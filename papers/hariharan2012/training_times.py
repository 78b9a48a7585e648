"""Hariharan et al., 2012, section 7.1: training times against LIBLINEAR, LIBSVM and a cutting plane, and progress."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from multimargin import KernelM3L, LinearM3L, datasets
from multimargin.baselines import CuttingPlaneM3L
from papers.measuring import Cell, Settings, Step, as_dense, cell, hamming_percent, quiet_about_constants

__all__ = [
    "CACHE_MIB",
    "cutting_plane_times",
    "first_rows",
    "stratified_labels",
    "training_progress",
    "training_rows",
    "training_times",
]

CACHE_MIB = 4096
PROGRESS = {
    "passes": "passes",
    "s": "s",
    "dual": "dual, % of its end",
    "train": "train error, %",
    "test": "test error, %",
}
Seconds = float
_seconds = partial(cell, headline=False, judged=False)


def training_times(settings: Settings, step: Step) -> list[Cell]:
    """Training times against the number of rows: one-vs-all by LIBLINEAR and LIBSVM, and M3L with R = I."""
    has_liblinear = _has_liblinear()
    cells: list[Cell] = []
    for entry in settings["sets"]:
        X_all, Y_all = training_rows(entry["data"])
        for n in entry["rows"]:
            X, Y = first_rows(X_all, Y_all, n)
            where = f"{entry['name']}, N = {X.shape[0]:,}"
            seconds: dict[str, Seconds] = {}
            if has_liblinear:
                step(f"{where}: LIBLINEAR")
                sample = stratified_labels(Y, settings["liblinear_labels"])
                seconds["LIBLINEAR"] = _liblinear_seconds(X, Y[:, sample], settings["C"]) / len(sample) * Y.shape[1]
            step(f"{where}: LinearM3L")
            seconds["LinearM3L"] = _cpu(LinearM3L(settings["C"], random_state=0).fit, X, Y)
            for kernel in settings["kernels"]:
                step(f"{where}: KernelM3L, {kernel}")
                model = KernelM3L(settings["C"], kernel=kernel, cache_size=CACHE_MIB, random_state=0)
                seconds[f"KernelM3L, {kernel}"] = _cpu(model.fit, X, Y)
                if X.shape[0] > settings["libsvm_rows"]:
                    continue
                step(f"{where}: LIBSVM, {kernel}")
                sample = stratified_labels(Y, settings["libsvm_labels"])
                mean = np.mean([_libsvm_seconds(X, Y[:, label], model) for label in sample])
                seconds[f"LIBSVM, {kernel}"] = float(mean) * Y.shape[1]
            cells += _ratios(where, seconds, settings["kernels"])
            cells += [
                _seconds(f"{where}: {name}, s", value, part="CPU seconds", row=where, column=name)
                for name, value in seconds.items()
            ]
    return cells


def _ratios(where: str, seconds: dict[str, Seconds], kernels: list[str]) -> list[Cell]:
    pairs = [("LIBLINEAR", "LinearM3L"), *((f"LIBSVM, {kernel}", f"KernelM3L, {kernel}") for kernel in kernels)]
    return [
        cell(f"{where}: {peer} / {ours}", seconds[peer] / seconds[ours], row=where, column=f"{peer} / {ours}")
        for peer, ours in pairs
        if peer in seconds
    ]


def cutting_plane_times(settings: Settings, step: Step) -> list[Cell]:
    """Time a cutting plane on the original problem P1, and LinearM3L to the same primal value."""
    X_all, Y_all = training_rows("mediamill")
    cells: list[Cell] = []
    for n in settings["rows"]:
        X, Y = first_rows(X_all, Y_all, n)
        where = f"N = {n:,}"
        step(f"{where}: cutting plane")
        until = time.process_time() + settings["seconds"]
        plane = CuttingPlaneM3L(settings["C"], tol=settings["tol"], max_iter=10**6)
        plane.set_params(callback=lambda _, until=until: time.process_time() > until)
        seconds = _cpu(plane.fit, X, Y)
        step(f"{where}: LinearM3L")
        tol, ours = _reach(X, Y, settings["C"], plane.certificate_.primal)
        cells += [
            cell(f"{where}: {words}", value, row=where, column=words, judged=" / " in words)
            for words, value in (
                ("cutting plane / LinearM3L", seconds / ours),
                ("cutting plane, s", seconds),
                ("LinearM3L, s", ours),
                ("cutting planes", float(plane.n_iter_)),
                ("relative gap of the cutting plane, %", 100.0 * plane.certificate_.relative_gap),
                ("tol of LinearM3L for its primal, %", 100.0 * tol),
            )
        ]
    return cells


def _reach(X: Any, Y: NDArray[Any], C: float, primal: float) -> tuple[float, Seconds]:
    """Loosest tolerance of a grid at which LinearM3L is not above this primal value, and its time."""
    for tol in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4):
        model = LinearM3L(C, tol=tol, random_state=0)
        seconds = _cpu(model.fit, X, Y)
        if model.certificate_.primal <= primal:
            break
    return tol, seconds


def training_progress(settings: Settings, step: Step) -> list[Cell]:
    """Dual value and errors of linear M3L on RCV1 after a number of passes, and errors against the number of rows."""
    data = datasets.load(settings["set"], dtype=np.float32)
    trained, tested = ("test", "train") if settings["exchanged"] else ("train", "test")
    X, X_test = (normalize(data[f"X_{part}"]) for part in (trained, tested))
    Y, Y_test = (as_dense(data[f"Y_{part}"].astype(np.int8)) for part in (trained, tested))

    def run(n: int, passes: int | None) -> tuple[Seconds, LinearM3L, float, float]:
        model = LinearM3L(settings["C"], random_state=0)
        if passes is not None:
            model.set_params(max_iter=passes)
        rows = slice(0, n)
        with quiet_about_constants():
            warnings.simplefilter("ignore", ConvergenceWarning)
            seconds = _cpu(model.fit, X[rows], Y[rows])
        train, test = hamming_percent(model.predict(X[rows]), Y[rows]), hamming_percent(model.predict(X_test), Y_test)
        return seconds, model, train, test

    def cells_of(where: str, **measured: float) -> list[Cell]:
        return [
            cell(f"{where}: {words}", measured[key], row=where, column=words, judged=key in ("train", "test"))
            for key, words in PROGRESS.items()
            if key in measured
        ]

    cells: list[Cell] = []
    final: float | None = None
    for passes in (None, *settings["passes"]):
        step(f"N = {len(Y):,}, {passes or 'all'} passes")
        seconds, model, train, test = run(len(Y), passes)
        final = final or model.certificate_.dual
        dual = 100.0 * model.certificate_.dual / final
        where = f"pass {passes}" if passes else "converged"
        cells += cells_of(where, passes=model.n_iter_, s=seconds, dual=dual, train=train, test=test)
    for n in settings["rows"]:
        step(f"N = {n:,}")
        seconds, model, train, test = run(n, None)
        cells += cells_of(f"N = {n:,}", passes=model.n_iter_, s=seconds, train=train, test=test)
    return cells


def training_rows(name: str) -> tuple[Any, NDArray[np.int8]]:
    """Return the training part in single precision; text is scaled to unit length, as is customary."""
    data = datasets.load(name, dtype=np.float32)
    X = normalize(data.X_train) if sp.issparse(data.X_train) else np.ascontiguousarray(data.X_train)
    return X, as_dense(data.Y_train).astype(np.int8)


def first_rows(X: Any, Y: NDArray[np.int8], n: int) -> tuple[Any, NDArray[np.int8]]:
    """Draw ``n`` of the rows, all if it is 0, and leave out labels that are constant on them."""
    total = X.shape[0]
    rows = np.arange(total) if n in (0, total) else np.sort(np.random.default_rng(0).choice(total, n, replace=False))
    count = Y[rows].sum(axis=0)
    return X[rows], np.ascontiguousarray(Y[rows][:, (count > 0) & (count < len(rows))])


def stratified_labels(Y: NDArray[np.int8], count: int) -> NDArray[np.intp]:
    """Take one label from the middle of each equal part of the labels, ordered by frequency."""
    order = np.argsort(Y.sum(axis=0), kind="stable")
    return order[[(2 * k + 1) * len(order) // (2 * count) for k in range(count)]]


def _cpu(work: Callable[..., Any], *arguments: Any) -> Seconds:
    """CPU time: what else the machine does matters little."""
    began = time.process_time()
    work(*arguments)
    return time.process_time() - began


def _libsvm_seconds(X: Any, y: NDArray[np.int8], ours: KernelM3L) -> Seconds:
    """Time of the same problem for one label."""
    # given dense rows, LIBSVM is slow where most features are 0
    rows = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    return _cpu(SVC(C=ours.C, kernel=ours.kernel, gamma=ours.gamma_, cache_size=1024).fit, rows, y)


def _has_liblinear() -> bool:
    try:
        import liblinear.liblinearutil  # noqa: F401
    except ImportError:
        warnings.warn("LIBLINEAR is left out. To compare with it: pip install liblinear-official", stacklevel=2)
        return False
    return True


def _liblinear_seconds(X: Any, Y: NDArray[np.int8], C: float) -> Seconds:
    """Time of the training calls (-s 3, constant feature 1, default tolerance), the data being in its format."""
    from ctypes import c_double

    from liblinear.liblinear import problem
    from liblinear.liblinearutil import train

    data = problem(Y[:, 0].astype(float).tolist(), sp.csr_matrix(X, dtype=np.float64), bias=1)
    seconds = 0.0
    for label in range(Y.shape[1]):
        data.y = (c_double * len(Y))(*np.where(Y[:, label] > 0, 1.0, -1.0))
        seconds += _cpu(train, data, f"-s 3 -c {C:g} -B 1 -q")
    return seconds
