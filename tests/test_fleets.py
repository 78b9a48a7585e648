"""Training from part files, one part in memory at a time."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from interrupts import assert_answers_ctrl_c

from multimargin import LinearM3L, datasets, fit_parts, load, save
from multimargin.errors import InputError
from multimargin.fleets import StreamedFleet, part_sources

TOL = 1e-3


def make_rows(rng, n=300, d=20, n_labels=4):
    X = sp.random_array((n, d), density=0.3, rng=rng, format="csr", dtype=np.float64)
    Y = (X @ rng.normal(size=(d, n_labels)) + 0.1 * rng.normal(size=(n, n_labels)) > 0.2).astype(int)
    return sp.csr_matrix(X), Y


def write_npz(folder, X, Y, K, **more):
    for k, rows in enumerate(np.array_split(np.arange(len(Y)), K)):
        extra = {key: value[rows] for key, value in more.items()}
        np.savez(folder / f"part{k}.npz", X=X[rows].toarray(), Y=Y[rows], **extra)
    return datasets.PartFiles(folder, "*.npz", dtype=np.float64)


def same_optimum(model, one):
    assert model.certificate_.converged
    return abs(model.certificate_.primal - one.certificate_.primal) <= 2 * TOL * one.certificate_.primal


@pytest.mark.parametrize("limit", [None, 200_000])
def test_npz_parts(rng, tmp_path, monkeypatch, limit):
    monkeypatch.setattr("multimargin.fleets.resident_bytes", lambda: 0)
    X, Y = make_rows(rng)
    Y = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    weight = rng.random(len(Y)) + 0.5
    files = write_npz(tmp_path, X, Y, 7, sample_weight=weight)
    model = fit_parts(LinearM3L(random_state=0), files, memory_limit=limit)
    one = LinearM3L(random_state=0).fit(X.toarray(), Y, sample_weight=weight)
    assert same_optimum(model, one)
    again = fit_parts(LinearM3L(random_state=0, n_jobs=2), files, memory_limit=limit)
    assert np.array_equal(model.coef_, again.coef_)
    assert model.label_names_.tolist() == ["0", "1", "2", "3"]
    save(model, tmp_path / "model.mm")
    assert np.array_equal(load(tmp_path / "model.mm").predict(X).toarray(), model.predict(X).toarray())


def test_where_things_are_held_does_not_matter(rng, tmp_path, monkeypatch):
    monkeypatch.setattr("multimargin.fleets.resident_bytes", lambda: 0)
    X, Y = make_rows(rng)
    files = write_npz(tmp_path, X, Y, 5)
    kept = fit_parts(LinearM3L(random_state=0), files)
    fleet = StreamedFleet(part_sources(files), 1, 2**30, None)
    facts = fleet.describe()
    fleet.close()
    rows = max(f.n_rows for f in facts)
    tight = 10 * 8 * 21 * 4 + 2 * rows * (20 * 20 + 4 * 17 + 64) + rows * 4 * 9
    on_disk = fit_parts(LinearM3L(random_state=0), files, memory_limit=tight)
    some_kept = fit_parts(LinearM3L(random_state=0), files, memory_limit=tight + 4 * len(Y))
    assert np.array_equal(kept.coef_, on_disk.coef_)
    assert np.array_equal(kept.coef_, some_kept.coef_)
    assert kept.certificate_ == on_disk.certificate_
    with pytest.raises(InputError, match=f"at least {tight} bytes"):
        fit_parts(LinearM3L(), files, memory_limit=tight - 1)
    monkeypatch.setattr("multimargin.fleets.resident_bytes", lambda: 1)
    with pytest.raises(InputError, match=f"holds already it leaves {tight - 1}"):
        fit_parts(LinearM3L(), files, memory_limit=tight)


def test_libsvm_parts_may_lack_labels_and_last_features(rng, tmp_path):
    X, Y = make_rows(rng, n=120)
    Y[:40, 3] = 0
    X = X.tolil()
    X[80:, 18:] = 0
    X = X.tocsr()
    X.data = np.round(X.data, 3)
    for k, rows in enumerate((range(40), range(40, 80), range(80, 120))):
        lines = []
        for i in rows:
            entries = " ".join(f"{j + 1}:{v:.3f}" for j, v in zip(X[i].indices, X[i].data, strict=True))
            lines.append(",".join(map(str, np.flatnonzero(Y[i]) + 1)) + " " + entries)
        (tmp_path / f"part{k}.svm").write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match="not alike: the frequency of label '4'"):
        model = fit_parts(LinearM3L(random_state=0), datasets.PartFiles(tmp_path, dtype=np.float64))
    one = LinearM3L(random_state=0).fit(X, Y)
    assert model.label_names_.tolist() == ["1", "2", "3", "4"]
    assert model.n_features_in_ == 20
    assert same_optimum(model, one)


def test_parquet_parts_have_names(rng, tmp_path):
    pd = pytest.importorskip("pandas")
    X, Y = make_rows(rng, d=5, n_labels=2)
    table = pd.DataFrame(np.hstack([X.toarray(), Y]), columns=[*"abcde", "sea", "sun"])
    for k in range(3):
        table[k::3].to_parquet(tmp_path / f"{k}.parquet")
    files = datasets.PartFiles(tmp_path, labels=["sea", "sun"], dtype=np.float64)
    model = fit_parts(LinearM3L(random_state=0), files)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert model.label_names_.tolist() == ["sea", "sun"]
    assert same_optimum(model, LinearM3L(random_state=0).fit(X.toarray(), Y))


def test_parts_from_functions_and_limits(rng, tmp_path):
    X, Y = make_rows(rng)
    parts = [lambda rows=rows: (X[rows], Y[rows]) for rows in np.array_split(np.arange(len(Y)), 4)]
    seen = []
    model = fit_parts(LinearM3L(random_state=0, callback=seen.append), parts, scratch=tmp_path, local_passes=3)
    assert same_optimum(model, LinearM3L(random_state=0).fit(X, Y))
    assert [record.pass_ for record in seen] == list(range(1, model.n_iter_ + 1))
    assert model.history_.primal[-1] == model.certificate_.primal
    assert list(tmp_path.iterdir()) == []
    stopped = fit_parts(LinearM3L(random_state=0, callback=lambda record: record.pass_ == 2), parts)
    assert stopped.n_iter_ == 2
    with pytest.warns(UserWarning, match="time_limit"):
        late = fit_parts(LinearM3L(tol=1e-12, time_limit=1e-9), parts)
    assert late.certificate_.dual <= late.certificate_.primal


def test_wrong_parts(tmp_path):
    with pytest.raises(InputError, match="has no file"):
        datasets.PartFiles(tmp_path, "*.npz")
    with pytest.raises(InputError, match="needs a folder"):
        datasets.PartFiles(tmp_path / "nowhere")
    with pytest.raises(InputError, match="parts must be PartFiles"):
        fit_parts(LinearM3L(), np.eye(3))
    with pytest.raises(InputError, match="Part 0 must be a tuple"):
        fit_parts(LinearM3L(), [np.eye(3)])


def test_ctrl_c_leaves_nothing(tmp_path):
    setup = f"""
import numpy as np, scipy.sparse as sp
from pathlib import Path
from multimargin import LinearM3L, fit_parts
rng = np.random.default_rng(0)
entries = rng.random(200_000).astype(np.float32), rng.integers(0, 500, 200_000), np.arange(0, 200_001, 20)
X = sp.csr_matrix(entries, shape=(10_000, 500))
parts = [(X, rng.random((10_000, 40)) < 0.3)] * 4
model = LinearM3L(C=100, tol=1e-9)
scratch = Path({str(tmp_path)!r})
"""
    found = assert_answers_ctrl_c(
        "fit_parts(model, parts, scratch=scratch)",
        setup=setup,
        after=2.0,
        state="(len(list(scratch.iterdir())), vars(model).get('coef_'))",
    )
    assert found == "(0, None)"


MEMORY = """
import sys
import numpy as np, scipy.sparse as sp
from pathlib import Path
from multimargin import LinearM3L, fit_parts

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))

def part(k):
    rng = np.random.default_rng(k)
    entries = rng.random(600_000).astype(np.float32), rng.integers(0, 1000, 600_000), np.arange(0, 600_001, 20)
    X = sp.csr_matrix(entries, shape=(30_000, 1000))
    return X, sp.csr_array(X[:, :50].toarray() > 0.5)

fit_parts(LinearM3L(max_iter=1), [part(0)])  # libraries are loaded, and a part was made
limit = peak() + int(sys.argv[1])
fit_parts(LinearM3L(max_iter=2), [lambda k=k: part(k) for k in range(8)], memory_limit=limit)
print(limit - peak())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_process_stays_within_its_limit():
    beyond = 70_000_000  # two parts take 57 MB, all of them 185 MB
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEMORY, str(beyond)], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) > 0
