"""Trains a config, or goes on with it:  python main.py --config=configs/tin.py:upsilon.

Without any flag: the Υ-Model on the embedded handwritten digits. `--config` files are
executed as Python, so run only those you trust.
"""

import pathlib

from absl import flags

from upsilon_jax import commandline

commandline.define_config()
WORKDIR = flags.DEFINE_string(
    "workdir", None, "Where results go; default: runs/NAME-METHOD-mMISMATCH-sSEED."
)
OVERRIDE = flags.DEFINE_bool(
    "override_config", False, "Go on with a workdir whose stored config differs."
)
DISTRIBUTED = flags.DEFINE_bool(
    "distributed", False, "Join the other processes of a cluster (jax.distributed)."
)


def main() -> None:
    """Trains, and says how it went."""
    # After the flags are parsed: a mistyped flag should not wait for these imports.
    import upsilon_jax
    from upsilon_jax.workdir.summary import summary

    if DISTRIBUTED.value:
        import jax

        jax.distributed.initialize()
    config = commandline.get_config()
    workdir = pathlib.Path(
        WORKDIR.value or pathlib.Path("runs") / commandline.run_name(config)
    )
    result = upsilon_jax.train(config, workdir, override_config=OVERRIDE.value)
    print(summary(result, workdir))


if __name__ == "__main__":
    commandline.run(main)
