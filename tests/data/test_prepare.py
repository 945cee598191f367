"""`python -m upsilon_jax.data`: what it would do, does and prints."""

import hashlib
import pathlib
import socket
import sys
import types

import numpy as np
import pytest
import scipy.io
from tensorflow_datasets.core.download import checksums

from configs import digits
from tests.data.conftest import make_archive
from upsilon_jax import commandline
from upsilon_jax.data import __main__ as data_command
from upsilon_jax.data import load_source, prepare, tfds_source
from upsilon_jax.data.builders import svhn, tiny_imagenet
from upsilon_jax.data.digest import data_digest
from upsilon_jax.errors import DataError, UserError

CONFIGS = sorted(
    path.stem
    for path in pathlib.Path("configs").glob("*.py")
    if path.stem != "__init__"
)


def test_nothing_to_do_for_data_that_is_not_of_tfds():
    assert prepare.plan("digits") == [] == prepare.plan("folder")


def test_ready_data_are_left_alone(prepared):
    root, _ = prepared
    [job] = prepare.plan("tiny_imagenet", str(root))
    assert job.action == "nothing" and "ready in" in str(job)
    prepare.prepare(job)


def test_tfrecord_is_converted_into_the_sibling(prepared, as_tfrecord):
    [job] = prepare.plan("tiny_imagenet", str(as_tfrecord))
    assert job.action == "convert"
    assert job.folder == as_tfrecord / "array_record" / "tiny_imagenet" / "1.0.0"
    seen = []
    prepare.prepare(job, progress=lambda items: (seen.append(r) or r for r in items))
    assert len(seen) == 27
    [again] = prepare.plan("tiny_imagenet", str(as_tfrecord))
    assert again.action == "nothing"
    streamed = load_source("tiny_imagenet", data_dir=str(as_tfrecord), resident=False)
    whole = load_source("tiny_imagenet", data_dir=str(prepared[0]))
    assert data_digest(streamed) == data_digest(whole)


def test_an_archive_in_the_manual_directory_needs_no_network(tmp_path, monkeypatch):
    manual = tmp_path / "downloads" / "manual"
    manual.mkdir(parents=True)
    archive = manual / tiny_imagenet.ARCHIVE
    make_archive(archive)
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(tiny_imagenet, "MD5", md5)
    monkeypatch.setattr(socket, "create_connection", no_network)
    [job] = prepare.plan("tiny_imagenet", str(tmp_path))
    assert job.action == "download" and str(manual) in str(job)
    prepare.prepare(job)
    source = load_source("tiny_imagenet", data_dir=str(tmp_path))
    assert np.bincount(source.train_labels).tolist() == [6, 6, 6]


def test_svhn_is_made_from_files_put_there_without_its_extra_images(
    tmp_path, monkeypatch
):
    manual = tmp_path / "downloads" / "manual"
    manual.mkdir(parents=True)
    infos, rng = {}, np.random.default_rng(0)
    pixels = rng.integers(0, 256, (32, 32, 3, 12), np.uint8)
    for url in svhn.URLS.values():
        path = manual / url.rpartition("/")[2]
        labels = np.arange(12)[:, None] % 10 + 1  # SVHN calls the digit 0 ten
        scipy.io.savemat(path, {"X": pixels, "y": labels.astype(np.uint8)})
        infos[url] = checksums.compute_url_info(path)
    monkeypatch.setattr(svhn.SvhnCropped, "url_infos", infos)
    monkeypatch.setattr(socket, "create_connection", no_network)
    [job] = prepare.plan("svhn", str(tmp_path))
    prepare.prepare(job)
    assert set(job.builder.info.splits) == {"train", "test"}
    source = load_source("svhn", data_dir=str(tmp_path))
    assert np.bincount(source.train_labels).tolist() == [1, 2, 2, *[1] * 7]
    found = {image.tobytes() for image in source.read("test", np.arange(12))}
    assert found == {pixels[..., i].tobytes() for i in range(12)}


def no_network(address, **_):
    raise OSError(f"no route to {address[0]}")


def test_without_a_network_it_is_one_line_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", no_network)
    monkeypatch.setattr(prepare.urllib.request, "getproxies", dict)
    [job] = prepare.plan("tiny_imagenet", str(tmp_path))
    with pytest.raises(DataError, match="cannot reach cs231n.stanford.edu") as error:
        prepare.prepare(job)
    assert f"put it into {tmp_path / 'downloads' / 'manual'}" in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "port"), [("tiny_imagenet", 80), ("cifar10", 443)])
def test_a_host_is_asked_where_it_would_answer(tmp_path, monkeypatch, name, port):
    asked = []

    def refuse(address, **_):
        asked.append(address[1])
        raise OSError("refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(prepare.urllib.request, "getproxies", dict)
    folder = tmp_path / "array_record" / "data"  # not the folder that tfds looks for
    [job] = prepare.plan(name, str(folder))
    with pytest.raises(DataError, match="cannot reach") as error:
        prepare.prepare(job)
    assert asked == [port]
    assert f"put it into {folder / 'downloads' / 'manual'}" in str(error.value)


@pytest.mark.parametrize(
    ("name", "megabytes", "url"),
    [
        ("tiny_imagenet", ["248"], "http://cs231n.stanford.edu/tiny-imagenet-200.zip"),
        ("cifar10", ["170"], "cifar-10-binary.tar.gz"),
        ("cifar10_svhn", ["170", "246"], "train_32x32.mat"),
        ("imagenet100", ["14,093"], "Imagenet64_val_npz.zip"),
    ],
)
def test_a_plan_says_how_large_and_from_where(tmp_path, name, megabytes, url):
    text = "\n".join(map(str, prepare.plan(name, str(tmp_path))))
    assert url in text and str(tmp_path / "array_record") in text
    for size in megabytes:
        assert f"download {size} MB" in text
    assert f"or taken from {tmp_path / 'downloads' / 'manual'}" in text
    assert not list(tmp_path.iterdir())  # looking leaves nothing behind


def command(*argv, **data):
    """The command on a config that is made here."""
    config = digits.get_config("baseline")
    config.data.update(data)
    told = types.SimpleNamespace(dry_run="--dry-run" in argv)
    data_command.main(commandline.Options(told, config=config))


def test_the_command_prints_the_split(capsys):
    command()
    out = capsys.readouterr().out
    assert "1,200 train and 597 test images of 8×8×1" in out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    assert rows["0"] == ["5", "59", "67", "50", "34", "17", "0"]
    assert rows["9"] == ["0", "0", "0", "25", "50", "75", "100"]
    assert rows["total"] == ["30", "362", *["400"] * 5]
    assert out.count("split digest") == 5


def test_a_ratio_that_cannot_be_has_a_line(capsys):
    command(num_unlabeled=600)
    out = capsys.readouterr().out
    assert "100 % mismatch: data.num_unlabeled=600" in out
    assert "D_u 75 %" in out and "D_u 100 %" not in out


def test_a_dry_run_only_talks(capsys, tmp_path):
    command("--dry-run", name="tiny_imagenet", data_dir=str(tmp_path))
    assert "download 248 MB" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_what_the_data_do_not_have_is_an_error_of_the_user():
    with pytest.raises(UserError, match="data.id_classes: no class 'zero'"):
        command(id_classes=("zero", "1"))


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["configs/folder.py"], "data.labeled is empty"),
        (["configs/npz.py", "--config.data.path=nowhere"], "data.path=nowhere"),
    ],
)
def test_data_that_are_not_there_are_one_line(capsys, argv, told):
    assert commandline.call(data_command.COMMAND, data_command.main, argv) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1


def test_without_tfds_a_line_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(DataError, match=r"pip install 'upsilon_jax\[cpu\]'"):
        prepare.plan("cifar10", str(tmp_path))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_dry_run_of_every_config_says_something(capsys, tmp_path, name):
    argv = [f"configs/{name}.py", "--dry-run", f"--config.data.data_dir={tmp_path}"]
    assert commandline.call(data_command.COMMAND, data_command.main, argv) == 0
    out = capsys.readouterr().out
    assert "nothing to prepare" in out or "MB into" in out


def test_the_page_has_the_files_of_every_benchmark(tmp_path):
    page = pathlib.Path("docs/benchmarks.md").read_text("utf-8")
    for name in tfds_source.FACTS:
        [job] = prepare.plan(name, str(tmp_path))
        assert job.urls and all(url.rpartition("/")[2] in page for url in job.urls)
        assert f"| {sum(job.urls.values()) / 1e6:,.0f} |" in page
