"""Prints docs/result.md from the schema:  python -m upsilon_jax.workdir."""

from __future__ import annotations

import sys
from typing import get_args, get_type_hints

from upsilon_jax.workdir import schema

_RECORDS = (
    schema.Result,
    schema.Entry,
    schema.Labels,
    schema.Foreign,
    schema.Imbalance,
    schema.OpenSet,
    schema.Seeds,
    schema.Manifest,
)
_INTRODUCTION = """\
# What a run leaves behind: `result.json` and `manifest.json`

`python -m upsilon_jax.workdir` makes this page from `upsilon_jax/workdir/schema.py`,
where every field is stated once. Both files are valid JSON: a number that is not finite
is `null`. A file of another `format` is refused with one line.

`manifest.json` is written when a run starts, `result.json` when it has ended. Times of
the clock stand only under names that end in `_seconds`; all else is the same when a run
is interrupted and goes on. Next to them lie `config.json`, `checkpoints/`,
`tensorboard/`, with `WANDB_PROJECT` set `wandb/`, and, where images are files,
`photos.json.gz` (a digest of each, to say which changed) and `skipped.txt` (those that
had to be left out).

`result.json` is written last. Before it, a finished run writes:

| file | what is in it |
|---|---|
| `findings.npz` | what the last EMA model says of every unlabeled and test image |
| `unlabeled.csv` | a row for each unlabeled image, in their order |
| `label_next.csv` | up to 100 images worth a label: `rank`, which, `reason` |
| `curves.png` | accuracy, losses and pseudo-labels over the epochs |
| `report.html` | all of it, with pictures, in one file |
| `SHA256SUMS` | checksums of all these, `config.json`, manifest and result |

All but `findings.npz` are made from the workdir alone, and can be made again: the same
command does it where one is missing or damaged. `sha256sum -c SHA256SUMS` checks a
copy; config, manifest and result are refused where they do not match. A run that
diverged has only curves and report. Columns of `unlabeled.csv`:

| column | meaning |
|---|---|
| `path` or `index` | the file, or its place among the train images |
| `class` | the most probable ID class |
| `probability` | of that class among the ID classes |
| `id_score` | its probability among all outputs, clusters too: high for known classes |
| `foreign` | 1 if `id_score` is below `foreign_below`, else 0; empty without one |
| `cluster` | the foreign group, where a cluster is more probable than every class |
| `pseudo_label` | its label in P at the end: a class, `cluster k`, or nothing |
| `truth` | its true class; only where that is known |
"""


def reference() -> str:
    """The page, in Markdown."""
    return "\n".join([_INTRODUCTION, *map(_section, _RECORDS)])


def _section(record: type) -> str:
    lines = [f"## {record.__name__}", "", *_paragraphs(record.__doc__), ""]
    lines += ["| field | type | meaning |", "|---|---|---|"]
    for name, hint in get_type_hints(record, include_extras=True).items():
        kind, meaning = get_args(hint)
        lines.append(f"| `{name}` | {_spelled(kind)} | {meaning} |")
    return "\n".join([*lines, ""])


def _paragraphs(doc: str | None) -> list[str]:
    return [line.strip() for line in (doc or "").strip().splitlines()]


def _spelled(kind) -> str:
    """A type as a reader of JSON would say it."""
    text = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    for long, short in (("typing.", ""), ("upsilon_jax.workdir.schema.", "")):
        text = text.replace(long, short)
    return text.replace("None", "null").replace("|", "or")


if __name__ == "__main__":
    sys.stdout.write(reference())
