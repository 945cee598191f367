r"""Settings for one's own photos, tried on heaps whose foreign share is known.

    python -m benchmarks.own_data --data_dir=DIR --seeds=100 --shares=0.2,0.5,0.8 \
        --heaps=digits-6-4 --setting= --setting="pretrain=600 K=6"

Every run goes through `configs/npz.py`, so what a setting leaves open is chosen from
the data as for anybody's photos. A setting is some of

    baseline         labeled images alone
    pretrain=STEPS   E_pt, rounded up to whole epochs and at most half of the run;
                     "1/8" of the epochs
    K=NUMBER         the number of clusters; "C" as many as classes; "2C/3", but 2 at
                     least; or "auto"
    margin=NUMBER    γ = 1/C + that
    tau=NUMBER       τ
    epochs=NUMBER    instead of those of the heap

A row for each run is added to `results/own_data/runs.csv`, and a run that has its row
is not made again. The table of all rows is printed at the end, means over shares and
seeds.
"""

from __future__ import annotations

import argparse
import itertools
import math
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import upsilon_jax
from benchmarks.own_data_runs import Row, add_row, read_rows, table
from upsilon_jax.config import ConfigDict, load_config
from upsilon_jax.config.suggestions import suggest
from upsilon_jax.data.source import Source, load_source
from upsilon_jax.runtime import setup
from upsilon_jax.workdir import findings
from upsilon_jax.workdir.files import FINDINGS

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "results" / "own_data" / "runs.csv"
TRAIN, TEST = 1300, 200  # images of a class in the file, if there are as many


class Heap(NamedTuple):
    """Photos that somebody might have."""

    source: str
    known: tuple[str, ...]
    foreign: tuple[str, ...]
    labels: int  # of each known class
    unlabeled: int
    epochs: int
    fields: Mapping[str, Any]


DIGITS = {"data.flip": False}
CIFAR10 = {"data.image_size": 16, "train.batch_size": 64}
HEAPS = {
    "digits-6-4": Heap(
        "digits",
        tuple("012345"),
        tuple("6789"),
        8,
        480,
        60,
        {**DIGITS, "data.image_size": 32},
    ),
    "digits-3-7": Heap(
        "digits",
        tuple("012"),
        tuple("3456789"),
        8,
        360,
        60,
        {**DIGITS, "data.image_size": 16},
    ),
    "cifar10-5-4": Heap(
        "cifar10",
        ("bird", "cat", "deer", "dog", "horse"),
        ("airplane", "automobile", "ship", "truck"),
        60,
        1500,
        40,
        CIFAR10,
    ),
    "cifar10-2-8": Heap(
        "cifar10",
        ("cat", "ship"),
        tuple("airplane automobile bird deer dog frog horse truck".split()),
        60,
        1500,
        40,
        CIFAR10,
    ),
}


def write_file(source: Source, path: pathlib.Path) -> None:
    """The first images of every class as a .npz file."""
    arrays = {"class_names": np.array(source.class_names)}
    for split, labels, most in (
        ("train", source.train_labels, TRAIN),
        ("test", source.test_labels, TEST),
    ):
        classes = range(len(source.class_names))
        index = [np.flatnonzero(labels == c)[:most] for c in classes]
        index = np.concatenate(index)
        arrays[f"x_{split}"] = source.read(split, index)
        arrays[f"y_{split}"] = labels[index]
    np.savez(path, **arrays)


def make_config(heap: Heap, setting: str, share: float, seed: int, path: pathlib.Path):
    """`configs/npz.py` on this heap, with what the setting says."""
    given = dict(part.split("=") for part in setting.split() if "=" in part)
    config = load_config("npz", "baseline" if "baseline" in setting else "upsilon")
    config.update_from_flattened_dict(
        {
            "seed": seed,
            "data.path": str(path),
            "data.id_classes": heap.known,
            "data.ood_classes": heap.foreign,
            "data.labels_per_class": heap.labels,
            "data.num_unlabeled": heap.unlabeled,
            "data.mismatch": share,
            "model.depth": 10,
            "model.width": 1,
            "train.epochs": int(given.get("epochs", heap.epochs)),
            **heap.fields,
        }
    )
    method, num_classes = config.method, len(heap.known)
    if "K" in given:
        words = {
            "C": num_classes,
            "2C/3": max(round(2 * num_classes / 3), 2),
            "auto": "auto",
        }
        method.num_clusters = words.get(given["K"]) or int(given["K"])
    if "margin" in given:
        method.ood_threshold = round(1 / num_classes + float(given["margin"]), 3)
    if "tau" in given:
        method.threshold = float(given["tau"])
    if "pretrain" in given:
        config.train.pretrain_epochs = pretrain_epochs(heap, config, given["pretrain"])
    return config


def pretrain_epochs(heap: Heap, config: ConfigDict, asked: str) -> int:
    """E_pt of so many steps, or of that part of the epochs."""
    epochs = config.train.epochs
    if asked == "1/8":
        return epochs // 8
    sizes = (heap.labels * len(heap.known), heap.unlabeled, len(heap.known))
    batch_size = config.train.batch_size or suggest(*sizes).batch_size
    steps_per_epoch = math.ceil(heap.unlabeled / batch_size)
    return min(math.ceil(int(asked) / steps_per_epoch), epochs // 2)


def run(name: str, setting: str, share: float, seed: int, path: pathlib.Path) -> Row:
    """Trains once, in a folder that is removed."""
    heap = HEAPS[name]
    config = make_config(heap, setting, share, seed, path)
    with tempfile.TemporaryDirectory() as workdir:
        result = upsilon_jax.train(config, workdir)
        seen = findings.load(pathlib.Path(workdir) / FINDINGS).unlabeled
    history, chosen = result["history"], result["config"]
    known = seen.truth < len(heap.known)
    lowest = np.argsort(seen.log_odds, kind="stable")[: len(known) // 10]
    each = [entry.get("per_class", 0) for entry in history]
    return Row(
        heap=name,
        setting=setting,
        foreign=share,
        seed=seed,
        steps=history[-1]["step"],
        pretrain_steps=history[chosen["train"]["pretrain_epochs"] - 1]["step"],
        clusters=chosen["method"].get("num_clusters", 0),
        gamma=chosen["method"].get("ood_threshold", 0),
        accuracy=result["accuracy"],
        auroc=result["auroc"],
        most_foreign=np.mean(~known[lowest]),
        known_on_clusters=np.mean(seen.cluster[known] >= 0),
        estimate=result["foreign"]["share"],
        highest_n=max(each),
        last_n=each[-1],
        last_m=history[-1].get("num_explored", 0),
        kinds_seen=len(commonest_kinds(seen, len(heap.known))),
    )


def commonest_kinds(seen: findings.Seen, num_classes: int) -> set[int]:
    """Foreign classes that are the commonest foreign one of some cluster."""
    foreign = seen.truth >= num_classes
    clusters = np.unique(seen.cluster[foreign & (seen.cluster >= 0)])
    members = (seen.truth[foreign & (seen.cluster == k)] for k in clusters)
    return {int(np.bincount(truth).argmax()) for truth in members}


def main() -> None:
    """Makes the runs that are missing, and prints the table of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    numbers = lambda kind: lambda text: [kind(x) for x in text.split(",")]
    parser.add_argument("--heaps", type=numbers(str), default=list(HEAPS))
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--shares", type=numbers(float), default=[0.2, 0.5, 0.8])
    parser.add_argument("--seeds", type=numbers(int), default=[100])
    parser.add_argument("--data_dir", help="where tfds has its data")
    parser.add_argument("--runs", type=pathlib.Path, default=RUNS)
    options = parser.parse_args()
    setup()
    with tempfile.TemporaryDirectory() as folder:
        for name, setting, share, seed in itertools.product(
            options.heaps, options.setting, options.shares, options.seeds
        ):
            done = {row[:4] for row in read_rows(options.runs)}
            if (name, setting, share, seed) in done:
                continue
            path = pathlib.Path(folder) / f"{HEAPS[name].source}.npz"
            if not path.exists():
                write_file(
                    load_source(HEAPS[name].source, data_dir=options.data_dir), path
                )
            row = run(name, setting, share, seed, path)
            print(row, flush=True)
            add_row(options.runs, row)
    print(table(read_rows(options.runs)))


if __name__ == "__main__":
    main()
