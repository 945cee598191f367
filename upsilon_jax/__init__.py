"""Class-mismatched semi-supervised learning in JAX: the Υ-Model and its rivals."""

from upsilon_jax.kernels import (
    balance,
    explore,
    imbalance,
    pseudo_label,
    rebalance,
    sinkhorn,
)
from upsilon_jax.types import PseudoLabels

__version__ = "0.1.0"
__all__ = [
    "PseudoLabels",
    "balance",
    "explore",
    "imbalance",
    "pseudo_label",
    "rebalance",
    "sinkhorn",
    "train",
]


def __getattr__(name: str):
    # Lazily: the kernels must not cost an import of flax, orbax and clu.
    if name == "train":
        from upsilon_jax.training.seeds import train

        return train
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
