"""A model that predicts nothing, everything, or several times too many labels says so once."""

import pickle
import warnings

import numpy as np
import pytest

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    KernelM3L,
    LabelCalibrator,
    LinearM3L,
    SubmodularClassifier,
    ThresholdTuner,
    ZeroShotClassifier,
    certify,
)
from multimargin.decisions import FixedThresholds, JointDecoder
from multimargin.errors import DecisionWarning
from multimargin.estimators import REGISTRY
from multimargin.estimators.label_rates import LabelRates


@pytest.fixture
def rare(rng):
    """Rare labels that cannot be told for sure: most boundaries lie beyond all rows."""
    X = rng.normal(size=(200, 3))
    return X, (X @ rng.normal(size=(3, 5)) + 3 * rng.normal(size=(200, 5)) > 5).astype(int)


@pytest.fixture
def many(rng):
    """More labels than the reference score of calibrated separation can tell apart."""
    X = rng.normal(size=(150, 10))
    return X, (X @ rng.normal(size=(10, 60)) / 3 + 1.5 * rng.normal(size=(150, 60)) + rng.normal(size=60) > 2).astype(
        int
    )


def told(fit):
    """Return what a fit said of decisions: once, or not at all."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    said = [w for w in caught if issubclass(w.category, DecisionWarning)]
    assert len(said) <= 1
    assert all(w.filename == __file__ for w in said)
    return said[0].message if said else None


@pytest.mark.parametrize("Estimator", REGISTRY.values())
@pytest.mark.parametrize("C", [1e-4, 1.0])
def test_every_estimator_counts_what_it_predicts_on_its_rows(Estimator, rare, C):
    X, Y = rare
    model = Estimator(C=C, random_state=0)
    said = told(lambda: model.fit(X, Y))
    predicted, true = model.predict(X).sum() / 200, Y.sum() / 200
    assert (said is not None) == (2.5 * predicted < true or predicted > 2.5 * true)
    if said is not None:
        assert f"predicts {predicted:.3g} of 5 labels per row where {true:.3g} are true (200 training rows)." in str(
            said
        )


def test_nothing_predicted_and_what_to_do(rare):
    X, Y = rare
    said = told(lambda: LinearM3L(C=1e-4).fit(X, Y))
    assert said.remedies == ["thresholds", "class_weight", "C"]
    assert str(said).endswith('Wrap it in ThresholdTuner, set class_weight="balanced", or try a larger C.')
    assert str(pickle.loads(pickle.dumps(said))) == str(said)
    assert told(lambda: ThresholdTuner(LinearM3L(C=1e-4), cv=2).fit(X, Y)) is None
    assert told(lambda: LinearM3L(C=1e-4, class_weight="balanced").fit(X, Y)) is None
    assert told(lambda: KernelM3L(C=100.0, gamma=10.0).fit(X, Y)) is None
    said = told(lambda: LinearM3L(C=1e-4, class_weight={0: 1.0, 1: 1.2}).fit(X, Y))
    assert said.remedies == ["thresholds", "C"]  # class_weight is in use
    said = told(lambda: SubmodularClassifier(C=1e-4, pairs=0).fit(X, Y))  # whose F-score takes no class weights
    assert said.remedies == ["thresholds", "C"]


def test_too_many_predicted(many):
    X, Y = many
    model = CalibratedSeparationClassifier(random_state=0)
    said = told(lambda: model.fit(X, Y))
    assert model.predict(X).sum() > 2.5 * Y.sum()
    assert said.remedies == ["thresholds"]
    weight = {0: 1.0, 1: 20.0}
    heavy = LinearM3L(class_weight=weight)
    assert told(lambda: heavy.fit(X, Y)) is None  # many, as was asked for
    assert heavy.predict(X).sum() > 2.5 * Y.sum()


def test_almost_all_labels_of_rows_that_have_most(rng):
    X = rng.normal(size=(200, 2))
    Y = (rng.random((200, 4)) < 0.8).astype(int)
    assert "predicts 4 of 4 labels per row where 3" in str(told(lambda: LinearM3L().fit(X, Y)))
    assert "in 1 of the rows where 0.8" in str(told(lambda: LinearM3L().fit(X, (rng.random(200) < 0.8).astype(int))))


def test_unknown_cells_constant_labels_and_rows_without_weight_do_not_count(rare, rng):
    X, Y = rare
    Y = Y.astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    weight = (rng.random(200) < 0.8).astype(float)
    more = np.column_stack([Y, np.zeros(200), np.ones(200)])
    said = told(lambda: LinearM3L(C=1e-4).fit(X, more, sample_weight=weight))
    used = Y[weight > 0]
    known = (~np.isnan(used)).sum() / len(used)
    assert f"0 of {known:.3g} labels per row where {np.nansum(used) / len(used):.3g} are true ({len(used)}" in str(said)


def test_a_sample_of_many_rows(rng):
    X = rng.normal(size=(2000, 2))
    Y = (rng.random((2000, 2)) < 0.1).astype(int)
    first, second = (told(lambda: LinearM3L().fit(X, Y)) for _ in range(2))
    assert str(first) == str(second)
    assert "(1000 training rows)" in str(first)


@pytest.mark.parametrize(
    ("predicted", "true", "weighted", "labels", "rows", "few", "many"),
    [
        (0.0, 1.0, 1.0, 10.0, 99, False, False),  # too few rows to tell
        (0.0, 0.19, 0.19, 10.0, 100, False, False),  # or too few labels
        (0.0, 0.2, 0.2, 10.0, 100, True, False),
        (0.41, 1.0, 1.0, 10.0, 100, False, False),
        (2.49, 1.0, 1.0, 10.0, 100, False, False),
        (2.51, 1.0, 1.0, 10.0, 100, False, True),
        (2.51, 1.0, 5.0, 10.0, 100, False, False),  # between what is true and what class weights ask for
        (0.0, 1.0, 0.01, 10.0, 100, False, False),  # class weights ask for next to nothing
        (9.3, 6.0, 6.0, 10.0, 100, False, True),  # less than one label in five that are absent is left out
        (9.1, 6.0, 6.0, 10.0, 100, False, False),
        (0.0, 0.0, 0.0, 10.0, 100, False, False),  # rows without labels
    ],
)
def test_the_rule(predicted, true, weighted, labels, rows, few, many):
    rates = LabelRates(predicted, true, weighted, labels, rows)
    assert (rates.few, rates.many) == (few, many)


def test_wrappers_that_decide_anew_say_nothing(rare):
    X, Y = rare
    base = LinearM3L(C=1e-4)
    cliques = CliqueClassifier(C=1e-4, graph=None, loss="softmax-margin")
    assert told(lambda: cliques.fit(X, Y)) is not None
    for wrapper in (
        ThresholdTuner(base, cv=2),
        LabelCalibrator(base, cv=2),
        FixedThresholds(base, -1.0),
        JointDecoder(cliques, cv=2),
        ThresholdTuner(LabelCalibrator(base, cv=2), cv=2),
    ):
        assert told(lambda wrapper=wrapper: wrapper.fit(X, Y)) is None
    model = LinearM3L(C=1e-4)
    told(lambda: model.fit(X, Y))
    assert told(lambda: certify(model, X, Y, refit=True)) is None


def test_zero_shot_uses_scores_alone(rng):
    signatures = dict(enumerate((rng.random((12, 6)) < 0.15).astype(int)))
    X, y = rng.normal(size=(200, 2)), rng.integers(10, size=200)
    for rule in ("correlation", "dap"):
        assert told(lambda rule=rule: ZeroShotClassifier(LinearM3L(C=1e-6), signatures, rule=rule).fit(X, y)) is None


def test_a_fit_far_from_its_optimum_is_told_to_converge_first(rare):
    assert told(lambda: SubmodularClassifier(C=100.0, max_iter=1).fit(*rare)) is None
