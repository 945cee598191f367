"""Bar charts as tables: names stay readable on a phone, and numbers can be read out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from upsilon_jax.report.page.markup import Child, Markup, tag
from upsilon_jax.report.page.phrases import count

MANY = 24  # rows from which on a table is folded


class Bar(NamedTuple):
    """A row of a bar chart: its name, segments (value, color) and what is said."""

    name: str
    segments: Sequence[tuple[int, int]]
    said: Child


def bar_chart(
    title: str,
    names: str,
    bars: Sequence[Bar],
    keys: Sequence[tuple[str, int]],
    *,
    relative: bool = False,
) -> Markup:
    """Horizontal bars in a table: names stay readable, and so do the numbers.

    Args:
      title: the caption.
      names: the heading of the first column.
      bars: a row each.
      keys: (label, color) of the segments.
      relative: every bar is as long as the others.
    """
    longest = max((sum(v for v, _ in bar.segments) for bar in bars), default=1) or 1
    rows = []
    for bar in bars:
        whole = (sum(v for v, _ in bar.segments) or 1) if relative else longest
        drawn = [
            tag("i", class_=f"c{color}", style=f"width:{100 * value / whole:.2f}%")
            for value, color in bar.segments
            if value
        ]
        name = tag("th", bar.name, scope="row", title=bar.name)
        track = tag("td", tag("div", drawn, class_="track"), aria_hidden="true")
        rows.append(tag("tr", name, track, tag("td", bar.said)))
    legend = [
        tag("span", tag("i", class_=f"key c{color}"), label, class_="legend")
        for label, color in keys
    ]
    header = [
        tag("th", names, scope="col"),
        tag("td", aria_hidden="true"),
        tag("th", "images", scope="col"),
    ]
    shown = tag(
        "table",
        tag("caption", tag("b", title), legend),
        tag("thead", tag("tr", header)),
        tag("tbody", rows),
        class_="bars",
    )
    return folded(f"{title} ({count(len(bars))} rows)", shown, len(bars) > MANY)


def folded(name: str, content: Child, hidden: bool) -> Markup:
    """Content that is folded away if it is long."""
    if not hidden:
        return tag("div", content)
    return tag("details", tag("summary", name), content)
