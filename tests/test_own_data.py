"""Users with images of their own, from the config to the result."""

import csv
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import upsilon_jax
from configs import cifar10, folder, npz
from upsilon_jax.data import load_source
from upsilon_jax.errors import ConfigError, DataNotPrepared, WorkdirError
from upsilon_jax.training import loop
from upsilon_jax.training.setup import prepare
from upsilon_jax.workdir import findings
from upsilon_jax.workdir.summary import summary as summary_of

ROOT = pathlib.Path(__file__).parent.parent
CLASSES = ("across", "down", "slanted")  # of six patterns; the other three are foreign
SIZE = 12
NEED_TRUTH = {"ood_share", "pseudo_accuracy", "kl_id", "kl_ood"}


def pattern(kind, rng):
    """Stripes in three directions, a disc, a frame or a grid, in two random colours."""
    y, x = np.mgrid[:SIZE, :SIZE] + rng.integers(0, 4)
    centre = np.hypot(*(np.mgrid[:SIZE, :SIZE] - SIZE / 2))
    shape = {
        0: y % 4 < 2,
        1: x % 4 < 2,
        2: (x + y) % 6 < 3,
        3: centre < 4,
        4: abs(centre - 4) < 1,
        5: (x % 3 == 0) | (y % 3 == 0),
    }[kind]
    light, dark = rng.integers(170, 256, 3), rng.integers(0, 80, 3)
    return np.where(shape[..., None], light, dark).astype(np.uint8)


def patterns(per_kind, kinds, seed):
    """([n, SIZE, SIZE, 3] uint8, [n] kinds)."""
    rng, labels = np.random.default_rng(seed), np.repeat(np.arange(kinds), per_kind)
    return np.stack([pattern(kind, rng) for kind in labels]), labels


def save_classes(images, labels, names, directory):
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = directory / names[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:04d}.png")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Folders labeled, unlabeled (half of it foreign, one file bad) and test."""
    root = tmp_path_factory.mktemp("photos")
    save_classes(*patterns(10, 3, seed=0), CLASSES, root / "labeled")
    save_classes(*patterns(20, 3, seed=1), CLASSES, root / "test")
    save_classes(*patterns(12, 6, seed=2), ["any"] * 6, root / "unlabeled")
    (root / "unlabeled" / "broken.jpg").write_bytes(b"\xff\xd8\xff no more of it")
    return root


def small(config, **changes):
    """A network and a run that take seconds; no augmentation, to compile faster."""
    config.data.augmentation = "none"
    config.model.update(depth=10, width=1, bn_decay=0.5)
    config.train.update(epochs=3, ema_decay=0.5)
    if "threshold" in config.method:
        config.method.threshold = 0.6
    config.update_from_flattened_dict(changes)
    return config


def folder_config(photos, method="upsilon", **changes):
    config = folder.get_config(method)
    for part in ("labeled", "unlabeled", "test"):
        config.data[part] = str(photos / part)
    return small(config, **{"data.image_size": SIZE, **changes})


@pytest.fixture(autouse=True, scope="module")
def quick_runs(no_tensorboard):
    """No test here looks at what TensorBoard gets."""


@pytest.fixture(scope="module")
def trained(photos, tmp_path_factory):
    """(workdir, result, what was printed) of the Υ-Model on the folder."""
    workdir, said = tmp_path_factory.mktemp("run"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "upsilon_jax.workdir.observer.Observer.say",
            lambda _, line: said.append(line),
        )
        result = upsilon_jax.train(folder_config(photos), workdir)
    return workdir, result, said


def test_a_folder_trains_above_chance(trained):
    _, result, _ = trained
    assert result["status"] == "finished" and result["classes"] == list(CLASSES)
    # 60 test images: chance is 1/3, five standard deviations above it are 0.64
    assert result["history"][-1]["accuracy_live"] > 0.64


def test_metrics_that_need_the_truth_are_absent(trained):
    workdir, result, _ = trained
    assert result["history"][-1]["num_selected"] > 0
    for entry in result["history"]:
        assert not NEED_TRUTH & entry.keys()
    assert "pseudo-labels" in (summary := summary_of(result, workdir))
    assert "OOD" not in summary
    assert (workdir / "curves.png").stat().st_size > 10_000


def test_every_photo_of_the_heap_is_accounted_for_and_can_be_shown(trained, photos):
    workdir, result, _ = trained
    with open(workdir / "unlabeled.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    heap = sorted(str(path) for path in (photos / "unlabeled").rglob("*.png"))
    assert sorted(row["path"] for row in rows) == heap and "truth" not in rows[0]
    labels = [row["pseudo_label"] for row in rows if row["pseudo_label"]]
    assert len(labels) == result["history"][-1]["num_selected"]
    found = findings.load(workdir / "findings.npz")
    assert found.thumbnails.shape[1:] == (SIZE, SIZE, 3)
    numbers = [i for i in found.thumbnail_of if i < len(rows)]
    for picture, number in zip(found.thumbnails, numbers, strict=False):
        image = Image.open(found.unlabeled.path[number])
        np.testing.assert_array_equal(picture, np.asarray(image))


def test_what_was_chosen_is_printed_and_stored(trained):
    _, result, said = trained
    stored = result["config"]
    # 30 labeled and 72 unlabeled images of 3 classes
    assert stored["train"]["batch_size"] == 16 and stored["data"]["channels"] == 3
    assert stored["method"]["num_clusters"] == 2
    assert stored["train"]["epochs"] == 3 and stored["train"]["pretrain_epochs"] == 1
    [line] = [line for line in said if line.startswith("chosen from the data")]
    for choice in ("train.batch_size=16", "method.num_clusters=2", "data.channels=3"):
        assert choice in line
    assert "train.epochs" not in line and "image_size" not in line  # were given
    assert "30 labeled, 72 unlabeled and 60 test images" in said


def test_skipped_files_are_counted_and_listed_in_the_workdir(trained, photos):
    workdir, _, said = trained
    [line] = (workdir / "skipped.txt").read_text("utf-8").splitlines()
    path, reason = line.split("\t")
    assert path == str(photos / "unlabeled" / "broken.jpg") and reason
    assert any(str(workdir / "skipped.txt") in told and "1" in told for told in said)


def test_the_same_command_again_returns_the_result(trained, photos, monkeypatch):
    workdir, result, _ = trained
    monkeypatch.setattr(loop, "_opened", None)  # would fail if called
    assert upsilon_jax.train(folder_config(photos), workdir) == result
    changed = folder_config(photos, **{"train.batch_size": 8})
    with pytest.raises(WorkdirError, match="train.batch_size: 16 → 8"):
        upsilon_jax.train(changed, workdir)


@pytest.mark.slow
def test_an_interrupted_run_on_a_folder_goes_on(photos, tmp_path, monkeypatch, trained):
    def stop(run, progress, *rest, original=loop._finish_epoch):
        if progress.epoch == 2:
            raise KeyboardInterrupt
        original(run, progress, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_finish_epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            upsilon_jax.train(folder_config(photos), tmp_path)
    result = upsilon_jax.train(folder_config(photos), tmp_path)
    assert len(result["resumed_from"]) == 1
    assert result["params_digest"] == trained[1]["params_digest"]


@pytest.mark.parametrize("method", ["oracle", "open_set", "re_assigned"])
def test_a_strategy_that_reads_the_truth_is_refused(photos, tmp_path, method):
    with pytest.raises(ConfigError, match=f"{method}.*true classes.*folder"):
        upsilon_jax.train(folder_config(photos, method), tmp_path)


def save_npz(path, **arrays):
    x_train, y_train = patterns(10, 3, seed=0)
    x_test, y_test = patterns(20, 3, seed=1)
    common = dict(x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    np.savez(path, **common | arrays)
    return str(path)


def test_an_npz_of_the_same_images_gives_the_same_run(tmp_path, trained):
    """Above chance, too, as the folder is: every bit is the same."""
    config = small(npz.get_config())
    config.data.path = save_npz(
        tmp_path / "my.npz",
        x_unlabeled=patterns(12, 6, seed=2)[0],
        class_names=np.array(CLASSES),
    )
    result = upsilon_jax.train(config, tmp_path / "run")
    assert result["classes"] == trained[1]["classes"]
    assert result["params_digest"] == trained[1]["params_digest"]
    assert not (tmp_path / "run" / "skipped.txt").exists()
    assert upsilon_jax.train(config, tmp_path / "run") == result


@pytest.mark.slow
def test_an_npz_without_unlabeled_images_is_split_by_class(tmp_path):
    config = small(npz.get_config("pl"))
    x_train, y_train = patterns(10, 6, seed=0)
    config.data.path = save_npz(tmp_path / "x.npz", x_train=x_train, y_train=y_train)
    with pytest.raises(ConfigError, match="data.labels_per_class=0 .* must be given"):
        prepare(config)
    config.data.update(labels_per_class=4, mismatch=0.5)
    config.data.update(id_classes=("0", "1", "2"), ood_classes=("rest",))
    run = prepare(config)
    # 3 × 6 images of the classes to learn are left, and as many foreign ones go in
    assert np.bincount(run.hidden).tolist() == [6] * 6
    assert (run.splits.num_classes, len(run.splits.test)) == (3, 60)
    assert run.config.train.batch_size == 8  # of 12 labeled images


@pytest.mark.slow
def test_the_command_on_a_folder(photos, tmp_path):
    args = [f"--config.data.{p}={photos / p}" for p in ("labeled", "unlabeled")]
    done = subprocess.run(
        [sys.executable, str(ROOT / "main.py")]
        + [f"--config={ROOT / 'configs/folder.py'}:baseline", *args]
        + ["--config.train.epochs=2", "--config.model.depth=10"]
        + ["--config.data.augmentation=none"],  # compiles faster
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "no data.test: 6 of 30 labeled images held out" in done.stderr
    assert "files left out: 1" in done.stderr
    assert "baseline on folder: finished" in done.stdout
    assert (tmp_path / "runs/folder-baseline-s0/result.json").exists()


def real_cifar10(**options):
    try:
        return load_source("cifar10", **options)
    except DataNotPrepared as error:
        pytest.skip(f"needs the real CIFAR-10: {error}")


@pytest.mark.slow
def test_a_folder_of_real_cifar10_images_trains(tmp_path):
    source = real_cifar10(resident=False)
    names = ("automobile", "deer", "ship", "frog", "cat", "truck")  # the last 3 foreign
    parts = {"labeled": (3, 0, 30), "unlabeled": (6, 30, 50), "test": (3, 80, 50)}
    for part, (kinds, start, count) in parts.items():
        for name in names[:kinds]:
            of_class = source.train_labels == source.class_names.index(name)
            chosen = np.flatnonzero(of_class)[start : start + count]
            images = source.read("train", chosen)
            save_classes(images, [0] * count, [name], tmp_path / part)
    config = folder_config(
        tmp_path, **{"train.epochs": 8, "data.image_size": None, "data.flip": True}
    )
    result = upsilon_jax.train(config, tmp_path / "run")
    assert result["config"]["data"]["image_size"] == 32
    # 150 test images: chance is 1/3, three standard deviations above it are 0.45
    assert result["history"][-1]["accuracy"] > 0.45


@pytest.mark.slow
def test_real_cifar10_resident_and_streamed_have_the_same_losses(tmp_path):
    real_cifar10(resident=False)
    results = {}
    for residency in ("resident", "stream"):
        config = small(cifar10.get_config())
        config.data.update(residency=residency, labels_per_class=10, num_unlabeled=64)
        config.train.update(batch_size=16, pretrain_epochs=1)
        config.method.update(threshold=0.2, ood_threshold=0.2)
        results[residency] = upsilon_jax.train(config, tmp_path / residency)
    resident, stream = results["resident"], results["stream"]
    assert resident["history"][-1]["num_selected"] > 0
    for left, right in zip(resident["history"], stream["history"], strict=True):
        assert left["loss"] == right["loss"]  # every bit of the sum over the epoch
        assert left["accuracy"] == right["accuracy"]
    assert resident["params_digest"] == stream["params_digest"]
