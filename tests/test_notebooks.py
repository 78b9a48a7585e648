"""What notebooks show: tables whose cells are escaped, and the progress of fits."""

import copy
import pickle
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.base import clone

import multimargin
from multimargin import CliqueClassifier, CPath, LinearM3L, metrics, tune_thresholds
from multimargin.inspection import describe, explain, top_features
from multimargin.priors import LowRankPrior

NAMES = ("<b>sea</b>", "sun & sky")


class Cells(HTMLParser):
    """Reads the texts of table cells, and refuses tags that do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.cells = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        assert self.open, data
        if self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def cells_of(shown):
    parser = Cells()
    parser.feed(shown)
    assert not parser.open
    return parser.cells


@pytest.fixture(scope="module")
def fitted():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = pd.DataFrame(X[:, :2] + X[:, 1:] > 0, columns=NAMES)
    return X, Y, LinearM3L(random_state=0).fit(X, Y)


def test_every_result_is_a_table_with_escaped_names(fitted):
    X, Y, model = fitted
    scores = model.decision_function(X)
    path = CPath(LinearM3L(random_state=0), Cs=[0.1, 1], cv=2, random_state=0).fit(X, Y).path_
    results = {
        "report": metrics.report(Y, model.predict(X), scores=scores),
        "thresholds": tune_thresholds(scores, Y),
        "description": describe(Y),
        "explanation": explain(model, X[:1], NAMES[0]),
        "weights": top_features(model, NAMES[0]),
        "path": path,
        "certificate": model.certificate_,
        "history": model.history_,
        "prior": LowRankPrior(np.ones((2, 1)), diagonal=0.5),
    }
    for name, result in results.items():
        shown = result._repr_html_()
        cells = cells_of(shown)
        assert "<b>" not in shown, name
        if name in ("report", "thresholds", "description"):
            assert {*NAMES} <= {*cells}, name
        if name not in ("certificate", "history", "prior"):  # the same words and numbers as in print
            printed = str(result).split()
            assert [word for cell in cells for word in cell.split() if word not in printed] == [], name
    shown = dict(zip(*[iter(cells_of(model.certificate_._repr_html_()))] * 2, strict=True))
    assert float(shown["primal"]) == pytest.approx(model.certificate_.primal, rel=1e-5)
    assert shown["converged"] == "True"
    assert cells_of(results["prior"]._repr_html_()) == ["labels", "2", "rank", "1", "diagonal", "0.5"]
    cliques = CliqueClassifier(random_state=0, max_cliques=1).fit(X, Y).certificate_
    assert "global relative gap" in cells_of(cliques._repr_html_())


def test_progress_is_told_in_lines_without_tqdm(fitted, monkeypatch, capsys):
    X, Y, _ = fitted
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    bar = multimargin.progress()
    LinearM3L(random_state=0, callback=bar).fit(X, Y)
    first, *_ = capsys.readouterr().err.splitlines()
    assert re.match(r"pass \d+, (objective .*, relative gap|[\d.]+ s)", first)
    CPath(LinearM3L(random_state=0), Cs=[0.1, 1], cv=2, random_state=0, callback=multimargin.progress()).fit(X, Y)
    first, *_ = capsys.readouterr().err.splitlines()
    assert re.match(r"fit 1 of 4, C = 0\.1, about \d+ s left", first)


def test_progress_is_a_bar_with_tqdm(fitted, capsys):
    pytest.importorskip("tqdm")
    X, Y, _ = fitted
    with multimargin.progress() as bar:
        again = LinearM3L(random_state=0, callback=bar).fit(X, Y)
        assert bar._bar.n == again.n_iter_
    assert "relative gap" in capsys.readouterr().err
    search = CPath(LinearM3L(random_state=0), Cs=[0.1, 1], cv=2, random_state=0, callback=multimargin.progress())
    search.fit(X, Y)
    assert "4/4" in capsys.readouterr().err


def test_a_copy_of_a_bar_is_another_bar(fitted):
    X, Y, _ = fitted
    with multimargin.progress() as bar:
        model = LinearM3L(random_state=0, callback=bar).fit(X, Y)
        for other in (clone(model).callback, copy.deepcopy(bar), pickle.loads(pickle.dumps(bar))):
            assert other is not bar
            assert other._bar is None
