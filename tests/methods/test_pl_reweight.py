import jax.numpy as jnp
import numpy as np

from tests.methods.test_upsilon import EVEN, UNEVEN, C, N, logits_for, refreshed
from tests.methods.tiny import assert_same, gradient, setting
from upsilon_jax.methods import METHODS
from upsilon_jax.methods.pl_reweight import pl_reweight


def test_classes_weigh_the_same_in_total_and_images_one_on_average():
    own = refreshed(pl_reweight(C), logits_for(UNEVEN))
    label, weight = np.asarray(own.label), np.asarray(own.weight)
    totals = [weight[label == y].sum() for y in range(C)]
    np.testing.assert_allclose(totals, N / C, rtol=1e-6)
    np.testing.assert_allclose(weight[label >= 0].mean(), 1, rtol=1e-6)


def test_on_even_counts_it_is_pl():
    logits = logits_for(EVEN[:30])
    method, pl = pl_reweight(C), METHODS["pl"](C)
    own = refreshed(method, logits)
    assert_same(own, refreshed(pl, logits))
    forward, state, batch = setting(method, num_classes=C)
    batch = batch._replace(index=jnp.arange(8, dtype=jnp.int32))
    state = state._replace(method=own)
    assert_same(
        gradient(method, forward, state, batch), gradient(pl, forward, state, batch)
    )


def test_an_empty_class_gives_no_nan_and_a_single_one_weighs_one_over_c():
    own = refreshed(pl_reweight(C), logits_for(np.zeros(N, int)))
    np.testing.assert_allclose(own.weight, 1 / C, rtol=1e-6)
    two = refreshed(pl_reweight(C), logits_for(np.array([0] * 24 + [2] * 8)))
    assert np.isfinite(two.weight).all()
    np.testing.assert_allclose(np.unique(two.weight), [32 / 72, 32 / 24], rtol=1e-6)


def test_nothing_selected_weighs_nothing():
    own = refreshed(pl_reweight(C), np.zeros((N, C)))
    assert not np.any(own.weight) and (np.asarray(own.label) == -1).all()


def test_the_cap():
    own = refreshed(pl_reweight(C, max_weight=1.5), logits_for(UNEVEN))
    free = refreshed(pl_reweight(C), logits_for(UNEVEN))
    assert np.max(free.weight) > 1.5
    np.testing.assert_array_equal(own.weight, np.minimum(free.weight, 1.5))
