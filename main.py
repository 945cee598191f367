"""Trains a config, or goes on with it:  python main.py --config=configs/tin.py:upsilon.

Without any flag: the Υ-Model on the embedded handwritten digits. `--config` files are
executed as Python, so run only those you trust.
"""

import pathlib

from upsilon_jax import commandline

EXIT_DIVERGED = 3  # the loss was not finite

COMMAND = commandline.Command(
    name="main.py",
    about=__doc__,
    flags={
        "workdir": (None, "where results go [runs/NAME-METHOD-mMISMATCH-sSEED]"),
        "override_config": (False, "go on with a workdir whose stored config differs"),
        "distributed": (False, "join the other processes of a cluster"),
    },
)


def main(options: commandline.Options) -> int:
    """Trains, and says how it went."""
    # After the flags are parsed: a mistyped flag should not wait for these imports.
    import upsilon_jax
    from upsilon_jax.workdir.schema import DIVERGED
    from upsilon_jax.workdir.summary import summary

    if options.flags.distributed:
        import jax

        jax.distributed.initialize()
    name = commandline.run_name(options.config_name, options.config)
    workdir = pathlib.Path(options.flags.workdir or pathlib.Path("runs") / name)
    result = upsilon_jax.train(
        options.config, workdir, override_config=options.flags.override_config
    )
    print(summary(result, workdir))
    return EXIT_DIVERGED if result["status"] == DIVERGED else 0


if __name__ == "__main__":
    commandline.run(COMMAND, main)
