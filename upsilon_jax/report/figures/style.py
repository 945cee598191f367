"""How figures look: colours for every eye, marks that survive grey print."""

from __future__ import annotations

import math
import pathlib
import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from upsilon_jax.errors import UserError
from upsilon_jax.report.groups import Block, Groups
from upsilon_jax.report.palette import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PALETTE,
    PURPLE,
    RED,
    SKY,
)
from upsilon_jax.report.published import TITLES
from upsilon_jax.report.runs import Fields

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vP*X<>phd"
# Dashes are the paper's.
LINES = ("-", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (1, 4)))

MOST_PANELS = 12
ENDINGS = (".png", ".svg")


class Look(NamedTuple):
    """Of a line and its marks."""

    color: str
    marker: str
    line: str | tuple = "-"


_FIRST = {
    "baseline": Look(BLACK, "x", ":"),
    "pl": Look(RED, "o"),
    "rpl": Look(ORANGE, "s"),
    "upsilon_k1": Look(SKY, "^"),
    "sec": Look(PURPLE, "v"),
    "upsilon": Look(BLUE, "*"),
    "oracle": Look(GREEN, "P"),
}


def look_of(method: str) -> Look:
    """The look of a method, the same in all figures."""
    if method in _FIRST:
        return _FIRST[method]
    rest = [name for name in TITLES if name not in _FIRST]
    if method in rest:
        at = rest.index(method)
    else:  # a composed method; by its name, so that it looks the same again
        at = len(rest) + zlib.crc32(method.encode()) % len(PALETTE)
    return Look(
        PALETTE[at % len(PALETTE)],
        MARKERS[-1 - at % len(MARKERS)],
        LINES[1 + at // len(PALETTE)],
    )


def panels(
    count: int, *, size: tuple[float, float] = (4.4, 3.4), columns: int = 3
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels.

    Raises:
      UserError: there are none, or too many to be read.
    """
    if count > MOST_PANELS:
        raise UserError(
            f"there would be {count} panels, and {MOST_PANELS} can be read: give a "
            "folder with fewer settings, or --methods"
        )
    # The object interface: pyplot would keep global state and may want a display.
    from matplotlib.figure import Figure

    columns = min(count, columns)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    for axis in axes[:count]:
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[:count]


def shared_legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend right of all panels, each entry once; the figure grows for it."""
    entries: dict[str, Artist] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    width, height = figure.get_size_inches()
    longest = max(map(len, entries))
    figure.set_size_inches(
        width + 0.7 + 0.075 * longest, max(height, 0.3 + 0.21 * len(entries))
    )
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside right upper",
        frameon=False,
        fontsize=9,
    )


def name_of(groups: Groups, block: Block, variant: Fields) -> str:
    """A method, and its variant where there are several."""
    run = groups.first(block, variant)
    title = TITLES.get(run.method, run.method)
    return ", ".join(filter(None, (title, groups.wording.variant(run))))


def wrapped(title: str) -> str:
    """A long title on lines of its own."""
    lines = [""]
    for word in title.split(", "):
        if lines[-1] and len(lines[-1]) + len(word) > 44:
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + word
    return "\n".join(lines)


def ratio_axis(axis: Axes, ratios: Iterable[float]) -> None:
    """Mismatch ratios below a panel."""
    where = sorted(ratios)
    axis.set_xticks(where, [f"{100 * ratio:g}" for ratio in where])
    axis.set_xlabel("foreign images in D_u in %")


def settings() -> AbstractContextManager:
    """Of matplotlib, to draw and save with: names may have dollars, and no chance."""
    import matplotlib

    return matplotlib.rc_context(
        {"text.parse_math": False, "svg.hashsalt": "upsilon_jax"}
    )


def save(figure: Figure, path: pathlib.Path) -> list[pathlib.Path]:
    """Writes PNG and SVG, or only that which the path ends in; the same bytes again."""
    stem = path.with_suffix("") if path.suffix in ENDINGS else path
    endings = [path.suffix] if path.suffix in ENDINGS else ENDINGS
    written: list[pathlib.Path] = []
    stem.parent.mkdir(parents=True, exist_ok=True)
    for ending in endings:
        file = stem.with_name(stem.name + ending)
        undated = {"Date": None} if ending == ".svg" else None
        figure.savefig(file, dpi=150, metadata=undated)
        written.append(file)
    return written


def nothing(what: str, how: str) -> UserError:
    """There is nothing to draw."""
    return UserError(f"no {what} here; {how}")


def shortened(names: Sequence[str], length: int = 12) -> list[str]:
    """Names that fit below a tick."""
    return [n if len(n) <= length else n[: length - 1] + "…" for n in names]
