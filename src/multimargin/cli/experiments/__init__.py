"""The experiments of the papers, run from declarative settings: one file per subject, one line each below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._common import Cell, Step
from .label_attraction import few_features, published_oracle
from .label_cliques import clique_count, clique_objective, clique_recovery, label_graphs
from .output_kernels import kernel_or_threshold, label_kernels_compared, output_kernels, training_sizes
from .shifted_labels import shifted_labels
from .training_times import cutting_plane_times, training_progress, training_times
from .unseen_animals import pair_correlation, unseen_attributes

__all__ = ["EXPERIMENTS", "Cell"]

EXPERIMENTS: dict[str, Callable[[dict[str, Any], Step], list[Cell]]] = {
    "unseen-attributes": unseen_attributes,
    "pair-correlation": pair_correlation,
    "shifted-labels": shifted_labels,
    "training-times": training_times,
    "training-progress": training_progress,
    "cutting-plane-times": cutting_plane_times,
    "output-kernels": output_kernels,
    "label-kernels-compared": label_kernels_compared,
    "training-sizes": training_sizes,
    "kernel-or-threshold": kernel_or_threshold,
    "clique-recovery": clique_recovery,
    "clique-objective": clique_objective,
    "label-graphs": label_graphs,
    "clique-count": clique_count,
    "few-features": few_features,
    "published-oracle": published_oracle,
}
