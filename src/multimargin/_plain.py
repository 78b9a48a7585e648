"""Values as JSON knows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Return a value as plain Python objects; NaN and infinity become None, other objects their text.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"gap": np.float64(0.5), "scores": np.array([1.0, np.nan])})
    {'gap': 0.5, 'scores': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
