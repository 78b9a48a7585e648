"""Priors made inside fit: from the labels of its rows, kept as they were used."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from multimargin import KernelM3L, LinearM3L, certify, load, plots, priors, save
from multimargin.errors import InputError, ModelFileError
from multimargin.inspection import explain

SHRUNK = partial(priors.from_labels, shrinkage=0.3)


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(60, 4))
    return X, (X @ rng.normal(size=(4, 5)) + rng.normal(size=(60, 5)) > 0.3).astype(int)


@pytest.mark.parametrize("estimator", [LinearM3L, KernelM3L])
@pytest.mark.parametrize("recipe", ["labels", SHRUNK, lambda Y: priors.LowRankPrior(np.ones((5, 1)), 0.5)])
def test_a_recipe_is_the_prior_it_makes(problem, estimator, recipe):
    X, Y = problem
    made = priors.from_labels(Y) if recipe == "labels" else recipe(Y)
    given = estimator(C=0.5, prior=made, random_state=0).fit(X, Y)
    cooked = estimator(C=0.5, prior=recipe, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(given.decision_function(X), cooked.decision_function(X))
    assert given.certificate_ == cooked.certificate_
    assert certify(cooked, X, Y).primal == pytest.approx(cooked.certificate_.primal)
    np.testing.assert_allclose(
        explain(cooked, X[0], 2).borrowed.sum(), explain(given, X[0], 2).borrowed.sum(), rtol=1e-12
    )


def test_every_form_of_labels(problem):
    X, Y = problem
    frame = pd.DataFrame(Y, columns=list("abcde"))
    plain = LinearM3L(prior="labels").fit(X, Y)
    for given in (frame, sp.csr_array(Y), frame.astype(bool), [set(np.flatnonzero(row).tolist()) for row in Y]):
        np.testing.assert_array_equal(LinearM3L(prior="labels").fit(X, given).prior_, plain.prior_)
    frames = []
    LinearM3L(prior=lambda labels: frames.append(labels) or np.eye(5)).fit(X, frame)
    assert frames[0] is frame


def test_no_prior_and_a_given_one_are_kept_too(problem):
    X, Y = problem
    assert LinearM3L().fit(X, Y).prior_ is None
    R = 0.6 * np.eye(5) + 0.4
    names = list("abcde")
    frame = pd.DataFrame(R, index=names, columns=names)
    np.testing.assert_array_equal(LinearM3L(prior=frame).fit(X, pd.DataFrame(Y, columns=names)).prior_, R)


@pytest.mark.parametrize("recipe", ["labels", SHRUNK])
def test_model_files(problem, tmp_path, recipe):
    X, Y = problem
    model = LinearM3L(prior=recipe).fit(X, Y)
    save(model, tmp_path / "m.mm")
    again = load(tmp_path / "m.mm")
    np.testing.assert_array_equal(again.prior_, model.prior_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert certify(again, X, Y).primal == pytest.approx(model.certificate_.primal)
    if recipe != "labels":  # a file holds no function, but what it made
        np.testing.assert_array_equal(again.prior, model.prior_)
        with pytest.raises(ModelFileError, match="LinearM3L.prior is a partial"):
            save(clone(model), tmp_path / "m.mm")


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("label", "Did you mean 'labels'?"),
        ("zzz", "or a function of Y"),
        (lambda Y: None, "must return a matrix"),
        (lambda Y: np.ones((2, 2)), "each of the 5 labels"),
        (lambda Y: -np.eye(5), "positive diagonal"),
    ],
)
def test_errors(problem, recipe, message):
    X, Y = problem
    with pytest.raises(InputError, match=message):
        LinearM3L(prior=recipe).fit(X, Y)


def test_a_recipe_is_drawn_once_it_is_made(problem):
    X, Y = problem
    with pytest.raises(InputError, match="Call fit first"):
        plots.PriorDisplay.from_estimator(LinearM3L(prior="labels"))
    drawn = plots.PriorDisplay.from_estimator(LinearM3L(prior="labels").fit(X, Y))
    np.testing.assert_allclose(np.sort(drawn.R.ravel()), np.sort(priors.from_labels(Y).ravel()))
