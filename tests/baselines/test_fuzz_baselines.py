"""A slice of the fuzzer of the baselines, the same one every time, and cases in which it once found a fault."""

import baseline_estimators
import estimators
import pytest

FAMILIES, RELAXED = baseline_estimators.FAMILIES, baseline_estimators.RELAXED


def tally_of(family, **chosen):
    families = FAMILIES if family in FAMILIES else RELAXED
    return estimators.run(only=family, families=families, **chosen)[family]


@pytest.mark.parametrize("family", [*FAMILIES, *RELAXED])
def test_certificates_are_those_of_the_model(family):
    tally = tally_of(family, seed=0, cases=6)
    assert not tally.faults, "\n".join(tally.faults)
    assert tally.cases == 6
    assert tally.refused < 6


@pytest.mark.parametrize(
    ("family", "seed", "number"),
    [
        ("binary-relevance", 0, 24),  # conjugate gradients divided by what rounding had left
        ("binary-relevance", 1, 136),
        ("group-sparse-log-linear", 3, 275),  # steps were shortened to nothing
    ],
)
def test_rounding_stops_no_training(family, seed, number):
    tally = tally_of(family, seed=seed, cases=1, first=number)
    assert not tally.faults, "\n".join(tally.faults)
