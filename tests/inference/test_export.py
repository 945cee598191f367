import json
import zipfile

import jax
import numpy as np
import pytest

import upsilon_jax
from upsilon_jax.errors import WorkdirError
from upsilon_jax.inference.export import write_export
from upsilon_jax.inference.saved import read_saved
from upsilon_jax.runtime.sharding import data_mesh


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "my model"  # no ending is added
    write_export(path, read_saved(run.workdir, data_mesh()))
    assert [file.name for file in path.parent.iterdir()] == ["my model"]
    return path


def test_the_program_alone_serves_any_batch_on_any_platform(run, exported):
    with zipfile.ZipFile(exported) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        program = jax.export.deserialize(bytearray(archive.read("logits.stablehlo")))
    assert manifest["classes"] == list("012345")
    assert program.platforms == ("cpu", "cuda", "tpu")
    assert "upsilon_jax." not in program.mlir_module()  # no C++ of ours
    (images,) = program.in_avals
    assert images.dtype == np.uint8 and images.shape[1:] == (8, 8, 1)
    expected = upsilon_jax.load(exported)(run.images[:3]).logits
    for count in (1, 3):  # without a line of this package
        logits = program.call(run.images[:count])
        np.testing.assert_allclose(logits, expected[:count], atol=1e-5)


def test_a_loaded_file_has_all_that_a_run_has(run, exported):
    model, file = upsilon_jax.load(run.workdir), upsilon_jax.load(exported)
    assert file.manifest == model.manifest and file.image_shape == model.image_shape
    one, other = model(run.images), file(run.images)
    np.testing.assert_allclose(one.logits, other.logits, atol=1e-4)
    assert np.mean(one.label == other.label) > 0.99


def test_a_file_that_is_no_export_is_one_line(exported, tmp_path):
    data = bytearray(exported.read_bytes())
    data[len(data) // 2] ^= 1
    cases = {"damaged": bytes(data), "cut": bytes(data[:-100]), "text": b"hello"}
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(WorkdirError, match=f"{name}: is no exported model, or dam"):
            upsilon_jax.load(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "other", "w") as archive:
        archive.writestr("manifest.json", json.dumps({"format": 99}))
        archive.writestr("logits.stablehlo", b"")
    with pytest.raises(WorkdirError, match="no manifest of format"):
        upsilon_jax.load(tmp_path / "other")
