import itertools

import numpy as np
import pytest

from multimargin.datasets import make_clique_labels
from multimargin.errors import InputError


@pytest.mark.parametrize("cliques", [[], [(0, 1)], [(2, 0), (1, 3, 4)], [(0, 1), (1, 2), (2, 0)]])
def test_labels_maximise_the_score_over_all_label_vectors(cliques):
    data = make_clique_labels(n_samples=20, n_features=3, n_labels=5, cliques=cliques, random_state=0)

    def score(x, y):
        total = sum(data.node_weights[k, y[k]] @ x for k in range(5))
        for clique, weights in zip(data.cliques, data.clique_weights, strict=True):
            state = int("".join(str(y[k]) for k in clique), base=2)
            total += weights[state] @ x
        return total

    for x, y in zip(data.X, data.Y, strict=True):
        best = max(itertools.product((0, 1), repeat=5), key=lambda z: score(x, z))
        assert tuple(y) == best


def test_a_seed_gives_the_same_data():
    first, again = (make_clique_labels(50, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.Y, again.Y)
    assert not np.array_equal(first.X, make_clique_labels(50, random_state=4).X)


def test_without_cliques_a_label_depends_on_its_own_weights_only():
    data = make_clique_labels(200, n_labels=30, cliques=(), random_state=0)
    difference = data.node_weights[:, 1] - data.node_weights[:, 0]
    np.testing.assert_array_equal(data.Y, data.X @ difference.T > 0)


def test_wrong_arguments_are_told():
    for arguments, message in [
        ({"n_samples": 0}, "n_samples must be at least 1"),
        ({"cliques": [(0,)]}, "at least two labels"),
        ({"cliques": [(0, 0)]}, "all different"),
        ({"cliques": [(0, 10)]}, "from 0 to 9"),
        ({"cliques": [(0, 1), (1, 0)]}, "cliques must be different"),
        ({"n_labels": 30, "cliques": [(k, k + 1) for k in range(29)]}, "at most 20 labels"),
    ]:
        with pytest.raises(InputError, match=message):
            make_clique_labels(**arguments)
