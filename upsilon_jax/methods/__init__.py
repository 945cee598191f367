"""Every method by name: `METHODS[name](num_classes, **hyperparameters) -> Method`.

`resolve` knows the composed ones too, such as "fixmatch+upsilon". Methods that can be
composed are listed in `BASES` (`compose.py`).
"""

from collections.abc import Callable
from functools import partial

from upsilon_jax.errors import ConfigError, nearest, shown
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.compose import (
    BASES,
    SUFFIXES,
    Composed,
    compose,
    composed,
    split_name,
)
from upsilon_jax.methods.dac import dac
from upsilon_jax.methods.iomatch import iomatch
from upsilon_jax.methods.orca import orca
from upsilon_jax.methods.pl_reweight import pl_reweight
from upsilon_jax.methods.ssb import ssb
from upsilon_jax.methods.strategies import open_set, oracle, re_assigned
from upsilon_jax.methods.upsilon import upsilon

METHODS: dict[str, Callable[..., Method]] = {
    "baseline": baseline,
    **BASES,  # pl, pi_model, mean_teacher, vat, mixmatch, fixmatch, uasd …
    # Alone, vanilla PL may draw its batches from P.
    "pl": partial(upsilon, rebalance=False, num_clusters=0),
    "orca": orca,
    "pl_reweight": pl_reweight,
    "rpl": partial(upsilon, num_clusters=0),
    "sec": partial(upsilon, rebalance=False),
    "upsilon": upsilon,
    "upsilon_k1": partial(upsilon, num_clusters=1),
    # τ and γ of the scores that a confidence of 0.95 and of 0.3 has when the rest of
    # T = 10 outputs share the remainder evenly; the paper gives none [inferred].
    "upsilon_ent": partial(
        upsilon, score="entropy", threshold=-0.308, ood_threshold=-2.149
    ),
    "upsilon_sd": partial(upsilon, score="margin", threshold=0.9, ood_threshold=0.222),
    "re_assigned": re_assigned,
    "open_set": open_set,
    "oracle": oracle,
    "iomatch": iomatch,
    "ssb": ssb,
    "dac": dac,
}

__all__ = [
    "BASES",
    "METHODS",
    "SUFFIXES",
    "Composed",
    "Method",
    "compose",
    "resolve",
    "split_name",
]


def resolve(name: str) -> Callable[..., Method]:
    """The factory of a method, plain ("fixmatch") or composed ("fixmatch+upsilon").

    Raises:
      ConfigError: there is no such method, in one line.
    """
    base, suffix = split_name(name)
    if suffix is not None:
        return composed(base, suffix)
    if name not in METHODS:
        raise ConfigError(f"method.name={shown(name)}: {nearest(name, METHODS)}")
    return METHODS[name]
