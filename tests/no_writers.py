"""Runs without TensorBoard: importing TensorFlow takes longer than a short run."""


def leave_out_writers(patch):
    """Lets a `pytest.MonkeyPatch` do it, which fails if the method is gone."""
    patch.setattr("upsilon_jax.workdir.observer.Observer._open_writers", lambda *_: [])
