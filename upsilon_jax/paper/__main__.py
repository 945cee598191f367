"""The paper's experiments, each by a command:  python -m upsilon_jax.paper E8.

Trains the runs that are not there yet, several at a time, then makes the experiment's
table and figures. `--list` shows all sixteen with their size. The same command again
completes what was cut off; runs that experiments have in common are trained once.
"""

from __future__ import annotations

import pathlib

from upsilon_jax import commandline
from upsilon_jax.errors import ConfigError, nearest
from upsilon_jax.paper.cost import ACCELERATOR, hours
from upsilon_jax.paper.experiments import EXPERIMENTS, Experiment
from upsilon_jax.paper.runs import SCALES, configs_of, total_steps
from upsilon_jax.report.figures import draw_figure
from upsilon_jax.report.layout import markdown
from upsilon_jax.report.results import read_runs
from upsilon_jax.report.runs import Run
from upsilon_jax.report.tables import paper_table
from upsilon_jax.sweep.queue import EXIT_INCOMPLETE, train_all

COMMAND = commandline.Command(
    name="python -m upsilon_jax.paper",
    about=__doc__,
    flags={
        "list": (False, "shows all experiments, and trains nothing"),
        "scale": ("desk", "desk: minutes a run on a CPU core; or paper [desk]"),
        "workdir": (None, "where results go [runs/SCALE]"),
        "jobs": (None, "runs at the same time [one a core; one on an accelerator]"),
        "data_dir": (None, "where tfds keeps its data [tfds's default]"),
        "table_only": (False, "makes table and figures of the runs that are there"),
    },
    argument="EXPERIMENT",
    needs_argument=False,
    takes_config=False,
)


def main(options: commandline.Options) -> int:
    """Lists, or runs, experiments."""
    told = options.flags
    if told.scale not in SCALES:
        near = nearest(told.scale, SCALES)
        raise ConfigError(f"--scale={told.scale}: no such scale; {near}")
    if told.list:
        print_list(told.scale)
        return 0
    if options.argument is None:
        raise ConfigError("EXPERIMENT is missing; --list shows all of them")
    name = options.argument.upper()
    if name not in EXPERIMENTS:
        near = nearest(name, EXPERIMENTS)
        raise ConfigError(f"{options.argument}: no such experiment; {near}")
    root = pathlib.Path(told.workdir or f"runs/{told.scale}")
    fields = {"data.data_dir": told.data_dir} if told.data_dir else {}
    configs = configs_of(EXPERIMENTS[name], told.scale, fields)
    complete = told.table_only or train_all(configs, root, told.jobs)
    runs = [
        run
        for run in read_runs(root, may_be_empty=True)
        if run.path.parent.name in configs
    ]
    _show(EXPERIMENTS[name], root / name, runs)
    return 0 if complete else EXIT_INCOMPLETE


def _show(experiment: Experiment, output: pathlib.Path, runs: list[Run]) -> None:
    """Prints the table; both go to files beside the runs."""
    output.mkdir(parents=True, exist_ok=True)
    if experiment.table:
        table = markdown(paper_table(experiment.table, runs))
        (output / "table.md").write_text(table + "\n", encoding="utf-8")
        print(table)
    for figure in experiment.figures:
        if runs:
            for file in draw_figure(figure, runs, output / figure):
                print(file)


def print_list(scale: str) -> None:
    """A line for every experiment."""
    place = ACCELERATOR if scale == "paper" else "one core of this machine"
    print(f"at {scale} scale; hours on {place}, one run after the other, by a probe")
    for name, experiment in EXPERIMENTS.items():
        configs = configs_of(experiment, scale, {})
        steps = sum(total_steps(config) for config in configs.values())
        size = (
            f"{len(configs):>4} runs {steps:>12,} steps {hours(configs, scale):>8.1f} h"
        )
        print(f"{name:<4}{size}  {experiment.title}")


if __name__ == "__main__":
    commandline.run(COMMAND, main)
