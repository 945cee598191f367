"""Which fields may change under a run that has saved."""

from __future__ import annotations

from typing import Any

from upsilon_jax.config.fields import WITHOUT_EFFECT

# What a run that has saved may go on with. Its arrays keep their shapes, and its steps
# and epochs their meaning; other data are noticed, wherever they lie.
_CHANGEABLE = (WITHOUT_EFFECT - {"train.num_seeds"}) | {
    "data.labeled",
    "data.unlabeled",
    "data.test",
    "data.unseen",
    "data.path",
    "data.augmentation",
    "data.flip",
    "data.pseudo_batches",
    "model.dtype",
    "model.bn_decay",
    "train.epochs",
    "train.pretrain_epochs",
    "train.refresh_epochs",
    "train.learning_rate",
    "train.lr_schedule",
    "train.ema_decay",
    "train.report_epochs",
}
_FIXED_OF_METHOD = (
    "name",
    "num_clusters",
    "num_hidden",
    "num_heads",
    "align_batches",
    "assignment_seed",
)
# Values that have a state of their own: γ from the data, a rate without a schedule.
_OTHER_STATE = ("auto", "constant")
MAY_CHANGE = ", ".join(
    [*sorted(_CHANGEABLE), f"method.* but {', '.join(_FIXED_OF_METHOD)}"]
)


def may_change(field: str, old: Any = None, new: Any = None) -> bool:
    """Whether a run that has saved may go on with another value of a field."""
    if old in _OTHER_STATE or new in _OTHER_STATE:
        return False
    section, _, name = field.rpartition(".")
    if section.split(".")[0] == "method":
        return name not in _FIXED_OF_METHOD
    return field in _CHANGEABLE
