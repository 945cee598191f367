"""What RPL and SEC add to methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from upsilon_jax.report.figures import style
from upsilon_jax.report.groups import Groups
from upsilon_jax.report.measures import Measure
from upsilon_jax.report.plug_in import PARTS, bases, gain
from upsilon_jax.report.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_APART = 0.22  # marks of one method


def plug_in(runs: Sequence[Run], measure: Measure) -> Figure:
    """A panel per setting and ratio: differences to the method alone, and intervals."""
    groups = Groups(runs)
    cells = [
        (block, ratio)
        for block in groups.blocks
        if bases(groups, block)
        for ratio in groups.ratios(block)
    ]
    if not cells:
        raise style.nothing(
            "method with RPL or SEC around it", "sweep over --methods=pl,pl+upsilon"
        )
    figure, axes = style.panels(len(cells), columns=2, size=(5, 3.6))
    for axis, (block, ratio) in zip(axes, cells, strict=True):
        names = bases(groups, block)
        for number, part in enumerate(PARTS):
            found = {
                at: gain(groups, block, base, part, ratio, measure)
                for at, base in enumerate(names)
            }
            _draw(axis, found, part, (number - 1) * _APART)
        axis.axhline(0, color="black", lw=0.8)
        axis.set_xticks(range(len(names)), style.shortened(names))
        axis.tick_params(axis="x", labelsize=8)
        title = groups.full_title(block)
        title = title if ratio is None else f"{title}, {ratio:.0%} foreign"
        axis.set_title(style.wrapped(title), fontsize=10)
        axis.set_ylabel(f"gain in {measure.title.removesuffix(' in %')}")
    style.shared_legend(figure, axes)
    return figure


def _draw(axis: Axes, found: dict, part: str, shift: float) -> None:
    """Means with the intervals there are; one seed has none."""
    gains = {at: g for at, g in found.items() if g}
    half = [0 if g.high is None else g.high - g.mean for g in gains.values()]
    look = style.look_of(part)
    axis.errorbar(
        [at + shift for at in gains],
        [g.mean for g in gains.values()],
        half,
        fmt=look.marker,
        color=look.color,
        ms=7,
        capsize=3,
        lw=1.2,
        label=f"+{part}",
    )
