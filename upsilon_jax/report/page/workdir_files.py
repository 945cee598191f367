"""All that a workdir shows to people, made from what the run wrote down."""

from __future__ import annotations

import contextlib
import pathlib

from upsilon_jax.errors import WorkdirError
from upsilon_jax.report.page.curves import save_curves
from upsilon_jax.report.page.document import write_page
from upsilon_jax.report.page.label_next import write_label_next
from upsilon_jax.report.page.run_files import RunFiles, read_run
from upsilon_jax.report.page.unlabeled import write_unlabeled
from upsilon_jax.workdir import files
from upsilon_jax.workdir.sums import check_sum, forget_sums, is_sound, write_sums


def remake(workdir: pathlib.Path) -> None:
    """Makes them again, from the files of a run that has ended.

    Raises:
      WorkdirError: a file is missing or damaged; one line says which.
    """
    _check_sums(workdir)
    run = read_run(workdir)
    forget_sums(workdir)
    write_all(run)
    write_sums(workdir, files.LISTED)


def _check_sums(workdir: pathlib.Path) -> None:
    """Refuses damage to what the run wrote down: a new list would call it sound."""
    for name in files.LISTED:
        path = workdir / name
        if name not in files.SHOWN and path.exists():
            check_sum(path, path.read_bytes())


def remake_missing(workdir: pathlib.Path) -> None:
    """Makes them again if one is missing, as from a copy without pictures, or damaged.

    The run has ended: what cannot be made is no reason to refuse its result.
    """
    wanted = [files.CURVES, files.REPORT]
    if (workdir / files.FINDINGS).exists():
        wanted += [files.UNLABELED, files.LABEL_NEXT]
    if not all(is_sound(workdir / name) for name in wanted):
        with contextlib.suppress(WorkdirError):
            remake(workdir)


def write_all(run: RunFiles) -> None:
    """Writes the curves, the report and, of a run that found something, CSV files.

    `result.json` need not be there yet.
    """
    save_curves(run.result, run.workdir / files.CURVES)
    if run.findings is not None:
        found = run.findings, run.manifest
        write_unlabeled(run.workdir / files.UNLABELED, *found)
        write_label_next(run.workdir / files.LABEL_NEXT, *found)
    write_page(run)
