"""Damage to any file of a workdir: passed over, refused in one line, or made again.

Never a traceback, and never another result than the one that was saved.
"""

import random
import shutil

import pytest

import upsilon_jax
from tests.faults.injected import Injected
from tests.training.tiny_run import interrupt_after, tiny, without_seconds
from tests.workdir.test_checkpoint import restore, save_steps, state
from tests.workdir.test_schema import make_result
from upsilon_jax.errors import WorkdirError
from upsilon_jax.inference.saved import read_saved
from upsilon_jax.runtime import sharding
from upsilon_jax.runtime.interrupts import Interrupted
from upsilon_jax.workdir import findings
from upsilon_jax.workdir.files import (
    CONFIG,
    FINDINGS,
    MANIFEST,
    REPORT,
    RESULT,
    SHOWN,
    find_result,
    write_json,
)
from upsilon_jax.workdir.records import read
from upsilon_jax.workdir.schema import Result
from upsilon_jax.workdir.seal import tree_digest
from upsilon_jax.workdir.sums import SUMS, is_sound, write_sums

pytestmark = pytest.mark.usefixtures("no_tensorboard")


def flip(data, rng):
    damaged = bytearray(data)
    damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def cut(data, rng):
    return data[: rng.randrange(len(data))]


def blank(data, rng):
    """As a disk that lost a sector."""
    start = rng.randrange(len(data))
    return data[:start] + bytes(len(data[start : start + 512])) + data[start + 512 :]


def empty(data, rng):
    return b""


DAMAGES = (flip, cut, blank, empty)
FILES = {  # of a finished run: how often each is damaged, and what comes of it
    RESULT: Injected(refused=60),
    MANIFEST: Injected(refused=60),
    CONFIG: Injected(refused=60),
    FINDINGS: Injected(refused=60),
    SUMS: Injected(survived=12),
    **dict.fromkeys(SHOWN, Injected(survived=3)),
}
GOING_ON = {
    CONFIG: Injected(refused=3),
    MANIFEST: Injected(refused=3),
    SUMS: Injected(survived=2, refused=1),  # one is another checksum of the config
    ".saved": Injected(survived=3),
    ".lock": Injected(survived=3),
}
IN_CHECKPOINT = Injected(survived=48)
together = lambda files: Injected(*map(sum, zip(*files.values(), strict=True)))
INJECTED = {
    "test_a_finished_run": together(FILES),
    "test_a_run_that_goes_on": together(GOING_ON),
    "test_a_checkpoint": IN_CHECKPOINT,
}


def damaged(path, number):
    """Changes a file; flips, which are the hardest to notice, in half of the cases."""
    rng = random.Random(number)
    change = flip if number % 2 else DAMAGES[number // 2 % len(DAMAGES)]
    data = path.read_bytes()
    path.write_bytes(change(data, rng) if data else b"x")


def or_refused(function, *args):
    """What it returns; None if it says in one line why it does not."""
    try:
        return function(*args)
    except WorkdirError as error:
        assert "\n" not in str(error) and len(str(error)) < 3000
        return None


def assert_refused(expected, refused):
    """A few may have changed nothing that is read: a space, or a date in a zip."""
    few = 1 + expected // 30
    assert max(expected - few, 0) <= refused <= expected


def config():
    return tiny(**{"train.epochs": 3, "train.keep_checkpoints": 2})


@pytest.fixture(scope="module")
def finished(tmp_path_factory, no_tensorboard):
    workdir = tmp_path_factory.mktemp("finished") / "run"
    return workdir, upsilon_jax.train(config(), workdir)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_finished_run(tmp_path, finished, name):
    """What its command, its model and its findings say is what they said before."""
    original, result = finished
    mesh = sharding.data_mesh()
    weights = lambda saved: tree_digest((saved.params, saved.stats))
    saved, found = read_saved(original, mesh), findings.load(original / FINDINGS)
    refused = 0
    for number in range(sum(FILES[name])):
        workdir = shutil.copytree(original, tmp_path / str(number))
        damaged(workdir / name, number)
        again = or_refused(upsilon_jax.train, config(), workdir)
        assert again in (None, result)
        if name == MANIFEST:
            again = or_refused(read_saved, workdir, mesh)
            assert again is None or again.manifest == saved.manifest
            assert again is None or weights(again) == weights(saved)
        if name == FINDINGS:
            again = or_refused(findings.load, workdir / FINDINGS)
            assert again is None or tree_digest(again[1:]) == tree_digest(found[1:])
        if name in SHOWN:  # made again from the others
            assert is_sound(workdir / name)
        if name in SHOWN and name != REPORT:  # which names its folder
            assert (workdir / name).read_bytes() == (original / name).read_bytes()
        refused += again is None
        shutil.rmtree(workdir)
    assert_refused(FILES[name].refused, refused)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOING_ON)
def test_a_run_that_goes_on(tmp_path, finished, name):
    _, whole = finished
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 12)
        upsilon_jax.train(config(), tmp_path / "stopped")
    refused = 0
    for number in range(sum(GOING_ON[name])):
        workdir = shutil.copytree(tmp_path / "stopped", tmp_path / str(number))
        damaged(workdir / name, number)
        result = or_refused(upsilon_jax.train, config(), workdir)
        refused += result is None
        if result is not None:
            assert result["resumed_from"]
            assert result["params_digest"] == whole["params_digest"]
            histories = (result["history"], whole["history"])
            assert without_seconds(histories[0]) == without_seconds(histories[1])
    assert_refused(GOING_ON[name].refused, refused)


@pytest.mark.slow
def test_a_checkpoint(tmp_path):
    """Each of its files in turn: the state comes back as it was, or the one before."""
    save_steps(tmp_path / "run", [3, 7])
    newest = tmp_path / "run" / "checkpoints" / "7"
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    passed_over = 0
    for number in range(sum(IN_CHECKPOINT)):
        workdir = shutil.copytree(tmp_path / "run", tmp_path / str(number))
        damaged(
            workdir / files[number % len(files)].relative_to(tmp_path / "run"), number
        )
        checkpoint, complaints = restore(workdir)
        assert tree_digest(checkpoint.state) == tree_digest(state(checkpoint.number))
        assert checkpoint.record == {"history": [checkpoint.number]}
        assert len(complaints) == (checkpoint.number == 3)
        passed_over += checkpoint.number == 3
    assert passed_over > sum(IN_CHECKPOINT) / 4


def test_a_number_that_became_another_is_noticed(tmp_path):
    path = tmp_path / RESULT
    write_json(path, make_result())
    write_sums(tmp_path, [RESULT, "absent"])
    assert read(Result, path).seed == 0 and is_sound(path)
    text = path.read_text("utf-8")
    path.write_text(text.replace('"seed": 0', '"seed": 1'), "utf-8")
    assert path.read_text("utf-8") != text and not is_sound(path)
    with pytest.raises(WorkdirError, match="is damaged: SHA256SUMS beside it"):
        read(Result, path)
    (tmp_path / SUMS).unlink()  # it was changed on purpose
    assert read(Result, path).seed == 1


def test_a_config_that_became_another_is_not_laid_to_the_user(tmp_path):
    path, asked = tmp_path / CONFIG, config().to_dict()
    write_json(path, asked)
    write_sums(tmp_path, [CONFIG])
    path.write_text(path.read_text("utf-8").replace('"seed": 0', '"seed": 1'), "utf-8")
    for override in (False, True):
        with pytest.raises(WorkdirError, match="config.json: is damaged: SHA256SUMS"):
            find_result(tmp_path, asked, override=override)
    (tmp_path / SUMS).unlink()  # it was changed on purpose
    with pytest.raises(WorkdirError, match=r"another config \(seed: 1 → 0\)"):
        find_result(tmp_path, asked, override=False)
    assert find_result(tmp_path, asked, override=True) is None  # nothing is saved yet
