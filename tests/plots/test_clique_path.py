from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.errors import InputError
from multimargin.plots import CliquePathDisplay


def test_the_best_round_is_marked():
    path = SimpleNamespace(
        n_cliques=[0, 2, 4], training_loss=[0.3, 0.2, 0.1], validation_loss=[0.3, 0.22, 0.25], primal=[3, 2, 1]
    )
    display = CliquePathDisplay.from_estimator(SimpleNamespace(path_=path))
    training, held_out = display.ax_.get_lines()
    np.testing.assert_allclose(training.get_ydata(), [30, 20, 10])
    np.testing.assert_allclose(held_out.get_ydata(), [30, 22, 25])
    (mark,) = display.ax_.collections
    np.testing.assert_allclose(mark.get_offsets(), [[2, 22]])
    assert display.frame()["validation_loss"].tolist() == path.validation_loss
    path.validation_loss = [np.nan] * 3
    alone = CliquePathDisplay.from_path(path)
    assert len(alone.ax_.get_lines()) == 1
    assert not alone.ax_.collections


@pytest.mark.parametrize("model", [SimpleNamespace(path_=None), SimpleNamespace(C=1.0)])
def test_models_without_a_path_are_refused(model):
    with pytest.raises(InputError, match="graph='learned'"):
        CliquePathDisplay.from_estimator(model)
    with pytest.raises(InputError, match="has no n_cliques"):
        CliquePathDisplay.from_path(model)
