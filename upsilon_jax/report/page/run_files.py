"""What a report is made from: the files of a run, and those of its baseline."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from upsilon_jax.config import flatten
from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir import files, findings
from upsilon_jax.workdir.findings import Findings
from upsilon_jax.workdir.records import read, read_json
from upsilon_jax.workdir.schema import FINISHED, Manifest, Result

BASELINE = "baseline"  # the method that learns from labeled images only


class RunFiles(NamedTuple):
    """A run that has ended."""

    workdir: pathlib.Path
    result: Result
    manifest: Manifest
    findings: Findings | None  # a run that diverged found nothing

    @property
    def method(self) -> str:
        """Its name in the config."""
        return self.result.config["method"]["name"]

    @property
    def found(self) -> Findings:
        """The findings, for those who know that there are some."""
        assert self.findings is not None
        return self.findings

    @property
    def truth_is_known(self) -> bool:
        """Whether the class of every image of D_u is known."""
        found = self.findings
        return found is not None and bool((found.unlabeled.truth >= 0).all())

    @property
    def num_classes(self) -> int:
        """C, the number of ID classes."""
        return self.manifest.num_classes


def read_run(workdir: pathlib.Path) -> RunFiles:
    """The files of a run; a WorkdirError says in one line what is missing."""
    path = workdir / files.FINDINGS
    return RunFiles(
        workdir,
        read(Result, workdir / files.RESULT),
        read(Manifest, workdir / files.MANIFEST),
        findings.load(path) if path.exists() else None,
    )


def find_baseline(run: RunFiles) -> RunFiles | None:
    """The labeled-only run of the same seed and split beside a run, if there is one.

    Of several the one whose settings differ least. One that cannot be read is as good
    as none: the report is not about it.
    """
    if run.method == BASELINE:
        return None
    fitting = []
    for workdir in _neighbours(run.workdir):
        try:
            other = read_run(workdir)
        except (WorkdirError, OSError):
            continue
        fits = other.result.status == FINISHED and all(
            getattr(other.result, field) == getattr(run.result, field)
            for field in ("seed", "split_digest")
        )
        if fits:
            fitting.append(other)
    return min(
        fitting, key=lambda other: len(changed_settings(run, other)), default=None
    )


def changed_settings(run: RunFiles, other: RunFiles) -> list[str]:
    """Fields of `data`, `model` and `train` in which two runs differ.

    Pre-training is no difference: a baseline is nothing else.
    """
    one, two = flatten(run.result.config), flatten(other.result.config)
    return [
        field
        for field in sorted(one.keys() | two.keys())
        if field.startswith(("data.", "model.", "train."))
        and field != "train.pretrain_epochs"
        and one.get(field) != two.get(field)
    ]


def _neighbours(workdir: pathlib.Path) -> Iterator[pathlib.Path]:
    """Folders of baselines beside a workdir, and, of several seeds, beside its parent.

    `config.json` is small: most folders are ruled out without reading their results.
    """
    workdir = workdir.resolve()
    found = [*workdir.parent.glob(f"*/{files.RESULT}")]
    found += workdir.parent.parent.glob(f"*/{workdir.name}/{files.RESULT}")
    for folder in sorted({path.parent for path in found} - {workdir}):
        try:
            config = read_json(folder / files.CONFIG)
            is_baseline = config["method"]["name"] == BASELINE
        except (WorkdirError, KeyError, TypeError):
            continue
        if is_baseline:
            yield folder
