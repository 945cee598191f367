"""Charts as inline SVG that follow the page's colours, light or dark.

A chart has a title and a description for those who do not see it; colours come from
classes of the style sheet (`c1` to `c4`), and lines differ in their dashes too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from upsilon_jax.report.page.markup import Markup, tag

_WIDTH, _HEIGHT = 420, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 22, 12, 42
_MOST_POINTS = 400  # a line with more looks the same


class Line(NamedTuple):
    """A series of a line chart."""

    label: str
    color: int  # 1 to 4
    points: Sequence[tuple[float, float]]


class Frame(NamedTuple):
    """The ranges of both axes and where they lie in the picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is drawn, rounded to what an eye can see."""
        along = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1)
        width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return round(_LEFT + along * width, 1), round(_TOP + (1 - up) * height, 1)


def line_chart(
    title: str, lines: Sequence[Line], *, y_label: str, x_label: str, share: bool
) -> Markup:
    """Lines over a common x axis.

    Args:
      title: what is shown.
      lines: at least one point in all; a line without points is left out.
      y_label: of the vertical axis, with its unit.
      x_label: of the horizontal axis.
      share: values are 0 to 1 and shown in %.
    """
    lines = [line for line in lines if line.points]
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    frame = Frame((min(xs), max(xs)), _share_range(ys) if share else _range(ys))
    shown = _axes(frame, x_label, y_label, share)
    for order, line in enumerate(lines):
        shown.append(_drawn_line(frame, line, order))
    story = "; ".join(
        f"{line.label}: {_number(line.points[0][1], share)} at the start, "
        f"{_number(line.points[-1][1], share)} at the end"
        for line in lines
    )
    return _figure(title, story, shown, [(line.label, line.color) for line in lines])


def histogram(
    title: str,
    parts: Sequence[tuple[str, int, Sequence[int]]],
    *,
    x_label: str,
    y_label: str,
    mark: tuple[float, str] | None = None,
) -> Markup:
    """Stacked counts in equal bins from 0 to 1.

    Args:
      title: what is shown.
      parts: (label, color, counts of the bins), drawn from the bottom up.
      x_label: of the horizontal axis, in %.
      y_label: of the vertical axis.
      mark: (position in 0 to 1, what it is): a vertical line.
    """
    totals = [sum(bins) for bins in zip(*(p[2] for p in parts), strict=True)]
    frame = Frame((0, 1), _range([0, *totals]))
    shown = _axes(frame, x_label, y_label, False, x_share=True)
    below = [0] * len(totals)
    for _, color, counts in parts:
        for i, number in enumerate(counts):
            if number:
                left, top = frame.place(i / len(counts), below[i] + number)
                right, bottom = frame.place((i + 1) / len(counts), below[i])
                width, height = round(right - left - 1, 1), round(bottom - top, 1)
                box = dict(x=left, y=top, width=width, height=height)
                shown.append(tag("rect", class_=f"fill c{color}", **box))
        below = [b + number for b, number in zip(below, counts, strict=True)]
    story = "; ".join(
        f"{label}: {sum(counts):,} images, {sum(counts[: len(counts) // 2]):,} of them "
        "in the lower half"
        for label, _, counts in parts
    )
    if mark:
        shown += _mark(frame, *mark)
    return _figure(title, story, shown, [part[:2] for part in parts])


def _mark(frame: Frame, position: float, text: str) -> list[Markup]:
    """A vertical line, and on the side with more room what it is."""
    (x, top), (_, bottom) = (frame.place(position, y) for y in reversed(frame.y))
    side = dict(x=x - 5, text_anchor="end") if position > 0.6 else dict(x=x + 5)
    line = tag("line", class_="mark", x1=x, x2=x, y1=top, y2=bottom)
    return [line, tag("text", text, y=top + 12, **side)]


def _figure(
    title: str, story: str, shown: list[Markup], legend: Sequence[tuple[str, int]]
) -> Markup:
    svg = tag(
        "svg",
        tag("title", title),
        tag("desc", story),
        shown,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"{title}. {story}",
    )
    keys = [
        tag("span", tag("i", class_=f"key c{color}"), label, class_="legend")
        for label, color in legend
    ]
    return tag("figure", tag("figcaption", tag("b", title), keys), svg, class_="chart")


def _drawn_line(frame: Frame, line: Line, order: int) -> Markup:
    every = math.ceil(len(line.points) / _MOST_POINTS)
    points = [*line.points[:-1:every], line.points[-1]]
    placed = [frame.place(*point) for point in points]
    style = " dashed" if order % 2 else ""
    if len(placed) == 1:  # a short line with round ends is a dot
        placed, style = placed * 2, " dot"
    text = " ".join(f"{x:g},{y:g}" for x, y in placed)
    return tag("polyline", class_=f"line c{line.color}{style}", points=text)


def _axes(
    frame: Frame, x_label: str, y_label: str, share: bool, *, x_share: bool = False
) -> list[Markup]:
    shown, middle = [], (_LEFT + _WIDTH - _RIGHT) / 2
    for y in _ticks(*frame.y):
        _, at = frame.place(frame.x[0], y)
        edge = _WIDTH - _RIGHT
        shown.append(tag("line", class_="grid", x1=_LEFT, x2=edge, y1=at, y2=at))
        text = _number(y, share, tick=True)
        shown.append(tag("text", text, x=_LEFT - 6, y=at + 4, text_anchor="end"))
    for x in _ticks(*frame.x, whole=not x_share):
        at, _ = frame.place(x, frame.y[0])
        text = _number(x, x_share, tick=True)
        low = _HEIGHT - _BOTTOM + 17
        shown.append(tag("text", text, x=at, y=low, text_anchor="middle"))
    below: dict[str, Any] = dict(x=middle, y=_HEIGHT - 7, text_anchor="middle")
    shown.append(tag("text", x_label, class_="axis", **below))
    center = (_TOP + _HEIGHT - _BOTTOM) / 2
    turned = f"translate(13 {center:g}) rotate(-90)"
    side = dict(transform=turned, text_anchor="middle")
    return [*shown, tag("text", y_label, class_="axis", **side)]


def _ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round numbers from low to high, four to six of them where that is possible."""
    if high <= low:
        return [low]
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    step = max(1, round(step)) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From zero to a little above the largest."""
    return min(0, *values), max(*values, 0) * 1.05 or 1


def _share_range(values: Sequence[float]) -> tuple[float, float]:
    """Shares from 0, or from the ten below the least if all are high, up to 100 %."""
    least = math.floor(10 * min(values)) / 10
    return (least if least >= 0.3 else 0.0), 1.0


def _number(value: float, share: bool, *, tick: bool = False) -> str:
    if share:
        return f"{100 * value:.0f} %" if tick else f"{100 * value:.1f} %"
    if abs(value) >= 10 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
