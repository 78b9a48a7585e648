"""Hypothesis strategies for training data: small, of every scale, precision and layout, with unknown labels."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from problems import Case

__all__ = ["multilabel_problems"]


@st.composite
def multilabel_problems(draw, most_rows=24, most_features=5, most_labels=5, most_decades=6):
    """Draw a Case; it shrinks towards few rows of scale 1, dense, in double precision, with all labels known."""
    n, d = draw(st.integers(2, most_rows)), draw(st.integers(1, most_features))
    n_labels = draw(st.integers(1, most_labels))
    decades = draw(st.integers(-most_decades, most_decades))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    sparse = draw(st.booleans())
    unknown = draw(st.sampled_from([0.0, 0.1, 0.5]))
    weighted = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    X = rng.normal(size=(n, d))
    sign = np.where(X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0, 1.0, -1.0)
    known = rng.random(sign.shape) >= unknown
    known[0, 0] = True
    X = (10.0**decades * X).astype(dtype)
    Y = (sign > 0).astype(int) if known.all() else np.where(known, sign > 0, np.nan)
    weight = rng.uniform(0.5, 2.0, size=n) if weighted else None
    return Case(sp.csr_array(X) if sparse else X, Y, weight, X.astype(np.float64), sign, known)
