"""HTML and SVG as nested calls: text is escaped, every tag is closed.

tag("p", "a < b, ", tag("b", "see"), class_="note")
→ <p class="note">a &lt; b, <b>see</b></p>
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib import resources

_VOID = {"br", "img", "link", "meta", "path", "line", "rect", "polyline"}
_CLOSED = {"path", "line", "rect", "polyline"}  # void only as SVG has it: <path/>
# Control characters, and those that turn the direction of what follows.
_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_CONTROLS = {*range(32), *range(127, 160), *_TURNING}
_UNPRINTABLE = dict.fromkeys(_CONTROLS - {9, 10}, "\ufffd")


class Markup(str):
    """Text that is HTML already."""


Child = str | int | None | Iterable["Child"]


def tag(
    name: str, /, *children: Child, **attributes: str | float | bool | None
) -> Markup:
    """An element.

    Args:
      name: of the element.
      *children: text, which is escaped, `Markup`, or nested lists of both; None is
        left out.
      **attributes: `class_` is class, `aria_label` is aria-label; None and False are
        left out, True has no value.
    """
    opening = [name, *_attributes(attributes)]
    if name in _VOID:
        return Markup(f"<{' '.join(opening)}{'/' if name in _CLOSED else ''}>")
    return Markup(f"<{' '.join(opening)}>{joined(children)}</{name}>")


def joined(children: Child) -> Markup:
    """Children one after the other, as HTML."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str | int):
        return Markup(html.escape(_printable(str(children))))
    return Markup("".join(joined(child) for child in children))


def page(title: str, *body: Child, script: Child = None) -> str:
    """A whole page that needs nothing but itself.

    Args:
      title: shown by the browser.
      *body: of the page.
      script: JavaScript to run when all is there.
    """
    policy = (
        "default-src 'none'; img-src data:; "
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # A browser refuses whatever a page of ours might ask of the network.
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", asset("page.css")),
    )
    shown = tag("body", body, tag("script", script) if script else None)
    return "<!DOCTYPE html>\n" + tag("html", head, "\n", shown, lang="en") + "\n"


def asset(name: str) -> Markup:
    """A style sheet or script that lies beside this file."""
    return Markup(resources.files(__package__).joinpath(name).read_text("utf-8"))


def table(
    header: Sequence[Child], rows: Iterable[Sequence[Child]], caption: str, **attributes
) -> Markup:
    """A table whose first column names the rows."""
    lines = [
        tag("tr", tag("th", first, scope="row"), [tag("td", cell) for cell in rest])
        for first, *rest in rows
    ]
    return tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", [tag("th", cell, scope="col") for cell in header])),
        tag("tbody", lines),
        **attributes,
    )


def scrolling(label: str, *children: Child) -> Markup:
    """What may be wider than a phone; arrow keys scroll it."""
    return tag(
        "div", *children, class_="scroll", tabindex="0", role="region", aria_label=label
    )


def _attributes(attributes: dict[str, str | float | bool | None]) -> list[str]:
    found = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            found.append(key)
        elif value is not None and value is not False:
            found.append(f'{key}="{html.escape(_printable(str(value)))}"')
    return found


def _printable(text: str) -> str:
    """Without what HTML and UTF-8 do not allow: names of files may have anything."""
    return text.encode("utf-8", "replace").decode("utf-8").translate(_UNPRINTABLE)
