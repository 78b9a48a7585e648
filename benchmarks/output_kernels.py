"""Cost of calibrated separation and output kernels: against rows and labels, on real data, and against generic solvers.

    python benchmarks/output_kernels.py scale            # output kernel, growing rows and labels, relative gap 1e-2
    python benchmarks/output_kernels.py real             # calibrated separation on real data, relative gap 1e-3
    python benchmarks/output_kernels.py generic          # the same problems by OSQP and Clarabel through cvxpy
    python benchmarks/output_kernels.py one --rows 10000 --labels 100 --features 300

Every case runs in a process of its own, so that its peak memory is its own. CPU seconds are those of all threads
together, and depend less than seconds on what else the machine does; "load" is the load average when a case ends. Real
data sets are looked for in MULTIMARGIN_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp


def make_data(rows: int, labels: int, features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Make unit rows whose labels follow 20 shared directions; 1 to 5 labels each."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    shared = rng.normal(size=(features, 20)) @ rng.normal(size=(20, labels)) / np.sqrt(20)
    scores = X @ (shared + 0.5 * rng.normal(size=(features, labels))) + 0.5 * rng.normal(size=(rows, labels))
    order = np.argsort(0.3 * np.log(np.arange(labels) + 2) - scores, axis=1)
    Y = np.zeros((rows, labels), dtype=int)
    for i, count in enumerate(rng.integers(1, 6, size=rows)):
        Y[i, order[i, :count]] = 1
    return X, Y


def fit(X, Y, *, model: str, C: float, tol: float, n_jobs: int, solver: str = "auto", **options) -> dict[str, object]:
    from multimargin import CalibratedSeparationClassifier, OutputKernelClassifier

    Estimator = {"csrl": CalibratedSeparationClassifier, "output-kernel": OutputKernelClassifier}[model]
    estimator = Estimator(C=C, tol=tol, n_jobs=n_jobs, solver=solver, random_state=0, max_iter=10**6, **options)
    began, spent = time.perf_counter(), time.process_time()
    estimator.fit(X, Y)
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "CPU seconds": round(time.process_time() - spent, 2),
        "passes": estimator.n_iter_,
        "relative gap": f"{estimator.certificate_.relative_gap:.1e}",
        "objective": float(f"{estimator.certificate_.primal:.8g}"),
        "atoms": estimator.n_atoms_,
    }


def generic(X, Y, *, model: str, C: float, tol: float, backend: str) -> dict[str, object]:
    """Solve the primal with explicit label features by cvxpy; no intercept."""
    import cvxpy as cp

    from multimargin.kernels import gram_factor
    from multimargin.label_kernels import Polynomial, label_atoms, single_labels

    positives, negatives = sp.csr_array(Y), sp.csr_array(1 - Y)
    atoms = single_labels(Y.shape[1]) if model == "csrl" else label_atoms(positives, negatives, Polynomial((0.5, 0.5)))
    sizes = np.diff(atoms.sets.indptr)
    on = np.nonzero((positives @ atoms.sets.T).toarray() == sizes)
    off = np.nonzero((negatives @ atoms.sets.T).toarray() == sizes)
    psi = gram_factor(atoms.normalized_gram)
    W, u = cp.Variable((X.shape[1], psi.shape[1])), cp.Variable(X.shape[1])
    xi, eta = cp.Variable(len(X), nonneg=True), cp.Variable(len(X), nonneg=True)
    S, reference = X @ W @ psi.T, X @ u
    constraints = [xi[on[0]] >= 1 + reference[on[0]] - S[on], eta[off[0]] >= 1 + S[off] - reference[off[0]]]
    objective = 0.5 * (cp.sum_squares(W) + cp.sum_squares(u)) + C * (cp.sum(xi) + cp.sum(eta))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    options = {"eps_abs": tol, "eps_rel": tol, "max_iter": 100_000} if backend == "OSQP" else {}
    began, spent = time.perf_counter(), time.process_time()
    problem.solve(solver=backend, **options)
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "CPU seconds": round(time.process_time() - spent, 2),
        "objective": float(f"{problem.value:.8g}"),
    }


def real(name: str, centred: bool, **options) -> dict[str, object]:
    """Fit calibrated separation to unit rows, with standardised features before if ``centred``."""
    from sklearn.preprocessing import normalize, scale

    from multimargin import datasets

    data = datasets.load(name)
    X = scale(data.X_train) if centred else data.X_train
    return fit(normalize(X), data.Y_train, model="csrl", **options)


def run(case: dict[str, object], patience: float = 3600.0) -> dict[str, object]:
    """Run one case in a fresh process."""
    command = [sys.executable, __file__, "case", json.dumps(case)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience)
    except subprocess.TimeoutExpired:
        return {"seconds": f"> {patience:.0f}"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"failed": lines[-1] if lines else f"exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def run_case(text: str) -> None:
    case = json.loads(text)
    kind = case.pop("kind")
    if kind == "real":
        result = real(case.pop("name"), **case)
    else:
        X, Y = make_data(case.pop("rows"), case.pop("labels"), case.pop("features"))
        result = generic(X, Y, **case) if kind == "generic" else fit(X, Y, **case)
    result["load"] = round(os.getloadavg()[0], 1)
    result["MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(result))


class Table:
    """Rows of a Markdown table, printed as they come."""

    def __init__(self, *columns: str):
        self.columns = columns
        print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))

    def add(self, row: dict[str, object]) -> None:
        """Print one row."""
        cells = [str(row.get(column, "")) for column in self.columns]
        print("| " + " | ".join(cells) + " |" + str(row.get("failed", "")), flush=True)


RESULTS = ("seconds", "CPU seconds", "passes", "relative gap", "objective", "atoms", "MiB", "load")


def scale(n_jobs: int) -> None:
    sizes = [(1000, 30), (2500, 30), (5000, 30), (10_000, 30), (2500, 100), (10_000, 100)]
    common = {"model": "output-kernel", "C": 10.0, "tol": 1e-2, "n_jobs": n_jobs, "solver": "rows"}
    table = Table("rows", "labels", "features", *RESULTS)
    for rows, labels in sizes:
        size = {"rows": rows, "labels": labels, "features": 300}
        table.add(size | run({"kind": "fit", **size, **common}))


def real_data(n_jobs: int) -> None:
    table = Table("data", "C", *RESULTS)
    for name, centred in (("rcv1", False), ("rcv1-pooled", False), ("mediamill", False), ("mediamill", True)):
        for C in (1.0, 10.0):
            case = {"kind": "real", "name": name, "centred": centred, "C": C, "tol": 1e-3, "n_jobs": n_jobs}
            table.add({"data": f"{name}, standardised" if centred else name, "C": C} | run(case))


def generic_solvers(n_jobs: int) -> None:
    table = Table("model", "rows", "labels", "by", "seconds", "CPU seconds", "times ours", "objective", "MiB", "load")
    for model, rows, labels in (
        ("csrl", 200, 20),
        ("csrl", 500, 20),
        ("output-kernel", 50, 10),
        ("output-kernel", 100, 10),
    ):
        problem = {"model": model, "rows": rows, "labels": labels, "features": 50, "C": 10.0}
        ours = run({"kind": "fit", **problem, "tol": 1e-4, "n_jobs": n_jobs, "fit_intercept": False})
        table.add(problem | {"by": "multimargin"} | ours)
        for backend in ("CLARABEL", "OSQP"):
            theirs = run({"kind": "generic", **problem, "tol": 1e-4, "backend": backend}, patience=900.0)
            if "CPU seconds" in theirs:
                theirs["times ours"] = round(theirs["CPU seconds"] / max(float(ours["CPU seconds"]), 0.01), 1)
            table.add(problem | {"by": backend} | theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scale", "real", "generic", "one", "case"])
    parser.add_argument("case", nargs="?")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--model", choices=["csrl", "output-kernel"], default="output-kernel")
    parser.add_argument("--n-jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.what == "case":
        return run_case(arguments.case)
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {arguments.n_jobs} threads\n")
    if arguments.what == "one":
        size = {name: getattr(arguments, name) for name in ("rows", "labels", "features", "C", "tol", "model")}
        case = {"kind": "fit", "solver": "rows", "n_jobs": arguments.n_jobs, **size}
        return Table(*size, *RESULTS).add(size | run(case))
    return {"scale": scale, "real": real_data, "generic": generic_solvers}[arguments.what](arguments.n_jobs)


if __name__ == "__main__":
    main()
