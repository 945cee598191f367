"""Training by two real processes, as on two hosts."""

import json
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

from upsilon_jax.workdir import findings

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = """
import sys
import jax
import pytest
index, port, streamed, workdir = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
if port != "0":
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=index)
else:
    jax.config.update("jax_num_cpu_devices", 2)
import upsilon_jax
from tests.no_writers import leave_out_writers
from tests.training.tiny_run import tiny
from upsilon_jax.training import estimate, setup as run
estimate._FEWEST_CALLS = 1  # they also time their steps together
leave_out_writers(pytest.MonkeyPatch())
if streamed == "streamed":
    original, seen = run.open_source, []
    def open_source(config):
        source = original(config)
        def read(split, indices):
            seen.append((split, len(indices)))
            return source.read(split, indices)
        return source._replace(resident=False, read=read)
    run.open_source = open_source
changes = {"train.epochs": 4, "data.num_unlabeled": 97}  # an odd number is padded
result = upsilon_jax.train(tiny(**changes), workdir)
if streamed == "streamed":  # half of a batch of 32, and of a padded chunk
    assert {16, 49} <= {count for _, count in seen}, seen
    assert 32 not in {count for split, count in seen if split == "train"}, seen
print("digest", result["params_digest"])
"""


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def start(index, port, streamed, workdir):
    args = [str(index), str(port), streamed, str(workdir)]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *args],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return out.split("digest ")[1].strip()


@pytest.mark.slow
@pytest.mark.parametrize("images", ["resident", "streamed"])
def test_two_processes_train_as_one_with_two_devices(tmp_path, images):
    port = free_port()
    processes = [start(index, port, images, tmp_path / "two") for index in (0, 1)]
    digests = {finish(process) for process in processes}
    assert len(digests) == 1  # both hold the same weights
    finish(start(0, 0, "resident", tmp_path / "one"))
    read = lambda name: json.loads((tmp_path / name / "result.json").read_text())
    one, two = read("one"), read("two")
    assert two["status"] == "finished" and len(two["history"]) == 4
    # Sums over processes may be rounded in another order than sums over devices, and
    # training makes a difference larger: only the first labels must be the same.
    for left, right in zip(one["history"], two["history"], strict=True):
        assert left["labeled_loss"] == pytest.approx(right["labeled_loss"], rel=1e-2)
    first, same = (run["history"][1]["num_selected"] for run in (one, two))
    assert first == same > 0
    found = [findings.load(tmp_path / name / "findings.npz") for name in ("one", "two")]
    assert [len(f.features) for f in found] == [97, 97]
    np.testing.assert_array_equal(*(f.unlabeled.index for f in found))
    assert np.mean(found[0].pseudo_label == found[1].pseudo_label) > 0.95
    for part in ("unlabeled", "test"):  # about a percent of the largest, as the loss
        logits = (getattr(f, part).logits for f in found)
        np.testing.assert_allclose(*logits, rtol=0, atol=0.05)
