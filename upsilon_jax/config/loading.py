"""Config files: found by path or by name, and run."""

from __future__ import annotations

import importlib.util
import inspect
import pathlib
from collections.abc import Callable

from ml_collections import ConfigDict

from upsilon_jax.errors import ConfigError, nearest

_PACKAGE = pathlib.Path(__file__).resolve().parent.parent
# Installed, the package carries the configs; in a checkout they lie beside it.
_FOLDERS = (_PACKAGE / "configs", _PACKAGE.parent / "configs")


def load_config(name: str, method: str | None = None) -> ConfigDict:
    """The config of a file, for a method.

    The file is executed as Python, so load only those you trust.

    Args:
      name: a path, or the name of a benchmark in `configs/`: "cifar10".
      method: what the file's `get_config` is given; None for its default.

    Raises:
      ConfigError: there is no such file or method, or it is no config file.
    """
    path = find_config(name)
    get_config = _get_config_of(path)
    given = () if method is None else (method,)
    signature = inspect.signature(get_config)
    if given and not signature.parameters:
        raise ConfigError(f"{path}: takes no method, but {method!r} was given")
    if not given and any(p.default is p.empty for p in signature.parameters.values()):
        raise ConfigError(f"{path}: needs a method, as in {path.name}:upsilon")
    config = get_config(*given)
    if not isinstance(config, ConfigDict) or "method" not in config:
        raise ConfigError(f"{path}: get_config must return what `with_method` makes")
    return config


def find_config(name: str) -> pathlib.Path:
    """The file of that path, else the config of that name."""
    path = pathlib.Path(name)
    if path.suffix == ".py" and path.is_file():
        return path
    if len(path.parts) == 1 and path.suffix in ("", ".py"):
        for folder in _FOLDERS:
            if (folder / f"{path.stem}.py").is_file():
                return folder / f"{path.stem}.py"
        raise ConfigError(
            f"{name}: no such config; {nearest(path.stem, config_names())}"
        )
    raise ConfigError(f"{name}: there is no such config file")


def config_names() -> list[str]:
    """The benchmarks in `configs/`."""
    files = (path for folder in _FOLDERS for path in sorted(folder.glob("*.py")))
    return [path.stem for path in files if not path.stem.startswith("_")]


def _get_config_of(path: pathlib.Path) -> Callable[..., ConfigDict]:
    spec = importlib.util.spec_from_file_location(f"config_{path.stem}", path)
    assert spec and spec.loader  # as of every name that ends in .py
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        # One with zero bytes has no line; it may also be in a module that it imports.
        place = f"{error.filename}, line {error.lineno}" if error.lineno else path
        raise ConfigError(f"{place}: not Python: {error.msg}") from error
    except (ImportError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be loaded: {error}") from error
    if not callable(getattr(module, "get_config", None)):
        raise ConfigError(f"{path}: has no function get_config")
    return module.get_config


def run_name(config_name: str, config: ConfigDict) -> str:
    """cifar10-upsilon-m50-s0: what tells the runs of a table apart."""
    seeds = f"s{config.seed}"
    if config.train.num_seeds > 1:
        seeds += f"-{config.seed + config.train.num_seeds - 1}"
    parts = [config_name, config.method.name, seeds]
    if config.data.mismatch is not None:  # of one's own data nobody knows it
        parts.insert(2, f"m{100 * config.data.mismatch:g}")
    return "-".join(parts)
