import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import gradient, predict, quick_jit, setting, softmax, value
from upsilon_jax.methods.orca import orca
from upsilon_jax.types import Head, Predictions

C, OOD = 8, 3
T = C + OOD


def both_views(forward, state, batch):
    """(softmax, features, logits) of each view, in float64."""
    result = []
    for v in range(2):
        images = jnp.concatenate([batch.image[v], batch.views[v]])
        outputs = predict(forward, state, images)
        z = np.asarray(outputs["logits"], np.float64)
        result.append((softmax(z), np.asarray(outputs["features"], np.float64), z))
    return result


def test_the_loss_against_loops():
    method = orca(C, num_ood_classes=OOD)
    forward, state, batch = setting(method, num_classes=C, batch_norm=True)
    # Every class once: each labeled row is its own partner, on the other view.
    batch = batch._replace(label=jnp.arange(8, dtype=jnp.int32))
    total, aux, _ = gradient(method, forward, state, batch)
    (p, h, z), (p_other, _, _) = both_views(forward, state, batch)
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    pairs = list(range(8))
    for i in range(8, 16):
        pairs.append(
            max((j for j in range(16) if j != i), key=lambda j: unit[i] @ unit[j])
        )
    pairwise = np.mean([-np.log(p[i] @ p_other[j]) for i, j in enumerate(pairs)])
    eased = z[:8] + 10 * 0.5 * np.eye(T)[:8]
    supervised = np.mean(-np.log(softmax(eased)[np.arange(8), np.arange(8)]))
    mean = p.mean(0)
    spread = -np.sum(mean * np.log(mean))
    np.testing.assert_allclose(aux.metrics["pair_loss"], pairwise, rtol=1e-4)
    np.testing.assert_allclose(aux.metrics["labeled_loss"], supervised, rtol=1e-4)
    np.testing.assert_allclose(aux.metrics["entropy"], spread, rtol=1e-4)
    np.testing.assert_allclose(total, supervised + pairwise - spread, rtol=1e-4)


def test_labeled_rows_pair_within_their_class():
    method = orca(C, num_ood_classes=OOD, entropy_weight=0.0)
    forward, state, batch = setting(method, num_classes=C)
    batch = batch._replace(label=jnp.array([0, 0, 1, 1, 2, 2, 3, 3], jnp.int32))
    (p, h, _), (p_other, _, _) = both_views(forward, state, batch)
    _, aux = value(method, forward, state, batch)
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    pairs = [1, 0, 3, 2, 5, 4, 7, 6]  # the only other of each class
    for i in range(8, 16):
        pairs.append(
            max((j for j in range(16) if j != i), key=lambda j: unit[i] @ unit[j])
        )
    want = np.mean([-np.log(p[i] @ p_other[j]) for i, j in enumerate(pairs)])
    np.testing.assert_allclose(aux.metrics["pair_loss"], want, rtol=1e-4)


def test_a_margin_eases_the_labeled_task_and_none_is_plain_cross_entropy():
    method = orca(C, num_ood_classes=OOD)
    forward, state, batch = setting(method, num_classes=C)
    at = lambda m: value(method, forward, state._replace(method=jnp.float32(m)), batch)[
        1
    ].metrics["labeled_loss"]
    z = both_views(forward, state, batch)[0][2][:8]
    plain = np.mean(-np.log(softmax(z)[np.arange(8), batch.label]))
    np.testing.assert_allclose(at(0.0), plain, rtol=1e-5)
    assert at(0.0) > at(0.1) > at(0.5)


def test_the_pair_loss_reaches_both_views():
    method = orca(C, num_ood_classes=OOD)
    forward, state, batch = setting(method, num_classes=C)

    def loss(views):
        own = batch._replace(views=views)
        return method.loss(forward, state.params, state, own, jax.random.key(0))[0]

    grads = quick_jit(jax.grad(loss))(batch.views)
    assert np.any(grads[0]) and np.any(grads[1])


@pytest.mark.parametrize("scale, want", [(0.0, 0.5), (1.0, None), (100.0, 0.0)])
def test_the_margin_is_one_minus_the_confidence_capped(scale, want):
    method = orca(C, num_ood_classes=OOD)
    _, state, _ = setting(method, num_classes=C)
    logits = scale * 3 * np.random.default_rng(0).standard_normal((32, T))
    where = np.arange(32) < 20
    if want is None:
        want = 1 - softmax(logits[:20]).max(1).mean()
        assert want < 0.5
    predictions = Predictions({"logits": jnp.asarray(logits, jnp.float32)}, {})
    margin = method.refresh(state, predictions, jnp.asarray(where), None)
    np.testing.assert_allclose(margin, want, rtol=1e-4, atol=1e-3)


def test_its_head_is_a_cosine_over_all_classes():
    head = orca(C, num_ood_classes=OOD).heads["logits"]
    assert head == Head(T, "cosine", bias=False)
    with pytest.raises(ValueError, match="num_ood_classes=-1"):
        orca(C, num_ood_classes=-1)
