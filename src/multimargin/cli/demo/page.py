"""The page of the demo."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import __version__, plots
from multimargin.report import Html, code_block, element, figure, join, page, picture, section, table

from .strips import MEASURES, Strips
from .strips import RULE as STRIPS_RULE
from .strokes import RULE as STROKES_RULE
from .strokes import Strokes

__all__ = ["demo_page"]

IMAGES_PER_DIGIT = 2
STRIPS_SHOWN = 6

CODE = """
import numpy as np
from sklearn.kernel_approximation import Nystroem
from multimargin import LinearM3L, priors
from multimargin.datasets import load_digit_attributes

data = load_digit_attributes()
unseen = [0, 3, 5]
train = ~np.isin(data.digit, unseen)
R = priors.from_signatures(data.signatures[unseen])
kernel = Nystroem(gamma=0.11, n_components=300, random_state=0).fit(data.X[train])
model = LinearM3L(C=1, prior=R).fit(kernel.transform(data.X[train]), data.Y[train])
wrong = model.predict(kernel.transform(data.X[~train])) != data.Y[~train]
print(wrong.mean(), model.certificate_)
"""


def demo_page(strokes: Strokes, strips: Strips) -> Html:
    """Make the page from what was measured."""
    return page(
        "What multimargin does, on handwritten digits",
        "Every number and picture on this page was computed on this machine a moment ago, from data that "
        "comes with the library. Each model was trained to a certified optimum.",
        _strokes_section(strokes),
        _prior_section(strokes),
        _certificate_section(strokes),
        _strips_section(strips),
        section("Do it yourself", code_block(CODE)),
        footer=f"Made by multimargin {__version__} with the command: multimargin demo",
    )


def _findings(sentences: Iterable[str]) -> Html:
    return element("div", join(element("p", sentence) for sentence in sentences), class_="finding")


def _strokes_section(strokes: Strokes) -> Html:
    count = len(strokes.splits[0].unseen)
    return section(
        "Strokes of digits never seen",
        element(
            "p",
            f"Each digit is described by {len(strokes.data.label_names)} strokes. The models learn the "
            f"strokes from images of {10 - count} digits, and are asked for the strokes of the other "
            f"{count}, of which they saw no image. M3L is also told which strokes go together in those "
            "digits; one-vs-all learns each stroke alone.",
        ),
        _findings(strokes.findings()),
        table(
            ("", "wrong strokes", "digits named right"),
            strokes.table(),
            f"Mean over {len(strokes.splits)} splits into seen and unseen digits, ± standard error of the "
            "mean. The splits share images, so they are not independent.",
        ),
        element("h3", "Split by split"),
        table(("unseen digits", "the same for all", "one-vs-all", "M3L"), _split_rows(strokes)),
        element("h3", "Whatever C"),
        element("p", STROKES_RULE, " With another C, the wrong strokes are:"),
        table(("", "one-vs-all", "M3L with the prior", "difference in points"), strokes.cost_table()),
        element("h3", f"Predicted strokes of {_digits(strokes.splits[0].unseen)}"),
        element(
            "p",
            f"The first {IMAGES_PER_DIGIT} images of each unseen digit of the first split, not chosen. ",
            _key(),
            class_="key",
        ),
        element("div", join(_digit_cards(strokes)), class_="cards"),
    )


def _digits(digits: Iterable[int]) -> str:
    *most, last = map(str, digits)
    return f"{', '.join(most)} and {last}"


def _split_rows(strokes: Strokes) -> list[tuple[str, ...]]:
    columns = zip(strokes.constant_errors(), strokes.errors(False), strokes.errors(True), strict=True)
    return [
        (_digits(split.unseen), *(f"{100 * error:.1f}%" for error in errors))
        for split, errors in zip(strokes.splits, columns, strict=True)
    ]


def _key() -> Html:
    return join(
        [
            element("span", "✓ right", class_="mark hit"),
            element("span", "✗ not there", class_="mark false"),
            element("span", "○ missed", class_="mark missed"),
        ],
        " ",
    )


def _marks(names: Iterable[str], truth: NDArray[Any], guess: NDArray[Any]) -> Html:
    """List what was predicted or missed; each kind has its own sign, not only its own colour."""
    items = []
    for name, there, predicted in zip(names, truth, guess, strict=True):
        if there and predicted:
            items.append(element("li", f"✓ {name}", class_="mark hit"))
        elif predicted:
            items.append(element("li", f"✗ {name}", class_="mark false"))
        elif there:
            items.append(element("li", f"○ {name}", class_="mark missed"))
    return element("ul", join(items))


def _digit_cards(strokes: Strokes) -> list[Html]:
    data, split = strokes.data, strokes.splits[0]
    rows = [row for digit in split.unseen for row in np.flatnonzero(data.digit == digit)[:IMAGES_PER_DIGIT]]
    guesses = {method: model.predict(data.X[rows]) for method, model in split.models.items()}
    cards = []
    for k, row in enumerate(rows):
        right = {method: int((guess[k] == data.Y[row]).sum()) for method, guess in guesses.items()}
        total = len(data.label_names)
        words = element(
            "div",
            element("strong", f"a {data.digit[row]}, never seen"),
            element("div", f"M3L: {right[True]} of {total} strokes right", class_="count"),
            element("div", f"one-vs-all: {right[False]} of {total}", class_="count"),
        )
        image = picture(_png(data.images[row]), f"handwritten {data.digit[row]}", width=76, height=76)
        top = element("div", image, words, class_="top")
        cards.append(element("div", top, _marks(data.label_names, data.Y[row], guesses[True][k]), class_="card"))
    return cards


def _prior_section(strokes: Strokes) -> Html:
    split = strokes.splits[0]
    R = split.models[True][-1].prior
    ax = plots.PriorDisplay.from_matrix(R, strokes.data.label_names, ax=_axes(7.6, 6.4)).ax_
    return section(
        "What M3L was told",
        element(
            "p",
            f"The prior R for the digits {_digits(split.unseen)}, computed from their signatures alone: "
            "two strokes have a tie of 1 if each of these digits has both or neither, and -1 if each has "
            "exactly one of them.",
        ),
        figure(
            ax.figure,
            "Heat map of the prior, one row and column per stroke",
            "Orange: strokes that come together; blue: strokes that exclude each other. Similar strokes "
            "stand side by side.",
        ),
    )


def _certificate_section(strokes: Strokes) -> Html:
    models = [split.models[True][-1] for split in strokes.splits]
    ax = plots.ConvergenceDisplay.from_estimator(models[0], ax=_axes(7.0, 4.0)).ax_
    rows = [
        (
            _digits(split.unseen),
            f"{model.certificate_.primal:.5g}",
            f"{model.certificate_.dual:.5g}",
            f"{model.certificate_.relative_gap:.1e}",
            f"{model.n_iter_}",
        )
        for split, model in zip(strokes.splits, models, strict=True)
    ]
    return section(
        "How sure the optimum is",
        element(
            "p",
            "The dual value is a lower bound of the objective of every possible model, so the gap bounds "
            f"how much could still be won. Training stops when it is below {models[0].tol:g} of the "
            "objective.",
        ),
        figure(
            ax.figure,
            "Primal and dual objective and their relative gap over time",
            f"M3L with the prior for {_digits(strokes.splits[0].unseen)}: the optimum lies in the shaded band.",
        ),
        table(
            ("unseen digits", "primal", "dual", "relative gap", "passes"),
            rows,
            "Certificates of the M3L models",
        ),
    )


def _strips_section(strips: Strips) -> Html:
    return section(
        "Which digits are in the strip",
        element(
            "p",
            "Two to four digits stand in a strip; the labels are the digits in it. Some digits like to "
            "appear together and some avoid each other. Here the prior of M3L is the correlation of the "
            "training labels.",
        ),
        _findings(strips.findings()),
        table(("", *MEASURES.values()), strips.table(), "Mean over the draws, ± standard error"),
        element("p", element("small", STRIPS_RULE)),
        element("p", f"The first {STRIPS_SHOWN} test strips, as M3L reads them. ", _key(), class_="key"),
        element("div", join(_strip_cards(strips)), class_="cards"),
    )


def _strip_cards(strips: Strips) -> list[Html]:
    data = strips.data
    guess = strips.models[True].predict(data.X_test[:STRIPS_SHOWN])
    cards = []
    for k in range(STRIPS_SHOWN):
        inside = _digits(np.flatnonzero(data.Y_test[k]))
        image = picture(_png(data.images_test[k]), f"strip with the digits {inside}", class_="strip")
        marks = _marks(data.label_names, data.Y_test[k], guess[k])
        cards.append(element("div", element("div", image, class_="top"), marks, class_="card"))
    return cards


def _png(image: NDArray[Any]) -> bytes:
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, image, cmap="gray_r", vmin=0, vmax=1, format="png")
    return buffer.getvalue()


def _axes(width: float, height: float) -> Any:
    """Make axes outside pyplot, so that no window system is asked and nothing has to be closed."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()
