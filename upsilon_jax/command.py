"""Trains a config, or goes on with it:  python main.py --config=configs/tin.py:upsilon.

Without any flag: the Υ-Model on the embedded handwritten digits. `--config` files are
executed as Python, so run only those you trust. Installed, the command is `upsilon-jax`
instead of `python main.py`. Other modes use a run that was trained:

    python main.py --mode=predict|evaluate --workdir=RUN --images=DIR [--output=FILE]
    python main.py --mode=export --workdir=RUN [--output=FILE]
    python main.py --mode=report --workdir=RUN
"""

from upsilon_jax import commandline
from upsilon_jax.errors import ExitCode
from upsilon_jax.runtime import cluster, messages, parent

COMMAND = commandline.Command(
    name="main.py",
    about=__doc__,
    flags={
        "workdir": (None, "where results go [runs/NAME-METHOD-mMISMATCH-sSEED]"),
        "override_config": (False, "go on with other values than those stored there"),
        "start_over": (False, "set aside what the workdir has, and begin at step 0"),
        "distributed": (False, "join the other processes that a scheduler started"),
        "coordinator": (None, "without a scheduler: HOST:PORT of the first process"),
        "num_processes": (None, "how many there are"),
        "process_index": (None, "which of them this is, from 0 on"),
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
            "coordinator",
            "num_processes",
            "process_index",
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
    """Trains, alone or as one process of several, and says how it went."""
    told = options.flags
    place = cluster.parse_place(
        told.coordinator, told.num_processes, told.process_index
    )
    if not told.distributed and not any(value is not None for value in place):
        return train_here(options)
    if not parent.is_child():
        return parent.wait_for_child()
    with cluster.joined(place):
        return train_here(options)


def train_here(options: commandline.Options) -> int:
    """Trains in this process."""
    # After the flags are parsed: a mistyped flag should not wait for these imports.
    import upsilon_jax
    from upsilon_jax.config import run_name
    from upsilon_jax.workdir.place import local_path
    from upsilon_jax.workdir.schema import DIVERGED
    from upsilon_jax.workdir.summary import summary

    name = run_name(options.config_name, options.config)
    workdir = local_path(options.flags.workdir or f"runs/{name}")
    result = upsilon_jax.train(
        options.config,
        workdir,
        override_config=options.flags.override_config,
        start_over=options.flags.start_over,
    )
    print(summary(result, workdir))
    return ExitCode.DIVERGED if result["status"] == DIVERGED else ExitCode.DONE
