"""Categories never seen in training, through the command: what the library gives."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from multimargin import LinearM3L, ZeroShotClassifier, load, metrics
from multimargin.datasets import read_csv

Run = Callable[..., Any]

ATTRIBUTES = ["fur", "wings", "swims", "stripes"]
ANIMALS = pd.DataFrame(
    [[code >> bit & 1 for bit in range(4)] for code in (1, 2, 4, 8, 7, 11, 13, 14, 3, 12)],
    index=["bear", "owl", "eel", "wasp", "platypus", "moth", "tiger", "fish", "bat", "zebrafish"],
    columns=ATTRIBUTES,
)
UNSEEN = ["bat", "zebrafish"]
SEEN = [name for name in ANIMALS.index if name not in UNSEEN]
MIXING = np.random.default_rng(7).normal(size=(4, 6))
FEATURES = [f"f{j}" for j in range(6)]
NAMED = ("fit", "train.csv", "--category", "animal")
FIT = (*NAMED, "--signatures", "signatures.csv", "--out", "m.mm")


def rows(names: list[str], n: int, seed: int) -> pd.DataFrame:
    """Rows whose features are their attributes, mixed and noisy."""
    rng = np.random.default_rng(seed)
    animal = np.array(names)[np.arange(n) % len(names)]
    X = (2 * ANIMALS.loc[animal].to_numpy() - 1) @ MIXING + 0.3 * rng.normal(size=(n, 6))
    return pd.DataFrame({"animal": animal, **dict(zip(FEATURES, X.round(4).T, strict=True))})


@pytest.fixture(autouse=True)
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ANIMALS.to_csv("signatures.csv")
    ANIMALS.loc[SEEN].to_csv("seen_signatures.csv")
    rows(SEEN, 160, 0).to_csv("train.csv", index=False)
    rows(UNSEEN, 40, 1).to_csv("new.csv", index=False)
    rows([*SEEN, *UNSEEN], 60, 2).to_csv("all.csv", index=False)


def fitted(**options: Any) -> ZeroShotClassifier:
    train = pd.read_csv("train.csv")
    model = ZeroShotClassifier(LinearM3L(random_state=0), ANIMALS, **options)
    return model.fit(train[FEATURES].to_numpy(), train["animal"].to_numpy())


def features(name: str) -> np.ndarray:
    return pd.read_csv(name)[FEATURES].to_numpy()


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ((), {}),
        (("-p", "rule=hamming", "-p", "use_prior=false"), {"rule": "hamming", "use_prior": False}),
        (("-p", "rule=dap", "-p", "candidates=all"), {"rule": "dap", "candidates": "all"}),
        (("-p", "use_frequencies=false"), {"use_frequencies": False}),
        (("-p", "probabilities={'bat': 3, 'zebrafish': 1}"), {"probabilities": {"bat": 3, "zebrafish": 1}}),
    ],
)
def test_fit_and_predict_do_what_the_library_does(run: Run, settings: Any, options: dict[str, Any]) -> None:
    result = run(*FIT, *settings, "--json")
    assert (result.code, result.errors) == (0, [])
    by_hand, answer = fitted(**options), json.loads(result.out)
    assert (answer["attributes"], answer["seen_categories"], answer["candidates"]) == (4, 8, len(by_hand.classes_))
    assert answer["certificate"]["primal"] == by_hand.estimator_.certificate_.primal
    assert answer["parameters"]["rule"] == by_hand.rule
    predicted = pd.read_csv(StringIO(run("predict", "m.mm", "new.csv").out))
    assert predicted.columns.tolist() == ["category"]
    X = features("new.csv")
    assert predicted["category"].tolist() == by_hand.predict(X).tolist()
    scores = pd.read_csv(StringIO(run("predict", "m.mm", "new.csv", "--scores").out))
    assert scores.columns.tolist() == by_hand.classes_.tolist()
    np.testing.assert_allclose(scores, by_hand.decision_function(X), rtol=1e-8, atol=1e-8)
    attributes = pd.read_csv(StringIO(run("predict", "m.mm", "new.csv", "--attributes").out))
    np.testing.assert_array_equal(attributes, by_hand.predict_attributes(X))
    assert attributes.columns.tolist() == ATTRIBUTES


def test_evaluate_reports_categories_and_attributes(run: Run) -> None:
    assert run(*FIT, "-p", "candidates=all").code == 0
    answer = json.loads(run("evaluate", "m.mm", "all.csv", "--json").out)
    by_hand, truth = fitted(candidates="all"), pd.read_csv("all.csv")["animal"].to_numpy()
    predicted = by_hand.predict(features("all.csv"))
    report = answer["report"]
    assert report["accuracy"] == np.mean(predicted == truth)
    assert report["per_category_accuracy"] == metrics.per_class_accuracy(truth, predicted)
    assert report["harmonic_mean_accuracy"] == metrics.harmonic_mean_accuracy(truth, predicted, SEEN)
    expected = metrics.report(
        ANIMALS.loc[truth].to_numpy(),
        by_hand.predict_attributes(features("all.csv")),
        scores=by_hand.attribute_scores(features("all.csv")),
        names=ATTRIBUTES,
    )
    assert report["attributes"] == json.loads(json.dumps(expected.to_dict()))
    assert report["categories"]["bat"] == {
        "rows": 6,
        "accuracy": np.mean(predicted[truth == "bat"] == "bat"),
        "seen": False,
    }
    shown = run("evaluate", "m.mm", "all.csv").out
    assert f"{report['per_category_accuracy']:.4f}" in next(line for line in shown.splitlines() if "mean over" in line)
    assert "seen categories     8" in shown


def test_categories_that_come_later_need_only_signatures(run: Run) -> None:
    train = ("fit", "train.csv", "--category", "animal", "--signatures", "seen_signatures.csv", "--out", "m.mm")
    assert run(*train).code == 0
    assert set(load("m.mm").classes_) == set(SEEN)
    later = ANIMALS.loc[UNSEEN].iloc[:, ::-1]  # in another order
    later.to_csv("later.csv")
    result = run("predict", "m.mm", "new.csv", "--signatures", "later.csv", "--json")
    answer, expected = json.loads(result.out), load("m.mm").predict(features("new.csv"), signatures=ANIMALS.loc[UNSEEN])
    assert answer["category_names"] == UNSEEN
    assert answer["categories"] == expected.tolist()
    report = json.loads(run("evaluate", "m.mm", "new.csv", "--signatures", "later.csv", "--json").out)
    assert report["candidates"] == 2
    assert report["report"]["accuracy"] == np.mean(expected == pd.read_csv("new.csv")["animal"])


def test_rows_may_have_attributes_of_their_own(run: Run) -> None:
    table = rows(SEEN, 160, 0)
    table[ATTRIBUTES] = ANIMALS.loc[table["animal"]].to_numpy()
    table.loc[::7, "wings"] = np.nan
    table.drop(columns="animal").to_csv("attributes.csv", index=False)
    result = run(
        "fit",
        "attributes.csv",
        "--labels",
        "wings,fur,stripes,swims",
        "--signatures",
        "signatures.csv",
        "--out",
        "m.mm",
    )
    assert (result.code, result.errors) == (0, [])
    model = load("m.mm")
    assert model.classes_.tolist() == ANIMALS.index.tolist()
    np.testing.assert_allclose(model.attribute_frequencies_, table[ATTRIBUTES].mean())
    report = json.loads(run("evaluate", "m.mm", "attributes.csv", "--json").out)["report"]
    found = read_csv("attributes.csv", labels=ATTRIBUTES)
    scores = model.attribute_scores(found.X)
    by_hand = metrics.report(found.Y, (scores > 0).astype(int), scores=scores, names=ATTRIBUTES)
    assert report == json.loads(json.dumps(by_hand.to_dict()))
    named = json.loads(run("evaluate", "m.mm", "new.csv", "--category", "animal", "--json").out)["report"]
    assert named["accuracy"] == np.mean(model.predict(features("new.csv")) == pd.read_csv("new.csv")["animal"])


def test_whole_categories_are_held_out(run: Run) -> None:
    result = run(*FIT, "--test-size", "0.25", "--json")
    held_out = json.loads(result.out)["held_out"]["report"]["categories"]
    assert len(held_out) == 2
    assert not any(score["seen"] for score in held_out.values())
    assert set(held_out) | set(UNSEEN) == set(load("m.mm").classes_)
    assert set(held_out).isdisjoint(load("m.mm").seen_categories_.tolist())
    table = rows([*SEEN, *UNSEEN], 200, 3)
    table["part"] = np.where(table["animal"].isin(UNSEEN), "test", "train")
    table.to_csv("parts.csv", index=False)
    options = ("--category", "animal", "--signatures", "signatures.csv", "--split", "part", "--json")
    assert set(json.loads(run("fit", "parts.csv", *options).out)["held_out"]["report"]["categories"]) == set(UNSEEN)


def test_texts_and_steps_work_as_elsewhere(run: Run) -> None:
    words = {name: " ".join(ANIMALS.columns[row == 1]) for name, row in ANIMALS.iterrows()}
    for name, animals in (("texts", SEEN), ("new_texts", UNSEEN)):
        table = pd.DataFrame({"said": [words[animal] for animal in animals * 4], "animal": animals * 4})
        table.to_json(f"{name}.jsonl", orient="records", lines=True)
    text = ("fit", "texts.jsonl", "--text", "said", "--category", "animal", "--signatures", "signatures.csv")
    assert run(*text, "-p", "C=10", "--out", "t.mm").code == 0
    assert json.loads(run("evaluate", "t.mm", "new_texts.jsonl", "--json").out)["report"]["accuracy"] == 1.0
    assert run(*FIT, "--scale").code == 0
    assert "columns scaled" in run(*FIT, "--scale").out
    top = pd.read_csv(StringIO(run("predict", "m.mm", "new.csv", "--top", "2", "--scores").out))
    assert top.columns.tolist() == ["category_1", "score_1", "category_2", "score_2"]
    assert (top["score_1"] >= top["score_2"]).all()
    assert run("predict", "m.mm", "new.csv", "--out", "p.csv").out == "40 rows of new.csv: p.csv\n"


def test_a_file_without_the_category_can_be_predicted(run: Run) -> None:
    assert run(*FIT).code == 0
    pd.read_csv("new.csv").drop(columns="animal").iloc[:, ::-1].to_csv("bare.csv", index=False)
    assert run("predict", "m.mm", "bare.csv").out == run("predict", "m.mm", "new.csv").out


def test_signatures_with_the_same_attributes_are_spoken_of(run: Run) -> None:
    ANIMALS.to_csv("twins.csv")
    with Path("twins.csv").open("a") as file:
        file.write("twin,1,1,0,0\n")
    result = run("fit", "train.csv", "--category", "animal", "--signatures", "twins.csv")
    assert result.errors == [
        "warning: twins.csv: 'bat' and 'twin' have the same attributes, so 'twin' is never predicted."
    ]


@pytest.fixture
def wrong(run: Run) -> None:
    """Files that are wrong in one way each."""
    assert run(*FIT).code == 0
    ANIMALS.drop(index="owl").to_csv("no_owl.csv")
    ANIMALS.assign(alive=1).to_csv("alive.csv")
    pd.concat([ANIMALS, ANIMALS.loc[["owl"]]]).to_csv("owl_twice.csv")
    ANIMALS.rename(columns={"fur": "hair"}).to_csv("hair.csv")
    ANIMALS.iloc[:1].to_csv("one.csv")
    rows(SEEN, 20, 4).assign(animal=["", *SEEN, *SEEN, "owl", "owl", "owl"]).to_csv("nameless.csv", index=False)
    pd.concat([rows(UNSEEN, 20, 5), rows(["bat"], 1, 6).assign(animal="dragon")]).to_csv("dragon.csv", index=False)
    run("fit", "digit-strips", "--out", "labels.mm")
    Path("numbers.svm").write_text("1 1:1\n")
    Path("numbers.csv").write_text("f0,f1\n1,2\n0,1\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*NAMED, "--signatures", "no_owl.csv"), "'owl' in 20 rows, which has no signature in no_owl.csv"),
        ((*NAMED, "--signatures", "alive.csv"), "'alive' is 1 for all 10. Remove the column"),
        ((*NAMED, "--signatures", "owl_twice.csv"), "found 'owl' twice"),
        ((*NAMED, "--signatures", "one.csv"), "at least two categories"),
        ((*NAMED, "--signatures", "none.csv"), "none.csv: no such file"),
        (("fit", "train.csv", "--signatures", "signatures.csv"), "Name the column with the category"),
        (("fit", "train.csv", "--category", "animals", "--signatures", "signatures.csv"), "Did you mean animal?"),
        (("fit", "nameless.csv", "--category", "animal", "--signatures", "signatures.csv"), "row 1 has none"),
        (("fit", "train.csv", "--category", "animal"), "Give their attributes with --signatures"),
        (("fit", "numbers.csv", "--signatures", "signatures.csv", "--labels", "f0"), "'f0' is not in signatures.csv"),
        (("fit", "numbers.svm", *NAMED[2:], "--signatures", "signatures.csv"), "--category is for files with named"),
        ((*FIT, "--labels", "f0"), "give --category or --labels, not both"),
        ((*FIT, "--thresholds", "macro-f1"), "--thresholds is for models that predict labels"),
        ((*FIT, "--calibrate", "sigmoid"), "--calibrate is for models that predict labels"),
        ((*FIT, "--prior", "labels"), "Leave --prior out, or give -p use_prior=false"),
        ((*FIT, "--model", "mlknn"), "or set -p use_prior=False"),
        ((*FIT, "--model", "mlknn"), "Use --model linear-m3l or kernel-m3l"),
        ((*FIT, "-p", "rule=nearest"), "rule must be one of"),
        ((*FIT, "-p", "rules=dap"), "no parameter 'rules'"),
        ((*FIT, "--test-size", "8"), "it takes 8 of 8"),
        (("predict", "m.mm", "new.csv", "--signatures", "hair.csv"), "lack the attribute 'fur'"),
        (("predict", "m.mm", "new.csv", "--proba"), "Use --scores"),
        (("predict", "m.mm", "new.csv", "--top", "3"), "categories from 1 to the 2"),
        (("predict", "m.mm", "new.csv", "--attributes", "--top", "5"), "attributes from 1 to the 4"),
        (("predict", "m.mm", "new.csv", "--attributes", "--signatures", "hair.csv"), "Leave --signatures or"),
        (("predict", "labels.mm", "digit-strips", "--attributes"), "this one predicts labels"),
        (("evaluate", "labels.mm", "digit-strips", "--category", "animal"), "this one predicts labels"),
        (("evaluate", "m.mm", "dragon.csv"), "'dragon', which the model cannot predict: it has no signature"),
        (("evaluate", "m.mm", "all.csv"), "Fit with -p candidates=all"),
        (("report", "m.mm", "new.csv"), "predicts categories, not labels. Judge it with: multimargin evaluate"),
    ],
)
@pytest.mark.usefixtures("wrong")
def test_what_is_wrong_is_said_in_one_sentence(run: Run, words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert len(result.errors) == 1
    assert message in result.errors[0]
