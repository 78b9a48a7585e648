"""Types of the native module, written by nanobind from the module itself.

``python tools/stubs.py`` writes src/multimargin/_core.pyi; with ``--check`` it only says whether the file is right.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

from multimargin import _core

STUB = Path(__file__).resolve().parent.parent / "src" / "multimargin" / "_core.pyi"


def written() -> str:
    """Return the text of the stub; what only tests call has no types."""
    generator = StubGen(module=_core, quiet=True)
    generator.put(_core)
    text: str = generator.get()
    return re.sub(r"from [\w.]+ import testing as testing\n", "testing: Any\n", text)


if __name__ == "__main__":
    text = written()
    if "--check" not in sys.argv:
        STUB.write_text(text)
    elif STUB.read_text() != text:
        sys.exit(f"{STUB.name} is not what the native module says. Run: make stubs")
