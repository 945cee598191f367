"""A table as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

from upsilon_jax.report.measures import Measure
from upsilon_jax.report.published import Published
from upsilon_jax.report.statistics import Interval, Summary
from upsilon_jax.workdir.csv_files import escaped

MISSING = "—"


class Cell(NamedTuple):
    """What stands where a row meets a column."""

    summary: Summary | None = None
    published: Published | None = None
    difference: Interval | None = None


class Row(NamedTuple):
    """A line of a table."""

    names: tuple[str, ...]  # as many as the table has
    cells: tuple[Cell, ...]  # one for each column
    measure: Measure
    rival_of: str = ""  # rows of one name are ranked against one another
    ranked: bool = True
    extra: str = ""


class Table(NamedTuple):
    """Names, then columns of cells, then perhaps one more column."""

    title: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    extra: str = ""  # the title of that column
    reference: str = "the baseline"  # what the differences are to

    @property
    def has_published(self) -> bool:
        """Whether the paper has a number for any cell."""
        return any(cell.published for row in self.rows for cell in row.cells)

    @property
    def has_differences(self) -> bool:
        """Whether any cell can be compared with the reference."""
        return any(cell.difference for row in self.rows for cell in row.cells)


class Markup(NamedTuple):
    """How a format says things."""

    escape: Callable[[str], str]
    best: str  # with {} in it
    second: str


_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "Υ": r"$\Upsilon$",
    "Π": r"$\Pi$",
    "³": r"$^3$",
    "×": r"$\times$",
    "−": "$-$",
    "—": "---",
    "…": r"\dots{}",
}
_MARKDOWN = Markup(lambda text: text.replace("|", r"\|"), "**{}**", "<u>{}</u>")
_LATEX = Markup(
    lambda text: "".join(_SPECIAL.get(character, character) for character in text),
    r"\textbf{{{}}}",
    r"\underline{{{}}}",
)


def markdown(table: Table) -> str:
    """A table, a second one of differences if there are any, and notes."""
    parts = [f"**{table.title}**"] if table.title else []
    for heading, grid in _grids(table, _MARKDOWN):
        left = [":---"] * len(table.names)
        rule = [*left, *["---:"] * (len(grid[0]) - len(left))]
        lines = ["| " + " | ".join(line) + " |" for line in (grid[0], rule, *grid[1:])]
        parts += [*([heading] if heading else []), "\n".join(lines)]
    return "\n\n".join([*parts, *table.notes])


def latex(table: Table) -> str:
    """The same with `booktabs`, each in a `tabular`."""
    parts = [f"% {table.title or 'A table'}; needs \\usepackage{{booktabs}}"]
    for heading, grid in _grids(table, _LATEX):
        body = [" & ".join(line) + r" \\" for line in grid]
        names = len(table.names)
        columns = "l" * names + "r" * (len(grid[0]) - names)
        parts += [
            *([f"% {heading}"] if heading else []),
            "\n".join(
                [
                    rf"\begin{{tabular}}{{{columns}}}",
                    r"\toprule",
                    body[0],
                    r"\midrule",
                    *body[1:],
                    r"\bottomrule",
                    r"\end{tabular}",
                ]
            ),
        ]
    return "\n\n".join([*parts, *(f"% {note}" for note in table.notes)])


def as_csv(table: Table) -> str:
    """A line for every cell, all numbers apart: for programs, and for spreadsheets."""
    numbers = "mean std count diverged published published_std".split()
    differences = "difference low high pairs".split()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    extra = [table.extra] if table.extra else []
    header = [*table.names, "column", "metric", *numbers, *differences, *extra]
    writer.writerow(map(escaped, header))
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            words = map(escaped, (*row.names, column, row.measure.name))
            rest = [escaped(row.extra)] if extra else []
            writer.writerow([*words, *_plain_numbers(cell), *rest])
    return text.getvalue().rstrip("\n")


FORMATS = {"markdown": markdown, "latex": latex, "csv": as_csv}


def _plain_numbers(cell: Cell) -> list[str]:
    say = lambda number: "" if number is None else f"{number:.10g}"
    ours, paper = cell.summary or (None,) * 4, cell.published
    published = [paper.value, paper.std] if paper else ["", ""]
    return [*map(say, ours), *published, *map(say, cell.difference or (None,) * 4)]


def _grids(table: Table, markup: Markup) -> list[tuple[str, list[list[str]]]]:
    """The main grid and, if there are differences, theirs: headings and texts."""
    grids = [("", _main_grid(table, markup))]
    if table.has_differences:
        heading = (
            f"Difference to {table.reference}, paired by seed: "
            "mean [95 % interval] (seeds)"
        )
        names = [markup.escape(name) for name in (*table.names, *table.columns)]
        lines = [
            [
                *row.names,
                *(say_change(cell.difference, row.measure) for cell in row.cells),
            ]
            for row in table.rows
            if any(cell.difference for cell in row.cells)
        ]
        grid = [[markup.escape(text) for text in line] for line in lines]
        grids.append((heading, [names, *grid]))
    return grids


def _main_grid(table: Table, markup: Markup) -> list[list[str]]:
    header = list(table.names)
    for column in table.columns:
        header += [column, "paper"] if table.has_published else [column]
    extra = [table.extra] if table.extra else []
    grid = [[markup.escape(name) for name in (*header, *extra)]]
    ours = _ranks(table, lambda cell: _mean(cell.summary), most_seeds=True)
    papers = _ranks(table, lambda cell: cell.published and cell.published.number)
    summaries = [cell.summary for row in table.rows for cell in row.cells]
    with_count = len({summary.count for summary in summaries if summary}) > 1
    for i, row in enumerate(table.rows):
        line = [markup.escape(name) for name in row.names]
        for j, cell in enumerate(row.cells):
            text = say_summary(cell.summary, row.measure, with_count)
            line.append(_marked(text, ours.get((i, j)), markup))
            if table.has_published:
                text = _paper(cell.published)
                line.append(_marked(text, papers.get((i, j)), markup))
        grid.append([*line, *([markup.escape(row.extra)] if extra else [])])
    return grid


def _marked(text: str, rank: int | None, markup: Markup) -> str:
    text = markup.escape(text)
    if rank is None:
        return text
    return (markup.best, markup.second)[rank].format(text)


def _ranks(
    table: Table, value: Callable, most_seeds: bool = False
) -> dict[tuple[int, int], int]:
    """(row, column) → 0 if it is the best of its rivals, 1 if the second best.

    Args:
      table: rows, some of them rivals.
      value: cell → number, None if it has none.
      most_seeds: passes over cells of fewer seeds than others; they may be luckier.
    """
    ranks = {}
    for j in range(len(table.columns)):
        for name in {row.rival_of for row in table.rows}:
            found = {
                i: round(value(row.cells[j]), row.measure.decimals)
                for i, row in enumerate(table.rows)
                if row.rival_of == name
                and row.ranked
                and value(row.cells[j]) is not None
            }
            if most_seeds:
                found = _of_most_seeds(found, [row.cells[j] for row in table.rows])
            if len(found) < 2:
                continue
            measure = next(r for r in table.rows if r.rival_of == name).measure
            places = sorted(set(found.values()), reverse=measure.more_is_better)
            for i, number in found.items():
                if number in places[:2]:
                    ranks[i, j] = places.index(number)
    return ranks


def _of_most_seeds(found: dict[int, float], cells: Sequence[Cell]) -> dict[int, float]:
    """Those whose cells are means over as many seeds as any other's."""
    counts = {i: s.count for i in found if (s := cells[i].summary)}
    return {i: v for i, v in found.items() if counts[i] == max(counts.values())}


def _mean(summary: Summary | None) -> float | None:
    """To be ranked by: none where a run diverged."""
    return summary.mean if summary and not summary.diverged else None


def say_summary(
    summary: Summary | None, measure: Measure, with_count: bool = False
) -> str:
    """'61.50 ± 0.67', perhaps with the number of seeds."""
    if summary is None:
        return MISSING
    if summary.diverged:
        runs = summary.diverged + summary.count
        return f"diverge ({summary.diverged} of {runs})" if summary.count else "diverge"
    text = f"{summary.mean:.{measure.decimals}f}"
    if summary.std is not None:
        text += f" ± {summary.std:.{measure.decimals}f}"
    return text + (f" (n = {summary.count})" if with_count else "")


def _paper(cell: Published | None) -> str:
    if cell is None:
        return ""
    spread = f" ± {cell.std}" if cell.std else ""
    return cell.value + spread + (f" ({cell.difference})" if cell.difference else "")


def say_change(difference: Interval | None, measure: Measure) -> str:
    """'+0.77 [-0.87, +2.42] (3)': mean, interval and number of seeds."""
    if difference is None:
        return MISSING
    mean, low, high, count = difference
    text = f"{mean:+.{measure.decimals}f}"
    if low is not None:
        text += f" [{low:+.{measure.decimals}f}, {high:+.{measure.decimals}f}]"
    return f"{text} ({count})"
