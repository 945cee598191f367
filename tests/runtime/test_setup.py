"""What training leaves to the process, and what `setup` makes of it."""

import os
import subprocess
import sys

CODE = """
import os, signal, jax
before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
import upsilon_jax
from upsilon_jax.training import seeds, loop
state = lambda: (
    signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM),
    jax.config.jax_compilation_cache_dir, dict(os.environ),
)
unchanged = state()
def train_run(config, workdir, **kwargs):
    assert state() == unchanged
    raise KeyboardInterrupt
seeds.train_run = train_run
from upsilon_jax.config import load_config
try:
    upsilon_jax.train(load_config("digits"), "nowhere")
except KeyboardInterrupt:
    pass
assert state() == unchanged
from upsilon_jax import runtime
runtime.setup()
assert state()[:2] != unchanged[:2]
print(jax.config.jax_compilation_cache_dir)
"""


def test_only_setup_changes_the_process(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "upsilon_jax" / "compiled")
    assert (tmp_path / "upsilon_jax" / "compiled").stat().st_mode & 0o777 == 0o700
