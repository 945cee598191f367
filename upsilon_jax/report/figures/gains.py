"""What RPL and SEC add to methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from upsilon_jax.report.figures import style
from upsilon_jax.report.groups import Block, Groups
from upsilon_jax.report.measures import Measure
from upsilon_jax.report.plug_in import PARTS, PRETRAINED, bases, gain
from upsilon_jax.report.runs import Run
from upsilon_jax.report.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_APART = 0.2  # marks of one method
_SHOWN = (PRETRAINED, *PARTS)


def plug_in(runs: Sequence[Run], measure: Measure) -> Figure:
    """A panel per setting and ratio: differences to the method alone, and intervals."""
    groups = Groups(runs)
    cells = {
        (block, ratio): found
        for block in groups.blocks
        for ratio in groups.ratios(block)
        if (found := _gains(groups, block, ratio, measure))
    }
    if not cells:
        raise style.nothing(
            "method alone and with RPL or SEC around it",
            "sweep over --methods=pl,pl+upsilon",
        )
    run = {part for gains in cells.values() for _, part in gains}
    parts = [part for part in _SHOWN if part in run]
    figure, axes = style.panels(len(cells), columns=2, size=(5, 3.6))
    for axis, ((block, ratio), gains) in zip(axes, cells.items(), strict=True):
        names = list(dict.fromkeys(base for base, _ in gains))
        for number, part in enumerate(parts):
            of_part = {
                at: gains[base, part]
                for at, base in enumerate(names)
                if (base, part) in gains
            }
            _draw(axis, of_part, part, (number - (len(parts) - 1) / 2) * _APART)
        axis.axhline(0, color="black", lw=0.8)
        axis.set_xticks(range(len(names)), style.shortened(names))
        axis.set_xlim(-0.5, len(names) - 0.5)
        axis.tick_params(axis="x", labelsize=8)
        title = groups.full_title(block)
        title = title if ratio is None else f"{title}, {ratio:.0%} foreign"
        axis.set_title(style.wrapped(title), fontsize=10)
        axis.set_ylabel(f"gain in {measure.title.replace(' in %', ' in points')}")
    style.shared_legend(figure, axes)
    return figure


def _gains(
    groups: Groups, block: Block, ratio: float | None, measure: Measure
) -> dict[tuple[str, str], Interval]:
    """Method and part → what the part adds, where both were run."""
    found = {
        (base, part): gain(groups, block, base, part, ratio, measure)
        for base in bases(groups, block)
        for part in _SHOWN
    }
    return {key: interval for key, interval in found.items() if interval}


def _draw(axis: Axes, gains: Mapping[int, Interval], part: str, shift: float) -> None:
    """Means with the intervals there are; one seed has none."""
    if not gains:
        return
    half = [0 if g.high is None else g.high - g.mean for g in gains.values()]
    look = style.look_of("baseline" if part == PRETRAINED else part)
    axis.errorbar(
        [at + shift for at in gains],
        [g.mean for g in gains.values()],
        half,
        fmt=look.marker,
        color=look.color,
        ms=7,
        capsize=3,
        lw=1.2,
        label=part if part == PRETRAINED else f"+{part}",
    )
