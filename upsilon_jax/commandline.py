"""What the commands share: `--config`, and one line for whatever a user can mend."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

import ml_collections
from absl import app, flags, logging
from ml_collections import config_flags

from upsilon_jax.errors import UserError
from upsilon_jax.runtime.interrupts import Interrupted

DEFAULT_CONFIG = "configs/digits.py"


def define_config() -> None:
    """Declares `--config=FILE.py[:METHOD]` and `--config.x.y=value`."""
    config_flags.DEFINE_config_file(
        "config",
        help_string="FILE.py or FILE.py:METHOD; --config.x.y=value overrides a field.",
    )


def get_config() -> ml_collections.ConfigDict:
    """The config that the flags describe."""
    return flags.FLAGS.config


def get_config_for(method: str) -> ml_collections.ConfigDict:
    """The same config file and overrides for another method.

    An override of a hyperparameter that the method does not have is left out.
    """
    spec = importlib.util.spec_from_file_location("config", _config_file())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = module.get_config(method)
    for field, value in config_flags.get_override_values(flags.FLAGS["config"]).items():
        section, _, name = field.partition(".")
        if section != "method" or name in config.method:
            config.update_from_flattened_dict({field: value})
    return config


def _config_file() -> pathlib.Path:
    filename = config_flags.get_config_filename(flags.FLAGS["config"])
    return pathlib.Path(filename.split(":")[0])


def config_name() -> str:
    """The name of the config file, without its folder and ending."""
    return _config_file().stem


def run_name(config: ml_collections.ConfigDict) -> str:
    """cifar10-upsilon-m50-s0: what tells the runs of a table apart."""
    seeds = f"s{config.seed}"
    if config.train.num_seeds > 1:
        seeds += f"-{config.seed + config.train.num_seeds - 1}"
    parts = [config_name(), config.method.name, seeds]
    if config.data.mismatch is not None:  # of one's own data nobody knows it
        parts.insert(2, f"m{100 * config.data.mismatch:g}")
    return "-".join(parts)


def run(main: Callable[[], None]) -> NoReturn:
    """Parses the flags and calls `main`; mistakes end with one line and exit code 2."""

    def guarded(_: list[str]) -> None:
        logging.set_verbosity(logging.WARNING)  # orbax tells of every file it touches
        # TensorFlow, which reads records and writes events here, announces its oneDNN
        # in four lines unless it is off.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
        with one_line_errors():
            main()

    app.run(guarded, flags_parser=_parse)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns what a user can mend, or has done, into a line and an exit code."""
    try:
        yield
    except Interrupted as interrupted:
        _say(str(interrupted))
        sys.exit(interrupted.exit_code)
    except (ValueError, UserError) as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    """One line to stderr, exit code 2."""
    _say(message)
    sys.exit(2)


def _say(message: str) -> None:
    name = os.path.basename(sys.argv[0])
    sys.stderr.write(f"{name}: {' '.join(message.split())}\n")


def _parse(argv: list[str]) -> list[str]:
    """Parses as absl does, without its tracebacks."""
    if not any(arg.split("=")[0] in ("--config", "-config") for arg in argv):
        # No `default=`: it would be read before overrides can be complained about.
        argv = [argv[0], f"--config={_root() / DEFAULT_CONFIG}", *argv[1:]]
    try:
        rest = flags.FLAGS(argv)
        get_config().method  # noqa: B018 - a file that is not there is reported late
    except (AttributeError, KeyError) as error:
        fail(f"no such config field: {_innermost(error)}")
    except OSError:
        name = config_flags.get_config_filename(flags.FLAGS["config"])
        fail(f"--config={name}: cannot be read")
    except (flags.Error, TypeError, ValueError) as error:
        fail(str(error))
    if len(rest) > 1:
        fail(f"unexpected {rest[1]!r}: fields are given as --config.name=value")
    return rest


def _root() -> pathlib.Path:
    """The checkout: configs are files beside the package, to be read and edited."""
    return pathlib.Path(__file__).resolve().parent.parent


def _innermost(error: BaseException) -> object:
    """ml_collections wraps one exception into the other; the first has the words."""
    while isinstance(error, BaseException) and error.args:
        error = error.args[0]
    return error
