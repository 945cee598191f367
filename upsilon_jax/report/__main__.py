"""A table of the runs below a folder:  python -m upsilon_jax.report DIR."""

import pathlib

from upsilon_jax import commandline
from upsilon_jax.errors import WorkdirError
from upsilon_jax.report.tables import accuracy_table, read_results

COMMAND = commandline.Command(
    name="python -m upsilon_jax.report",
    about=__doc__,
    flags={"cost_of": (None, "a method; adds step times relative to its")},
    argument="DIR",
    takes_config=False,
)


def main(options: commandline.Options) -> None:
    """Prints Markdown."""
    folder = pathlib.Path(options.argument)
    results = read_results(folder)
    if not results:
        raise WorkdirError(f"{folder}: no result.json found")
    print(accuracy_table(results, options.flags.cost_of))


if __name__ == "__main__":
    commandline.run(COMMAND, main)
