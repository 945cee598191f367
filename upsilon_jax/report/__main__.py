"""A table of the runs below a folder:  python -m upsilon_jax.report runs/sweep."""

import argparse
import pathlib
import sys

from upsilon_jax.report.tables import accuracy_table, read_results


def main() -> None:
    """Prints Markdown."""
    parser = argparse.ArgumentParser(prog="upsilon_jax.report", description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cost_of", help="add step times relative to this method")
    args = parser.parse_args()
    folder = args.folder
    try:
        print(accuracy_table(read_results(folder), args.cost_of))
    except ValueError as error:
        sys.exit(f"upsilon_jax.report: {folder}: {error}")


if __name__ == "__main__":
    main()
