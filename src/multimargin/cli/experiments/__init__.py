"""The experiments of the papers, run from declarative settings: one file per subject, one line each below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._common import Cell, Step
from .label_attraction import few_features, published_oracle
from .output_kernels import output_kernels
from .unseen_animals import pair_correlation, unseen_attributes

__all__ = ["EXPERIMENTS", "Cell"]

EXPERIMENTS: dict[str, Callable[[dict[str, Any], Step], list[Cell]]] = {
    "unseen-attributes": unseen_attributes,
    "pair-correlation": pair_correlation,
    "output-kernels": output_kernels,
    "few-features": few_features,
    "published-oracle": published_oracle,
}
