"""Whatever a config says: a run, or one line before anything is computed."""

import math
import time

import jax
import numpy as np
import pytest

from tests.faults.fuzz_config import put
from tests.training.tiny_run import tiny
from upsilon_jax import command, commandline, models
from upsilon_jax.config import build_method, load_config, validate
from upsilon_jax.config.schedule import make_schedule
from upsilon_jax.data import load_source
from upsilon_jax.errors import ConfigError
from upsilon_jax.methods import METHODS, resolve
from upsilon_jax.models import shapes_of
from upsilon_jax.runtime import memory
from upsilon_jax.training.memory import head_weights
from upsilon_jax.training.setup import prepare

DIGITS_400 = "9" * 400
OF_ONE_METHOD = {
    "method.num_hidden": "ssb",
    "method.num_heads": "dac",
    "method.align_batches": "iomatch",
}


def line(*argv):
    """The one line that the command says."""
    with pytest.raises(ConfigError) as error:
        commandline.parse(command.COMMAND, argv)
    return " ".join(str(error.value).split())


def test_another_method_by_name_is_refused_with_the_flag_to_take():
    assert line("--config.method.name=baseline").endswith("--config=digits:baseline")
    assert "did you mean baseline" in line("--config.method.name=baselin")


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(
    "field",
    "seed data.labels_per_class data.image_size data.ood_imbalance model.depth "
    "model.width train.epochs train.batch_size train.num_seeds train.learning_rate "
    "train.steps_per_call data.prefetch_bytes method.num_clusters method.ramp_steps "
    "method.num_iters method.loss_weight method.epsilon".split(),
)
def test_a_value_of_400_digits_is_one_short_line(field, sign):
    said = line(f"--config.{field}={sign}{DIGITS_400}")
    assert field in said


def test_a_long_value_is_not_repeated_in_full():
    assert len(line(f"--config.train.epochs={DIGITS_400}")) < 150
    assert len(line(f"--config.data.name={DIGITS_400}")) < 250
    config = load_config("digits")
    config.train.epochs = 10**5000
    with pytest.raises(ConfigError, match="a number of thousands of digits"):
        validate(config)


@pytest.mark.parametrize(
    "flag",
    [
        "data.image_size=1000000",
        "train.num_seeds=100000000",
        "train.batch_size=100000000000",
        "train.steps_per_call=1000000000",
        "model.depth=600000004",
        "model.width=1000000",
        "method.num_hidden=1000000",
        "method.num_heads=100000",
        "method.align_batches=1000000",
        "method.num_clusters={}",
        "method.num_clusters={'a': 1}",
        "method.ood_threshold={}",
    ],
)
def test_absurd_values_are_refused_at_once(flag):
    method = OF_ONE_METHOD.get(flag.split("=")[0], "upsilon")
    begin = time.process_time()
    said = line(f"--config=digits:{method}", f"--config.{flag}")
    assert flag.split("=")[0] in said
    assert time.process_time() - begin < 1


def test_the_last_of_several_seeds_is_one_too():
    last = 2**31 - 1
    said = line(f"--config.seed={last}", "--config.train.num_seeds=2")
    assert said.startswith(f"seed={last} with train.num_seeds=2: the last seed must")
    commandline.parse(
        command.COMMAND, [f"--config.seed={last - 1}", "--config.train.num_seeds=2"]
    )


def test_a_run_with_more_steps_than_can_be_counted_is_refused():
    config = tiny(**{"train.epochs": 2**31 - 1, "train.batch_size": 1})
    with pytest.raises(ConfigError, match=r"train.epochs=2147483647: makes \d"):
        make_schedule(config, resolve("baseline")(6), 1000)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"train.batch_size": 10**7},
            "a step .train.batch_size=10000000, data.unlabeled_ratio=1, images of 8",
        ),
        (
            {"train.batch_size": 10**4, "data.unlabeled_ratio": 1024},
            "a step .train.batch_size=10000, data.unlabeled_ratio=1024",
        ),
        (
            {"method.num_clusters": 10**8},
            "the weights of the network .*100,000,000 clu",
        ),
        ({"model.width": 4096, "model.depth": 1300}, "the weights of the network"),
    ],
)
def test_what_cannot_fit_is_refused_before_it_is_made(changes, told, monkeypatch):
    monkeypatch.setattr(memory, "most_bytes", lambda: 64 * 2**30)
    begin = time.process_time()
    with pytest.raises(ConfigError, match=f"memory are needed, most of it for {told}"):
        prepare(tiny(**changes))
    assert time.process_time() - begin < 2


def test_hidden_layers_of_heads_count(monkeypatch):
    monkeypatch.setattr(memory, "most_bytes", lambda: 64 * 2**30)
    config = tiny("ssb", **{"method.num_hidden": 2**16})
    begin = time.process_time()
    with pytest.raises(ConfigError, match="the weights of the network .*num_hidden=65"):
        prepare(config)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("name", METHODS)
def test_the_weights_of_heads_are_those_of_the_network(name):
    heads = build_method(tiny(name), 6, num_ood_classes=4, num_unlabeled=96).heads
    params, _ = shapes_of(models.build("wide_resnet", heads, depth=10), (8, 8, 1))
    of_heads = [value for key, value in params.items() if key.startswith("head_")]
    kernels = [x for x in jax.tree.leaves(of_heads) if len(x.shape) == 2]
    assert head_weights(heads, 128) == sum(math.prod(x.shape) for x in kernels)


def test_images_that_cannot_fit_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(memory, "most_bytes", lambda: 2**30)
    with pytest.raises(ConfigError, match="1,797 images of that size|data.image_size"):
        load_source("digits", image_size=8192)
    monkeypatch.setattr(memory, "most_bytes", lambda: 2**16)
    with pytest.raises(ConfigError, match=r"memory are needed.*there are 64 KiB"):
        prepare(tiny())


def test_the_limits_of_a_container_and_of_the_shell_count(tmp_path, monkeypatch):
    whole = memory.most_bytes()
    assert 2**28 < whole < 2**63
    (tmp_path / "memory.max").write_text("1048576\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "memory.max")
    assert memory.most_bytes() == 2**20
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.most_bytes() >= whole


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method.name", None),
        ("method.name", 7),
        ("method.score", ["confidence"]),
        ("method.threshold", np.array([1, 2])),
        ("data.name", np.array([1, 2])),
        ("data.id_classes", (None,)),
        ("data.ood_classes", [1]),
        ("data.valid_per_class", None),
        ("data.ood_imbalance", None),
        ("model.depth", None),
        ("model.name", None),
        ("seed", None),
        ("train.num_seeds", None),
        ("train.learning_rate", None),
        ("method.loss_weight", None),
    ],
)
def test_a_value_of_no_use_is_refused_by_its_field(field, value):
    config = load_config("digits")
    put(config, field, value)
    with pytest.raises(ConfigError, match=f"{field}=.*must be"):
        validate(config)


def test_none_stays_where_the_data_or_a_default_decide():
    config = load_config("digits", "vat")
    for field in ("train.batch_size", "data.num_unlabeled", "train.eval_epochs"):
        put(config, field, None)
    assert config.method.xi is None
    validate(config)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ConfigDict({'method': {}})", "method.name is missing"),
        ("ConfigDict({'method': {'name': 'pl'}})", "seed is missing"),
        ("ConfigDict({'method': 1})", "method.name is missing"),
        ("ConfigDict({**good, 'train': {}})", "train.epochs is missing"),
        ("ConfigDict({**good, 'seed': 'one'})", "seed='one': must be"),
        ("ConfigDict({**good, 'seed': [1]})", r"seed=.*1.*: must be"),
        ("ConfigDict({**good, 'extra': 1})", "extra: no such field"),
    ],
)
def test_a_config_that_was_made_otherwise(tmp_path, text, told):
    path = tmp_path / "own.py"
    path.write_text(
        "from ml_collections import ConfigDict\n"
        "from upsilon_jax.config import load_config\n"
        f"def get_config():\n    good = load_config('digits').to_dict()\n"
        f"    return {text}\n"
    )
    with pytest.raises(ConfigError, match=told):
        validate(load_config(str(path)))
