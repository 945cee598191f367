"""The table of fields: complete, and derived from what it describes."""

import ast
import pathlib

import pytest

from upsilon_jax import models
from upsilon_jax.config import FIELDS, flatten, load_config, validate
from upsilon_jax.config.fields import METHOD_RULES, rule_of
from upsilon_jax.data.source import SOURCES
from upsilon_jax.errors import ConfigError
from upsilon_jax.kernels.confidence import SCORES
from upsilon_jax.kernels.explore import SOLVERS
from upsilon_jax.kernels.views import VIEWS
from upsilon_jax.methods import METHODS

FILES = sorted(p for p in pathlib.Path("configs").glob("*.py") if p.stem != "__init__")


def types(config, prefix=""):
    """{"train.epochs": int, ...}, also where there is no value yet."""
    found = {}
    for name in config:
        if config.get_type(name) is type(config):
            found |= types(config[name], f"{prefix}{name}.")
        else:
            found[prefix + name] = config.get_type(name)
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_number_has_a_rule(path, method):
    config = load_config(str(path), method)
    flat = flatten(config)
    kinds = types(config)
    assert kinds.keys() == flat.keys()
    numbers = [field for field, kind in kinds.items() if kind in (int, float)]
    assert "train.epochs" in numbers
    assert [field for field in numbers if rule_of(field, flat) is None] == []


def test_every_rule_of_methods_is_used():
    used = {name for method in METHODS for name in load_config("digits", method).method}
    assert METHOD_RULES.keys() <= used


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_has_a_line_and_a_default_that_its_rule_allows(name):
    field = FIELDS[name]
    assert field.says.endswith(".") and "\n" not in field.says
    assert (field.default is None) == (field.kind is not None)
    if field.rule and field.default not in (None, ""):
        assert field.rule.holds(field.default)


@pytest.mark.parametrize(
    ("field", "table"),
    [
        ("data.name", SOURCES),
        ("data.augmentation", VIEWS),
        ("method.score", SCORES),
        ("method.upsilon.solver", SOLVERS),
    ],
)
def test_choices_are_the_tables(field, table):
    rule = rule_of(field, {})
    assert rule.allowed() == f"one of {', '.join(table)}"
    assert all(map(rule.holds, table)) and not rule.holds("something else")


def test_a_new_model_can_be_chosen_at_once(monkeypatch):
    rule = FIELDS["model.name"].rule
    assert not rule.holds("mlp")
    monkeypatch.setitem(models.MODELS, "mlp", None)
    assert rule.holds("mlp") and "mlp" in rule.allowed()


def test_the_range_of_a_threshold_is_that_of_its_score():
    assert rule_of("method.threshold", {"method.score": "entropy"}).holds(-2.0)
    assert not rule_of("method.threshold", {"method.score": "margin"}).holds(-2.0)
    beside = {"method.upsilon.score": "entropy"}  # another section's
    assert not rule_of("method.threshold", beside).holds(-2.0)
    assert rule_of("method.upsilon.ood_threshold", beside).holds(-2.0)


def test_a_field_that_does_not_exist_is_refused():
    config = load_config("digits")
    config.train.epoch = 3
    with pytest.raises(ConfigError, match=r"train\.epoch: no such field.*epochs"):
        validate(config)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_config_file_imports_only_the_config_package(path):
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    imports = [n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
    assert [getattr(n, "module", None) for n in imports] == ["upsilon_jax.config"]
