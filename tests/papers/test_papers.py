"""The papers: settings that can be read, verdicts that follow their rule, small runs, the public interface alone."""

import ast
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import multimargin
from multimargin import baselines, datasets
from multimargin.errors import InputError
from papers import readme, tables
from papers.__main__ import main
from papers.hariharan2012.dual_progress import _reached
from papers.tables import compared, experiment, find_tables, picture
from papers.tan2015.lsg21 import LSG21, linked_labels

REPOSITORY = Path(__file__).parents[2]
LISTED = find_tables()
NOT_AT_HAND = {"pascal", "pascal07", "mirflickr", "fmri", "fmri-others", "table2-full", "table3-siam"}
NOT_AT_HAND |= {"table3-ayahoo", "ayahoo-others"}
TABLES = [table for table in LISTED if "unavailable" not in table]


@dataclass
class Result:
    """What a run left: exit code, standard output and the lines of standard error."""

    code: int
    out: str
    errors: list[str]


@pytest.fixture
def run(capsys):
    def call(*words):
        code = main(words)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err.splitlines())

    return call


@pytest.fixture
def small(run):
    """Rows of the small variant of a table, by name; none of them has a verdict."""

    def call(paper, table):
        result = run(paper, table, "--small", "--json")
        assert result.code == 0, result.errors
        (found,) = json.loads(result.out)
        assert all(row["verdict"] is None for row in found["rows"])
        return {row["name"]: row["ours"] for row in found["rows"]}

    return call


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table['paper']}-{table['table']}")
def test_settings_are_complete(table):
    assert experiment(table).__doc__
    wanted = table["data"] if isinstance(table["data"], list) else [table["data"]]
    assert set(wanted) <= {"synthetic", *(known.name for known in datasets.available())}
    assert table["tolerance"] > 0
    without = table.get("stand_in") or any("without numbers" in sentence for sentence in table["deviations"])
    assert table["published"] or without
    assert set(table["small"]) <= set(table["settings"])
    assert all(sentence.endswith(".") for sentence in table["deviations"])


def test_experiments_use_the_public_interface_alone():
    files = sorted((REPOSITORY / "papers").rglob("*.py"))
    assert len(files) > len({table["paper"] for table in LISTED})
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            private = [name for name in names if name.startswith("multimargin.") and "._" in name]
            assert not private, f"{file}: {private}"


def test_experiments_state_C():
    """What a default is must not change a published table: C is given, by position, by name, or among others."""
    parameters = {
        name: list(inspect.signature(made).parameters)
        for module in (multimargin, baselines)
        for name, made in vars(module).items()
        if name in module.__all__ and isinstance(made, type)
    }
    seen = set()
    for file in sorted((REPOSITORY / "papers").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            taken = parameters.get(getattr(getattr(node, "func", None), "id", ""), [])
            if isinstance(node, ast.Call) and "C" in taken:
                seen.add(node.func.id)
                by_name = {word.arg for word in node.keywords} & {"C", None}
                assert by_name or "C" in taken[: len(node.args)], f"{file}, line {node.lineno}"
    assert {"LinearM3L", "KernelM3L", "SubmodularClassifier", "CliqueClassifier", "RAkEL"} <= seen


def test_verdicts():
    def verdict(ours, published=20.0, small=False, sign=1.0):
        return compared({"ours": ours}, published, 0.5, sign, small)["verdict"]

    assert verdict(20.4) == "reproduced"
    assert verdict(19.0) == "better"
    assert verdict(21.0) == "not reached"
    assert verdict(21.0, sign=-1.0) == "better"  # higher is better
    assert verdict(19.0, sign=-1.0) == "not reached"
    assert verdict(20.0, None) is None
    assert verdict(20.0, small=True) is None


def test_without_a_name_everything_is_listed_and_nothing_run(run):
    result = run("--json")
    assert result.code == 0
    files = {(file.parent.name, file.stem) for file in (REPOSITORY / "papers").glob("*/*.toml")}
    assert {(entry["paper"], entry["table"]) for entry in json.loads(result.out)} == files
    assert "hariharan2012 awa" in run("hariharan2012", "--list").out


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "papers", "tan2015", "--list"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert len(result.stdout.splitlines()) == len(find_tables("tan2015"))
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["hariharan2021"], "Did you mean hariharan2012?"),
        (["hariharan2012", "fig6"], "fig5"),
        (["hariharan2012", "--tabel"], "--tabel"),
        (["hariharan2012", "awa", "fig5"], "fig5"),
    ],
)
def test_bad_words_are_one_sentence(run, words, told):
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert len(result.errors) == 1
    assert told in result.errors[0]


def test_missing_data_are_one_sentence(run, monkeypatch, tmp_path):
    monkeypatch.setenv("MULTIMARGIN_DATA", str(tmp_path))
    result = run("hariharan2012", "awa", "--small")
    assert result.code == 2
    assert len(result.errors) == 1
    assert "MULTIMARGIN_DATA" in result.errors[0]


def test_small_variants_run(run, small, data_home):
    ours = small("hariharan2012", "awa")
    assert ours["M3L"] < ours["one-vs-all"]
    assert ours["M3L + weights"] < ours["constant"] < ours["one-vs-all"]
    shown = run("hariharan2012", "fig5", "--small")
    assert shown.code == 0
    assert "r = -0.8" in shown.out


def test_shifted_labels_run_with_all_controls(small, data_home):
    ours = small("hariharan2012", "table3")
    headline = {name.removeprefix("yeast, linear: ") for name in ours if name.startswith("yeast, linear: ")}
    controls = {"constant of the other rows", "prior of frequencies only", "prior of the training rows"}
    assert headline >= {"one-vs-all", "M3L", "one-vs-all + weights", "prior with mixed-up labels", *controls}
    gain = ours["yeast, linear: M3L"] - ours["yeast, linear: one-vs-all"]
    assert ours["yeast, linear: M3L minus one-vs-all"] == pytest.approx(gain)
    assert ours["yeast: labels per training row"] > ours["yeast: labels per test row"]
    # the plain verdict: frequencies alone do better than the prior
    assert ours["yeast, linear: one-vs-all + weights"] < ours["yeast, linear: M3L"]


def test_training_times_and_progress_run(small, data_home):
    times = small("hariharan2012", "table1")
    assert times["SIAM, N = 500: LIBSVM, rbf, s"] > 0
    assert ("SIAM, N = 500: LIBLINEAR, s" in times) == (importlib.util.find_spec("liblinear") is not None)
    progress = small("hariharan2012", "table2")
    assert 0 < progress["pass 1: dual, % of its end"] < 100
    assert progress["N = 500: test error, %"] > progress["converged: test error, %"]
    assert small("hariharan2012", "svm-struct")["N = 500: relative gap of the cutting plane, %"] <= 30.0


def test_other_methods_run(small, data_home):
    ours = small("hariharan2012", "table3-others")
    methods = {"BoosTexter", "Power Set", "Regression", "Compressed sensing", "Ranking", "5-NN", "constant"}
    assert {name.removeprefix("yeast, ") for name in ours} == methods
    assert all(20 < loss < 40 for loss in ours.values())


def test_the_dual_of_both_programs_rises(data_home):
    (table,) = find_tables("hariharan2012", "fig3")
    settings = {**table["settings"], **table["small"]}
    cells = experiment(table)(settings, lambda words: None)
    curves = {cell["program"]: np.array(cell["curve"]) for cell in cells if "curve" in cell}
    for curve in curves.values():
        assert np.all(np.diff(curve[:, 1:], axis=0) >= -1e-6)  # passes and the dual
        assert 0 < curve[0, 2] < curve[-1, 2] == 100
    figure = picture(table)(cells)
    assert [len(ax.lines) for ax in figure.axes] == [2, 2]


def test_what_was_reached_lies_between_two_points():
    curve = [(1.0, 2.0, 40.0), (3.0, 4.0, 60.0), (10.0, 20.0, 100.0)]
    assert _reached(curve, 30) == (1.0, 2.0)
    assert _reached(curve, 50) == (2.0, 3.0)
    assert _reached(curve, 80) == (6.5, 12.0)
    assert _reached(curve, 100) == (10.0, 20.0)


def test_seconds_of_another_machine_get_no_verdict():
    assert compared({"ours": 1.0, "judged": False}, 20.0, 0.5, False)["verdict"] is None


def test_other_data_are_not_comparable(monkeypatch):
    cells = [{"name": name, "ours": 1.0, "headline": True} for name in ("loss", "not in the paper")]
    monkeypatch.setattr(tables, "experiment", lambda table: lambda settings, step: cells)
    table = {"paper": "smith2001", "table": "table1", "title": "", "deviations": [], "tolerance": 0.5}
    for comparable, verdict in (
        (True, "reproduced"),
        (False, "not comparable"),
        (["loss"], "reproduced"),
        (["another row"], "not comparable"),
    ):
        settings = {**table, "published": {"loss": 1.2}, "comparable": comparable}
        assert [row["verdict"] for row in tables.reproduce(settings, False, print)["rows"]] == [verdict, None]


def test_output_kernels_run(small, data_home):
    ours = {table: small("guo2013", table) for table in ("scene", "fig1", "fig2", "threshold")}
    assert ours["scene"]["LS-K, micro"] < ours["scene"]["CSRL, micro"]
    assert {table: len(rows) for table, rows in ours.items()} == {
        "scene": 16,
        "fig1": 32,
        "fig2": 16,
        "threshold": 27,
    }
    # the same draw; a label kernel that is not used makes no difference
    assert ours["fig1"]["10 labels, CSRL, micro"] == ours["fig2"]["10 labels, 100 rows, CSRL, micro"]
    assert ours["fig1"]["10 labels, w = (1, 1), LM-K, micro"] == ours["fig2"]["10 labels, 100 rows, LM-K, micro"]


def test_unavailable_says_why(run):
    (table,) = json.loads(run("tan2015", "pascal", "--json").out)
    assert table["unavailable"]
    assert all(row["ours"] is None and row["verdict"] is None for row in table["rows"])
    assert "Not run:" in run("tan2015", "pascal").out
    assert "cannot be run" in run("tan2015", "--list").out


def test_label_cliques_are_recovered(small):
    ours = small("tan2015", "table2")
    assert ours["CGM, true edges, fewest of all seeds"] == 4
    assert ours["CGM"] < ours["Chow-Liu"]


@pytest.mark.parametrize("table", ["fig2", "table3", "fig3", "table4", "table3-others"])
def test_label_cliques_run(small, data_home, table):
    assert small("tan2015", table)


def test_what_the_rivals_leave_open_is_measured(small, data_home):
    ours = small("tan2015", "open-choices")
    losses = {name: loss for name, loss in ours.items() if name.endswith("Hamming loss")}
    assert len(losses) == 6
    assert len(set(losses.values())) > 3
    assert all(5 < loss < 20 for loss in losses.values())


def test_every_rival_of_the_cliques_predicts_them_worse():
    table = next(table for table in find_tables("tan2015", "table2"))
    grids = {
        name: {key: values[:1] for key, values in grid.items()} for name, grid in table["settings"]["grids"].items()
    }
    settings = {**table["settings"], "grids": grids, "seeds": 1, "rows": 400, "test_rows": 500, "tol": 0.05}
    settings["methods"] = ["CGM", *(name for name in table["settings"]["methods"] if name in grids)]
    ours = {cell["name"]: cell["ours"] for cell in experiment(table)(settings, lambda words: None)}
    assert len(settings["methods"]) == 8
    assert all(ours["CGM"] < ours[name] < 20 for name in grids)


def test_lsg21_is_the_minimum_of_its_problem():
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    Y = (X @ rng.normal(size=(5, 4)) + rng.normal(size=(60, 4)) > 0).astype(int)
    Y[:, 1] = Y[:, 0] ^ (rng.random(60) < 0.1)
    S = 2.0 * Y - 1.0
    groups = linked_labels(S - S.mean(axis=0), 0.3)
    assert [0, 1] in groups
    W, b = cp.Variable((5, 4)), cp.Variable((1, 4))
    lengths = sum(cp.norm(W[d, group]) for group in groups for d in range(5))
    loss = cp.sum_squares(S - X @ W - np.ones((60, 1)) @ b) / 120
    best = cp.Problem(cp.Minimize(loss + 0.05 * lengths)).solve()
    model = LSG21(0.05, correlation=0.3, rounds=2000).fit(X, Y)
    # lengths are rounded off near zero by a ten-thousandth each
    assert best - 1e-6 <= model.objectives_[-1] <= best + 0.05 * 5 * len(groups) * 1e-4 + 1e-4
    assert np.all(np.diff(model.objectives_) <= 1e-12)


def test_a_table_is_written_where_the_readme_has_a_place_for_it(monkeypatch, tmp_path):
    monkeypatch.setattr(readme, "__file__", str(tmp_path / "readme.py"))
    (tmp_path / "smith2001").mkdir()
    page = tmp_path / "smith2001" / "README.md"
    page.write_text("Before.\n<!-- table1: written by the command -->\nold\n<!-- end of table1 -->\nAfter.\n")
    rule = {"headline": True, "spread": 0.5, "verdict": "better", "row": "CGM"}
    rows = [
        {"name": "CGM, loss", "ours": 9.25, "published": 9.4, "column": "loss", **rule},
        {"name": "CGM, F1", "ours": 70.0, "published": None, "column": "F1", **rule, "verdict": None},
        {"name": "CGM, C = 1", "ours": 1.0, "published": None, **rule, "headline": False},
    ]
    readme.write_table({"paper": "smith2001", "table": "table1", "rows": rows})
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("Before.", "After.")
    assert "|  | loss | F1 | verdicts |" in lines
    assert "| CGM, published | 9.40 |  |  |" in lines
    assert "| CGM | 9.25 (0.50) | 70 (0.50) | better |" in lines
    assert "old" not in lines
    with pytest.raises(InputError, match="no place for the table 'table2'"):
        readme.write_table({"paper": "smith2001", "table": "table2", "rows": rows})


def test_parts_of_a_table_stand_below_each_other():
    rule = {"headline": False, "spread": None, "published": None, "verdict": None}
    rows = [
        {"name": "loss", "ours": 0.5, **rule, "headline": True},
        {"name": "loss, C = 1", "ours": 1e-5, "part": "The grid", "row": "C = 1", "column": "loss", **rule},
        {"name": "gap, C = 1", "ours": 2.0, "part": "The grid", "row": "C = 1", "column": "loss", **rule},
        {"name": "zero, C = 1", "ours": -3e-17, "part": "The grid", "row": "C = 1", "column": "loss", **rule},
        {"name": "not shown", "ours": 1.0, "row": "C = 1", "column": "loss", **rule},
    ]
    assert readme.markdown({"rows": rows, "decimals": 3}).splitlines() == [
        "|  | ours (sd) |",
        "| --- | --- |",
        "| loss | 0.500 |",
        "",
        "The grid:",
        "",
        "|  | loss |",
        "| --- | --- |",
        "| C = 1 | 1e-05 / 2 / 0 |",
    ]


@pytest.mark.parametrize("paper", sorted({table["paper"] for table in LISTED}))
def test_every_table_of_a_readme_is_written_by_its_command(paper):
    """None is laid out by hand, and none whose data are at hand is left out."""
    written: dict[str, int] = {}
    inside = None
    for line in (REPOSITORY / "papers" / paper / "README.md").read_text(encoding="utf-8").splitlines():
        if begin := re.fullmatch(r"<!-- (\S+): written by the command -->", line):
            inside = begin[1]
            assert inside not in written
            written[inside] = 0
        elif end := re.fullmatch(r"<!-- end of (\S+) -->", line):
            assert end[1] == inside
            inside = None
        elif line.lstrip().startswith("|"):
            assert inside, f"laid out by hand: {line}"
            written[inside] += 1
    assert inside is None
    assert set(written) == {table["table"] for table in LISTED if table["paper"] == paper} - NOT_AT_HAND
    assert min(written.values()) >= 3


def test_only_whole_tables_are_written(run):
    result = run("tan2015", "table2", "--small", "--write")
    assert (result.code, result.out) == (2, "")
    assert "--small" in result.errors[0]


def test_the_printed_clique_solver_stays_above_the_certified_bound(small):
    ours = small("tan2015", "spdca")
    bound, objective = (ours[f"lambda 0.001: certified {words}"] for words in ("lower bound", "objective"))
    assert 0.97 * objective <= bound <= objective
    reached = [ours[f"lambda 0.001: {how}, sigma = 1 lambda: objective"] for how in ("accumulated", "printed")]
    assert bound < reached[0] < reached[1]


def test_label_attraction_runs(small, data_home):
    ours = small("petterson2011", "fig1")
    assert ours["yeast, pairs"] == 45
    assert ours["yeast, constant"] == pytest.approx(57.9, abs=0.1)
    assert ours["yeast, 10%, SML, no intercept"] > ours["yeast, 10%, RML, no intercept"] + 5  # pairs stand in for it
    assert {name.split(", ")[2] for name in ours if "10%" in name} == {"RML", "SML", "BR", "RAkEL", "MLkNN"}


def test_published_oracle_is_no_better_than_the_exact_one(small, data_home):
    ours = small("petterson2011", "fig2")
    for oracle in ("", ", exact oracle"):
        for k in (2, 12):
            at = {
                name: ours[f"lambda 0.01{oracle}: {name}, iteration {k}"]
                for name in ("not optimal", "not proved", "not proved, tighter test", "objective error")
            }
            assert 100 >= at["not proved"] >= at["not proved, tighter test"] >= at["not optimal"] >= 0
            assert (at["objective error"] > 1e-6) == (at["not optimal"] > 0)
    assert ours["lambda 0.01: not optimal, iteration 12"] > 10
