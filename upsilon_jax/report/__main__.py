"""Tables and figures of the runs below a folder:  python -m upsilon_jax.report DIR."""

import pathlib

from upsilon_jax import commandline
from upsilon_jax.errors import ConfigError, nearest
from upsilon_jax.report.layout import FORMATS
from upsilon_jax.report.measures import MEASURES, find_measure
from upsilon_jax.report.overview import overview
from upsilon_jax.report.results import read_runs, write_summaries
from upsilon_jax.report.tables import TABLES, paper_table

COMMAND = commandline.Command(
    name="python -m upsilon_jax.report",
    about=__doc__,
    flags={
        "table": (None, f"of the paper: {', '.join(TABLES)} [one of all runs]"),
        "format": ("markdown", f"{', '.join(FORMATS)} [markdown]"),
        "metric": ("accuracy", f"{', '.join(MEASURES)} [accuracy]"),
        "methods": ([], "only runs of these [all]"),
        "output": (
            None,
            "where the table goes [printed]",
        ),
        "summaries": (None, "a folder: writes a small JSON file for each run into it"),
        "cost_of": (None, "a method; adds step times relative to its"),
    },
    argument="DIR",
    takes_config=False,
)


def main(options: commandline.Options) -> None:
    """Prints a table, or writes what was asked for."""
    told = options.flags
    write = _choice("format", told.format, FORMATS)
    measure = find_measure(told.metric)
    folder = pathlib.Path(options.argument)
    runs = read_runs(folder, may_be_empty=told.table is not None)
    if told.methods:
        runs = [run for run in runs if run.method in told.methods]
    if told.summaries:
        written = write_summaries(runs, pathlib.Path(told.summaries))
        print(f"{len(written)} summaries in {told.summaries}")
        return
    if told.table:
        table = paper_table(told.table, runs, measure.name)
    else:
        table = overview(runs, measure, told.cost_of)
    if told.output:
        pathlib.Path(told.output).write_text(write(table) + "\n", encoding="utf-8")
    else:
        print(write(table))


def _choice(flag: str, name: str, choices):
    if name not in choices:
        raise ConfigError(f"--{flag}={name}: no such {flag}; {nearest(name, choices)}")
    return choices[name]


if __name__ == "__main__":
    commandline.run(COMMAND, main)
