"""Does an exported model predict as fast?  python -m benchmarks.exported [IMAGES].

10,000 images of 32×32 through a WRN-28-2, by `upsilon_jax.load` of an exported file, by
the same network without C++ code and with it, in alternation; some minutes on two
cores. Exits with 1 if the exported model is slower than 0.8 times the second.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile

import jax
import numpy as np

from benchmarks.timing import alternate, median, speedup
from upsilon_jax import models
from upsilon_jax.inference.export import write_export
from upsilon_jax.inference.model import Model, Network, load
from upsilon_jax.inference.saved import Saved, logits_of
from upsilon_jax.runtime.compilation import jit
from upsilon_jax.runtime.memory import keep_freed
from upsilon_jax.types import Head
from upsilon_jax.workdir.schema import FORMAT, Manifest

NUM_IMAGES = 10_000
LIMIT = 0.8
ROUNDS = 3
SHAPE = (32, 32, 3)


def example() -> Saved:
    """A network as CIFAR-10 has it, with its first weights."""
    head, model = Head(10), {"name": "wide_resnet", "depth": 28, "width": 2}
    module = models.build(heads={"logits": head}, **model)
    params, stats = models.initialize(module, SHAPE, seed=0)
    manifest = Manifest(
        format=FORMAT,
        classes=list("abcdef"),
        ood_classes=[],
        image_shape=list(SHAPE),
        mean=[0.49, 0.48, 0.45],
        std=[0.25, 0.24, 0.26],
        fit="stretch",
        model=model,
        heads={"logits": head._asdict()},
        method={},
        num_classes=6,
        num_clusters=4,
        foreign_below=None,
        native=False,
        versions={},
        split_digest="",
        data_digest={},
    )
    return Saved(manifest, params, stats, ())


def model_of(saved: Saved, *, native: bool) -> Model:
    """The model as `load` of a workdir makes it, with C++ code or without."""
    logits = jit(logits_of(saved.manifest, native=native))
    predict = lambda images: logits(saved.params, saved.stats, images)
    return Model(Network(saved.manifest, predict))


def main() -> int:
    """Prints a table of times and ratios."""
    keep_freed()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NUM_IMAGES
    saved = example()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model"
        write_export(path, saved)
        found = {
            "exported": load(path),
            "without C++": model_of(saved, native=False),
            "with C++": model_of(saved, native=True),
        }
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, *SHAPE)).astype(np.uint8)
    few = {name: model(images[:300]).logits for name, model in found.items()}
    scale = np.abs(few["without C++"]).max()
    np.testing.assert_allclose(few["exported"], few["without C++"], atol=1e-5 * scale)
    np.testing.assert_allclose(few["exported"], few["with C++"], atol=1e-3 * scale)
    calls = {name: lambda m=model: m(images).logits for name, model in found.items()}
    times = alternate(calls, rounds=ROUNDS, warm_up=False)
    print(f"{jax.default_backend()}, {count:,} images\n")
    print("| model | images a second | exported is so many times as fast |")
    print("|---|---:|---:|")
    for name in found:
        rate, ratio = count / median(times, name), speedup(times, "exported", name)
        spread = f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
        print(f"| {name} | {rate:,.0f} | {spread} |")
    return int(speedup(times, "exported", "without C++").median < LIMIT)


if __name__ == "__main__":
    sys.exit(main())
