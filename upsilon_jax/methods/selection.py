"""P, the selected images: how a refresh makes it, and what it does to a row's loss.

In a composed method (`compose.py`) P speaks for every row i of a batch, through
`batch.pseudo`:

    in S         label C + k, weight > 0: the row learns this cluster
    not in S     the row has the loss of the base method, times w_i

A base method calls `row_losses` before its mean over rows, or `rows_and_weights` before
a weighted mean. One that keeps S out of its means (they are of no cross-entropies, or
have a weight that is made for others) calls `outside_clusters` and adds `cluster_loss`.
Where a method runs alone `batch.pseudo` is None, and nothing changes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax import kernels
from upsilon_jax.kernels.confidence import id_confidence
from upsilon_jax.kernels.foreign import ForeignShare
from upsilon_jax.kernels.losses import cross_entropy, sigmoid_ramp
from upsilon_jax.types import Predictions, PseudoLabels

AUTO = "auto"  # in place of a number: it is estimated


class SelfTuned(NamedTuple):
    """P, and the γ that it was made with."""

    label: jax.Array
    weight: jax.Array
    ood_threshold: jax.Array  # [] float32, NaN before the first refresh


def select(
    logits: jax.Array,
    num_classes: int,
    where: jax.Array,
    *,
    rebalance: bool,
    threshold: float,
    ood_threshold: float | jax.Array,
    score: str,
    epsilon: float,
    num_iters: int,
    solver: str,
    relaxation: float | None = None,
    mass: float | jax.Array = 1.0,
) -> PseudoLabels:
    """P = P_τ ∪ P_γ of [N, T] logits.

    P_τ is RPL (Eq. 4-6), or all confident images without `rebalance` (Eq. 2); P_γ is
    SEC (Eq. 7-8), and empty where T = C. An image in both has its cluster. The
    arguments are those of `upsilon`.
    """
    label_confident = kernels.rebalance if rebalance else kernels.pseudo_label
    confident = label_confident(
        logits, num_classes, threshold=threshold, score=score, where=where
    )
    explored = kernels.explore(
        logits,
        num_classes,
        threshold=ood_threshold,
        score=score,
        epsilon=epsilon,
        num_iters=num_iters,
        solver=solver,
        where=where,
        relaxation=relaxation,
        mass=mass,
    )
    in_clusters = explored.weight > 0
    both = zip(explored, confident, strict=True)
    return PseudoLabels(*(jnp.where(in_clusters, *values) for values in both))


def mass_at(
    step: jax.Array, mass: float, start_steps: int, ramp_steps: int
) -> float | jax.Array:
    """ρ at a step: it rises from `mass` to 1 as λ(t) does, or stays where it is."""
    if ramp_steps == 0 or mass == 1:
        return mass
    return mass + (1 - mass) * sigmoid_ramp(step - start_steps, ramp_steps)


def estimate_foreign(
    outputs: Predictions, num_classes: int, where: jax.Array
) -> ForeignShare:
    """`kernels.foreign_share` of D_u, from predictions of a refresh.

    Validation images say best what images of the classes look like; without any,
    labeled ones must do.
    """
    log_odds = lambda part: id_confidence(part["logits"], num_classes).rank
    held_out = len(outputs.valid.get("logits", ())) > 0
    return kernels.foreign_share(
        log_odds(outputs.unlabeled),
        log_odds(outputs.valid if held_out else outputs.labeled),
        where=where,
        held_out=held_out,
    )


def usual_threshold(num_classes: int) -> float:
    """γ a little above the confidence of a guess, 1/C.

    It lies above that by 0.13, 0.16 and 0.14 in the paper (6, 50 and 100 classes).
    """
    return round(1 / max(num_classes, 2) + 0.14, 2)


def estimated_threshold(
    outputs: Predictions, num_classes: int, where: jax.Array, threshold: float
) -> jax.Array:
    """γ from the data, [] float32: the usual one, as far as the estimate allows it.

    Images below γ learn clusters, and look foreign at the next estimate: a γ at the
    estimated share would grow by itself. So it is the usual one, but at least all that
    is surely foreign is below it, never more than may be foreign, and γ ≤ τ.
    """
    found = estimate_foreign(outputs, num_classes, where)
    gamma = jnp.clip(usual_threshold(num_classes), found.sure, found.most)
    return jnp.minimum(gamma, threshold)


def none_selected(key, params, num_unlabeled: int, hidden=None) -> PseudoLabels:
    """The `init` of offline pseudo-labeling: P = ∅ until the first refresh."""
    return PseudoLabels(
        label=jnp.full(num_unlabeled, -1, jnp.int32),
        weight=jnp.zeros(num_unlabeled, jnp.float32),
    )


def none_tuned(key, params, num_unlabeled: int, hidden=None) -> SelfTuned:
    """The `init` where γ is estimated: P = ∅, and γ not yet known."""
    nothing = none_selected(key, params, num_unlabeled)
    return SelfTuned(*nothing, jnp.float32(jnp.nan))


def labels_of(state: SelfTuned) -> PseudoLabels:
    """The `selection` where γ is estimated."""
    return PseudoLabels(state.label, state.weight)


def rows_of(selection: PseudoLabels | SelfTuned, index: jax.Array) -> PseudoLabels:
    """Of P over D_u [N] the rows of a batch [M]."""
    return PseudoLabels(selection.label[index], selection.weight[index])


def in_cluster(pseudo: PseudoLabels, num_classes: int) -> jax.Array:
    """[M] bool: the rows of S."""
    return (pseudo.label >= num_classes) & (pseudo.weight > 0)


def outside_clusters(
    values: jax.Array, pseudo: PseudoLabels | None, num_classes: int
) -> jax.Array:
    """w_i v_i, and 0 in S, for [M] values (losses or weights) of the base method."""
    if pseudo is None:
        return values
    weight = jnp.where(in_cluster(pseudo, num_classes), 0, pseudo.weight)
    return weight * values


def rows_and_weights(
    values: jax.Array,
    weight: jax.Array,
    logits: jax.Array,
    pseudo: PseudoLabels | None,
    num_classes: int,
) -> tuple[jax.Array, jax.Array]:
    """Losses and weights [M] of a weighted mean, as P has them.

        in S         CE(z_i, C + k) over all T outputs, with weight w_i
        not in S     v_i with weight w_i · u_i

    Args:
      values: [M] v, the base method's losses.
      weight: [M] u, its weights.
      logits: [M, T] z.
      pseudo: P of these rows; None leaves v and u as they are.
      num_classes: C.
    """
    if pseudo is None:
        return values, weight
    explored = in_cluster(pseudo, num_classes)
    values = jnp.where(explored, cross_entropy(logits, pseudo.label), values)
    return values, pseudo.weight * jnp.where(explored, 1, weight)


def row_losses(
    values: jax.Array, logits: jax.Array, pseudo: PseudoLabels | None, num_classes: int
) -> jax.Array:
    """w_i · (CE(z_i, C + k) in S, else v_i), [M]: for a mean over all M rows."""
    if pseudo is None:
        return values
    values, weight = rows_and_weights(
        values, jnp.ones_like(values), logits, pseudo, num_classes
    )
    return weight * values


def cluster_loss(
    logits: jax.Array, pseudo: PseudoLabels | None, num_classes: int
) -> jax.Array | float:
    """(1/M) Σ_{i in S} w_i CE(z_i, C + k): for a base that keeps S out of its means."""
    if pseudo is None:
        return 0.0
    nothing = jnp.zeros(logits.shape[0], logits.dtype)
    return jnp.mean(row_losses(nothing, logits, pseudo, num_classes))
