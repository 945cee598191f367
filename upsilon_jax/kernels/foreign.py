"""About how many rows are foreign: a mixture on the log-odds of the ID confidence.

    h(s) = π · N(s; μ, σ²) + (1 - π) · (a ∗ Exp(-δ))(s)

h is the density of the scores of D_u, a that of images whose class is known. The
network has learned the labels of these, so they score higher than other images of the
same classes, by a gap that is exponential with mean δ. Only what was learned can be
memorised: δ is a share of the mean of max(s, 0) over known images, the likeliest of a
few, and 0 for held-out images. The centre μ of what is foreign is no class to the
network, and lies a standard deviation below known images. So where nothing is foreign
little is left to fit, and where all is foreign the known images still say where images
of the classes would be.

All is computed from two histograms of counts: rows may be on many devices and in any
order, and the result is the same to the bit.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.arguments import check_where
from upsilon_jax.kernels.meshes import on_any_mesh

_WIDTH, _LIMIT = 0.25, 30.0  # of a bin; scores beyond ± the limit are at it
_NUM_BINS = int(2 * _LIMIT / _WIDTH)
_GAPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # δ over the mean of max(s, 0)
_HIGHEST_CENTRE = -0.5  # of μ
_LEAST_SPREAD = 0.25  # σ² at least, over the variance of known images
_NUM_STEPS = 100
_TINY = 1e-9
# The margins of π: sampling, and what 18 development runs were off by beyond it, a
# constant and a multiple of the share of rows that could be of either kind.
_NORMAL = 1.96
_CONSTANT, _UNDECIDED = 0.05, 2.0


class ForeignShare(NamedTuple):
    """π with an interval, and which rows it means; NaN where there are no rows."""

    share: jax.Array  # [] π, 0 to 1
    low: jax.Array  # []
    high: jax.Array  # []
    threshold: jax.Array  # [] a share π of rows has c(x) below this
    sure: jax.Array  # [] the same of `low`: what is below is foreign almost surely
    most: jax.Array  # [] the same of `high`: what is above is not


class _Known(NamedTuple):
    """What images of known classes tell."""

    densities: jax.Array  # [G, B], for each gap
    centre: jax.Array  # [] the largest μ
    variance: jax.Array  # [] of their scores


class _Fit(NamedTuple):
    """The foreign component."""

    share: jax.Array
    centre: jax.Array
    variance: jax.Array


def foreign_share(
    log_odds: jax.Array,
    known: jax.Array,
    *,
    where: jax.Array | None = None,
    held_out: bool = False,
) -> ForeignShare:
    """Estimates which share of rows is of none of the classes.

    Args:
      log_odds: [M] log(c / (1 - c)) of unlabeled images, `Score.rank` of
        `id_confidence`. Rows that are NaN count for nothing.
      known: [n] the same of images of the classes; of each class in proportion.
      where: [M] bool, the rows that count; all if None.
      held_out: whether `known` are images that the network was not trained on.

    Returns:
      float32; all NaN if no row counts, or no image is known.

    Example:
      Known images score around 6, unlabeled ones around 5 and twice as many around -4.

      >>> import numpy as np
      >>> bell = np.random.default_rng(0).standard_normal(300)
      >>> scores = np.concatenate([bell + 5, bell - 4, bell - 4])
      >>> print(f"{foreign_share(scores, bell + 6).share:.1f}")
      0.7
    """
    log_odds, known = jnp.asarray(log_odds), jnp.asarray(known)
    if log_odds.ndim != 1 or known.ndim != 1:
        raise ValueError(
            f"scores must be [M] and [n], got {log_odds.shape} and {known.shape}"
        )
    where = check_where(where, log_odds.size)
    return _estimate(log_odds, known, where, held_out=held_out)


@partial(jax.jit, static_argnames="held_out")
@on_any_mesh(rows=False)
def _estimate(log_odds, known, where, *, held_out):
    rows = _histogram(log_odds, where)
    anchor = _histogram(known, jnp.ones(known.shape, bool))
    about = _of_known(anchor, _GAPS[:1] if held_out else _GAPS)
    fit = lambda density: _fit(rows, density, about)
    fits, likelihood = jax.vmap(fit)(about.densities)
    best = jnp.argmax(likelihood)
    share = fits.share[best]
    posterior, _ = _mixture(
        jax.tree.map(lambda x: x[best], fits), about.densities[best]
    )
    undecided = _mean(jnp.minimum(posterior, 1 - posterior), rows)
    sampling = jnp.sqrt(share * (1 - share) / jnp.maximum(rows.sum(), 1))
    margin = _NORMAL * sampling + _CONSTANT + _UNDECIDED * undecided
    low, high = jnp.maximum(share - margin, 0), jnp.minimum(share + margin, 1)
    below = lambda part: jax.nn.sigmoid(_quantile(rows, part))
    found = ForeignShare(share, low, high, below(share), below(low), below(high))
    nothing = (rows.sum() == 0) | (anchor.sum() == 0)
    return jax.tree.map(lambda x: jnp.where(nothing, jnp.nan, x), found)


def _middles() -> jax.Array:
    """[B] scores at the middle of the bins."""
    return (jnp.arange(_NUM_BINS, dtype=jnp.float32) + 0.5) * _WIDTH - _LIMIT


def _histogram(scores, where) -> jax.Array:
    """[B] float32 counts, added as integers: in any order the same."""
    counts = where & ~jnp.isnan(scores)
    place = jnp.floor((jnp.where(counts, scores, 0) + _LIMIT) / _WIDTH)
    place = jnp.clip(place, 0, _NUM_BINS - 1).astype(jnp.int32)
    return jnp.zeros(_NUM_BINS, jnp.int32).at[place].add(counts).astype(jnp.float32)


def _of_known(counts, gaps) -> _Known:
    """Densities smoothed by s · n^(-1/5), s the standard deviation, then lowered."""
    middles = _middles()
    mean = _mean(middles, counts)
    variance = _mean((middles - mean) ** 2, counts) + _WIDTH
    spread = jnp.sqrt(variance)
    width = jnp.maximum(spread * jnp.maximum(counts.sum(), 1) ** -0.2, _WIDTH)
    difference = middles[:, None] - middles[None, :]
    bell = jnp.exp(-((difference / width) ** 2) / 2)
    smooth = _product(bell / bell.sum(axis=0, keepdims=True), counts)
    delta = jnp.asarray(gaps, jnp.float32) * _mean(jnp.maximum(middles, 0), counts)

    def lowered(delta):
        decay = jnp.exp(difference / jnp.maximum(delta, _TINY))
        decay = jnp.where(difference <= 0, decay, 0)
        decay /= decay.sum(axis=0, keepdims=True)
        return _normalized(_product(decay, smooth))

    highest = jnp.minimum(mean - spread, _HIGHEST_CENTRE)
    return _Known(jax.vmap(lowered)(delta), highest, variance)


def _fit(rows, density, about: _Known) -> tuple[_Fit, jax.Array]:
    """Expectation-maximisation of π, μ, σ²; with the mean log-likelihood of a row."""
    middles, num_rows = _middles(), rows.sum()

    def step(_, fit):
        mass = rows * _mixture(fit, density)[0]
        total = mass.sum()
        centre = jnp.minimum((mass * middles).sum() / (total + _TINY), about.centre)
        # One more row, at the variance of the start, keeps few rows from a spike.
        squares = (mass * (middles - centre) ** 2).sum() + about.variance
        least = _LEAST_SPREAD * about.variance
        variance = jnp.maximum(squares / (total + 1), least)
        return _Fit((total + 0.5) / (num_rows + 1), centre, variance)

    lowest = jnp.minimum(_quantile(rows, 0.05), about.centre)
    start = _Fit(jnp.float32(0.5), lowest, about.variance)
    fit = jax.lax.fori_loop(0, _NUM_STEPS, step, start)
    return fit, _mean(jnp.log(_mixture(fit, density)[1]), rows)


def _mixture(fit: _Fit, density) -> tuple[jax.Array, jax.Array]:
    """[B] how likely a row is foreign, and h."""
    distance = (_middles() - fit.centre) ** 2
    foreign = fit.share * _normalized(jnp.exp(-distance / (2 * fit.variance)))
    both = foreign + (1 - fit.share) * density
    return foreign / both, both


def _quantile(rows, part) -> jax.Array:
    """The score below which this part of the rows lies; -inf for none of them."""
    up_to, wanted = jnp.cumsum(rows), part * rows.sum()
    bin_ = jnp.argmax(up_to >= wanted)
    inside = (wanted - (up_to - rows)[bin_]) / jnp.maximum(rows[bin_], 1)
    return jnp.where(part > 0, (bin_ + inside) * _WIDTH - _LIMIT, -jnp.inf)


def _normalized(density) -> jax.Array:
    """Sums to 1, and is nowhere 0."""
    density = density / jnp.maximum(density.sum(), _TINY) + _TINY
    return density / density.sum()


def _product(matrix, vector) -> jax.Array:
    """In float32 on every device: counts have more digits than bfloat16."""
    return jnp.matmul(matrix, vector, precision="highest")


def _mean(values, counts) -> jax.Array:
    return (values * counts).sum() / jnp.maximum(counts.sum(), 1)
