"""Runs in groups: a setting holds variants of methods, a variant ratios and seeds."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence

from upsilon_jax.report.measures import Measure
from upsilon_jax.report.published import data_title
from upsilon_jax.report.runs import Fields, Run
from upsilon_jax.report.statistics import Interval, Summary, paired, summarize
from upsilon_jax.report.wording import Wording
from upsilon_jax.workdir.schema import DIVERGED

BASELINE = "baseline"

Block = tuple[str, Fields]  # data and setting


class Groups:
    """Runs by block, variant and mismatch, all in the order of their first run."""

    def __init__(self, runs: Sequence[Run]):
        """Sorts runs, none of which is there twice."""
        self.runs = list(runs)
        self.wording = Wording(self.runs)
        self._cells: dict[tuple, list[Run]] = collections.defaultdict(list)
        self._firsts: dict[tuple[Block, Fields], Run] = {}
        for run in self.runs:
            block = (run.data, run.setting)
            self._cells[block, run.variant, run.mismatch].append(run)
            self._firsts.setdefault((block, run.variant), run)

    @property
    def blocks(self) -> list[Block]:
        """Data with a setting."""
        return list(dict.fromkeys(block for block, _ in self._firsts))

    def variants(self, block: Block, method: str | None = None) -> list[Fields]:
        """Methods with their own fields; those of one method if it is given."""
        return [
            variant
            for (of, variant), run in self._firsts.items()
            if of == block and method in (None, run.method)
        ]

    def first(self, block: Block, variant: Fields | None = None) -> Run:
        """A run to ask for what all of its group agree in."""
        return self._firsts[block, variant or self.variants(block)[0]]

    def ratios(self, block: Block | None = None) -> list[float | None]:
        """The mismatches there are, an unknown one first."""
        found = {ratio for of, _, ratio in self._cells if block in (None, of)}
        return sorted(found, key=lambda ratio: -1 if ratio is None else ratio)

    def cell(self, block: Block, variant: Fields, ratio: float | None) -> list[Run]:
        """Repetitions of one run; none if it was not run."""
        return self._cells.get((block, variant, ratio), [])

    def serving(
        self, block: Block, variant: Fields, ratio: float | None, measure: Measure
    ) -> list[Run]:
        """The same, but a baseline that was not run at a ratio is served by another.

        It sees no unlabeled image, so that its network is the same at all of them. Of
        its seeds, those that others have at the ratio: means of others do not compare.
        """
        found = self.cell(block, variant, ratio)
        if found or not self.serves_all_ratios(block, variant, measure):
            return found
        key = (block, variant)
        runs = max((runs for k, runs in self._cells.items() if k[:2] == key), key=len)
        there = {
            run.result.seed
            for (of, _, at), cell in self._cells.items()
            if (of, at) == (block, ratio)
            for run in cell
        }
        return [run for run in runs if run.result.seed in there] or runs

    def serves_all_ratios(
        self, block: Block, variant: Fields, measure: Measure
    ) -> bool:
        """Whether a measure does not depend on the ratio: D_u must keep its size."""
        if measure.of_unlabeled or dict(block[1]).get("data.ood_imbalance", 1) != 1:
            return False
        run = self.first(block, variant)
        return run.method == BASELINE and run.mismatch is not None

    def baseline(self, block: Block, variant: Fields) -> Fields | None:
        """The variant of the baseline that another is compared with, if it is clear."""
        candidates = self.variants(block, BASELINE)
        field = "train.pretrain_epochs"
        same = [c for c in candidates if dict(c)[field] == dict(variant)[field]]
        for found in (same, candidates):
            if len(found) == 1:
                return found[0]
        return None

    def main(self, block: Block) -> list[Fields]:
        """Of each method the variant with the most runs, the first of several."""
        count = collections.Counter(
            (run.data, run.setting, run.variant) for run in self.runs
        )
        found: dict[str, Fields] = {}
        for variant in self.variants(block):
            method = self.first(block, variant).method
            best = found.setdefault(method, variant)
            if count[*block, variant] > count[*block, best]:
                found[method] = variant
        return list(found.values())

    def title(self, block: Block) -> str:
        """The benchmark, else the name of the data."""
        return data_title(self.first(block))

    def full_title(self, block: Block) -> str:
        """The same, and the setting where there are several."""
        setting = self.wording.setting(self.first(block))
        return ", ".join(filter(None, (self.title(block), setting)))


def values(runs: Iterable[Run], measure: Measure) -> dict[int, float]:
    """Seed → what is shown of a run, of those that have it."""
    found = {run.result.seed: measure.of(run.result) for run in runs}
    finished = {run.result.seed for run in runs if run.result.status != DIVERGED}
    return {s: v for s, v in found.items() if v is not None and s in finished}


def summary(runs: Sequence[Run], measure: Measure) -> Summary | None:
    """Mean and spread of a cell; None if it is empty."""
    diverged = sum(run.result.status == DIVERGED for run in runs)
    return summarize(list(values(runs, measure).values()), diverged)


def compared(
    ours: Sequence[Run],
    theirs: Sequence[Run],
    measure: Measure,
    their_measure: Measure | None = None,
) -> Interval | None:
    """The difference, paired by seed; None where a run diverged.

    Those left over would be compared as if the method always came so far.
    """
    if any(run.result.status == DIVERGED for run in (*ours, *theirs)):
        return None
    return paired(values(ours, measure), values(theirs, their_measure or measure))


def difference(
    groups: Groups,
    block: Block,
    variant: Fields,
    ratio: float | None,
    measure: Measure,
) -> Interval | None:
    """To the baseline of the same seeds; None of the baseline itself."""
    reference = groups.baseline(block, variant)
    if reference is None or groups.first(block, variant).method == BASELINE:
        return None
    ours, theirs = (
        groups.serving(block, v, ratio, measure) for v in (variant, reference)
    )
    return compared(ours, theirs, measure)
