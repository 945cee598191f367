"""Class-mismatched semi-supervised learning in JAX: the Υ-Model and its rivals.

The pseudo-labels of the Υ-Model on logits over two classes and two clusters:

>>> import numpy as np
>>> logits = np.array([[9, 0, 0, 0], [8, 0, 0, 0], [0, 7, 0, 0], [0, 0, 4, 1],
...                    [0, 0, 4, 3]])
>>> print(rebalance(logits, num_classes=2).label)  # RPL: as many of every class
[ 0 -1  1 -1 -1]
>>> print(explore(logits, num_classes=2).label)  # SEC: clusters of equal size
[-1 -1 -1  2  3]
"""

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
    "load",
    "pseudo_label",
    "rebalance",
    "sinkhorn",
    "train",
]


def __getattr__(name: str):
    # Lazily: the kernels must not cost an import of flax, orbax and clu.
    if name == "load":
        from upsilon_jax.inference.model import load

        return load
    if name == "train":
        from upsilon_jax.training.seeds import train

        return train
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
