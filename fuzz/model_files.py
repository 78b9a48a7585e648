"""Attack model files: mutate small ones of every storable class, load them, and predict with what loads.

    python fuzz/model_files.py --seconds 300 --seed 7

Mutations are of raw bytes, and of the JSON text, array headers and array contents with the checksum made right again.
A file must be refused with ModelFileError, or give a model that answers with finite numbers or an InputError. Both
happen in a process of their own, so that a crash, a hang or too much memory is seen. A file that breaks the rule is
kept, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import select
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, chi2
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    KernelM3L,
    LabelCalibrator,
    LinearM3L,
    OutputKernelClassifier,
    SubmodularClassifier,
    ThresholdTuner,
    ZeroShotClassifier,
    load,
    priors,
    save,
    weights,
)
from multimargin.baselines import BoosTexter, CategoryRanking, CuttingPlaneM3L, OutputKernelLeastSquares, RankSVM
from multimargin.decisions import FixedThresholds
from multimargin.errors import InputError, ModelFileError
from multimargin.fitted_rules import last_step
from multimargin.label_kernels import Cosine
from multimargin.persistence import ALIGNMENT, FORMAT_VERSION, PREFIX, SIGNATURE, _digest

N_ROWS, N_FEATURES, N_LABELS = 24, 3, 4
PATIENCE = 60  # seconds for one file, on a busy machine
NUMBERS = [0, 1, -1, 2, 3, 4, 5, 7, 63, 64, 255, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**64, 10**30, 0.5, -0.0, 1e-320]
NUMBERS += [1e100, 1e200, 1e308, -1e308, {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}]
TEXTS = ["", "linear", "rbf", "poly", "chi2", "precomputed", "sparse", "array", "column", "sets", "frame", "preimage"]
TEXTS += ["passthrough", "pandas", "chi2", "f_classif", "char_wb", "filename", "(a+)+$", "StandardScaler", "float32"]
TEXTS += ["dap", "exhaustive", "mplp", "eval", "csr_array", "dok_matrix", "object", "S999999999", "O", "<f2", "\ud800"]
DTYPES = ["<f8", "<f4", "<f2", "<f16", "|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u8", "|S1", "|S999999999", "<U1"]
DTYPES += ["|O", "<c16", "<M8[s]", "V8", ">f8", "=f8", "f8,f8", "<U999999999", "|S0", ""]
OF_OTHER_ROWS = ("Input X contains", "Negative values in data", "contains negative values")
PATTERNS = [b"\xff", b"\x00", b"\x02", b"\x7f\xf0", b"\x80", struct.pack("<d", 1e300), struct.pack("<i", -5)]


def training_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return rows without negative numbers, and their labels."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(N_ROWS, N_FEATURES)))
    Y = (X @ rng.normal(size=(N_FEATURES, N_LABELS)) + rng.normal(scale=0.3, size=(N_ROWS, N_LABELS)) > 0).astype(int)
    Y[0], Y[1] = 0, 1
    return X, Y


def small_models() -> list[Any]:
    """Return fitted models of every storable class, with labels in every form."""
    X, Y = training_rows()
    names = np.array(["sea", "sun", "snow", "ß"])
    frame, sets = pd.DataFrame(Y, columns=names), [set(names[row == 1].tolist()) for row in Y]
    table, K = pd.DataFrame(X, columns=list("abc")), X @ X.T
    category = np.arange(N_ROWS) % 4
    signatures = {"seal": [1, 0, 1], "lion": [0, 1, 1], "whale": [1, 1, 0], "ape": [0, 0, 1], "orca": [1, 0, 0]}
    animals = np.array(list(signatures))[category]
    fits = [
        (LinearM3L(prior=priors.from_labels(Y), random_state=0), X, Y),
        (LinearM3L(prior=pd.DataFrame(np.eye(4), names, names)), table, frame),
        (LinearM3L(class_weight=weights.LabelFrequencies([0.2, 0.5, 0.8, 0.5])), X, sets),
        (LinearM3L(prior=priors.LowRankPrior(np.ones((4, 1)), np.ones(4))), sp.csr_array(X), sp.dok_matrix(Y)),
        (LinearM3L(), X.astype(np.float32), np.where(Y[:, 0], "yes", "no")),
        (KernelM3L(), X, sp.csc_array(Y)),
        (KernelM3L(kernel="poly"), sp.csr_matrix(X), Y),
        (KernelM3L(kernel="precomputed"), K, sets),
        (KernelM3L(kernel="chi2"), X.astype(np.float32), Y == 1),
        (SubmodularClassifier(pairs=1.0, pair_scale=30.0, offset="train", random_state=0), X, sets),
        (CliqueClassifier(graph="full", random_state=0), X, Y),
        (CliqueClassifier(graph=[("sea", "sun", "snow")], loss="softmax-margin", random_state=0), X, frame),
        (CliqueClassifier(stopping="limit", max_cliques=2, random_state=0), X, Y),
        (CalibratedSeparationClassifier(fallback="top1"), X, Y),
        (CalibratedSeparationClassifier(kernel="laplacian"), X, sets),
        (OutputKernelClassifier(label_kernel=Cosine(), kernel="precomputed"), K, Y),
        (RankSVM(), X, Y),
        (BoosTexter(5), X, sets),
        (CategoryRanking(), X, Y),
        (CuttingPlaneM3L(), X, frame),
        (CategoryRanking(solver="perceptron", random_state=0), X, sets),
        (OutputKernelLeastSquares(), X, Y),
        (OutputKernelLeastSquares(decision="preimage", kernel="rbf"), X, sets),
        (ThresholdTuner(LinearM3L(random_state=0), random_state=0), X, sets),
        (ThresholdTuner(LinearM3L(), scoring="micro-f1", cv=2), table, frame),
        (ThresholdTuner(KernelM3L(), scoring="example-f1", rule="rcut", cv=2), X, Y),
        (ThresholdTuner(LinearM3L(), scoring="example-f1", rule="decode", cv=2), X, Y),
        (ThresholdTuner(LabelCalibrator(LinearM3L(), cv=2), scoring="subset-accuracy", rule="seen-sets", cv=2), X, Y),
        (LabelCalibrator(LinearM3L(), cv=2), X, np.where(Y[:, 0], "yes", "no")),
        (LabelCalibrator(LinearM3L(), method="isotonic", cv=2), np.tile(X, (9, 1)), np.tile(Y, (9, 1))),
        (FixedThresholds(LinearM3L(), [0.0, np.inf, -np.inf, 0.5]), X, sp.csr_array(Y)),
        (ZeroShotClassifier(signatures=signatures), X, animals),
        (ZeroShotClassifier(KernelM3L(), pd.DataFrame(signatures).T, rule="dap", candidates="all"), X, animals),
        *pipelines(X, Y, sets, table, animals, signatures),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [clone(model).fit(X, y) for model, X, y in fits] + [LinearM3L()]


def pipelines(X: Any, Y: Any, sets: Any, table: Any, animals: Any, signatures: Any) -> list[tuple[Any, Any, Any]]:
    """Return pipelines of every known step, and wrappers around them, with what to fit them on."""
    linear, texts = LinearM3L(random_state=0), documents()
    tfidf = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), linear)
    scaled = make_pipeline(StandardScaler(), linear)
    gaps = np.where(np.arange(X.size).reshape(X.shape) % 5, X, np.nan)
    named = make_pipeline(MinMaxScaler(), PCA(2, whiten=True), linear).set_output(transform="pandas")
    return [
        (scaled, X, sets),
        (make_pipeline(RobustScaler(), MaxAbsScaler(), Normalizer(), KernelM3L()), X.astype(np.float32), Y),
        (make_pipeline(SelectKBest(chi2, k=2), VarianceThreshold(), linear), sp.csr_array(X), Y),
        (make_pipeline(SimpleImputer(), RBFSampler(n_components=5, random_state=0), linear), gaps, Y),
        (make_pipeline(Nystroem(n_components=4, random_state=0), TruncatedSVD(2), linear), sp.csr_matrix(X), Y),
        (make_pipeline(Nystroem("chi2", n_components=4, random_state=0), linear), X, Y),
        (named, table, pd.DataFrame(Y, columns=list("wxyz"))),
        (tfidf, texts, sets),
        (make_pipeline(CountVectorizer(analyzer="char"), TfidfTransformer(), "passthrough", RankSVM()), texts, Y),
        (make_pipeline(HashingVectorizer(n_features=16), linear), texts, Y),
        (ThresholdTuner(scaled, cv=2), X, sets),
        (ThresholdTuner(LabelCalibrator(tfidf, cv=2), scoring="micro-f1", cv=2), texts, sets),
        (make_pipeline(Normalizer(), FixedThresholds(scaled, 0.5)), X, Y),
        (ZeroShotClassifier(scaled, signatures), X, animals),
    ]


def documents() -> list[str]:
    """Return texts for the rows."""
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(["sea", "sun", "snow", "ice", "Straße"], size=6)) for _ in range(N_ROWS)]


def written(model: Any) -> bytes:
    """Return the file of a model."""
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model.mm", notes={"reading": {"kind": ".csv", "options": {}}})
        return (Path(folder) / "model.mm").read_bytes()


class Mutator:
    """Turns a sound file into one that is probably not."""

    def __init__(self, files: list[bytes], rng: np.random.Generator) -> None:
        self.files, self.rng = files, rng
        self.contents = [parted(data) for data in files]

    def file(self) -> bytes:
        """Return a mutated file."""
        which = int(self.rng.integers(len(self.files)))
        if self.rng.random() < 0.1:
            return self.raw(bytearray(self.files[which]))
        content, arrays = copy.deepcopy(self.contents[which][0]), bytearray(self.contents[which][1])
        for _ in range(1 + int(self.rng.geometric(0.6))):
            change = self.pick([self.node, self.node, self.node, self.header, self.elements])
            try:
                change(content, arrays)
            except (LookupError, TypeError, ValueError, OverflowError):  # an earlier change left nothing to change
                continue
        return joined(content, bytes(arrays))

    def pick(self, options: Any) -> Any:
        """Choose one."""
        return options[int(self.rng.integers(len(options)))]

    def raw(self, data: bytearray) -> bytes:
        """Cut, lengthen or flip bytes; of flipped ones, make the checksum right every other time."""
        kind = self.rng.integers(3)
        if kind == 0:
            return bytes(data[: int(self.rng.integers(len(data)))])
        if kind == 1:
            return bytes(data) + bytes(self.rng.integers(256, size=int(self.rng.integers(1, 100)), dtype=np.uint8))
        for _ in range(int(self.rng.integers(1, 5))):
            data[int(self.rng.integers(len(data)))] ^= int(self.rng.integers(1, 256))
        sealed = bool(self.rng.integers(2))
        return with_checksum(bytes(data[PREFIX.size :])) if sealed else bytes(data)

    def node(self, content: Any, arrays: bytearray) -> None:
        """Change one place of the JSON text."""
        holder, key = self.place(content)
        kind = self.rng.integers(7)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            other, where = self.place(content)
            holder[key], other[where] = copy.deepcopy(other[where]), copy.deepcopy(holder[key])
        elif kind == 2:
            other, where = self.place(content)
            holder[key] = copy.deepcopy(other[where])
        elif kind == 3:
            foreign, where = self.place(self.pick(self.contents)[0])
            holder[key] = copy.deepcopy(foreign[where])
        elif kind == 4 and isinstance(holder, dict):
            holder[self.pick(["coef_", "fit", "_x", "__class__", "array", "class", "n_jobs", "prior"])] = self.value()
        elif kind == 5 and isinstance(holder[key], list):
            holder[key] = holder[key] * 2
        else:
            holder[key] = self.value(holder[key])

    def value(self, old: Any = None) -> Any:
        """Return something to put in the place of another value."""
        if isinstance(old, int | float) and self.rng.random() < 0.5:
            return old + self.pick([-1, 1, 0.5, 10**7])
        plain = [self.pick(NUMBERS), self.pick(TEXTS), None, True, [], {}, {"list": []}, {"tuple": [0, 1]}]
        plain += [
            {"array": int(self.rng.integers(12))},
            {"objects": [1], "shape": [1]},
            {"class": "Cosine", "parameters": {}},
        ]
        return self.pick(plain)

    def place(self, content: Any) -> tuple[Any, Any]:
        """Choose a place by walking down from the top."""
        holder, key = content, self.pick(["model", "model", "model", "model", "arrays", "notes"])
        while isinstance(holder[key], dict | list) and holder[key] and self.rng.random() < 0.85:
            holder = holder[key]
            key = self.pick(list(holder)) if isinstance(holder, dict) else int(self.rng.integers(len(holder)))
        return holder, key

    def header(self, content: Any, arrays: bytearray) -> None:
        """Change dtype, shape, order or position of an array, often so that it still fits its bytes."""
        entry = self.pick(content["arrays"])
        kind = self.rng.integers(6)
        if kind == 0:
            entry["dtype"] = self.pick(DTYPES)
        elif kind == 1:
            entry["shape"] = [int(self.rng.integers(0, 9)) for _ in range(int(self.rng.integers(0, 4)))]
        elif kind == 2:
            entry["shape"] = self.pick([entry["shape"][::-1], [*entry["shape"], 1], [1, *entry["shape"]], [10**9, 0]])
        elif kind == 3:
            entry["shape"] = [int(np.prod(entry["shape"]))]
        elif kind == 4:
            entry["order"] = self.pick("CFAK")
        else:
            entry["at"] = self.pick([0, 64, -64, entry["at"] + 64, 10**12])

    def elements(self, content: Any, arrays: bytearray) -> None:
        """Change bytes of an array."""
        entry = self.pick(content["arrays"])
        size = min(int(np.prod(entry["shape"])) * np.dtype(entry["dtype"]).itemsize, len(arrays))
        pattern = self.pick(PATTERNS)
        start = entry["at"] + int(self.rng.integers(max(1, size // 8))) * 8
        stop = min(start + int(self.rng.choice([1, 8, max(1, size)])), entry["at"] + size)
        arrays[start:stop] = (pattern * (stop - start))[: stop - start]


def parted(data: bytes) -> tuple[Any, bytes]:
    """Return the content of the JSON text, and the bytes of the arrays."""
    (length,) = struct.unpack_from("<Q", data, PREFIX.size)
    start = 8 + length
    return json.loads(data[PREFIX.size + 8 : PREFIX.size + start]), data[PREFIX.size + start + -start % ALIGNMENT :]


def joined(content: Any, arrays: bytes) -> bytes:
    """Return the file of a JSON text and arrays."""
    text = json.dumps(content).encode()
    head = struct.pack("<Q", len(text)) + text
    return with_checksum(head + bytes(-len(head) % ALIGNMENT) + arrays)


def with_checksum(payload: bytes) -> bytes:
    """Return the file of a payload, as an attacker would make it."""
    digest = _digest(FORMAT_VERSION, len(payload), [memoryview(payload)])
    return PREFIX.pack(SIGNATURE, FORMAT_VERSION, len(payload), digest) + payload


def outcome(path: Path) -> str:
    """Load and predict; "fault: ..." if the rule is broken."""
    try:
        model = load(path)
    except ModelFileError:
        return "refused"
    X: Any = training_rows()[0]
    n_features = getattr(model, "n_features_in_", None)
    X = X @ X.T if n_features == N_ROWS else X
    if n_features is None and hasattr(last_step(model), "classes_"):  # of a pipeline whose rows are texts
        X = documents()
    answers = []
    for method in ("predict", "decision_function", "predict_sets", "threshold_function", "predict_proba"):
        try:
            answers.append(getattr(model, method)(X) if hasattr(model, method) else None)
        except (InputError, NotFittedError):
            answers.append(None)
        except ValueError as error:  # of scikit-learn: a sound model of other rows, or steps that leave the range
            if not any(text in str(error) for text in (f"expecting {n_features} features", *OF_OTHER_ROWS)):
                raise
    scores = answers[1] if len(answers) > 1 else None
    decides = last_step(model)
    impossible = getattr(decides, "rule", None) == "dap"  # where a category of probability 0 has the score -inf
    thresholds = isinstance(decides, ThresholdTuner | FixedThresholds)  # of which some are infinite
    if scores is not None and not np.all(
        np.isfinite(scores) | (impossible & (scores == -np.inf)) | (thresholds & np.isinf(scores))
    ):
        return "fault: scores that are not finite"
    return "answered"


def worker() -> None:
    """Answer file names on standard input, one a line, with an outcome and the memory used."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        before = peak_memory()
        try:
            answer = outcome(path)
        except BaseException as error:
            answer = f"fault: {type(error).__name__}: {error}".replace("\n", " ")
        if peak_memory() - before > 20 * path.stat().st_size + 200 * 2**20:
            answer = f"fault: {(peak_memory() - before) / 2**20:.0f} MiB for {path.stat().st_size} bytes"
        sys.stdout.write(answer.encode("ascii", "replace").decode() + "\n")
        sys.stdout.flush()


def peak_memory() -> int:
    """Return the most memory this process had so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Victim:
    """The process that loads and predicts, started again when it dies."""

    def __init__(self) -> None:
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, "--worker"]
        limit = 8 * 2**30  # so that an attack on memory takes down this process, not the machine
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )

    def try_file(self, path: Path) -> str:
        """Return what became of a file."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        answered = select.select([self.process.stdout], [], [], PATIENCE)[0]
        answer = self.process.stdout.readline().rstrip("\n") if answered else ""
        if answer:
            return answer
        if not answered:
            self.process.kill()
        code = self.process.wait()
        self.process = self._start()
        return f"fault: no answer within {PATIENCE} s" if not answered else f"fault: the process died with code {code}"

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def attack(seed: int, seconds: float, cases: int | None, keep: Path) -> int:
    """Run the attack; return the exit code."""
    files = [written(model) for model in small_models()]
    mutator = Mutator(files, np.random.default_rng(seed))
    victim, counts, faults = Victim(), Counter(), 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.mm"
        for data in files:  # the sound ones come first: they must answer
            path.write_bytes(data)
            assert victim.try_file(path) == "answered"
        while counts.total() < cases if cases is not None else time.monotonic() - began < seconds:
            path.write_bytes(mutator.file())
            answer = victim.try_file(path)
            counts[answer.partition(":")[0]] += 1
            if answer.startswith("fault"):
                faults += 1
                keep.mkdir(parents=True, exist_ok=True)
                kept = keep / f"seed-{seed}-case-{counts.total()}.mm"
                kept.write_bytes(path.read_bytes())
                sys.stdout.write(f"{kept}: {answer}\n")
    victim.close()
    sys.stdout.write(f"seed {seed}: {counts.total()} cases, {faults} faults ({dict(counts)})\n")
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, help="a number of files in place of seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for files that break the rule")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
    else:
        sys.exit(attack(options.seed, options.seconds, options.cases, options.keep))
