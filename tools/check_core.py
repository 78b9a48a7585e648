"""The walls of the core: includes follow the arrows, a header's namespace is its room, no name is defined twice.

The arrows are those of CONTRIBUTING.md: a room may include itself and the rooms below it. ``base`` is the vocabulary of
all rooms, so its namespace is inline.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BELOW = {
    "base": set(),
    "fit": {"base"},
    "labels": {"base"},
    "numerics": {"base"},
    "inference": {"base", "labels", "numerics"},
    "m3l": {"base", "fit", "labels", "numerics"},
    "submodular": {"base", "fit", "labels", "numerics", "inference"},
    "cliques": {"base", "fit", "labels", "numerics", "inference"},
    "separation": {"base", "fit", "labels", "numerics"},
    "boosting": {"base", "fit", "labels"},
    "prediction": {"base", "numerics"},
    "decisions": {"base"},
    "splits": {"base"},
    "text": {"base"},
}
INCLUDE = re.compile(r'#include "([^"]+)"')
NAMESPACE = re.compile(r"^namespace (multimargin[\w:]*(?: \w+)?) \{", re.MULTILINE)
# Types, aliases and concepts that begin a line: those of the room itself, not members.
TYPE = re.compile(r"^(?:class|struct|enum class|enum|using|concept) (\w+)(?! *<)[^;\n]*(?:\{|=)", re.MULTILINE)


def faults() -> list[str]:
    """Return a sentence for every broken wall."""
    found = []
    homes = defaultdict(set)
    for path in sorted((ROOT / "core").rglob("*.hpp")):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        room = name.split("/")[1]
        if room not in BELOW:
            found.append(f"{name}: the room {room!r} has no arrows; say in {Path(__file__).name} what it may include.")
            continue
        for included in INCLUDE.findall(text):
            if not (ROOT / included).is_file():
                found.append(f"{name} includes {included}, which does not exist.")
            elif not included.startswith("core/") or included.split("/")[1] not in BELOW[room] | {room}:
                found.append(f"{name} includes {included}: {room} may include {', '.join(sorted(BELOW[room]))} only.")
        own = "multimargin::inline base" if room == "base" else f"multimargin::{room}"
        others = [space for space in NAMESPACE.findall(text) if space != own and not space.startswith(f"{own}::")]
        if others:
            found.append(f"{name} is in namespace {others[0]}; its room is {own}.")
        for defined in TYPE.findall(text):
            homes[defined].add(name)
    for defined, names in sorted(homes.items()):
        if len(names) > 1:
            found.append(f"{defined} is defined in {' and in '.join(sorted(names))}: rename one.")
    return found


if __name__ == "__main__":
    broken = faults()
    sys.stderr.writelines(f"{fault}\n" for fault in broken)
    sys.exit(bool(broken))
