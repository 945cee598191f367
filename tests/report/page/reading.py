"""Reads a page as strictly as no browser does."""

import html.parser

_VOID = {"br", "img", "link", "meta"}


class Page(html.parser.HTMLParser):
    """The elements and texts of a page; refuses tags that are not closed in turn."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.texts, self._open = [], [], []
        text = path.read_text("utf-8")
        assert text.startswith("<!DOCTYPE html>")
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self._open, f"<{tag}/> is no HTML"
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self._open):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def sections(self):
        return [s["id"] for s in self.all("section") if "id" in s]

    def addresses(self):
        """What the page refers to, links to other pages left out."""
        return [
            value
            for tag, attributes in self.elements
            for name, value in attributes.items()
            if name in ("src", "href", "srcset", "poster", "action", "data")
            and tag != "a"
        ]
