"""Name a metric, and let everything else be chosen out of fold.

    MULTIMARGIN_DATA=... python examples/tuning.py [folder for the picture]

Without the emotions data, handwritten digits in strips stand in.
"""

import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import LinearM3L, TunedM3L, datasets, metrics, plots

data = datasets.load("emotions") if os.environ.get("MULTIMARGIN_DATA") else datasets.load_digit_strips()

plain = make_pipeline(StandardScaler(), LinearM3L()).fit(data.X_train, data.Y_train)
tuned = TunedM3L("example-f1", n_jobs=-1, random_state=0).fit(data.X_train, data.Y_train)
print(tuned.summary())
for name, model in {"out of the box": plain, "tuned": tuned}.items():
    found = metrics.example_f1(data.Y_test, model.predict(data.X_test))
    print(f"example-F1 on new rows, {name}: {found:.3f}")

picture = plots.CPathDisplay.from_estimator(tuned)
picture.ax_.set_title("example-F1 along the path of C", loc="left", fontsize="medium")
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
picture.figure_.savefig(folder / "c_path.png", dpi=150)
print(f"{folder / 'c_path.png'}")
