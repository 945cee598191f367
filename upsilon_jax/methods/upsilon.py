"""The Υ-Model (paper §4, Algorithm 1) and its ablations, vanilla PL among them.

                     rebalance   num_clusters
pl                     False          0          vanilla pseudo-labeling (Eq. 2)
rpl                    True           0          RPL alone
sec                    False          K          vanilla PL above, SEC below
upsilon_k1             True           1          one rejection class
upsilon                True           K          the full model
"""

from __future__ import annotations

from upsilon_jax import kernels
from upsilon_jax.methods.base import Method
from upsilon_jax.methods.pseudo_labels import pseudo_label_method
from upsilon_jax.methods.selection import (
    AUTO,
    SelfTuned,
    estimated_threshold,
    labels_of,
    mass_at,
    none_tuned,
    select,
)


def upsilon(
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
    mass_ramp_steps: int = 0,
    loss_weight: float = 1.0,
    ramp_steps: int = 0,
    start_steps: int = 0,
    normalize: str = "unlabeled",
    pseudo_batches: str = "selected",
    labeler: str = "live",
) -> Method:
    """Pseudo-labels P = P_τ ∪ P_γ on one head of T = C + K outputs.

    At a refresh, f is predicted on all of D_u (clean images, running BatchNorm
    statistics) and
        P_τ: RPL, the N most confident images of every class (Eq. 4-6),
        P_γ: SEC, balanced cluster labels C + argmax_k Q_k for images with ID
             confidence below γ (Eq. 7-8).
    Both are disjoint for γ ≤ τ; images in neither set carry no loss.

    Args:
      num_classes: C.
      num_clusters: K, extra outputs; 0 turns SEC off.
      threshold: τ, in [0, 1], or for the score "entropy" at most 0.
      ood_threshold: γ, likewise. Or "auto", for "confidence" alone: anew at each
        refresh, by how many images seem to be foreign (`estimated_threshold`).
      rebalance: False takes all confident pseudo-labels (vanilla PL, Eq. 2).
      score: "confidence" max_{y<C} f(y|x), or appendix D's "entropy" or "margin".
      epsilon: ε of Sinkhorn-Knopp; the paper gives none (SwAV's and UNO's value).
      num_iters: Sinkhorn iterations (appendix F).
      solver: "sinkhorn", or "newton" for a converged Q.
      relaxation: clusters need not be equally large but are drawn to it by so much
        times a KL (not in the paper); None forces equal sizes.
      mass: ρ, the share of the images below γ that gets clusters, the most decided
        first and with their share as weight (not in the paper); 1: all of them.
      mass_ramp_steps: steps over which ρ rises to 1, in the shape of λ; 0 for none.
      loss_weight: λ.
      ramp_steps: steps over which λ rises, 0 for none (appendix E).
      start_steps: the step from which the ramp counts (the end of pre-training).
      normalize: see `pseudo_label_loss`.
      pseudo_batches: see `pseudo_label_loss`.
      labeler: weights that make pseudo-labels, "live" (Algorithm 1) or "ema".
    """
    if ood_threshold == AUTO and score != "confidence":
        raise ValueError(f"ood_threshold={AUTO!r} needs score='confidence'")
    tuned = ood_threshold == AUTO and num_clusters > 0  # else γ is not used
    fixed = 0.0 if ood_threshold == AUTO else float(ood_threshold)

    def refresh(state, outputs, where, key):
        gamma = fixed
        if tuned:
            gamma = estimated_threshold(outputs, num_classes, where, threshold)
        chosen = select(
            outputs.unlabeled["logits"],
            num_classes,
            where,
            rebalance=rebalance,
            threshold=threshold,
            ood_threshold=gamma,
            score=score,
            epsilon=epsilon,
            num_iters=num_iters,
            solver=solver,
            relaxation=relaxation,
            mass=mass_at(state.step, mass, start_steps, mass_ramp_steps),
        )
        return SelfTuned(*chosen, gamma) if tuned else chosen

    method = pseudo_label_method(
        num_classes,
        num_clusters,
        refresh=refresh,
        labeler=labeler,
        loss_weight=loss_weight,
        ramp_steps=ramp_steps,
        start_steps=start_steps,
        normalize=normalize,
        pseudo_batches=pseudo_batches,
    )
    if num_clusters and score == "confidence":
        method = _estimated_gamma(method) if tuned else _fixed_gamma(method, fixed)
    return method


def _estimated_gamma(method: Method) -> Method:
    """With a state that holds the γ of the last refresh beside P."""
    return method._replace(
        init=none_tuned,
        selection=labels_of,
        refresh_reads_labeled=True,
        foreign_below=lambda state: state.ood_threshold,
    )


def _fixed_gamma(method: Method, gamma: float) -> Method:
    """With a γ that is known beforehand."""
    return method._replace(foreign_below=lambda state: gamma)


def vanilla_pl(
    num_classes: int,
    num_clusters: int = 0,
    *,
    threshold: float = 0.95,
    score: str = "confidence",
    loss_weight: float = 1.0,
    ramp_steps: int = 0,
    start_steps: int = 0,
    normalize: str = "unlabeled",
    labeler: str = "live",
) -> Method:
    """Vanilla PL as a base of composition: its own P is all confident images (Eq. 2).

    If both parts have the same τ and score, "pl+upsilon" is `upsilon` with masked
    batches: RPL keeps some of the rows that this base labels, with the same labels.
    For a run without composition see "pl" in `METHODS`. The arguments are those of
    `upsilon`; the pseudo-labels made here are never among the K extra outputs.
    """

    def refresh(state, outputs, where, key):
        return kernels.pseudo_label(
            outputs.unlabeled["logits"],
            num_classes,
            threshold=threshold,
            score=score,
            where=where,
        )

    return pseudo_label_method(
        num_classes,
        num_clusters,
        refresh=refresh,
        labeler=labeler,
        loss_weight=loss_weight,
        ramp_steps=ramp_steps,
        start_steps=start_steps,
        normalize=normalize,
        pseudo_batches="masked",
    )
