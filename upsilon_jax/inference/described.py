"""Whether a manifest describes something that images can be brought to."""

from __future__ import annotations

import math

from upsilon_jax.data.images import FITS, MAX_PIXELS, MODES
from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir.schema import Manifest


def check_manifest(manifest: Manifest, origin: str) -> Manifest:
    """The manifest, if its numbers belong together; they may have been written by hand.

    Raises:
      WorkdirError: one line with the file and the field.
    """
    shape, channels = manifest.image_shape, manifest.image_shape[-1:]
    finite = all(map(math.isfinite, (*manifest.mean, *manifest.std)))
    wrong = {
        "image_shape": len(shape) != 3
        or min(shape) < 1
        or shape[2] not in MODES
        or math.prod(shape[:2]) > MAX_PIXELS,
        "mean": [len(manifest.mean)] != channels or not finite,
        "std": [len(manifest.std)] != channels or 0 in manifest.std,
        "fit": manifest.fit not in FITS,
        "classes": not manifest.classes
        or len(manifest.classes) != manifest.num_classes,
        "num_clusters": manifest.num_clusters < 0,
    }
    for field, is_wrong in wrong.items():
        if is_wrong:
            raise WorkdirError(f"{origin}: {field!r} does not fit the other fields")
    return manifest
