"""What every estimator promises. A new estimator is one line in multimargin.estimators.REGISTRY."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from interrupts import assert_answers_ctrl_c
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from multimargin.errors import InputError
from multimargin.estimators import REGISTRY, CliqueClassifier, SubmodularClassifier

pytestmark = pytest.mark.contract

ESTIMATORS = list(REGISTRY.values())

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "compares to 1e-7, while a fit is only certified to tol=1e-3",
    "check_sample_weight_equivalence_on_sparse_data": "compares to 1e-7, while a fit is only certified to tol=1e-3",
}


OWN_FAILURES = {
    SubmodularClassifier: "the F-score of a row takes no class weights",
    CliqueClassifier: "class weights are margins of the structured loss: an error costs its score, whatever its class",
}


def expected_failures(estimator):
    own = OWN_FAILURES.get(type(estimator))
    return EXPECTED_FAILURES if own is None else {**EXPECTED_FAILURES, "check_class_weight_classifiers": own}


@parametrize_with_checks([E() for E in ESTIMATORS], expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore:.*[Cc]onstant predictions:UserWarning")
@pytest.mark.filterwarnings("ignore::multimargin.errors.DecisionWarning")  # the checks draw labels that are noise
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks do not scale their features
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(params=ESTIMATORS, ids=lambda E: E.__name__)
def Estimator(request):
    return request.param


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(60, 5))
    Y = (X @ rng.normal(size=(5, 4)) + 0.5 * rng.normal(size=(60, 4)) > 0).astype(int)
    return X, Y


def test_predictions_take_the_form_of_y(Estimator, problem):
    X, Y = problem
    names = ["sea", "sun", "sky", "sand"]
    reference = Estimator(random_state=0).fit(X, Y).predict(X)
    assert reference.dtype == Y.dtype

    frame = Estimator(random_state=0).fit(X, pd.DataFrame(Y, columns=names)).predict(X)
    assert frame.columns.tolist() == names
    np.testing.assert_array_equal(frame.to_numpy(), reference)

    for kind in (sp.csr_matrix, sp.csr_array, sp.csc_array):
        sparse = Estimator(random_state=0).fit(X, kind(Y)).predict(X)
        assert type(sparse) is kind
        np.testing.assert_array_equal(sparse.toarray(), reference)

    sets = [{names[j] for j in np.flatnonzero(row)} for row in Y]
    model = Estimator(random_state=0).fit(X, sets)
    order = np.argsort(names)
    assert model.label_names_.tolist() == sorted(names)
    expected = [{names[j] for j in np.flatnonzero(row)} for row in reference]
    agreement = np.mean([a == b for a, b in zip(model.predict(X), expected, strict=True)])
    assert agreement > 0.9  # the same problem with the labels in another order, to the same tolerance
    assert [set(t) for t in model.predict_sets(X)] == model.predict(X)
    assert model.decision_function(X).shape == (60, len(order))


def test_data_frame_rows_keep_their_index(Estimator, problem):
    X, Y = problem
    index = [f"row{i}" for i in range(60)]
    model = Estimator().fit(pd.DataFrame(X, index=index).rename(columns=str), pd.DataFrame(Y))
    assert model.predict(pd.DataFrame(X, index=index).rename(columns=str)).index.tolist() == index
    assert model.feature_names_in_.tolist() == ["0", "1", "2", "3", "4"]


def test_one_dimensional_y(Estimator, problem):
    X, Y = problem
    y = np.where(Y[:, 0] == 1, "yes", "no")
    model = Estimator(random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.decision_function(X).shape == (60,)
    np.testing.assert_array_equal(model.predict(X) == "yes", model.decision_function(X) > 0)
    assert model.score(X, y) == np.mean(model.predict(X) == y)


@pytest.mark.parametrize("form", ["matrix", "frame", "column"])
def test_labels_and_scores_together_are_those_asked_for_one_by_one(Estimator, problem, form):
    X, Y = problem
    X, Y = {"matrix": (X, sp.csr_array(Y)), "frame": (pd.DataFrame(X).rename(columns=str), pd.DataFrame(Y))}.get(
        form, (X, np.where(Y[:, 0], "yes", "no"))
    )
    model = Estimator(random_state=0).fit(X, Y)
    labels, scores = model.predict_with_scores(X)
    alone = model.predict(X)
    assert type(labels) is type(alone)
    np.testing.assert_array_equal(scores, model.decision_function(X))
    if form == "frame":
        pd.testing.assert_frame_equal(labels, alone)
    else:
        np.testing.assert_array_equal(*(part.toarray() if form == "matrix" else part for part in (labels, alone)))


def test_certificate_and_history(Estimator, problem):
    model = Estimator(tol=1e-4).fit(*problem)
    certificate = model.certificate_
    assert certificate.converged
    assert certificate.gap == certificate.primal - certificate.dual
    assert 0 <= certificate.relative_gap <= 1e-4
    assert certificate.oracle_exact == 1.0
    history = model.history_
    assert history.primal[-1] == certificate.primal
    assert np.all(history.primal >= history.dual)  # weak duality
    assert np.all(np.diff(history.time) >= 0)
    assert model.n_iter_ == history.pass_[-1]
    with pytest.raises(AttributeError):
        certificate.primal = 0.0


def test_missing_labels_are_masked(Estimator, problem, rng):
    """A row whose labels are all unknown may as well not be there."""
    X, Y = problem
    noise = rng.normal(size=(15, 5))
    with_unknown = np.vstack([Y.astype(float), np.full((15, 4), np.nan)])
    a = Estimator(tol=1e-8, max_iter=100_000).fit(np.vstack([X, noise]), with_unknown)
    b = Estimator(tol=1e-8, max_iter=100_000).fit(X, Y)
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-7)


def test_zero_weight_rows_count_for_nothing(Estimator, problem, rng):
    X, Y = problem
    weight = (rng.random(60) < 0.7).astype(float)
    a = Estimator(tol=1e-8, max_iter=100_000).fit(X, Y, sample_weight=weight)
    b = Estimator(tol=1e-8, max_iter=100_000).fit(X[weight > 0], Y[weight > 0])
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-7)


def test_constant_labels_are_predicted_constant(Estimator, problem):
    X, Y = problem
    Y = np.column_stack([Y, np.zeros(60, int), np.ones(60, int)])
    with pytest.warns(UserWarning, match="labels 4, 5"):
        model = Estimator().fit(X, Y)
    assert model.constant_labels_.tolist() == [4, 5]
    prediction = model.predict(3.0 * X)
    assert not prediction[:, 4].any()
    assert prediction[:, 5].all()


def test_one_row_and_one_label(Estimator):
    with pytest.warns(UserWarning, match="Constant"):
        model = Estimator().fit([[1.0, 2.0]], [[1, 0]])
    np.testing.assert_array_equal(model.predict([[0.0, 0.0]]), [[1, 0]])
    model = Estimator().fit([[1.0], [-1.0]], [[1], [0]])
    np.testing.assert_array_equal(model.predict([[2.0], [-2.0]]), [[1], [0]])


def test_callback_sees_every_pass_and_can_stop(Estimator, problem):
    seen = []
    model = Estimator(tol=1e-12, callback=lambda p: seen.append(p) or len(seen) == 3).fit(*problem)
    assert [p.pass_ for p in seen] == [1, 2, 3]
    assert model.n_iter_ == 3
    assert not model.certificate_.converged
    assert all((p.gap is None) == (p.primal is None) for p in seen)


def hard_problem(rng, n=3000):
    """Noise with a shifted mean: no solver finishes it to a tiny tolerance at once."""
    X = rng.normal(size=(n, 60)) + 3.0
    return X, (rng.random((n, 16)) < 0.3).astype(int)


@pytest.mark.filterwarnings("ignore::multimargin.errors.DecisionWarning")  # after one pass, any
def test_limits_warn_with_numbers_and_remedy(Estimator, rng):
    X, Y = hard_problem(rng)
    with pytest.warns(ConvergenceWarning, match=r"after 1 passes with relative duality gap .* Increase max_iter"):
        Estimator(tol=1e-14, max_iter=1).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="Increase time_limit"):
        Estimator(C=100.0, tol=1e-14, max_iter=10**9, time_limit=0.05).fit(X, Y)


LONG_FIT = """
import numpy as np
from multimargin.estimators import REGISTRY
X = np.random.default_rng(0).normal(size=(40_000, 60)) + 3.0
Y = np.random.default_rng(1).random((40_000, 64)) < 0.3
model = {{E.__name__: E for E in REGISTRY.values()}}["{name}"](C=100.0, tol=1e-14, max_iter=10**9, n_jobs={n_jobs})
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_in_native_code_raises_and_leaves_no_half_fitted_model(Estimator, n_jobs):
    setup = LONG_FIT.format(name=Estimator.__name__, n_jobs=n_jobs)
    fitted = assert_answers_ctrl_c("model.fit(X, Y)", setup=setup, after=1.0, state="hasattr(model, 'certificate_')")
    assert fitted == "False"


def test_verbose_prints_to_standard_error(Estimator, problem, capsys):
    Estimator(verbose=1).fit(*problem)
    out, err = capsys.readouterr()
    assert not out
    assert "relative gap" in err


def test_works_in_pipeline_and_grid_search(Estimator, problem):
    X, Y = problem
    grid = {f"{Estimator.__name__.lower()}__C": [0.1, 1.0]}
    search = GridSearchCV(make_pipeline(StandardScaler(), Estimator()), grid, cv=3)
    search.fit(X, Y)
    assert search.best_estimator_.predict(X).shape == Y.shape
    assert search.score(X, Y) == np.mean(np.all(search.predict(X) == Y, axis=1))


def test_score_leaves_unknown_labels_out(Estimator, problem):
    X, Y = problem
    model = Estimator().fit(X, Y)
    truth = model.predict(X).astype(float)
    assert model.score(X, truth) == 1.0
    truth[0, 0] = 1 - truth[0, 0]
    assert model.score(X, truth) == pytest.approx(59 / 60)
    truth[0, 0] = np.nan
    assert model.score(X, truth) == 1.0


WRONG_FITS = {
    "nan in X": (lambda X, Y: (np.where(X > 2, np.nan, X), Y), {}, "NaN"),
    "inf in X": (lambda X, Y: (np.where(X > 1, np.inf, X), Y), {}, "infinity"),
    "no rows": (lambda X, Y: (X[:0], Y[:0]), {}, "0 sample"),
    "rows differ": (lambda X, Y: (X, Y[:-1]), {}, "X has 60 rows but Y has 59"),
    "bad labels": (lambda X, Y: (X, Y + 1), {}, "got values"),
    "nothing known": (lambda X, Y: (X, np.full(Y.shape, np.nan)), {}, "no known label"),
    "C": (lambda X, Y: (X, Y), {"C": 0.0}, "'C' parameter"),
    "tol": (lambda X, Y: (X, Y), {"tol": -1.0}, "'tol' parameter"),
    "max_iter": (lambda X, Y: (X, Y), {"max_iter": 0}, "'max_iter' parameter"),
    "class_weight": (lambda X, Y: (X, Y), {"class_weight": {0: 1.0, 7: 1.0}}, "class 7"),
    "class_weight length": (lambda X, Y: (X, Y), {"class_weight": [{0: 1}]}, "1 entries for 4 labels"),
    "class_weight sign": (lambda X, Y: (X, Y), {"class_weight": {1: -1.0}}, "not negative"),
}


@pytest.mark.parametrize("case", WRONG_FITS)
def test_bad_input_is_refused_before_work(Estimator, problem, case):
    change, parameters, words = WRONG_FITS[case]
    if not set(parameters) <= set(Estimator().get_params()):
        pytest.skip(f"{Estimator.__name__} has no such parameter")
    passes = []
    with pytest.raises(ValueError, match=words):
        Estimator(**parameters, callback=passes.append).fit(*change(*problem))
    assert not passes


@pytest.mark.parametrize("weight", [np.ones(59), -np.ones(60), np.full(60, np.nan), np.ones((60, 3)), np.zeros(60)])
def test_bad_sample_weight_is_refused(Estimator, problem, weight):
    with pytest.raises(InputError, match="sample_weight"):
        Estimator().fit(*problem, sample_weight=weight)


def test_weights_of_cells_count_or_are_refused(Estimator, problem):
    X, Y = problem
    row, cell = np.linspace(0.5, 2.0, 60), np.ones((60, 4))
    if not Estimator._weighs_cells:
        with pytest.raises(InputError, match=r"a weight per row.* sample_weight.shape == \(60, 4\)"):
            Estimator().fit(X, Y, sample_weight=cell)
        return
    a = Estimator(tol=1e-7, max_iter=100_000).fit(X, Y, sample_weight=row)
    b = Estimator(tol=1e-7, max_iter=100_000).fit(X, Y, sample_weight=row[:, None] * cell)
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-6)


def test_other_number_of_features_is_refused(Estimator, problem):
    X, Y = problem
    with pytest.raises(ValueError, match="X has 4 features, but .* is expecting 5"):
        Estimator().fit(X, Y).predict(X[:, :4])


def test_fit_leaves_parameters_and_data_alone(Estimator, problem):
    X, Y = problem
    X0, Y0 = X.copy(), Y.copy()
    model = Estimator(random_state=3)
    before = clone(model).get_params()
    model.fit(X, Y)
    assert model.get_params() == before
    np.testing.assert_array_equal(X, X0)
    np.testing.assert_array_equal(Y, Y0)


def test_every_parameter_and_attribute_is_documented(Estimator, problem):
    """Also those whose texts all estimators share."""
    text = Estimator.__doc__
    model = Estimator().fit(*problem)
    public = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    for name in [*Estimator().get_params(), *public]:
        assert text.count(f"\n{name} : ") == 1, name
