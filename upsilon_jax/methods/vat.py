"""Virtual adversarial training (Miyato et al. 2018)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from upsilon_jax.kernels.adversarial import adversarial_direction
from upsilon_jax.kernels.losses import kl_divergence, sigmoid_ramp
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.baseline import joint_pass
from upsilon_jax.methods.selection import cluster_loss, outside_clusters
from upsilon_jax.types import Aux, Head


def vat(
    num_classes: int,
    num_clusters: int = 0,
    *,
    radius: float = 6.0,
    xi: float | None = None,
    num_iters: int = 1,
    reverse_kl: bool = False,
    loss_weight: float = 0.3,
    ramp_steps: int = 25_120,
) -> Method:
    """Predictions should be flat along the locally worst input direction d.

        L = mean CE(z_l, y_l) + w(t) · mean_i KL(f(x_i) ‖ f(x_i + ε d_i)),   |d_i| = 1

    f(x) carries no gradient; d comes from `adversarial_direction`. Labeled and
    unlabeled rows pass once together, which updates BatchNorm. The clean f(x) and both
    perturbed passes see the M unlabeled rows alone, with the statistics of their batch
    and without updating any: were f(x) taken from the joint pass, the divergence would
    not be 0 at ε = 0 and its gradient there would drown the Hessian's direction.

    In a composed method rows are weighed, and the CE of the joint pass's logits to
    clusters is a mean of its own over i, with weight 1; d is sought for all rows alike.

    Weight, radius and ramp are those of Oliver et al. 2018; the paper gives none
    [inferred]. The radius is in units of the normalised input.

    Args:
      num_classes: C.
      num_clusters: K more outputs, for clusters (`compose.py`); T = C + K.
      radius: ε, the length of the perturbation of an image.
      xi: None for exact Hessian-vector products; else ξ of a finite difference. The
        published 1e-6 is lost in float32.
      num_iters: power iterations.
      reverse_kl: KL(perturbed ‖ clean), as Oliver et al. have it.
      loss_weight: w_max.
      ramp_steps: 40 % of training; the default is that of 400 epochs of 157 steps.
    """

    def loss(forward, params, state, batch, key):
        key_d, key_net = jax.random.split(key)

        def logits_of(params, images):
            return forward(params, state.stats, images, key_net, True)[0]["logits"]

        labeled, (z_u,), stats = joint_pass(forward, params, state, batch, key_net)
        fixed, x = jax.lax.stop_gradient(params), batch.views[0]
        clean = logits_of(fixed, x)
        direction = adversarial_direction(
            lambda images: logits_of(fixed, images),
            x,
            clean,
            key_d,
            xi=xi,
            num_iters=num_iters,
        )
        moved = logits_of(params, x + radius * direction)
        pair = (moved, clean) if reverse_kl else (clean, moved)
        per_row = kl_divergence(*pair)
        unlabeled = jnp.mean(outside_clusters(per_row, batch.pseudo, num_classes))
        clusters = cluster_loss(z_u, batch.pseudo, num_classes)

        total = labeled + loss_weight * sigmoid_ramp(state.step, ramp_steps) * unlabeled
        total += clusters
        metrics = {"labeled_loss": labeled, "unlabeled_loss": unlabeled + clusters}
        return total, Aux(stats, state.method, metrics)

    return Method(
        loss=loss,
        heads={"logits": Head(num_classes + num_clusters)},
        views=("strong",),
        labeled_views=("strong",),
    )
