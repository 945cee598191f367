import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from PIL import Image

import upsilon_jax
from tests.workdir.test_checkpoint import snapshot
from upsilon_jax.errors import DataError, WorkdirError
from upsilon_jax.inference.export import write_export
from upsilon_jax.inference.saved import read_saved
from upsilon_jax.runtime.sharding import data_mesh
from upsilon_jax.workdir.checkpoint import Checkpoints

PACKAGE = pathlib.Path(upsilon_jax.__file__).parent


@pytest.fixture(scope="module")
def model(run):
    return upsilon_jax.load(run.workdir)


def test_a_model_is_the_averaged_one_of_the_last_epoch(run, model):
    known = run.label < 6
    predicted = model(run.images[known])
    right = np.mean(predicted.label == run.label[known])
    assert right == run.result.accuracy_last == run.result.history[-1].accuracy
    assert predicted.logits.shape == (known.sum(), 10)
    assert predicted.logits.dtype == np.float32
    assert model.classes == tuple("012345") and model.image_shape == (8, 8, 1)
    assert model.manifest.num_clusters == 4 and not model.notes
    names = np.array(model.classes)[predicted.label]
    np.testing.assert_array_equal(predicted.class_name, names)


def test_outputs_do_not_depend_on_the_batch(run, model):
    together = model(run.images[:300]).logits  # two batches of 256
    one_by_one = [model(run.images[row : row + 1]).logits[0] for row in (0, 255, 299)]
    np.testing.assert_allclose(together[[0, 255, 299]], one_by_one, atol=1e-5)
    few = model(run.images[:5]).logits
    np.testing.assert_allclose(together[:5], few, atol=1e-5)


def test_images_of_any_kind_are_fitted_as_in_training(run, model):
    grey = run.images[:3, :, :, 0]
    expected = model(run.images[:3]).logits
    np.testing.assert_array_equal(model(grey).logits, expected)
    larger = grey.repeat(4, axis=1).repeat(2, axis=2)  # stretched back, pixel by pixel
    np.testing.assert_array_equal(model(larger).logits, expected)
    colour = np.stack([grey] * 3, axis=-1)
    np.testing.assert_array_equal(model(colour).logits, expected)
    opaque = np.concatenate([colour, np.full((3, 8, 8, 1), 255, np.uint8)], axis=-1)
    np.testing.assert_array_equal(model(opaque).logits, expected)
    unequal = [grey[0], larger[1], colour[2]]
    found = model(unequal)
    np.testing.assert_array_equal(found.logits, expected)
    assert found.index.tolist() == [0, 1, 2] and set(found.path) == {""}
    odd = model(np.zeros((2, 37, 5, 3), np.uint8))
    assert odd.label[0] == odd.label[1]


def test_what_is_transparent_is_seen_on_white(model):
    nothing = np.zeros((1, 9, 9, 4), np.uint8)
    white = np.full((1, 9, 9), 255, np.uint8)
    np.testing.assert_array_equal(model(nothing).logits, model(white).logits)


@pytest.mark.parametrize(
    ("images", "told"),
    [
        (np.zeros((2, 8, 8)), "must be uint8"),
        (np.zeros((8, 8), np.uint8), r"got uint8 \[8, 8\]"),
        (np.zeros((2, 8, 8, 5), np.uint8), "channels"),
        (np.zeros((2, 0, 8), np.uint8), "must be uint8"),
        (np.zeros((30, 20, 3), np.uint8), r"images\[None\]"),
        ([np.zeros((8, 8), np.float32)], r"images\[0\]: must be uint8"),
        ("no/such", "no/such: there is no such file or folder"),
        (5, r"images: no images, nor a path \(int\)"),
        ([[[0, 1], [2, 3]]], r"no images, nor a path \(int\)"),
    ],
)
def test_what_is_no_image_is_one_line(model, images, told):
    with pytest.raises(DataError, match=told):
        model(images)


def test_no_images_are_no_rows(model):
    predicted = model(np.zeros((0, 8, 8), np.uint8))
    assert predicted.label.shape == (0,) and predicted.logits.shape == (0, 10)
    assert predicted.class_name.shape == (0,)


def test_a_folder_is_read_at_any_depth_and_says_what_it_left_out(run, model, folder):
    predicted = model(folder)
    paths = sorted(folder.rglob("*.png"))
    assert predicted.path.tolist() == [str(path) for path in paths]
    places = [int(path.stem) for path in paths]
    np.testing.assert_allclose(
        predicted.logits, model(run.images[places]).logits, atol=1e-6
    )
    ((file, why),) = predicted.skipped
    assert file.endswith("cut, off.jpg") and why
    with pytest.raises(DataError, match=r"cut, off\.jpg: "):  # rows would not match
        model([paths[0], folder / "0" / "cut, off.jpg"])


def test_files_of_any_mode_and_arrays_in_a_file(tmp_path, run, model):
    pixels = run.images[0, :, :, 0]
    Image.fromarray(pixels).save(tmp_path / "grey.png")
    Image.fromarray(pixels).convert("RGBA").save(tmp_path / "alpha.png")
    Image.fromarray(pixels).convert("P").save(tmp_path / "palette.gif")
    Image.fromarray(pixels.astype(np.uint16) * 256).save(tmp_path / "deep.png")
    np.savez(tmp_path / "some.npz", x=run.images[:2])
    files = ["grey.png", "alpha.png", "palette.gif", "deep.png"]
    expected = model(run.images[:1]).logits[0]
    for row in model([tmp_path / name for name in files]).logits:
        np.testing.assert_allclose(row, expected, atol=1e-5)
    two = model(tmp_path / "some.npz")
    assert two.index.tolist() == [0, 1] and two.path[0].endswith("some.npz")
    np.savez(tmp_path / "other.npz", y=run.images[:2])
    with pytest.raises(DataError, match=r"other\.npz: has no x"):
        model(tmp_path / "other.npz")


def test_a_damaged_checkpoint_is_passed_over_with_a_line(run, model, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.workdir, copy)
    numbers = sorted(int(path.name) for path in (copy / "checkpoints").iterdir())
    # Any of its files may hold the weights that predict: damage all of them.
    state = copy / "checkpoints" / str(numbers[-1]) / "state"
    for file in (path for path in state.rglob("d/*") if path.is_file()):
        file.write_bytes(bytes(255 - byte for byte in file.read_bytes()))
    before = snapshot(copy)
    older = upsilon_jax.load(copy)
    (note,) = older.notes
    assert f"checkpoint {numbers[-1]} cannot be used" in note
    assert not np.array_equal(
        older(run.images[:4]).logits, model(run.images[:4]).logits
    )
    assert snapshot(copy) == before


def test_a_path_that_is_no_model_is_one_line(run, tmp_path):
    cases = {tmp_path / "none": "no such folder or file", tmp_path: "is no run"}
    for path, told in cases.items():
        with pytest.raises(WorkdirError, match=told):
            upsilon_jax.load(path)
    seed = tmp_path / "seed_3"
    seed.mkdir()
    shutil.copy(run.workdir / "manifest.json", seed)
    with pytest.raises(WorkdirError, match=r"several seeds; name one: .*seed_3"):
        upsilon_jax.load(tmp_path)
    with pytest.raises(WorkdirError, match="none was saved"):
        upsilon_jax.load(seed)
    broken = (seed / "manifest.json").read_text().replace('"depth"', '"deep"')
    (seed / "manifest.json").write_text(broken)
    with pytest.raises(WorkdirError, match="no network of this version"):
        upsilon_jax.load(seed)


def save_from_8_devices(run, workdir):
    """The weights of the run, saved as a run on 8 devices would."""
    saved = read_saved(run.workdir, data_mesh(jax.devices()))
    assert all(len(x.devices()) == 8 for x in jax.tree.leaves(saved.params))
    workdir.mkdir()
    shutil.copy(run.workdir / "manifest.json", workdir)
    state = {"step": np.int32(9), "ema": (saved.params, saved.stats)}
    with contextlib.closing(Checkpoints(workdir, keep=1)) as checkpoints:
        checkpoints.save(9, state, {})


BARE = """
import sys
import numpy as np
import upsilon_jax
exported = upsilon_jax.load("model.upsilon")
images = np.load("images.npy")
first = exported(images).logits
heavy = {"flax", "orbax", "configs", "tensorflow"} & set(sys.modules)
assert not heavy, heavy
import jax
assert jax.device_count() == 1
saved = upsilon_jax.load("run")
np.savez("logits.npz", exported=first, saved=saved(images).logits)
try:
    import configs
except ImportError:
    print("no configs", exported.classes == saved.classes)
"""


def test_a_bare_process_on_one_device_has_the_same_numbers(run, model, tmp_path):
    """Nothing but the package: no configs, no data, and one device instead of 8."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "upsilon_jax").symlink_to(PACKAGE)
    save_from_8_devices(run, tmp_path / "run")
    write_export(tmp_path / "model.upsilon", read_saved(run.workdir, data_mesh()))
    np.save(tmp_path / "images.npy", run.images[:40])
    path = str(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-c", BARE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "UPSILON_NATIVE": "0", "XLA_FLAGS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "no configs True"
    with np.load(tmp_path / "logits.npz") as found:
        np.testing.assert_allclose(found["exported"], found["saved"], atol=1e-5)
        here = model(run.images[:40]).logits
        np.testing.assert_allclose(found["saved"], here, atol=1e-4)
