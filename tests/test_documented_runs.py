"""A person who follows the pages: their commands are run, in order, in an empty folder.

`tests/test_doc_commands.py` reads every command of every page; here are those that
somebody types who begins, with small networks and for two epochs. Where data would be
downloaded, a command must get as far as to say how.
"""

import importlib
import shlex
import socket

import numpy as np
import pytest
from PIL import Image

from tests.data.test_prepare import no_network
from tests.test_doc_commands import DOCS, ROOT, commands
from upsilon_jax import command as train_command
from upsilon_jax import commandline
from upsilon_jax.data import load_source, prepare

PAGES = [ROOT / "README.md", DOCS / "index.md", DOCS / "your_own_images.md"]
PAGES += [DOCS / "use_a_model.md", DOCS / "benchmarks.md"]
# Words of the pages that stand for something of the reader's, in this order.
STANDS_FOR = {
    "labeled=DIR": "labeled=photos/labeled",
    "unlabeled=photos/labeled": "unlabeled=photos/unlabeled",
    "--images=DIR": "--images=photos/labeled",
    "report DIR": "report runs",
    "runs/RUN": "RUN",
    "=runs/digits ": "=RUN ",
    "RUN": "runs/folder-upsilon-s0",
    "data CONFIG": "data digits",
    "configs/": f"{ROOT}/configs/",
}
# These have tests of their own, or train for hours.
ELSEWHERE = ("pytest", "upsilon_jax.native", "upsilon_jax.paper E8", "results/")
SMALL = (
    "--config.train.epochs=2",
    "--config.train.pretrain_epochs=1",
    "--config.model.depth=10",
    "--config.model.width=1",
)
OF_DATA = {
    "digits": ("--config.data.num_unlabeled=64",),
    "folder": ("--config.data.image_size=8",),
    "npz": ("--config.data.image_size=8",),
}


def save_images(folder):
    """What the pages ask their reader to have: photos of three classes, and others."""
    digits = load_source("digits")
    x = digits.read("train", np.arange(120))
    y = digits.train_labels[:120] % 3
    for i, (image, label) in enumerate(zip(x[..., 0], y, strict=True)):
        place = f"photos/labeled/class {label}" if i < 60 else "photos/unlabeled"
        for part in (place, "new_photos", "new_images"):
            (folder / part).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / part / f"{i:03}.png")
    labeled = dict(x_train=x[:40], y_train=y[:40], x_test=x[40:60], y_test=y[40:60])
    np.savez(folder / "my.npz", **labeled, x_unlabeled=x[60:])


def program_of(text):
    """A command of a page as its program and arguments, on the reader's files."""
    for word, meaning in STANDS_FOR.items():
        text = text.replace(word, meaning)
    words = shlex.split(text, comments=True)
    if words[0] == "main.py":
        return train_command, words[1:]
    return importlib.import_module(f"{words[1]}.__main__"), words[2:]


def made_small(program, argv, folder):
    """The arguments with a small network if it trains; whether its data are here."""
    options = commandline.parse(program.COMMAND, argv)
    if options.config is None:
        return argv, True
    data = options.config.data.name
    if data not in OF_DATA:
        return [*argv, f"--config.data.data_dir={folder}/tfds"], False
    if program.COMMAND.name.endswith(".sweep"):
        argv = [*argv, "--methods=pl", "--seeds=0", "--mismatch=0.5", "--jobs=1"]
    return [*argv, *SMALL, *OF_DATA[data]], True


@pytest.mark.slow
def test_the_commands_of_the_pages_for_beginners_run(tmp_path, monkeypatch, capsys):
    save_images(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prepare.urllib.request, "getproxies", dict)
    monkeypatch.setattr(socket, "create_connection", no_network)
    done = set()
    for text in (text for page in PAGES for text in commands(page.read_text("utf-8"))):
        program, argv = program_of(text)
        named_only = program is not train_command and not argv
        if named_only or any(word in text for word in ELSEWHERE):
            continue
        argv, has_data = made_small(program, argv, tmp_path)
        if tuple(argv) in done:
            continue
        done.add(tuple(argv))
        code = commandline.call(program.COMMAND, program.main, argv)
        told = capsys.readouterr()
        if has_data or "--dry-run" in argv:
            assert code == 0, (text, told.err)
        else:
            assert code == 2 and "python -m upsilon_jax.data" in told.err, text
    assert len(done) > 15
    for name in ("predictions.csv", "evaluation.json"):
        assert list(tmp_path.rglob(name)), f"no command has made a {name}"
