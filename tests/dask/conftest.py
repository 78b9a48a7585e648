import importlib.util

import pytest
from dask_problems import local_cluster

if importlib.util.find_spec("distributed") is None:  # pip install "multimargin[dask]"
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def cluster():
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    import distributed

    with distributed.Client(cluster) as client:
        yield client
