"""Config files, by path and by name."""

import pathlib

import pytest

from upsilon_jax.config import find_config, load_config
from upsilon_jax.errors import ConfigError

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"


@pytest.mark.parametrize("name", ["digits", "digits.py", str(CONFIGS / "digits.py")])
def test_a_config_is_found_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_config(name).samefile(CONFIGS / "digits.py")
    assert load_config(name).method.name == "upsilon"
    assert load_config(name, "pl").method.name == "pl"


def test_a_file_of_ones_own_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits.py").write_text(
        "from upsilon_jax.config import load_config\n"
        "def get_config():\n"
        "    config = load_config('svhn')\n"
        "    config.train.epochs = 3\n"
        "    config.train.pretrain_epochs = 1\n"
        "    return config\n"
    )
    assert load_config("digits.py").train.epochs == 3
    assert load_config("digits").data.name == "digits"  # the benchmark
    with pytest.raises(ConfigError, match="digits.py: takes no method, but 'pl'"):
        load_config("digits.py", "pl")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def get_config(:\n", "bad.py, line 1: not Python: "),
        ("import no_such_module_at_all", "cannot be loaded: No module named"),
        ("from upsilon_jax.config import base", "cannot be loaded: cannot import"),
        ("x = '\0'", "bad.py: not Python: source code"),
        ("x = 1", "has no function get_config"),
        ("get_config = 1", "has no function get_config"),
        ("def get_config(): pass", "must return what `with_method` makes"),
        ("def get_config(method): pass", "needs a method"),
    ],
)
def test_what_is_no_config_file_is_said_in_a_line(tmp_path, text, told):
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(str(path))
    assert str(path) in str(error.value) and told in str(error.value)


@pytest.mark.parametrize("bug", ["1 / 0", "undefined", "None + 1"])
def test_a_bug_in_a_config_file_keeps_its_traceback(tmp_path, bug):
    path = tmp_path / "buggy.py"
    path.write_text(bug)
    with pytest.raises((ZeroDivisionError, NameError, TypeError)):
        load_config(str(path))


def test_an_unknown_name_gets_the_near_ones():
    with pytest.raises(ConfigError, match="digit: no such config; did you mean digits"):
        load_config("digit")
    with pytest.raises(ConfigError, match="configs/no_such.py: there is no such"):
        load_config("configs/no_such.py")
