"""All that a workdir shows to people, made from what the run wrote down."""

from __future__ import annotations

import pathlib

from upsilon_jax.report.curves import save_curves
from upsilon_jax.report.label_next import write_label_next
from upsilon_jax.report.page import write_page
from upsilon_jax.report.run_files import RunFiles
from upsilon_jax.report.unlabeled import write_unlabeled
from upsilon_jax.workdir import files, findings, schema
from upsilon_jax.workdir.findings import Findings
from upsilon_jax.workdir.schema import FINISHED, Manifest, Result


def remake(workdir: pathlib.Path) -> None:
    """Makes them again, from the files of a run that has ended.

    Raises:
      WorkdirError: a file is missing or damaged; one line says which.
    """
    result = schema.read(Result, workdir / files.RESULT)
    manifest = schema.read(Manifest, workdir / files.MANIFEST)
    finished = result.status == FINISHED
    found = findings.load(workdir / files.FINDINGS) if finished else None
    write_all(workdir, result, manifest, found)


def write_all(
    workdir: pathlib.Path, result: Result, manifest: Manifest, found: Findings | None
) -> None:
    """Writes the curves, the CSV files and the report.

    Args:
      workdir: where to.
      result: of the run; its file may not be there yet.
      manifest: of the run, as it is at the end.
      found: None for a run that diverged: there are no CSV files.
    """
    save_curves(result, workdir / files.CURVES)
    if found is None:  # what is there is of an earlier config
        for name in (files.FINDINGS, files.UNLABELED, files.LABEL_NEXT):
            (workdir / name).unlink(missing_ok=True)
    else:
        write_unlabeled(workdir / files.UNLABELED, found, manifest)
        write_label_next(workdir / files.LABEL_NEXT, found, manifest)
    write_page(RunFiles(workdir, result, manifest, found))
