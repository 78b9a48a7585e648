"""Example F1 of a CliqueClassifier with softmax margin, by the way its label sets are decided.

Protocol as in benchmarks/decisions.py: new splits of the pooled rows, C = 1, decisions made on out-of-fold scores of
the training rows. "mode" is the most likely set; "offset" one tuned threshold on the marginals; "independent" the best
set for the expected F of tempered marginals taken as independent; "joint" the best one for the tempered joint
distribution.

    MULTIMARGIN_DATA=... python benchmarks/joint_decoding.py [--splits 3] [name of a data set]...
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from _common import save
from decisions import load, scaled

from multimargin import CliqueClassifier, ThresholdTuner, decode, metrics
from multimargin.decisions import JointDecoder
from multimargin.model_selection import train_test_split

GRAPHS = {"emotions": "full", "scene": "full", "yeast": "chow-liu"}


def one_split(name, X, Y, seed):
    train, test = train_test_split(np.arange(Y.shape[0]), test_size=1 / 3, random_state=seed, stratify=Y)
    X = scaled(X, train)
    Y = Y.toarray().astype(int)
    base = CliqueClassifier(C=1.0, loss="softmax-margin", graph=GRAPHS[name], random_state=0)
    joint = JointDecoder(base, random_state=0).fit(X[train], Y[train])
    tuner = ThresholdTuner(base, scoring="example-f1", rule="offset", response_method="predict_proba", random_state=0)
    raw, tempered = joint.estimator_.predict_proba(X[test]), joint.predict_proba(X[test])
    predicted = {
        "mode": joint.estimator_.predict(X[test]),
        "offset": tuner.fit(X[train], Y[train]).predict(X[test]),
        "independent": decode(tempered),
        "joint": joint.predict(X[test]),
    }
    values = {way: metrics.example_f1(Y[test], guess) for way, guess in predicted.items()}
    losses = {"log-loss raw": metrics.log_loss(Y[test], raw), "tempered": metrics.log_loss(Y[test], tempered)}
    return {**values, **losses, "sharpness": joint.sharpness_}


def main(names, splits):
    rows = []
    for name in names:
        X, Y = load(name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Cc]onstant predictions")
            found = [one_split(name, X, Y, seed) for seed in range(splits)]
        gains = np.array([values["joint"] - values["offset"] for values in found])
        means = {key: float(np.mean([values[key] for values in found])) for key in found[0]}
        rows.append({"data": name, **means, "SE of joint - offset": float(gains.std(ddof=1) / np.sqrt(len(gains)))})
    save("joint_decoding", rows, ["multimargin", "numpy", "scipy", "scikit-learn"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(GRAPHS))
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.names or list(GRAPHS), arguments.splits)
