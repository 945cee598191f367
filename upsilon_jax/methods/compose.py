"""RPL and SEC around another method: "fixmatch+rpl", "…+sec", "…+upsilon".

The network of the base method has T = C + K outputs. At a refresh P = P_τ ∪ P_γ is made
of its logits on D_u as in the Υ-Model; in the loss, a row of a batch

    with a cluster (S)      learns the cluster: CE(z, C + k) over all T outputs
    without one             has the base method's own loss, times w

Where that loss is no cross-entropy, its weight in the sum is not for clusters: their CE
has weight 1 as in the Υ-Model, from the first refresh on.

               rebalance    K      w of a row outside S
    +rpl       True         0      1 if RPL kept the row, else 0
    +sec       False        K      1
    +upsilon   True         K      1 if RPL kept the row, else 0

So with RPL a row has no loss if it is not confident, or if RPL cut it. While P = ∅ (no
refresh yet, or one that selects nothing) no row has a loss under +rpl and +upsilon, and
+sec is the base alone. Every epoch passes over all of D_u. BatchNorm sees all rows,
those of weight 0 too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.numpy as jnp

from upsilon_jax.errors import ConfigError
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.ds3l import ds3l
from upsilon_jax.methods.fixmatch import fixmatch
from upsilon_jax.methods.freematch import freematch
from upsilon_jax.methods.mean_teacher import mean_teacher
from upsilon_jax.methods.mixmatch import mixmatch
from upsilon_jax.methods.openmatch import openmatch
from upsilon_jax.methods.pi_model import pi_model
from upsilon_jax.methods.selection import SelfTuned, in_cluster, rows_of
from upsilon_jax.methods.softmatch import softmatch
from upsilon_jax.methods.uasd import uasd
from upsilon_jax.methods.upsilon import upsilon, vanilla_pl
from upsilon_jax.methods.vat import vat
from upsilon_jax.types import MethodState, PseudoLabels


class Composed(NamedTuple):
    """The state of a composed method."""

    base: MethodState
    pseudo: PseudoLabels | SelfTuned  # P over D_u


def compose(
    base: Callable[[int, int], Method],
    num_classes: int,
    *,
    num_clusters: int = 4,
    threshold: float = 0.95,
    ood_threshold: float | str = 0.3,
    rebalance: bool = True,
    score: str = "confidence",
    epsilon: float = 0.05,
    num_iters: int = 32,
    solver: str = "sinkhorn",
    relaxation: float | None = None,
    mass: float = 1.0,
) -> Method:
    """RPL (`rebalance`) and SEC (K > 0) around a base method; see the module.

    P is renewed whenever the base renews its own state, from the same predictions: the
    base keeps its `refresh_with` and `refresh_epochs`.

    Args:
      base: (C, K) -> Method that honours `batch.pseudo`: a value of `BASES`.
      num_classes: C.
      num_clusters: K; 0 turns SEC off.
      threshold: τ of RPL.
      ood_threshold: γ of SEC.
      rebalance: False turns RPL off.
      score: this and the rest are those of `upsilon`.
      epsilon: likewise.
      num_iters: likewise.
      solver: likewise.
      relaxation: likewise.
      mass: likewise, without a ramp.
    """
    around = upsilon(
        num_classes,
        num_clusters=num_clusters,
        threshold=threshold,
        ood_threshold=ood_threshold,
        rebalance=rebalance,
        score=score,
        epsilon=epsilon,
        num_iters=num_iters,
        solver=solver,
        relaxation=relaxation,
        mass=mass,
    )
    inner = base(num_classes, num_clusters)
    return _put_around(inner, around, num_classes, cuts=rebalance)


def _put_around(inner: Method, around: Method, num_classes: int, cuts: bool) -> Method:
    """`inner` on batches that carry P, which `around` makes.

    `cuts` tells whether a row outside P loses its loss.
    """

    def of_inner(state):
        return state._replace(method=state.method.base)

    def with_pseudo(state, batch):
        pseudo = rows_of(state.method.pseudo, batch.index)
        if not cuts:
            # Which rows are confident does not matter: the base decides by itself.
            explored = in_cluster(pseudo, num_classes)
            weight = jnp.where(explored, pseudo.weight, 1)
            pseudo = pseudo._replace(weight=weight)
        return batch._replace(pseudo=pseudo)

    def init(key, params, num_unlabeled, hidden=None):
        arguments = (key, params, num_unlabeled, hidden)
        return Composed(inner.init(*arguments), around.init(*arguments))

    def adapt(forward, state, batch, key):
        batch = with_pseudo(state, batch)
        base = inner.adapt(forward, of_inner(state), batch, key)
        return state.method._replace(base=base)

    def loss(forward, params, state, batch, key):
        batch = with_pseudo(state, batch)
        value, aux = inner.loss(forward, params, of_inner(state), batch, key)
        return value, aux._replace(method=state.method._replace(base=aux.method))

    def refresh(state, outputs, where, key):
        pseudo, base = around.refresh(state, outputs, where, key), state.method.base
        if inner.refresh is not None:
            base = inner.refresh(of_inner(state), outputs, where, key)
        return Composed(base, pseudo)

    return inner._replace(
        loss=loss,
        init=init,
        adapt=adapt,
        refresh=refresh,
        refresh_reads_labeled=around.refresh_reads_labeled,
        selection=lambda state: around.selection(state.pseudo),
        foreign_below=lambda state: around.foreign_below(state.pseudo),
        trains_on_selection=False,
    )


# What may be composed, by the name of the method: (num_classes, num_clusters=0, *, ...)
BASES: Mapping[str, Callable[..., Method]] = {
    "pl": vanilla_pl,
    "pi_model": pi_model,
    "mean_teacher": mean_teacher,
    "vat": vat,
    "mixmatch": mixmatch,
    "fixmatch": fixmatch,
    "uasd": uasd,
    "ds3l": ds3l,
    "openmatch": openmatch,
    "softmatch": softmatch,
    "freematch": freematch,
}
# What is put around it, by the name after the "+": (base, num_classes, *, ...)
SUFFIXES: Mapping[str, Callable[..., Method]] = {
    "rpl": partial(compose, num_clusters=0),
    "sec": partial(compose, rebalance=False),
    "upsilon": compose,
}
_OWN_LABELS = "its pseudo-labels come from RPL or SEC already"
_OWN_OUTLIERS = "it has a model of foreign images of its own"
_KNOWN_LABELS = "its labels are known, not predicted"
# Why a method is no base.
_REFUSED = {
    "baseline": "it uses no unlabeled images",
    "orca": "it clusters already, and its terms are not per row",
    "pl_reweight": "its weights balance the classes already",
    **dict.fromkeys(("rpl", "sec", "upsilon", "upsilon_k1"), _OWN_LABELS),
    **dict.fromkeys(("upsilon_ent", "upsilon_sd"), _OWN_LABELS),
    **dict.fromkeys(("iomatch", "ssb", "dac"), _OWN_OUTLIERS),
    **dict.fromkeys(("re_assigned", "open_set", "oracle"), _KNOWN_LABELS),
}


def split_name(name: str) -> tuple[str, str | None]:
    """("fixmatch", "upsilon") of "fixmatch+upsilon", ("fixmatch", None) of "fixmatch".

    Raises:
      ConfigError: the two cannot be composed. A name without "+" is not looked at.
    """
    base, plus, suffix = name.partition("+")
    if not plus:
        return name, None
    if suffix not in SUFFIXES:
        raise ConfigError(
            f"method {name!r}: after the + there may be {', '.join(SUFFIXES)}"
        )
    if base not in BASES:
        why = f"{_REFUSED[base]}; " if base in _REFUSED else ""
        raise ConfigError(
            f"method {name!r}: {base!r} cannot be composed: {why}these can: "
            f"{', '.join(BASES)}"
        )
    return base, suffix


def composed(base: str, suffix: str) -> Callable[..., Method]:
    """The factory of a composed method.

    Args:
      base: a key of `BASES`.
      suffix: a key of `SUFFIXES`.

    Returns:
      (num_classes, *, upsilon={}, **hyperparameters) -> Method; `upsilon` are the
      keyword arguments of `compose`, the others those of the base.
    """

    def factory(
        num_classes: int,
        *,
        upsilon: Mapping[str, Any] = MappingProxyType({}),
        **hyperparameters: Any,
    ) -> Method:
        build = partial(BASES[base], **hyperparameters)
        return SUFFIXES[suffix](build, num_classes, **upsilon)

    return factory
