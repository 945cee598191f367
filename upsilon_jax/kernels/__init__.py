"""Pure functions on whole arrays; they know nothing of training.

Rows may be sharded over devices: no kernel names an axis or gathers [M, T].
"""

from upsilon_jax.kernels.balance import balance
from upsilon_jax.kernels.explore import explore
from upsilon_jax.kernels.foreign import foreign_share
from upsilon_jax.kernels.imbalance import imbalance
from upsilon_jax.kernels.rebalance import pseudo_label, rebalance
from upsilon_jax.kernels.sinkhorn import sinkhorn

__all__ = [
    "balance",
    "explore",
    "foreign_share",
    "imbalance",
    "pseudo_label",
    "rebalance",
    "sinkhorn",
]
