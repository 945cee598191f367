"""Settings for one's own data, chosen from its size in the paper's proportions."""

from __future__ import annotations

from typing import NamedTuple

from upsilon_jax.errors import ConfigError
from upsilon_jax.methods.selection import usual_threshold

_BATCH_SIZE = 128  # the paper's
_TOTAL_STEPS = 20_000  # a third of the paper's, which trains for benchmarks
_EPOCHS = (20, 400)  # fewest and most
_PRETRAIN_SHARE = 8  # E_pt = 50 of 400 epochs
# A network that has not learned its labels yet takes all for foreign, so a short run
# pre-trains for so many steps (results/own_data), but leaves the method two thirds.
_PRETRAIN_STEPS, _PRETRAIN_MOST = 300, 3
_CLUSTERS = (2, 20)


class Suggestions(NamedTuple):
    """Values of the config fields of the same names."""

    batch_size: int
    epochs: int
    pretrain_epochs: int
    num_clusters: int
    ood_threshold: float


def suggest(
    num_labeled: int,
    num_unlabeled: int,
    num_classes: int,
    *,
    batch_size: int | None = None,
    epochs: int | None = None,
    unlabeled_ratio: int = 1,
) -> Suggestions:
    """Settings for so many images and classes.

    Batches are the paper's 128, or the largest power of two that both sets fill. E_pt
    is an eighth of the epochs; if that is below 300 steps, 300 or a third. K is
    two thirds of the classes, as in the paper's 4 for 6, and at most its 20; γ is a
    little more than the confidence of a guess. What is given already, `batch_size` or
    `epochs`, is kept and the others follow it; a step has `unlabeled_ratio` unlabeled
    images for each labeled one.
    """
    if min(num_labeled, num_unlabeled, num_classes) < 1:
        raise ConfigError(
            f"{num_labeled} labeled and {num_unlabeled} unlabeled images of "
            f"{num_classes} classes: there must be some of each"
        )
    smaller = min(_BATCH_SIZE, num_labeled, num_unlabeled)
    batch_size = batch_size or 2 ** (smaller.bit_length() - 1)
    steps_per_epoch = -(-num_unlabeled // (batch_size * unlabeled_ratio))
    epochs = epochs or _clip(round(_TOTAL_STEPS / steps_per_epoch), _EPOCHS)
    return Suggestions(
        batch_size=batch_size,
        epochs=epochs,
        pretrain_epochs=_pretrain_epochs(epochs, steps_per_epoch),
        num_clusters=_clip(round(2 * num_classes / 3), _CLUSTERS),
        ood_threshold=usual_threshold(num_classes),
    )


def _pretrain_epochs(epochs: int, steps_per_epoch: int) -> int:
    """E_pt; it leaves at least one epoch to the method."""
    least = min(-(-_PRETRAIN_STEPS // steps_per_epoch), epochs // _PRETRAIN_MOST)
    return min(max(epochs // _PRETRAIN_SHARE, least, 1), epochs - 1)


def _clip(value: int, bounds: tuple[int, int]) -> int:
    return min(max(value, bounds[0]), bounds[1])
