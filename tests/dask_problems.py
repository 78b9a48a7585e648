"""Small problems and clusters for the tests of multimargin.dask."""

import os
from itertools import pairwise

import numpy as np
import scipy.sparse as sp


def small_problem(n=300, n_features=12, n_labels=17, dtype=np.float64, seed=3):
    """Rows that are neither separable nor hard, with a few labels that are rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).astype(dtype)
    weights = rng.normal(size=(n_features, n_labels))
    Y = (X @ weights + 2 * rng.normal(size=(n, n_labels)) > np.linspace(0, 3, n_labels)).astype(np.int64)
    return X, Y


def sparse_problem(n=400, n_features=60, n_labels=9, dtype=np.float32, seed=4):
    rng = np.random.default_rng(seed)
    X = sp.random(n, n_features, density=0.15, format="csr", random_state=rng, dtype=np.float64).astype(dtype)
    weights = rng.normal(size=(n_features, n_labels))
    Y = sp.csr_matrix((X @ weights + 0.3 * rng.normal(size=(n, n_labels)) > 0.4).astype(np.int64))
    return X, Y


def cut(array, *cuts):
    """Blocks of consecutive rows."""
    ends = [0, *cuts, array.shape[0]]
    return [array[a:b] for a, b in pairwise(ends)]


def local_cluster(n_workers, **options):
    """A cluster of processes on this machine, as small as they come."""
    import dask
    import distributed

    # processes of a busy machine take their time
    os.environ["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "120s"
    dask.config.set({"distributed.comm.timeouts.connect": "120s"})
    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": "2GiB"}
    return distributed.LocalCluster(n_workers=n_workers, **(settings | options))
