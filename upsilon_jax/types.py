"""The values that travel between the parts: arrays and names, no logic.

Letters used for shapes all over the package:

    C   num_classes      ID classes (the paper's K_ID)
    K   num_clusters     extra outputs for clusters of OOD images
    T   C + K            outputs of the classifier
    N   num_unlabeled    images in D_u
    B   labeled rows of a batch          M   unlabeled rows of a batch
    V   views (augmentations) of an image
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # `data` uses these types and never imports jax
    import jax
    import numpy as np

Params = Any  # a tree of arrays
Stats = Any  # the running BatchNorm statistics, a tree of arrays
MethodState = Any  # a tree of arrays that belongs to the method
Outputs = Mapping[str, "jax.Array"]  # every head by name, and "features"

# (params, stats, images [B, H, W, C], key, train) -> (Outputs, stats)
Forward = Callable[..., "tuple[Outputs, Stats]"]


class Head(NamedTuple):
    """One output of the network: a map of its pooled features, or of another head."""

    size: int | tuple[int, ...]
    kind: str = "linear"  # or "cosine": 10 · <h/|h|, W/|W|>
    bias: bool = True
    hidden: tuple[int, ...] = ()  # widths of leaky-ReLU layers before the last one
    source: str = "features"  # its input; or the name of a head that stands before it
    detach: bool = False  # whether no gradient goes back into the source

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its output for one image."""
        return (self.size,) if isinstance(self.size, int) else tuple(self.size)


class PseudoLabels(NamedTuple):
    """A label and a weight for every unlabeled image; weight 0 = not selected."""

    label: jax.Array  # [N] int32 in [0, T), -1 where there is none
    weight: jax.Array  # [N] float32


class Assignment(NamedTuple):
    """Samples to clusters, as `assign` finds them."""

    plan: jax.Array  # [M, K] Q
    # [K] g: Q_i = softmax(log P_i / ε + g) / m. Their mean is 0; below ρ = 1, the g of
    # what rows keep back is 0 instead.
    potentials: jax.Array
    error: jax.Array  # [] max_k |column sum / d_k - 1|, d_k = 1/K unless it is relaxed


class TrainState(NamedTuple):
    """All that training changes, arrays only: the checkpoint is this state."""

    step: jax.Array  # [] int32, optimizer steps taken
    params: Params
    stats: Stats
    opt: Any
    ema: tuple[Params, Stats]  # averages of params and stats, for evaluation
    method: MethodState


class Batch(NamedTuple):
    """Augmented, normalised float images; hidden labels never get here."""

    image: jax.Array  # [V_l, B, H, W, C]
    label: jax.Array  # [B] int32 in [0, C)
    views: jax.Array  # [V, M, H, W, C]
    # [M] int32, positions in D_u; hides tuple.index, which nobody calls
    index: jax.Array  # type: ignore[assignment]
    # P of these M rows, in a composed method only: `methods/compose.py` fills it in.
    pseudo: PseudoLabels | None = None


class Aux(NamedTuple):
    """What a loss returns beside its value."""

    stats: Stats  # of the one forward pass that updates BatchNorm
    method: MethodState
    metrics: Mapping[str, jax.Array]  # scalars to log


class Predictions(NamedTuple):
    """Outputs of a whole pass over D_u, the validation and some labeled images."""

    unlabeled: Outputs  # heads of [N_pad, ...], rows past N are padding
    valid: Outputs  # heads of [num_valid, ...]
    # Some labeled images, for a method with `refresh_reads_labeled`.
    labeled: Outputs | None = None


class Splits(NamedTuple):
    """Which images play which part; indices into the source's train and test."""

    labeled: np.ndarray  # [n] int64
    unlabeled: np.ndarray  # [N] int64
    valid: np.ndarray  # [v] int64, ID images left over
    test: np.ndarray  # [t] int64, into the test images, ID classes only
    classes: tuple[str, ...]  # ID classes in label order, then OOD classes
    num_classes: int  # C, how many of them are ID classes
    seed: int
