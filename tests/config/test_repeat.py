import json
import shlex

import pytest

from upsilon_jax import command, commandline
from upsilon_jax.config import flatten, load_config
from upsilon_jax.config.repeat import repeat_command


def stored(config):
    """A config as a result has it."""
    return json.loads(json.dumps(config.to_dict()))


def words(command):
    """What the shell makes of it."""
    return shlex.split(command.replace("\\\n", ""))


def plain(config):
    listed = lambda value: list(value) if isinstance(value, tuple) else value
    return {k: listed(v) for k, v in flatten(config).items() if v is not None}


@pytest.mark.parametrize("method", ["upsilon", "baseline", "fixmatch+upsilon"])
@pytest.mark.parametrize("name", ["digits", "cifar10_5_5"])
def test_the_command_of_a_benchmark_names_only_what_differs(name, method):
    config = load_config(name, method)
    assert repeat_command(stored(config)) == f"python main.py --config={name}:{method}"


def test_the_command_gives_the_same_config():
    config = load_config("folder", "upsilon")
    config.data.labeled = "my photos/it's"
    config.data.unlabeled = 'a "heap" & $HOME'
    config.train.batch_size, config.train.epochs, config.seed = 64, 3, 7
    config.train.pretrain_epochs, config.method.num_clusters = 1, 2
    config.method.threshold, config.method.rebalance = 0.5, False
    argv = words(repeat_command(stored(config)))
    assert argv[:3] == ["python", "main.py", "--config=folder:upsilon"]
    options = commandline.parse(command.COMMAND, argv[2:])
    assert plain(options.config) == plain(config)


def test_tuples_can_be_told():
    config = load_config("digits", "upsilon")
    config.data.id_classes, config.data.ood_classes = ("7", "8"), ("1",)
    argv = words(repeat_command(stored(config)))
    options = commandline.parse(command.COMMAND, argv[2:])
    assert plain(options.config) == plain(config)


def test_another_method_keeps_data_network_and_length():
    config = load_config("digits", "upsilon")
    config.method.num_clusters, config.train.epochs = 9, 30
    line = repeat_command(stored(config), "baseline")
    assert words(line)[2:] == ["--config=digits:baseline", "--config.train.epochs=30"]


def test_without_config_files_every_field_is_told(monkeypatch):
    monkeypatch.setattr("upsilon_jax.config.repeat.config_names", lambda: [])
    line = repeat_command(stored(load_config("digits", "pl")))
    assert line.startswith("python main.py --config=FILE.py:pl ")
    assert "--config.data.name=digits" in words(line)
    assert "--config.method.threshold=0.95" in words(line)
