"""The papers: settings that can be read, verdicts that follow their rule, and a small run."""

import importlib.util
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from multimargin import LinearM3L, datasets
from multimargin.cli.experiments import EXPERIMENTS
from multimargin.cli.experiments._cutting_plane import cutting_plane
from multimargin.cli.reproduce import _compared

PAPERS = Path(__file__).parents[2] / "papers"
FILES = sorted(PAPERS.glob("*/*.toml"))
TABLES = [file for file in FILES if "experiment" in tomllib.loads(file.read_text())]
LISTED = [file for file in FILES if {"experiment", "unavailable"} & set(tomllib.loads(file.read_text()))]


@pytest.mark.parametrize("file", TABLES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_settings_are_complete(file):
    entry = tomllib.loads(file.read_text())
    assert entry["experiment"] in EXPERIMENTS
    wanted = entry["data"] if isinstance(entry["data"], list) else [entry["data"]]
    assert set(wanted) <= {"synthetic", *(known.name for known in datasets.available())}
    assert entry["tolerance"] > 0
    without = entry.get("stand_in") or any("without numbers" in sentence for sentence in entry["deviations"])
    assert entry["published"] or without
    assert set(entry["small"]) <= set(entry["settings"])
    assert all(sentence.endswith(".") for sentence in entry["deviations"])


def test_verdicts():
    def verdict(ours, published=20.0, small=False, sign=1.0):
        return _compared({"ours": ours}, published, 0.5, sign, small)["verdict"]

    assert verdict(20.4) == "reproduced"
    assert verdict(19.0) == "better"
    assert verdict(21.0) == "not reached"
    assert verdict(21.0, sign=-1.0) == "better"  # higher is better
    assert verdict(19.0, sign=-1.0) == "not reached"
    assert verdict(20.0, None) is None
    assert verdict(20.0, small=True) is None


def test_list_runs_nothing(run):
    result = run("reproduce", "--list", "--json")
    assert result.code == 0
    listed = json.loads(result.out)
    assert {(entry["paper"], entry["table"]) for entry in listed} == {(f.parent.name, f.stem) for f in LISTED}
    assert "hariharan2012 --table awa" in run("reproduce", "hariharan2012", "--list").out


def test_bad_names_are_one_sentence(run, tmp_path):
    for words, told in (
        (["hariharan2021"], "did you mean hariharan2012"),
        (["hariharan2012", "--table", "fig6"], "fig5"),
        ([], "Which paper"),
        (["hariharan2012", "--papers", tmp_path / "none"], "--papers FOLDER"),
    ):
        result = run("reproduce", *words)
        assert result.code == 2
        assert len(result.errors) == 1
        assert told.lower() in result.errors[0].lower()


def test_small_variants_run(run, data_home):
    result = run("reproduce", "hariharan2012", "--table", "awa", "--small", "--json")
    assert result.code == 0
    (table,) = json.loads(result.out)
    ours = {row["name"]: row["ours"] for row in table["rows"]}
    assert ours["M3L"] < ours["one-vs-all"]
    assert ours["M3L + weights"] < ours["constant"] < ours["one-vs-all"]
    assert all(row["verdict"] is None for row in table["rows"])
    shown = run("reproduce", "hariharan2012", "--table", "fig5", "--small")
    assert shown.code == 0
    assert "r = -0.8" in shown.out


def small(run, table):
    """Rows of a small variant by name."""
    result = run("reproduce", "hariharan2012", "--table", table, "--small", "--json")
    assert result.code == 0, result.errors
    (found,) = json.loads(result.out)
    return {row["name"]: row["ours"] for row in found["rows"]}


def test_shifted_labels_run_with_all_controls(run, data_home):
    ours = small(run, "table3")
    headline = {name.removeprefix("yeast, linear: ") for name in ours if name.startswith("yeast, linear: ")}
    controls = {"constant of the other rows", "prior of frequencies only", "prior of the training rows"}
    assert headline >= {"one-vs-all", "M3L", "one-vs-all + weights", "prior with mixed-up labels", *controls}
    gain = ours["yeast, linear: M3L"] - ours["yeast, linear: one-vs-all"]
    assert ours["yeast, linear: M3L minus one-vs-all"] == pytest.approx(gain)
    assert ours["yeast: labels per training row"] > ours["yeast: labels per test row"]
    # the plain verdict: frequencies alone do better than the prior
    assert ours["yeast, linear: one-vs-all + weights"] < ours["yeast, linear: M3L"]


def test_training_times_and_progress_run(run, data_home):
    times = small(run, "table1")
    assert times["SIAM, N = 500: LIBSVM, rbf, s"] > 0
    assert ("SIAM, N = 500: LIBLINEAR, s" in times) == (importlib.util.find_spec("liblinear") is not None)
    progress = small(run, "table2")
    assert 0 < progress["pass 1: dual, % of its end"] < 100
    assert progress["N = 500: test error, %"] > progress["converged: test error, %"]
    assert small(run, "svm-struct")["N = 500: relative gap of the cutting plane, %"] <= 30.0


def test_seconds_of_another_machine_get_no_verdict():
    assert _compared({"ours": 1.0, "judged": False}, 20.0, 0.5, False)["verdict"] is None


def test_the_cutting_plane_reaches_the_optimum_of_linear_m3l(rng):
    X = rng.normal(size=(40, 3)).astype(np.float32)
    Y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(40, 4)) > 0).astype(int)
    optimum = LinearM3L(C=0.5, fit_intercept=False, tol=1e-6, random_state=0).fit(X, Y).certificate_
    plane = cutting_plane(X, np.where(Y > 0, 1, -1).astype(np.float32), 0.5, 1e-3)
    assert plane.relative_gap <= 1e-3
    assert plane.dual <= optimum.primal * (1 + 1e-5)
    assert optimum.primal <= plane.primal * (1 + 1e-5)


def test_output_kernels_run(run, data_home):
    result = run("reproduce", "guo2013", "--small", "--json")
    assert result.code == 0
    tables = {table["table"]: table["rows"] for table in json.loads(result.out)}
    ours = {table: {row["name"]: row["ours"] for row in rows} for table, rows in tables.items()}
    assert ours["scene"]["LS-K, micro"] < ours["scene"]["CSRL, micro"]
    assert {table: len(rows) for table, rows in ours.items()} == {
        "scene": 12,
        "fig1": 28,
        "fig2": 12,
        "threshold": 27,
    }
    # the same draw; a label kernel that is not used makes no difference
    assert ours["fig1"]["10 labels, CSRL, micro"] == ours["fig2"]["10 labels, 100 rows, CSRL, micro"]
    assert ours["fig1"]["10 labels, w = (1, 1), LM-K, micro"] == ours["fig2"]["10 labels, 100 rows, LM-K, micro"]
    assert all(row["verdict"] is None for rows in tables.values() for row in rows)


def test_unavailable_says_why(run):
    (table,) = json.loads(run("reproduce", "tan2015", "--table", "pascal", "--json").out)
    assert table["unavailable"]
    assert all(row["ours"] is None and row["verdict"] is None for row in table["rows"])
    assert "Not run:" in run("reproduce", "tan2015", "--table", "pascal").out
    assert "cannot be run" in run("reproduce", "tan2015", "--list").out


def test_label_cliques_are_recovered(run):
    result = run("reproduce", "tan2015", "--table", "table2", "--small", "--json")
    assert result.code == 0
    (table,) = json.loads(result.out)
    ours = {row["name"]: row["ours"] for row in table["rows"]}
    assert ours["CGM, true edges, fewest of all seeds"] == 4
    assert ours["CGM"] < ours["Chow-Liu"]
    assert all(row["verdict"] is None for row in table["rows"])


def test_label_cliques_run(run, data_home):
    for name in ("fig2", "table3", "fig3"):
        result = run("reproduce", "tan2015", "--table", name, "--small", "--json")
        assert result.code == 0
        (table,) = json.loads(result.out)
        assert table["rows"]


def test_label_attraction_runs(run, data_home):
    result = run("reproduce", "petterson2011", "--table", "fig1", "--small", "--json")
    assert result.code == 0
    (table,) = json.loads(result.out)
    ours = {row["name"]: row["ours"] for row in table["rows"]}
    assert ours["yeast, pairs"] == 45
    assert ours["yeast, constant"] == pytest.approx(57.9, abs=0.1)
    assert ours["yeast, 10%, SML, no intercept"] > ours["yeast, 10%, RML, no intercept"] + 5  # pairs stand in for it
    assert {name.split(", ")[2] for name in ours if "10%" in name} == {"RML", "SML", "BR", "RAkEL", "MLkNN"}


def test_published_oracle_is_no_better_than_the_exact_one(run, data_home):
    result = run("reproduce", "petterson2011", "--table", "fig2", "--small", "--json")
    assert result.code == 0
    (table,) = json.loads(result.out)
    ours = {row["name"]: row["ours"] for row in table["rows"]}
    for k in (2, 10):
        assert ours[f"objective error, iteration {k}"] >= 0
        proved = 100 - ours[f"not proved, tighter test, iteration {k}"]
        assert 100 - ours[f"not proved, iteration {k}"] <= proved <= 100 - ours[f"not optimal, iteration {k}"]
    assert ours["objective error, iteration 10"] > 1
