"""Files as people have them: unknown labels, gaps, identifiers, texts; and rows of one file held out."""

import json
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from multimargin import LinearM3L, ThresholdTuner, load, metrics, save
from multimargin.labels import read_labels
from multimargin.model_selection import train_test_split

from .conftest import FEATURES, LABELS, libsvm, sample

Run = Callable[..., Any]


def table(X: np.ndarray, Y: np.ndarray, **more: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=FEATURES).assign(**dict(zip(LABELS, Y.T, strict=True)), **more)


def with_unknown(Y: np.ndarray, seed: int = 3) -> np.ndarray:
    Y = Y.astype(float)
    Y[np.random.default_rng(seed).random(Y.shape) < 0.2] = np.nan
    return Y


def words(n: int = 60, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts whose words say their labels."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, 2)) < 0.5).astype(int)
    noise = rng.choice(["a day", "the town", "one more, he said"], n)
    return [f"{w} {'blue waves' * a} {'bright light' * b}" for w, (a, b) in zip(noise, Y, strict=True)], Y


def answer(result: Any) -> Any:
    assert (result.code, result.errors) == (0, []), result.errors
    return json.loads(result.out)


@pytest.mark.parametrize("kind", ["csv", "arff", "jsonl", "parquet"])
def test_unknown_labels_are_trained_around_and_not_judged(run: Run, folder: Path, kind: str) -> None:
    for name, seed in (("train", 0), ("test", 1)):
        X, Y = sample(80, seed=seed)
        frame = table(X, with_unknown(Y))
        if kind == "csv":
            frame.to_csv(f"{name}.csv", index=False)
        elif kind == "jsonl":
            frame.to_json(f"{name}.jsonl", orient="records", lines=True)
        elif kind == "parquet":
            pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
            frame.to_parquet(f"{name}.parquet")
        else:
            head = [f"@attribute {n} numeric" for n in FEATURES] + [f"@attribute {n} {{0,1}}" for n in LABELS]
            rows = frame.astype(object).where(frame.notna(), "?").to_numpy().tolist()
            lines = [",".join("?" if c == "?" else f"{c:g}" for c in row) for row in rows]
            Path(f"{name}.arff").write_text("\n".join(["@relation 't: -C -2'", *head, "@data", *lines]))
    columns = () if kind == "arff" else ("--labels", "sea,sun")
    fitted = answer(run("fit", f"train.{kind}", *columns, "-p", "tol=1e-6", "--out", "m.mm", "--json"))
    X, Y = sample(80)
    Y = with_unknown(Y)
    assert fitted["unknown_cells"] == np.isnan(Y).sum()
    by_hand = LinearM3L(tol=1e-6, random_state=0).fit(X, Y)
    np.testing.assert_allclose(load("m.mm").coef_, by_hand.coef_, rtol=1e-6)
    X, Y = sample(80, seed=1)
    judged = answer(run("evaluate", "m.mm", f"test.{kind}", "--json"))["report"]["values"]
    expected = metrics.report(with_unknown(Y), by_hand.predict(X), scores=by_hand.decision_function(X))
    assert judged["hamming-loss"] == pytest.approx(expected["hamming-loss"])
    assert judged["macro-f1"] == pytest.approx(expected["macro-f1"])
    predicted = pd.read_csv(StringIO(run("predict", "m.mm", f"test.{kind}").out))
    np.testing.assert_array_equal(predicted, by_hand.predict(X))


@pytest.mark.parametrize("model", ["mlknn", "least-squares"])
def test_a_model_that_needs_every_label_says_so_by_name(run: Run, folder: Path, model: str) -> None:
    from multimargin.cli._models import known_models

    names = {name for name in known_models() if name.endswith(model)}
    X, Y = sample(30)
    table(X, with_unknown(Y)).to_csv("open.csv", index=False)
    for name in names:
        result = run("fit", "open.csv", "--labels", "sea,sun", "--model", name, "--out", "m.mm")
        assert result.code == 2
        assert known_models()[name].__name__ in result.errors[0]
        assert "unknown cells (NaN). Fill them" in result.errors[0]
        assert result.errors[0].endswith("such as --model linear-m3l.")
    assert names
    assert not Path("m.mm").exists()


def gaps(X: np.ndarray) -> np.ndarray:
    X = X * [1.0, 1000.0, 0.01]
    X[np.random.default_rng(5).random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.parametrize("strategy", ["mean", "median"])
@pytest.mark.parametrize("decisions", [(), ("--thresholds", "macro-f1")], ids=["plain", "tuned"])
def test_scaling_and_filling_are_steps_of_the_model(
    run: Run, folder: Path, strategy: str, decisions: tuple[str, ...]
) -> None:
    (X, Y), (X_test, Y_test) = sample(), sample(seed=1)
    X, X_test = gaps(X), gaps(X_test)
    table(X, Y, id=[f"row {k}" for k in range(len(X))]).to_csv("train.csv", index=False)
    table(X_test, Y_test, id="new").to_csv("test.csv", index=False)
    words = ("--labels", "sea,sun", "--ignore", "id", "--missing", strategy, "--scale", *decisions)
    answer(run("fit", "train.csv", *words, "--out", "m.mm", "--json"))
    steps = SimpleImputer(strategy=strategy), StandardScaler(), LinearM3L(random_state=0)
    by_hand: Any = make_pipeline(*steps)
    if decisions:
        by_hand = ThresholdTuner(by_hand, scoring="macro-f1", random_state=0)
    by_hand.fit(X, Y)
    # the test file is read as the training file was, with its gaps and without its identifiers, which may be absent
    scores = pd.read_csv(StringIO(run("predict", "m.mm", "test.csv", "--scores").out))
    np.testing.assert_allclose(scores, by_hand.decision_function(X_test), rtol=1e-6, atol=1e-9)
    table(X_test, Y_test).to_csv("bare.csv", index=False)
    assert run("predict", "m.mm", "bare.csv", "--scores").out == run("predict", "m.mm", "test.csv", "--scores").out
    report = answer(run("evaluate", "m.mm", "test.csv", "--json"))["report"]
    assert report["values"]["micro-f1"] == pytest.approx(metrics.micro_f1(Y_test, by_hand.predict(X_test)))


def test_a_gap_or_a_text_names_the_column_and_the_option(run: Run, folder: Path) -> None:
    X, Y = sample(6)
    X[2, 1] = np.nan
    table(X, Y).to_csv("gaps.csv", index=False)
    table(X, Y).to_json("gaps.json", orient="records")
    for name in ("gaps.csv", "gaps.json"):
        (line,) = run("fit", name, "--labels", "sea,sun").errors
        assert "'red'" in line
        assert line.endswith("fill such cells with: fit --missing mean (or median)")
        assert run("fit", name, "--labels", "sea,sun", "--missing", "mean").code == 0
    table(X[:2], Y[:2], **{"the id": "x"}).to_csv("text.csv", index=False)
    (line,) = run("fit", "text.csv", "--labels", "sea,sun").errors
    assert line.endswith("leave the column out with --ignore 'the id'")
    assert run("fit", "text.csv", "--labels", "sea,sun", "--ignore", "the id").code == 0


def test_scale_gives_sparse_rows_length_1(run: Run, folder: Path) -> None:
    X, Y = sample()
    libsvm(folder / "train.svm", X, Y)
    answer(run("fit", "train.svm", "--scale", "--out", "m.mm", "--json"))
    by_hand = make_pipeline(Normalizer(), LinearM3L(random_state=0)).fit(csr_matrix(X), Y)
    np.testing.assert_allclose(load("m.mm")[-1].coef_, by_hand[-1].coef_)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("more", [(), ("--thresholds", "macro-f1"), ("--calibrate", "sigmoid")], ids=str)
def test_texts_are_features_inside_the_model(run: Run, folder: Path, ending: str, more: tuple[str, ...]) -> None:
    texts, Y = words()
    frame = pd.DataFrame({"number": range(60), "said": texts, "sea": Y[:, 0], "sun": Y[:, 1], "who": "me"})
    frame.to_csv("talk.csv", index=False)
    frame.to_json("talk.jsonl", orient="records", lines=True)
    fitted = ("fit", f"talk.{ending}", "--text", "said", "--labels", "sea,sun", *more, "--out", "m.mm", "--json")
    assert answer(run(*fitted))["features"] == "texts of said"
    model = load("m.mm")
    for name in ("talk.csv", "talk.jsonl"):  # whichever it was trained on
        values = answer(run("evaluate", "m.mm", name, "--json"))["report"]["values"]
        assert values["subset-accuracy"] == 1.0
        predicted = pd.read_csv(StringIO(run("predict", "m.mm", name).out))
        np.testing.assert_array_equal(predicted.to_numpy(), read_labels(model.predict(texts)).positives.toarray())
    if not more:
        assert isinstance(model, Pipeline)
        assert isinstance(model[0], TfidfVectorizer)
    (line,) = run("predict", "m.mm", "talk.csv", "--text", "say").errors
    assert "no column 'say'" in line


def test_models_of_texts_from_python_need_the_column(run: Run, folder: Path) -> None:
    texts, Y = words()
    model = make_pipeline(TfidfVectorizer(), LinearM3L(random_state=0)).fit(texts, pd.DataFrame(Y, columns=LABELS))
    save(model, "words.mm")
    pd.DataFrame({"said": texts}).to_csv("new.csv", index=False)
    predicted = pd.read_csv(StringIO(run("predict", "words.mm", "new.csv", "--text", "said").out))
    np.testing.assert_array_equal(predicted, model.predict(texts))
    (line,) = run("predict", "words.mm", "digit-strips").errors
    assert "--text COLUMN" in line
    assert run("fit", "train.csv", "--labels", "sea,sun", "--out", "m.mm").code == 0
    (line,) = run("predict", "m.mm", "new.csv", "--text", "said").errors
    assert "this one takes 3 features. Leave it out." in line


def test_a_share_of_the_rows_is_held_out(run: Run, folder: Path) -> None:
    X, Y = sample(50)
    table(X, Y).to_csv("all.csv", index=False)
    words = ("fit", "all.csv", "--labels", "sea,sun", "--test-size")
    found = answer(run(*words, "0.2", "--out", "m.mm", "--json"))
    X_train, X_test, Y_train, Y_test = train_test_split(X, Y, test_size=0.2, random_state=0)
    by_hand = LinearM3L(random_state=0).fit(X_train, Y_train)
    assert (found["rows"], found["held_out"]["rows"]) == (40, 10)
    expected = metrics.report(Y_test, by_hand.predict(X_test), scores=by_hand.decision_function(X_test))
    assert found["held_out"]["report"]["values"]["micro-f1"] == pytest.approx(expected["micro-f1"])
    np.testing.assert_array_equal(load("m.mm").coef_, by_hand.coef_)
    assert answer(run(*words, "10", "--json"))["held_out"] == found["held_out"]
    shown = run(*words, "0.2").out
    assert "On the 10 rows held out:" in shown
    assert "macro" in shown
    assert answer(run("fit", "digit-strips", "-p", "C=1", "--test-size", "0.5", "--json"))["held_out"]["rows"] > 100
    for strange in ("0", "1.5", "-1"):
        assert "--test-size takes a share" in run(*words, strange).errors[0]
    assert "--test-size" in run(*words, "60").errors[0]


@pytest.mark.parametrize("verb", ["fit", "tune"])
def test_a_column_says_which_rows_are_held_out(run: Run, folder: Path, verb: str) -> None:
    X, Y = sample(60)
    test = np.arange(60) % 3 == 0
    table(X, Y, part=np.where(test, "test", "Train")).to_csv("all.csv", index=False)
    quick = () if verb == "fit" else ("--model", "linear-m3l", "--C", "1", "--folds", "2", "--jobs", "1")
    words = (verb, "all.csv", "--labels", "sea,sun", "--split", "part", *quick, "--out", "m.mm", "--json")
    found = answer(run(*words))
    assert (found["rows"], found["held_out"]["rows"]) == (40, 20)
    expected = metrics.report(Y[test], read_labels(load("m.mm").predict(X[test])).positives)
    assert found["held_out"]["report"]["values"]["hamming-loss"] == pytest.approx(expected["hamming-loss"])
    assert run("predict", "m.mm", "test.csv").code == 0  # which has no such column
    table(X, Y, part="other").to_csv("all.csv", index=False)
    (line,) = run(*words).errors
    assert "every row must have train or test in that column; found 'other'" in line
    table(X, Y, part="test").to_csv("all.csv", index=False)
    assert "all have 'test'" in run(*words).errors[0]
    assert "not both" in run(*words, "--test-size", "0.5").errors[0]


@pytest.mark.parametrize("model", [(), ("--model", "linear-m3l", "--scale")], ids=["all", "one"])
def test_tune_prepares_features(run: Run, folder: Path, model: tuple[str, ...]) -> None:
    X, Y = sample(60)
    table(gaps(X), with_unknown(Y), id="x").to_csv("gaps.csv", index=False)
    quick = ("--C", "2", "--folds", "2", "--jobs", "1", "--allow-unconverged", "--json", "--out", "m.mm")
    found = run("tune", "gaps.csv", "--labels", "sea,sun", "--ignore", "id", "--missing", "median", *model, *quick)
    assert found.code == 0, found.errors
    assert run("evaluate", "m.mm", "gaps.csv").code == 0
    texts, Y = words(40)
    pd.DataFrame({"said": texts, "sea": Y[:, 0], "sun": Y[:, 1]}).to_csv("talk.csv", index=False)
    assert run("tune", "talk.csv", "--labels", "sea,sun", "--text", "said", *model, *quick).code == 0
    judged = answer(run("evaluate", "m.mm", "talk.csv", "--json"))["report"]["values"]
    assert judged["micro-f1"] > 0.9


def test_the_index_of_pandas_is_left_out_and_said_once(run: Run, folder: Path) -> None:
    X, Y = sample()
    table(X, Y).to_csv("train.csv")
    result = run("fit", "train.csv", "--labels", "-2", "--out", "m.mm")
    assert result.code == 0
    (line,) = result.errors
    assert line.startswith("warning: train.csv: the column 'Unnamed: 0' is an index that pandas wrote")
    assert "--ignore 'Unnamed: 0'" in line
    assert run("predict", "m.mm", "train.csv").errors == []
    assert run("fit", "train.csv", "--labels", "-2", "--ignore", "Unnamed: 0").errors == []
    np.testing.assert_array_equal(load("m.mm").n_features_in_, 3)


def test_decimal_commas_and_lists_of_labels(run: Run, folder: Path) -> None:
    X, Y = sample()
    table(X, Y).to_csv("comma.csv", index=False, sep=";", decimal=",")
    answer(run("fit", "comma.csv", "--labels", "sea,sun", "--out", "comma.mm", "--json"))
    answer(run("fit", "train.csv", "--labels", "sea,sun", "--out", "point.mm", "--json"))
    np.testing.assert_array_equal(load("comma.mm").coef_, load("point.mm").coef_)
    tags = [[name for name, there in zip(LABELS, row, strict=True) if there] for row in Y]
    frame = pd.DataFrame(X, columns=FEATURES).assign(tags=tags)
    frame.to_json("lists.jsonl", orient="records", lines=True)
    answer(run("fit", "lists.jsonl", "--labels", "tags", "--out", "lists.mm", "--json"))
    np.testing.assert_array_equal(load("lists.mm").coef_, load("point.mm").coef_)
    frame.iloc[:5].assign(tags=[["sun"]] * 5).to_json("few.json", orient="records")  # one of the labels only
    assert answer(run("evaluate", "lists.mm", "few.json", "--json"))["labels"] == 2
    (line,) = run("fit", "train.csv", "--labels", "tags").errors
    assert "no column 'tags'; the columns are 'blue', 'red', 'green', 'sea', 'sun'" in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "train.svm", "--ignore", "id"), "--ignore is for files with named columns"),
        (("fit", "digit-strips", "--text", "id"), "--text is for files with named columns"),
        (
            ("fit", "train.csv", "--labels", "sea,sun", "--missing", "mode"),
            "--missing takes one of error, mean, median",
        ),
        (("fit", "train.csv", "--labels", "sea,sun", "--ignore", "id"), "no column 'id'"),
        (("fit", "train.csv", "--labels", "sea,sun", "--ignore", "sun"), "either a label or ignored"),
        (("fit", "train.csv"), "expected --labels to say which columns are labels"),
        (("fit", "classes.arff", "--labels", "class"), "leave the column out with --ignore class"),
        (("fit", "classes.csv", "--labels", "class"), "make a column of 0 and 1 for each value"),
        (("fit", "plain.txt"), "give --format, one of arff"),
        (("fit", "train.csv", "--format", "excel"), "--format must be one of"),
        (("fit", "large.csv", "--labels", "sea"), "Rescale it, or leave it out with --ignore red"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_advice_is_for_the_command(run: Run, folder: Path, words: tuple[str, ...], message: str) -> None:
    head = "@relation r\n@attribute a numeric\n@attribute class {0,1,2,3,4}\n@data\n"
    Path("classes.arff").write_text(f"{head}1,3\n")
    Path("classes.csv").write_text("a,class\n1,3\n")
    Path("plain.txt").write_text("what is this\n")
    Path("large.csv").write_text("red,sea\n1e200,1\n2,0\n")
    result = run(*words)
    assert result.code == 2
    (line,) = result.errors
    assert message in line
    assert not {"ignore=", "labels=", "format=", "missing=", "text="} & set(line.replace("[", " ").split())


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        ("Increase max_iter, scale the features, or lower C.",
         "Increase -p max_iter, scale the features with --scale, or lower -p C."),
        ("Scale the features (sklearn.preprocessing.StandardScaler or Normalizer), or choose C around 0.1.",
         "Scale the features with --scale, or choose -p C around 0.1."),
        ("Scale the features, with StandardScaler or normalize, or lower C towards 2.",
         "Scale the features with --scale or lower -p C towards 2."),
        ("Increase max_cliques, max_iter or time_limit, or use another rule for stopping.",
         "Increase -p max_cliques, -p max_iter or -p time_limit, or use another rule for stopping."),
        ("Use solver='rows', or fewer rows.", "Use -p solver=rows, or fewer rows."),
        ("Scale the features to [0, 1], or use kernel='rbf'.", "Scale the features to [0, 1], or use -p kernel=rbf."),
        ("Use LinearM3L(), KernelM3L(), or ThresholdTuner for an estimator without C.",
         "Use --model linear-m3l, --model kernel-m3l, or fit --thresholds for an estimator without C."),
        ("Set cache_size to 12 or more.", "Set -p cache_size to 12 or more."),
        ("LinearM3L has no parameter 'c'. Known parameters: C, loss, tol. Did you mean C?",
         "LinearM3L has no parameter 'c'. Known parameters: C, loss, tol. Did you mean C?"),
    ],
)  # fmt: skip
def test_advice_on_models_names_options(advice: str, expected: str) -> None:
    from multimargin.cli._remedies import for_the_command

    assert for_the_command(advice) == expected


def test_the_version_needs_no_extras(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["typer"] = sys.modules["rich"] = None
from multimargin.cli import main
assert main(["--version"]) == 0
assert main(["fit"]) == 2
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("multimargin ")
    assert 'pip install "multimargin[cli]"' in result.stderr


def test_examples_use_options_that_exist() -> None:
    import re
    import shlex

    import typer.main

    from multimargin.cli._app import VERBS, make_app

    verbs: Any = typer.main.get_command(make_app())
    page = (Path(__file__).parents[2] / "docs" / "command.md").read_text()
    lines = [
        line.strip()
        for text in (page, *(verb.HELP for verb in VERBS.values()))
        for line in text.splitlines()
        if re.match(r"\s*multimargin \w+ ", line)
    ]
    assert len(lines) > 30
    for line in lines:
        _, verb, *given = shlex.split(line)
        known = {option for parameter in verbs.commands[verb].params for option in parameter.opts}
        used = {word for word in given if re.match(r"--?[a-zA-Z]", word)}
        assert used <= known, line
