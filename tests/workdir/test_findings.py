import numpy as np
import pytest

from upsilon_jax.errors import WorkdirError
from upsilon_jax.workdir import findings
from upsilon_jax.workdir.findings import Findings, Seen


def seen(count):
    row = np.arange(count)
    return Seen(
        index=row,
        path=np.array([f"heap/ä {i}.png" for i in row]),
        truth=np.full(count, -1, np.int32),
        label=(row % 2).astype(np.int32),
        probability=np.full(count, 0.75, np.float32),
        id_score=np.full(count, 0.5, np.float32),
        log_odds=np.zeros(count, np.float32),
        cluster=np.full(count, -1, np.int32),
        logits=np.arange(3 * count, dtype=np.float32).reshape(count, 3),
    )


def example():
    return Findings(
        unlabeled=seen(5),
        test=seen(0),
        pseudo_label=np.array([0, 1, -1, 2, -1], np.int32),
        features=np.ones((5, 4), np.float16),
        thumbnails=np.full((1, 8, 8, 3), 7, np.uint8),
        thumbnail_of=np.array([3]),
        test_features=np.ones((0, 4), np.float16),
    )


def test_what_is_saved_comes_back(tmp_path):
    findings.save(tmp_path / "findings.npz", example())
    found = findings.load(tmp_path / "findings.npz")
    for one, other in zip(
        [*example().unlabeled, *example().test, *example()[2:]],
        [*found.unlabeled, *found.test, *found[2:]],
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    assert [path.name for path in tmp_path.iterdir()] == ["findings.npz"]


def test_a_file_of_an_earlier_version_has_no_features_of_test_images(tmp_path):
    path = tmp_path / "findings.npz"
    findings.save(path, example()._replace(test_features=None))
    assert findings.load(path).test_features is None


@pytest.mark.parametrize("damage", ["nothing", "cut", "other"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, damage):
    path = tmp_path / "findings.npz"
    if damage == "cut":
        findings.save(path, example())
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "other":
        np.savez(path, x=np.zeros(3))
    with pytest.raises(WorkdirError, match=r"findings\.npz"):
        findings.load(path)
