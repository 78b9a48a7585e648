"""What errors of the library advise, in words of the command: ``missing="nan"`` becomes ``--missing mean``."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator

__all__ = ["for_the_command"]

Replacement = str | Callable[[re.Match[str]], str]

SCALING = r"[Ss]cale the features(?! to)(?: \(sklearn[^)]*\)|, with [\w'.\- ]*StandardScaler or normalize,)?"
VERBS = r"(?:[Ii]ncrease|[Rr]aise|[Ll]ower|[Cc]hange|[Cc]hoose|[Ss]et|[Uu]se)"

ADVICE: list[tuple[str, Replacement]] = [
    (r"ignore=\[(['\"])(.*?)\1\]", lambda found: f"--ignore {shlex.quote(found[2])}"),
    (r"ignore=\[\.\.\.\]", "--ignore COLUMN"),
    (r"\btext=(['\"])(.*?)\1", lambda found: f"--text {shlex.quote(found[2])}"),
    (r'pass missing="nan" to [\w ]+', "fill such cells with: fit --missing mean (or median)"),
    (r'pass labels="(.*?)"', lambda found: f"give --labels {shlex.quote(found[1])}"),
    (r"pass labels=<.*?>", "give --labels with an XML file, names or a count"),
    (r"labels=\[\.\.\.\]", "--labels"),
    (r"\blabels must be (?=an XML|a Mulan)", "--labels must be "),
    (r"pass n_labels=\d+", "leave --labels out"),
    (r"pass the right format=", "give the right --format"),
    (r"pass format=", "give --format,"),
    (r"(?:^|(?<= ))format must be", "--format must be"),
    (r"as asked for by n_features", "as the model needs"),
    (r"(features|others,) as asked for", r"\1 as the model needs"),
    (r"pass zero_based=True|is zero_based wrong\?", "number the columns as in the training file"),
    (
        r"pass a larger max_bytes[\w ]*|raise max_bytes[\w ]*",
        "read it on a machine with more memory, or read fewer rows",
    ),
    (r"; pass split= if the file has parts", "; save the two under these names"),
    (r"column (['\"])(.*?)\1 of X reaches (.*?)\. Rescale or drop it",
     lambda found: f"column {found[2]!r} reaches {found[3]}. Rescale it, or leave it out with "
     f"--ignore {shlex.quote(found[2])}"),
    (SCALING, lambda found: f"{found[0][0]}cale the features with --scale"),
    (r"\b[Uu]se test_size=([\d.]+)", r"Use --test-size \1"),
    (r"\btest_size must be", "--test-size must be"),
    (r"prior='labels'", "--prior labels"),
    (r"prior=None", "no --prior"),
    (r"; see constant_labels_\b", ""),
    (r"ThresholdTuner(?:\(\))? for", "fit --thresholds for"),
    (r"Use LinearM3L or KernelM3L,", "Use --model linear-m3l or kernel-m3l,"),
]  # fmt: skip
"""Patterns in messages of the library, and what the command says instead."""


def for_the_command(message: str) -> str:
    """Return a message whose advice can be followed on the command line."""
    for pattern, replacement in (*ADVICE, *_models(), *_parameters()):
        message = re.sub(pattern, replacement, message)
    return message


def _models() -> Iterator[tuple[str, str]]:
    """Advise a model by its name in the command, where a class is advised."""
    from ._models import known_models

    for name, cls in known_models().items():
        yield rf"\b{cls.__name__}\(\)|(?<=such as ){cls.__name__}\b", f"--model {name}"


def _parameters() -> Iterator[tuple[str, str]]:
    """Advise a parameter of a model by ``-p``, where one is advised."""
    from ._categories import OWN
    from ._models import OWN_OPTION, known_models

    parameters = {*OWN, *(name for cls in known_models().values() for name in inspect.signature(cls).parameters)}
    names = "|".join(sorted(parameters - {*OWN_OPTION}, key=len, reverse=True))
    yield rf"(\b(?:{VERBS}|or) )({names})=(['\"]?)([\w.\-]+)\3", r"\1-p \2=\4"
    yield rf"(\b{VERBS} )({names})(?=[,.]|$| (?!=))", r"\1-p \2"
    for _ in range(3):  # as in: Increase max_cliques, max_iter or time_limit
        yield rf"(-p \w+(?:,| or|, or) )({names})(?=[,.]|$| (?!=))", r"\1-p \2"
