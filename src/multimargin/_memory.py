"""Amounts of memory, as users give them and as messages say them."""

from __future__ import annotations

import os
import re
from numbers import Real
from pathlib import Path
from typing import Any

from multimargin.errors import InputError

__all__ = ["parse_bytes", "resident_bytes", "shown_bytes"]

UNITS = {"": 1, "b": 1} | {
    f"{letter}{kind}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for kind, base in (("b", 1000), ("ib", 1024))
}
AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*)\s*")


def parse_bytes(value: Any, subject: str = "memory_limit") -> int:
    """Return the number of bytes that a number, or a text such as ``"4 GiB"`` or ``"500 MB"``, stands for.

    A GB is 10^9 bytes, a GiB 2^30; letters may be small or large.

    Parameters
    ----------
    value : int, float or str
    subject : str
        What the error message calls the value.

    Returns
    -------
    int
        1 or more.

    Raises
    ------
    InputError
        If the value is no amount of memory.
    """
    number: float | None = None
    if isinstance(value, str):
        match = AMOUNT.fullmatch(value)
        if match and match[2].lower() in UNITS:
            number = float(match[1]) * UNITS[match[2].lower()]
    elif isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
    if number is None or not 1 <= number < 2**62:
        msg = f"{subject} must be a number of bytes above 0, or a text such as '4 GiB' or '500 MB'; got {value!r}."
        raise InputError(msg)
    return int(number)


def shown_bytes(count: float) -> str:
    """Return an amount of memory in the unit that suits it, such as ``"3.5 GiB"``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def resident_bytes() -> int:
    """Return how much memory this process holds now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0
