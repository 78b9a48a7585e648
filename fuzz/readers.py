"""Damaged data files of every format: each must give a sound table or an error that names the file.

    python fuzz/readers.py --seconds 60 --seed 0

Valid files are damaged at random (bytes, lines, numbers, header counts, compression) and read by the public readers in
this process, with warnings as errors. Everything but a sound table or an InputError is a fault: its file is kept, its
path printed, and the exit code is 1. A case depends on the seed and its number alone; after a crash of the whole
process its file is ``current.*`` in the folder printed first.
"""

import argparse
import faulthandler
import gzip
import io
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from multimargin import datasets
from multimargin.errors import InputError

MAX_BYTES = 1 << 24


class Case(NamedTuple):
    """A file to read and how."""

    ending: str
    content: bytes
    options: dict[str, Any]


TEXTS: dict[str, tuple[bytes, dict[str, Any]]] = {
    ".arff": (
        b"@relation 'f: -C 2'\n@attribute l1 {0,1}\n@attribute 'l 2' {true,false}\n@attribute a numeric\n% note\n"
        b"@attribute c {red,'dark blue',green}\n@data\n1,true,0.5,red\n0,false,-2e3,'dark blue'\n1,true,?,green\n",
        {"missing": "nan"},
    ),
    ".sparse.arff": (
        b"@RELATION 'f: -C -2'\n@ATTRIBUTE a REAL\n@ATTRIBUTE c {x,y}\n@ATTRIBUTE d string\n@ATTRIBUTE l1 {0,1}\n"
        b"@ATTRIBUTE l2 {1,0}\n@DATA\n{0 1.5,3 1}\n{1 y, 4 0}\n{}\n",
        {"ignore": ["d"]},
    ),
    ".svm": (b"1,3 1:0.5 7:2\n2 3:1e-3 # note\n\n 5:1\n", {}),
    ".xmc": (b"3 8 4\n1,3 0:0.5 7:2\n2 3:1e-3\n 5:1\n", {}),
    ".csv": (b'a,"b ""x""",l1,l2\r\n0.5,1,1,0\r\n"2",-3e2,0,true\r\n,NA,1,0\r\n', {"labels": -2, "missing": "nan"}),
    ".tsv": (b"i\ta\tl1\nx\t1e3\t1\ny\t.5\tFALSE\n", {"labels": ["l1"], "ignore": ["i"]}),
    ".text.csv": (b',t,l\n0,"some, words",yes\n1,more,N\n2,,?\n', {"labels": ["l"], "text": "t"}),
    ".json": (
        b'[{"a": 1.5, "b": null, "l": ["x", "y"]},\n {"a": true, "b": -2e3, "l": []}, {"a": 0, "b": 1}]\n',
        {"labels": ["l"], "missing": "nan"},
    ),
    ".jsonl": (
        b'{"a": "some words", "l": 1, "m": false}\n{"a": "more", "l": "no", "m": null}\n',
        {"labels": ["l", "m"], "text": "a"},
    ),
    ".txt": (b"0 0:1 2:2\n1 1:1\n", {}),
}
XML = b'<labels xmlns="http://mulan.sourceforge.net/labels"><label name="l1"><label name="l 2"/></label></labels>'
NUMBERS = [b"0", b"1", b"-1", b"7", b"1e400", b"-1e400", b"1e-400", b"nan", b"inf", b"2147483646", b"2147483647"]
NUMBERS += [b"16777217", b"4294967296", b"9223372036854775807", b"99999999999999999999", b"1" * 400, b"0." + b"0" * 400]
SPECIAL = [bytes([c]) for c in b" ,:;{}'\"\n\r\t@%#?\\019-e.+nai\x00\xff"] + [b"\xef\xbb\xbf", b"\xc3"]


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Return the content after one to three injuries."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(INJURIES)(rng, content)
    return content


def _flip(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _put(rng: random.Random, content: bytes) -> bytes:
    at = rng.randint(0, len(content))
    return content[:at] + rng.choice(SPECIAL) * rng.choice((1, 1, 2, 50)) + content[at + rng.randint(0, 1) :]


def _cut(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randint(0, len(content))]


def _drop(rng: random.Random, content: bytes) -> bytes:
    at = rng.randint(0, len(content))
    return content[:at] + content[at + rng.randint(1, 10) :]


def _lines(rng: random.Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    rng.choice(
        (
            lambda: lines.insert(other, lines[one]),
            lambda: lines.__setitem__(slice(one, one), [lines[one]] * 100),
            lambda: lines.pop(one),
            lambda: lines.__setitem__(one, lines[one].rstrip(b"\r\n") + lines[other]),
        )
    )()
    return b"".join(lines)


def _number(rng: random.Random, content: bytes) -> bytes:
    """Replace one number; half of the time one of the first line, where headers state counts."""
    places = list(re.finditer(rb"\d+", content.partition(b"\n")[0] if rng.random() < 0.5 else content))
    if not places:
        return content
    place = rng.choice(places)
    return content[: place.start()] + rng.choice(NUMBERS) + content[place.end() :]


INJURIES: list[Callable[[random.Random, bytes], bytes]] = [_flip, _put, _cut, _drop, _lines, _number, _number]


def _text(rng: random.Random) -> Case:
    ending = rng.choice(list(TEXTS))
    content, options = TEXTS[ending]
    content = damaged(rng, content)
    if rng.random() < 0.3:
        ending += ".gz"
        content = gzip.compress(content, 1, mtime=0)
        if rng.random() < 0.5:
            at = max(0, len(content) - rng.randint(1, 12))
            content = content[:at] + damaged(rng, content[at:])
    return Case(ending, content, options)


def _counted(rng: random.Random) -> Case:
    """Sparse text with counts asked for."""
    ending = rng.choice((".svm", ".xmc"))
    counts = (0, 1, 4, 8, 2**24, 2**24 + 1, 2**31 - 2, 2**31, 2**63, -1)
    options = {key: rng.choice(counts) for key in ("n_features", "n_labels") if rng.random() < 0.7}
    return Case(ending, damaged(rng, TEXTS[ending][0]), options)


def _label_file(rng: random.Random) -> Case:
    return Case(".xml", damaged(rng, XML), {})


def _array(rng: random.Random, good: Any) -> Any:
    """Return an array in another type or shape, or with strange numbers."""
    array = np.array(good)
    kind = rng.choice((1, 4)) if array.dtype.kind not in "iuf" else rng.randrange(6)
    with np.errstate(all="ignore"):
        if kind == 0:
            return array.astype(rng.choice(("f2", "f4", "f8", "g", "i1", "u1", "u8", "?", "c16", "U3", "S2")))
        if kind == 1:
            return array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (1, 1, -1))))
        if kind == 2 and array.size:
            array = array.astype(np.float64)
            array.flat[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, 1e300, -1.0, 2.0))
        elif kind == 3:
            array = array + np.array(rng.choice((1, -1, 2**31, 2**62)))
        elif kind == 4:
            array = array[: rng.randint(0, 2)]
    return array


def _archive(rng: random.Random) -> Case:
    X = np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 0.0]])
    arrays: dict[str, Any] = {"X": X, "Y": np.array([[1, 0], [0, 1], [1, 1]])}
    if rng.random() < 0.5:
        arrays["X_data"], arrays["X_indices"], arrays["X_indptr"] = [1.5, 2.0], [1, 0], [0, 1, 2, 2]
        del arrays["X"]
        if rng.random() < 0.5:
            arrays["X_shape"] = [3, 2]
    if rng.random() < 0.3:
        arrays["label_names"] = ["l", "m"]
    for _ in range(rng.randint(0, 2)):
        key = rng.choice(list(arrays))
        arrays[key] = _array(rng, arrays[key])
    made = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(made, **arrays)
    content = made.getvalue()
    kind = rng.randrange(3)
    if kind == 0:
        return Case(".npz", damaged(rng, content), {})
    if kind == 1:  # damaged arrays whose checksums are right
        members = zipfile.ZipFile(io.BytesIO(content))
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as copy:
            for name in members.namelist():
                stored = members.read(name)
                copy.writestr(zipfile.ZipInfo(name), damaged(rng, stored) if rng.random() < 0.4 else stored)
        content = made.getvalue()
    return Case(".npz", content, {})


def _parquet(rng: random.Random) -> Case:
    import pyarrow as pa
    import pyarrow.parquet

    strange: list[Any] = [
        pa.array(["x", "y", None]),
        pa.array([1, None, 3]),
        pa.array([1.5, np.nan, np.inf]),
        pa.array([[1], [2, 3], []]),
        pa.array([True, None, False]),
        pa.array([1e300, -1e300, 1e-300]),
        pa.array([2**63, 1, 0], pa.uint64()),
        pa.array(["a", "a", "b"]).dictionary_encode(),
        pa.array([1, 2, 3], pa.timestamp("s")),
        pa.nulls(3),
    ]
    columns = {"a": pa.array([0.5, 1.0, 2.0]), "l": pa.array([0, 1, 1])}
    for name in rng.sample(["a", "l", "a.b", ""], rng.randint(0, 2)):
        columns[name] = rng.choice(strange)
    made = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), made, compression=rng.choice(("none", "snappy", "gzip")))
    content = made.getvalue()
    options = {"labels": ["l"], "missing": rng.choice(("nan", "error")), "dtype": rng.choice((np.float32, np.float64))}
    return Case(".parquet", damaged(rng, content) if rng.random() < 0.5 else content, options)


def makers() -> list[Callable[[random.Random], Case]]:
    """Return what makes cases; text, where the readers are our own, most often."""
    made = [_text] * 6 + [_counted, _label_file, _archive, _archive]
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return made
    return [*made, _parquet]


def check(data: datasets.Dataset, may_miss: bool) -> None:
    """Assert what every table promises."""
    n = len(data.X) if data.X.ndim == 1 else data.X.shape[0]
    assert n > 0
    assert data.Y.shape == (n, len(data.label_names))
    unknown = np.isnan(data.Y.data)
    assert data.Y.dtype == (np.float64 if unknown.any() else np.int64)
    assert (unknown | (data.Y.data == 1)).all()
    data.Y.check_format(full_check=True)
    if data.X.ndim == 1:
        assert all(isinstance(text, str) for text in data.X)
        return
    assert data.feature_names is None or len(data.feature_names) == data.X.shape[1]
    if issparse(data.X):
        data.X.check_format(full_check=True)
    values = data.X.data if issparse(data.X) else data.X
    assert not np.isinf(values).any()
    assert may_miss or not np.isnan(values).any()


def fault_of(path: Path, options: dict[str, Any]) -> str | None:
    """Read a file; return the traceback of what must not happen."""
    try:
        if path.suffix == ".xml":
            labels = path
            path = path.with_name("labelled.arff")
            path.write_bytes(TEXTS[".arff"][0])
            options = {"labels": labels, "missing": "nan"}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is an index that pandas wrote")
            check(datasets.read(path, max_bytes=MAX_BYTES, **options), options.get("missing") == "nan")
    except InputError as error:
        if not str(error) or "\n" in str(error):
            return f"an empty message or one of many lines: {error!r}"
    except BaseException:
        return traceback.format_exc()
    return None


def run(
    seed: int, folder: Path, seconds: float = np.inf, cases: float = np.inf, first: int = 0
) -> tuple[int, list[Path]]:
    """Try cases until time or cases are over; return how many, and the files of faults."""
    until = time.monotonic() + seconds
    make = makers()
    faults: list[Path] = []
    number = first
    while number < first + cases and time.monotonic() < until:
        rng = random.Random(f"{seed}/{number}")
        case = rng.choice(make)(rng)
        path = folder / f"current{case.ending}"
        path.write_bytes(case.content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fault = fault_of(path, case.options)
        if fault is not None:
            kept = folder / f"fault-{seed}-{number}{case.ending}"
            shutil.copy(path, kept)
            faults.append(kept)
            print(f"{kept} with {case.options}:\n{fault}", flush=True)
        number += 1
    return number - first, faults


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=float, default=np.inf, help="stop after so many")
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to see one again")
    options = parser.parse_args()
    faulthandler.enable()
    folder = Path(tempfile.mkdtemp(prefix="multimargin-fuzz-"))
    print(f"seed {options.seed}, files in {folder}", flush=True)
    count, faults = run(options.seed, folder, options.seconds, options.cases, options.first)
    print(f"seed {options.seed}: {count} cases tried, {len(faults)} faults")
    if not faults:
        shutil.rmtree(folder)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
