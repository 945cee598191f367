"""A table of the runs below a folder:  python -m upsilon_jax.report DIR."""

import pathlib

from upsilon_jax import commandline
from upsilon_jax.report.index import write_index
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
    results = read_results(pathlib.Path(options.argument))
    print(accuracy_table(results, options.flags.cost_of))
    print(f"\nAll runs with their reports: {write_index(options.argument)}")


if __name__ == "__main__":
    commandline.run(COMMAND, main)
