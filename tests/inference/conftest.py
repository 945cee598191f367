"""One tiny run, which all tests here use."""

import pathlib
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from tests.no_writers import leave_out_writers
from tests.training.tiny_run import tiny
from upsilon_jax.data import digits
from upsilon_jax.training.loop import train_run
from upsilon_jax.workdir.schema import Result


class Trained(NamedTuple):
    workdir: pathlib.Path
    result: Result
    images: np.ndarray  # uint8 [n, 8, 8, 1], test images of all classes
    label: np.ndarray  # [n], 0-5 are the classes, 6-9 foreign


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        leave_out_writers(patch)
        workdir = tmp_path_factory.mktemp("trained") / "run"
        config = tiny(**{"train.epochs": 3, "train.pretrain_epochs": 1})
        result = train_run(config, workdir)
    source = digits.load()
    label = source.test_labels
    return Trained(workdir, result, source.read("test", np.arange(len(label))), label)


@pytest.fixture(scope="session")
def folder(run, tmp_path_factory):
    """Test images as files: classes 0 and 1, and a foreign 9; one cannot be read."""
    root = tmp_path_factory.mktemp("photos")
    for name in (0, 1, 9):
        (root / str(name)).mkdir()
        for place in np.flatnonzero(run.label == name)[:6]:
            image = Image.fromarray(run.images[place, :, :, 0])
            image.save(root / str(name) / f"{place}.png")
    (root / "0" / "cut, off.jpg").write_bytes(b"\xff\xd8\xff")
    return root
