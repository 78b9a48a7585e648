"""Hariharan et al., 2012, Figs. 2 and 3: how fast the dual rises, by KernelM3L and by LIBSVM label after label."""

from __future__ import annotations

import time
import warnings
from itertools import pairwise
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

__all__ = ["draw", "dual_progress"]

Curve = list[tuple[float, float, float]]
"""CPU seconds, passes over the rows, and the dual reached."""

OURS, THEIRS = "KernelM3L", "LIBSVM"


def dual_progress(settings: Settings, step: Step) -> list[Cell]:
    """CPU seconds and passes until the dual has reached so many percent of its end."""
    cells: list[Cell] = []
    for entry in settings["sets"]:
        X, Y = first_rows(*training_rows(entry["data"]), settings["rows"])
        say = within(step, entry["name"])
        say(OURS)
        ours, gamma = _kernel_m3l(X, Y, settings)
        labels = stratified_labels(Y, settings["libsvm_labels"])
        theirs = _libsvm(X, Y[:, labels], gamma, settings, say)
        # what one label takes on average, so many times
        theirs = [(seconds * Y.shape[1] / len(labels), passes / len(labels), dual) for seconds, passes, dual in theirs]
        for percent in settings["percent"]:
            (seconds, passes), (their_seconds, their_passes) = _reached(ours, percent), _reached(theirs, percent)
            where = f"{entry['name']}, {percent:g} % of the dual"
            for column, value in (
                ("KernelM3L, s", seconds),
                ("LIBSVM, all labels, s", their_seconds),
                ("LIBSVM / KernelM3L", their_seconds / seconds),
                ("KernelM3L, passes", passes),
                ("LIBSVM, passes for a label", their_passes),
            ):
                cells.append(cell(f"{where}: {column}", value, row=where, column=column, judged=False))
        for name, curve in ((OURS, ours), (THEIRS, theirs)):
            points = [(seconds, passes, 100.0 * dual / curve[-1][2]) for seconds, passes, dual in curve]
            cells.append(
                cell(
                    f"{entry['name']}: {name}, CPU s to the end",
                    curve[-1][0],
                    headline=False,
                    judged=False,
                    set=entry["name"],
                    program=name,
                    curve=points,
                )
            )
    return cells


def _kernel_m3l(X: Any, Y: NDArray[np.int8], settings: Settings) -> tuple[Curve, float]:
    """Return the progress of one fit of all labels, seen by its callback, and the width of the kernel."""
    curve: Curve = []
    began = time.process_time()

    def note(progress: Any) -> None:
        if progress.dual is not None:  # the first passes do not compute it
            curve.append((time.process_time() - began, float(progress.pass_), progress.dual))

    model = KernelM3L(
        settings["C"], kernel="rbf", tol=settings["tol"], cache_size=CACHE_MIB, random_state=0, callback=note
    ).fit(X, Y)
    return curve, float(model.gamma_)


def _libsvm(X: Any, Y: NDArray[np.int8], gamma: float, settings: Settings, step: Step) -> Curve:
    """Return the progress summed over labels: after so many iterations, from the start each time, and at the end.

    LIBSVM tells nothing on the way. It does the same steps whenever it is stopped, and its tolerance decides only
    which of them is the last.
    """
    rows = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    gram = rbf_kernel(X, gamma=gamma)
    curve: Curve = []
    for most in (*settings["libsvm_iterations"], -1):
        step(f"LIBSVM, {most} iterations" if most > 0 else "LIBSVM, to its tolerance")
        together = np.zeros(3)
        for y in Y.T:
            model = SVC(C=settings["C"], kernel="rbf", gamma=gamma, max_iter=most, cache_size=1024)
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(rows, y)
            seconds = time.process_time() - began
            # an iteration moves two of the variables
            together += seconds, 2.0 * float(np.sum(model.n_iter_)) / len(y), _dual_of(model, gram)
        curve.append((float(together[0]), float(together[1]), float(together[2])))
    return curve


def _dual_of(model: SVC, gram: NDArray[Any]) -> float:
    """Sum of the dual variables less half their quadratic form."""
    signed = model.dual_coef_
    if sp.issparse(signed):
        signed = signed.toarray()
    signed = np.ravel(signed)
    scores = gram[np.ix_(model.support_, model.support_)] @ signed
    return float(np.abs(signed).sum() - 0.5 * signed @ scores)


def _reached(curve: Curve, percent: float) -> tuple[float, float]:
    """Return seconds and passes at so much of the last dual, between two points on the line through them."""
    aim = percent / 100.0 * curve[-1][2]
    if curve[0][2] >= aim:
        return curve[0][:2]
    for (seconds, passes, dual), (next_seconds, next_passes, next_dual) in pairwise(curve):
        if next_dual >= aim:
            share = (aim - dual) / (next_dual - dual)
            return seconds + share * (next_seconds - seconds), passes + share * (next_passes - passes)
    return curve[-1][:2]


def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw the curves: the dual against passes above, as in Fig. 2, against CPU seconds below, as in Fig. 3."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["set"] for row in rows if "curve" in row))
    figure = Figure(figsize=(3.0 * len(names), 5.4), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False, sharey=True)
    for row in (row for row in rows if "curve" in row):
        seconds, passes, percent = np.transpose(row["curve"])
        column, color = names.index(row["set"]), "C0" if row["program"] == OURS else "C3"
        for ax, x in ((axes[0, column], passes), (axes[1, column], seconds)):
            ax.plot(x, percent, marker="o", markersize=3.5, label=row["program"], color=color)
            ax.set_xscale("log")
            ax.grid(alpha=0.3)
    for k, name in enumerate(names):
        axes[0, k].set_title(name)
        axes[0, k].set_xlabel("passes over the rows")
        axes[1, k].set_xlabel("CPU seconds, all labels")
    for ax in axes[:, 0]:
        ax.set_ylabel("dual, % of its end")
    axes[0, 0].legend(loc="lower right")
    return figure
