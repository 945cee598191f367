"""The derivative of a balanced assignment, by the implicit function theorem."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from upsilon_jax.kernels.meshes import on_any_mesh
from upsilon_jax.kernels.quasi_newton import cholesky
from upsilon_jax.kernels.relaxed import Terms, curvature, demand, make_columns
from upsilon_jax.kernels.samples import dot, make_samples


@jax.jit
@on_any_mesh(rows=(True, False))
def plan_tangent(
    plan: jax.Array,
    g: jax.Array,
    log_probs: jax.Array,
    where: jax.Array | None,
    epsilon: jax.Array,
    terms: Terms,
    along: jax.Array | None,
    stretch: jax.Array | None,
    drift: Terms,
) -> tuple[jax.Array, jax.Array]:
    """How Q and its potentials g move with the problem, if the column sums stay right.

    With s = log P / ε, J as in `balance` and C_i = diag(Q_i) - m Q_i Q_iᵀ,

        dQ_i = C_i (ds_i + dg),   Σ_i dQ_i = 0   ⇒   ∇²J dg = -Σ_i C_i ds_i

    and where the column sums are to be d(g) (`kernels/relaxed.py`), Σ_i dQ_i = dd.
    Nothing of the iterations that led to Q is needed, and no more memory than Q takes.

    Args:
      plan: [M, K] Q, balanced.
      g: [K] its potentials.
      log_probs: [M, K] log P.
      where: [M] bool, rows that take part; all if None.
      epsilon: [] ε.
      terms: ε/λ and ρ.
      along: [M, K] tangent of log P; zero if None.
      stretch: [] tangent of ε; zero if None.
      drift: tangents of the terms, [] each; zero if None.

    Returns:
      [M, K] tangent of Q and [K] of g, linear in the tangents given.
    """
    samples = make_samples(log_probs, where, epsilon)
    weight = samples.weight
    epsilon = jnp.asarray(epsilon, plan.dtype)
    ds = jnp.zeros_like(plan) if along is None else along / epsilon
    if stretch is not None:
        # The same number added to a row changes nothing: its maximum is taken away.
        some = jnp.where(plan > 0, log_probs, -jnp.inf).max(axis=1, keepdims=True)
        below = jnp.where(plan > 0, log_probs - some, 0)
        ds -= below / epsilon * (stretch.astype(plan.dtype) / epsilon)

    def moved(ds):
        inside = (plan * ds).sum(axis=1, keepdims=True) / weight
        return plan * (ds - inside)

    pairs, pull, extra = dot(plan.T, plan) / weight, moved(ds).sum(axis=0), None
    if terms.softness is not None:
        columns = make_columns(samples, terms)
        extra = curvature(columns, pairs, demand(columns, g))
        pull -= _demand_tangent(samples, g, terms, drift)
    dg = -cho_solve((cholesky(pairs, curvature=extra), True), pull)
    return moved(ds + dg[None, :]), dg


def _demand_tangent(samples, g, terms, drift):
    """[K] how d moves with its terms at the same g."""
    rates = {name: rate for name, rate in drift._asdict().items() if rate is not None}
    if not rates:
        return jnp.zeros_like(g)

    def wanted(moving):
        return demand(make_columns(samples, terms._replace(**moving)), g)

    at = {name: getattr(terms, name) for name in rates}
    return jax.jvp(wanted, (at,), (rates,))[1]
