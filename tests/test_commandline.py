"""The parser of all commands, and what becomes of errors."""

import logging

import pytest

from upsilon_jax import command as train_command
from upsilon_jax import commandline
from upsilon_jax.data import __main__ as data_command
from upsilon_jax.errors import ConfigError, DataError, PeerLost
from upsilon_jax.report import __main__ as report_command
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.sweep import __main__ as sweep_command

COMMANDS = {
    "main.py": train_command,
    "python -m upsilon_jax.sweep": sweep_command,
    "python -m upsilon_jax.data": data_command,
    "python -m upsilon_jax.report": report_command,
}
WITH_CONFIG = list(COMMANDS)[:3]


def parse(*argv):
    return commandline.parse(train_command.COMMAND, argv)


def test_without_flags_it_is_the_upsilon_model_on_the_digits():
    options = parse()
    assert options.config_name == "digits" and options.config.method.name == "upsilon"
    assert vars(options.flags) == {
        "workdir": None,
        "override_config": False,
        "start_over": False,
        "distributed": False,
        "coordinator": None,
        "num_processes": None,
        "process_index": None,
        "quiet": False,
        "images": [],
        "output": None,
        "mode": "train",
    }


@pytest.mark.parametrize(
    "argv",
    [
        ["--config=configs/svhn.py:pl", "--config.train.epochs=70", "--workdir=here"],
        ["--config.train.epochs=70", "--workdir=here", "--config=configs/svhn.py:pl"],
        ["--workdir", "here", "--config.train.epochs", "70", "--config", "svhn:pl"],
    ],
)
def test_flags_stand_in_any_order(argv):
    options = parse(*argv)
    assert options.config_name == "svhn" and options.config.method.name == "pl"
    assert options.config.train.epochs == 70 and options.flags.workdir == "here"
    assert options.overrides == {"train.epochs": 70}


def test_images_may_be_repeated_and_have_commas():
    told = parse("--mode=predict", "--images=a,b.png", "--images", "c", "--workdir=r")
    assert told.flags.images == ["a,b.png", "c"] and told.config is None


def test_fields_have_their_types():
    config = parse(
        "--config.data.id_classes=('0','1')",
        "--config.train.learning_rate=1",
        "--noconfig.data.flip",
        "--config.train.steps_per_call=4",
        "--config.method.score=margin",
    ).config
    assert config.data.id_classes == ("0", "1") and not config.data.flip
    assert config.train.learning_rate == 1.0 and config.train.steps_per_call == 4
    assert config.method.score == "margin"


def test_a_threshold_may_be_a_number_or_auto():
    given = lambda *argv: parse(*argv).config.method
    assert given("--config.method.ood_threshold=auto").ood_threshold == "auto"
    assert given("--config.method.ood_threshold=0.25").ood_threshold == 0.25
    spaced = ("--config=digits:upsilon_ent", "--config.method.ood_threshold", "-2.1")
    assert given(*spaced).ood_threshold == -2.1
    for wrong in ("often", "2", "true"):
        with pytest.raises(ConfigError, match=r"must be 'auto' or in \[0, 1\]"):
            given(f"--config.method.ood_threshold={wrong}")
    with pytest.raises(ConfigError, match=r"must be in \[0, 1\]"):
        given("--config=digits:upsilon_sd", "--config.method.ood_threshold=auto")


@pytest.mark.parametrize("method", ["upsilon", "sec", "fixmatch+upsilon"])
def test_the_number_of_clusters_may_be_auto(method):
    field = "upsilon.num_clusters" if "+" in method else "num_clusters"

    def given(value):
        config = parse(f"--config=digits:{method}", f"--config.method.{field}={value}")
        return config.config.to_dict()["method"]

    of = lambda method: method.get("upsilon", method)["num_clusters"]
    assert of(given("auto")) == "auto" and of(given("7")) == 7
    for wrong in ("many", "-1", "2.5", "4.0", "true"):
        with pytest.raises(ConfigError, match="must be 'auto' or a whole number ≥ 0"):
            given(wrong)


@pytest.mark.parametrize(
    "method, field, number",
    [
        ("rpl", "num_clusters", 0),
        ("upsilon_k1", "num_clusters", 1),
        ("fixmatch+rpl", "upsilon.num_clusters", 0),
    ],
)
def test_a_method_that_is_its_number_of_clusters_has_it(method, field, number):
    with pytest.raises(ConfigError) as error:
        parse(f"--config=digits:{method}", f"--config.method.{field}=auto")
    name = method.replace("+", r"\+")
    assert error.match(f"method.{field}='auto': {name} is the method with K={number}$")


def test_a_config_for_another_method_keeps_the_overrides_that_it_has():
    options = parse("--config.method.threshold=0.4", "--config.seed=3")
    assert options.config_for("pl").method.threshold == 0.4
    assert "threshold" not in options.config_for("baseline").method
    assert options.config_for("baseline").seed == 3
    with pytest.raises(ConfigError, match="did you mean baseline"):
        options.config_for("base_line")


@pytest.mark.parametrize("argv", [["tin"], ["--config=tin"], ["--dry-run", "tin:pl"]])
def test_a_config_may_stand_without_a_flag(argv):
    options = commandline.parse(data_command.COMMAND, argv)
    assert options.config.data.name == "tiny_imagenet"
    assert options.flags.dry_run == ("--dry-run" in argv)


MISTAKES = [
    (["--config.train.epoch=3"], ["train.epoch: no such field", "train.epochs"]),
    (["--config.train=3"], ["--config.train: no such field"]),
    (["--config.train.epochs=many"], ["train.epochs=many"]),
    (["--config.train.epochs"], ["train.epochs"]),
    (["--config.data.flip=maybe"], ["data.flip=maybe"]),
    (["--config.train.epochs=2.5"], ["train.epochs=2.5"]),
    (["--config.method.threshold=1.5"], ["method.threshold=1.5", "in [0, 1]"]),
    (["--config.data.name=digit"], ["data.name='digit'", "one of digits"]),
    (["--config.train.eval_epochs=0"], ["train.eval_epochs=0", "≥ 1"]),
    (["--config=configs/no_such.py"], ["configs/no_such.py", "no such config file"]),
    (["--config=digit"], ["no such config", "did you mean digits"]),
    (["--config=digits:upsilom"], ["upsilom", "did you mean upsilon"]),
    (["--config.method.name=baseline"], ["method.name=baseline", "digits:baseline"]),
    (["--config.method.name=rpl", "--config=svhn"], ["take --config=svhn:rpl"]),
    (["--no_such_flag"], ["--no_such_flag: no such flag"]),
    (["--confg=digits"], ["--confg: no such flag; did you mean --config"]),
    (["--config=cifar10.json"], ["cifar10.json: there is no such config file"]),
    (["--no_such_flag=3", "--config=digits"], ["--no_such_flag: no such flag"]),
    (["--config=digits", "one", "two"], ["unexpected"]),
    (["--config"], ["Missing value", "--config"]),
]


@pytest.mark.parametrize("name", WITH_CONFIG)
@pytest.mark.parametrize(("argv", "told"), MISTAKES, ids=lambda value: value[0])
def test_a_mistake_is_one_line_and_exit_code_2(name, argv, told, capsys):
    """The same line from each command; none begins to work."""
    if "--config" not in " ".join(argv).replace("--config.", ""):
        argv = ["--config=digits", *argv]
    module = COMMANDS[name]
    assert commandline.call(module.COMMAND, module.main, argv) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and err.startswith(f"{name}: ")
    for words in told:
        assert words in err


@pytest.mark.parametrize(
    ("name", "argv", "told"),
    [
        ("main.py", ["--workdr=x"], "did you mean --workdir"),
        ("main.py", ["train"], "unexpected 'train'"),
        ("main.py", ["--workdir"], "Missing value for flag --workdir"),
        ("main.py", ["--override_config=perhaps"], "override_config=perhaps"),
        ("main.py", ["--nooverride_config=1"], "does not take an argument"),
        ("main.py", ["--mode=predic"], "no such mode; did you mean predict?"),
        ("main.py", ["--mode=predict"], "--workdir=... is missing"),
        ("main.py", ["--mode=predict", "--workdir=x"], "--images=... is missing"),
        ("main.py", ["--mode=evaluate", "--workdir=x"], "--images=... is missing"),
        ("main.py", ["--mode=predict", "--config=tin"], "predict takes no --config"),
        ("main.py", ["--mode=report", "--config.seed=1"], "report takes no --config"),
        ("main.py", ["--mode=export", "--override_config"], "no --override_config"),
        ("main.py", ["--mode=export", "--images=x"], "export takes no --images"),
        ("main.py", ["--coordinator=here"], "--coordinator=here: must be HOST:PORT"),
        ("main.py", ["--process_index=x"], "--process_index=x: must be a whole number"),
        ("main.py", ["--mode=export", "--coordinator=h:1"], "takes no --coordinator"),
        ("main.py", ["--images=x"], "train takes no --images"),
        ("main.py", ["--output=x"], "train takes no --output"),
        ("python -m upsilon_jax.data", [], "CONFIG is missing"),
        ("python -m upsilon_jax.report", [], "DIR is missing"),
        (
            "python -m upsilon_jax.report",
            ["no_such"],
            "no_such: there is no such folder",
        ),
        ("python -m upsilon_jax.report", ["a", "b"], "unexpected 'b'"),
        ("python -m upsilon_jax.report", ["a", "--config=b"], "--config: no such flag"),
        ("python -m upsilon_jax.sweep", ["--seeds=a"], "--seeds=a: must be numbers"),
        ("python -m upsilon_jax.sweep", ["--mismatch=0,2"], "data.mismatch=2.0"),
        ("python -m upsilon_jax.sweep", ["--methods=pl,x"], "'x'"),
        ("python -m upsilon_jax.sweep", ["--launcher=slrm"], "did you mean slurm?"),
        ("python -m upsilon_jax.sweep", ["--partition=x"], "only --launcher=slurm"),
        ("python -m upsilon_jax.sweep", ["--slurm=mem"], "must be NAME=VALUE"),
    ],
)
def test_a_mistake_of_one_command(name, argv, told, capsys):
    module = COMMANDS[name]
    assert commandline.call(module.COMMAND, module.main, argv) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1 and err.startswith(f"{name}: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short_and_has_every_flag(name, capsys):
    module = COMMANDS[name]
    assert commandline.call(module.COMMAND, module.main, ["--no_such", "--help"]) == 0
    out = capsys.readouterr().out
    screen = 24  # lines of the smallest terminal
    assert module.__doc__.strip() in out and len(out.splitlines()) < screen
    assert all(f"  --{flag}" in out for flag in module.COMMAND.flags)
    assert ("--config" in out) == module.COMMAND.takes_config


def ending(error):
    """The exit code of a command that raises."""

    def main(options):
        raise error

    return commandline.call(train_command.COMMAND, main, [])


def test_only_what_a_user_can_mend_becomes_a_line(capsys):
    assert ending(DataError("two\nlines")) == 2
    assert capsys.readouterr().err == "main.py: two lines\n"
    assert ending(PeerLost("gone")) == 4
    assert capsys.readouterr().err == "main.py: gone\n"
    assert ending(Interrupted(15)) == 128 + 15
    assert "stopped by SIGTERM" in capsys.readouterr().err
    for full in (MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory")):
        assert ending(full) == 2
        assert capsys.readouterr().err.startswith("main.py: out of memory (")
    for bug in (ValueError("a bug"), RuntimeError("a bug"), KeyError("a bug")):
        with pytest.raises(type(bug)):
            ending(bug)


def test_data_that_are_missing_name_the_config_that_was_asked_for(tmp_path, capsys):
    place = f"--config.data.data_dir={tmp_path}"
    argv = ["--config=configs/cifar10_svhn.py:pl", place, f"--workdir={tmp_path}/run"]
    assert commandline.call(train_command.COMMAND, train_command.main, argv) == 2
    told = f"run python -m upsilon_jax.data configs/cifar10_svhn.py {place}\n"
    assert capsys.readouterr().err.endswith(told)


@pytest.mark.parametrize(
    ("place", "text", "is_shown"),
    [
        ("/lib/orbax/checkpoint.py", "saved", False),
        ("/lib/asyncio.py", "future: <4.orbax-checkpoint-tmp: File too large>", False),
        ("/lib/asyncio.py", "a task was destroyed", True),
    ],
)
def test_what_orbax_has_to_say_is_not_shown(place, text, is_shown):
    record = logging.LogRecord("asyncio", logging.ERROR, place, 1, text, None, None)
    assert commandline._is_not_of_orbax(record) == is_shown
