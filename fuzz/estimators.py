"""Attack the estimators: train them on random problems, and hold what they state against plain NumPy.

    python fuzz/estimators.py --seconds 300 --seed 7
    python fuzz/estimators.py --seed 7 --first 123 --cases 1      the case 123 of that run again

Of every model the objective and the dual value are computed again (recompute.py). They must be those of its
certificate; a converged fit must have the gap it claims; certify must say the same; a model file must keep the
predictions. A fit may end with InputError or FitError, and with a warning for the user, but not with any other.
The exit code is 1 if a case breaks this.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import inspect
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from problems import Case, random_case, random_prior
from recompute import LABEL_KERNEL, ListedSets, category_ranking, kernel_m3l, linear_m3l, rank_svm, separation

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    KernelM3L,
    LinearM3L,
    OutputKernelClassifier,
    SubmodularClassifier,
    certify,
    load,
    save,
)
from multimargin.baselines import CategoryRanking, CuttingPlaneM3L, RankSVM
from multimargin.errors import FitError, InputError

TIME_LIMIT = 2.0
CERTIFIED_AGAIN = 1e-9
WEIGHTS = ("coef_", "intercept_", "dual_coef_", "pair_coef_", "threshold_coef_", "threshold_intercept_")
WEIGHTS += ("set_coef_", "set_intercept_", "set_dual_coef_")


@dataclass(frozen=True)
class Again:
    """What NumPy says of a model: bounds, None where it cannot tell, and what rounding alone may do to them."""

    primal: float
    dual: float | None
    rounding: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Attack:
    """A model to fit, its data, and what computes its bounds again."""

    model: Any
    case: Case
    again: Callable[[Any, Case], Again] | None


@dataclass
class Tally:
    """What became of the cases of a family."""

    cases: int = 0
    refused: int = 0
    converged: int = 0
    worse_than_zero: int = 0
    faults: list[str] = field(default_factory=list)


def common(rng: np.random.Generator) -> dict[str, Any]:
    """Draw what every estimator takes. Dual variables are kept, so that certify can find them."""
    return {
        "C": 10.0 ** rng.uniform(-6, 6),
        "tol": 10.0 ** rng.uniform(-5, -1),
        "fit_intercept": bool(rng.random() < 0.7),
        "intercept_scaling": 10.0 ** rng.uniform(-1, 3) if rng.random() < 0.5 else 1.0,
        "time_limit": TIME_LIMIT,
        "random_state": int(rng.integers(1000)),
        **({"max_iter": int(rng.integers(1, 30))} if rng.random() < 0.2 else {}),
    }


def random_class_weight(rng: np.random.Generator) -> Any:
    """Draw a form of class weights that recompute.py knows."""
    return [None, "balanced", {0: 1.0, 1: 10.0 ** rng.uniform(-2, 2)}][int(rng.integers(3))]


def random_margin(rng: np.random.Generator, shape: tuple[int, int]) -> Any:
    """Draw margins of every form, over four decades, some of them 0."""
    scale = 10.0 ** rng.uniform(-2, 2)
    by_class = {0: scale * rng.random(), 1: scale * float(rng.integers(2))}
    by_cell = scale * rng.exponential(size=shape) * (rng.random(shape) < 0.9)
    listed = [scale, by_class, [by_class, *[scale] * (shape[1] - 1)], by_cell[0], by_cell]
    return listed[int(rng.integers(len(listed)))]


def _m3l_options(rng: np.random.Generator, case: Case) -> dict[str, Any]:
    return {
        **common(rng),
        "prior": random_prior(rng, case.sign.shape[1]),
        "loss": str(rng.choice(["hamming", "hamming", "prior"])),
        "margin": random_margin(rng, case.sign.shape) if rng.random() < 0.5 else 1.0,
        "class_weight": [None, "balanced"][int(rng.integers(2))],
        "warm_start": True,
    }


def _linear_m3l(rng: np.random.Generator) -> Attack:
    case = random_case(rng, cell_weights=True)
    return Attack(LinearM3L(**_m3l_options(rng, case)), case, lambda model, case: Again(*linear_m3l(model, case)))


def _kernel_m3l(rng: np.random.Generator) -> Attack:
    case = random_case(rng, cell_weights=True)
    kernel = str(rng.choice(["rbf", "poly", "linear", "laplacian"]))
    model = KernelM3L(kernel=kernel, degree=int(rng.integers(1, 4)), **_m3l_options(rng, case))
    return Attack(model, case, lambda model, case: Again(*kernel_m3l(model, case)))


def _submodular(rng: np.random.Generator) -> Attack:
    case = random_case(rng, most_rows=30, most_labels=6)
    n_labels = case.sign.shape[1]
    pairs = [(i, j) for j in range(n_labels) for i in range(j)]
    solver = str(rng.choice(["blocks", "blocks", "blocks", "bundle", "bmrm"]))
    loss = str(rng.choice(["f1", "hamming"]))
    model = SubmodularClassifier(
        **common(rng),
        pairs=[0.0, 0.5, 1.0, pairs[:4]][int(rng.integers(4))],
        pair_scale=float(rng.choice([0.0, 1.0, 30.0])),
        loss=loss,
        class_weight=random_class_weight(rng) if loss == "hamming" else None,
        solver=solver,
        warm_start=solver == "blocks",
    )

    def again(model: Any, case: Case) -> Again:
        sets = ListedSets(model, case.dense, case.truth, case.sample_weight)
        return Again(sets.primal(model), sets.dual(model._last.state) if model.warm_start else None)

    return Attack(model, case, again)


def _separation(Estimator: Any, rng: np.random.Generator, **more: Any) -> Attack:
    case = random_case(rng, most_rows=30, most_labels=6)
    model = Estimator(
        **common(rng),
        kernel=str(rng.choice(["linear", "linear", "rbf", "poly", "laplacian"])),
        degree=int(rng.integers(1, 4)),
        solver=str(rng.choice(["auto", "auto", "rows", "admm", "interior"])),
        class_weight=random_class_weight(rng),
        warm_start=True,
        **more,
    )

    def again(model: Any, case: Case) -> Again:
        if not model.n_atoms_:
            return Again(0.0, 0.0)
        primal, dual, *rounding = separation(model, case.dense, case.truth, case.row_weight)
        return Again(primal, dual, (rounding[0], rounding[1]))

    return Attack(model, case, again)


def _calibrated_separation(rng: np.random.Generator) -> Attack:
    return _separation(CalibratedSeparationClassifier, rng)


def _output_kernel(rng: np.random.Generator) -> Attack:
    decision = str(rng.choice(["paper", "consistent"]))
    return _separation(OutputKernelClassifier, rng, label_weights=LABEL_KERNEL, decision=decision)


class WatchedRankSVM(RankSVM):
    """Keeps its dual variables, which RankSVM does not."""

    warm_start = True


class WatchedCategoryRanking(CategoryRanking):
    """Likewise."""

    warm_start = True


def _ranking(Estimator: Any, recompute: Callable[..., Any], rng: np.random.Generator) -> Attack:
    case = random_case(rng, most_rows=30, most_labels=6)

    def again(model: Any, case: Case) -> Again:
        if case.constant.all():
            return Again(0.0, 0.0)
        primal, dual, rounding = recompute(model, case.dense, case.truth, model.C_ * case.row_weight, model._last.state)
        return Again(primal, dual, (rounding, 0.0))

    rule = str(rng.choice(["auto", "least-squares", "constant"]))
    return Attack(Estimator(threshold=rule, **common(rng)), case, again)


def _rank_svm(rng: np.random.Generator) -> Attack:
    return _ranking(WatchedRankSVM, rank_svm, rng)


def _category_ranking(rng: np.random.Generator) -> Attack:
    return _ranking(WatchedCategoryRanking, category_ranking, rng)


class WatchedCuttingPlane(CuttingPlaneM3L):
    """Likewise; the problem is that of M3L without a prior."""

    warm_start = True
    prior = None
    loss = "hamming"


def _cutting_plane(rng: np.random.Generator) -> Attack:
    case = random_case(rng, cell_weights=True)
    class_weight = [None, "balanced"][int(rng.integers(2))]
    model = WatchedCuttingPlane(**{**common(rng), "class_weight": class_weight, "time_limit": 0.3})
    return Attack(model, case, lambda model, case: Again(*linear_m3l(model, case)))


def _cliques(rng: np.random.Generator) -> Attack:
    case = random_case(rng, most_rows=30, most_labels=6)
    model = CliqueClassifier(
        **common(rng),
        graph=[None, "learned", "chow-liu", "full"][rng.integers(4)],
        stopping=str(rng.choice(["significance", "gap", "objective", "limit"])),
        max_order=int(rng.integers(2, 4)),
        class_weight=random_class_weight(rng),
        warm_start=bool(rng.integers(2)),
    )
    return Attack(model, case, None)


Families = dict[str, Callable[[np.random.Generator], Attack]]

FAMILIES: Families = {
    "linear-m3l": _linear_m3l,
    "kernel-m3l": _kernel_m3l,
    "submodular": _submodular,
    "calibrated-separation": _calibrated_separation,
    "output-kernel": _output_kernel,
    "rank-svm": _rank_svm,
    "category-ranking": _category_ranking,
    "cutting-plane": _cutting_plane,
    "cliques": _cliques,
}


def objective_of_nothing(attack: Attack) -> float:
    """Return the objective of the model with all weights zero."""
    assert attack.again is not None
    zero = copy.copy(attack.model)
    for name in WEIGHTS:
        if name in vars(zero):
            setattr(zero, name, 0.0 * getattr(zero, name))
    return attack.again(zero, attack.case).primal


def examine(attack: Attack, tally: Tally) -> list[str]:
    """Compare a fitted model's statements with the recomputation; return what is wrong."""
    model, case, wrong = attack.model, attack.case, []
    stated = model.certificate_
    share = 1e-2 * model.tol + 1e-9 if stated.converged else 1e-4
    costs = case.costs(getattr(model, "C_", model.C), getattr(model, "class_weight", None))
    allowed = share * abs(stated.primal) + 1e-13 * float(costs.sum())
    if attack.again is not None:
        again = attack.again(model, case)
        if not abs(again.primal - stated.primal) <= allowed + again.rounding[0]:
            wrong.append(f"primal stated {stated.primal!r}, recomputed {again.primal!r}")
        if again.dual is not None:
            if not abs(again.dual - stated.dual) <= allowed + again.rounding[1]:
                wrong.append(f"dual stated {stated.dual!r}, recomputed {again.dual!r}")
            gap, rounding = again.primal - again.dual, sum(again.rounding) + 2 * allowed
            if stated.converged and not gap <= 1.01 * model.tol * again.primal + rounding:
                wrong.append(f"converged with tol {model.tol:.3g}, yet recomputed {again.primal!r} and {again.dual!r}")
        tally.worse_than_zero += again.primal > objective_of_nothing(attack) + allowed
    if not stated.gap >= -allowed:
        wrong.append(f"gap {stated.gap!r} of {stated.primal!r}")
    if attack.again is not None:
        checked = certify(model, case.X, case.Y, case.sample_weight)
        near = CERTIFIED_AGAIN * abs(stated.primal)
        if not abs(checked.primal - stated.primal) <= near:
            wrong.append(f"certify says primal {checked.primal!r}, the certificate {stated.primal!r}")
        if checked.proves == "gap" and not abs(checked.dual - stated.dual) <= near:
            wrong.append(f"certify says dual {checked.dual!r}, the certificate {stated.dual!r}")
    return wrong + changed_by_a_file(attack)


def changed_by_a_file(attack: Attack) -> list[str]:
    """Save the model and load it; return which answers are other ones."""
    model = attack.model
    if isinstance(model, WatchedRankSVM | WatchedCategoryRanking | WatchedCuttingPlane):
        model = type(model).__bases__[0]()
        model.__dict__ = {name: value for name, value in vars(attack.model).items() if name != "_alpha"}
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model.mm")
        kept = load(Path(folder) / "model.mm")
    X = attack.case.X
    same = np.array_equal(kept.decision_function(X), model.decision_function(X))
    wrong = [] if same else ["a saved model has other scores"]
    return wrong if kept.predict_sets(X) == model.predict_sets(X) else [*wrong, "a saved model predicts other labels"]


def trained(attack: Attack, tally: Tally) -> list[str]:
    """Train; return what is wrong. A baseline without an objective takes no weights, and is held to its file alone."""
    model, case = attack.model, attack.case
    if "sample_weight" not in inspect.signature(model.fit).parameters:
        scores = model.fit(case.X, case.Y).decision_function(case.X)
        return ([] if np.isfinite(scores).all() else ["scores are not finite"]) + changed_by_a_file(attack)
    model.fit(case.X, case.Y, case.sample_weight)
    tally.converged += model.certificate_.converged
    return examine(attack, tally)


def try_case(draw: Callable[[np.random.Generator], Attack], seed: int, number: int, tally: Tally) -> None:
    """Train and examine one case."""
    attack = draw(np.random.default_rng([seed, number]))
    tally.cases += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            wrong = trained(attack, tally)
    except (InputError, FitError):
        tally.refused += 1
        return
    except Exception:
        wrong = [traceback.format_exc()]
    for fault in wrong:
        tally.faults.append(f"--seed {seed} --first {number} --cases 1: {attack.model}\n    {fault}")


def run(
    seed: int,
    seconds: float = np.inf,
    cases: float = np.inf,
    first: int = 0,
    only: str | None = None,
    families: Families = FAMILIES,
) -> dict[str, Tally]:
    """Try cases until time or cases are over; case k belongs to the family k modulo their number."""
    until = time.monotonic() + seconds
    tallies: dict[str, Tally] = defaultdict(Tally)
    names = list(families)
    number, tried = first, 0
    while tried < cases and time.monotonic() < until:
        family = names[number % len(names)]
        if only in (None, family):
            try_case(families[family], seed, number, tallies[family])
            tried += 1
        number += 1
    return dict(tallies)


def main(families: Families = FAMILIES, about: str | None = __doc__) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=None, help="60, unless --cases is given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(families), help="cases of one family")
    parser.add_argument("--cases", type=float, default=np.inf, help="stop after so many")
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to see one again")
    options = parser.parse_args()
    faulthandler.enable()
    seconds = options.seconds or (60.0 if options.cases == np.inf else np.inf)
    tallies = run(options.seed, seconds, options.cases, options.first, options.only, families)
    for name, tally in tallies.items():
        print(
            f"{name}: {tally.cases} cases, {tally.converged} converged, {tally.refused} refused, "
            f"{tally.worse_than_zero} not better than zero weights, {len(tally.faults)} faults"
        )
    faults = [fault for tally in tallies.values() for fault in tally.faults]
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"seed {options.seed}: {sum(tally.cases for tally in tallies.values())} cases, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
