"""The report of a model: one page that opens from disk and asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from multimargin import __version__
from multimargin.errors import InputError
from multimargin.report.evidence import Evidence, gather
from multimargin.report.html import Html, element, join
from multimargin.report.numbers import count, number, significant
from multimargin.report.page import document, resource
from multimargin.report.sections import SECTIONS
from multimargin.report.sections.headline import is_loss, metric_words
from multimargin.report.sections.mind import what_to_mind
from multimargin.report.sections.part import Part

__all__ = ["report_page", "write"]

TILES = ("macro-f1", "micro-f1", "example-f1", "hamming-loss")


def write(
    model: Any,
    X: Any,
    Y: Any,
    path: str | os.PathLike[str],
    *,
    train: tuple[Any, Any] | None = None,
    title: str | None = None,
    data_name: str = "",
    train_name: str = "",
    feature_names: Sequence[Any] | None = None,
) -> Path:
    r"""Write a report of a model on some rows as one HTML file.

    The page shows the data, the model and its certificate, every metric beside the best constant prediction (and beside
    one-vs-all, if the training rows are given), every label in a table that sorts and filters, thresholds,
    probabilities, ties between labels, and the rows the model is most wrong about. What a model does not have is left
    out. The file needs nothing else, neither network nor libraries.

    Parameters
    ----------
    model : fitted classifier of labels
        An estimator or baseline of this library, one of its wrappers, a pipeline that ends with one, or another
        multi-label classifier of scikit-learn's.
    X : rows, in any form the model takes
        Rows kept apart from training, if the numbers are to say something of new rows.
    Y : labels in any form
        Their labels; NaN cells are left out. A DataFrame may have the labels in another order.
    path : str or path
        The file. It appears when it is complete; one that is there already is replaced.
    train : pair (X, Y), optional
        The training rows: then label counts, shared rows and one-vs-all on the same rows are shown, too. One-vs-all is
        :class:`LinearM3L` without a prior, with the C of the model if that is a ``LinearM3L``, and ``C="scale"``
        otherwise.
    title : str, optional
        Heading of the page; by default the model's name.
    data_name, train_name : str
        What the page calls the rows.
    feature_names : sequence of length n_features, optional
        Names of the columns of X for the explanations, where the model does not know them.

    Returns
    -------
    Path
        The file that was written.

    See Also
    --------
    multimargin.metrics.report : the metrics alone.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from multimargin import LinearM3L, report
    >>> X, Y = make_multilabel_classification(300, n_classes=4, random_state=0)
    >>> model = LinearM3L(C=0.1).fit(X[:200], Y[:200])
    >>> folder = tempfile.TemporaryDirectory()
    >>> page = report.write(model, X[200:], Y[200:], Path(folder.name) / "report.html", train=(X[:200], Y[:200]))
    >>> page.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    >>> folder.cleanup()
    """
    target = Path(path)
    if target.is_dir():
        msg = f"path must name a file; {target} is a directory. Add a name such as report.html."
        raise InputError(msg)
    if not target.absolute().parent.is_dir():
        msg = f"path must lie in a folder that exists; {target.parent} does not. Create it first."
        raise InputError(msg)
    evidence = gather(model, X, Y, train=train, data_name=data_name, train_name=train_name, feature_names=feature_names)
    return write_report(evidence, target, title)


def write_report(evidence: Evidence, target: Path, title: str | None = None) -> Path:
    """Write the page of evidence that is gathered; the file appears when it is complete."""
    page = report_page(evidence, title)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def report_page(evidence: Evidence, title: str | None = None) -> Html:
    """Return the page as text."""
    title = title or evidence.title
    script = resource("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    parts = [part for part in (make(evidence) for make in SECTIONS) if part is not None]
    return document(
        title,
        element("a", "Skip to the report", href="#report", class_="skip"),
        _navigation(parts),
        element("main", _header(evidence, title), join(part.html() for part in parts), _footer(), id="report"),
        element("script", Html(script)),
        style=resource("report.css"),
        first=element("meta", http_equiv="Content-Security-Policy", content=policy),
    )


def _navigation(parts: list[Part]) -> Html:
    items = join(element("li", element("a", part.title, href=f"#{part.anchor}")) for part in parts)
    return element("nav", element("ul", items), aria_label="Sections")


def _header(evidence: Evidence, title: str) -> Html:
    rows = f"{count(evidence.truth.n_samples)} rows"
    rows += f" of {evidence.data_name}" if evidence.data_name else ""
    what = "" if title == evidence.title else f"{evidence.title}: "
    lead = f"{what}{rows} with {count(evidence.truth.n_labels)} labels."
    if evidence.train is not None:
        named = f" of {evidence.train_name}" if evidence.train_name else ""
        lead += f" Trained on {count(evidence.train[1].n_samples)} rows{named}."
    content = [element("h1", title), element("p", lead, class_="lead"), _tiles(evidence)]
    warnings = len(what_to_mind(evidence))
    if warnings:
        words = "1 thing to mind" if warnings == 1 else f"{warnings} things to mind"
        content.append(element("p", element("a", words, href="#mind"), class_="aside"))
    return element("header", *content)


def _tiles(evidence: Evidence) -> Html:
    tiles = []
    for name in TILES:
        own, constant = evidence.values[name], evidence.constants[name]
        better = own < constant if is_loss(name) else own > constant
        beside = f"{'beats' if better else 'behind'} constant {number(constant)}"
        words = metric_words(name) + (" ↓" if is_loss(name) else "")
        tiles.append(_tile(words, number(own), beside, better))
    certificate = getattr(evidence.estimator, "certificate_", None)
    if certificate is not None:
        proved = bool(certificate.converged)
        asked = f"{'proved' if proved else 'not'} within {evidence.estimator.tol:g}"
        tiles.append(_tile("relative gap", significant(certificate.relative_gap, 2), asked, proved))
    return element("div", join(tiles), class_="tiles")


def _tile(words: str, value: str, beside: str, good: bool) -> Html:
    return element(
        "div",
        element("span", words, class_="what"),
        element("strong", value),
        element("span", f"{'✓' if good else '✗'} {beside}", class_="beside" if good else "beside wrong"),
        class_="tile",
    )


def _footer() -> Html:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return element("footer", f"Made by multimargin {__version__} on {made}.")
