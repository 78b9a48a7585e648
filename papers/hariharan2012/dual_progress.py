"""Hariharan et al., 2012, Figs. 2 and 3: how fast the dual rises, by KernelM3L and by LIBSVM label after label."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from multimargin import KernelM3L
from papers.measuring import Cell, Settings, Step, cell, within

from .training_times import CACHE_MIB, first_rows, stratified_labels, training_rows

__all__ = ["dual_progress"]

Curve = list[tuple[float, float, float]]
"""CPU seconds, passes over the rows, and the dual reached."""


def dual_progress(settings: Settings, step: Step) -> list[Cell]:
    """CPU seconds and passes until the dual has reached so many percent of its end."""
    cells: list[Cell] = []
    for entry in settings["sets"]:
        X, Y = first_rows(*training_rows(entry["data"]), settings["rows"])
        say = within(step, entry["name"])
        say("KernelM3L")
        ours, gamma = _kernel_m3l(X, Y, settings["tol"])
        labels = stratified_labels(Y, settings["libsvm_labels"])
        theirs = [_libsvm(X, Y[:, label], gamma, settings["libsvm_tol"], say) for label in labels]
        for percent in settings["percent"]:
            seconds, passes = _reached(ours, percent)
            rivals = np.mean([_reached(curve, percent) for curve in theirs], axis=0)
            where = f"{entry['name']}, {percent:g} % of the dual"
            ratio = float(rivals[0]) * Y.shape[1] / seconds
            for column, value in (
                ("KernelM3L, s", seconds),
                ("LIBSVM, all labels, s", float(rivals[0]) * Y.shape[1]),
                ("LIBSVM / KernelM3L", ratio),
                ("KernelM3L, passes", passes),
                ("LIBSVM, passes for a label", float(rivals[1])),
            ):
                cells.append(cell(f"{where}: {column}", value, row=where, column=column, judged=False))
    return cells


def _kernel_m3l(X: Any, Y: NDArray[np.int8], tol: float) -> tuple[Curve, float]:
    """Return the progress of one fit of all labels, seen by its callback, and the width of the kernel."""
    curve: Curve = []
    began = time.process_time()

    def note(progress: Any) -> None:
        curve.append((time.process_time() - began, float(progress.pass_), progress.dual))

    model = KernelM3L(C=1.0, kernel="rbf", tol=tol, cache_size=CACHE_MIB, random_state=0, callback=note).fit(X, Y)
    return curve, float(model.gamma_)


def _libsvm(X: Any, y: NDArray[np.int8], gamma: float, tolerances: list[float], step: Step) -> Curve:
    """Return the progress of one label, trained to one tolerance after another: LIBSVM tells nothing on the way."""
    rows = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    curve: Curve = []
    for tol in tolerances:
        step(f"LIBSVM, tolerance {tol:g}")
        model = SVC(C=1.0, kernel="rbf", gamma=gamma, tol=tol, cache_size=1024)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows, y)
        seconds = time.process_time() - began
        # an iteration moves two of the variables
        passes = 2.0 * float(np.sum(model.n_iter_)) / rows.shape[0]
        curve.append((seconds, passes, _dual_of(model)))
    return curve


def _dual_of(model: SVC) -> float:
    """Sum of the dual variables less half their quadratic form."""
    signed, vectors = model.dual_coef_, model.support_vectors_
    if not vectors.shape[0]:
        return 0.0
    if sp.issparse(signed):
        signed = signed.toarray()
    signed = np.ravel(signed)
    scores = rbf_kernel(vectors, gamma=model.gamma) @ signed
    return float(np.abs(signed).sum() - 0.5 * signed @ scores)


def _reached(curve: Curve, percent: float) -> tuple[float, float]:
    """Return seconds and passes of the first point with so much of the largest dual."""
    end = max(dual for _, _, dual in curve)
    return next((seconds, passes) for seconds, passes, dual in curve if dual >= percent / 100.0 * end)
