import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20120)


@pytest.fixture(scope="session")
def data_home():
    """Folder of the real data sets, or a skip with the reason."""
    folder = os.environ.get("MULTIMARGIN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets are not at hand: set MULTIMARGIN_DATA to their folder")
    return Path(folder)
