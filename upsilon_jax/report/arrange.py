"""How runs and published numbers are arranged in a table of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from upsilon_jax.config import flatten, load_config
from upsilon_jax.report.groups import BASELINE, Block, Groups, difference, summary
from upsilon_jax.report.layout import Cell, Row, Table
from upsilon_jax.report.measures import MEASURES, Measure
from upsilon_jax.report.notes import notes_below, ratio_title
from upsilon_jax.report.published import (
    BENCHMARKS,
    TITLES,
    benchmark_of,
    find_published,
)
from upsilon_jax.report.runs import Fields, Run

_MAP = "method.assignment_seed"


class PaperTable(NamedTuple):
    """A table of the paper: which runs belong to it, and where its numbers stand."""

    experiment: str
    title: str
    arrange: Callable[[PaperTable, Sequence[Run], Measure], Table]
    benchmarks: tuple[str, ...]  # shown whether there are runs or not
    methods: tuple[str, ...]  # the same
    also: tuple[str, ...] = ()  # methods that are shown if there are runs
    unranked: tuple[str, ...] = ()  # upper bounds, which are no rivals
    ratios: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    imbalanced: bool = False  # whether the OOD classes of D_u are

    @property
    def has_own_metrics(self) -> bool:
        """Whether it shows these and no other."""
        return self.arrange is by_measure

    def takes(self, run: Run) -> bool:
        """Whether a run belongs to the table."""
        imbalanced = dict(run.setting).get("data.ood_imbalance", 1) != 1
        known = run.method in (*self.methods, *self.also)
        return known and imbalanced == self.imbalanced


class Place(NamedTuple):
    """A data set in a table: of the paper, of ours, or both."""

    benchmark: str | None
    block: Block | None
    title: str


def by_ratio(table: PaperTable, runs: Sequence[Run], measure: Measure) -> Table:
    """Rows of methods for each data set and setting; a column per ratio."""
    groups = Groups(runs)
    found = groups.ratios()
    known = sorted({*table.ratios, *(ratio for ratio in found if ratio is not None)})
    ratios = [*([None] if None in found else []), *known]
    rows = [
        row
        for place in _places(table, groups)
        for row in _rows(table, groups, place, ratios, measure)
    ]
    with_settings = any(row.names[2] for row in rows)
    if not with_settings:
        rows = [row._replace(names=row.names[:2]) for row in rows]
    return Table(
        _title(table),
        ("data", "method", *(["settings"] if with_settings else [])),
        tuple(ratio_title(ratio, measure) for ratio in ratios),
        tuple(rows),
        notes_below(groups, rows, ratios, measure),
    )


def _rows(
    table: PaperTable,
    groups: Groups,
    place: Place,
    ratios: Sequence[float | None],
    measure: Measure,
) -> Iterator[Row]:
    title = BENCHMARKS[place.benchmark].title if place.benchmark else place.title
    for method in (*table.methods, *table.also):
        variants = groups.variants(place.block, method) if place.block else []
        usual = _most_usual(place.benchmark, method, variants)
        nothing: list[Fields | None] = [None] if method in table.methods else []
        for variant in variants or nothing:
            paper = place.benchmark if variant == usual else None
            cells = [
                _cell(table, groups, (place.block, variant, r), paper, method, measure)
                for r in ratios
            ]
            yield Row(
                (title, TITLES[method], _both(groups, place.block, variant)),
                tuple(cells),
                measure,
                rival_of=place.title,
                ranked=method not in table.unranked,
            )


def _both(groups: Groups, block: Block | None, variant: Fields | None) -> str:
    """What a row says of its setting and variant, as far as it has them."""
    if block is None:
        return ""
    if variant is None:
        return groups.wording.setting(groups.first(block))
    return groups.wording.both(groups.first(block, variant))


def by_data(table: PaperTable, runs: Sequence[Run], measure: Measure) -> Table:
    """A row per method; a column for each data set and setting, at one ratio."""
    (ratio,) = table.ratios
    # The baseline may serve from another ratio.
    groups = Groups([r for r in runs if r.mismatch == ratio or r.method == BASELINE])
    places = _places(table, groups)
    remarks: list[str] = []
    rows = []
    for method in table.methods:
        by_text: dict[str, dict[int, Cell]] = {"": {}}
        for column, place in enumerate(places):
            variants, said = _best_maps(groups, place, method, ratio, measure)
            remarks += said
            usual = _most_usual(place.benchmark, method, list(variants.values()))
            for text, variant in variants.items() or [("", None)]:
                paper = place.benchmark if variant == usual else None
                where = (place.block, variant, ratio)
                cell = _cell(table, groups, where, paper, method, measure)
                by_text.setdefault(text, {})[column] = cell
        for text, found in by_text.items():
            name = ", ".join(filter(None, (TITLES[method], text)))
            shown = tuple(found.get(c, Cell()) for c in range(len(places)))
            rows.append(Row((name,), shown, measure))
    titles = tuple(place.title for place in places)
    rows = [row for row in rows if any(map(any, row.cells))] or rows
    notes = (*remarks, *notes_below(groups, rows, [ratio], measure))
    return Table(_title(table), ("strategy",), titles, tuple(rows), notes)


def _best_maps(
    groups: Groups, place: Place, method: str, ratio: float, measure: Measure
) -> tuple[dict[str, Fields], list[str]]:
    """What tells variants apart → the variant, and remarks on them.

    Of those that differ in nothing but the map of foreign to ID classes, it is the best
    one by its mean.
    """
    alike: dict[str, list[Fields]] = {}
    for variant in groups.variants(place.block, method) if place.block else []:
        alike.setdefault(_variant_text(groups, place.block, variant), []).append(
            variant
        )
    remarks = [
        f"{', '.join(filter(None, (TITLES[method], text)))} on {place.title}: the best "
        f"of {len(maps)} maps of foreign to ID classes, by its mean here."
        for text, maps in alike.items()
        if len(maps) > 1
    ]

    def mean(variant: Fields) -> float:
        assert place.block
        found = summary(groups.cell(place.block, variant, ratio), measure)
        if found is None or found.mean is None:
            return float("-inf")
        return found.mean if measure.more_is_better else -found.mean

    return {text: max(maps, key=mean) for text, maps in alike.items()}, remarks


def _variant_text(groups: Groups, block: Block | None, variant: Fields | None) -> str:
    """In what a variant differs from others of its method, the map left out."""
    if block is None or variant is None:
        return ""
    return groups.wording.variant(groups.first(block, variant), without=_MAP)


def by_measure(table: PaperTable, runs: Sequence[Run], measure: Measure) -> Table:
    """Rows of imbalances; a column for each data set, setting and ratio."""
    groups = Groups(runs)
    measures = [MEASURES[name] for name in ("kl_id", "kl_ood", "ratio_id", "ratio_ood")]
    several = len(groups.ratios()) > 1
    columns: dict[str, dict[str, Cell]] = {}
    for place in _places(table, groups):
        ratios = groups.ratios(place.block) if place.block else [None]
        for variant in groups.variants(place.block) if place.block else [None]:
            for ratio in ratios:
                where = (place.block, variant, ratio)
                text = _variant_text(groups, place.block, variant)
                at = ratio_title(ratio, measure) if several and place.block else ""
                title = ", ".join(filter(None, (place.title, text, at)))
                columns[title] = {
                    m.name: _cell(table, groups, where, place.benchmark, "baseline", m)
                    for m in measures
                }
    rows = [
        Row(
            (m.title,),
            tuple(cells[m.name] for cells in columns.values()),
            m,
            rival_of=m.name,
        )
        for m in measures
    ]
    notes = notes_below(groups, rows, groups.ratios(), measures[0])
    if any(_without_ratio(run) for run in groups.runs):
        notes += ("A run in which a class got no label has no ratio and is left out.",)
    return Table(_title(table), ("imbalance",), tuple(columns), tuple(rows), notes)


def _without_ratio(run: Run) -> bool:
    """Whether there were labels to count, and one class had none of them."""
    found = run.result.imbalance
    return found is not None and (
        (found.ratio_id is None and found.kl_id is not None)
        or (found.ratio_ood is None and found.kl_ood is not None)
    )


def _title(table: PaperTable) -> str:
    return f"{table.title} ({table.experiment})"


def _places(table: PaperTable, groups: Groups) -> list[Place]:
    """The data sets of the table, with or without runs, then others there are."""
    found = [(benchmark_of(groups.first(block)), block) for block in groups.blocks]
    places = []
    no_runs: list[Block | None] = [None]
    for key in table.benchmarks:
        blocks = [block for of, block in found if of == key]
        for block in blocks or no_runs:
            title = groups.full_title(block) if block else BENCHMARKS[key].title
            places.append(Place(key, block, title))
    return places + [
        Place(None, block, groups.full_title(block))
        for of, block in found
        if of not in table.benchmarks
    ]


def _cell(
    table: PaperTable,
    groups: Groups,
    where: tuple[Block | None, Fields | None, float | None],
    benchmark: str | None,
    method: str,
    measure: Measure,
) -> Cell:
    block, variant, ratio = where
    paper = find_published(table.experiment, benchmark, method, ratio, measure.name)
    if block is None or variant is None:
        return Cell(published=paper)
    return Cell(
        summary(groups.serving(block, variant, ratio, measure), measure),
        paper,
        difference(groups, block, variant, ratio, measure),
    )


def _most_usual(
    benchmark: str | None, method: str, variants: Sequence[Fields]
) -> Fields | None:
    """The variant whose fields are most like the config of the benchmark.

    The paper's number stands beside that one.
    """
    if benchmark is None or not variants:
        return None
    usual = flatten(load_config(BENCHMARKS[benchmark].config, method))
    unlike = lambda variant: sum(usual.get(k) != value for k, value in variant)
    return min(variants, key=unlike)
