"""Small runs of every kind, as arguments of the command, and what they leave."""

import json
import os
import pathlib
from typing import Any

from tests.training.tiny_run import without_seconds

_TINY = (
    "--config.data.augmentation=none",
    "--config.model.depth=10",
    "--config.model.width=1",
    "--config.train.epochs=4",
    "--config.train.pretrain_epochs=1",
    "--config.train.refresh_epochs=1",
    "--config.train.save_epochs=1",
    "--config.train.report_epochs=1",
    "--config.train.keep_checkpoints=2",
)
_DIGITS = (*_TINY, "--config.data.num_unlabeled=64")
_PHOTOS = (
    "--config=folder:upsilon",
    *_TINY,
    "--config.train.batch_size=4",
    "--config.method.num_clusters=2",
    "--config.data.labeled={photos}/labeled",
    "--config.data.test={photos}/test",
    "--config.data.unlabeled={photos}/unlabeled",
)
KINDS = {
    "single": ("--config=digits:upsilon", *_DIGITS),
    "seeds": ("--config=digits:baseline", "--config.train.num_seeds=2", *_DIGITS),
    "composed": ("--config=digits:fixmatch+upsilon", *_DIGITS),
    "streamed": (*_PHOTOS, "--config.data.residency=stream"),
    "folder": (*_PHOTOS, "--config.data.residency=resident"),
}


def left(workdir: pathlib.Path) -> dict[str, Any]:
    """All that must not depend on interruptions, by file."""
    found: dict[str, Any] = {}
    for path in workdir.rglob("result.json"):
        result = json.loads(path.read_text("utf-8"))
        result["history"] = without_seconds(result["history"])
        del result["resumed_from"]
        found[str(path.relative_to(workdir))] = result
    for path in workdir.rglob("*.csv"):
        found[str(path.relative_to(workdir))] = path.read_bytes()
    for path in workdir.rglob("checkpoints"):
        assert all(name.isdecimal() for name in os.listdir(path))
    names = {path.name for path in workdir.rglob("*")}
    assert {"curves.png", "report.html", "findings.npz", "SHA256SUMS"} <= names
    return found
