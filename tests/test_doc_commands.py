"""Every command on a page is one that its program understands.

Nothing is run: the real parser reads the arguments, so flags, fields, configs, methods,
tables and experiments must exist.
"""

import importlib
import pathlib
import re
import shlex

import pytest
import yaml

from upsilon_jax import command as train_command
from upsilon_jax import commandline, kernels
from upsilon_jax.errors import ConfigError
from upsilon_jax.paper import __main__ as paper_command
from upsilon_jax.paper.experiments import EXPERIMENTS
from upsilon_jax.report import __main__ as report_command
from upsilon_jax.sweep import __main__ as sweep_command

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
RESULTS = [ROOT / "results/README.md", ROOT / "results/desk/search.md"]
PAGES = [
    *sorted(DOCS.glob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "README.md",
    *RESULTS,
]
# Words that stand for a value of the reader's.
PLACEHOLDERS = {"CONFIG": "digits", "METHOD": "upsilon", "NAME": "upsilon"}
# What a page asks its reader to write first.
TO_BE_WRITTEN = ("bars", "entropy_min")

_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_INLINE = re.compile(r"(?<!`)`((?:[A-Z_]+=\S+\s+)*python\s[^`]+)`")
_MADE = re.compile(r"<!-- (python [^\n]+?) -->")
_COMMAND = re.compile(r"^(?:[A-Z_]+=\S+\s+)*python\s+(.*)$", re.DOTALL)
_PLACEHOLDER = re.compile(rf"\b({'|'.join(PLACEHOLDERS)})\b")


def commands(text: str) -> list[str]:
    """What follows `python` in blocks of shell, inline code and comments."""
    lines = []
    for block in _BLOCK.findall(text):
        lines += block.replace("\\\n", " ").splitlines()
    lines += [*_INLINE.findall(text), *_MADE.findall(text)]
    parts = (part.strip() for line in lines for part in line.split("&&"))
    return [found[1] for part in parts if (found := _COMMAND.match(part))]


def understand(command: str) -> None:
    """Reads a command as its program would; raises what that would raise."""
    text = _PLACEHOLDER.sub(lambda word: PLACEHOLDERS[word[0]], command)
    words = shlex.split(re.split(r"\s>\s", text)[0], comments=True)
    if words[0] != "-m":
        program, argv = words[0], words[1:]
        if program == "main.py":
            commandline.parse(train_command.COMMAND, argv)
        elif argv or not (ROOT / program).is_file():
            raise ConfigError(f"{program}: no such script, or it takes no arguments")
        return
    program, argv = words[1], words[2:]
    if program == "pytest":
        return
    if program.startswith("benchmarks"):
        unknown = {word.split("=")[0] for word in argv} - {"--quick", "--rows"}
        if unknown or (argv and program != "benchmarks"):
            raise ConfigError(f"{program}: no such flags: {argv}")
        return
    understand_module(program, argv)


def understand_module(program: str, argv: list[str]) -> None:
    """Parses the arguments of a module, and checks them as it does before it works."""
    module = importlib.import_module(f"{program}.__main__")
    if not hasattr(module, "COMMAND"):
        if argv:
            raise ConfigError(f"{program} takes no arguments, not {argv}")
        return
    if not argv:  # its name in a sentence
        return
    options = commandline.parse(module.COMMAND, argv)
    if module is report_command:
        report_command._check(options.flags)
    elif module is sweep_command:
        sweep_command.grid(options)
    elif module is paper_command and options.argument:
        if paper_command._claims(options.argument):
            return
        names = paper_command._names(options.argument, options.flags.scale)
        if not any(getattr(EXPERIMENTS[name], options.flags.scale) for name in names):
            raise ConfigError(f"{names}: no runs at this scale")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_are_understood(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for command in commands(page.read_text("utf-8")):
        if not any(name in command for name in TO_BE_WRITTEN):
            understand(command)


@pytest.mark.parametrize(
    "command",
    [
        "main.py --confg=digits",
        "main.py --config=digits:gone",
        "main.py --config.train.gone=1",
        "main.py --mode=predict --workdir=RUN --images=DIR --config=tin",
        "gone.py",
        "docs/blocks.py --gone",
        "-m upsilon_jax.config --gone",
        "-m upsilon_jax.report DIR --table=gone",
        "-m upsilon_jax.sweep --methods=gone",
        "-m upsilon_jax.paper E17",
        "-m upsilon_jax.paper C13",
        "-m upsilon_jax.paper E7",
        "-m benchmarks --gone",
    ],
)
def test_a_wrong_command_is_found(command):
    with pytest.raises(ConfigError):
        understand(command)


def test_commands_are_found_wherever_they_stand():
    text = (
        "```sh\npip install x && python main.py --a \\\n    --b  # why\n```\n"
        "`python -m\nupsilon_jax.data` `X=1 python main.py`\n<!-- python -m c d -->"
    )
    found = [shlex.split(command, comments=True) for command in commands(text)]
    assert found == [
        ["main.py", "--a", "--b"],
        ["-m", "upsilon_jax.data"],
        ["main.py"],
        ["-m", "c", "d"],
    ]


def test_every_experiment_has_its_command_and_its_flags():
    """A row of the paper map names what the experiment makes."""
    rows = [
        line
        for line in (DOCS / "paper_map.md").read_text("utf-8").splitlines()
        if line.startswith("| E")
    ]
    for name, experiment in EXPERIMENTS.items():
        mine = [row for row in rows if re.search(rf"upsilon_jax\.paper {name}\b", row)]
        assert mine, name
        flags = set(re.findall(r"--(?:table|figure)=(\w+)", " ".join(mine)))
        assert flags and flags <= {experiment.table, *experiment.figures}, name


def pages_of(nav) -> list[str]:
    """The files that a menu leads to."""
    if isinstance(nav, str):
        return [nav]
    inside = nav.values() if isinstance(nav, dict) else nav
    return [page for part in inside for page in pages_of(part)]


def test_the_site_leads_to_every_page_once():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    assert sorted(pages_of(nav)) == sorted(path.name for path in DOCS.glob("*.md"))


def test_the_site_shows_every_kernel():
    page = (DOCS / "kernels.md").read_text("utf-8")
    shown = re.findall(r"^::: upsilon_jax\.kernels\.\w+\.(\w+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(kernels.__all__)
