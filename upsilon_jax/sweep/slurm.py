"""A sweep as a job array of SLURM, through submitit: one run a job."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import pathlib
import shutil
import sys
from collections.abc import Mapping, Sequence

from upsilon_jax.config import ConfigDict
from upsilon_jax.config.repeat import arguments_of
from upsilon_jax.errors import ConfigError, UserError
from upsilon_jax.sweep import job
from upsilon_jax.sweep.queue import parse_jobs
from upsilon_jax.sweep.workers import LOG, is_complete
from upsilon_jax.workdir.whole import named_errors

FOLDER = ".slurm"  # below the sweep's: submitit's files, and what a job itself says

_SECONDS_TO_SAVE = 120  # before the time limit


def submit(
    configs: Mapping[str, ConfigDict],
    config_file: pathlib.Path,
    root: pathlib.Path,
    options: Mapping[str, str],
    parallel: str | None = None,
) -> str | None:
    """Submits the runs that are not complete, and does not wait for them.

    Args:
      configs: the folder of every run, and its config.
      config_file: that they were made from.
      root: where the folders are; every machine must see it.
      options: of sbatch, by its own names.
      parallel: how many jobs may run at a time, as the user wrote it; None for all.

    Returns:
      The number of the job; None if there is nothing to do.
    """
    _check_installed()
    at_a_time = None if parallel is None else parse_jobs(parallel)
    waiting = [name for name in configs if not is_complete(configs[name], root / name)]
    if not waiting:
        return None
    commands = [
        _command(configs[name], config_file, root.absolute() / name) for name in waiting
    ]
    logs = [root.absolute() / name / LOG for name in waiting]
    import submitit

    folder = root.absolute() / FOLDER
    executor = submitit.SlurmExecutor(folder=folder)
    executor.update_parameters(
        job_name=root.name,
        time=None,  # as the partition has it, unless the options say more
        array_parallelism=at_a_time or len(waiting),
        stderr_to_stdout=True,
        additional_parameters={
            "requeue": True,
            "signal": f"{job.MAKE_ROOM.name.removeprefix('SIG')}@{_SECONDS_TO_SAVE}",
            **options,
        },
        # srun does not take this from sbatch any more.
        setup=["export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}"],
    )
    try:
        with (
            named_errors(folder, "cannot be written to"),
            contextlib.redirect_stderr(io.StringIO()),  # submitit repeats sbatch there
        ):
            jobs = executor.map_array(job.run, commands, logs)
    except RuntimeError as error:  # of submitit: what sbatch said
        raise UserError(f"SLURM takes no such jobs: {error}") from error
    return jobs[0].job_id.partition("_")[0]


def parse_options(
    partition: str | None, time_limit: str | None, others: Sequence[str]
) -> dict[str, str]:
    """Options of sbatch that the flags of a sweep stand for."""
    options = dict(zip(("partition", "time"), (partition, time_limit), strict=True))
    for other in others:
        name, equals, value = other.partition("=")
        if not name or not equals:
            raise ConfigError(f"--slurm={other}: must be NAME=VALUE, as in mem=8G")
        options[name.lstrip("-").replace("_", "-")] = value
    return {name: value for name, value in options.items() if value is not None}


def _check_installed() -> None:
    if importlib.util.find_spec("submitit") is None:
        raise UserError(
            "--launcher=slurm needs submitit: pip install 'upsilon_jax[slurm]'"
        )
    if not all(map(shutil.which, ("sbatch", "srun"))):
        raise UserError(
            "--launcher=slurm: there is no sbatch here; is SLURM installed?"
        )


def _command(
    config: ConfigDict, config_file: pathlib.Path, workdir: pathlib.Path
) -> list[str]:
    file = config_file.absolute()
    return [
        *(sys.executable, "-m", "upsilon_jax", f"--workdir={workdir}"),
        f"--config={file}:{config.method.name}",
        *arguments_of(config.to_dict(), str(file)),
    ]
