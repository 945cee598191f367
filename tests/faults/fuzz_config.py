"""Configs with any value in any field: a run that can be set up, or one line."""

import functools
import time

import numpy as np

from upsilon_jax import command, commandline
from upsilon_jax.config import build_method, flatten, load_config, make_schedule
from upsilon_jax.config import validate as check
from upsilon_jax.config.from_data import complete, draw_splits, open_source
from upsilon_jax.errors import UserError
from upsilon_jax.methods import METHODS, SUFFIXES
from upsilon_jax.runtime import sharding
from upsilon_jax.training import memory, setup

METHOD_NAMES = (*METHODS, *(f"fixmatch+{suffix}" for suffix in SUFFIXES))
_NUMBERS = [-1, 0, 1, 2, 3, 10, 16, 28, 400, 10**4, 10**6, 10**11, 10**400, 1j]
_NUMBERS += [2**31 - 1, 2**31, -(2**31), 2**32, 2**63, 0.0, -0.0, 0.5, 1.0, 0.999, -1.0]
_NUMBERS += [1e-300, 1e-45, 1e38, 1e39, 1e308, *map(float, ("nan", "inf", "-inf"))]
_TEXTS = [
    "",
    "auto",
    "a",
    "digits",
    "0",
    "x" * 10**5,
    "\0",
    "\ud800",
    "../..",
    "newton",
]
_TEXTS += ["random:3", "rest", "random:99999999999", "float32", "__import__('os')"]
_OTHERS = [None, True, False, (), ("a",), ("0", "1"), ("0", "0"), [], [1], (None,), {}]
_OTHERS += [((),), {"a": 1}, b"x", object(), int, np.float32(0.5), np.int64(3)]
_OTHERS += [np.array(1), np.array([1, 2]), ("rest",), ("random:3",), ("random:x",)]
VALUES = (*_NUMBERS, *_TEXTS, *_OTHERS)
# What a shell may hand over after `--config.FIELD=`.
TYPED = (
    "", "None", "null", "nan", "-inf", "1e400", "True", "yes", "0", "-1", "1.5", "1e5",
    "1_000", "0x10", "٣", "1,2", "(1,)", "('a',)", "()", "[]", "{}", "('0'", "'", '"',
    "\\", "\0", "\ud800", "a" * 5000, "(" * 5000, "9" * 400, "auto", "=", "$HOME", "1j",
    "lambda: 0", "__import__('os')", "\u202e", "b'x'", "1 2", "\n", "('random:3',)",
)  # fmt: skip
AT_ONCE = 2.0  # seconds


@functools.cache
def preset(method):
    return load_config("digits", method)


@functools.cache
def digits():
    return open_source(preset("upsilon"))


def put(config, field, value):
    """Sets a field, whatever its type: as a file that uses other means could."""
    *sections, last = field.split(".")
    for section in sections:
        config = config[section]
    object.__getattribute__(config, "_fields")[last] = value


def refused_in_one_line(function, *args):
    """Whether a UserError refuses it, shortly and soon; any other error goes on."""
    begin = time.process_time()
    try:
        function(*args)
        refusal = None
    except UserError as error:
        refusal = " ".join(str(error).split())
    assert time.process_time() - begin < AT_ONCE
    assert refusal is None or 0 < len(refusal) < 500
    return refusal is not None


def values(rng, _):
    """A field, or two, of a method's preset with a value from anywhere."""
    config = preset(METHOD_NAMES[rng.integers(len(METHOD_NAMES))])
    config = config.copy_and_resolve_references()
    fields = list(flatten(config))
    for _ in range(rng.integers(1, 3)):
        value = VALUES[rng.integers(len(VALUES))]
        put(config, fields[rng.integers(len(fields))], value)
    return 1, not refused_in_one_line(check, config)


def set_ups(rng, _):
    """Valid configs as far as the first array: what the data cannot give is told."""
    config = preset(METHOD_NAMES[rng.integers(len(METHOD_NAMES))])
    config = config.copy_and_resolve_references()
    fields = [field for field in flatten(config) if field != "data.name"]
    field, value = fields[rng.integers(len(fields))], VALUES[rng.integers(len(VALUES))]
    # K from the data needs a network; `training/clusters.py` is tested elsewhere.
    if field.endswith("num_clusters") and repr(value) == repr("auto"):
        return 0, 0
    put(config, field, value)
    if refused_in_one_line(check, config):
        return 0, 0
    return 1, not refused_in_one_line(set_up, config)


def set_up(config):
    """`training.setup.prepare` without the data on a device and without programs."""
    source, mesh = digits(), sharding.data_mesh()
    splits = draw_splits(config, source)
    config = complete(config, source, splits)
    num_ood = len(splits.classes) - splits.num_classes
    method = build_method(config, splits.num_classes, num_ood, len(splits.unlabeled))
    setup._check(config, method, source, splits, mesh)
    memory.check_memory(config, source, splits, method, mesh)
    schedule = make_schedule(config, method, len(splits.unlabeled))
    setup.build_model(config, method)
    setup.build_optimizer(config, schedule)


def typed(rng, _):
    """The command line, with any text after a field."""
    method = METHOD_NAMES[rng.integers(len(METHOD_NAMES))]
    fields = list(flatten(preset(method)))
    field, text = fields[rng.integers(len(fields))], TYPED[rng.integers(len(TYPED))]
    argv = [f"--config=digits:{method}", f"--config.{field}={text}"]
    return 1, not refused_in_one_line(commandline.parse, command.COMMAND, argv)
