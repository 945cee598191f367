"""What a method is: a record of pure functions.

A factory `name(num_classes, *, hyperparameters...)` returns a `Method`. It holds no
network, no data and no config, so one train step, one loop and one contract test serve
every method. Six words are all a reader needs:

    loss       the objective of one step, with the forward pass that updates BatchNorm
    heads      the outputs it wants from the network
    init       its own state (pseudo-labels, a bank, a second network ...)
    adapt      changes that state inside a step, before the gradient is taken
    refresh    changes that state between steps, from predictions on all of D_u
    selection  the pseudo-labels inside that state, if there are any
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from upsilon_jax.types import Head, MethodState, PseudoLabels

if TYPE_CHECKING:
    import jax


def no_state(key, params, num_unlabeled, hidden=None) -> MethodState:
    """The `init` of a method that keeps nothing."""
    return ()


def keep(forward, state, batch, key) -> MethodState:
    """The `adapt` of a method that changes nothing inside the step."""
    return state.method


def no_selection(state: MethodState) -> PseudoLabels | None:
    """The `selection` of a method without pseudo-labels."""
    return None


def no_bound(state: MethodState) -> jax.Array | float | None:
    """The `foreign_below` of a method that does not tell foreign images."""
    return None


def whole_state(state: PseudoLabels) -> PseudoLabels:
    """The `selection` of a method whose state is P and nothing else."""
    return state


class Method(NamedTuple):
    """A semi-supervised method; see the module's docstring.

    Attributes:
      loss: (forward, params, state: TrainState, batch: Batch, key) -> (scalar, Aux).
      heads: name -> Head. "logits" must be there; its first C outputs are the classes.
      init: (key, params, num_unlabeled, hidden=None) -> MethodState. `hidden` [N] are
        the true classes of D_u, given only if `reads_hidden_labels`.
      adapt: (forward, state, batch, key) -> MethodState.
      refresh: (state, outputs: Predictions, where [N_pad], key) -> MethodState; None
        if the method needs no predictions between steps.
      refresh_reads_labeled: whether `outputs.labeled` must be there.
      refresh_with: weights that predict D_u, "live" or "ema".
      refresh_epochs: epochs between refreshes; None takes `train.refresh_epochs`.
      views: augmentations of an unlabeled image, () if it uses none.
      labeled_views: augmentations of a labeled image.
      reads_hidden_labels: whether `init` may see the truth (analysis only).
      selection: MethodState -> PseudoLabels [N], the P inside the state, or None.
      trains_on_selection: whether images outside P carry no loss. An epoch with P = ∅
        is then supervised, and unlabeled batches may be drawn from P alone
        (`data.pseudo_batches`). Else every epoch passes over all of D_u.
      foreign_below: MethodState -> γ in force, a bound on the ID confidence, or None.
    """

    loss: Callable
    heads: Mapping[str, Head]
    init: Callable = no_state
    adapt: Callable = keep
    refresh: Callable | None = None
    refresh_reads_labeled: bool = False
    refresh_with: str = "live"
    refresh_epochs: int | None = None
    views: tuple[str, ...] = ("weak",)
    labeled_views: tuple[str, ...] = ("weak",)
    reads_hidden_labels: bool = False
    selection: Callable[[MethodState], PseudoLabels | None] = no_selection
    trains_on_selection: bool = False
    foreign_below: Callable[[MethodState], jax.Array | float | None] = no_bound

    @property
    def num_outputs(self) -> int:
        """T = C + K."""
        size = self.heads["logits"].size
        assert isinstance(size, int)  # other heads may be matrices
        return size
