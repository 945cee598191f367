"""Pure functions on whole arrays; they know nothing of training.

All of them take what `jnp.asarray` takes, work in float32 (or float64 for such input)
and may stand inside `jax.jit`, where ε, thresholds and tolerances may be traced: what
is known of an argument is checked, what is traced is not.

Rows may be sharded over devices, with Auto or with Explicit axes, and with or without
`jax.set_mesh`: no kernel names an axis or gathers [M, T].

They take one problem, [M, K]. `jax.vmap` maps them over leading dimensions:
`jax.vmap(balance)` is a function of [B, M, K].

`sinkhorn`, `balance` and `assign` have derivatives of any order with respect to log P
and ε; a selection of rows has none.
"""

from upsilon_jax.kernels.assign import assign
from upsilon_jax.kernels.balance import balance
from upsilon_jax.kernels.explore import explore
from upsilon_jax.kernels.foreign import foreign_share
from upsilon_jax.kernels.imbalance import imbalance
from upsilon_jax.kernels.rebalance import pseudo_label, rebalance
from upsilon_jax.kernels.sinkhorn import sinkhorn

__all__ = [
    "assign",
    "balance",
    "explore",
    "foreign_share",
    "imbalance",
    "pseudo_label",
    "rebalance",
    "sinkhorn",
]
