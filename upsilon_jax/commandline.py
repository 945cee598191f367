"""The one parser of every command, and one line for whatever a user can mend.

A command is a `Command`, which says what it may be told, and a function that is given
the `Options` it was told. Flags stand in any order:

    --config=FILE.py[:METHOD]     or the name of a benchmark, as in --config=tin:pl
    --config.x.y=value            changes a field of it
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from logging import LogRecord, getLogger
from typing import Any, NamedTuple, NoReturn

from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags

from upsilon_jax import runtime
from upsilon_jax.config import find_config, flatten, load_config, validate
from upsilon_jax.errors import (
    ConfigError,
    DataNotPrepared,
    ExitCode,
    UserError,
    nearest,
    shortened,
)
from upsilon_jax.methods import resolve
from upsilon_jax.runtime import interrupts, memory, messages

DEFAULT_CONFIG = "digits"
CONFIG = "CONFIG"  # the positional argument that stands for --config


class Command(NamedTuple):
    """What a command may be told."""

    name: str  # shown before an error message
    about: str  # shown above the flags in its help
    flags: Mapping[str, tuple[Any, str]]  # name -> (default, whose type counts; help)
    argument: str | None = None  # its positional argument: `CONFIG`, or another name
    needs_argument: bool = True
    takes_config: bool = True
    # Values of --mode, the default first -> the flags that each takes, "config" too.
    modes: Mapping[str, Sequence[str]] = {}


class Options(NamedTuple):
    """What a command was told."""

    flags: types.SimpleNamespace
    argument: str | None = None
    config: ConfigDict | None = None  # valid
    config_file: pathlib.Path | None = None
    method: str | None = None  # if --config names one
    overrides: Mapping[str, Any] = {}  # field -> value, as given

    @property
    def config_name(self) -> str:
        """The name of the config file, without its folder and ending."""
        assert self.config_file  # only commands that take a config ask
        return self.config_file.stem

    def config_for(self, method: str) -> ConfigDict:
        """The same config file and overrides for another method, valid.

        An override of a hyperparameter that the method does not have is left out.
        """
        config = load_config(str(self.config_file), method)
        known = flatten(config)
        for field, value in self.overrides.items():
            if not field.startswith("method.") or field in known:
                config.update_from_flattened_dict({field: value})
        validate(config)
        return config


# What a command does; it may return an exit code.
Main = Callable[[Options], int | None]


def run(command: Command, main: Main) -> NoReturn:
    """Runs a command with the arguments of the process, and ends the process."""
    # absl's own flags are left at their defaults; libraries may ask for them.
    app.run(lambda _: call(command, main, sys.argv[1:]), argv=[command.name])


def call(command: Command, main: Main, argv: Sequence[str]) -> int:
    """Parses the arguments, calls `main` and returns the exit code.

    Only what a user can mend, or has done, becomes a line; a fault of the program keeps
    its traceback.
    """
    try:
        if {"--help", "-h"} & set(argv):
            print(help_text(command))  # noqa: T201
            return ExitCode.DONE
        options = parse(command, argv)
        set_up_process()
        with interrupts.raised():
            return main(options) or ExitCode.DONE
    except interrupts.Interrupted as interrupted:
        _say(command, interrupted)
        return interrupted.exit_code
    except UserError as error:
        if isinstance(error, DataNotPrepared) and options.config_file:
            error = error.of(str(options.config_file))
        _say(command, error)
        return error.exit_code
    except (MemoryError, RuntimeError) as error:
        if not memory.exhausted(error):
            raise
        _say(command, memory.exhausted(error))
        return ExitCode.REFUSED


def set_up_process() -> None:
    """Settings of the whole process: the business of commands, and only theirs."""
    # Orbax tells of every file it touches, and a failed save in hundreds of lines; we
    # are given the error as well, and say it in one.
    logging.set_verbosity(logging.WARNING)
    for name in ("absl", "asyncio"):
        getLogger(name).addFilter(_is_not_of_orbax)
    messages.show_plainly()
    messages.drop_lost_answers()
    # TensorFlow, which reads records and writes events here, announces its oneDNN in
    # four lines unless it is off.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    runtime.setup()


def _is_not_of_orbax(record: LogRecord) -> bool:
    # Of a failed write only the name of its file, step.orbax-checkpoint-tmp, tells.
    return "/orbax/" not in record.pathname and "orbax" not in record.getMessage()


def _say(command: Command, error: BaseException | str) -> None:
    sys.stderr.write(f"{command.name}: {' '.join(str(error).split())}\n")


def parse(command: Command, argv: Sequence[str]) -> Options:
    """What the arguments say; a ConfigError names what cannot be understood."""
    told, rest = _parse_flags(command, argv)
    fields, bare = _separate(command, rest)
    takes_config = command.takes_config and _check_mode(command, told, fields)
    argument = bare.pop(0) if command.argument and bare else None
    if bare:
        raise ConfigError(f"unexpected {bare[0]!r}: flags are given as --name=value")
    spec = vars(told).pop("config", None)
    if command.argument == CONFIG:
        spec = argument or spec
    if command.argument and command.needs_argument and not (argument or spec):
        raise ConfigError(f"{command.argument} is missing; --help says more")
    if not takes_config:
        return Options(told, argument)
    name, _, method = (spec or DEFAULT_CONFIG).partition(":")
    file = find_config(name)
    config = load_config(str(file), method or None)
    overrides = _override(config, fields, name)
    validate(config)
    return Options(told, argument, config, file, method or None, overrides)


def _check_mode(
    command: Command, told: types.SimpleNamespace, fields: Sequence[str]
) -> bool:
    """Whether the mode takes a config; a ConfigError names a flag it does not take."""
    if not command.modes:
        return True
    if told.mode not in command.modes:
        raise ConfigError(
            f"--mode={told.mode}: no such mode; {nearest(told.mode, command.modes)}"
        )
    takes = command.modes[told.mode]
    if "config" not in takes and (told.config is not None or fields):
        raise ConfigError(
            f"--mode={told.mode} takes no --config: it reads what the run in --workdir "
            "was trained with"
        )
    for name, (default, _) in command.flags.items():
        if name not in takes and getattr(told, name) not in (default, []):
            raise ConfigError(f"--mode={told.mode} takes no --{name}")
    return "config" in takes


_FIELD = re.compile(r"--?(?:no)?config\.([^=]*)")


def _separate(command: Command, rest: list[str]) -> tuple[list[str], list[str]]:
    """Arguments that name fields of the config, and those that are no flags."""
    fields, bare = [], []
    for argument in rest:
        if not argument.startswith("-"):
            bare.append(argument)
        elif command.takes_config and _FIELD.match(argument):
            fields.append(argument)
        else:
            flag = argument.split("=")[0]
            config = ["--config"] if command.takes_config else []
            known = [*config, *(f"--{name}" for name in (*_all_flags(command), "help"))]
            raise ConfigError(f"{flag}: no such flag; {nearest(flag, known)}")
    return fields, bare


def _parse_flags(
    command: Command, argv: Sequence[str]
) -> tuple[types.SimpleNamespace, list[str]]:
    """The values of the command's flags, and all other arguments."""
    values = flags.FlagValues()
    values.set_gnu_getopt()  # flags may come after other arguments
    if command.takes_config:
        flags.DEFINE_string("config", None, "", flag_values=values)
    define: dict[type, Callable[..., Any]] = {
        bool: flags.DEFINE_bool,
        list: flags.DEFINE_list,  # a,b,c
        tuple: flags.DEFINE_multi_string,  # may be repeated
    }
    for name, (default, text) in _all_flags(command).items():
        kind = define.get(type(default), flags.DEFINE_string)
        kind(name.replace("-", "_"), default, text, flag_values=values)
    try:
        _, *rest = values([command.name, *_tidied(argv)], known_only=True)
    except (flags.Error, ValueError) as error:  # a ValueError is that of --noflag=x
        raise ConfigError(str(error)) from error
    return types.SimpleNamespace(**values.flag_values_dict()), rest


def _all_flags(command: Command) -> Mapping[str, tuple[Any, str]]:
    """The flags of a command, with --mode if it has modes."""
    if not command.modes:
        return command.flags
    default, *others = command.modes
    mode = (default, f"or {', '.join(others)} [{default}]")
    return {**command.flags, "mode": mode}


def _tidied(argv: Sequence[str]) -> list[str]:
    """--dry-run as --dry_run, and `--config.x value` as --config.x=value."""
    tidy: list[str] = []
    for argument in argv:
        field = re.fullmatch(r"--?config\.[\w.]+", tidy[-1]) if tidy else None
        if field and re.match(r"$|[^-]|-\.?\d", argument):  # -1 is no flag
            tidy[-1] += f"={argument}"
        elif argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            tidy.append(f"--{name.replace('-', '_')}{equals}{value}")
        else:
            tidy.append(argument)
    return tidy


def _override(config: ConfigDict, arguments: list[str], file: str) -> dict[str, Any]:
    """Changes the fields of a config that the arguments name, and returns the values.

    ml_collections knows their types; it defines a flag for each field that is named.
    """
    known, method = flatten(config), config.method.name
    for field in (found[1] for found in map(_FIELD.match, arguments) if found):
        if field not in known:
            raise ConfigError(
                f"--config.{field}: no such field; {nearest(field, known)}"
            )
    values, argv = flags.FlagValues(), ["", *arguments]
    config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=argv)
    try:
        values(argv)
    except (flags.Error, TypeError, ValueError) as error:
        raise ConfigError(shortened(str(error))) from error
    if config.method.name != method:
        resolve(config.method.name)  # raises if there is none of that name
        raise ConfigError(
            f"--config.method.name={config.method.name}: a method brings its fields "
            f"along; take --config={file}:{config.method.name}"
        )
    return dict(config_flags.get_override_values(values["config"]))


def help_text(command: Command) -> str:
    """What a command does and may be told."""
    lines = {}
    if command.takes_config:
        default = "" if command.argument == CONFIG else f" [{DEFAULT_CONFIG}]"
        lines["--config=FILE.py[:METHOD]"] = f"or a name, as in tin:upsilon{default}"
        lines["--config.FIELD=VALUE"] = "changes a field; upsilon_jax/config/fields.py"
    for name, (default, text) in _all_flags(command).items():
        lines[f"--{name}" + ("" if isinstance(default, bool) else "=...")] = text
    width = max(map(len, lines)) + 2
    return "\n".join(
        [command.about.strip(), "", *(f"  {k:{width}}{v}" for k, v in lines.items())]
    )
