"""Tables whose data may not be passed on: run on small made-up files in the published formats."""

import json

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from papers.__main__ import main

N_LABELS = 6


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def rows(rng, n, d=12, n_labels=N_LABELS):
    """Counts, and labels that depend on them."""
    X = rng.poisson(2.0, size=(n, d))
    scores = X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels))
    return X, (scores > np.quantile(scores, 0.6, axis=0)).astype(int)


def libsvm(path, X, Y):
    lines = (
        f"{','.join(map(str, np.flatnonzero(y)))}  {' '.join(f'{j + 1}:{value}' for j, value in enumerate(x) if value)}"
        for x, y in zip(X, Y, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")


def vectors(path, table):
    np.column_stack([np.full(len(table), table.shape[1]), table]).astype("<u2").tofile(path)


def siam(folder, rng):
    X, Y = rows(rng, 600)
    libsvm(folder / "tmc2007_train.svm", X[:400], Y[:400])
    libsvm(folder / "tmc2007_test.svm", X[400:], Y[400:])


def rcv1(folder, rng):
    X, Y = rows(rng, 1000)
    libsvm(folder / "rcv1_topics_train.svm", X[:200], Y[:200])
    for part, start in enumerate(range(200, 1000, 200)):
        libsvm(folder / f"rcv1_topics_test_{part}.svm", X[start : start + 200], Y[start : start + 200])


def mirflickr(folder, rng):
    X, Y = rows(rng, 600, n_labels=12)
    for name, part in (("train", slice(300)), ("test", slice(300, None))):
        vectors(folder / f"mirflickr_{name}_DenseSift.hvecs", X[part])
        vectors(folder / f"mirflickr_{name}_tags.hvecs", Y[part])
    (folder / "mirflickr_dictionary.txt").write_text("\n".join(f"tag{k}" for k in range(12)))


def pascal(folder, rng):
    X, Y = rows(rng, 600)
    for name, part in (("train", slice(300)), ("test", slice(300, None))):
        vectors(folder / f"pascal07_{name}_DenseSiftV3H1.hvecs", X[part])
        np.savetxt(folder / f"pascal07_{name}_classes.txt", 2 * Y[part] - 1, fmt="%d")
    (folder / "pascal07_classes.txt").write_text("\n".join(f"class{k}" for k in range(N_LABELS)))


def ayahoo(folder, rng):
    X, Y = rows(rng, 500)
    (folder / "attribute_names.txt").write_text("\n".join(f"attribute {k}" for k in range(N_LABELS)))
    for name, part in (("apascal_train", slice(400)), ("ayahoo_test", slice(400, None))):
        lines = [f"image.jpg {name[1:7]} 1 2 3 4 {' '.join(map(str, y))}" for y in Y[part]]
        (folder / f"{name}.txt").write_text("\n".join(lines))
        savemat(folder / f"feat_{name}.mat", {"feat": csc_matrix(X[part].T.astype(float))})


def fmri(folder, rng):
    numbers = rng.normal(size=(8, N_LABELS))
    nouns = [f"{kind}{k}" for kind in ("bird", "tool") for k in range(4)]
    lines = [f"{noun},{','.join(map(str, row))}" for noun, row in zip(nouns, numbers, strict=True)]
    header = ",".join(["noun", *(f"verb{k}" for k in range(N_LABELS))])
    (folder / "semantic_features.csv").write_text("\n".join([header, *lines]))
    shown = np.tile(np.arange(8), 6)
    info = np.array([(nouns[k][:4], nouns[k]) for k in shown], dtype=[("cond", object), ("word", object)])
    data = np.empty((len(shown), 1), dtype=object)
    for row, k in enumerate(shown):
        data[row, 0] = numbers[[k]] @ np.eye(N_LABELS, 20) + 0.1 * rng.normal(size=(1, 20))
    savemat(folder / "data-science-P1.mat", {"info": info[None, :], "data": data})


@pytest.mark.parametrize(
    ("paper", "table", "folder", "write", "name"),
    [
        ("hariharan2012", "table3-siam", "libsvm", siam, "SIAM, linear: M3L"),
        ("hariharan2012", "table3-ayahoo", "apascal", ayahoo, "a-Yahoo, linear: M3L"),
        ("hariharan2012", "table2-full", "libsvm", rcv1, "converged: test error, %"),
        ("hariharan2012", "fmri", "fmri", fmri, "M3L"),
        ("guo2013", "mirflickr", "inria", mirflickr, "10 labels, 100 rows, LM-K, micro"),
        ("tan2015", "pascal07", "inria", pascal, "CGM, Hamming loss"),
    ],
)
def test_tables_run_where_the_files_are(paper, table, folder, write, name, rng, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MULTIMARGIN_DATA", str(tmp_path))
    assert main([paper, table, "--small"]) == 2
    assert f"{folder}/" in capsys.readouterr().err
    (tmp_path / folder).mkdir()
    write(tmp_path / folder, rng)
    assert main([paper, table, "--small", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    ours = {row["name"]: row["ours"] for row in found["rows"]}
    assert 0 < ours[name] < 100


def test_a_whole_paper_leaves_out_what_is_not_here(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MULTIMARGIN_DATA", str(tmp_path))
    assert main(["hariharan2012", "--small", "--json"]) == 0
    reasons = {found["table"]: found["unavailable"] for found in json.loads(capsys.readouterr().out)}
    assert all(reasons.values())
    assert "tmc2007-full is not on this machine" in reasons["table3-siam"]
