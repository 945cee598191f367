"""`index.html`: a folder of runs as a table that can be sorted, with their reports."""

from __future__ import annotations

import os
import pathlib
import urllib.parse
from typing import NamedTuple

from upsilon_jax.errors import UserError
from upsilon_jax.report.page import markup
from upsilon_jax.report.page.markup import Child, Markup, scrolling, tag
from upsilon_jax.report.page.phrases import (
    count,
    data_name,
    method_title,
    percent,
)
from upsilon_jax.workdir.files import REPORT, RESULT
from upsilon_jax.workdir.records import read
from upsilon_jax.workdir.saved import files_below
from upsilon_jax.workdir.schema import FINISHED, Result
from upsilon_jax.workdir.whole import written_whole

INDEX = "index.html"

Row = dict[str, "Cell"]  # by the heading of its column


class Cell(NamedTuple):
    """What a cell shows, and the number to sort it by; "" comes last."""

    shown: Child
    value: float | str | None = None  # None: sorted by what it shows


def write_index(folder: pathlib.Path) -> pathlib.Path:
    """Makes `index.html` of all runs below a folder; returns its path.

    Raises:
      UserError: there are none, or a result is damaged.
    """
    folder = pathlib.Path(folder)
    paths = files_below(folder, RESULT)
    if not paths:
        raise UserError(f"{folder}: no {RESULT} found")
    runs = [(path.parent, read(Result, path)) for path in paths]
    rows = [_row(folder, workdir, result) for workdir, result in runs]
    title = f"{count(len(runs), 'run')} in {folder.resolve().name}"
    page = markup.page(
        title,
        tag("header", tag("p", "Runs", class_="kicker"), tag("h1", title)),
        tag("main", scrolling("Runs", _table(rows))),
        script=markup.asset("page.js"),
    )
    with written_whole(folder / INDEX) as partial:
        partial.write_text(page, "utf-8")
    return folder / INDEX


def _row(folder: pathlib.Path, workdir: pathlib.Path, result: Result) -> Row:
    config = result.config
    mismatch = config["data"].get("mismatch")
    done = result.status == FINISHED
    foreign = result.foreign
    return {
        "run": Cell(_link(folder, workdir)),
        "data": Cell(data_name(config["data"])),
        "method": Cell(method_title(config["method"]["name"])),
        "mismatch": _share(mismatch, 0),
        "seed": Cell(count(result.seed), result.seed),
        "epochs": Cell(count(len(result.history)), len(result.history)),
        "accuracy": _share(result.accuracy) if done else Cell(result.status, ""),
        "AUROC": _share(result.auroc),
        "foreign images": _share(foreign and foreign.share, 0),
    }


def _link(folder: pathlib.Path, workdir: pathlib.Path) -> Markup | str:
    """The name of a run, which leads to its report if there is one."""
    name = workdir.relative_to(folder).as_posix()
    if not (workdir / REPORT).exists():
        return name if name != "." else folder.resolve().name
    place = os.fsencode((workdir / REPORT).relative_to(folder).as_posix())
    return tag("a", name, href=f"./{urllib.parse.quote(place)}")


def _share(value: float | None, digits: int = 1) -> Cell:
    return Cell("—", "") if value is None else Cell(percent(value, digits), value)


def _table(rows: list[Row]) -> Markup:
    """The table; columns that say nothing of any run are left out."""
    names = [name for name in rows[0] if any(row[name].shown != "—" for row in rows)]
    first, *rest = names
    body = [
        tag(
            "tr",
            tag("th", row[first].shown, scope="row"),
            [tag("td", row[name].shown, data_value=row[name].value) for name in rest],
        )
        for row in rows
    ]
    return tag(
        "table",
        tag("caption", "A click on a heading sorts; a second one turns it around."),
        tag("thead", tag("tr", [tag("th", name, scope="col") for name in names])),
        tag("tbody", body),
        class_="sortable",
    )
