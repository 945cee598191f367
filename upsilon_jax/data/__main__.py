"""Prepares the data of a config, checks them and shows the split.

    python -m upsilon_jax.data configs/tin.py [--dry-run] [--config.data.data_dir=DIR]

`--dry-run` says what would be downloaded, how large it is and where it comes from.
"""

from __future__ import annotations

from upsilon_jax.runtime import interrupts

NAME = "python -m upsilon_jax.data"
if __name__ == "__main__":
    interrupts.answer(NAME)  # before the imports that take seconds

import numpy as np
import tqdm

from upsilon_jax import commandline
from upsilon_jax.config import ConfigDict, from_data
from upsilon_jax.data import prepare
from upsilon_jax.data.digest import data_digest
from upsilon_jax.data.source import Source
from upsilon_jax.data.splits import digest, relabel
from upsilon_jax.data.unseen import NOISE
from upsilon_jax.errors import ConfigError
from upsilon_jax.types import Splits

RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the paper

COMMAND = commandline.Command(
    name=NAME,
    about=__doc__,
    flags={"dry-run": (False, "say what would be downloaded, and do nothing")},
    argument=commandline.CONFIG,
)


def main(options: commandline.Options) -> None:
    """Prepares, checks and reports."""
    config = options.config
    assert config  # the argument
    names = [config.data.name, config.data.unseen]
    names = [name for name in names if name not in (None, NOISE)]
    jobs = [job for name in names for job in prepare.plan(name, config.data.data_dir)]
    print("\n".join(map(str, jobs)) or f"{config.data.name}: nothing to prepare")
    if options.flags.dry_run:
        return
    for job in jobs:
        prepare.prepare(job, progress=_bar(f"{job.name}: {job.action}", " records"))
    report(config, from_data.open_source(config))


def report(config: ConfigDict, source: Source) -> None:
    """Prints what the source is, and its split at every ratio."""
    height, width, channels = source.image_shape
    print(
        f"\n{source.name}: {len(source.train_labels):,} train and "
        f"{len(source.test_labels):,} test images of {height}×{width}×{channels}, "
        f"{len(source.class_names)} classes"
    )
    for note in source.notes:
        print(note)
    for path, reason in source.skipped:
        print(f"left out: {path}: {reason}")
    own = from_data.draw_splits(config, source)  # fails if asked too much
    completed = from_data.complete(config, source, own)
    for line in from_data.choices(config, completed):
        print(line)
    print(f"data digest {data_digest(source)['all']}")
    splits = {"all": own} if source.has_unlabeled else dict(_at_ratios(config, source))
    print("\n" + "\n".join(table(source, splits)))
    for name, split in splits.items():
        print(f"split digest {name:>5}: {digest(split)}")


def table(source: Source, splits: dict[str, Splits]) -> list[str]:
    """Lines with the images of each class: labeled, test, and unlabeled per ratio."""
    first = next(iter(splits.values()))  # labeled and test images are those of all
    classes = first.classes
    count = lambda labels: np.bincount(
        _positions(source, labels, classes), minlength=len(classes) + 1
    )
    columns = {
        "labeled": count(source.train_labels[first.labeled]),
        "test": count(source.test_labels[first.test]),
    }
    for name, split in splits.items():
        columns[f"D_u {name}"] = count(source.train_labels[split.unlabeled])
    width = max(len(name) for name in (*classes, "class not known"))
    rows = [*classes, "class not known"] if source.has_unlabeled else [*classes]
    line = lambda name, cells: f"{name:{width}}" + "".join(f"{c:>12}" for c in cells)
    return [
        line("class", columns),
        *(line(name, [c[i] for c in columns.values()]) for i, name in enumerate(rows)),
        line("total", [c.sum() for c in columns.values()]),
    ]


def _positions(source: Source, labels, classes) -> np.ndarray:
    positions = relabel(labels, source.class_names, classes)
    return np.where(positions < 0, len(classes), positions)


def _at_ratios(config: ConfigDict, source: Source):
    for ratio in sorted({*RATIOS, config.data.mismatch}):
        changed = config.copy_and_resolve_references()
        changed.data.mismatch = ratio
        try:
            yield f"{100 * ratio:g} %", from_data.draw_splits(changed, source)
        except ConfigError as error:  # small data sets cannot have every ratio
            print(f"{100 * ratio:g} % mismatch: {error}")


def _bar(text: str, unit: str):
    return lambda items: tqdm.tqdm(items, desc=text, unit=unit, disable=None)


if __name__ == "__main__":
    commandline.run(COMMAND, main)
