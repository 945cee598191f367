import time

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.test_models import tiny
from upsilon_jax.models import build, initialize
from upsilon_jax.types import Head


def test_initial_values_are_fast_and_reproducible():
    module = build("wide_resnet", {"logits": Head(10)}, depth=28, width=2)
    initialize(module, (32, 32, 3), seed=0)  # imports and such
    start = time.process_time()  # other work on the machine does not count
    first = initialize(module, (32, 32, 3), seed=3)
    assert time.process_time() - start < 5  # it takes 0.2 s; compiling, 11
    again = initialize(module, (32, 32, 3), seed=3)
    other = initialize(module, (32, 32, 3), seed=4)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    kernel = lambda values: values[0]["backbone"]["stem"]["kernel"]
    assert not np.array_equal(kernel(first), kernel(other))


def test_initial_body_does_not_depend_on_the_heads():
    few, _ = initialize(tiny({"logits": Head(6)}), (8, 8, 3), seed=0)
    many, _ = initialize(
        tiny({"logits": Head(10), "open": Head((2, 6))}), (8, 8, 3), seed=0
    )
    jax.tree.map(np.testing.assert_array_equal, few["backbone"], many["backbone"])


def test_initial_values_have_the_right_spread():
    module = build("wide_resnet", {"logits": Head(100)}, depth=16, width=2)
    params, stats = initialize(module, (32, 32, 3), seed=0)
    unit = params["backbone"]["group3_unit2"]
    kernel = unit["conv2"]["kernel"]  # [3, 3, 128, 128], 147456 draws
    # The spread of n normal draws is known to 1/sqrt(2n): 0.2 % and 0.6 % here.
    np.testing.assert_allclose(kernel.std(), np.sqrt(2 / (9 * 128)), rtol=0.01)
    head = params["head_logits"]
    np.testing.assert_allclose(head["kernel"].std(), np.sqrt(2 / 228), rtol=0.03)
    np.testing.assert_array_equal(head["bias"], 0)
    np.testing.assert_array_equal(unit["norm1"]["scale"], 1)
    np.testing.assert_array_equal(unit["norm1"]["bias"], 0)
    running = stats["backbone"]["group3_unit2"]["norm1"]
    np.testing.assert_array_equal(running["mean"], 0)
    np.testing.assert_array_equal(running["variance"], 1)
    kernels = [k for k in jax.tree.leaves(params) if k.shape == kernel.shape]
    assert len(kernels) == 3
    assert not np.array_equal(kernels[0], kernels[1])


# By the number of axes: of a convolution, and of a head.
FLAX_RULES = {
    4: nn.initializers.variance_scaling(2.0, "fan_out", "normal"),
    2: nn.initializers.glorot_normal(),
}


@pytest.mark.slow
def test_initial_values_agree_with_flax_in_structure_and_spread():
    """The modules declare zeros; flax's own rules say how far the draws spread."""
    module = tiny({"logits": Head(100)}, width=4)
    ours = initialize(module, (8, 8, 3), seed=0)
    flax = module.init(jax.random.key(0), jnp.zeros((1, 8, 8, 3)), train=False)
    flax = (flax["params"], flax["batch_stats"])
    described = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert described(ours) == described(flax)
    large = [leaf for leaf in jax.tree.leaves(ours[0]) if leaf.size > 5000]
    assert {leaf.ndim for leaf in large} == {2, 4}
    for leaf in large:
        drawn = FLAX_RULES[leaf.ndim](jax.random.key(1), leaf.shape)
        np.testing.assert_allclose(leaf.std(), drawn.std(), rtol=0.05)


def test_negative_seed_is_refused():
    with pytest.raises(ValueError, match="-1"):
        initialize(tiny(), (8, 8, 3), seed=-1)
