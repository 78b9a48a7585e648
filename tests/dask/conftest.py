import pytest

distributed = pytest.importorskip("distributed", reason='pip install "multimargin[dask]"')


def local_cluster(n_workers, **options):
    """A cluster of processes on this machine, as small as they come."""
    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "memory_limit": "2GiB"}
    return distributed.LocalCluster(n_workers=n_workers, **(settings | options))


@pytest.fixture(scope="session")
def cluster():
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client
