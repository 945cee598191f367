"""Trains a config, or goes on with it:  python main.py --config=configs/tin.py:upsilon.

Without any flag: the Υ-Model on the embedded handwritten digits. `--config` files are
executed as Python, so run only those you trust. Installed, the command is `upsilon-jax`
instead of `python main.py`. Other modes use a run that was trained:

    python main.py --mode=predict --workdir=RUN --images=DIR [--output=FILE.csv]
    python main.py --mode=evaluate --workdir=RUN --images=DIR [--output=FILE.json]
    python main.py --mode=export --workdir=RUN [--output=FILE]
    python main.py --mode=report --workdir=RUN
"""

from upsilon_jax import commandline
from upsilon_jax.errors import ExitCode
from upsilon_jax.runtime import messages

COMMAND = commandline.Command(
    name="main.py",
    about=__doc__,
    flags={
        "workdir": (None, "where results go [runs/NAME-METHOD-mMISMATCH-sSEED]"),
        "override_config": (False, "go on with other values than those stored there"),
        "start_over": (False, "set aside what the workdir has, and begin at step 0"),
        "distributed": (False, "join the other processes of a cluster"),
        "quiet": (False, "no progress, only the summary"),
        "images": ((), "a folder, an image or a .npz file; may be repeated"),
        "output": (None, "the file that predict, evaluate or export writes"),
    },
    modes={
        "train": (
            "config",
            "workdir",
            "override_config",
            "start_over",
            "distributed",
            "quiet",
        ),
        "evaluate": ("workdir", "images", "output", "quiet"),
        "predict": ("workdir", "images", "output", "quiet"),
        "export": ("workdir", "output"),
        "report": ("workdir",),
    },
)


def main(options: commandline.Options) -> int:
    """Does what the mode says, and says how it went."""
    told = options.flags
    if told.quiet:
        messages.hush()
    if told.mode == "train":
        return train(options)
    from upsilon_jax.inference.modes import run_mode

    print(run_mode(told.mode, told.workdir, told.images, told.output))
    return ExitCode.DONE


def train(options: commandline.Options) -> int:
    """Trains, and says how it went."""
    # After the flags are parsed: a mistyped flag should not wait for these imports.
    import upsilon_jax
    from upsilon_jax.workdir.place import local_path
    from upsilon_jax.workdir.schema import DIVERGED
    from upsilon_jax.workdir.summary import summary

    if options.flags.distributed:
        import jax

        jax.distributed.initialize()
    name = commandline.run_name(options.config_name, options.config)
    workdir = local_path(options.flags.workdir or f"runs/{name}")
    result = upsilon_jax.train(
        options.config,
        workdir,
        override_config=options.flags.override_config,
        start_over=options.flags.start_over,
    )
    print(summary(result, workdir))
    return ExitCode.DIVERGED if result["status"] == DIVERGED else ExitCode.DONE
