"""An exported model from others is what it says, or refused before it runs."""

import json
import types
import zipfile

import jax
import numpy as np
import pytest

import upsilon_jax
from tests.report.page.example_run import make_manifest
from upsilon_jax.errors import WorkdirError
from upsilon_jax.inference import export
from upsilon_jax.inference.saved import shapes_of

CLASSES = ["a", "b"]


@pytest.fixture
def manifest():
    """Of a network of images 4×4×1, two classes and a cluster."""
    return make_manifest(
        CLASSES,
        num_clusters=1,
        foreign_below=None,
        ood_classes=[],
        image_shape=[4, 4, 1],
        mean=[0.5],
        std=[0.5],
        fit="stretch",
        model={},
        method={},
    )


OUTSIDE = "a_function_of_the_process"
logits = lambda x: x.reshape(x.shape[0], 16)[:, :3].astype(np.float32)


def write(path, manifest, function=logits):
    (batch,) = jax.export.symbolic_shape("batch")
    images = jax.ShapeDtypeStruct((batch, 4, 4, 1), np.uint8)
    outside = jax.export.DisabledSafetyCheck.custom_call(OUTSIDE)
    made = jax.export.export(jax.jit(function), disabled_checks=[outside])(images)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_program", lambda _: made)
        export.write_export(path, types.SimpleNamespace(manifest=manifest))
    return path


def test_a_sound_file_is_read(tmp_path, manifest):
    model = upsilon_jax.load(write(tmp_path / "m", manifest))
    said = model(np.full((2, 4, 4, 1), 7, np.uint8))
    assert model.classes == ("a", "b") and (said.logits == 7).all()


def test_a_program_that_calls_code_of_the_process_is_not_run(tmp_path, manifest):
    def call(images):
        shape = jax.ShapeDtypeStruct((images.shape[0], 3), np.float32)
        return jax.ffi.ffi_call(OUTSIDE, shape)(images)

    path = write(tmp_path / "m", manifest, call)
    with pytest.raises(WorkdirError, match=f"its program calls '{OUTSIDE}': not run"):
        upsilon_jax.load(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("image_shape", [4, 4]),
        ("image_shape", [4, 4, 2]),
        ("image_shape", [10**9, 10**9, 1]),
        ("mean", [0.5, 0.5]),
        ("std", [0]),
        ("fit", "__import__"),
        ("classes", ["a"]),
        ("num_clusters", -1),
    ],
)
def test_a_manifest_that_describes_nothing_is_refused(tmp_path, manifest, field, value):
    path = write(tmp_path / "m", manifest._replace(**{field: value}))
    with pytest.raises(WorkdirError, match=f"m: '{field}' does not fit"):
        upsilon_jax.load(path)


def test_a_manifest_of_another_program_is_refused(tmp_path, manifest):
    path = write(tmp_path / "m", manifest._replace(num_clusters=7))
    with pytest.raises(WorkdirError, match="program and its manifest do not fit"):
        upsilon_jax.load(path)


def rewritten(path, compression=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()} | members
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def test_what_was_changed_after_it_was_written_is_refused(tmp_path, manifest):
    path = write(tmp_path / "m", manifest)
    with zipfile.ZipFile(path) as archive:
        changed = json.loads(archive.read("manifest.json"))
    changed["classes"] = ["b", "a"]
    rewritten(path, **{"manifest.json": json.dumps(changed)})
    with pytest.raises(WorkdirError, match="its digest does not fit"):
        upsilon_jax.load(path)


def test_what_could_unpack_to_much_is_refused(tmp_path, manifest):
    path = rewritten(write(tmp_path / "m", manifest), zipfile.ZIP_DEFLATED)
    with pytest.raises(WorkdirError, match="manifest.json is compressed"):
        upsilon_jax.load(path)


NETWORKS = [{"width": 0.5}, {"depth": -2}, {"depth": 6 * 10**9 + 4}, {"dtype": "int7"}]


@pytest.mark.parametrize("fields", NETWORKS)
def test_a_network_that_cannot_be_is_one_line(manifest, fields):
    model = {"name": "wide_resnet", "depth": 10, "width": 1, "dtype": "float32"}
    heads = {"logits": {"size": 3}}
    assert shapes_of(manifest._replace(model=model, heads=heads, image_shape=[8, 8, 1]))
    changed = manifest._replace(
        model=model | fields, heads=heads, image_shape=[8, 8, 1]
    )
    with pytest.raises(WorkdirError, match="manifest.json describes no network"):
        shapes_of(changed)
