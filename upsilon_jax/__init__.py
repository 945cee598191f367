"""Class-mismatched semi-supervised learning in JAX: the Υ-Model and its rivals.

The pseudo-labels of the Υ-Model on logits over two classes and two clusters:

>>> import numpy as np
>>> from upsilon_jax import explore, rebalance
>>> logits = np.array([[9, 0, 0, 0], [8, 0, 0, 0], [0, 7, 0, 0], [0, 0, 4, 1],
...                    [0, 0, 4, 3]])
>>> print(rebalance(logits, num_classes=2).label)  # RPL: as many of every class
[ 0 -1  1 -1 -1]
>>> print(explore(logits, num_classes=2).label)  # SEC: clusters of equal size
[-1 -1 -1  2  3]
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upsilon_jax.kernels import (
        assign,
        balance,
        explore,
        imbalance,
        pseudo_label,
        rebalance,
        sinkhorn,
    )
    from upsilon_jax.types import Assignment, PseudoLabels

__version__ = "0.1.0"
__all__ = [
    "Assignment",
    "PseudoLabels",
    "assign",
    "balance",
    "explore",
    "imbalance",
    "load",
    "pseudo_label",
    "rebalance",
    "sinkhorn",
    "train",
]


def __getattr__(name: str) -> Any:
    # Lazily: a command answers signals before it loads JAX, and the kernels must not
    # cost an import of flax, orbax and clu.
    if name == "load":
        from upsilon_jax.inference.model import load

        return load
    if name == "train":
        from upsilon_jax.training.seeds import train

        return train
    if name in ("kernels", "types", *__all__):
        import upsilon_jax.kernels as kernels
        import upsilon_jax.types as types

        modules = {"kernels": kernels, "types": types}
        if name in modules:
            return modules[name]
        return getattr(types if name[0].isupper() else kernels, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
