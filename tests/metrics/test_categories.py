import numpy as np
import pytest
from sklearn.metrics import recall_score

from multimargin.errors import InputError
from multimargin.metrics import harmonic_mean_accuracy, per_class_accuracy


def test_per_class_accuracy_is_the_mean_recall_of_the_true_categories(rng):
    truth, guess = rng.choice(list("aabc"), size=50), rng.choice(list("abcx"), size=50)
    expected = recall_score(truth, guess, labels=np.unique(truth), average="macro", zero_division=0)
    assert per_class_accuracy(truth, guess) == pytest.approx(expected)
    with pytest.raises(InputError, match="1-D, of the same length"):
        per_class_accuracy(truth, guess[1:])


def test_harmonic_mean_of_seen_and_unseen():
    truth, guess = np.array(list("aabbbc")), np.array(list("abbbbx"))
    assert harmonic_mean_accuracy(truth, guess, ["a", "b"]) == 0.0
    assert harmonic_mean_accuracy(truth, truth, ["a", "b"]) == 1.0
    seen = (0.5 + 1) / 2
    assert harmonic_mean_accuracy(truth, np.array(list("abbbbc")), ["a", "b"]) == pytest.approx(2 * seen / (seen + 1))
    with pytest.raises(InputError, match="no unseen one"):
        harmonic_mean_accuracy(truth, guess, ["a", "b", "c"])
