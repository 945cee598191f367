"""The paper's experiments, each by a command:  python -m upsilon_jax.paper E8.

Trains the runs that are not there yet, several at a time, then makes the experiment's
table and figures. `--list` shows all sixteen with their size; `all` means all of them.
The same command again completes what was cut off; runs that experiments have in common
are trained once. `claims` judges what the paper says by the runs below --workdir, in
its folders desk and digits if it has them; `C9` judges one of the twelve claims.
"""

from __future__ import annotations

import pathlib
import sys
import types

from upsilon_jax.runtime import interrupts

NAME = "python -m upsilon_jax.paper"
if __name__ == "__main__":
    interrupts.answer(NAME)  # before the imports that take seconds

from upsilon_jax import commandline
from upsilon_jax.errors import ConfigError, ExitCode, UserError, nearest
from upsilon_jax.paper.claims import CLAIMS
from upsilon_jax.paper.cost import ACCELERATOR, hours
from upsilon_jax.paper.experiments import EXPERIMENTS, Experiment
from upsilon_jax.paper.runs import SCALES, configs_of, total_steps
from upsilon_jax.paper.verdicts import JUDGED, claims_text
from upsilon_jax.report.figures import draw_figure
from upsilon_jax.report.layout import markdown
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.results import read_runs
from upsilon_jax.report.runs import Run, fingerprint
from upsilon_jax.report.tables import TABLES, paper_table
from upsilon_jax.sweep.queue import train_all
from upsilon_jax.workdir.place import local_path
from upsilon_jax.workdir.whole import check_folder, make_folder, written_whole

ALL, ALL_CLAIMS = "all", "claims"

COMMAND = commandline.Command(
    name=NAME,
    about=__doc__,
    flags={
        "list": (False, "shows all experiments, and trains nothing"),
        "scale": ("desk", "digits, desk: minutes a run on a CPU core; or paper [desk]"),
        "workdir": (None, "where results go [runs/SCALE; runs for claims]"),
        "jobs": (None, "runs at the same time [one a core; one on an accelerator]"),
        "data_dir": (None, "where tfds keeps its data [tfds's default]"),
        "table_only": (False, "makes table and figures of the runs that are there"),
        "metric": (None, "only prints the table of these, by accuracy, auroc, ..."),
    },
    argument="EXPERIMENT",
    needs_argument=False,
    takes_config=False,
)


def main(options: commandline.Options) -> int:
    """Lists, or runs, experiments, or judges the claims."""
    told = options.flags
    if told.scale not in SCALES:
        near = nearest(told.scale, SCALES)
        raise ConfigError(f"--scale={told.scale}: no such scale; {near}")
    if told.metric not in (None, *MEASURES):
        near = nearest(told.metric, MEASURES)
        raise ConfigError(f"--metric={told.metric}: no such metric; {near}")
    if told.list:
        print_list(told.scale)
        return ExitCode.DONE
    claims = _claims(options.argument)
    if claims:
        _refuse_for_claims(told)
    root = local_path(told.workdir or ("runs" if claims else f"runs/{told.scale}"))
    if claims:
        print(claims_text(_judged_by(root), claims))
        return ExitCode.DONE
    fields = {"data.data_dir": told.data_dir} if told.data_dir else {}
    configs = {
        name: configs_of(EXPERIMENTS[name], told.scale, fields)
        for name in _names(options.argument, told.scale, told.metric)
    }
    together = {k: v for of_one in configs.values() for k, v in of_one.items()}
    complete = True
    if not (told.table_only or told.metric):
        check_folder(root)
        complete = train_all(together, root, told.jobs)
    there = told.workdir or root.exists()  # a folder that was named must exist
    runs = read_runs(root, may_be_empty=True) if there else []
    for name, wanted in configs.items():
        theirs = {(fingerprint(config), config.seed) for config in wanted.values()}
        mine = [run for run in runs if (run.fingerprint, run.result.seed) in theirs]
        if told.metric:
            _print_table(name, mine, told.metric)
        else:
            _show(EXPERIMENTS[name], root / name, mine)
    return ExitCode.DONE if complete else ExitCode.FAILED


def _claims(argument: str | None) -> list[str]:
    """The claims that are meant, if any are."""
    if argument == ALL_CLAIMS:
        return list(CLAIMS)
    return [name for name in CLAIMS if argument and name == argument.upper()]


def _refuse_for_claims(told: types.SimpleNamespace) -> None:
    """Flags of experiments: claims are judged by whatever runs there are."""
    for flag in ("scale", "jobs", "data_dir", "table_only", "metric"):
        if getattr(told, flag) != COMMAND.flags[flag][0]:
            raise ConfigError(f"--{flag}: is for experiments, not for claims")


def _judged_by(root: pathlib.Path) -> list[Run]:
    """Runs in the folders of the scales; other folders may have the same again."""
    scales = [root / scale for scale in JUDGED if (root / scale).is_dir()]
    return [run for folder in scales or [root] for run in read_runs(folder)]


def _names(argument: str | None, scale: str, metric: str | None = None) -> list[str]:
    """The experiments that are meant: one, or all that have something to show."""
    if argument is None:
        raise ConfigError("EXPERIMENT is missing; --list shows all of them")
    if argument == ALL:
        return [
            name
            for name, of in EXPERIMENTS.items()
            if getattr(of, scale)
            and not (metric and (of.table is None or TABLES[of.table].has_own_metrics))
        ]
    if argument.upper() not in EXPERIMENTS:
        near = nearest(argument.upper(), (*EXPERIMENTS, ALL, *CLAIMS, ALL_CLAIMS))
        raise ConfigError(f"{argument}: no such experiment or claim; {near}")
    return [argument.upper()]


def _print_table(name: str, runs: list[Run], metric: str) -> None:
    table = EXPERIMENTS[name].table
    if table is None:
        raise ConfigError(f"--metric: {name} has figures and no table")
    print(markdown(paper_table(table, runs, metric)))


def _show(experiment: Experiment, output: pathlib.Path, runs: list[Run]) -> None:
    """Prints the table; both go to files beside the runs."""
    if experiment.table:
        table = markdown(paper_table(experiment.table, runs))
        make_folder(output)
        with written_whole(output / "table.md") as partial:
            partial.write_text(table + "\n", encoding="utf-8")
        print(table)
    elif not runs:
        sys.stderr.write(f"{output.name}: none of its runs is in {output.parent}\n")
    for figure in experiment.figures if runs else ():
        try:
            print(*draw_figure(figure, runs, output / figure), sep="\n")
        except UserError as error:  # the runs it needs are not there yet
            sys.stderr.write(f"{output.name}: no figure {figure}: {error}\n")


def print_list(scale: str) -> None:
    """A line for every experiment."""
    place = ACCELERATOR if scale == "paper" else "one core of this machine"
    print(
        f"at {scale} scale; hours on {place}, one run after the other, by a probe; "
        "methods with several views take longer"
    )
    for name, experiment in EXPERIMENTS.items():
        configs = configs_of(experiment, scale, {})
        steps = sum(total_steps(config) for config in configs.values())
        size = (
            f"{len(configs):>4} runs {steps:>12,} steps {hours(configs, scale):>8.1f} h"
        )
        print(f"{name:<4}{size}  {experiment.title}")


if __name__ == "__main__":
    commandline.run(COMMAND, main)
