import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import (
    assert_close,
    gradient,
    predict,
    quick_jit,
    setting,
    value,
)
from upsilon_jax.methods.baseline import baseline
from upsilon_jax.methods.pi_model import pi_model

C = 5


def test_loss_against_numpy():
    method = pi_model(C, loss_weight=20.0, ramp_steps=100)
    forward, state, batch = setting(method, num_classes=C, step=50)
    total, aux, _ = gradient(method, forward, state, batch)
    probs = [
        np.asarray(jax.nn.softmax(predict(forward, state, v)["logits"]))
        for v in batch.views
    ]
    want = np.mean((probs[0] - probs[1]) ** 2)
    np.testing.assert_allclose(aux.metrics["unlabeled_loss"], want, rtol=1e-5)
    assert want <= 2 / C
    weight = 20 * np.exp(-1.25)
    np.testing.assert_allclose(
        total, aux.metrics["labeled_loss"] + weight * want, rtol=1e-5
    )


def test_identical_views_leave_the_baseline():
    method = pi_model(C, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    batch = batch._replace(views=jnp.stack([batch.views[0], batch.views[0]]))
    _, aux, grads = gradient(method, forward, state, batch)
    # Both passes round alike up to the size of their batches.
    np.testing.assert_allclose(aux.metrics["unlabeled_loss"], 0, atol=1e-12)
    _, _, want = gradient(baseline(C), forward, state, batch)
    assert_close(grads, want)


def test_the_target_has_no_gradient():
    method = pi_model(C, loss_weight=1.0, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    _, _, grads = gradient(method, forward, state, batch)
    target = jax.nn.softmax(predict(forward, state, batch.views[1])["logits"])

    def student_only(params):
        z_l = forward(params, (), batch.image[0], None, True)[0]["logits"]
        z_u = forward(params, (), batch.views[0], None, True)[0]["logits"]
        supervised = -jnp.mean(
            jnp.take_along_axis(jax.nn.log_softmax(z_l), batch.label[:, None], 1)
        )
        return supervised + jnp.mean((jax.nn.softmax(z_u) - target) ** 2)

    want = quick_jit(jax.grad(student_only))(state.params)
    assert_close(grads, want)


@pytest.mark.parametrize("shift", [-3.0, 8.0])
def test_a_constant_added_to_the_logits_changes_nothing(shift):
    method = pi_model(C, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)

    def loss(bias):
        params = state.params | {"logits_bias": state.params["logits_bias"] + bias}
        return value(method, forward, state._replace(params=params), batch)[0]

    np.testing.assert_allclose(loss(0.0), loss(shift), rtol=1e-5)
