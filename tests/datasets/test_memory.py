"""When memory runs out, wherever it is, a reader says which file does not fit; it neither crashes nor returns less.

Both tests run in a process of their own: one in which the n-th C++ allocation fails for every n, one in which the whole
address space is limited.
"""

import os
import shutil
import subprocess
import sys

import pytest

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs LD_PRELOAD and RLIMIT_AS of Linux")

FAILING_NEW = r"""
#include <cstdlib>
#include <new>

static thread_local long left = -1;  // allocations before the one that fails; -1: none does
static thread_local bool lasting = false;

extern "C" void fail_after(long count, bool from_then_on) { left = count, lasting = from_then_on; }
extern "C" long remaining() { return left; }

void* operator new(std::size_t size) {
    if (left == 0) {
        if (!lasting) left = -1;
        throw std::bad_alloc();
    }
    if (left > 0) --left;
    if (void* p = std::malloc(size > 0 ? size : 1)) return p;
    throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
"""

EVERY_ALLOCATION = r"""
import ctypes, pathlib, sys
from multimargin import datasets
from multimargin.errors import FileFormatError

library, folder = ctypes.CDLL(sys.argv[1]), pathlib.Path(sys.argv[2])
library.fail_after.argtypes = (ctypes.c_long, ctypes.c_bool)
header = "@attribute a real\n@attribute 'a long name of an attribute' {x,'a long name of a category'}\n"
header += "@attribute l {0,1}\n"
texts = {
    "dense.arff": "@relation 'r: -C -1'\n@attribute b real\n" + header + "@data\n" + "1,2,x,1\n" * 9,
    "sparse.arff": "@relation 'r: -C -1'\n" + header + "@data\n" + "{0 1}\n{1 'a long name of a category',2 1}\n" * 9,
    "a.csv": "a,'a long name of a column',\"l\"\n" + '1,2,1\n"0.1000000000000000000001",4,0\n' * 9,
    "a.svm": "1,3 1:0.5 7:2\n2 3:1\n" * 9,
    "a.xmc": "18 8 4\n" + "1,3 1:0.5 7:2\n2 3:1\n" * 9,
}
for name, text in texts.items():
    path, options = folder / name, {"labels": ["l"]} if name == "a.csv" else {}
    path.write_text(text.replace("'", '"') if name == "a.csv" else text)
    whole = datasets.read(path, **options)
    for from_then_on in (False, True):
        count = failures = 0
        remaining = 0
        while remaining <= 0:
            library.fail_after(count, from_then_on)
            try:
                data = datasets.read(path, **options)
                error = None
            except FileFormatError as caught:
                error = str(caught)
            remaining = library.remaining()
            library.fail_after(-1, False)
            if error is None:
                assert abs(data.X - whole.X).sum() == 0 and (data.Y != whole.Y).nnz == 0
                assert data.X.shape == whole.X.shape and data.label_names == whole.label_names
            else:
                assert error.startswith(f"{path}: expected a file that fits into memory, found one that needs about ")
                failures += 1
            count += 1
        assert failures >= 15, (name, failures)
        print(name, failures)
"""

LIMITED_SPACE = r"""
import gzip, pathlib, resource, sys
import numpy as np
from multimargin import datasets
from multimargin.errors import FileFormatError

folder = pathlib.Path(sys.argv[1])
rows = 1 << 17
dense = {"X": np.zeros((rows, 8)), "Y": np.zeros((rows, 8), dtype=np.int8)}
np.savez_compressed(folder / "a.npz", **dense)
for name, text in {
    "a.svm.gz": b"1 1:1 2:1 3:1\n" * rows,
    "a.csv.gz": b"a,b,c,d,e,f,g,l\n" + b"1,1,1,1,1,1,1,0\n" * rows,
    "a.arff.gz": b"@relation 'r: -C 1'\n@attribute l {0,1}\n@attribute a real\n@data\n" + b"0,1\n" * 4 * rows,
}.items():
    (folder / name).write_bytes(gzip.compress(text, 1))

def space():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

ceiling = resource.getrlimit(resource.RLIMIT_AS)[1]
for name in ("a.svm.gz", "a.csv.gz", "a.arff.gz", "a.npz"):
    failures = successes = 0
    for extra in (0, 1, 2, 4, 8, 16, 32, 64, 512):
        resource.setrlimit(resource.RLIMIT_AS, (space() + (extra << 20), ceiling))
        try:
            data = datasets.read(folder / name, labels=["l"] if "csv" in name else None, max_bytes=1 << 40)
            error = None
        except FileFormatError as caught:
            error = str(caught)
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
        if error is None:
            assert data.X.shape[0] == data.Y.shape[0] == rows * (4 if "arff" in name else 1)
            successes += 1
        else:
            assert error.startswith(f"{folder / name}: expected a file that fits into memory, found one that needs ")
            failures += 1
        data = None
    assert failures >= 2 and successes >= 1, (name, failures, successes)
    print(name, failures, successes)
"""


def run(script, *arguments, **variables):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(
        command, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | variables, capture_output=True, text=True, check=False
    )
    print(done.stdout)  # noqa: T201
    assert done.returncode == 0, done.stderr[-3000:]


@linux
def test_whichever_allocation_fails_the_file_is_named(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    code, library = tmp_path / "failing_new.cpp", tmp_path / "failing_new.so"
    code.write_text(FAILING_NEW)
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", str(code), "-o", str(library)], check=True)
    run(EVERY_ALLOCATION, library, tmp_path, LD_PRELOAD=str(library))


@linux
def test_in_a_small_address_space_the_file_is_named(tmp_path):
    # Large blocks of freed memory go back to the system, so that the limit counts.
    run(LIMITED_SPACE, tmp_path, MALLOC_MMAP_THRESHOLD_="65536")
