"""Which forward pass of a method updates the running BatchNorm statistics."""

import jax
import numpy as np
import pytest

from tests.methods.tiny import assert_close, quick_jit, setting, to_double
from upsilon_jax.methods import METHODS, resolve

C, B, M = 5, 8, 16
REQUIRED = {
    "orca": {"num_ood_classes": 2},
    "oracle": {"num_ood_classes": 2},
    "re_assigned": {"num_ood_classes": 2},
}
# method -> rows of every forward pass, and which of them updates. VAT: joint, clean,
# inside the direction, perturbed. MixMatch: guesses, mixture, and for clusters the
# images themselves. All others: one pass.
PASSES = {
    "baseline": ([B], 0),
    "pi_model": ([B + M, M], 0),
    "mean_teacher": ([B + M, M], 0),
    "vat": ([B + M, M, M, M], 0),
    "mixmatch": ([2 * M, B + 2 * M], 1),
    "mixmatch+rpl": ([2 * M, B + 2 * M], 1),
    "mixmatch+upsilon": ([2 * M, B + 2 * M, M], 1),
    "vat+upsilon": ([B + M, M, M, M], 0),
    "fixmatch": ([B + 2 * M], 0),
    "softmatch": ([B + 2 * M], 0),
    "freematch": ([B + 2 * M], 0),
    "iomatch": ([B + 2 * M], 0),
    "ssb": ([2 * B + 3 * M], 0),
    "dac": ([B + 2 * M], 0),
    "openmatch": ([2 * B + 2 * M], 0),
    "orca": ([B + M, B + M], 0),
}


@pytest.mark.parametrize(
    "name", [*METHODS, "mixmatch+rpl", "mixmatch+upsilon", "vat+upsilon"]
)
def test_one_known_pass_updates_the_statistics(name, x64):
    method = resolve(name)(C, **REQUIRED.get(name, {}))
    hidden = np.arange(32) % (C + 2) if method.reads_hidden_labels else None
    forward, state, batch = setting(
        method, num_classes=C, batch_norm=True, labeled=B, unlabeled=M, hidden=hidden
    )
    state, batch = to_double((state, batch))
    rows, updating = PASSES.get(name, ([B + M], 0))

    @quick_jit
    def run(state, batch):
        passes = []

        def spy(params, stats, images, key, train):
            assert train
            outputs, new = forward(params, stats, images, key, train)
            passes.append((images, stats, new))
            return outputs, new

        _, aux = method.loss(spy, state.params, state, batch, jax.random.key(0))
        assert [len(images) for images, _, _ in passes] == rows
        assert all(stats is state.stats for _, stats, _ in passes)
        images, _, new = passes[updating]
        assert aux.stats is new
        return images, aux.stats

    images, got = run(state, batch)
    _, want = quick_jit(lambda p, s, x: forward(p, s, x, None, True))(
        state.params, state.stats, images
    )
    assert_close(got, want, rtol=1e-12, atol=1e-15)  # sums in another order
    assert np.any(got["mean"] != state.stats["mean"])
