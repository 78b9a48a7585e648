"""Pages: text is text, whatever it holds."""

from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from multimargin.report import Html, code_block, element, join, page, section, table, write_page


class Reader(HTMLParser):
    """Reads a page back: its tags, its attribute values and its text."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.values: list[str | None] = []
        self.text = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [value for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


names = st.text(st.characters(blacklist_categories=["Cs", "Cc"]))


@given(names, names)
def test_text_and_attributes_come_back_as_they_were(text: str, value: str) -> None:
    read = Reader(element("p", text, title=value))
    assert read.tags == ["p"]
    assert read.text == text
    assert read.values == [value]


@given(names)
def test_tables_code_and_sections_hold_any_text(text: str) -> None:
    for piece in (table([text], [[text]], text), code_block(text), section(text, text), join([text, text])):
        read = Reader(piece)
        assert "script" not in read.tags
        assert text in read.text


def test_html_is_not_escaped_twice() -> None:
    assert element("div", element("b", "<")) == "<div><b>&lt;</b></div>"
    assert element("img", src="a") == '<img src="a">'
    assert element("p", Html("<br>"), class_="x", data_y=1) == '<p class="x" data-y="1"><br></p>'


def test_a_page_is_written_into_a_new_folder(tmp_path: Path) -> None:
    path = write_page(page("<title>", "lead", section("one", "two")), tmp_path / "a" / "b")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert Reader(text).tags[:2] == ["html", "head"]
    assert "&lt;title&gt;" in text
