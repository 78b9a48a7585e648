from collections.abc import Iterator

import matplotlib as mpl
import pytest
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    with mpl.rc_context():
        mpl.use("Agg")
        yield
        pyplot.close("all")
