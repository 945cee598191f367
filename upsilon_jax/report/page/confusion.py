"""Which classes are taken for which."""

from __future__ import annotations

import numpy as np

from upsilon_jax.report.page.bars import MANY, Bar, bar_chart
from upsilon_jax.report.page.markup import Child, Markup, scrolling, tag
from upsilon_jax.report.page.phrases import count, percent
from upsilon_jax.report.page.run_files import RunFiles

_CONFUSIONS = 40  # shown where there are too many classes for a matrix


def confusion(run: RunFiles) -> list[Child]:
    """True classes against predicted ones, or the commonest confusions of many."""
    matrix = np.asarray(run.result.confusion)
    names, columns = run.result.classes, run.manifest.classes
    if len(columns) > MANY:
        return [_commonest(matrix, names, columns)]
    rows = []
    for i, (name, counts) in enumerate(zip(names, matrix, strict=True)):
        total = int(counts.sum())
        if not total:
            continue
        cells = []
        for j, number in enumerate(counts.tolist()):
            share = number / total
            hue = "right" if i == j else "foreign" if i >= len(columns) else "wrong"
            strong = " strong" if share > 0.55 else ""
            style = f"--p:{100 * share:.0f}%"
            text = count(number) if number else tag("span", 0, class_="muted")
            title = f"{name} → {columns[j]}: {number:,}, {percent(share)}"
            cells.append(tag("td", text, class_=hue + strong, style=style, title=title))
        kind = "foreign" if i >= len(columns) else None
        right = percent(counts[i] / total, 0) if i < len(columns) else "—"
        head = tag("th", name, scope="row", class_=kind, title=name)
        rows.append(tag("tr", head, cells, tag("td", right, class_="total")))
    header = [tag("th", tag("span", c), scope="col", title=c) for c in columns]
    shown = tag(
        "table",
        tag("thead", tag("tr", tag("td"), header, tag("th", "right", scope="col"))),
        tag("tbody", rows),
        class_="confusion" if max(map(len, columns)) <= 3 else "confusion tilted",
    )
    return [scrolling("Confusion matrix", shown)]


def _commonest(matrix: np.ndarray, names: list[str], columns: list[str]) -> Markup:
    mistakes = matrix[: len(columns)].copy()
    np.fill_diagonal(mistakes, 0)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:_CONFUSIONS]
    rows = []
    for true, predicted in zip(*np.unravel_index(order, mistakes.shape), strict=True):
        number = int(mistakes[true, predicted])
        if number:
            name = f"{names[true]} → {columns[predicted]}"
            rows.append(Bar(name, [(number, 4)], f"{number:,}"))
    return bar_chart("The commonest confusions", "true → predicted", rows, [])
