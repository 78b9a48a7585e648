"""The papers: settings that can be read, verdicts that follow their rule, and a small run."""

import json
import tomllib
from pathlib import Path

import pytest

from multimargin import datasets
from multimargin.cli.experiments import EXPERIMENTS
from multimargin.cli.reproduce import _compared

PAPERS = Path(__file__).parents[2] / "papers"
TABLES = [file for file in sorted(PAPERS.glob("*/*.toml")) if "experiment" in tomllib.loads(file.read_text())]


@pytest.mark.parametrize("file", TABLES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_settings_are_complete(file):
    entry = tomllib.loads(file.read_text())
    assert entry["experiment"] in EXPERIMENTS
    assert entry["data"] in {known.name for known in datasets.available()}
    assert entry["tolerance"] > 0
    assert entry["published"]
    assert set(entry["small"]) <= set(entry["settings"])
    assert all(sentence.endswith(".") for sentence in entry["deviations"])


def test_verdicts():
    def verdict(ours, published=20.0, small=False, sign=1.0):
        return _compared({"ours": ours}, published, 0.5, small, sign)["verdict"]

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
    assert {(entry["paper"], entry["table"]) for entry in listed} == {(f.parent.name, f.stem) for f in TABLES}
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


def test_output_kernels_run(run, data_home):
    result = run("reproduce", "guo2013", "--small", "--json")
    assert result.code == 0
    (table,) = json.loads(result.out)
    ours = {row["name"]: row["ours"] for row in table["rows"]}
    assert ours["LS-K, micro"] < ours["CSRL, micro"]
    assert len(ours) == 12
    assert all(row["verdict"] is None for row in table["rows"])


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
