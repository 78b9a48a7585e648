"""A slice of the fuzzer of the estimators, the same one every time."""

import estimators
import pytest

from multimargin import LinearM3L, certify


@pytest.mark.parametrize("family", estimators.FAMILIES)
def test_certificates_are_those_of_the_model(family):
    tally = estimators.run(seed=0, cases=12, only=family)[family]
    assert not tally.faults, "\n".join(tally.faults)
    assert tally.cases == 12
    assert tally.refused < 12


def test_margins_of_the_prior_without_a_prior_can_be_certified(rng):
    X, Y = rng.normal(size=(30, 3)), rng.integers(2, size=(30, 4))
    model = LinearM3L(loss="prior", warm_start=True, random_state=0).fit(X, Y)
    assert certify(model, X, Y) == model.certificate_
    assert certify(model.set_params(loss="hamming"), X, Y) == model.certificate_
