import jax.numpy as jnp
import numpy as np
import pytest

from tests.methods.tiny import assert_same, gradient, network, noise
from upsilon_jax.methods.strategies import assignment, open_set, oracle, re_assigned
from upsilon_jax.types import TrainState

C, OOD = 6, 4
HIDDEN = np.random.default_rng(0).integers(0, C + OOD, 32)
ALL_OOD = C + np.random.default_rng(1).integers(0, OOD, 32)


def labels(method, hidden=HIDDEN):
    return method.init(None, None, len(hidden), hidden)


def test_what_each_strategy_calls_an_image():
    table = assignment(C, OOD, 0)
    ood = HIDDEN >= C
    for method, want in [
        (
            re_assigned(C, num_ood_classes=OOD),
            np.where(ood, table[np.maximum(HIDDEN - C, 0)], -1),
        ),
        (open_set(C), np.where(ood, C, -1)),
        (oracle(C, num_ood_classes=OOD), HIDDEN),
    ]:
        own = labels(method)
        np.testing.assert_array_equal(own.label, want)
        np.testing.assert_array_equal(own.weight, want >= 0)
        assert method.reads_hidden_labels and method.refresh is None
        assert max(want) < method.heads["logits"].size


def test_maps_are_injective_and_distinct():
    maps = [tuple(assignment(C, OOD, seed)) for seed in range(10)]
    assert len(set(maps)) == 10
    assert all(len(set(m)) == OOD and max(m) < C for m in maps)


def test_the_maps_of_a_small_problem_are_all_of_them():
    maps = {tuple(assignment(3, 2, seed)) for seed in range(6)}
    assert len(maps) == 6
    with pytest.raises(ValueError, match="assignment_seed=6"):
        assignment(3, 2, 6)
    with pytest.raises(ValueError, match="injective"):
        re_assigned(3, num_ood_classes=4)


def test_with_one_ood_class_open_set_is_the_oracle():
    hidden = np.full(32, C)
    one, other = open_set(C), oracle(C, num_ood_classes=1)
    assert one.heads == other.heads
    assert_same(labels(one, hidden), labels(other, hidden))


def test_they_need_the_truth():
    with pytest.raises(ValueError, match="hidden labels"):
        open_set(C).init(None, None, 32)


def loss_of(method, hidden, params, batch):
    forward, *_ = network(method.heads, batch_norm=True)
    step, own = jnp.zeros((), jnp.int32), labels(method, hidden)
    stats = {"mean": jnp.zeros(8), "variance": jnp.ones(8)}
    state = TrainState(step, params, stats, (), (), own)
    return gradient(method, forward, state, batch)


def test_the_names_of_ood_classes_do_not_matter_to_the_oracle():
    method = oracle(C, num_ood_classes=OOD)
    _, params, _ = network(method.heads, batch_norm=True)
    batch = noise(method, num_classes=C)
    order = np.concatenate([np.arange(C), C + np.array([2, 0, 3, 1])])  # new -> old
    renamed = params | {
        "logits_kernel": params["logits_kernel"][:, order],
        "logits_bias": params["logits_bias"][order],
    }
    _, _, grads = loss_of(method, HIDDEN, params, batch)
    _, _, other = loss_of(method, np.argsort(order)[HIDDEN], renamed, batch)
    np.testing.assert_allclose(other["dense"], grads["dense"], rtol=1e-4, atol=1e-6)


def test_the_loss_is_the_mean_over_labeled_ood_rows():
    method = open_set(C, pseudo_batches="masked")
    forward, params, stats = network(method.heads, batch_norm=True)
    batch = noise(method, num_classes=C)
    total, aux, _ = loss_of(method, HIDDEN, params, batch)
    images = jnp.concatenate([batch.image[0], batch.views[0]])
    z = np.asarray(forward(params, stats, images, None, True)[0]["logits"], np.float64)
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    ood = HIDDEN[batch.index] >= C
    assert 0 < ood.sum() < 8
    want = -np.mean(log_p[8:][ood, C])
    np.testing.assert_allclose(aux.metrics["unlabeled_loss"], want, rtol=1e-4)
    np.testing.assert_allclose(total, aux.metrics["labeled_loss"] + want, rtol=1e-5)
