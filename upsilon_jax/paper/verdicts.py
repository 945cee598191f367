"""The claims judged by runs: differences over seeds, their intervals, a verdict."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from upsilon_jax.config import load_config
from upsilon_jax.paper.claims import CLAIMS, MORE, Check, Claim, Side
from upsilon_jax.paper.experiments import EXPERIMENTS, FIRST_FIVE, RANDAUG, RATIOS
from upsilon_jax.paper.runs import configs_of
from upsilon_jax.report.groups import BASELINE, compared, summary, values
from upsilon_jax.report.layout import say_change, say_summary
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.published import TITLES, published_curve
from upsilon_jax.report.runs import Run, fingerprint
from upsilon_jax.report.statistics import Interval, Summary

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable at this scale"
NOT_RUN = "not run"
_BENCHMARKS: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({}, "cifar10"),
    (FIRST_FIVE, "cifar10_5_5"),
    (RANDAUG, "cifar10_randaug"),
)
# The config and the name of each scale that claims are judged at.
JUDGED = {"desk": ("cifar10_desk", "CIFAR-10"), "digits": ("digits", "digits")}


class Judged(NamedTuple):
    """A check and what the runs say of it."""

    check: Check
    ours: Summary | None
    theirs: Summary | None
    difference: Interval | None
    verdict: str


def judge(check: Check, runs: Mapping[str, list[Run]], config: str) -> Judged:
    """Holds if the whole interval is on the claimed side, fails if on the other.

    Means are over the seeds that both sides have, as is the difference.

    Args:
      check: what is claimed.
      runs: by their fingerprint.
      config: its name.
    """
    ours, theirs = (_runs_of(side, runs, config) or [] for side in check[:2])
    mine, other = (MEASURES[side.measure] for side in check[:2])
    difference = compared(ours, theirs, mine, other)
    if difference:
        both = values(ours, mine).keys() & values(theirs, other).keys()
        ours, theirs = (
            [run for run in side if run.result.seed in both] for side in (ours, theirs)
        )
    first, second = summary(ours, mine), summary(theirs, other)
    if first and second and (first.diverged or second.diverged):
        verdict = _of_diverged(first, second, check.sign)
    else:
        verdict = _verdict(difference, check.sign)
    return Judged(check, first, second, difference, verdict)


def _runs_of(
    side: Side, runs: Mapping[str, list[Run]], config: str
) -> list[Run] | None:
    """Those of a side; None if no experiment has such runs.

    A baseline that was not run at a ratio is served by another, as in tables.
    """
    own = runs.get(_fingerprint(side, config))
    if own or side.method != BASELINE or MEASURES[side.measure].of_unlabeled:
        return own
    names = [_fingerprint(side._replace(ratio=ratio), config) for ratio in RATIOS]
    others = [runs[name] for name in names if name in runs]
    return max(others, key=len, default=own)


def _fingerprint(side: Side, config: str) -> str:
    """Of the runs of a side."""
    found = load_config(config, side.method)
    found.update_from_flattened_dict({**side.fields, "data.mismatch": side.ratio})
    return fingerprint(found)


def _of_diverged(ours: Summary, theirs: Summary, sign: int) -> str:
    """Where all runs of one side diverged and none of the other, that side is less.

    Where some did, those left over prove nothing.
    """
    if bool(ours.count) == bool(theirs.count) or min(ours.diverged, theirs.diverged):
        return OPEN
    return HOLDS if (sign == MORE) == bool(ours.count) else FAILS


def _verdict(difference: Interval | None, sign: int) -> str:
    if difference is None:
        return NOT_RUN
    if difference.low is None or difference.high is None:
        return OPEN
    low, high = sorted((sign * difference.low, sign * difference.high))
    return HOLDS if low > 0 else FAILS if high < 0 else OPEN


def overall(verdicts: Iterable[str]) -> str:
    """Of a claim: one failure refutes it, and all checks must hold to confirm it."""
    found = set(verdicts)
    if found == {NOT_RUN}:
        return NOT_RUN
    return FAILS if FAILS in found else HOLDS if found == {HOLDS} else OPEN


@functools.cache
def planned(scale: str) -> frozenset[tuple[str, int]]:
    """Fingerprint and seed of every run that the experiments have at a scale."""
    return frozenset(
        (fingerprint(config), config.seed)
        for experiment in EXPERIMENTS.values()
        for config in configs_of(experiment, scale, {}).values()
    )


def claims_text(runs: Sequence[Run], names: Iterable[str] = CLAIMS) -> str:
    """Markdown: claims with their checks and verdicts.

    Args:
      runs: any; those that no experiment has are passed over.
      names: keys of CLAIMS.
    """
    by_scale: dict[str, dict[str, list[Run]]] = {}
    for scale in JUDGED:
        found = by_scale[scale] = {name: [] for name, _ in planned(scale)}
        for run in runs:
            if (run.fingerprint, run.result.seed) in planned(scale):
                found[run.fingerprint].append(run)
    parts = [_claim_text(name, CLAIMS[name], by_scale) for name in names]
    return "\n\n".join(parts)


def _claim_text(
    name: str, claim: Claim, by_scale: Mapping[str, Mapping[str, list[Run]]]
) -> str:
    lines, said = [], []
    for scale, (config, title) in JUDGED.items():
        runs = by_scale[scale]
        judged = [
            judge(check, runs, config)
            for check in claim.checks
            if all(_runs_of(side, runs, config) is not None for side in check[:2])
        ]
        if judged:
            lines += [_line(title, row, config) for row in judged]
            said.append(f"{title}: **{overall(row.verdict for row in judged)}**")
    head = "| data | what is compared | first | second | difference | paper | verdict |"
    rule = "|---|---|---:|---:|---:|---:|---|"
    heading = f"### {name}. {claim.text}"
    return "\n".join([heading, "", "; ".join(said) + ".", "", head, rule, *lines])


def _line(title: str, row: Judged, config: str) -> str:
    measure = MEASURES[row.check.ours.measure]
    shown = [
        title,
        row.check.text or _compared(row.check),
        say_summary(row.ours, measure),
        say_summary(row.theirs, measure),
        say_change(row.difference, measure),
        _published(row.check, config),
        row.verdict,
    ]
    return "| " + " | ".join(shown) + " |"


def _compared(check: Check) -> str:
    """'RPL at 100% below Baseline'."""
    ours, theirs = (
        TITLES[side.method]
        + (f" at {side.ratio:.0%}" if side.method != BASELINE else "")
        for side in check[:2]
    )
    return f"{ours} {'above' if check.sign == MORE else 'below'} {theirs}"


def _published(check: Check, config: str) -> str:
    """The paper's difference, where it has both numbers."""
    ours, theirs = (_paper_number(side, config) for side in check[:2])
    if ours is None or theirs is None:
        return ""
    decimals = MEASURES[check.ours.measure].decimals
    return f"{ours - theirs:+.{decimals}f}"


def _paper_number(side: Side, config: str) -> float | None:
    for fields, benchmark in _BENCHMARKS:
        if side.fields == fields and config == "cifar10_desk":
            curve = published_curve(benchmark, side.method, side.measure)
            return curve.get(side.ratio, curve.get(None))
    return None
