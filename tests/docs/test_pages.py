"""What the site is made of: nothing public is left out of the reference, and links lead somewhere."""

from importlib import import_module
from pathlib import Path

import pytest

import multimargin
from docs import generate

ROOT = Path(__file__).parents[2]


def test_reference_has_every_public_name():
    rooms = {*generate.ROOMS, *multimargin._ROOMS}
    modules = [import_module(f"multimargin.{room}") for room in rooms]
    public = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    shown = {id(value) for room in generate.ROOMS for value in generate.public_names(room).values()}
    left_out = [name for name, value in public.items() if callable(value) and id(value) not in shown]
    assert left_out == []
    assert {f"multimargin.{name}" for name in multimargin._HOMES} <= set(generate.addresses())


def test_command_line_has_every_verb():
    from multimargin.cli._app import VERBS

    page = generate.command_line()
    for verb in VERBS:
        assert f"Usage: multimargin {verb} " in page


def test_gallery_finds_pictures_of_f_strings():
    assert generate.pictures_of('f"zero_shot_{kind}.png"') == ["zero_shot_animals.png", "zero_shot_digits.png"]
    assert generate.pictures_of('"none_of_these.png"') == []


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](priors.md#does-it-pay)", "[a](priors.md#does-it-pay)"),
        ("[a](../benchmarks/README.md)", "[a](generated/benchmarks.md)"),
        ("[a](../examples/kernels.py)", "[a](generated/gallery/kernels.rst)"),
        ("![a](images/labels.png)", "![a](images/labels.png)"),
        ("[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("[fuzz/recompute.py](../fuzz/recompute.py)", "`fuzz/recompute.py`"),
        ("[the sums](../fuzz/recompute.py)", "the sums (`fuzz/recompute.py`)"),
    ],
)
def test_links_are_bent_to_the_site(link, expected):
    page = ROOT / "docs" / "promises.md"
    assert generate.relinked(link, page, page) == expected


def test_links_of_texts_lead_to_files():
    texts = [ROOT / "README.md", *(ROOT / name for name in generate.TEXTS), *(ROOT / "docs").rglob("*.md")]
    kept = [path for path in texts if not path.is_relative_to(generate.GENERATED) and "_build" not in path.parts]
    wrong = [
        f"{path.relative_to(ROOT)}: {match[3]}"
        for path in kept
        for match in generate.LINK.finditer(path.read_text())
        if not (path.parent / match[3]).exists() and "generated/" not in match[3]
    ]
    assert wrong == []
