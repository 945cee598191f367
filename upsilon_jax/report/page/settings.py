"""What it takes to do a run again: command, settings, versions, digests."""

from __future__ import annotations

from upsilon_jax.config import flatten
from upsilon_jax.config.repeat import repeat_command
from upsilon_jax.report.page.markup import Child, Markup, scrolling, table, tag
from upsilon_jax.report.page.run_files import BASELINE, RunFiles


def settings(run: RunFiles) -> list[Child]:
    """The command that repeats the run, and all that decides its numbers, folded."""
    result = run.result
    fields = [(field, _shown(value)) for field, value in flatten(result.config).items()]
    digests = {
        "split": result.split_digest,
        "parameters": result.params_digest,
        **{f"data: {part}": value for part, value in run.manifest.data_digest.items()},
    }
    native = "C++ code ran" if result.native else "no C++ code ran"
    return [
        tag("p", "The same command on the same data trains the same model:"),
        command_line(repeat_command(result.config)),
        _folded(
            "Settings", table(["field", "value"], fields, "All fields.", class_="words")
        ),
        _folded(
            "Versions and digests",
            table(["package", "version"], result.versions.items(), f"{native}."),
            table(["of", "sha256"], digests.items(), "Digests.", class_="words"),
        ),
    ]


def baseline_hint(run: RunFiles) -> Markup:
    """How to find out what the unlabeled images brought."""
    return tag(
        "div",
        tag(
            "p",
            "Was the heap of unlabeled images any use? Train the same network on the "
            "labeled images alone, into a folder beside this one; then make this page "
            "again, and it compares the two:",
        ),
        command_line(repeat_command(run.result.config, BASELINE)),
    )


def command_line(command: str) -> Markup:
    """A command to copy."""
    return tag("pre", tag("code", command), tabindex="0")


def _folded(name: str, *tables: Child) -> Markup:
    return tag("details", tag("summary", name), scrolling(name, *tables))


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "—" if value is None else str(value)
