"""Names with anything in them: text in tables and pages, never formulas or markup."""

import csv
import html.parser

from upsilon_jax.report.page.markup import tag
from upsilon_jax.workdir.csv_files import write_csv

BATCH = 50
BEGIN_FORMULAS = tuple("=+-@\t\r\n＝＋－＠")
PIECES = (
    *BEGIN_FORMULAS,
    *("'", '"', ",", ";", "\r\n", "<", ">", "&", "&lt;", "</td>", "<script>", "--"),
    *("alert(1)", "javascript:", "onload=", "]]>", "<!--", "\u202e", "\u200b", "\0"),
    *("é", "日本", "🙂", " ", "a", "B7", "cmd|' /C calc'!A0", "\\", "%0A", "$(x)"),
)


def name(rng):
    count = rng.integers(1, 6)
    return "".join(PIECES[i] for i in rng.integers(len(PIECES), size=count))


def tables(rng, folder):
    """CSV files: as many cells as were written, none of which begins a formula."""
    names = [name(rng) for _ in range(BATCH)]
    path = folder / "a.csv"
    write_csv(path, ("path", "n"), [(name, -0.5) for name in names])
    with open(path, encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    assert len(rows) == len(names)
    for given, (cell, number) in zip(names, rows, strict=True):
        assert not cell.startswith(BEGIN_FORMULAS) and number == "-0.5"
        assert cell in (given, f"'{given}")
    return BATCH, BATCH


class Reader(html.parser.HTMLParser):
    """What a browser would make of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [key for key, _ in attrs]


def pages(rng, _):
    """Pages: a name adds no element and no attribute, whether in or beside a tag."""
    for _ in range(BATCH):
        reader = Reader()
        reader.feed(tag("a", name(rng), title=name(rng)))
        reader.close()
        assert reader.tags == ["a"] and reader.attributes == ["title"]
    return BATCH, BATCH
