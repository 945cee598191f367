"""The one writer of CSV files: RFC 4180, UTF-8 without a byte-order mark."""

from __future__ import annotations

import csv
import math
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from upsilon_jax.workdir.whole import written_whole

# A spreadsheet takes text that begins so for a formula, and would run it; those of some
# languages do so of full-width signs, too. What looks escaped is escaped once more, so
# that there is a way back: to remove one apostrophe wherever this matches after it.
_FORMULA = re.compile("'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]")


def write_csv(
    path: pathlib.Path, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Writes a table, whole or not at all.

    Text that begins a formula gets an apostrophe before it. None and NaN are empty,
    False and True are 0 and 1; a path that is no valid UTF-8 is written with escapes.

    Args:
      path: of the file; its folder must be there.
      header: a name for each column.
      rows: a cell for each column: text, a number, a truth value or None.
    """
    with (
        written_whole(path) as partial,
        open(
            partial, "w", encoding="utf-8", errors="backslashreplace", newline=""
        ) as f,
    ):
        writer = csv.writer(f)  # its line ends are those of RFC 4180
        writer.writerow(header)
        for row in rows:
            writer.writerow([_cell(value) for value in row])


def escaped(text: str) -> str:
    """Text as a cell that begins no formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return escaped(value)
    if value is None or math.isnan(value):
        return ""
    return str(int(value) if isinstance(value, bool | np.bool_) else value)
