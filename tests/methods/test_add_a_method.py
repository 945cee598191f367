"""The example of docs/add_a_method.md is run as it stands there."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np

from tests.methods.tiny import assert_close, gradient, quick_jit, setting

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "add_a_method.md"
C = 5


def example():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(compile(block, PAGE.name, "exec"), names)
    return names["entropy_min"]


def test_the_page_is_short():
    assert len(PAGE.read_text().splitlines()) <= 60


def test_the_example_does_what_it_says():
    method = example()(C, loss_weight=0.5)
    forward, state, batch = setting(method, num_classes=C, batch_norm=True)
    total, aux, grads = gradient(method, forward, state, batch)
    images = jnp.concatenate([batch.image[0], batch.views[0]])

    def by_hand(params):
        outputs, stats = forward(params, state.stats, images, None, True)
        log_f = jax.nn.log_softmax(outputs["logits"])
        entropy = -jnp.sum(jnp.exp(log_f[8:]) * log_f[8:], axis=1)
        loss = -jnp.mean(log_f[jnp.arange(8), batch.label]) + 0.5 * jnp.mean(entropy)
        return loss, stats

    (want, stats), slopes = quick_jit(jax.value_and_grad(by_hand, has_aux=True))(
        state.params
    )
    np.testing.assert_allclose(total, want, rtol=1e-5)
    assert_close(grads, slopes)
    assert_close(aux.stats, stats)
