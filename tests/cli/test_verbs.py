"""The verbs on good input: the command gives what the library gives."""

import json
import os
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from scipy import sparse
from typer.testing import CliRunner

from multimargin import baselines, cli, datasets, metrics, persistence, priors
from multimargin.cli._app import VERBS, make_app
from multimargin.cli._output import _share_closed
from multimargin.errors import FitError
from multimargin.estimators import REGISTRY, LinearM3L

from .conftest import FEATURES, LABELS, arff, csv, libsvm, sample

Run = Callable[..., Any]


def test_every_file_without_an_underscore_is_a_verb() -> None:
    assert set(VERBS) == {module.name for module in pkgutil.iter_modules(cli.__path__) if module.name[0] != "_"}


def test_a_new_verb_is_one_entry(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def greet(name: str, twice: bool = False) -> None:
        typer.echo(f"Hello, {name}!" * (1 + twice))

    monkeypatch.setitem(VERBS, "greet", SimpleNamespace(HELP="Greet someone.", run=greet))
    assert run("greet", "Ada", "--twice").out == "Hello, Ada!Hello, Ada!\n"
    result = run("greet")
    assert (result.code, len(result.errors)) == (2, 1)
    assert "Greet someone." in run("--help").out


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb: str) -> None:
    result = CliRunner().invoke(make_app(), [verb, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"multimargin {verb}" in result.output
    assert "--json" in result.output


def test_help_imports_nothing_heavy() -> None:
    code = """
import sys
from multimargin.cli import main
assert main(["fit", "--help"]) == 0
assert not {"numpy", "scipy", "sklearn", "matplotlib", "pandas"} & set(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_the_module_is_the_command(folder: Path) -> None:
    command = [sys.executable, "-m", "multimargin.cli", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("multimargin ")
    assert result.stderr == ""


def test_fit_prints_the_certificate_of_the_model_it_writes(folder: Path, run: Run) -> None:
    words = ("fit", "train.arff", "--labels", "tiny.xml", "-p", "C=2", "-p", "tol=1e-4", "--out", "m.mm", "--json")
    result = run(*words)
    assert (result.code, result.errors) == (0, [])
    answer = json.loads(result.out)
    model = persistence.load("m.mm")
    assert answer["certificate"]["primal"] == model.certificate_.primal
    assert answer["certificate"]["relative_gap"] <= 1e-4
    assert answer["parameters"]["C"] == model.C == 2
    assert model.label_names_.tolist() == list(LABELS)
    train = datasets.read("train.arff", labels="tiny.xml")
    by_hand = LinearM3L(C=2, tol=1e-4, random_state=0).fit(train.X, train.Y)
    np.testing.assert_array_equal(model.coef_, by_hand.coef_)


def test_fit_for_people(folder: Path, run: Run) -> None:
    result = run("fit", "train.csv", "--labels", "sea,sun")
    assert result.code == 0
    assert "relative gap" in result.out
    assert "not kept" in result.out


UNCONVERGED = ("fit", "train.csv", "--labels", "sea,sun", "-p", "max_iter=1", "-p", "C=1000")


@pytest.mark.parametrize(("words", "code"), [((), 1), (("--allow-unconverged",), 0)], ids=["as it is", "allowed"])
def test_a_fit_that_did_not_converge_is_kept_and_said(
    folder: Path, run: Run, words: tuple[str, ...], code: int
) -> None:
    result = run(*UNCONVERGED, "--out", "m.mm", *words)
    certificate = persistence.load("m.mm").certificate_
    assert not certificate.converged
    assert result.code == code
    assert "not within tol" in result.out
    warning, line = result.errors
    assert warning.startswith("warning: LinearM3L stopped after 1 passes")
    sentence = f"The model did not converge: its relative gap is {certificate.relative_gap:.1e}, tol 1e-03."
    assert line == f"multimargin: {sentence} m.mm was written all the same."
    result = run(*UNCONVERGED, "--json", *words)
    assert result.code == code
    answer = json.loads(result.out)
    assert answer["converged"] is answer["certificate"]["converged"] is False


def test_a_converged_fit_says_so_and_exits_with_0(folder: Path, run: Run) -> None:
    result = run("fit", "train.csv", "--labels", "sea,sun", "--json")
    assert (result.code, json.loads(result.out)["converged"], result.errors) == (0, True, [])


def test_a_gap_over_candidate_cliques_is_told_as_such(folder: Path, run: Run) -> None:
    cliques = ("--model", "cliques", "-p", "stopping=gap", "-p", "max_cliques=0", "-p", "tol=0.002", "-p", "C=10")
    X, _ = sample(200)
    csv(folder / "tied.csv", X, np.column_stack([X[:, 0] > 0, (X[:, 0] > 0) ^ (X[:, 1] > 1.5)]).astype(int))
    result = run("fit", "tied.csv", "--labels", "sea,sun", *cliques, "--json")
    assert result.code == 1
    certificate = json.loads(result.out)["certificate"]
    assert certificate["relative_gap"] <= 0.002 < certificate["global_relative_gap"]
    assert f"over all candidate cliques is {certificate['global_relative_gap']:.1e}" in result.errors[-1]


def test_a_fit_that_fails_is_one_sentence(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        msg = "LinearM3L found no finite solution."
        raise FitError(msg)

    monkeypatch.setattr(LinearM3L, "_solve", fail)
    result = run("fit", "train.csv", "--labels", "sea,sun", "--out", "m.mm")
    assert (result.code, result.out) == (1, "")
    assert result.errors == ["multimargin: LinearM3L found no finite solution."]
    assert not Path("m.mm").exists()


def test_predict_and_evaluate_say_that_a_model_did_not_converge(folder: Path, run: Run) -> None:
    run(*UNCONVERGED, "--out", "m.mm")
    sentence = "The model did not converge: its relative gap is"
    evaluated = run("evaluate", "m.mm", "test.csv")
    assert evaluated.code == 0
    assert sum(line.startswith(sentence) for line in evaluated.out.splitlines()) == 1
    assert json.loads(run("evaluate", "m.mm", "test.csv", "--json").out)["converged"] is False
    predicted = run("predict", "m.mm", "test.csv")
    assert predicted.code == 0
    assert [line.startswith(f"warning: {sentence}") for line in predicted.errors] == [True]
    run("fit", "train.csv", "--labels", "sea,sun", "--out", "m.mm")
    assert "converge" not in run("evaluate", "m.mm", "test.csv").out
    assert json.loads(run("evaluate", "m.mm", "test.csv", "--json").out)["converged"] is True
    assert run("predict", "m.mm", "test.csv").errors == []


def test_fit_with_a_prior(folder: Path, run: Run) -> None:
    np.savetxt("prior.csv", [[1, 0.5], [0.5, 1]], delimiter=",")
    np.save("prior.npy", np.array([[1, 0.5], [0.5, 1]]))
    for prior in ("prior.csv", "prior.npy"):
        assert run("fit", "train.arff", "--labels", "tiny.xml", "--prior", prior, "--out", "m.mm").code == 0
        np.testing.assert_array_equal(persistence.load("m.mm").prior, [[1, 0.5], [0.5, 1]])
    assert run("fit", "train.arff", "--labels", "tiny.xml", "--prior", "labels", "--out", "m.mm").code == 0
    model, data = persistence.load("m.mm"), datasets.read("train.arff", labels="tiny.xml")
    np.testing.assert_array_equal(model.prior_, priors.from_labels(data.Y))
    assert model.prior == "labels"


def test_the_same_command_gives_the_same_file(folder: Path, run: Run) -> None:
    for name in ("a.mm", "b.mm"):
        run("fit", "train.svm", "--out", name)
    a, b = persistence.load("a.mm"), persistence.load("b.mm")
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_list_models_shows_every_parameter(run: Run) -> None:
    entries = {entry["name"]: entry for entry in json.loads(run("fit", "--list-models", "--json").out)}
    assert set(entries) == {*REGISTRY, *baselines.REGISTRY}
    assert entries["linear-m3l"]["parameters"]["C"] == "scale"
    assert "-p C=1.0" in run("fit", "--list-models").out


def predictions(text: str) -> tuple[list[str], np.ndarray]:
    header, *rows = text.splitlines()
    return header.split(","), np.array([[float(cell) for cell in row.split(",")] for row in rows])


def test_predict_gives_what_the_model_predicts(model: Path, run: Run) -> None:
    names, cells = predictions(run("predict", model, "test.arff", "--labels", "tiny.xml").out)
    X, _ = sample(seed=1)
    assert names == list(LABELS)
    np.testing.assert_array_equal(cells, persistence.load(model).predict(X).toarray())
    _, scores = predictions(run("predict", model, "test.arff", "--scores").out)
    np.testing.assert_allclose(scores, persistence.load(model).decision_function(X), rtol=1e-8)


def test_predict_to_files(model: Path, run: Run) -> None:
    assert run("predict", model, "test.arff", "--out", "p.csv").code == 0
    assert run("predict", model, "test.arff", "--out", "p.npz", "--scores").code == 0
    _, cells = predictions(Path("p.csv").read_text())
    np.testing.assert_array_equal(sparse.load_npz("p.npz").toarray(), cells)
    with np.load("p.npz") as arrays:
        assert arrays["label_names"].tolist() == list(LABELS)
        np.testing.assert_array_equal(arrays["scores"] > 0, cells == 1)


def test_predict_as_json(model: Path, run: Run) -> None:
    answer = json.loads(run("predict", model, "test.arff", "--json").out)
    X, _ = sample(seed=1)
    assert [tuple(names) for names in answer["label_sets"]] == persistence.load(model).predict_sets(X)
    assert json.loads(run("predict", model, "test.arff", "--json", "--out", "p.csv").out)["out"] == "p.csv"


def test_predict_needs_no_labels_in_the_file(folder: Path, run: Run) -> None:
    run("fit", "train.csv", "--labels", "sea,sun", "--out", "m.mm")
    csv(folder / "new.csv", sample(seed=1)[0], None)
    with_labels, without = run("predict", "m.mm", "test.csv"), run("predict", "m.mm", "new.csv")
    assert without.code == 0
    assert without.out == with_labels.out


@pytest.mark.parametrize("words", [("evaluate",), ("predict",), ("predict", "--scores")])
def test_files_are_read_once_and_rows_scored_once(
    model: Path, run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    read: list[str] = []
    scored: list[int] = []
    bytes_of, scores_of = Path.read_bytes, LinearM3L._scores

    def read_bytes(path: Path) -> bytes:
        read.append(path.name)
        return bytes_of(path)

    def scores(self: LinearM3L, X: Any) -> Any:
        scored.append(X.shape[0])
        return scores_of(self, X)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    monkeypatch.setattr(LinearM3L, "_scores", scores)
    verb, *options = words
    assert run(verb, model, "test.arff", *options).code == 0
    assert read.count(model.name) == 1
    assert sum(scored) == len(sample(seed=1)[0])


def test_a_file_without_labels_is_parsed_once(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("fit", "train.csv", "--labels", "sea,sun", "--out", "m.mm")
    csv(folder / "new.csv", sample(seed=1)[0], None)
    calls: list[Any] = []
    read = datasets.read
    monkeypatch.setattr(datasets, "read", lambda *path, **options: calls.append(path) or read(*path, **options))
    assert run("predict", "m.mm", "new.csv").code == 0
    assert len(calls) == 1


@pytest.mark.parametrize("ending", ["csv", "arff", "npz"])
def test_a_file_of_another_kind_needs_no_labels_either(folder: Path, run: Run, ending: str) -> None:
    run("fit", "train.svm", "--out", "m.mm")
    X, _ = sample(seed=1)
    if ending == "csv":
        csv(folder / "new.csv", X, None)
    elif ending == "arff":
        arff(folder / "new.arff", X, np.zeros((len(X), 0)), labels=())
    else:
        np.savez("new.npz", X=X)
    with_labels, without = run("predict", "m.mm", "test.svm"), run("predict", "m.mm", f"new.{ending}")
    assert (without.code, without.errors) == (0, [])
    assert without.out == with_labels.out
    evaluated = run("evaluate", "m.mm", f"new.{ending}")
    assert evaluated.code == 2
    assert len(evaluated.errors) == 1


def test_predict_remembers_the_width_of_a_sparse_file(folder: Path, run: Run) -> None:
    run("fit", "train.svm", "--out", "m.mm")
    X, Y = sample(seed=1)
    X[:, 2] = 0
    libsvm(folder / "narrow.svm", X, Y)
    _, cells = predictions(run("predict", "m.mm", "narrow.svm").out)
    np.testing.assert_array_equal(cells, persistence.load("m.mm").predict(X).toarray())


def test_evaluate_reports_what_the_library_reports(model: Path, run: Run) -> None:
    answer = json.loads(run("evaluate", model, "test.arff", "--labels", "tiny.xml", "--json").out)
    X, Y = sample(seed=1)
    loaded = persistence.load(model)
    report = metrics.report(Y, loaded.predict(X).toarray(), scores=loaded.decision_function(X))
    assert answer["report"]["values"] == pytest.approx(report.to_dict()["values"])
    assert "hamming-loss" in run("evaluate", model, "test.arff").out


def test_evaluate_puts_labels_in_the_order_of_the_model(model: Path, run: Run) -> None:
    X, Y = sample(seed=1)
    csv(Path("turned.csv"), X, Y[:, ::-1], LABELS[::-1])
    straight = json.loads(run("evaluate", model, "test.arff", "--json").out)["report"]
    turned = json.loads(run("evaluate", model, "turned.csv", "--labels", "sun,sea", "--json").out)["report"]
    assert turned == straight


def test_embedded_data_has_names(folder: Path, run: Run) -> None:
    assert run("fit", "digit-strips", "-p", "C=0.1", "--out", "m.mm").code == 0
    strips = datasets.load_digit_strips()
    model = persistence.load("m.mm")
    answer = json.loads(run("evaluate", "m.mm", "digit-strips", "--json").out)
    assert answer["rows"] == len(strips.X_test)
    wrong = (model.predict(strips.X_test) != strips.Y_test).mean()
    assert answer["report"]["values"]["hamming-loss"] == pytest.approx(wrong)


def test_a_file_hides_a_data_set_of_the_same_name(folder: Path, run: Run) -> None:
    (folder / "digit-strips").write_text((folder / "train.csv").read_text())
    answer = json.loads(run("fit", "digit-strips", "--format", "csv", "--labels", "-2", "--json").out)
    assert answer["features"] == len(FEATURES)


def test_datasets_lists_and_shows(run: Run) -> None:
    entries = json.loads(run("datasets", "--json").out)
    assert {"digit-strokes", "digit-strips", "scene"} <= {entry["name"] for entry in entries}
    listed = run("datasets").out
    assert all(entry["name"] in listed for entry in entries)
    assert json.loads(run("datasets", "digit-strips", "--json").out)["labels"] == 10
    assert "embedded" in run("datasets", "digit-strips").out


def test_constant_labels_are_one_warning_line(folder: Path, run: Run) -> None:
    X, Y = sample()
    Y[:, 0] = 1
    csv(folder / "constant.csv", X, Y)
    result = run("fit", "constant.csv", "--labels", "sea,sun")
    assert result.code == 0
    (line,) = result.errors
    assert line.startswith("warning: ")
    assert "'sea'" in line


def test_interrupt_says_one_line_and_writes_nothing(folder: Path) -> None:
    settings = ["C=1e6", "tol=1e-14", "max_iter=1000000000", "verbose=1"]
    words = ["fit", "digit-strips", "--out", "m.mm", *(word for setting in settings for word in ("-p", setting))]
    command = [sys.executable, "-m", "multimargin.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert child.stderr.readline().startswith("LinearM3L: pass")
        os.kill(child.pid, signal.SIGINT)
        out, errors = child.communicate()
    assert child.returncode == 130
    assert errors.splitlines()[-1] == "multimargin: interrupted; nothing was written."
    assert "Traceback" not in errors
    assert out == ""
    assert not (folder / "m.mm").exists()


def test_progress_runs_from_the_first_gap_to_the_tolerance() -> None:
    assert _share_closed(1.0, 1.0, 1e-3) == 0.0
    assert _share_closed(1.0, 1e-3, 1e-3) == 1.0
    assert _share_closed(1.0, 10**-1.5, 1e-3) == pytest.approx(0.5)
    assert _share_closed(1.0, 2.0, 1e-3) == 0.0
    assert _share_closed(1e-4, 1e-5, 1e-3) == 1.0
