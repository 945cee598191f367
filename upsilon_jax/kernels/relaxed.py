"""What clusters are to hold, where equal sizes are not forced: not in the paper.

The sizes may be drawn together by λ·KL, and only a share ρ of the rows' mass assigned:

    min_Q <Q, -log P> + λ KL(Qᵀ 1 ‖ ρ/K) - ε H(Q)   over Q ≥ 0, Q 1 ≤ 1/m, 1ᵀ Q 1 = ρ

What rows keep back is one more column, with the same log P in all rows and the mass
1 - ρ. It belongs to H(Q), and with it rows sum to 1/m as ever. In the potentials g of
the columns the solution is

    Q_i = softmax(log P_i / ε + g) / m,   Σ_i Q_ik = d_k = ρ/K · exp(-ε g_k / λ)

Q does not change if a number is added to all of g. So that number is always taken to be
the one for which the d_k of all clusters sum to ρ, and never computed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.arguments import Scalar, check_number
from upsilon_jax.kernels.meshes import on_any_mesh
from upsilon_jax.kernels.samples import (
    Samples,
    column_maxima,
    make_samples,
    mask,
)

_TINY = float(jnp.finfo(jnp.float32).tiny)
_MUCH = 1.5  # |log(demand / mass)| of a column whose mass is far from its demand
_SPAN = 100.0  # of log P / ε: rows that are further below the best say no more


class Terms(NamedTuple):
    """λ and ρ as the solvers take them; both None is the paper's problem."""

    # [] ε / λ, 0 where only ρ is given. It would mean equal sizes, too, without ρ; None
    # leaves the paper's program as it is.
    softness: Scalar | None
    mass: Scalar | None  # [] ρ; then the last column is what rows keep back


class Columns(NamedTuple):
    """What the T columns are to hold: K clusters, then perhaps what rows keep back."""

    target: jax.Array  # [T] masses that are forced, or at g = 0
    softness: jax.Array | None  # [] ε / λ of the clusters; None: as in the paper
    num_clusters: int  # K


def check_terms(epsilon: Scalar, relaxation: Scalar | None, mass: Scalar) -> Terms:
    """Positive numbers, ρ at most 1, if they are known. A known ρ of 1 is no term."""
    softness = None
    if relaxation is not None:
        relaxation = check_number("relaxation", relaxation, _TINY, float("inf"))
        known = isinstance(relaxation, float)
        softness = epsilon / (relaxation if known else jnp.maximum(relaxation, _TINY))
    mass = check_number("mass", mass, _TINY, 1.0)
    if isinstance(mass, float) and mass == 1:
        return Terms(softness, None)
    return Terms(0.0 if softness is None else softness, mass)


def with_rest(
    log_probs: jax.Array, where: jax.Array | None, epsilon: Scalar, terms: Terms
) -> tuple[jax.Array, jax.Array | float]:
    """[M, T] log P, with the column of what rows keep back if there is a ρ.

    Also returns log P / ε of that column. Any number gives the same Q, as the column's
    potential makes up for it. With one that is usual for a row's best cluster, that
    potential is near the others, and passes over the rows are quick.
    """
    if terms.mass is None:
        return log_probs, 0.0
    return _append(log_probs, where, epsilon, terms.mass)


def without_rest(plan: jax.Array, terms: Terms) -> jax.Array:
    """[M, K] of a plan [M, T]."""
    return plan if terms.mass is None else _cut(plan)


@jax.jit
@on_any_mesh(rows=(True, False))
def _append(log_probs, where, epsilon, mass):
    samples = make_samples(jax.lax.stop_gradient(log_probs), where, epsilon)
    best = mask(samples, samples.log_probs).max(axis=1, initial=-jnp.inf)
    highest = best.max(initial=-jnp.inf)
    best = jnp.maximum(best, highest - _SPAN / samples.sharpness)
    taking_part = True if where is None else where
    level = jnp.sum(best * samples.weight, where=taking_part & ~jnp.isneginf(highest))
    # ρ = 1 leaves nothing: a column that no row can reach.
    rest = jnp.where(mass < 1, level, -jnp.inf)
    rest = jnp.broadcast_to(rest, (log_probs.shape[0], 1))
    return jnp.concatenate([log_probs, rest], axis=1), level * samples.sharpness


@jax.jit
@on_any_mesh
def _cut(plan):
    return plan[:, :-1]


def make_columns(samples: Samples, terms: Terms) -> Columns:
    """Equal masses of the clusters that some sample can reach, and the rest."""
    reachable = ~jnp.isneginf(column_maxima(samples))
    if terms.mass is None:
        target = reachable / jnp.maximum(reachable.sum(), 1).astype(
            samples.sharpness.dtype
        )
    else:
        dtype = samples.sharpness.dtype
        mass = jnp.clip(jnp.asarray(terms.mass, dtype), jnp.finfo(dtype).tiny, 1)
        clusters, rest = reachable[:-1], reachable[-1:]
        each = mass / jnp.maximum(clusters.sum(), 1).astype(dtype)
        target = jnp.concatenate([clusters * each, rest * (1 - mass)])
    softness = terms.softness
    if softness is not None:
        softness = jnp.asarray(softness, target.dtype)
    return Columns(target, softness, target.size - (terms.mass is not None))


def make_all_columns(samples: Samples, terms: Terms, of_part: Columns) -> Columns:
    """`make_columns`, where those of a part of the samples are known.

    If the part reaches all columns, the other rows need not be read for that.
    """
    target = jax.lax.cond(
        (of_part.target > 0).all(),
        lambda: of_part.target,
        lambda: make_columns(samples, terms).target,
    )
    return of_part._replace(target=target)


def drawn(columns: Columns, g: jax.Array) -> jax.Array:
    """[T] column update: from where masses would be 1, potentials go to their masses.

    The condition Σ_i Q_ik = ρ/K · exp(-ε g_k / λ), solved for g_k at given rows, makes
    them λ / (λ + ε) times as large as forced masses would.
    """
    target, some = columns.target, columns.target > 0
    g = jnp.where(some, jnp.log(jnp.where(some, target, 1)), -jnp.inf) + g
    is_cluster = jnp.arange(target.size) < columns.num_clusters
    return jnp.where(is_cluster, g / (1 + _capped(columns.softness)), g)


def demand(columns: Columns, g: jax.Array, anneal: jax.Array | float = 1) -> jax.Array:
    """[T] masses d that the columns are to have at potentials g.

    Args:
      columns: K clusters, and perhaps the rest.
      g: [T].
      anneal: 1/ε over its final value: g are the potentials at that ε.
    """
    if columns.softness is None:
        return columns.target
    clusters, rest = jnp.split(columns.target, [columns.num_clusters])
    g, some = g[: columns.num_clusters], clusters > 0
    # Relative to the largest demand: nothing overflows, and its share is never 0.
    above = g - jnp.min(g, where=some, initial=jnp.finfo(g.dtype).max / 4)
    fall = _capped(columns.softness / anneal) * above
    share = clusters * jnp.exp(jnp.where(some, -fall, -jnp.inf))
    total = jnp.where(some.any(), share.sum(), 1)
    return jnp.concatenate([clusters.sum() * share / total, rest])


def curvature(
    columns: Columns,
    pairs: jax.Array,
    demanded: jax.Array,
    anneal: jax.Array | float = 1,
) -> jax.Array | None:
    """[T, T] what λ·KL adds to the Hessian: ε/λ · (diag(d) - d dᵀ / ρ) of the clusters.

    Away from the solution, d is replaced by the logarithmic mean of d and the masses,
    which are the sums of the [T, T] pairs 1/m Σ_i p_i p_iᵀ. With that, a Newton step is
    exact where a cluster's mass hardly depends on g; with d alone it would be as far
    off as exp is from a straight line.
    """
    if columns.softness is None:
        return None
    tiny = jnp.finfo(demanded.dtype).tiny
    is_cluster = jnp.arange(demanded.size) < columns.num_clusters
    one, other = jnp.maximum(pairs.sum(axis=1), tiny), jnp.maximum(demanded, tiny)
    close = jnp.abs(one - other) < 1e-3 * other
    ratio = jnp.where(close, 2, one / other)
    mean = jnp.where(close, (one + other) / 2, (one - other) / jnp.log(ratio))
    mean = jnp.where(is_cluster & (demanded > 0), mean, 0)
    total = jnp.where(mean.sum() > 0, mean.sum(), 1)
    hessian = jnp.diag(mean) - mean[:, None] * (mean / total)[None, :]
    return _capped(columns.softness / anneal) * hessian


def demand_error(
    columns: Columns, gradient: jax.Array, demanded: jax.Array
) -> jax.Array:
    """[] max_k |Σ_i Q_ik / d_k - 1|, of the gradient: Σ_i Q_ik - d_k, and d, both [T].

    Columns that no sample can reach do not count.
    """
    missed, scale = jnp.abs(gradient), jnp.where(demanded > 0, demanded, 1)
    if columns.softness is not None:
        # Drawn masses may be as small as they like, but not sums of floats.
        limits = jnp.finfo(scale.dtype)
        scale = jnp.maximum(scale, limits.tiny / limits.eps)
    return (missed / scale).max()


def safe_step(
    columns: Columns,
    masses: jax.Array,
    demanded: jax.Array,
    step: jax.Array,
    anneal: jax.Array,
) -> jax.Array:
    """[T] a Newton step, or where masses are far from their demand, one of `sinkhorn`.

    A column that has next to nothing, as the clusters may beside a large rest, has next
    to no curvature: Newton's step is far too long for it, and the others wait.
    """
    if columns.softness is None:
        return step - step.mean()
    is_cluster = jnp.arange(step.size) < columns.num_clusters
    total = lambda x: jnp.sum(x, where=is_cluster)
    missing = jnp.where(demanded > 0, _log_ratio(demanded, masses), 0)
    # What all clusters have to gain is left to the rest: λ resists differences alone,
    # and these may be so small that nothing may be added to them.
    own = missing - _log_ratio(total(demanded), total(masses))
    own = jnp.where(is_cluster, own / (1 + _capped(columns.softness / anneal)), own)
    step = jnp.where(jnp.abs(missing).max() > _MUCH, own, step)
    return step - step[: columns.num_clusters].mean()


def _log_ratio(x, y):
    tiny = jnp.finfo(x.dtype).tiny
    return jnp.log(jnp.maximum(x, tiny) / jnp.maximum(y, tiny))


def slope_limit(
    columns: Columns, slope: jax.Array, demanded: jax.Array, step: jax.Array
) -> jax.Array:
    """[] above which the slope at the end of a step has overshot, from `slope`."""
    if columns.softness is None:
        return -slope / 2
    # Where most clusters are right, their rounding hides what small ones still miss.
    noise = 4 * jnp.finfo(step.dtype).eps * (demanded @ jnp.abs(step))
    return -slope / 2 + noise


def _capped(softness):
    """So large, ε/λ leaves the softmax as it is, and products with it are finite."""
    return jnp.minimum(softness, jnp.finfo(softness.dtype).tiny ** -0.5)
