"""All sizes and bounds: the full run, and a quick one for every day."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.results import Bound


class Net(NamedTuple):
    """A Wide-ResNet and its batch: so many labeled and as many unlabeled rows."""

    depth: int
    width: int
    batch: int
    image_size: int = 32

    @property
    def label(self) -> str:
        """For the table."""
        size = self.image_size
        return (
            f"WRN-{self.depth}-{self.width}, {size}×{size}×3, {self.batch}+{self.batch}"
        )


class Peaked(NamedTuple):
    """Log-probabilities to balance: softmax of normal logits times `spread`."""

    rows: int
    clusters: int
    spread: float
    rare: bool = False  # a cluster that hardly any row prefers

    @property
    def label(self) -> str:
        """For the table."""
        kind = ", a rare cluster" if self.rare else ""
        return f"{shape_label(self.rows, self.clusters)}, scale {self.spread:g}{kind}"


@dataclasses.dataclass(frozen=True)
class Scale:
    """Sizes of a whole run."""

    name: str
    rounds: int  # of slow comparisons
    seconds: float  # quick comparisons are repeated for so long
    net: Net  # rows 1, 2, 6, 7, 8, 9
    smallest_net: Net  # row 8
    num_unlabeled: int  # rows 6, 7: |D_u|
    num_predicted: int  # row 9
    sinkhorn: tuple[tuple[int, int], ...]  # row 3: [M, K]
    balance: tuple[Peaked, ...]  # row 4
    relaxed: tuple[Peaked, ...]  # row 4, sizes drawn together by a KL
    peer_work: int  # row 4: M · K · iterations granted to a peer
    rebalance: tuple[tuple[int, int], ...]  # row 5: [M, C]
    sort_work: int  # row 5: M · C up to which `jnp.sort` is tried
    clusters: tuple[int, ...]  # row 7
    iterations: tuple[int, ...]  # row 7
    startup_net: tuple[int, int]  # row 10: depth, width
    startup_rounds: int
    few_rows: int  # row 11: from here ...
    many_rows: int  # ... to here, with `middle_clusters`
    middle_clusters: int
    few_clusters: int  # row 11: from here ...
    many_clusters: int  # ... to here, with `middle_rows`
    middle_rows: int
    num_seeds: int  # row 12
    bounds: Mapping[str, Bound]


def shape_label(rows: int, columns: int) -> str:
    """A shape as people write it: [40k, 20], [1M, 1000]."""
    if rows % 1_000_000 == 0:
        return f"[{rows // 1_000_000}M, {columns}]"
    return f"[{rows // 1000}k, {columns}]" if rows >= 1000 else f"[{rows}, {columns}]"


_at_most = lambda limit, aim=None: Bound(limit, aim, better="lower")

BOUNDS = {
    "train step, torch": Bound(1.0, 1.3),
    "train step, jax.jit": Bound(4.0, 6.0),
    "sinkhorn": Bound(1.5, 3.0),
    "sinkhorn bandwidth": Bound(None, 0.5),
    # An iteration takes at most 1.1 times as long, also with a column more.
    "sinkhorn, relaxed": Bound(0.91),
    "sinkhorn, partial": Bound(0.91),
    "balance": Bound(10.0, 50.0),
    "rebalance, numpy": Bound(1.3, 4.0),
    "rebalance, sort": Bound(50.0, 200.0),
    "rebalance bandwidth": Bound(),
    "epoch": _at_most(1.05, 1.02),
    "epoch, all settings": _at_most(1.05),
    "augmentation, smallest net": _at_most(5.0),  # % of the step
    "augmentation": _at_most(5.0, 1.0),
    "augmentation, Pillow": Bound(),
    "predict": Bound(1.0, 1.5),
    "second start": _at_most(0.3),
    "import": _at_most(0.7),  # seconds
    "linear": _at_most(1.15),
    "devices": _at_most(1.15),
    "memory": _at_most(2.5),
    "seeds": Bound(1.0),
    "vmap": Bound(),
}

FULL = Scale(
    name="full",
    rounds=5,
    seconds=5.0,
    net=Net(28, 2, batch=128),
    smallest_net=Net(10, 1, batch=128),
    num_unlabeled=20_000,
    num_predicted=4096,
    sinkhorn=((40_000, 20), (1_000_000, 20), (200_000, 1000)),
    balance=(
        Peaked(40_000, 4, 2.0),
        Peaked(40_000, 20, 2.0),
        Peaked(40_000, 20, 6.0),
        Peaked(40_000, 20, 12.0),
        Peaked(40_000, 20, 2.0, rare=True),
        Peaked(40_000, 100, 3.0),
        Peaked(1_000_000, 4, 2.0),
        Peaked(1_000_000, 20, 2.0),
    ),
    relaxed=(
        Peaked(40_000, 20, 2.0),
        Peaked(40_000, 20, 12.0),
        Peaked(1_000_000, 20, 2.0),
    ),
    peer_work=4_000_000_000,
    rebalance=((40_000, 100), (1_000_000, 100), (1_000_000, 1000)),
    sort_work=100_000_000,
    clusters=(4, 16, 64, 256),
    iterations=(1, 8, 32, 128),
    startup_net=(28, 2),
    startup_rounds=3,
    few_rows=10_000,
    many_rows=1_000_000,
    middle_clusters=20,
    few_clusters=6,
    many_clusters=1000,
    middle_rows=40_000,
    num_seeds=3,
    bounds=BOUNDS,
)

# Small nets leave vector units idle, and fixed costs weigh more in small problems.
QUICK = dataclasses.replace(
    FULL,
    name="quick",
    rounds=3,
    seconds=2.0,
    net=Net(16, 2, batch=32),
    smallest_net=Net(10, 1, batch=32),
    num_predicted=1024,
    sinkhorn=((40_000, 20),),
    balance=(
        Peaked(40_000, 20, 2.0),
        Peaked(40_000, 20, 12.0),
        Peaked(40_000, 20, 2.0, rare=True),
    ),
    relaxed=(Peaked(40_000, 20, 2.0),),
    peer_work=400_000_000,
    rebalance=((40_000, 100),),
    clusters=(4, 256),
    iterations=(1, 128),
    startup_net=(16, 2),
    startup_rounds=1,
    many_clusters=100,
    num_seeds=2,
    bounds=BOUNDS
    | {
        "train step, torch": Bound(0.7, 1.0),
        "train step, jax.jit": Bound(2.0, 4.0),
        "balance": Bound(5.0, 25.0),
        "rebalance, sort": Bound(20.0, 100.0),
        "augmentation, smallest net": _at_most(10.0),
        "predict": Bound(0.7, 1.0),
        "second start": _at_most(0.5),
        "linear": _at_most(1.5),
        "devices": _at_most(1.5),
    },
)
