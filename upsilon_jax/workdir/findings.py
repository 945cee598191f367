"""What a finished run found: outputs on D_u and on the test images, as `findings.npz`.

The CSV files and the report are made from it, so that they can be made again without
the data.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import numpy as np

from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.whole import written_whole


class Seen(NamedTuple):
    """Images, a row each, and what the EMA model of the last checkpoint says."""

    # [n] int64, the image's place in its split of the data; hides tuple.index
    index: np.ndarray  # type: ignore[assignment]
    path: np.ndarray  # [n] str, "" where it is no file of its own
    truth: np.ndarray  # [n] int32, its class (ID, then OOD), -1 unknown
    label: np.ndarray  # [n] int32, the most probable ID class
    probability: np.ndarray  # [n] float32, of that class among the ID classes
    id_score: np.ndarray  # [n] float32, ID confidence over all T outputs
    log_odds: np.ndarray  # [n] float32, of the ID confidence: it does not saturate
    cluster: np.ndarray  # [n] int32, the cluster if it beats every ID class, else -1
    logits: np.ndarray  # [n, T] float32


class Findings(NamedTuple):
    """The contents of `findings.npz`."""

    unlabeled: Seen  # all of D_u
    test: Seen  # the test images of all classes, ID and OOD
    pseudo_label: np.ndarray  # [N] int32, P at the end: class, C + cluster, or -1
    features: np.ndarray  # [N, d] float16, of D_u
    thumbnails: np.ndarray  # [s, h, w, channels] uint8, of the images that are shown
    thumbnail_of: np.ndarray  # [s] int64: a row of D_u, or N + a row of the test images
    # [n, d] float16, of the test images; earlier versions wrote none
    test_features: np.ndarray | None = None


def save(path: pathlib.Path, findings: Findings) -> None:
    """Writes `findings.npz`, whole or not at all."""
    arrays = findings._asdict()
    for part in ("unlabeled", "test"):
        seen = arrays.pop(part)._asdict()
        arrays |= {f"{part}.{name}": array for name, array in seen.items()}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with written_whole(path) as partial, open(partial, "wb") as file:
        np.savez_compressed(file, **arrays)


def load(path: pathlib.Path) -> Findings:
    """Reads `findings.npz`; a WorkdirError says in one line why it cannot."""
    try:
        with open(path, "rb") as opened, np.load(opened) as file:
            seen = lambda part: Seen(*(file[f"{part}.{x}"] for x in Seen._fields))
            rest = {name: file[name] for name in Findings._fields[2:] if name in file}
            return Findings(seen("unlabeled"), seen("test"), **rest)
    except FileNotFoundError:
        raise WorkdirError(f"{path}: there is no such file") from None
    except MemoryError:
        raise
    except Exception as error:  # numpy and zipfile raise anything on damaged data
        said = " ".join(str(error).split()) or type(error).__name__
        raise WorkdirError(f"{path}: is damaged, or no findings ({said})") from error
