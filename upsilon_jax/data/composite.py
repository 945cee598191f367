"""Classes of one data set among those of another: CIFAR-10 and SVHN (appendix C.2)."""

from __future__ import annotations

import numpy as np

from upsilon_jax.data.source import Source, load_source


def load(names: tuple[str, str], **options) -> Source:
    """Both data sets as one, classes called "cifar10/bird", "svhn/7".

    Images are normalised with the statistics of the first, where the ID classes are.
    """
    first, second = (load_source(name, **options) for name in names)
    assert first.contents and second.contents  # as tfds sources have
    if first.image_shape != second.image_shape:
        raise ValueError(
            f"images of {first.name} are {first.image_shape}, those of {second.name} "
            f"{second.image_shape}"
        )
    offset = len(first.class_names)
    sizes = {"train": len(first.train_labels), "test": len(first.test_labels)}

    def read(split: str, indices: np.ndarray) -> np.ndarray:
        indices = np.asarray(indices)
        of_first = indices < sizes[split]
        pixels = np.empty((len(indices), *first.image_shape), np.uint8)
        pixels[of_first] = first.read(split, indices[of_first])
        pixels[~of_first] = second.read(split, indices[~of_first] - sizes[split])
        return pixels

    return first._replace(
        name="_".join(names),
        class_names=tuple(
            f"{source.name}/{name}"
            for source in (first, second)
            for name in source.class_names
        ),
        train_labels=np.concatenate([first.train_labels, second.train_labels + offset]),
        test_labels=np.concatenate([first.test_labels, second.test_labels + offset]),
        read=read,
        resident=first.resident and second.resident,
        contents={
            split: np.concatenate([first.contents[split], second.contents[split]])
            for split in ("train", "test")
        },
    )
