"""The HTML form: one file that needs nothing else, in which every name stays text."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

from published_runs import quoted, runs
from small_tables import FULL, row, table

from reports.page import to_html

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "img", "link", "br"}


class Reader(HTMLParser):
    """What a browser would see: tags, attributes and text; complains of tags that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_name_that_is_markup_stays_text_wherever_it_stands() -> None:
    odd = replace(
        table(row(EVIL, 0.3), row('a" onload="x', None, n_runs=0, missing=EVIL)),
        dataset_name=EVIL, protocol_title=EVIL, origins=(EVIL,), elsewhere=(EVIL,), unsearched=(EVIL,),
    )  # fmt: skip
    page = Reader(to_html([odd]))
    assert "script" not in {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert sum(EVIL in text for text in page.texts) >= 6


def test_nothing_is_fetched_and_nothing_runs() -> None:
    page = Reader(to_html([FULL]))
    addresses = [
        attributes[name] or "" for _, attributes in page.tags for name in ("src", "href") if name in attributes
    ]
    assert [address[:26] for address in addresses] == ["data:image/svg+xml;base64,"]
    assert "http" not in re.sub(r"base64,[^\"]*", "", to_html([FULL])).replace("http-equiv", "")
    (policy,) = [attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv")]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_the_picture_inside_is_whole() -> None:
    (coded,) = re.findall(r"base64,([^\"]*)", to_html([FULL]))
    root = ElementTree.fromstring(base64.b64decode(coded))
    assert root.tag.endswith("}svg")
    assert "ms" in ["".join(item.itertext()) for item in root.iter() if item.tag.endswith("}text")]


def test_every_line_has_all_columns_and_holes_are_told() -> None:
    text = to_html([FULL])
    rows = re.findall(r"<tr class=\"(?:baseline|trained|quoted)[^>]*>.*?</tr>", text)
    assert len(rows) == len(FULL.rows)
    assert {row.count("<td") + row.count("<th") for row in rows} == {4}
    assert "holed: 2 of 3 runs; run 2: not run" in text
    assert "missing†" in text


def test_bold_cells_are_of_ours_and_published_rows_are_marked() -> None:
    text = to_html(quoted(runs("contrastive", 0.26) + runs("triplet", 0.2)))
    bold = [row for row in re.findall(r"<tr class=.*?</tr>", text) if "class=best" in row]
    assert [re.findall(r"row\">(.*?)<", row) for row in bold] == [["contrastive"]]
    assert text.count('<tr class="quoted') > 20


def test_an_empty_report_is_a_page_too() -> None:
    assert Reader(to_html([])).texts
