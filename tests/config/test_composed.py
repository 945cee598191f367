"""Composed methods: the base has `method.*`, RPL and SEC have `method.upsilon.*`."""

import itertools

import pytest

from upsilon_jax.config import build_method, fill, flatten, load_config, validate
from upsilon_jax.config.fields import rule_of
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import BASES, SUFFIXES

NAMES = [f"{base}+{suffix}" for base, suffix in itertools.product(BASES, SUFFIXES)]


@pytest.mark.parametrize("name", NAMES)
def test_a_composed_method_is_valid_and_builds(name):
    base, _, suffix = name.partition("+")
    config = load_config("tin", name)
    validate(config)
    section = config.method.upsilon
    assert section.num_clusters == (0 if suffix == "rpl" else 20)
    assert (section.threshold, section.ood_threshold) == (0.9, 0.15)
    assert section.rebalance == (suffix != "sec")
    assert config.train.pretrain_epochs == load_config("tin").train.pretrain_epochs > 0
    assert config.data.valid_per_class == (50 if base == "uasd" else 0)
    method = build_method(config, 100, 100, 40_000)
    assert method.heads["logits"].size == 100 + section.num_clusters


@pytest.mark.parametrize("name", NAMES)
def test_the_base_keeps_its_own_fields(name):
    alone = flatten(load_config("svhn", name.partition("+")[0]).method)
    composed = flatten(load_config("svhn", name).method)
    of_base = {k: v for k, v in composed.items() if not k.startswith("upsilon.")}
    del of_base["name"]
    assert of_base == {k: alone[k] for k in of_base}
    for field, value in composed.items():
        if type(value) in (int, float):
            assert rule_of(f"method.{field}", {}) is not None


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_to_the_data_is_filled_in_for_both_parts(name):
    config = load_config("folder", name)
    chosen = {"train.batch_size": 8, "train.epochs": 40, "train.pretrain_epochs": 5}
    for section in ("method", "method.upsilon"):
        chosen |= {f"{section}.num_clusters": 3, f"{section}.ood_threshold": 0.2}
    config = fill(config, chosen)
    assert config.method.upsilon.num_clusters == (0 if name.endswith("rpl") else 3)
    assert config.method.upsilon.ood_threshold == 0.2
    assert config.train.pretrain_epochs == 5
    assert "num_clusters" not in config.method


@pytest.mark.parametrize("name", NAMES[-1:])
@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("threshold", 1.5, r"method.upsilon.threshold=1.5: must be in \[0, 1\]"),
        ("ood_threshold", 0.99, "must be at most method.upsilon.threshold=0.95"),
        ("epsilon", 0.0, "method.upsilon.epsilon=0.0: must be a number > 0"),
        ("radius", 1.0, r"method.upsilon.radius: .* has no such field"),
    ],
)
def test_a_bad_value_is_named(name, field, value, told):
    config = load_config("cifar10", name)
    config.method.upsilon[field] = value
    with pytest.raises(ConfigError, match=told):
        validate(config)


@pytest.mark.parametrize(
    "name", ["baseline+upsilon", "fixmatch+pl", "no_such+rpl", "+", "fixmatch+"]
)
def test_what_cannot_be_composed_is_refused_in_a_line(name):
    with pytest.raises(ConfigError, match="compose|there may be"):
        load_config("digits", name)
