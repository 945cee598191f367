"""Labels for OOD images whose truth is known (paper §3.3): analysis, not methods.

The only code that reads the hidden labels of D_u: classes 0..C-1 are ID, C.. are OOD.

                    ID image     OOD image of class C + k     outputs
    re_assigned     none         π(k), π injective            C
    open_set        none         C                            C + 1
    oracle          its class    C + k                        C + num_ood_classes

Both terms of the loss have weight 1 from the first step on [inferred]. The second is
the mean over the images that are given a label here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from upsilon_jax.methods.base import Method
from upsilon_jax.methods.pseudo_labels import pseudo_label_method
from upsilon_jax.types import PseudoLabels

_MAPS_SEED = 0  # of the one sequence of maps that `assignment_seed` counts through


def _strategy(
    num_classes: int, num_extra: int, relabel: Callable, pseudo_batches: str
) -> Method:
    """A method with fixed labels relabel(hidden [N]) -> [N], -1 for none."""

    def init(key, params, num_unlabeled, hidden=None):
        if hidden is None:
            raise ValueError("this strategy needs the hidden labels of D_u")
        label = jnp.asarray(relabel(np.asarray(hidden)), jnp.int32)
        return PseudoLabels(label, (label >= 0).astype(jnp.float32))

    method = pseudo_label_method(
        num_classes,
        num_extra,
        refresh=None,
        normalize="selected",
        pseudo_batches=pseudo_batches,
    )
    return method._replace(init=init, reads_hidden_labels=True)


def assignment(num_classes: int, num_ood_classes: int, seed: int) -> np.ndarray:
    """π: the seed-th of a fixed sequence of distinct injective maps, [num_ood].

    Distinct, so that the best of n seeds is the best of n maps.
    """
    if num_ood_classes > num_classes:
        raise ValueError(
            f"no injective map of {num_ood_classes} OOD into {num_classes} ID classes"
        )
    if not 0 <= seed < math.perm(num_classes, num_ood_classes):
        raise ValueError(f"assignment_seed={seed}: there are not so many maps")
    rng = np.random.default_rng(_MAPS_SEED)
    maps: dict[tuple[int, ...], None] = {}
    while len(maps) <= seed:
        maps[tuple(rng.permutation(num_classes)[:num_ood_classes].tolist())] = None
    return np.array(list(maps)[seed], np.int32)


def re_assigned(
    num_classes: int,
    *,
    num_ood_classes: int,
    assignment_seed: int = 0,
    pseudo_batches: str = "selected",
) -> Method:
    """Every OOD class is given to one ID class; the paper reports the best of 10 maps.

    Args:
      num_classes: C.
      num_ood_classes: at most C.
      assignment_seed: which map.
      pseudo_batches: see `pseudo_label_loss`.
    """
    targets = assignment(num_classes, num_ood_classes, assignment_seed)
    table = np.concatenate([np.full(num_classes, -1, np.int32), targets])
    return _strategy(num_classes, 0, lambda hidden: table[hidden], pseudo_batches)


def open_set(num_classes: int, *, pseudo_batches: str = "selected") -> Method:
    """All OOD images are one class, C."""
    relabel = lambda hidden: np.where(hidden >= num_classes, num_classes, -1)
    return _strategy(num_classes, 1, relabel, pseudo_batches)


def oracle(
    num_classes: int, *, num_ood_classes: int, pseudo_batches: str = "selected"
) -> Method:
    """Every unlabeled image has its true class.

    ID images too: the paper's numbers below 100 % mismatch require it.
    """
    relabel = lambda hidden: hidden
    return _strategy(num_classes, num_ood_classes, relabel, pseudo_batches)
