"""Tables and figures of the runs below a folder:  python -m upsilon_jax.report DIR."""

import pathlib
import sys
import types

from upsilon_jax.runtime import interrupts

NAME = "python -m upsilon_jax.report"
if __name__ == "__main__":
    interrupts.answer(NAME)  # before the imports that take seconds

from upsilon_jax import commandline
from upsilon_jax.errors import ConfigError, nearest
from upsilon_jax.report.assignment import assignment_table
from upsilon_jax.report.figures import FIGURES, draw_figure
from upsilon_jax.report.foreign import foreign_table
from upsilon_jax.report.layout import FORMATS, Table
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.mismatch import mismatch_table
from upsilon_jax.report.overview import overview
from upsilon_jax.report.page.index import write_index
from upsilon_jax.report.plug_in import plug_in_table
from upsilon_jax.report.results import read_runs, write_summaries
from upsilon_jax.report.runs import Run
from upsilon_jax.report.tables import TABLES, paper_table
from upsilon_jax.workdir.files import RESULT
from upsilon_jax.workdir.whole import check_place, written_whole

# No tables of the paper: true and estimated share of foreign images; and those that can
# show any metric, of curves over the mismatch ratio, of methods alone against the same
# with RPL and SEC around them, and of clusters of equal size against others.
FOREIGN = "foreign"
OWN_TABLES = {
    "mismatch": mismatch_table,
    "plug_in": plug_in_table,
    "assignment": assignment_table,
}
CHOICES = {
    "table": (*TABLES, FOREIGN, *OWN_TABLES),
    "figure": FIGURES,
    "format": FORMATS,
    "metric": MEASURES,
}
_NAMES = {flag: ", ".join(choices) for flag, choices in CHOICES.items()}

COMMAND = commandline.Command(
    name=NAME,
    about=__doc__,
    flags={
        "table": (None, f"{_NAMES['table']} [one of all runs]"),
        "figure": (None, f"as PNG and SVG: {_NAMES['figure']}"),
        "format": ("markdown", f"of a table: {_NAMES['format']} [markdown]"),
        "metric": ("accuracy", f"{_NAMES['metric']} [accuracy]"),
        "methods": ([], "only runs of these [all]"),
        "output": (None, "a file [a table is printed, a figure is DIR/NAME]"),
        "summaries": (None, "a folder, for a small JSON file of each run"),
        "cost_of": (None, "a method; adds step times relative to its"),
    },
    argument="DIR",
    takes_config=False,
)


def main(options: commandline.Options) -> None:
    """Prints a table, or writes what was asked for."""
    assert options.argument  # without one it is refused
    told, folder = options.flags, pathlib.Path(options.argument)
    _check(told)
    runs = read_runs(folder, may_be_empty=told.table is not None)
    if told.methods and runs:
        runs = [run for run in runs if run.method in told.methods]
        if not runs:
            raise ConfigError(f"--methods={','.join(told.methods)}: no run of these")
    _check_cost(told, runs)
    if told.summaries:
        written = write_summaries(runs, pathlib.Path(told.summaries))
        print(f"{len(written)} summaries in {told.summaries}")
    if told.figure:
        path = pathlib.Path(told.output or folder / told.figure)
        for file in draw_figure(told.figure, runs, path, told.metric):
            print(file)
    if told.table == FOREIGN:
        _put(foreign_table(runs), told.output)
    elif told.table or not (told.figure or told.summaries):
        _put(FORMATS[told.format](_table(told, runs)), told.output)
    # Summaries have no pages to lead to.
    whole = any(run.path.name == RESULT for run in runs)
    if whole and not (told.table or told.figure or told.summaries):
        sys.stderr.write(f"all runs with their reports: {write_index(folder)}\n")


def _check(told: types.SimpleNamespace) -> None:
    """Refuses what would be found wrong only after all results are read."""
    for flag, choices in CHOICES.items():
        name = getattr(told, flag)
        if name is not None and name not in choices:
            near = nearest(name, choices)
            raise ConfigError(f"--{flag}={name}: no such {flag}; {near}")
    if told.table == FOREIGN and (told.format, told.metric) != ("markdown", "accuracy"):
        raise ConfigError("--table=foreign: has one format and metrics of its own")
    if told.output and told.table and told.figure:
        raise ConfigError("--output: is for a table or a figure, not for both")
    if told.output and not told.figure:  # a figure makes its folder
        check_place(pathlib.Path(told.output))


def _check_cost(told: types.SimpleNamespace, runs: list[Run]) -> None:
    if told.cost_of is None:
        return
    if told.table or told.figure or told.summaries:
        raise ConfigError("--cost_of: is a column of the table of all runs")
    if told.cost_of not in {run.method for run in runs}:
        raise ConfigError(f"--cost_of={told.cost_of}: no run of it")


def _table(told: types.SimpleNamespace, runs: list[Run]) -> Table:
    if told.table in OWN_TABLES:
        return OWN_TABLES[told.table](runs, MEASURES[told.metric])
    if told.table:
        return paper_table(told.table, runs, told.metric)
    return overview(runs, MEASURES[told.metric], told.cost_of)


def _put(text: str, output: str | None) -> None:
    # Names of folders may have bytes that are no text.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if output is None:
        print(text)
    else:
        with written_whole(pathlib.Path(output)) as partial:
            partial.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    commandline.run(COMMAND, main)
