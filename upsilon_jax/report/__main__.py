"""A table of the runs below a folder:  python -m upsilon_jax.report DIR."""

import pathlib

from upsilon_jax import commandline
from upsilon_jax.errors import UserError
from upsilon_jax.report.foreign import foreign_table
from upsilon_jax.report.tables import accuracy_table, read_results

COMMAND = commandline.Command(
    name="python -m upsilon_jax.report",
    about=__doc__,
    flags={
        "table": ("accuracy", "accuracy, or foreign: true and estimated share of it"),
        "cost_of": (None, "a method; adds step times relative to its"),
    },
    argument="DIR",
    takes_config=False,
)


def main(options: commandline.Options) -> None:
    """Prints Markdown."""
    results = read_results(pathlib.Path(options.argument))
    tables = {
        "accuracy": lambda: accuracy_table(results, options.flags.cost_of),
        "foreign": lambda: foreign_table(results),
    }
    if options.flags.table not in tables:
        known = ", ".join(tables)
        raise UserError(f"--table={options.flags.table}: must be one of {known}")
    print(tables[options.flags.table]())


if __name__ == "__main__":
    commandline.run(COMMAND, main)
