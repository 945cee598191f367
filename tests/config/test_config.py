import importlib
import inspect
import pathlib

import pytest

from configs import digits
from upsilon_jax import config as config_lib
from upsilon_jax.config import build_method, validate
from upsilon_jax.config.presets import factory_fields
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import METHODS

CONFIGS = sorted(
    path.stem
    for path in pathlib.Path("configs").glob("*.py")
    if path.stem != "__init__"
)

# What configs for one's own images leave open.
CHOSEN_FROM_DATA = {
    "train.batch_size": 16,
    "train.epochs": 40,
    "train.pretrain_epochs": 5,
    "method.num_clusters": 4,
    "method.ood_threshold": 0.3,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_is_valid_and_builds_its_method(name, method):
    config = importlib.import_module(f"configs.{name}").get_config(method)
    validate(config)
    config = config_lib.fill(config, CHOSEN_FROM_DATA)
    built = build_method(config, 6, 4, config.data.num_unlabeled)
    assert "logits" in built.heads


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("method.threshold", 1.5, "in [0, 1]"),
        ("method.ood_threshold", -0.1, "in [0, 1]"),
        ("data.mismatch", 1.01, "in [0, 1]"),
        ("train.learning_rate", float("nan"), "a number > 0"),
        ("train.epochs", -1, "number ≥ 1"),
        ("train.pretrain_epochs", 1000, "at most train.epochs=60"),
        ("model.depth", 12, "6 n + 4"),
        ("data.augmentation", "papers", "one of paper"),
        ("method.epsilon", 0.0, "a number > 0"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(field, value, allowed):
    config = digits.get_config()
    config.update_from_flattened_dict({field: value})
    with pytest.raises(ConfigError) as error:
        validate(config)
    message = str(error.value)
    assert field in message and repr(value) in message and allowed in message
    assert "\n" not in message


def test_gamma_above_tau_is_refused():
    config = digits.get_config()
    config.method.update(threshold=0.5, ood_threshold=0.6)
    with pytest.raises(ConfigError, match="at most method.threshold=0.5"):
        validate(config)


@pytest.mark.parametrize("method", METHODS)
def test_pretraining_to_the_end_is_refused_where_a_method_would_never_run(method):
    config = digits.get_config(method)
    uses_unlabeled = bool(build_method(config, 6, 4, 400).views)
    config.train.update(epochs=7, pretrain_epochs=7)
    if not uses_unlabeled:
        validate(config)
        return
    told = f"train.pretrain_epochs=7: must be below train.epochs=7, or {method} never"
    with pytest.raises(ConfigError, match=told):
        validate(config)


def test_an_unknown_method_gets_the_near_names():
    with pytest.raises(ConfigError, match="did you mean upsilon"):
        validate(digits.get_config("upsilom"))


def test_the_paper_setting_of_cifar10():
    from configs import cifar10

    config = cifar10.get_config()
    assert (config.train.epochs, config.train.pretrain_epochs) == (400, 50)
    assert (config.train.refresh_epochs, config.train.batch_size) == (2, 128)
    assert (config.method.threshold, config.method.ood_threshold) == (0.95, 0.3)
    assert (config.method.num_clusters, config.data.labels_per_class) == (4, 400)
    assert (config.model.depth, config.model.width) == (28, 2)
    method = build_method(config, 6, 4, 20_000)
    assert method.heads["logits"].size == 10
    schedule = config_lib.make_schedule(config, method, 20_000)
    assert (schedule.steps_per_epoch, schedule.total_steps) == (157, 62_800)


def test_a_method_keeps_what_defines_it_whatever_the_benchmark_says():
    from configs import cifar10

    assert cifar10.get_config("rpl").method.num_clusters == 0
    assert cifar10.get_config("upsilon_k1").method.num_clusters == 1
    assert not cifar10.get_config("sec").method.rebalance


def test_differences_name_every_changed_field():
    old = digits.get_config().to_dict()
    new = digits.get_config()
    new.train.epochs = 61
    new.data.id_classes = ("0", "1")
    lines = config_lib.differences(old, new)
    assert [line.split(":")[0] for line in lines] == ["data.id_classes", "train.epochs"]
    # a config read back from JSON has lists for tuples: no difference
    assert not config_lib.differences(
        {"a": {"b": [1, 2]}, "c": 1}, {"a": {"b": (1, 2)}, "c": 1}
    )


def test_fill_touches_only_what_is_none_and_validates():
    from configs import folder

    config = folder.get_config()
    config.train.epochs = 7
    filled = config_lib.fill(config, CHOSEN_FROM_DATA)
    assert (filled.train.epochs, filled.train.batch_size) == (7, 16)
    assert config.train.batch_size is None  # a copy
    assert config_lib.fill(digits.get_config(), CHOSEN_FROM_DATA) == digits.get_config()
    assert (
        "num_clusters"
        not in config_lib.fill(folder.get_config("baseline"), CHOSEN_FROM_DATA).method
    )
    config.train.epochs = 4
    with pytest.raises(ConfigError, match="at most train.epochs=4"):
        config_lib.fill(config, CHOSEN_FROM_DATA)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_benchmark_names_only_hyperparameters_that_exist(name):
    module = importlib.import_module(f"configs.{name}")
    for method, factory in METHODS.items():
        given = set(module.get_config(method).method) - {"name"}
        known = set(factory_fields(factory))
        units = {f.rsplit("_", 1)[0] + "_steps" for f in given - known}
        assert units <= set(inspect.signature(factory).parameters)
