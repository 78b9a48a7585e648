"""What to mind: of the labels, of the model, and of the rows it is judged on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.report.evidence import Evidence
from multimargin.report.html import element, join
from multimargin.report.layers import first_with
from multimargin.report.sections.part import Part

__all__ = ["mind_section", "what_to_mind"]

MOST_NAMES = 6


def mind_section(evidence: Evidence) -> Part | None:
    """Make the list of warnings."""
    found = what_to_mind(evidence)
    if not found:
        return None
    return Part("mind", "What to mind", (element("ul", join(element("li", words) for words in found), class_="mind"),))


def what_to_mind(evidence: Evidence) -> list[str]:
    """Return sentences: what is the case, and what to do about it."""
    found = [*_of_certificate(evidence.estimator), *_of_rows(evidence), *_of_labels(evidence)]
    seen = evidence.train_description
    if seen is not None:
        found += [f"Training rows: {words}" for words in seen.warnings]
    return found + [f"These rows: {words}" for words in evidence.description.warnings]


def _of_certificate(estimator: Any) -> list[str]:
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None:
        return []
    found = []
    if not certificate.converged:
        found.append(
            f"The model is not proved within its tolerance: its relative gap is {certificate.relative_gap:.1e}, tol "
            f"{estimator.tol:.0e}. Fit it again with a larger max_iter."
        )
    if certificate.oracle_exact < 1:
        found.append(
            f"{1 - certificate.oracle_exact:.1%} of the inference calls were not proved exact; the certificate uses "
            "their bounds."
        )
    return found


def _of_rows(evidence: Evidence) -> list[str]:
    if evidence.train is None:
        return ["The training rows were not given: whether the model has seen these rows is not known."]
    same = _shared_rows(evidence.train[0], evidence.X)
    if same is None or same == 0:
        return []
    if same == evidence.truth.n_samples:
        return [
            "All these rows are in the training rows: the numbers say nothing of new ones. Report on rows kept apart."
        ]
    words = "1 row is" if same == 1 else f"{same:,} rows are"
    return [f"{words} in the training rows, too: the numbers are a little too good. Remove duplicates."]


def _shared_rows(seen: Any, here: Any) -> int | None:
    """How many rows are equal to a training row; None for rows that are no numbers."""
    known, rows = _fingerprints(seen), _fingerprints(here)
    if known is None or rows is None:
        return None
    distinct = set(known)
    return sum(row in distinct for row in rows)


def _fingerprints(X: Any) -> list[bytes] | None:
    if sp.issparse(X):
        cells = sp.csr_array(X).astype(np.float64)
        cells.eliminate_zeros()
        cells.sort_indices()
        return [
            cells.indices[a:b].astype(np.int64).tobytes() + cells.data[a:b].tobytes()
            for a, b in pairwise(cells.indptr.tolist())
        ]
    values = np.asarray(X)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        return None
    return [row.tobytes() for row in values.astype(np.float64) + 0.0]


def _of_labels(evidence: Evidence) -> list[str]:
    found = []
    constant = getattr(evidence.estimator, "constant_labels_", None)
    if constant is not None and len(constant):
        found.append(f"Predicted the same for every row, for want of examples: {_names(constant)}.")
    tuner = first_with(evidence.model, "rare_labels_")
    if tuner is not None and len(tuner.rare_labels_):
        few = f"Fewer than 5 positives to tune on: {_names(tuner.rare_labels_)}"
        found.append(f"{few}. Their thresholds follow their frequency rather than their scores.")
    if tuner is not None and len(tuner.infeasible_labels_):
        found.append(
            f"Never predicted, because no threshold reaches what was asked for: {_names(tuner.infeasible_labels_)}."
        )
    return found


def _names(names: Any) -> str:
    shown = [str(name) for name in np.asarray(names).tolist()]
    rest = len(shown) - MOST_NAMES
    return ", ".join(shown[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")
