"""A person with photos: from folders to a page, a list, predictions and a file.

Everything is a command in a folder outside of the checkout. With handwritten digits it
runs everywhere; with photographs where the real CIFAR-10 is prepared.
"""

import csv
import os
import pathlib
import shutil
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from tests.report.page.browser import CHROMIUM, browser
from tests.test_own_data import real_cifar10, save_classes
from upsilon_jax.data import load_source

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parent.parent
NETWORK = ("--config.model.depth=10", "--config.model.width=1")


class Photos(NamedTuple):
    """What the person has, and how many photos of each known class are where."""

    source: callable
    known: tuple[str, ...]
    foreign: tuple[str, ...]
    labeled: int
    heap: int  # as many of the known classes together as of the foreign ones
    most: int  # so many of the most foreign ones are looked at
    flags: tuple[str, ...]


KINDS = {
    "digits": Photos(
        lambda: load_source("digits"),
        tuple("012345"),
        tuple("6789"),
        labeled=10,
        heap=480,
        most=50,
        flags=("--config.train.epochs=60", "--config.data.flip=false"),
    ),
    "cifar10": Photos(
        real_cifar10,
        ("bird", "cat", "deer", "dog", "horse"),
        ("airplane", "automobile", "ship", "truck"),
        labeled=60,
        heap=3000,
        most=100,
        flags=("--config.train.epochs=40", "--config.data.image_size=16"),
    ),
}


def save_photos(photos, root):
    """Saves labeled/CLASS, new/CLASS and heap; returns the heap's foreign files."""
    source, foreign = photos.source(), set()
    (root / "heap").mkdir()
    for name in (*photos.known, *photos.foreign):
        known = name in photos.known
        kinds = photos.known if known else photos.foreign
        of_class = source.class_names.index(name)
        train = np.flatnonzero(source.train_labels == of_class)
        labeled, rest = np.split(train, [photos.labeled if known else 0])
        for image in read(source, "train", rest[: photos.heap // 2 // len(kinds)]):
            file = f"{len(list((root / 'heap').iterdir())):05}.png"
            Image.fromarray(image).save(root / "heap" / file)
            foreign |= set() if known else {file}
        if known:
            test = np.flatnonzero(source.test_labels == of_class)[:20]
            for part, split, rows in (
                ("labeled", "train", labeled),
                ("new", "test", test),
            ):
                images = read(source, split, rows)
                save_classes(images, [0] * len(rows), [name], root / part)
    return foreign


def read(source, split, rows):
    """Images as Pillow takes them: grey ones have no axis of channels."""
    images = source.read(split, rows)
    return images[..., 0] if images.shape[-1] == 1 else images


@pytest.mark.parametrize("kind", KINDS)
def test_from_folders_to_a_page_a_list_predictions_and_a_file(tmp_path, kind):
    photos = KINDS[kind]
    foreign = save_photos(photos, tmp_path)
    command = [sys.executable, str(ROOT / "main.py"), "--workdir=run"]
    data = ["--config.data.labeled=labeled", "--config.data.unlabeled=heap"]
    trained = told(
        [*command, "--config=folder", *data, *NETWORK, *photos.flags], tmp_path
    )
    assert "foreign images     about" in trained

    if CHROMIUM:
        look_at(tmp_path / "run" / "report.html", tmp_path / "profile")
    rows = read_csv(tmp_path / "run" / "unlabeled.csv")
    assert len(rows) == photos.heap
    rows.sort(key=lambda row: float(row["id_score"]))
    right = [pathlib.Path(row["path"]).name in foreign for row in rows[: photos.most]]
    assert np.mean(right) >= 0.85
    assert read_csv(tmp_path / "run" / "label_next.csv")

    for part in ("labeled", "heap"):
        shutil.rmtree(tmp_path / part)
    told([*command, "--mode=predict", "--images=new", "--output=p.csv"], tmp_path)
    predicted = read_csv(tmp_path / "p.csv")
    right = [row["class"] == pathlib.Path(row["path"]).parent.name for row in predicted]
    assert len(right) == 20 * len(photos.known)
    assert np.mean(right) > 2 / len(photos.known)  # twice as good as a guess
    told([*command, "--mode=export", "--output=model.bin"], tmp_path)
    assert right == in_a_bare_process(tmp_path, predicted)


def told(command, folder):
    """What a command prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def look_at(page, profile):
    """The page in a real browser: it complains of nothing, and pictures are there."""
    with browser(profile) as tab:
        tab.open(page, width=1280)
        assert tab.complaints() == [] and len(tab.requests()) == 1
        empty = "[...document.images].filter((i) => !i.naturalWidth).length"
        assert tab.evaluate("document.images.length") > 20
        assert tab.evaluate(empty) == 0


def in_a_bare_process(folder, predicted):
    """Whether the exported file says the true class, for each predicted image."""
    (folder / "bare").mkdir()
    shutil.move(folder / "model.bin", folder / "bare" / "model.bin")
    script = """
import pathlib, sys, upsilon_jax
model = upsilon_jax.load("model.bin")
paths = sys.stdin.read().splitlines()
for path, name in zip(paths, model(paths).class_name):
    print(pathlib.Path(path).parent.name == name)
"""
    paths = "\n".join(str(folder / row["path"]) for row in predicted)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder / "bare",
        env={**os.environ, "PYTHONPATH": str(ROOT), "UPSILON_NATIVE": "0"},
        input=paths,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [line == "True" for line in done.stdout.splitlines()]
